//! Puts a task directory on disk: whole under its final name, or not at all.

use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use fs_err as fs;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::TaskError;
use crate::materialize::TaskFiles;
use crate::tree::check_path;

/// Writes the files of a task to `directory`, which becomes exactly these files.
///
/// They are written beside it under a temporary name, synced, and swapped in with one rename, so that at every moment
/// the old or the new directory stands there in full. Modes do not depend on the umask. A link or a file under that
/// name is refused.
pub fn write_task(directory: &Path, task: &TaskFiles) -> Result<(), TaskError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| TaskError::Io { path, source }
    };
    let parent = match directory.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    fs::create_dir_all(&parent).map_err(at(&parent))?;
    let replaces = match std::fs::symlink_metadata(directory) {
        Ok(metadata) if metadata.is_dir() => true,
        Ok(_) => return Err(TaskError::NotADirectory { path: directory.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(at(directory)(error)),
    };
    let fresh = artifact::unfinished().tempdir_in(&parent).map_err(at(&parent))?;
    make_mode(fresh.path(), 0o755).map_err(at(fresh.path()))?;
    let mut folders = std::collections::BTreeSet::from([fresh.path().to_owned()]);
    for file in &task.files {
        if check_path(file.path.as_bytes()).is_err() {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "the path leaves the task directory");
            return Err(TaskError::Io { path: file.path.clone().into(), source });
        }
        let path = fresh.path().join(&file.path);
        for (cut, _) in file.path.match_indices('/') {
            let folder = fresh.path().join(&file.path[..cut]);
            if folders.insert(folder.clone()) {
                std::fs::create_dir(&folder).and_then(|()| make_mode(&folder, 0o755)).map_err(at(&folder))?;
            }
        }
        let mut options = std::fs::OpenOptions::new();
        let opened = options.write(true).create_new(true).mode(file.mode).open(&path);
        let written = opened.and_then(|mut open| {
            open.write_all(&file.content)?;
            open.set_permissions(std::fs::Permissions::from_mode(file.mode))?;
            open.sync_all()
        });
        written.map_err(at(&path))?;
    }
    for folder in &folders {
        sync(folder).map_err(at(folder))?;
    }
    if replaces {
        swap(fresh.path(), directory).map_err(at(directory))?;
        // What is left under the temporary name is the old task.
        fresh.close().map_err(at(directory))?;
    } else {
        let path = fresh.keep();
        if let Err(error) = std::fs::rename(&path, directory) {
            drop(std::fs::remove_dir_all(&path));
            return Err(at(directory)(error));
        }
    }
    sync(&parent).map_err(at(&parent))
}

fn make_mode(path: &Path, mode: u32) -> io::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

fn sync(directory: &Path) -> io::Result<()> {
    std::fs::File::open(directory).and_then(|open| open.sync_all())
}

/// Exchanges two directories in one step; file systems that cannot are served by two renames.
fn swap(fresh: &Path, old: &Path) -> io::Result<()> {
    match renameat_with(CWD, fresh, CWD, old, RenameFlags::EXCHANGE) {
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => {
            let aside = fresh.with_extension("old");
            std::fs::rename(old, &aside)?;
            if let Err(error) = std::fs::rename(fresh, old) {
                std::fs::rename(&aside, old)?;
                return Err(error);
            }
            std::fs::rename(&aside, fresh)
        }
        result => Ok(result?),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::materialize::TaskFile;

    fn files(list: &[(&str, u32, &str)]) -> TaskFiles {
        TaskFiles {
            files: list
                .iter()
                .map(|(path, mode, text)| TaskFile {
                    path: (*path).to_owned(),
                    mode: *mode,
                    content: text.as_bytes().to_vec(),
                })
                .collect(),
            hidden_tests: BTreeSet::new(),
            missing_tests: BTreeSet::new(),
            surface_files: BTreeSet::new(),
            commit: String::new(),
            clean_digest: ident::Digest::of(""),
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_task_replaces_its_older_self_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let task = root.path().join("tasks/a");
        write_task(&task, &files(&[("task.toml", 0o644, "1"), ("tests/test.sh", 0o755, "x")])).unwrap();
        fs::write(root.path().join("tasks/b"), "other").unwrap();
        write_task(&task, &files(&[("task.toml", 0o644, "2")])).unwrap();
        assert_eq!(fs::read_to_string(task.join("task.toml")).unwrap(), "2");
        assert!(!task.join("tests").exists());
        let mut names: Vec<_> =
            fs::read_dir(root.path().join("tasks")).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["a", "b"], "temporary directories are left");
    }

    #[test]
    fn modes_are_set_and_escapes_and_links_refused() {
        let root = tempfile::tempdir().unwrap();
        let task = root.path().join("a");
        write_task(&task, &files(&[("tests/test.sh", 0o755, "x")])).unwrap();
        let mode = |path: &str| fs::metadata(task.join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("tests/test.sh"), mode("tests")), (0o755, 0o755));
        assert!(write_task(&task, &files(&[("../out", 0o644, "")])).is_err());
        assert!(!root.path().join("out").exists());
        assert_eq!(fs::read_to_string(task.join("tests/test.sh")).unwrap(), "x");
        std::os::unix::fs::symlink(&task, root.path().join("link")).unwrap();
        let refused = write_task(&root.path().join("link"), &files(&[]));
        assert!(matches!(refused, Err(TaskError::NotADirectory { .. })));
    }
}
