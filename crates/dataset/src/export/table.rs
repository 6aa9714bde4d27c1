//! Parquet files, written column by column.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fs_err as fs;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use crate::DatasetError;

/// A file that is being written. The same rows give the same bytes.
pub(super) struct Table {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
}

/// One column of a row group.
pub(super) enum Column {
    /// Texts or bytes, one a row.
    Bytes(Vec<ByteArray>),
    /// Numbers, one a row.
    Numbers(Vec<i64>),
    /// Texts of the only element of a list, one a row.
    Only(Vec<ByteArray>),
}

impl Table {
    /// Creates a file with this schema, in Parquet's own language. Columns in `packed` are compressed already.
    pub(super) fn create(path: &Path, schema: &str, packed: &[&str]) -> Result<Self, DatasetError> {
        let failed = |source| DatasetError::Parquet { path: path.to_owned(), source };
        let file = fs::File::create(path).map_err(DatasetError::io(path))?;
        let mut properties = WriterProperties::builder()
            .set_created_by("seatrial".to_owned())
            .set_compression(Compression::ZSTD(ZstdLevel::default()));
        for column in packed {
            properties = properties
                .set_column_compression((*column).into(), Compression::UNCOMPRESSED)
                .set_column_dictionary_enabled((*column).into(), false)
                .set_column_statistics_enabled((*column).into(), EnabledStatistics::None);
        }
        let schema = Arc::new(parse_message_type(schema).map_err(failed)?);
        let writer = SerializedFileWriter::new(file.into_parts().0, schema, Arc::new(properties.build()))
            .map_err(failed)?;
        Ok(Self { path: path.to_owned(), writer })
    }

    /// Writes a row group, its columns in the order of the schema.
    pub(super) fn group(&mut self, columns: &[Column]) -> Result<(), DatasetError> {
        group(&mut self.writer, columns)
            .map_err(|source| DatasetError::Parquet { path: self.path.clone(), source })
    }

    /// Writes the end of the file.
    pub(super) fn finish(self) -> Result<(), DatasetError> {
        let Self { path, writer } = self;
        writer.close().map(drop).map_err(|source| DatasetError::Parquet { path, source })
    }
}

fn group(writer: &mut SerializedFileWriter<File>, columns: &[Column]) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    for column in columns {
        match column {
            Column::Bytes(values) => write::<ByteArrayType>(&mut group, values, None)?,
            Column::Numbers(values) => write::<Int64Type>(&mut group, values, None)?,
            Column::Only(values) => {
                let (present, first) = (vec![1; values.len()], vec![0; values.len()]);
                write::<ByteArrayType>(&mut group, values, Some((&present, &first)))?;
            }
        }
    }
    group.close()?;
    Ok(())
}

fn write<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: &[T::T],
    levels: Option<(&[i16], &[i16])>,
) -> Result<(), ParquetError> {
    let mut column = group
        .next_column()?
        .ok_or_else(|| ParquetError::General("there are more columns than the schema names".into()))?;
    let (definitions, repetitions) = levels.unzip();
    column.typed::<T>().write_batch(values, definitions, repetitions)?;
    column.close()
}
