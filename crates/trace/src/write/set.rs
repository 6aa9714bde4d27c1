//! A set of rows that is being written: it appears whole under its name, or not at all. Until then what stood there stays.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fs_err as fs;
use serde::Serialize;
use tempfile::{NamedTempFile, TempDir};

use super::card::card;
use super::group::{Group, Layout};
use super::groups::Groups;
use super::parquet::Parquet;
use super::target::{Target, begin_directory, begin_file, put_directory, put_file};
use super::{Columns, line};
use crate::TraceError;
use crate::row::Row;

/// The texts of one shard, in multiples of its size on disk. Readers number the bytes of a column with 31 bits.
const TEXT_RATIO: u64 = 4;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Written {
    /// The files, relative to the directory of a set.
    pub files: Vec<String>,
    /// Their bytes.
    pub bytes: u64,
    /// The rows in them.
    pub rows: u64,
}

/// A set of rows that is being written.
pub struct RowSet {
    path: PathBuf,
    form: Form,
    rows: u64,
    text_bytes: u64,
}

enum Form {
    Parquet { groups: Groups, files: Box<Files> },
    Lines { columns: Columns, file: BufWriter<NamedTempFile>, buffer: Vec<u8> },
}

/// The files that groups go to.
struct Files {
    layout: Arc<Layout>,
    place: Place,
}

enum Place {
    Shards { directory: TempDir, limit: u64, done: Vec<u64>, open: Option<Shard> },
    One(Parquet<NamedTempFile>),
}

struct Shard {
    file: Parquet<BufWriter<File>>,
    text_bytes: u64,
}

impl RowSet {
    /// Begins a set at `path` in the form that its suffix says. A shard ends at about `shard_bytes`.
    pub fn create(path: &Path, columns: Columns, shard_bytes: u64) -> Result<Self, TraceError> {
        let target = Target::of(path)?;
        let form = match target {
            Target::Jsonl => {
                Form::Lines { columns, file: BufWriter::new(begin_file(path)?), buffer: Vec::new() }
            }
            Target::Directory | Target::Parquet => {
                let layout = Arc::new(Layout::new(columns).map_err(TraceError::parquet(path))?);
                let (place, text_limit) = if target == Target::Parquet {
                    let file = Parquet::new(begin_file(path)?, &layout).map_err(TraceError::parquet(path))?;
                    (Place::One(file), u64::MAX)
                } else {
                    let directory = begin_directory(path)?;
                    let data = directory.path().join("data");
                    fs::create_dir(&data).map_err(TraceError::io(&data))?;
                    let limit = shard_bytes.max(1);
                    let place = Place::Shards { directory, limit, done: Vec::new(), open: None };
                    (place, limit.saturating_mul(TEXT_RATIO))
                };
                let groups = Groups::new(Arc::clone(&layout), text_limit);
                Form::Parquet { groups, files: Box::new(Files { layout, place }) }
            }
        };
        Ok(Self { path: path.to_owned(), form, rows: 0, text_bytes: 0 })
    }

    /// Adds a row.
    pub fn write(&mut self, row: Row) -> Result<(), TraceError> {
        let text_bytes = row.text_bytes() as u64;
        self.rows += 1;
        self.text_bytes += text_bytes;
        match &mut self.form {
            Form::Lines { columns, file, buffer } => {
                buffer.clear();
                line(&row, columns, buffer);
                file.write_all(buffer).map_err(TraceError::io(&self.path))
            }
            Form::Parquet { groups, files } => {
                match groups.push(row, text_bytes).map_err(TraceError::parquet(&self.path))? {
                    Some(group) => files.append(group, &self.path),
                    None => Ok(()),
                }
            }
        }
    }

    /// Ends the set and puts it in its place, over a file or an empty directory that stands there. A set that is dropped leaves
    /// nothing behind.
    pub fn finish(self) -> Result<Written, TraceError> {
        let Self { path, form, rows, text_bytes } = self;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let put = |file: NamedTempFile| {
            let bytes = put_file(file, &path)?;
            Ok(Written { files: vec![name.clone()], bytes, rows })
        };
        let (mut groups, mut files) = match form {
            Form::Lines { file, .. } => {
                return put(file.into_inner().map_err(|error| TraceError::io(&path)(error.into_error()))?);
            }
            Form::Parquet { groups, files } => (groups, *files),
        };
        while let Some(group) = groups.next().map_err(TraceError::parquet(&path))? {
            files.append(group, &path)?;
        }
        match files.place {
            Place::One(file) => put(file.finish().map_err(TraceError::parquet(&path))?),
            Place::Shards { directory, mut done, open, .. } => {
                match open {
                    Some(shard) => close(shard, &directory, &mut done)?,
                    // A set without rows still says what its columns are.
                    None if done.is_empty() => {
                        close(Shard::begin(&directory, 0, &files.layout)?, &directory, &mut done)?;
                    }
                    None => {}
                }
                let bytes = done.iter().sum();
                let mut names = vec!["README.md".to_owned()];
                for index in 0..done.len() {
                    let name = format!("data/train-{index:05}-of-{:05}.parquet", done.len());
                    let to = directory.path().join(&name);
                    fs::rename(shard_path(&directory, index), &to).map_err(TraceError::io(&to))?;
                    names.push(name);
                }
                let readme = directory.path().join("README.md");
                fs::write(&readme, card(files.layout.columns(), rows, text_bytes, bytes))
                    .map_err(TraceError::io(&readme))?;
                put_directory(directory, &path)?;
                Ok(Written { files: names, bytes, rows })
            }
        }
    }
}

impl Files {
    /// Puts a group into the file, or into the shard that is open; a shard that is full is closed behind it.
    fn append(&mut self, group: Group, path: &Path) -> Result<(), TraceError> {
        match &mut self.place {
            Place::One(file) => file.append(group).map_err(TraceError::parquet(path)),
            Place::Shards { directory, limit, done, open } => {
                let shard = match open {
                    Some(shard) => shard,
                    None => open.insert(Shard::begin(directory, done.len(), &self.layout)?),
                };
                shard.text_bytes += group.text_bytes;
                shard.file.append(group).map_err(TraceError::parquet(path))?;
                let full = shard.file.bytes_written() as u64 >= *limit
                    || shard.text_bytes >= limit.saturating_mul(TEXT_RATIO);
                if full && let Some(shard) = open.take() {
                    close(shard, directory, done)?;
                }
                Ok(())
            }
        }
    }
}

impl Shard {
    fn begin(directory: &TempDir, index: usize, layout: &Layout) -> Result<Self, TraceError> {
        let path = shard_path(directory, index);
        let file = File::create(&path).map_err(TraceError::io(&path))?;
        let file = Parquet::new(BufWriter::new(file), layout).map_err(TraceError::parquet(&path))?;
        Ok(Self { file, text_bytes: 0 })
    }
}

fn shard_path(directory: &TempDir, index: usize) -> PathBuf {
    directory.path().join(format!("data/{index}.parquet"))
}

fn close(shard: Shard, directory: &TempDir, done: &mut Vec<u64>) -> Result<(), TraceError> {
    let path = shard_path(directory, done.len());
    let file = shard.file.finish().map_err(TraceError::parquet(&path))?;
    let file = file.into_inner().map_err(|error| TraceError::io(&path)(error.into_error()))?;
    file.sync_all().map_err(TraceError::io(&path))?;
    done.push(file.metadata().map_err(TraceError::io(&path))?.len());
    Ok(())
}
