//! Opens a file and holds its directory against its size.

use std::fs::File;

use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;

/// Why a file cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It has no directory of columns that can be read, or the system refuses it.
    #[error("is no Parquet file: {0}")]
    Format(#[from] ParquetError),
    /// A column is said to lie where there is no file.
    #[error("is damaged: column `{0}` lies outside the file")]
    Outside(String),
}

/// Opens a Parquet file, every column of which lies inside it.
pub fn open(file: File) -> Result<SerializedFileReader<File>, OpenError> {
    let size = file.metadata().map_err(ParquetError::from)?.len();
    let reader = SerializedFileReader::new(file)?;
    let inside = |start: i64, length: i64| {
        let numbers = u64::try_from(start).ok().zip(u64::try_from(length).ok());
        numbers.and_then(|(start, length)| start.checked_add(length)).is_some_and(|end| end <= size)
    };
    for chunk in reader.metadata().row_groups().iter().flat_map(RowGroupMetaData::columns) {
        let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
        if !inside(start, chunk.compressed_size()) || !inside(chunk.data_page_offset(), 0) {
            return Err(OpenError::Outside(chunk.column_path().string()));
        }
    }
    Ok(reader)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};

    use super::*;
    use crate::testing::{anonymous, write_lists};

    #[test]
    fn what_claims_to_lie_outside_the_file_is_refused_by_name() {
        let mut whole = Vec::new();
        let mut file = write_lists(5_000);
        file.read_to_end(&mut whole).unwrap();
        file.rewind().unwrap();
        assert_eq!(open(file).unwrap().num_row_groups(), 1);
        // The directory alone, as a broken transfer leaves it.
        let end = whole.len() - 8;
        let length = u32::from_le_bytes(whole[end..end + 4].try_into().unwrap()) as usize;
        let mut cut = anonymous();
        cut.write_all(b"PAR1").unwrap();
        cut.write_all(&whole[end - length..]).unwrap();
        let message = open(cut).err().unwrap().to_string();
        assert_eq!(message, "is damaged: column `numbers.list.element` lies outside the file");
    }

    #[test]
    fn other_files_are_none() {
        let mut file = anonymous();
        file.write_all(b"PAR1 nothing PAR1").unwrap();
        assert!(matches!(open(file), Err(OpenError::Format(_))));
    }
}
