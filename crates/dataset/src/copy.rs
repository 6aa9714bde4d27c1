//! Copying task trees so that the copy has the same digests everywhere.

use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use fs_err as fs;
use ident::TaskId;
use task::{is_litter, printable};
use walkdir::WalkDir;

use crate::DatasetError;
use crate::sums::path_fault;

/// What a copy holds besides plain files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Executable files, sorted.
    pub(crate) executable: Vec<String>,
    /// Links and their texts.
    pub(crate) links: BTreeMap<String, String>,
}

/// Copies the tree of a task to `to`, which must not exist.
///
/// Litter of editors and systems stays behind; modes become 0755 for directories and executable files and 0644 for the
/// others; links are written again as links and judged when the copy is digested. Names that are not UTF-8 or hold a
/// backslash are refused, because other systems cannot read them as the same path.
pub(crate) fn copy_task(task_id: &TaskId, from: &Path, to: &Path) -> Result<Shape, DatasetError> {
    let mut shape = Shape::default();
    for entry in WalkDir::new(from).follow_links(false).sort_by_file_name() {
        let entry = entry.map_err(|error| DatasetError::Io {
            path: error.path().unwrap_or(from).to_owned(),
            source: error.into(),
        })?;
        // The walk stays below its root.
        let Ok(relative) = entry.path().strip_prefix(from) else { continue };
        let (source, target) = (entry.path(), to.join(relative));
        let kind = entry.file_type();
        if kind.is_dir() {
            fs::create_dir_all(&target).map_err(DatasetError::io(&target))?;
            set_mode(&target, 0o755)?;
            continue;
        }
        if is_litter(entry.file_name().as_bytes()) {
            continue;
        }
        let name = checked(task_id, relative)?;
        if kind.is_symlink() {
            let text = fs::read_link(source).map_err(DatasetError::io(source))?;
            let shown = checked_link(task_id, &name, &text)?;
            symlink(&text, &target).map_err(DatasetError::io(&target))?;
            shape.links.insert(name, shown);
        } else if kind.is_file() {
            if copy_file(source, &target)? {
                shape.executable.push(name);
            }
        } else {
            let problem = "belongs to no file, directory or link";
            return Err(DatasetError::OddName { task_id: task_id.clone(), file: name, problem });
        }
    }
    shape.executable.sort();
    Ok(shape)
}

/// Copies a file with its plain mode, and says whether it is executable.
fn copy_file(from: &Path, to: &Path) -> Result<bool, DatasetError> {
    // What was a file when it was listed may be a link or a pipe by now; neither is followed or waited for.
    let mut source = artifact::open_file(from).map_err(DatasetError::io(from))?;
    let executable = source.metadata().map_err(DatasetError::io(from))?.permissions().mode() & 0o100 != 0;
    let mode = if executable { 0o755 } else { 0o644 };
    let mut written = || -> io::Result<u64> {
        let mut target = File::create_new(to)?;
        target.set_permissions(Permissions::from_mode(mode))?;
        io::copy(&mut source, &mut target)
    };
    written().map_err(DatasetError::io(to))?;
    Ok(executable)
}

/// What a task tree that was copied before holds besides plain files; names are made printable.
pub(crate) fn shape_of(directory: &Path) -> Result<Shape, DatasetError> {
    let mut shape = Shape::default();
    for entry in WalkDir::new(directory).follow_links(false) {
        let entry = entry.map_err(|error| DatasetError::Io {
            path: error.path().unwrap_or(directory).to_owned(),
            source: error.into(),
        })?;
        let Ok(relative) = entry.path().strip_prefix(directory) else { continue };
        let name = printable(relative.as_os_str().as_bytes());
        if entry.file_type().is_symlink() {
            let text = fs::read_link(entry.path()).map_err(DatasetError::io(entry.path()))?;
            shape.links.insert(name, printable(text.as_os_str().as_bytes()));
        } else if entry.file_type().is_file() {
            let metadata = entry
                .metadata()
                .map_err(|error| DatasetError::Io { path: entry.path().to_owned(), source: error.into() })?;
            if metadata.permissions().mode() & 0o100 != 0 {
                shape.executable.push(name);
            }
        }
    }
    shape.executable.sort();
    Ok(shape)
}

/// Sets exactly this mode, whatever the umask is.
pub(crate) fn set_mode(path: &Path, mode: u32) -> Result<(), DatasetError> {
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(DatasetError::io(path))
}

fn checked(task_id: &TaskId, relative: &Path) -> Result<String, DatasetError> {
    let bytes = relative.as_os_str().as_bytes();
    let odd = |problem| DatasetError::OddName { task_id: task_id.clone(), file: printable(bytes), problem };
    if let Some(problem) = path_fault(bytes) {
        return Err(odd(problem));
    }
    relative.to_str().map(str::to_owned).ok_or_else(|| odd("is not UTF-8"))
}

fn checked_link(task_id: &TaskId, name: &str, text: &Path) -> Result<String, DatasetError> {
    let problem = "is that of a link whose text is not UTF-8";
    let odd = || DatasetError::OddName { task_id: task_id.clone(), file: name.to_owned(), problem };
    text.to_str().map(str::to_owned).ok_or_else(odd)
}
