//! The files of a `.git` directory.

use super::index::index;
use super::object::Objects;
use super::pack::pack;
use crate::git::Kind;
use crate::tree::{ArchiveBytes, Member, MemberKind, Tree};

/// Who the one commit is by, and when: fixed, because the same tree has to give the same commit everywhere.
/// The time is 2000-01-01T00:00:00Z.
const SIGNATURE: &str = "Seatrial <seatrial@example.invalid> 946684800 +0000";

/// A repository with one commit on the branch `main`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// The SHA-1 name of the commit.
    pub commit: String,
    /// The SHA-1 name of its tree.
    pub tree: String,
    /// Every file of the `.git` directory, sorted by its path inside of it.
    pub files: Vec<(String, Vec<u8>)>,
}

/// Why a tree cannot be committed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// Too much for one pack.
    #[error("the tree is too large for one pack of 2 GiB")]
    TooLarge,
}

impl Repository {
    /// Commits the whole of `tree`, ignored files included.
    pub fn of(tree: &Tree) -> Result<Self, CommitError> {
        let mut objects = Objects::default();
        let (root, blobs) = objects.add_tree(tree);
        let message = format!("tree {root}\nauthor {SIGNATURE}\ncommitter {SIGNATURE}\n\nInitial commit\n");
        let commit = objects.add(Kind::Commit, message.into_bytes()).to_string();
        let pack = pack(&objects).ok_or(CommitError::TooLarge)?;
        let name = pack.id;
        let mut files = vec![
            ("HEAD".to_owned(), b"ref: refs/heads/main\n".to_vec()),
            (
                "config".to_owned(),
                b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n".to_vec(),
            ),
            ("index".to_owned(), index(tree, &blobs)),
            (format!("objects/pack/pack-{name}.idx"), pack.index),
            (format!("objects/pack/pack-{name}.pack"), pack.bytes),
            ("refs/heads/main".to_owned(), format!("{commit}\n").into_bytes()),
        ];
        // The blobs are the bytes of the files. Where the tree asks git to convert line ends, keywords or encodings, a
        // fresh checkout would look changed; the repository's own attributes come last and switch that off.
        if tree.iter().any(|(path, _)| path.rsplit(|&b| b == b'/').next() == Some(b".gitattributes")) {
            let text = b"* -text -eol -ident -filter -working-tree-encoding\n".to_vec();
            files.push(("info/attributes".to_owned(), text));
        }
        files.sort();
        Ok(Self { commit, tree: root.to_string(), files })
    }

    /// Writes the working tree together with its repository as a tar archive; see [`Tree::to_tar`] for its form.
    pub fn to_tar(&self, tree: &Tree) -> Vec<u8> {
        let mut archive = ArchiveBytes::default();
        let mut folders = std::collections::BTreeSet::from([".git/".to_owned()]);
        for (name, _) in &self.files {
            for (cut, _) in name.match_indices('/') {
                folders.insert(format!(".git/{}/", &name[..cut]));
            }
        }
        for folder in &folders {
            archive.member(&Member { path: folder.as_bytes(), mode: 0o755, kind: MemberKind::Directory });
        }
        for (name, content) in &self.files {
            let path = format!(".git/{name}");
            archive.member(&Member { path: path.as_bytes(), mode: 0o644, kind: MemberKind::File(content) });
        }
        archive.tree(tree);
        archive.finish()
    }
}
