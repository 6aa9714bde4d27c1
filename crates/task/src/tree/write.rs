//! Writes a tree as a tar archive whose bytes depend on the tree alone.

use super::model::{Entry, Tree};

const BLOCK: usize = 512;

/// One member of a reproducible archive.
pub(crate) struct Member<'a> {
    pub(crate) path: &'a [u8],
    pub(crate) mode: u32,
    pub(crate) kind: MemberKind<'a>,
}

pub(crate) enum MemberKind<'a> {
    Directory,
    File(&'a [u8]),
    Link(&'a [u8]),
}

impl Tree {
    /// Writes the tree as an uncompressed ustar archive: members in ascending order of path, directories in front of
    /// what they hold, owner 0:0 without names, time 0, modes 0755 and 0644. What does not fit into a ustar header goes
    /// into a pax header in front of it.
    pub fn to_tar(&self) -> Vec<u8> {
        let mut archive = ArchiveBytes::default();
        archive.tree(self);
        archive.finish()
    }
}

/// A tar archive that grows.
#[derive(Default)]
pub(crate) struct ArchiveBytes {
    bytes: Vec<u8>,
}

impl ArchiveBytes {
    /// Adds every entry of a tree, with its directories.
    pub(crate) fn tree(&mut self, tree: &Tree) {
        let mut last: Vec<u8> = Vec::new();
        for (path, entry) in tree.iter() {
            let cuts = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(cut, _)| cut);
            for cut in cuts {
                let directory = &path[..=cut];
                // Sorted by whole path, the members of one directory stand together up to names such as `a-b` beside
                // `a/`; a directory that comes up again is written again, which unpacks the same.
                if !last.starts_with(directory) {
                    self.member(&Member { path: directory, mode: 0o755, kind: MemberKind::Directory });
                }
            }
            last = path.to_vec();
            self.member(&match entry {
                Entry::File { content, executable } => Member {
                    path,
                    mode: if *executable { 0o755 } else { 0o644 },
                    kind: MemberKind::File(content),
                },
                Entry::Link { target } => Member { path, mode: 0o777, kind: MemberKind::Link(target) },
            });
        }
    }

    /// Adds one member; a directory's path ends in a slash.
    pub(crate) fn member(&mut self, member: &Member<'_>) {
        let (flag, content, target) = match member.kind {
            MemberKind::Directory => (b'5', &b""[..], &b""[..]),
            MemberKind::File(content) => (b'0', content, &b""[..]),
            MemberKind::Link(target) => (b'2', &b""[..], target),
        };
        let name = split_name(member.path);
        let mut extra = Vec::new();
        if name.is_none() {
            pax_record(&mut extra, b"path", member.path);
        }
        if target.len() > 100 {
            pax_record(&mut extra, b"linkpath", target);
        }
        if content.len() as u64 >= 1 << 33 {
            pax_record(&mut extra, b"size", content.len().to_string().as_bytes());
        }
        if !extra.is_empty() {
            self.header((b"", b"././@PaxHeader"), 0o644, extra.len() as u64, b'x', b"");
            self.content(&extra);
        }
        let short = name.unwrap_or((b"", &member.path[..member.path.len().min(100)]));
        self.header(short, member.mode, content.len() as u64, flag, &target[..target.len().min(100)]);
        self.content(content);
    }

    fn header(&mut self, (prefix, name): (&[u8], &[u8]), mode: u32, size: u64, flag: u8, target: &[u8]) {
        let mut block = [0; BLOCK];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, name);
        put(100, format!("{mode:07o}\0").as_bytes());
        put(108, b"0000000\0");
        put(116, b"0000000\0");
        put(124, format!("{:011o}\0", size & 0o77_777_777_777).as_bytes());
        put(136, b"00000000000\0");
        put(148, b"        ");
        put(156, &[flag]);
        put(157, target);
        put(257, b"ustar\x0000");
        put(329, b"0000000\0");
        put(337, b"0000000\0");
        put(345, prefix);
        let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.bytes.extend_from_slice(&block);
    }

    fn content(&mut self, content: &[u8]) {
        self.bytes.extend_from_slice(content);
        let padding = content.len().next_multiple_of(BLOCK) - content.len();
        self.bytes.extend(std::iter::repeat_n(0, padding));
    }

    /// The archive with its end marker.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.bytes.extend([0; 2 * BLOCK]);
        self.bytes
    }
}

/// Splits a path into the prefix and name fields of a ustar header, or `None` when it does not fit.
fn split_name(path: &[u8]) -> Option<(&[u8], &[u8])> {
    if path.len() <= 100 {
        return Some((b"", path));
    }
    let cuts = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(cut, _)| cut);
    let mut fitting =
        cuts.filter(|&cut| cut <= 155 && cut > 0 && (1..=100).contains(&(path.len() - cut - 1)));
    fitting.next().map(|cut| (&path[..cut], &path[cut + 1..]))
}

/// Adds one `length key=value\n` record, the length counting itself.
fn pax_record(into: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    into.extend(length.to_string().as_bytes());
    into.push(b' ');
    into.extend(key);
    into.push(b'=');
    into.extend(value);
    into.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::archive::TreeLimits;
    use super::*;

    fn tree(paths: &[String]) -> Tree {
        let mut tree = Tree::new();
        for path in paths {
            tree.insert(path.as_str(), Entry::file(path.as_bytes())).unwrap();
        }
        tree
    }

    #[test]
    fn what_is_written_reads_back_equal() {
        let deep = format!("{}/{}", "d".repeat(120), "f".repeat(90));
        let long = "n".repeat(240);
        let mut tree = tree(&["a-b".into(), "a/x".into(), "ä/日本".into(), deep, long]);
        tree.insert("run", Entry::File { content: b"#!"[..].into(), executable: true }).unwrap();
        tree.insert("link", Entry::Link { target: b"a/x".to_vec() }).unwrap();
        tree.insert("far", Entry::Link { target: format!("{}/x", "t".repeat(130)).into_bytes() }).unwrap();
        tree.insert(&b"odd\xff"[..], Entry::file(*b"")).unwrap();
        let bytes = tree.to_tar();
        assert_eq!(bytes.len() % BLOCK, 0);
        assert_eq!(Tree::from_tar(bytes.as_slice(), Path::new("x"), TreeLimits::default()).unwrap(), tree);
        assert_eq!(tree.clone().to_tar(), bytes);
    }

    proptest::proptest! {
        #[test]
        fn any_names_survive(names in proptest::collection::btree_set("[a-c/]{1,4}|[a-z]{90,300}", 0..12)) {
            let mut tree = Tree::new();
            for name in names {
                drop(tree.insert(name.as_str(), Entry::file(name.as_bytes())));
            }
            let read = Tree::from_tar(tree.to_tar().as_slice(), Path::new("x"), TreeLimits::default()).unwrap();
            proptest::prop_assert_eq!(read, tree);
        }
    }
}
