//! Rows written as Parquet files.

use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

/// Cells of one column of a row group.
pub(crate) enum Cells {
    /// Texts that may be absent.
    Texts(Vec<Option<String>>),
    /// Truth values.
    Booleans(Vec<bool>),
    /// Lists of texts.
    Lists(Vec<Vec<String>>),
    /// Lists of pairs of texts, as messages are: content first.
    Messages(Vec<Vec<(String, &'static str)>>),
}

impl Cells {
    fn declaration(&self, name: &str) -> String {
        const TEXT: &str = "optional binary";
        match self {
            Self::Texts(_) => format!("{TEXT} {name} (STRING);"),
            Self::Booleans(_) => format!("optional boolean {name};"),
            Self::Lists(_) => {
                format!(
                    "optional group {name} (LIST) {{ repeated group list {{ {TEXT} element (STRING); }} }}"
                )
            }
            Self::Messages(_) => format!(
                "optional group {name} (LIST) {{ repeated group list {{ optional group element {{ \
                 {TEXT} content (STRING); {TEXT} role (STRING); }} }} }}"
            ),
        }
    }

    fn write(&self, group: &mut SerializedRowGroupWriter<'_, fs_err::File>) -> Result<()> {
        match self {
            Self::Texts(cells) => {
                let levels: Vec<i16> = cells.iter().map(|cell| cell.is_some().into()).collect();
                let values: Vec<ByteArray> =
                    cells.iter().flatten().map(|text| text.as_str().into()).collect();
                texts(group, &values, &levels, None)
            }
            Self::Booleans(cells) => {
                let mut column = next(group)?;
                column.typed::<BoolType>().write_batch(cells, Some(&vec![1; cells.len()]), None)?;
                column.close()
            }
            Self::Lists(cells) => list(group, 3, cells, |text| text.as_str()),
            Self::Messages(cells) => {
                list(group, 4, cells, |message| message.0.as_str())?;
                list(group, 4, cells, |message| message.1)
            }
        }
    }
}

fn list<T>(
    group: &mut SerializedRowGroupWriter<'_, fs_err::File>,
    defined: i16,
    cells: &[Vec<T>],
    text: impl Fn(&T) -> &str,
) -> Result<()> {
    let (mut values, mut definition, mut repetition) = (Vec::new(), Vec::new(), Vec::new());
    for cell in cells {
        if cell.is_empty() {
            definition.push(1);
            repetition.push(0);
        }
        for (at, item) in cell.iter().enumerate() {
            values.push(ByteArray::from(text(item)));
            definition.push(defined);
            repetition.push(i16::from(at > 0));
        }
    }
    texts(group, &values, &definition, Some(&repetition))
}

fn texts(
    group: &mut SerializedRowGroupWriter<'_, fs_err::File>,
    values: &[ByteArray],
    definition: &[i16],
    repetition: Option<&[i16]>,
) -> Result<()> {
    let mut column = next(group)?;
    column.typed::<ByteArrayType>().write_batch(values, Some(definition), repetition)?;
    column.close()
}

fn next<'g>(group: &'g mut SerializedRowGroupWriter<'_, fs_err::File>) -> Result<SerializedColumnWriter<'g>> {
    group.next_column()?.ok_or_else(|| ParquetError::General("the schema has fewer columns".into()))
}

/// Writes `rows` rows in row groups of at most `size` rows; `cells` gives the columns of a range of rows.
pub(crate) fn write_table(
    path: &Path,
    rows: usize,
    size: usize,
    cells: impl Fn(std::ops::Range<usize>) -> Vec<(&'static str, Cells)>,
) -> Result<()> {
    let columns: String = cells(0..0).iter().map(|(name, cells)| cells.declaration(name)).collect();
    let schema = parse_message_type(&format!("message schema {{ {columns} }}"))?;
    let properties =
        WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?)).build();
    let file = fs_err::File::create(path)?;
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?;
    let mut start = 0;
    while start < rows {
        let end = rows.min(start + size);
        let mut group = writer.next_row_group()?;
        for (_, cells) in cells(start..end) {
            cells.write(&mut group)?;
        }
        group.close()?;
        start = end;
    }
    writer.close()?;
    Ok(())
}
