//! The values a view consists of.

use std::collections::BTreeMap;

use bytes::Bytes;
use ident::Digest;
use task::MissingPart;
use task::config::{ConfigError, ConfigReading, TaskConfig};

/// A bounded picture of a task directory.
#[derive(Debug)]
pub struct TaskView {
    /// Name of the directory, as bytes.
    pub name: Vec<u8>,
    /// Every entry below it by its path, `/` between components.
    pub entries: BTreeMap<Vec<u8>, Entry>,
    /// What `task.toml` says.
    pub config: ConfigState,
    /// Parts that are not there, required ones and the solution.
    pub missing: Vec<MissingPart>,
    /// Why the view is not the whole directory; empty when it is.
    pub cut: Vec<String>,
}

/// What became of `task.toml`.
#[derive(Debug)]
pub enum ConfigState {
    /// There is none.
    Missing,
    /// It is there and cannot be taken: a link, or far too large.
    Unreadable(String),
    /// It is no TOML.
    Broken(ConfigError),
    /// It parses.
    Read(Box<ConfigReading>),
}

/// One entry of the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A directory.
    Directory,
    /// A regular file.
    File(FileEntry),
    /// A symbolic link.
    Link {
        /// Its text.
        target: Vec<u8>,
    },
    /// A pipe, a socket or a device.
    Special {
        /// What it is, for people.
        kind: &'static str,
    },
}

/// A regular file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// Size in bytes.
    pub size: u64,
    /// Whether the owner may execute it.
    pub executable: bool,
    /// The content, of files that are small enough and no archives.
    pub content: Option<Bytes>,
    /// Digest of a content that was not kept and is no archive.
    pub digest: Option<Digest>,
    /// The members, where the file is a tar archive: they stand for its content.
    pub archive: Option<Archive>,
}

/// The members of a tar archive, compressed with gzip or not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Archive {
    /// Members in archive order.
    pub members: Vec<Member>,
    /// Why the list ends early, if it does.
    pub cut: Option<String>,
}

/// One member of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its path without leading `./` and trailing slash.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: MemberKind,
    /// Size in bytes.
    pub size: u64,
    /// The content, of small regular files.
    pub content: Option<Bytes>,
    /// Digest of a content that was not kept.
    pub digest: Option<Digest>,
}

/// Kinds of archive members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link with its text.
    Symlink(Vec<u8>),
    /// A hard link with the path of the member it repeats.
    Hardlink(Vec<u8>),
    /// A device or a pipe.
    Special,
}

impl TaskView {
    /// The configuration, where `task.toml` parses.
    pub fn task_config(&self) -> Option<&TaskConfig> {
        match &self.config {
            ConfigState::Read(reading) => Some(&reading.config),
            _ => None,
        }
    }

    /// The regular file at `path`; a link is not followed.
    pub fn file(&self, path: &[u8]) -> Option<&FileEntry> {
        match self.entries.get(path)? {
            Entry::File(file) => Some(file),
            _ => None,
        }
    }

    /// The content of the regular file at `path` as text, where it was kept. Bytes that are not UTF-8 become
    /// replacement characters.
    pub fn text(&self, path: &[u8]) -> Option<std::borrow::Cow<'_, str>> {
        self.file(path)?.content.as_deref().map(crate::lines::text)
    }

    /// Every regular file with its path.
    pub fn files(&self) -> impl Iterator<Item = (&[u8], &FileEntry)> {
        self.entries.iter().filter_map(|(path, entry)| match entry {
            Entry::File(file) => Some((path.as_slice(), file)),
            _ => None,
        })
    }

    /// Every regular file below the directory `folder`, with its path from the task's root.
    pub fn files_below<'a>(
        &'a self,
        folder: &[u8],
    ) -> impl Iterator<Item = (&'a [u8], &'a FileEntry)> + use<'a> {
        let folder = [folder, b"/"].concat();
        self.entries
            .range(folder.clone()..)
            .take_while(move |(path, _)| path.starts_with(&folder))
            .filter_map(|(path, entry)| match entry {
                Entry::File(file) => Some((path.as_slice(), file)),
                _ => None,
            })
    }

    /// The directories of the steps, or the root alone for a task of a single step, each with a trailing slash or
    /// empty.
    pub fn roots(&self) -> Vec<Vec<u8>> {
        let steps = self.task_config().map(|config| config.steps.as_slice()).unwrap_or_default();
        let mut roots = vec![Vec::new()];
        roots.extend(steps.iter().map(|step| format!("steps/{}/", step.name).into_bytes()));
        roots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_below_a_folder_are_its_own() {
        let file = || {
            Entry::File(FileEntry {
                size: 0,
                executable: false,
                content: Some(Bytes::new()),
                digest: None,
                archive: None,
            })
        };
        let paths = ["tests", "tests-old/a", "tests.sh", "tests/a", "tests/b/c", "tests0"];
        let entries = paths.iter().map(|path| (path.as_bytes().to_vec(), file())).collect();
        let view = TaskView {
            name: b"x".to_vec(),
            entries,
            config: ConfigState::Missing,
            missing: Vec::new(),
            cut: Vec::new(),
        };
        let below: Vec<_> = view.files_below(b"tests").map(|(path, _)| path).collect();
        assert_eq!(below, [&b"tests/a"[..], b"tests/b/c"]);
    }
}
