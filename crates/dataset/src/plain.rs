//! A frozen set as plain files, for places that keep neither links nor modes.
//!
//! The manifest says which files are executable and where links were, so that a set that went through such a place can be restored.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use task::printable;

use crate::copy::set_mode;
use crate::sums::{self, SUMS, path_fault};
use crate::{DatasetError, Manifest, Problem};

/// A bound for the file with the sums.
const SUMS_LIMIT: u64 = 1 << 30;

/// The plain files of a frozen set by their path below it: those that `SHA256SUMS` lists, and itself.
///
/// Every path is plainly below the set. In a set that is only arriving, the files need not be there yet, but for `SHA256SUMS`.
pub fn plain_files(frozen: &Path) -> Result<BTreeMap<String, PathBuf>, DatasetError> {
    let (listed, faults) = sums::parse(&artifact::read_bounded(&frozen.join(SUMS), SUMS_LIMIT)?);
    let mut problems: Vec<Problem> = faults.into_iter().map(|fault| problem(SUMS, fault)).collect();
    let mut files = BTreeMap::from([(SUMS.to_owned(), frozen.join(SUMS))]);
    for path in listed.into_keys() {
        match String::from_utf8(path) {
            Ok(path) => drop(files.insert(path.clone(), frozen.join(path))),
            Err(error) => {
                problems.push(problem(&printable(error.as_bytes()), "has a name that is not UTF-8".into()));
            }
        }
    }
    if problems.is_empty() {
        Ok(files)
    } else {
        Err(DatasetError::Unsound { path: frozen.to_owned(), problems })
    }
}

/// Gives files their modes and links their places again, as the manifest says, and returns the name of the set's directory.
///
/// The manifest may be anybody's: nothing outside `frozen` is touched, and nothing through a link. Whether the set is what it should be
/// is left to [`verify`](crate::verify).
pub fn restore(frozen: &Path) -> Result<String, DatasetError> {
    let (manifest, _) = artifact::load::<Manifest>(&frozen.join("manifest.json"))?;
    let mut problems = Vec::new();
    let mut links = Vec::new();
    for task in &manifest.tasks {
        let directory = frozen.join("tasks").join(task.task_id.as_str());
        let paths = task.executable.iter().chain(task.links.keys());
        for path in paths.filter(|path| path_fault(path.as_bytes()).is_some()) {
            problems
                .push(problem("manifest.json", format!("names the path `{}`", printable(path.as_bytes()))));
        }
        if !problems.is_empty() {
            continue;
        }
        for path in &task.executable {
            let file = directory.join(path);
            if std::fs::symlink_metadata(&file).is_ok_and(|metadata| metadata.is_file()) {
                set_mode(&file, 0o755)?;
            }
        }
        for (path, target) in &task.links {
            let link = directory.join(path);
            // No link is made before all have been looked at, so none of these directories is behind one.
            if let Some(parent) = link.parent() {
                fs_err::create_dir_all(parent).map_err(DatasetError::io(parent))?;
            }
            links.push((link, target));
        }
    }
    if !problems.is_empty() {
        return Err(DatasetError::Unsound { path: frozen.to_owned(), problems });
    }
    for (link, target) in links {
        // A parent may itself be one of the links: then it cannot be made, as a directory stands there.
        symlink(target, &link).map_err(DatasetError::io(&link))?;
    }
    Ok(manifest.directory())
}

fn problem(file: &str, message: String) -> Problem {
    Problem { file: file.to_owned(), message }
}
