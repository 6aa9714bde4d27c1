//! Which paths of a sandbox are kept, where they go, and what of them is left out.

use std::io;

use globset::GlobBuilder;
use sandbox::{Archive, append_entry};
use tar::EntryType;

use crate::files::plain_name;

/// Always collected, whether a task declares it or not.
pub(super) const PUBLISHED: &str = "/logs/artifacts";

/// The absolute path of a source, with one slash between plain parts.
pub(super) fn absolute(source: &str, workdir: &str) -> String {
    let joined = if source.starts_with('/') { source.to_owned() } else { format!("{workdir}/{source}") };
    let parts: Vec<_> = joined.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    format!("/{}", parts.join("/"))
}

/// Whether a destination lies at or below one that was taken before: the first entry wins.
pub(super) fn is_taken(taken: &[String], destination: &str) -> bool {
    taken.iter().any(|earlier| {
        destination
            .strip_prefix(earlier.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Patterns as `tar --exclude` reads them: they match from any part of a name on, `*` and `?` also match slashes, and what is
/// below a match is left out with it.
#[derive(Debug)]
pub(super) struct Excludes(Vec<globset::GlobMatcher>);

impl Excludes {
    /// Reads the patterns. One that is none stands for itself.
    pub(super) fn new(patterns: &[String]) -> Self {
        let matcher = |pattern: &String| {
            let pattern = pattern.trim_start_matches("./").trim_matches('/');
            // Braces mean nothing to tar.
            let plain = pattern.replace('{', "[{]").replace('}', "[}]");
            let glob = |text: &str| {
                GlobBuilder::new(text).literal_separator(false).backslash_escape(true).build().ok()
            };
            glob(&plain).or_else(|| glob(&globset::escape(pattern))).map(|glob| glob.compile_matcher())
        };
        Self(patterns.iter().filter_map(matcher).collect())
    }

    /// Whether the entry of this relative name is left out.
    pub(super) fn cover(&self, name: &str) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let starts = std::iter::once(0).chain(name.match_indices('/').map(|(at, _)| at + 1));
        let mut ends: Vec<_> = name.match_indices('/').map(|(at, _)| at).collect();
        ends.push(name.len());
        starts.into_iter().any(|start| {
            ends.iter()
                .filter(|end| **end > start)
                .any(|end| self.0.iter().any(|matcher| matcher.is_match(&name[start..*end])))
        })
    }
}

/// What of an archive may enter another sandbox: files, directories, and links that stay inside.
pub(super) fn for_crossing(archive: &Archive, excludes: &Excludes) -> io::Result<Archive> {
    Archive::pack(|builder| {
        for entry in archive.as_tar().entries()? {
            let entry = entry?;
            let path = entry.path()?.into_owned();
            let Some(name) = plain_name(&path).filter(|name| !excludes.cover(name)) else { continue };
            let mut header = tar::Header::new_gnu();
            header.set_mode(entry.header().mode()? & 0o777);
            header.set_uid(0);
            header.set_gid(0);
            header.set_mtime(entry.header().mtime().unwrap_or(0));
            header.set_size(0);
            match entry.header().entry_type() {
                EntryType::Directory => {
                    header.set_entry_type(EntryType::Directory);
                    append_entry(builder, &mut header, &path, None, io::empty())?;
                }
                EntryType::Symlink => {
                    let Some(target) = entry.link_name()?.map(std::borrow::Cow::into_owned) else { continue };
                    if stays_inside(&name, &target.to_string_lossy()) {
                        header.set_entry_type(EntryType::Symlink);
                        append_entry(builder, &mut header, &path, Some(&target), io::empty())?;
                    }
                }
                kind if kind.is_file() => {
                    header.set_size(entry.size());
                    append_entry(builder, &mut header, &path, None, entry)?;
                }
                _ => {}
            }
        }
        Ok(())
    })
}

/// Whether a link of this name leads to something below the directory that the name is relative to. It may climb only at its
/// start, where all that it leaves are real directories: behind a name a climb would begin wherever a link of that name leads.
fn stays_inside(name: &str, target: &str) -> bool {
    if target.starts_with('/') {
        return false;
    }
    let mut parts = target.split('/').filter(|part| !part.is_empty() && *part != ".").peekable();
    let mut climbed = 0;
    while parts.next_if_eq(&"..").is_some() {
        climbed += 1;
    }
    climbed <= name.matches('/').count() && parts.all(|part| part != "..")
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn sources_become_absolute_and_plain() {
        for (source, workdir, path) in [
            ("/a//b/./c/", "/w", "/a/b/c"),
            ("out", "/w", "/w/out"),
            ("./out/x", "/", "/out/x"),
            (".", "/w", "/w"),
        ] {
            assert_eq!(absolute(source, workdir), path);
        }
    }

    #[test]
    fn the_first_entry_wins() {
        let taken = ["artifacts/app".to_owned()];
        for (destination, is) in [
            ("artifacts/app", true),
            ("artifacts/app/out", true),
            ("artifacts/apple", false),
            ("artifacts", false),
        ] {
            assert_eq!(is_taken(&taken, destination), is, "{destination}");
        }
    }

    #[test]
    fn patterns_are_read_as_tar_reads_them() {
        let cover = |pattern: &str, name: &str| Excludes::new(&[pattern.to_owned()]).cover(name);
        for (pattern, name) in [
            ("*.pyc", "a/b/c.pyc"),
            ("node_modules", "web/node_modules/x/index.js"),
            ("web/*", "web/deep/file"),
            ("./cache/", "cache/x"),
            ("a?c", "abc"),
            ("[ab].txt", "x/a.txt"),
            ("{a}", "{a}/file"),
            ("[", "["),
        ] {
            assert!(cover(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("node_modules", "web/node_modules_old/x"),
            ("*.pyc", "a/b/c.py"),
            ("b/c", "a/bb/c"),
            ("{a,b}", "a"),
        ] {
            assert!(!cover(pattern, name), "{pattern} {name}");
        }
        assert!(!Excludes::new(&[]).cover("a"));
    }

    #[test]
    fn only_what_stays_inside_crosses_over() {
        let archive = Archive::pack(|builder| {
            let header = |kind, size| {
                let mut header = tar::Header::new_gnu();
                header.set_entry_type(kind);
                header.set_mode(0o4755);
                header.set_size(size);
                header
            };
            builder.append_data(&mut header(EntryType::Directory, 0), "d", io::empty())?;
            builder.append_data(&mut header(EntryType::Regular, 1), "d/file", &b"1"[..])?;
            builder.append_data(&mut header(EntryType::Regular, 1), "d/skip.pyc", &b"2"[..])?;
            builder.append_link(&mut header(EntryType::Symlink, 0), "d/inside", "../d/file")?;
            builder.append_link(&mut header(EntryType::Symlink, 0), "d/out", "../../etc/passwd")?;
            builder.append_link(&mut header(EntryType::Symlink, 0), "root", "/etc/passwd")?;
            // Each stays inside by its text alone; together they lead out.
            builder.append_link(&mut header(EntryType::Symlink, 0), "here", ".")?;
            builder.append_link(
                &mut header(EntryType::Symlink, 0),
                "through",
                "here/here/../../etc/passwd",
            )?;
            builder.append_link(&mut header(EntryType::Symlink, 0), "d/up", "..")?;
            builder.append_link(&mut header(EntryType::Symlink, 0), "around", "d/up/d/up/../etc/passwd")?;
            builder.append_data(&mut header(EntryType::Fifo, 0), "pipe", io::empty())
        })
        .unwrap();
        let crossed = for_crossing(&archive, &Excludes::new(&["*.pyc".to_owned()])).unwrap();
        let mut seen = Vec::new();
        for entry in crossed.as_tar().entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            assert_eq!(entry.header().mode().unwrap(), 0o755);
            seen.push((entry.path().unwrap().display().to_string(), text));
        }
        let expected = [("d", ""), ("d/file", "1"), ("d/inside", ""), ("here", ""), ("d/up", "")];
        assert_eq!(seen, expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
    }
}
