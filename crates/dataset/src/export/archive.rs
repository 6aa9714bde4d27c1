//! Task directories as archives in Parquet: `path` and `task_binary`.
//!
//! Readers of this form unpack plain files and directories only and lose what links and modes say, so a link stands as the file that it
//! leads to. Archives say nothing of times and owners: the same task gives the same bytes.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};
use fs_err as fs;
use parquet::data_type::ByteArray;
use rayon::prelude::*;
use tar::{Builder, EntryType, Header};
use task::printable;
use walkdir::WalkDir;

use super::table::{Column, Table};
use super::{ExportInput, splits};
use crate::{DatasetError, FrozenTask, Manifest};

/// Tasks of one row group: as many are in memory at a time.
const GROUP: usize = 16;

/// Writes `<split>.parquet` for every split.
pub(super) fn write(input: &ExportInput<'_>, manifest: &Manifest, root: &Path) -> Result<(), DatasetError> {
    for (split, tasks) in splits(manifest) {
        let schema = "message tasks { required binary path (STRING); required binary task_binary; }";
        let mut table = Table::create(&root.join(format!("{split}.parquet")), schema, &["task_binary"])?;
        for tasks in tasks.chunks(GROUP) {
            let archives: Vec<ByteArray> = tasks
                .par_iter()
                .map(|task| archive(task, &input.task(task)).map(ByteArray::from))
                .collect::<Result<_, DatasetError>>()?;
            let names = tasks.iter().map(|task| ByteArray::from(task.task_id.as_str())).collect();
            table.group(&[Column::Bytes(names), Column::Bytes(archives)])?;
        }
        table.finish()?;
    }
    Ok(())
}

/// Compresses; the header names no file, no time and no system.
pub(super) fn gzip<W: io::Write>(into: W) -> GzEncoder<W> {
    GzBuilder::new().operating_system(255).write(into, Compression::default())
}

/// What lies below a directory of a task as a compressed archive.
pub(super) fn archive(task: &FrozenTask, directory: &Path) -> Result<Vec<u8>, DatasetError> {
    let mut tar = Builder::new(gzip(Vec::new()));
    for entry in WalkDir::new(directory).min_depth(1).follow_links(false).sort_by_file_name() {
        let entry = entry.map_err(|error| DatasetError::Io {
            path: error.path().unwrap_or(directory).to_owned(),
            source: error.into(),
        })?;
        let Ok(name) = entry.path().strip_prefix(directory) else { continue };
        let path = if entry.path_is_symlink() {
            target(task, directory, entry.path(), name)?
        } else {
            entry.path().to_owned()
        };
        let failed = || DatasetError::io(&path);
        let metadata = fs::symlink_metadata(&path).map_err(failed())?;
        let mut header = Header::new_gnu();
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        if metadata.is_dir() {
            header.set_entry_type(EntryType::Directory);
            header.set_mode(0o755);
            header.set_size(0);
            tar.append_data(&mut header, name, io::empty()).map_err(failed())?;
        } else {
            header.set_mode(if metadata.permissions().mode() & 0o100 == 0 { 0o644 } else { 0o755 });
            header.set_size(metadata.len());
            let file = fs::File::open(&path).map_err(failed())?;
            tar.append_data(&mut header, name, file).map_err(failed())?;
        }
    }
    let gzip = tar.into_inner().map_err(DatasetError::io(directory))?;
    gzip.finish().map_err(DatasetError::io(directory))
}

/// The file of the task that a link leads to.
fn target(task: &FrozenTask, directory: &Path, link: &Path, name: &Path) -> Result<PathBuf, DatasetError> {
    let found = fs::canonicalize(link).ok();
    let root = fs::canonicalize(directory).map_err(DatasetError::io(directory))?;
    found.filter(|path| path.starts_with(&root) && path.is_file()).ok_or_else(|| DatasetError::OddName {
        task_id: task.task_id.clone(),
        file: printable(std::os::unix::ffi::OsStrExt::as_bytes(name.as_os_str())),
        problem: "is a link to something else than a file of the task, which this format cannot hold",
    })
}
