//! Parquet files as other programs write them; `tests/data/make.py` wrote these.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ident::TaskId;
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::column::writer::ColumnWriterImpl;
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;
use record::{Instance, RewardMean, SourceRole, Trajectory};
use source::{Loaded, Place, Reading, Records, RowProblem, SourceError, SourceSpec, load};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

fn read(base: &Path, path: &str, role: SourceRole, strict: bool) -> Result<Records, SourceError> {
    let spec = SourceSpec::file("s", path, role);
    load(&spec, base, &Reading { strict, ..Reading::default() })
}

fn instances(path: &str) -> Loaded<Instance> {
    match read(&data(), path, SourceRole::Instances, false) {
        Ok(Records::Instances(loaded)) => loaded,
        other => panic!("{path}: {other:?}"),
    }
}

fn runs(path: &str) -> Loaded<Trajectory> {
    match read(&data(), path, SourceRole::Trajectories, false) {
        Ok(Records::Trajectories(loaded)) => loaded,
        other => panic!("{path}: {other:?}"),
    }
}

fn means(path: &str) -> Result<Loaded<RewardMean>, SourceError> {
    match read(&data(), path, SourceRole::RewardMeans, false)? {
        Records::RewardMeans(loaded) => Ok(loaded),
        other => panic!("{path}: {other:?}"),
    }
}

#[test]
fn every_kind_of_text_column_gives_the_same_rows() {
    let first = instances("string.parquet");
    assert_eq!(first.rows.len(), 2);
    assert_eq!(first.rows[0].fail_to_pass, ["t.py::a", "t.py::b"]);
    assert_eq!(first.rows[0].pass_to_pass, Vec::<String>::new());
    assert_eq!(first.rows[1].patch, "é\0\u{2028}");
    assert_eq!(first.rows[1].problem_statement, "");
    assert_eq!(
        first.report.notes,
        ["rows without a problem statement: 1, first at string.parquet, row group 1, row 2"]
    );
    // And every compression that their writer knows.
    for other in ["large-string", "string-view", "dictionary", "old-lists", "brotli", "lz4"] {
        assert_eq!(instances(&format!("{other}.parquet")).rows, first.rows, "{other}");
    }
}

#[test]
fn lists_may_be_texts_and_columns_of_other_revisions_do_no_harm() {
    let loaded = instances("encoded-lists.parquet");
    assert_eq!(loaded.rows.len(), 1);
    assert_eq!(loaded.rows[0].fail_to_pass, ["t.py::a", "t.py::b"]);
    let fault = &loaded.report.faults.shown[0];
    assert_eq!(
        (fault.place, fault.field.as_deref()),
        (Place::Group { group: 1, row: 2 }, Some("FAIL_TO_PASS"))
    );
    assert_eq!(
        loaded.report.notes,
        ["columns that are not read, with their row counts: base_commit (2), created_at (2)"]
    );
}

#[test]
fn bad_rows_are_left_out_with_their_row_group_and_the_others_are_read() {
    let loaded = runs("runs.parquet");
    let ids: Vec<_> = loaded.rows.iter().map(|row| (row.traj_id.as_str(), row.model.as_deref())).collect();
    assert_eq!(ids, [("r1", Some("m1")), ("r2", None), ("r6", Some(""))]);
    let faults = &loaded.report.faults;
    let places: Vec<_> = faults.shown.iter().map(|fault| (fault.place, fault.field.as_deref())).collect();
    assert_eq!(
        places,
        [
            (Place::Group { group: 2, row: 1 }, Some("resolved")),
            (Place::Group { group: 2, row: 2 }, Some("instance_id")),
            (Place::Group { group: 3, row: 1 }, Some("model")),
        ]
    );
    assert_eq!(faults.shown[2].problem, RowProblem::NotUtf8);
    assert_eq!((loaded.input.rows, faults.total), (3, 3));
    let message = read(&data(), "runs.parquet", SourceRole::Trajectories, true).unwrap_err().to_string();
    assert!(message.contains("runs.parquet, row group 2, row 1, \"r3\", field `resolved`"), "{message}");
}

#[test]
fn columns_without_a_type_and_files_without_rows_are_read() {
    let loaded = runs("null-model.parquet");
    assert_eq!((loaded.rows[0].traj_id.as_str(), &loaded.rows[0].model), ("r7", &None));
    assert_eq!(runs("empty.parquet").rows, []);
}

#[test]
fn numbers_keep_their_exact_value() {
    let values = |path| -> Vec<u64> {
        means(path).unwrap().rows.iter().map(|row| row.reward_mean.to_bits()).collect()
    };
    let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert_eq!(values("means-double.parquet"), bits(&[0.999_999_999_999_999_9, 1.0, 1.0 / 7.0]));
    assert_eq!(values("means-float.parquet"), bits(&[0.5, 1.0, 0.0]));
    let whole = means("means-whole.parquet").unwrap();
    assert_eq!((whole.rows.len(), whole.report.faults.total), (2, 1));
    let nan = means("means-nan.parquet").unwrap_err().to_string();
    assert!(nan.contains("row group 1, row 2") && nan.contains("NaN"), "{nan}");
    let decimal = means("means-decimal.parquet").unwrap_err().to_string();
    assert!(decimal.contains("column `reward_mean` holds decimals"), "{decimal}");
}

#[test]
fn files_that_cannot_be_read_say_why() {
    let columns = read(&data(), "runs.parquet", SourceRole::Profiles, false).unwrap_err().to_string();
    assert!(columns.contains("runs.parquet: has none of the columns that are read: `repo`"), "{columns}");
    let base = tempfile::tempdir().unwrap();
    let whole = fs::read(data().join("runs.parquet")).unwrap();
    for (name, bytes) in [("cut.parquet", &whole[..whole.len() - 9]), ("text.parquet", &b"a,b\n1,2\n"[..])] {
        fs::write(base.path().join(name), bytes).unwrap();
        let message = read(base.path(), name, SourceRole::Trajectories, false).unwrap_err().to_string();
        assert!(message.contains(name) && message.contains("is no Parquet file"), "{message}");
    }
    // Lists where a text is wanted are faults of their rows; structures cannot be read at all.
    let lists = read(&data(), "runs.parquet", SourceRole::Instances, false).unwrap();
    assert_eq!((lists.report().rows, lists.report().faults.total), (0, 6));
}

#[test]
fn packed_files_are_unpacked() {
    let base = tempfile::tempdir().unwrap();
    let whole = fs::read(data().join("runs.parquet")).unwrap();
    fs::write(base.path().join("runs.parquet.zst"), zstd::encode_all(&whole[..], 1).unwrap()).unwrap();
    let Records::Trajectories(loaded) =
        read(base.path(), "runs.parquet.zst", SourceRole::Trajectories, false).unwrap()
    else {
        panic!("another role came back");
    };
    assert_eq!(loaded.rows, runs("runs.parquet").rows);
}

/// Writes one column of ids in one row group; what is written of it `write` decides.
fn write_ids(
    path: &Path,
    schema: &str,
    properties: WriterProperties,
    write: impl FnOnce(&mut ColumnWriterImpl<'_, ByteArrayType>),
) {
    let schema = Arc::new(parse_message_type(&format!("message rows {{ {schema} }}")).unwrap());
    let mut writer =
        SerializedFileWriter::new(fs::File::create(path).unwrap(), schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    write(column.typed::<ByteArrayType>());
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
}

const IDS: &str = "required binary task_id (STRING);";

#[test]
fn every_compression_of_the_format_but_one_is_read() {
    let base = tempfile::tempdir().unwrap();
    let ids: Vec<String> = (0..3000).map(|n| format!("o__a.0123abcd.pr_{n}")).collect();
    for (name, codec) in [
        ("none", Compression::UNCOMPRESSED),
        ("snappy", Compression::SNAPPY),
        ("gzip", Compression::GZIP(GzipLevel::default())),
        ("brotli", Compression::BROTLI(BrotliLevel::default())),
        ("lz4", Compression::LZ4),
        ("lz4-raw", Compression::LZ4_RAW),
        ("zstd", Compression::ZSTD(ZstdLevel::default())),
    ] {
        let file = format!("{name}.parquet");
        let properties = WriterProperties::builder().set_compression(codec).build();
        write_ids(&base.path().join(&file), IDS, properties, |column| {
            let values: Vec<ByteArray> = ids.iter().map(|id| id.as_str().into()).collect();
            column.write_batch(&values, None, None).unwrap();
        });
        let Records::Ids(loaded) = read(base.path(), &file, SourceRole::Ids, false).unwrap() else {
            panic!("another role came back");
        };
        let read: Vec<_> = loaded.rows.iter().map(TaskId::as_str).collect();
        assert_eq!(read, ids, "{name}");
    }
}

#[test]
fn a_few_bytes_that_stand_for_very_many_values_are_refused() {
    let base = tempfile::tempdir().unwrap();
    let lists = "required binary instance_id (STRING); \
                 optional group FAIL_TO_PASS (LIST) { repeated group list { optional binary element (STRING); } }";
    let path = base.path().join("x.parquet");
    let schema = Arc::new(parse_message_type(&format!("message rows {{ {lists} }}")).unwrap());
    let file = fs::File::create(&path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<ByteArrayType>().write_batch(&["a.1".into()], None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    // One list of absent elements, in one run.
    let many = (1 << 24) + 1;
    let mut repetition = vec![1; many];
    repetition[0] = 0;
    column.typed::<ByteArrayType>().write_batch(&[], Some(&vec![2; many]), Some(&repetition)).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    assert!(fs::metadata(&path).unwrap().len() < 100_000);
    let message = read(base.path(), "x.parquet", SourceRole::Instances, false).unwrap_err().to_string();
    assert!(
        message.contains("`FAIL_TO_PASS` cannot be read") && message.contains("more than 16777216"),
        "{message}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn damaged_files_never_harm(
        name in prop::sample::select(vec!["runs.parquet", "string.parquet", "old-lists.parquet", "dictionary.parquet"]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)
    ) {
        let mut bytes = fs::read(data().join(name)).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let base = tempfile::tempdir().unwrap();
        fs::write(base.path().join("x.parquet"), bytes).unwrap();
        // Whatever is read or refused, the reader comes back.
        let _ = read(base.path(), "x.parquet", SourceRole::Instances, false);
        let _ = read(base.path(), "x.parquet", SourceRole::Trajectories, false);
    }
}
