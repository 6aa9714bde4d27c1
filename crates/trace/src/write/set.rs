//! A set of rows that is being written: it appears whole under its name, or not at all. Until then what stood there stays.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use fs_err as fs;
use serde::Serialize;
use tempfile::{NamedTempFile, TempDir};

use super::card::card;
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
    columns: Columns,
    form: Form,
    rows: u64,
    text_bytes: u64,
}

enum Form {
    Shards { directory: TempDir, limit: u64, done: Vec<u64>, open: Option<Box<Shard>> },
    One(Box<Parquet<NamedTempFile>>),
    Lines { file: BufWriter<NamedTempFile>, buffer: Vec<u8> },
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
            Target::Directory => {
                let directory = begin_directory(path)?;
                let data = directory.path().join("data");
                fs::create_dir(&data).map_err(TraceError::io(&data))?;
                Form::Shards { directory, limit: shard_bytes.max(1), done: Vec::new(), open: None }
            }
            Target::Parquet => {
                let file =
                    Parquet::new(begin_file(path)?, columns.clone()).map_err(TraceError::parquet(path))?;
                Form::One(Box::new(file))
            }
            Target::Jsonl => Form::Lines { file: BufWriter::new(begin_file(path)?), buffer: Vec::new() },
        };
        Ok(Self { path: path.to_owned(), columns, form, rows: 0, text_bytes: 0 })
    }

    /// Adds a row.
    pub fn write(&mut self, row: Row) -> Result<(), TraceError> {
        let bytes = row.text_bytes() as u64;
        self.rows += 1;
        self.text_bytes += bytes;
        match &mut self.form {
            Form::Lines { file, buffer } => {
                buffer.clear();
                line(&row, &self.columns, buffer);
                file.write_all(buffer).map_err(TraceError::io(&self.path))
            }
            Form::One(file) => file.write(row).map_err(TraceError::parquet(&self.path)),
            Form::Shards { directory, limit, done, open } => {
                let shard = match open {
                    Some(shard) => shard,
                    None => {
                        let path = shard_path(directory, done.len());
                        let file = File::create(&path).map_err(TraceError::io(&path))?;
                        let file = Parquet::new(BufWriter::new(file), self.columns.clone())
                            .map_err(TraceError::parquet(&path))?;
                        open.insert(Box::new(Shard { file, text_bytes: 0 }))
                    }
                };
                shard.text_bytes += bytes;
                shard.file.write(row).map_err(TraceError::parquet(&self.path))?;
                let full = shard.file.bytes_written() as u64 >= *limit
                    || shard.text_bytes >= limit.saturating_mul(TEXT_RATIO);
                if full && let Some(shard) = open.take() {
                    close(*shard, directory, done)?;
                }
                Ok(())
            }
        }
    }

    /// Ends the set and puts it in its place, over a file or an empty directory that stands there. A set that is dropped leaves
    /// nothing behind.
    pub fn finish(self) -> Result<Written, TraceError> {
        let Self { path, columns, form, rows, text_bytes } = self;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let place = |file: NamedTempFile| {
            let bytes = put_file(file, &path)?;
            Ok(Written { files: vec![name.clone()], bytes, rows })
        };
        match form {
            Form::Lines { file, .. } => {
                place(file.into_inner().map_err(|error| TraceError::io(&path)(error.into_error()))?)
            }
            Form::One(file) => place(file.finish().map_err(TraceError::parquet(&path))?),
            Form::Shards { directory, mut done, open, .. } => {
                match open {
                    Some(shard) => close(*shard, &directory, &mut done)?,
                    // A set without rows still says what its columns are.
                    None if done.is_empty() => {
                        let shard = shard_path(&directory, 0);
                        let file = File::create(&shard).map_err(TraceError::io(&shard))?;
                        let file = Parquet::new(BufWriter::new(file), columns.clone())
                            .map_err(TraceError::parquet(&shard))?;
                        close(Shard { file, text_bytes: 0 }, &directory, &mut done)?;
                    }
                    None => {}
                }
                let bytes = done.iter().sum();
                let mut files = vec!["README.md".to_owned()];
                for index in 0..done.len() {
                    let name = format!("data/train-{index:05}-of-{:05}.parquet", done.len());
                    let to = directory.path().join(&name);
                    fs::rename(shard_path(&directory, index), &to).map_err(TraceError::io(&to))?;
                    files.push(name);
                }
                let readme = directory.path().join("README.md");
                fs::write(&readme, card(&columns, rows, text_bytes, bytes))
                    .map_err(TraceError::io(&readme))?;
                put_directory(directory, &path)?;
                Ok(Written { files, bytes, rows })
            }
        }
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
