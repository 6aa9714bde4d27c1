//! Applies a patch to a tree: everything, or nothing and the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::model::{FileChange, Hunk, LineKind, Note, Patch, PatchProblem};
use super::path::escape;
use crate::printable;
use crate::tree::{Entry, Tree, TreeError};

const LINK_MODE: u32 = 0o120_000;
const REGULAR_MODES: [u32; 2] = [0o100_644, 0o100_755];

/// What applying a patch did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// Paths that were written or removed.
    pub changed: BTreeSet<Vec<u8>>,
    /// Repairs and offsets.
    pub notes: Vec<Note>,
}

impl Patch {
    /// Applies the patch to `tree`, which stays as it was when any part does not apply.
    pub fn apply_to_tree(&self, tree: &mut Tree) -> Result<Applied, PatchProblem> {
        let mut staged = Staged { tree, changes: BTreeMap::new() };
        let mut notes = self.notes.clone();
        for file in &self.files {
            staged.apply(file, self.line_ends_lost, &mut notes)?;
        }
        let changes = staged.changes;
        let mut result = tree.clone();
        let changed = changes.keys().cloned().collect();
        let (removed, written): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|(_, entry)| entry.is_none());
        for (path, _) in removed {
            result.remove(&path);
        }
        for (path, entry) in written {
            if let Some(entry) = entry {
                let name = printable(&path);
                result.insert(path, entry).map_err(|error| refusal(&name, &error))?;
            }
        }
        *tree = result;
        Ok(Applied { changed, notes })
    }
}

fn refusal(path: &str, error: &TreeError) -> PatchProblem {
    match error {
        TreeError::LinkOutside { .. } | TreeError::Path { .. } => {
            PatchProblem::PathEscape { path: path.to_owned(), reason: error.to_string() }
        }
        other => PatchProblem::DoesNotApply { path: path.to_owned(), hunk: None, reason: other.to_string() },
    }
}

/// The tree with the changes of the files before the current one.
struct Staged<'a> {
    tree: &'a Tree,
    changes: BTreeMap<Vec<u8>, Option<Entry>>,
}

impl Staged<'_> {
    fn get(&self, path: &[u8]) -> Option<&Entry> {
        match self.changes.get(path) {
            Some(change) => change.as_ref(),
            None => self.tree.get(path),
        }
    }

    fn apply(
        &mut self,
        file: &FileChange,
        line_ends_lost: bool,
        notes: &mut Vec<Note>,
    ) -> Result<(), PatchProblem> {
        let name = file.name();
        let fails = |reason: &str| PatchProblem::DoesNotApply {
            path: name.clone(),
            hunk: None,
            reason: reason.to_owned(),
        };
        let before = match &file.old {
            Some(path) => Some(self.get(path).ok_or_else(|| fails("there is no such file"))?.clone()),
            None => None,
        };
        if let Some(new) = &file.new {
            if file.old.as_ref() != Some(new) && self.get(new).is_some() {
                return Err(fails("the file exists already"));
            }
            for (cut, _) in new.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
                if let Some(Entry::Link { .. }) = self.get(&new[..cut]) {
                    return Err(escape(new, "it lies beyond a symbolic link"));
                }
            }
        }
        if let (Some(entry), Some(mode)) = (&before, file.old_mode) {
            let is_link = matches!(entry, Entry::Link { .. });
            if is_link != (mode == LINK_MODE) {
                return Err(fails("it is of another kind than the patch says"));
            }
        }
        let bytes = before.as_ref().map_or(&b""[..], Entry::bytes);
        let after = apply_hunks(bytes, &file.hunks, line_ends_lost, &name, notes)?;
        let Some(new) = &file.new else {
            if !after.is_empty() {
                return Err(fails("lines are left of a file that the patch deletes"));
            }
            if let Some(old) = &file.old {
                self.changes.insert(old.clone(), None);
            }
            return Ok(());
        };
        let entry = entry_after(file, before.as_ref(), after, &name)?;
        if let Some(old) = file.old.as_ref().filter(|old| *old != new && !file.keeps_old) {
            self.changes.insert(old.clone(), None);
        }
        self.changes.insert(new.clone(), Some(entry));
        Ok(())
    }
}

/// The entry that a changed file becomes.
fn entry_after(
    file: &FileChange,
    before: Option<&Entry>,
    after: Vec<u8>,
    name: &str,
) -> Result<Entry, PatchProblem> {
    let keeps = file.new_mode.is_none() || file.new_mode == file.old_mode;
    match (file.new_mode, before) {
        (Some(mode), _) if mode != LINK_MODE && !REGULAR_MODES.contains(&mode) => {
            let what = if mode == 0o160_000 { "a submodule" } else { "something else than a file" };
            Err(PatchProblem::Unsupported { path: name.to_owned(), what: what.to_owned() })
        }
        (Some(LINK_MODE), _) => Ok(Entry::Link { target: after }),
        // The mode in an `index` line only repeats what the file is expected to have.
        (_, Some(Entry::Link { .. })) if keeps => Ok(Entry::Link { target: after }),
        (_, Some(Entry::File { executable, .. })) if keeps => {
            Ok(Entry::File { content: after.into(), executable: *executable })
        }
        (mode, _) => Ok(Entry::File { content: after.into(), executable: mode == Some(0o100_755) }),
    }
}

/// A line of the file while hunks are applied.
#[derive(Clone)]
struct ImageLine {
    text: Arc<[u8]>,
    /// Written by an earlier hunk, so no later one may match it.
    patched: bool,
}

fn apply_hunks(
    bytes: &[u8],
    hunks: &[Hunk],
    line_ends_lost: bool,
    name: &str,
    notes: &mut Vec<Note>,
) -> Result<Vec<u8>, PatchProblem> {
    let mut image: Vec<ImageLine> = bytes
        .split_inclusive(|&b| b == b'\n')
        .map(|line| ImageLine { text: line.into(), patched: false })
        .collect();
    // A file with CRLF line ends under a patch that lost its own difference between LF and CRLF gets its CR back.
    let with_cr = line_ends_lost && bytes.windows(2).any(|pair| pair == b"\r\n");
    for (index, hunk) in hunks.iter().enumerate() {
        let restored = with_cr.then(|| with_carriage_returns(hunk));
        let hunk = restored.as_ref().unwrap_or(hunk);
        let Some((at, offset)) = place(&image, hunk) else {
            return Err(PatchProblem::DoesNotApply {
                path: name.to_owned(),
                hunk: Some(index + 1),
                reason: why_not(&image, hunk),
            });
        };
        if offset != 0 {
            notes.push(Note::Offset { path: name.to_owned(), hunk: index + 1, lines: offset });
        }
        let added = hunk.lines.iter().filter(|line| line.kind != LineKind::Remove);
        let added = added.map(|line| ImageLine { text: line.text.as_slice().into(), patched: true });
        let old_count = hunk.count(LineKind::Remove);
        drop(image.splice(at..at + old_count, added));
    }
    Ok(image.iter().flat_map(|line| line.text.iter().copied()).collect())
}

fn with_carriage_returns(hunk: &Hunk) -> Hunk {
    let mut hunk = hunk.clone();
    for line in &mut hunk.lines {
        if line.text.ends_with(b"\n") && !line.text.ends_with(b"\r\n") {
            line.text.pop();
            line.text.extend(b"\r\n");
        }
    }
    hunk
}

/// Where the hunk matches, and how far that is from where its header says.
///
/// As in git, a hunk from line 1 may match only at the head of the file and one without context behind its last change
/// only at the end; any other is searched for in growing distance, backwards first.
fn place(image: &[ImageLine], hunk: &Hunk) -> Option<(usize, i64)> {
    let wanted: Vec<&[u8]> = old_lines(hunk).collect();
    let at_head = hunk.old_start <= 1;
    let at_end = hunk.lines.last().is_none_or(|line| line.kind != LineKind::Context);
    let last = image.len().checked_sub(wanted.len())?;
    let stated = usize::try_from(hunk.new_start.saturating_sub(1)).ok()?;
    let matches = |at: usize| {
        (!at_head || at == 0)
            && (!at_end || at == last)
            && image[at..at + wanted.len()]
                .iter()
                .zip(&wanted)
                .all(|(line, wanted)| !line.patched && *line.text == **wanted)
    };
    let start = stated.min(last);
    let mut candidates = std::iter::once(start).chain((1..=image.len()).flat_map(|distance| {
        let back = start.checked_sub(distance);
        let forth = start.checked_add(distance).filter(|&at| at <= last);
        back.into_iter().chain(forth)
    }));
    let at = candidates.find(|&at| matches(at))?;
    let offset = i64::try_from(at).ok()? - i64::try_from(stated).ok()?;
    Some((at, offset))
}

fn old_lines(hunk: &Hunk) -> impl Iterator<Item = &[u8]> {
    hunk.lines.iter().filter(|line| line.kind != LineKind::Add).map(|line| line.text.as_slice())
}

/// The likeliest reason, for people.
fn why_not(image: &[ImageLine], hunk: &Hunk) -> String {
    let bare = |text: &[u8]| text.trim_ascii_end().to_vec();
    let wanted: Vec<Vec<u8>> = old_lines(hunk).map(bare).collect();
    let lines: Vec<Vec<u8>> = image.iter().map(|line| bare(&line.text)).collect();
    if wanted.is_empty() {
        return "it adds lines where the file does not end".to_owned();
    }
    if wanted.len() > lines.len() {
        return format!("it needs {} lines and the file has {}", wanted.len(), lines.len());
    }
    if lines.windows(wanted.len()).any(|window| window == wanted) {
        let file = image.iter().any(|line| line.text.ends_with(b"\r\n"));
        let patch = old_lines(hunk).any(|line| line.ends_with(b"\r\n"));
        return match (file, patch) {
            (true, false) => "the file has CRLF line ends and the patch has not".to_owned(),
            (false, true) => "the patch has CRLF line ends and the file has not".to_owned(),
            _ => "its lines are found only with other white space, or where an anchor or an earlier hunk forbids it"
                .to_owned(),
        };
    }
    let stated = usize::try_from(hunk.new_start.saturating_sub(1)).unwrap_or(usize::MAX);
    let differing = wanted.iter().enumerate().find(|(index, text)| lines.get(stated + index) != Some(text));
    match differing {
        Some((index, text)) => {
            let text = printable(&text[..text.len().min(120)]);
            format!("line {} of the file should be `{text}` and is not", stated + index + 1)
        }
        None => "its context is not found".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &[u8])]) -> Tree {
        let mut tree = Tree::new();
        for (path, content) in files {
            tree.insert(*path, Entry::file(*content)).unwrap();
        }
        tree
    }

    fn apply(patch: &[u8], before: &[u8]) -> Result<(Vec<u8>, Vec<Note>), PatchProblem> {
        let mut tree = tree(&[("f", before)]);
        let applied = Patch::parse(patch)?.apply_to_tree(&mut tree)?;
        Ok((tree.get(b"f").unwrap().bytes().to_vec(), applied.notes))
    }

    const SWAP: &str = "--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n two\n-three\n+THREE\n four\n";

    #[test]
    fn hunks_apply_where_they_say_or_at_the_nearest_match() {
        let (after, notes) = apply(SWAP.as_bytes(), b"one\ntwo\nthree\nfour\nfive\n").unwrap();
        assert_eq!((after.as_slice(), notes.as_slice()), (&b"one\ntwo\nTHREE\nfour\nfive\n"[..], &[][..]));
        let (after, notes) = apply(SWAP.as_bytes(), b"0\n1\ntwo\nthree\nfour\n").unwrap();
        assert_eq!(after, b"0\n1\ntwo\nTHREE\nfour\n");
        assert_eq!(notes, [Note::Offset { path: "f".into(), hunk: 1, lines: 1 }]);
    }

    #[test]
    fn context_is_never_guessed() {
        let error = apply(SWAP.as_bytes(), b"one\ntwo\nthree\nFOUR\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the patch does not apply to `f`, hunk 1: line 4 of the file should be `four` and is not"
        );
        let error = apply(SWAP.as_bytes(), b"one\r\ntwo\r\nthree\r\nfour\r\n").unwrap_err();
        assert!(error.to_string().contains("the file has CRLF line ends"), "{error}");
    }

    #[test]
    fn a_hunk_without_context_behind_it_belongs_to_the_end() {
        let patch = b"--- a/f\n+++ b/f\n@@ -2 +2,2 @@\n x\n+y\n";
        assert_eq!(apply(patch, b"a\nx\n").unwrap().0, b"a\nx\ny\n");
        assert!(apply(patch, b"a\nx\nb\n").is_err());
    }

    #[test]
    fn nothing_changes_when_one_file_fails() {
        let patch = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n";
        let before = tree(&[("f", b"a\n"), ("g", b"other\n")]);
        let mut after = before.clone();
        let error = Patch::parse(patch.as_bytes()).unwrap().apply_to_tree(&mut after).unwrap_err();
        assert_eq!(error.name(), "patch_does_not_apply");
        assert!(error.to_string().contains("`g`, hunk 1"), "{error}");
        assert_eq!(after, before);
    }

    #[test]
    fn transport_faults_are_repaired_and_noted() {
        let cut = SWAP.trim_end();
        let file = b"one\ntwo\nthree\nfour\n";
        assert_eq!(apply(cut.as_bytes(), file).unwrap().1, [Note::FinalNewlineRepaired]);
        let crlf = SWAP.replace('\n', "\r\n");
        let (after, notes) = apply(crlf.as_bytes(), file).unwrap();
        assert_eq!(
            (after.as_slice(), notes.as_slice()),
            (&b"one\ntwo\nTHREE\nfour\n"[..], &[Note::LineEndsRepaired][..])
        );
        let (after, _) = apply(crlf.as_bytes(), b"one\r\ntwo\r\nthree\r\nfour\r\n").unwrap();
        assert_eq!(after, b"one\r\ntwo\r\nTHREE\r\nfour\r\n");
        let target = SWAP.replace(" two\n-three\n+THREE\n four\n", " two\r\n-three\r\n+THREE\r\n four\r\n");
        let (after, notes) = apply(target.as_bytes(), b"one\r\ntwo\r\nthree\r\nfour\r\n").unwrap();
        assert_eq!((after.as_slice(), notes.len()), (&b"one\r\ntwo\r\nTHREE\r\nfour\r\n"[..], 0));
    }

    #[test]
    fn bytes_and_missing_newlines_are_kept_exactly() {
        let latin = b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-caf\xe9\n+caf\xe9s\n";
        assert_eq!(apply(latin, b"caf\xe9\n").unwrap().0, b"caf\xe9s\n");
        let marker = b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n";
        assert_eq!(apply(marker, b"a").unwrap().0, b"b\n");
        assert!(apply(marker, b"a\n").is_err());
    }

    #[test]
    fn files_come_go_move_and_change_their_mode() {
        let patch = "diff --git a/new b/new\nnew file mode 100755\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+x\n\
                     diff --git a/f b/sub/g\nsimilarity index 100%\nrename from f\nrename to sub/g\n\
                     diff --git a/h b/h\nold mode 100644\nnew mode 100755\n\
                     diff --git a/i b/i\ndeleted file mode 100644\n--- a/i\n+++ /dev/null\n@@ -1 +0,0 @@\n-i\n\
                     diff --git a/e b/e\nnew file mode 100644\nindex 0000000..e69de29\n";
        let before = tree(&[("f", b"f\n"), ("h", b"h\n"), ("i", b"i\n")]);
        let mut after = before.clone();
        let patch = Patch::parse(patch.as_bytes()).unwrap();
        patch.apply_to_tree(&mut after).unwrap();
        let listed: Vec<_> = after.iter().map(|(path, entry)| (path, entry.git_mode())).collect();
        assert_eq!(
            listed,
            [(&b"e"[..], 0o100_644), (b"h", 0o100_755), (b"new", 0o100_755), (b"sub/g", 0o100_644)]
        );
        patch.reversed().apply_to_tree(&mut after).unwrap();
        assert_eq!(after, before);
    }

    #[test]
    fn links_cannot_be_used_to_get_out() {
        let out = "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n\
                   \\ No newline at end of file\n";
        let error = Patch::parse(out.as_bytes()).unwrap().apply_to_tree(&mut tree(&[])).unwrap_err();
        assert_eq!(error.name(), "patch_escapes");
        let mut linked = Tree::new();
        linked.insert("d/x", Entry::file(*b"")).unwrap();
        linked.insert("l", Entry::Link { target: b"d".to_vec() }).unwrap();
        let beyond = "--- /dev/null\n+++ b/l/y\n@@ -0,0 +1 @@\n+x\n";
        let error = Patch::parse(beyond.as_bytes()).unwrap().apply_to_tree(&mut linked).unwrap_err();
        assert_eq!(error.name(), "patch_escapes");
    }
}
