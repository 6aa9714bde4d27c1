//! The patch that leads from one tree to another.

use super::model::{FileChange, Hunk, Line, LineKind, Patch, PatchProblem};
use crate::printable;
use crate::tree::{Entry, Tree};

impl Patch {
    /// Computes the patch from `old` to `new` with three lines of context, files in ascending order of path. A changed
    /// file that holds a NUL byte on either side is refused as binary; equal trees give [`PatchProblem::Empty`].
    pub fn between(old: &Tree, new: &Tree) -> Result<Self, PatchProblem> {
        let mut paths: Vec<&[u8]> = old.iter().chain(new.iter()).map(|(path, _)| path).collect();
        paths.sort_unstable();
        paths.dedup();
        let mut files = Vec::new();
        for path in paths {
            match (old.get(path), new.get(path)) {
                (before, after) if before == after => {}
                // A link and a file of one name are two changes, as git writes them.
                (Some(before), Some(after)) if is_link(before) != is_link(after) => {
                    files.push(change(path, Some(before), None)?);
                    files.push(change(path, None, Some(after))?);
                }
                (before, after) => files.push(change(path, before, after)?),
            }
        }
        if files.is_empty() {
            return Err(PatchProblem::Empty);
        }
        Ok(Self { files, notes: Vec::new(), line_ends_lost: false })
    }
}

fn is_link(entry: &Entry) -> bool {
    matches!(entry, Entry::Link { .. })
}

fn change(path: &[u8], before: Option<&Entry>, after: Option<&Entry>) -> Result<FileChange, PatchProblem> {
    let (old, new) = (before.map_or(&b""[..], Entry::bytes), after.map_or(&b""[..], Entry::bytes));
    if old.contains(&0) || new.contains(&0) {
        return Err(PatchProblem::Binary { path: printable(path) });
    }
    let patch = diffy::create_patch_bytes(old, new);
    let hunks = patch.hunks().iter().map(|hunk| {
        let lines = hunk.lines().iter().map(|line| {
            let (kind, text) = match line {
                diffy::Line::Context(text) => (LineKind::Context, text),
                diffy::Line::Delete(text) => (LineKind::Remove, text),
                diffy::Line::Insert(text) => (LineKind::Add, text),
            };
            Line { kind, text: text.to_vec() }
        });
        Hunk {
            old_start: hunk.old_range().start() as u64,
            new_start: hunk.new_range().start() as u64,
            lines: lines.collect(),
        }
    });
    Ok(FileChange {
        old: before.map(|_| path.to_vec()),
        new: after.map(|_| path.to_vec()),
        old_mode: before.map(Entry::git_mode),
        new_mode: after.map(Entry::git_mode),
        keeps_old: false,
        hunks: hunks.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(String, Vec<u8>)]) -> Tree {
        let mut tree = Tree::new();
        for (path, content) in files {
            drop(tree.insert(path.as_str(), Entry::file(content.as_slice())));
        }
        tree
    }

    proptest::proptest! {
        #[test]
        fn a_written_patch_leads_from_one_tree_to_the_other_and_back(
            old in proptest::collection::vec(("[a-c]( x)?", "([ab]\r?\n|c){0,12}"), 0..4),
            new in proptest::collection::vec(("[a-c]( x)?", "([ab]\r?\n|c){0,12}"), 0..4),
        ) {
            let files = |list: Vec<(String, String)>| {
                list.into_iter().map(|(path, text)| (path, text.into_bytes())).collect::<Vec<_>>()
            };
            let (old, new) = (tree(&files(old)), tree(&files(new)));
            match Patch::between(&old, &new) {
                Err(problem) => {
                    proptest::prop_assert_eq!(problem, PatchProblem::Empty);
                    proptest::prop_assert_eq!(old, new);
                }
                Ok(patch) => {
                    let patch = Patch::parse(&patch.to_bytes()).unwrap();
                    let mut changed = old.clone();
                    let applied = patch.apply_to_tree(&mut changed).unwrap();
                    proptest::prop_assert_eq!(&changed, &new);
                    proptest::prop_assert!(applied.notes.is_empty());
                    patch.reversed().apply_to_tree(&mut changed).unwrap();
                    proptest::prop_assert_eq!(changed, old);
                }
            }
        }
    }

    #[test]
    fn binary_files_are_refused() {
        let (old, new) = (tree(&[("f".into(), vec![0])]), tree(&[("f".into(), vec![1])]));
        assert_eq!(Patch::between(&old, &new), Err(PatchProblem::Binary { path: "f".into() }));
    }
}
