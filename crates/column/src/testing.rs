//! A file for the tests.

use std::fs::File;
use std::io::Seek;
use std::sync::Arc;

use parquet::data_type::Int32Type;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

/// A file without a name.
pub(crate) fn anonymous() -> File {
    tempfile::tempfile().unwrap()
}

/// Four lists of numbers, in pages of at most 200, without compression.
pub(crate) fn write_lists(values: usize) -> File {
    let schema =
        "message rows { optional group numbers (LIST) { repeated group list { required int32 element; } } }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_write_batch_size(200)
        .set_data_page_row_count_limit(1)
        .build();
    let mut file = anonymous();
    let mut writer =
        SerializedFileWriter::new(file.try_clone().unwrap(), schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let numbers: Vec<i32> = (0..).take(values).collect();
    let repetition: Vec<i16> = (0..values).map(|at| i16::from(at % values.div_ceil(4) != 0)).collect();
    let definition = vec![2; values];
    column.typed::<Int32Type>().write_batch(&numbers, Some(&definition), Some(&repetition)).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    file.rewind().unwrap();
    file
}
