//! A Parquet file that groups are put into, one after the other.

use std::io::Write;

use parquet::errors::Result;
use parquet::file::writer::SerializedFileWriter;

use super::group::{Group, Layout};

/// A file that is being written.
pub(super) struct Parquet<W: Write + Send> {
    writer: SerializedFileWriter<W>,
}

impl<W: Write + Send> Parquet<W> {
    pub(super) fn new(file: W, layout: &Layout) -> Result<Self> {
        let writer = SerializedFileWriter::new(file, layout.schema(), layout.properties())?;
        Ok(Self { writer })
    }

    pub(super) fn append(&mut self, group: Group) -> Result<()> {
        let mut place = self.writer.next_row_group()?;
        for (bytes, closed) in group.columns {
            place.append_column(&bytes, closed)?;
        }
        place.close()?;
        Ok(())
    }

    /// The bytes that have reached the file.
    pub(super) fn bytes_written(&self) -> usize {
        self.writer.bytes_written()
    }

    pub(super) fn finish(self) -> Result<W> {
        self.writer.into_inner()
    }
}
