//! What a packed git repository still knows beside the commit that is checked out.
//!
//! Looks at names, references, reflogs and all commits, loose and packed. Where a pack could not be read whole, that is
//! said, so that nobody takes silence for proof. Trees and blobs that no commit holds are not looked for.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use flate2::read::ZlibDecoder;
use task::git::{self, Budget};
use task::printable;

use crate::facts::Facts;
use crate::lines::{file_name, text};
use crate::view::{Entry, MemberKind};

/// Commits are read up to this size; the parents stand at their beginning.
const MAX_COMMIT: u64 = 64 << 10;
/// No more than this is inflated of one pack.
const MAX_INFLATED: u64 = 512 << 20;

/// The `.git` directory of a repository in the build context.
#[derive(Debug, Default)]
pub(crate) struct GitStore<'a> {
    /// Its files by their path inside `.git`; content where it was kept.
    files: BTreeMap<&'a [u8], Option<&'a [u8]>>,
}

/// What was found in one repository.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Traces {
    /// Names that lead to other commits than the one checked out, one sentence each.
    pub(crate) leads: Vec<String>,
    /// Commits in front of the one checked out that can be read.
    pub(crate) ancestors: usize,
    /// Packs that were not kept or could not be read, or that store objects as differences.
    pub(crate) unread: usize,
}

/// The repositories of the build context: the file that holds each (an archive, or the `.git` directory itself), the
/// path inside an archive, and the store.
pub(crate) fn stores<'a>(facts: &Facts<'a>) -> BTreeMap<(&'a [u8], &'a [u8]), GitStore<'a>> {
    let mut stores: BTreeMap<(&[u8], &[u8]), GitStore<'_>> = BTreeMap::new();
    for (path, file) in facts.view.files_below(b"environment") {
        if let Some((top, inside)) = split_at_git(path) {
            stores.entry((top, b"")).or_default().files.insert(inside, file.content.as_deref());
        }
        for member in file.archive.iter().flat_map(|archive| &archive.members) {
            if member.kind == MemberKind::File
                && let Some((top, inside)) = split_at_git(&member.path)
            {
                stores.entry((path, top)).or_default().files.insert(inside, member.content.as_deref());
            }
        }
    }
    stores
}

/// The outermost `.git` directories of the build context that are not inside an archive.
pub(crate) fn nested_repositories<'a>(facts: &Facts<'a>) -> impl Iterator<Item = &'a [u8]> {
    let found = |(path, entry): (&'a Vec<u8>, &'a Entry)| {
        (*entry == Entry::Directory && file_name(path) == b".git").then_some(path.as_slice())
    };
    facts.view.entries.iter().filter_map(found).filter(|path| split_at_git(path).is_none())
}

/// Parts a path behind its first `.git` component.
fn split_at_git(path: &[u8]) -> Option<(&[u8], &[u8])> {
    memchr::memmem::find(path, b".git")?;
    let mut start = 0;
    for part in path.split(|&b| b == b'/') {
        let end = start + part.len();
        if part == b".git" {
            return Some((&path[..end], path.get(end + 1..)?));
        }
        start = end + 1;
    }
    None
}

impl GitStore<'_> {
    fn text(&self, path: &[u8]) -> Option<String> {
        Some(text((*self.files.get(path)?)?).trim().to_owned())
    }

    /// References that lie in one file for all.
    fn packed_refs(&self) -> Vec<(String, String)> {
        let text = self.text(b"packed-refs").unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.filter(|(id, _)| is_id(id)).map(|(id, name)| (name.to_owned(), id.to_owned())).collect()
    }

    /// The name and the commit that are checked out, as far as they can be told.
    fn head(&self) -> (Option<String>, Option<String>) {
        let Some(head) = self.text(b"HEAD") else { return (None, None) };
        let Some(name) = head.strip_prefix("ref:").map(|name| name.trim().to_owned()) else {
            return (None, is_id(&head).then_some(head));
        };
        let packed = || self.packed_refs().into_iter().find(|(packed, _)| *packed == name).map(|(_, id)| id);
        let id = self.text(name.as_bytes()).filter(|id| is_id(id)).or_else(packed);
        (Some(name), id)
    }

    /// Everything that leads elsewhere than to the commit that is checked out.
    pub(crate) fn traces(&self) -> Traces {
        let (branch, head) = self.head();
        let elsewhere = |id: &str| is_id(id) && Some(id) != head.as_deref() && id.bytes().any(|b| b != b'0');
        let mut leads = Vec::new();
        for path in self.files.keys().filter(|path| path.starts_with(b"refs/")) {
            let name = printable(path);
            if let Some(id) = self.text(path).filter(|id| branch.as_ref() != Some(&name) && elsewhere(id)) {
                leads.push(format!("the reference `{name}` leads to commit {}", short(&id)));
            }
        }
        for (name, id) in self.packed_refs() {
            if branch.as_ref() != Some(&name) && elsewhere(&id) {
                leads.push(format!(
                    "the packed reference `{}` leads to commit {}",
                    printable(name.as_bytes()),
                    short(&id)
                ));
            }
        }
        for (path, content) in self.files.iter().filter(|(path, _)| path.starts_with(b"logs/")) {
            let text = content.map(text).unwrap_or_default();
            let ids = text.lines().flat_map(|line| line.split(' ').take(2));
            let others: BTreeSet<&str> = ids.filter(|id| elsewhere(id)).collect();
            if !others.is_empty() || content.is_none() {
                leads.push(format!(
                    "the reflog `{}` names {} other commits",
                    printable(path),
                    others.len().max(1)
                ));
            }
        }
        for name in
            ["ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_START"]
        {
            let text = self.text(name.as_bytes()).unwrap_or_default();
            if let Some(id) = text.split_whitespace().find(|word| elsewhere(word)) {
                leads.push(format!("`{name}` names commit {}", short(id)));
            }
        }
        if self.files.contains_key(&b"objects/info/alternates"[..]) {
            leads.push("`objects/info/alternates` borrows objects from another repository".to_owned());
        }
        let mut commits = self.loose_commits();
        let mut unread = 0;
        for (path, content) in &self.files {
            if path.starts_with(b"objects/pack/") && path.ends_with(b".pack") {
                let index = [&path[..path.len() - b"pack".len()], b"idx"].concat();
                let index = self.files.get(index.as_slice()).copied().flatten();
                let pack =
                    content.and_then(|pack| git::commits(pack, index, &mut Budget::new(MAX_INFLATED)).ok());
                unread += usize::from(pack.as_ref().is_none_or(|pack| pack.differences > 0));
                let text = |ids: Vec<git::ObjectId>| ids.iter().map(ToString::to_string).collect();
                let whole = pack.into_iter().flat_map(|pack| pack.whole);
                commits.extend(whole.map(|(id, parents)| (id.to_string(), text(parents))));
            }
        }
        let (ancestors, others) = sorted_out(&commits, head.as_deref(), unread > 0);
        leads.extend(
            others.iter().map(|id| {
                format!("commit {} is stored and is no ancestor of the one checked out", short(id))
            }),
        );
        Traces { leads, ancestors, unread }
    }

    /// The loose commits with their parents.
    fn loose_commits(&self) -> BTreeMap<String, Vec<String>> {
        let loose = self.files.iter().filter_map(|(path, content)| {
            let (folder, rest) = path.strip_prefix(b"objects/")?.split_at_checked(2)?;
            let id =
                String::from_utf8([folder, rest.strip_prefix(b"/")?].concat()).ok().filter(|id| is_id(id))?;
            Some((id, loose_parents((*content)?)?))
        });
        loose.collect()
    }
}

/// The parents of a loose object that is a commit.
fn loose_parents(object: &[u8]) -> Option<Vec<String>> {
    let mut inflater = ZlibDecoder::new(object);
    let mut start = [0; 7];
    inflater.read_exact(&mut start).ok().filter(|()| start == *b"commit ")?;
    let mut rest = Vec::new();
    inflater.take(MAX_COMMIT).read_to_end(&mut rest).ok()?;
    let end = rest.iter().position(|&b| b == 0)?;
    let text = text(&rest[end + 1..]);
    let headers = text.lines().take_while(|line| !line.is_empty());
    Some(headers.filter_map(|line| line.strip_prefix("parent ")).map(str::to_owned).collect())
}

/// How many of `commits` are ancestors of `head`, and which are neither. Where some commits are not known, only those
/// are named that certainly come after `head`.
fn sorted_out<'a>(
    commits: &'a BTreeMap<String, Vec<String>>,
    head: Option<&str>,
    partial: bool,
) -> (usize, Vec<&'a String>) {
    let reach = |start: &str| {
        let mut reached = BTreeSet::new();
        let mut open = vec![start.to_owned()];
        while let Some(id) = open.pop() {
            open.extend(commits.get(&id).into_iter().flatten().filter(|id| !reached.contains(*id)).cloned());
            reached.insert(id);
        }
        reached
    };
    let known = head.map(reach).unwrap_or_default();
    let ancestors = commits.keys().filter(|id| known.contains(*id) && Some(id.as_str()) != head).count();
    let strangers = commits.keys().filter(|id| !known.contains(*id));
    let later = |id: &&String| !partial || head.is_some_and(|head| reach(id).contains(head));
    (ancestors, strangers.filter(later).collect())
}

fn is_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn short(id: &str) -> &str {
    &id[..12]
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use git::{Kind, ObjectId};

    use super::*;

    const HEAD: &str = "1111111111111111111111111111111111111111";
    const LATER: &str = "2222222222222222222222222222222222222222";
    const BEFORE: &str = "3333333333333333333333333333333333333333";

    fn commit(parent: Option<&str>) -> Vec<u8> {
        let parent = parent.map(|id| format!("parent {id}\n")).unwrap_or_default();
        let body = format!("tree {HEAD}\n{parent}author x\n\nparent of all\n");
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(format!("commit {}\0{body}", body.len()).as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn traces(files: &[(&str, &[u8])]) -> Traces {
        let files = files.iter().map(|(path, content)| (path.as_bytes(), Some(*content))).collect();
        GitStore { files }.traces()
    }

    #[test]
    fn one_commit_leaves_no_trace() {
        let own = commit(None);
        let object = format!("objects/11/{}", &HEAD[2..]);
        let reflog = format!("{:040} {HEAD} a <a@b.invalid> 1 +0000\tcommit (initial): x\n", 0);
        let clean: [(&str, &[u8]); 5] = [
            ("HEAD", b"ref: refs/heads/main\n"),
            ("refs/heads/main", HEAD.as_bytes()),
            ("refs/tags/v1", HEAD.as_bytes()),
            (&object, &own),
            ("logs/HEAD", reflog.as_bytes()),
        ];
        assert_eq!(traces(&clean), Traces::default());
    }

    #[test]
    fn every_way_to_another_commit_is_named() {
        let (first, second, third) = (commit(None), commit(Some(BEFORE)), commit(Some(HEAD)));
        let paths = [BEFORE, HEAD, LATER].map(|id| format!("objects/{}/{}", &id[..2], &id[2..]));
        let packed =
            format!("# pack-refs with: peeled\n{LATER} refs/remotes/origin/dev\n{HEAD} refs/heads/main\n");
        let reflog = format!("{HEAD} {LATER} a <a@b.invalid> 1 +0000\tcommit: x\n");
        let found = traces(&[
            ("HEAD", b"ref: refs/heads/main\n"),
            ("packed-refs", packed.as_bytes()),
            ("refs/tags/v2", LATER.as_bytes()),
            ("logs/HEAD", reflog.as_bytes()),
            ("ORIG_HEAD", LATER.as_bytes()),
            (&paths[0], &first),
            (&paths[1], &second),
            (&paths[2], &third),
        ]);
        assert_eq!(found.ancestors, 1);
        let words =
            ["`refs/tags/v2`", "`refs/remotes/origin/dev`", "`logs/HEAD`", "`ORIG_HEAD`", "no ancestor"];
        assert_eq!(found.leads.len(), words.len(), "{found:?}");
        for (lead, word) in found.leads.iter().zip(words) {
            assert!(lead.contains(word), "{lead}");
        }
    }

    /// A pack of short commits.
    fn pack_of(commits: &[&[u8]]) -> Vec<u8> {
        let mut pack = [b"PACK\0\0\0\x02\0\0\0", &[commits.len() as u8][..]].concat();
        for content in commits {
            pack.extend([1 << 4 | 0x80 | (content.len() & 15) as u8, (content.len() >> 4) as u8]);
            let mut encoder = flate2::write::ZlibEncoder::new(&mut pack, flate2::Compression::fast());
            encoder.write_all(content).unwrap();
            encoder.finish().unwrap();
        }
        pack.extend([0; 20]);
        pack
    }

    #[test]
    fn packed_commits_count_like_loose_ones() {
        let first: &[u8] = b"tree x\n\nfirst\n";
        let id = ObjectId::of(Kind::Commit, first).to_string();
        let later = format!("tree x\nparent {id}\n\nlater\n");
        let (one, two) = (pack_of(&[first]), pack_of(&[first, later.as_bytes()]));
        let found = |pack: &[u8]| traces(&[("HEAD", id.as_bytes()), ("objects/pack/pack-1.pack", pack)]);
        assert_eq!(found(&one), Traces::default());
        let two = found(&two);
        assert_eq!((two.leads.len(), two.ancestors, two.unread), (1, 0, 0));
    }

    #[test]
    fn with_unread_packs_only_later_commits_are_certain() {
        let (later, lone) = (commit(Some(HEAD)), commit(None));
        let paths = [LATER, BEFORE].map(|id| format!("objects/{}/{}", &id[..2], &id[2..]));
        let found = traces(&[
            ("HEAD", HEAD.as_bytes()),
            ("objects/pack/pack-1.pack", b""),
            (&paths[0], &later),
            (&paths[1], &lone),
        ]);
        assert_eq!((found.unread, found.leads.len()), (1, 1));
        assert!(found.leads[0].contains(&LATER[..12]));
    }

    #[test]
    fn git_directories_are_told_from_their_likes() {
        assert_eq!(split_at_git(b"a/.git/HEAD"), Some((&b"a/.git"[..], &b"HEAD"[..])));
        assert_eq!(split_at_git(b".git/refs/x"), Some((&b".git"[..], &b"refs/x"[..])));
        assert_eq!(split_at_git(b"a/.github/.git/HEAD"), Some((&b"a/.github/.git"[..], &b"HEAD"[..])));
        for path in [&b"a/.gitignore"[..], b"a/.git", b".github/x", b"x.git/HEAD", b""] {
            assert_eq!(split_at_git(path), None);
        }
    }
}
