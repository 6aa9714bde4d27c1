//! What a file's name tells about its content.

/// How rows stand in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Columns in row groups.
    Parquet,
    /// One JSON value a line.
    JsonLines,
    /// One JSON array of rows.
    JsonArray,
    /// Comma-separated values below a line of column names.
    Csv,
    /// One text a line.
    TextLines,
}

/// What a file is wrapped in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    /// Nothing.
    None,
    /// gzip, of one member or several.
    Gzip,
    /// Zstandard, of one frame or several.
    Zstd,
}

/// Format and compression of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileForm {
    /// How its rows stand.
    pub format: Format,
    /// What it is wrapped in.
    pub compression: Compression,
}

/// Endings of names that tell a format.
const FORMATS: [(&str, Format); 6] = [
    ("parquet", Format::Parquet),
    ("jsonl", Format::JsonLines),
    ("ndjson", Format::JsonLines),
    ("json", Format::JsonArray),
    ("csv", Format::Csv),
    ("txt", Format::TextLines),
];

/// Endings of names that tell a compression.
const COMPRESSIONS: [(&str, Compression); 3] =
    [("gz", Compression::Gzip), ("zst", Compression::Zstd), ("zstd", Compression::Zstd)];

impl FileForm {
    /// Tells the form from a file's name. A name that tells nothing is one of a list of texts.
    pub(crate) fn of(name: &str) -> Self {
        let (rest, compression) = match ending(name, &COMPRESSIONS) {
            Some((rest, compression)) => (rest, compression),
            None => (name, Compression::None),
        };
        let format = ending(rest, &FORMATS).map_or(Format::TextLines, |(_, format)| format);
        Self { format, compression }
    }
}

/// The part of a name before a known ending, and what the ending stands for. Upper and lower case are alike.
fn ending<'n, T: Copy>(name: &'n str, known: &[(&str, T)]) -> Option<(&'n str, T)> {
    let (rest, extension) = name.rsplit_once('.')?;
    let (_, meaning) = known.iter().find(|(ending, _)| extension.eq_ignore_ascii_case(ending))?;
    Some((rest, *meaning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_format_and_compression() {
        for (name, format, compression) in [
            ("data/train-00000-of-00003.parquet", Format::Parquet, Compression::None),
            ("a.b/x.JSONL.gz", Format::JsonLines, Compression::Gzip),
            ("x.ndjson.zst", Format::JsonLines, Compression::Zstd),
            ("x.json", Format::JsonArray, Compression::None),
            ("x.csv.zstd", Format::Csv, Compression::Zstd),
            ("x.txt.gz", Format::TextLines, Compression::Gzip),
            ("x.gz", Format::TextLines, Compression::Gzip),
            ("canary", Format::TextLines, Compression::None),
            ("a.parquet/list", Format::TextLines, Compression::None),
        ] {
            assert_eq!(FileForm::of(name), FileForm { format, compression }, "{name}");
        }
    }
}
