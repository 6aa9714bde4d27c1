//! Reads the files of a source with the columns of one role.

use std::collections::BTreeMap;
use std::sync::Arc;

use ident::TaskIdError;

use crate::file::{FileIdentity, FileInput, Format};
use crate::read::{
    Faults, FieldFault, Place, RawError, RawRow, Row, RowProblem, Spot, Surrogates, read_csv, read_parquet,
    read_raw, salvage_id,
};

/// How the rows of one role are read.
pub(crate) struct Columns<T: 'static> {
    /// Fields that are read; all others are skipped and counted.
    pub wanted: &'static [&'static str],
    /// The field that names a row.
    pub id: &'static str,
    /// Whether a row may be a bare text, which is then its id.
    pub bare: bool,
    /// What becomes of lone surrogates.
    pub surrogates: Surrogates,
    /// Which faults refuse the source as a whole; other bad rows are left out and reported.
    pub fatal: fn(&RowProblem) -> bool,
    /// Makes a record of one row.
    pub parse: fn(&mut Row, &mut Notes, &Spot) -> Result<T, FieldFault>,
    /// Makes what holds the records of a source against each other.
    pub compare: fn() -> Box<dyn Compare<T>>,
}

/// Holds the records of a source against each other.
pub(crate) trait Compare<T> {
    /// Holds a record against the earlier ones; what is found refuses the source.
    fn compare(&mut self, record: &T, spot: &Spot, notes: &mut Notes) -> Result<(), FieldFault>;

    /// Where the first record of exactly this id stands, for those that look at ids.
    fn first_of(&self, _id: &str) -> Option<Spot> {
        None
    }
}

impl<T, F: FnMut(&T, &Spot, &mut Notes) -> Result<(), FieldFault>> Compare<T> for F {
    fn compare(&mut self, record: &T, spot: &Spot, notes: &mut Notes) -> Result<(), FieldFault> {
        self(record, spot, notes)
    }
}

/// Compares nothing.
pub(crate) fn uncompared<T>() -> Box<dyn Compare<T>> {
    Box::new(|_: &T, _: &Spot, _: &mut Notes| Ok(()))
}

/// What was read of a source.
#[derive(Debug)]
pub(crate) struct Table<T> {
    /// What is kept of the records, in the order of the files and of their rows.
    pub rows: Vec<T>,
    /// How many records there are, kept or not.
    pub read: u64,
    /// What is worth telling.
    pub notes: Notes,
    /// Rows that were left out.
    pub faults: Faults,
    /// Lines that hold white space at most.
    pub blank_lines: u64,
}

/// What was read of one file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileFacts {
    /// Which file it was.
    pub identity: FileIdentity,
    /// How many of its rows are records.
    pub rows: u64,
}

/// What is worth telling about rows that were read.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    counted: BTreeMap<&'static str, (u64, Spot)>,
    unread: BTreeMap<String, u64>,
    marks: u64,
}

impl Notes {
    /// Counts rows of which the same is to be told.
    pub(crate) fn count(&mut self, what: &'static str, number: u64, spot: &Spot) {
        let entry = self.counted.entry(what).or_insert_with(|| (0, spot.clone()));
        entry.0 += number;
    }

    fn unread(&mut self, columns: Vec<String>, rows: u64) {
        /// More names than any collection has columns: a hostile file shall not fill the memory with names.
        const NAMES: usize = 256;
        for column in columns {
            if self.unread.len() < NAMES || self.unread.contains_key(&column) {
                *self.unread.entry(column).or_default() += rows;
            }
        }
    }

    /// The notes as sentences, in a fixed order.
    pub(crate) fn sentences(self) -> Vec<String> {
        let mut all = Vec::new();
        match self.marks {
            0 => {}
            1 => all.push("the file begins with a byte order mark, which was skipped".to_owned()),
            marks => all.push(format!("{marks} files begin with a byte order mark, which was skipped")),
        }
        for (what, (number, spot)) in self.counted {
            all.push(format!("{what}: {number}, first at {spot}"));
        }
        if !self.unread.is_empty() {
            let columns: Vec<_> =
                self.unread.iter().map(|(column, rows)| format!("{column} ({rows})")).collect();
            all.push(format!("columns that are not read, with their row counts: {}", columns.join(", ")));
        }
        all
    }
}

/// Reads the files of one source, one after the other, and keeps of each record what `keep` makes of it.
pub(crate) struct TableReader<'c, T: 'static, U> {
    columns: &'c Columns<T>,
    compare: Box<dyn Compare<T>>,
    keep: &'c dyn Fn(T) -> Option<U>,
    rows: Vec<U>,
    read: u64,
    notes: Notes,
    faults: Faults,
    contradictions: Faults,
    refused: bool,
    blank_lines: u64,
    strict: bool,
}

impl<'c, T, U> TableReader<'c, T, U> {
    /// A reader without rows. With `strict` every bad row refuses the source.
    pub(crate) fn new(columns: &'c Columns<T>, strict: bool, keep: &'c dyn Fn(T) -> Option<U>) -> Self {
        Self {
            columns,
            compare: (columns.compare)(),
            keep,
            rows: Vec::new(),
            read: 0,
            notes: Notes::default(),
            faults: Faults::default(),
            contradictions: Faults::default(),
            refused: false,
            blank_lines: 0,
            strict,
        }
    }

    /// Reads every row of one more file.
    pub(crate) fn read(&mut self, input: &FileInput) -> Result<FileFacts, RawError> {
        let file: Arc<str> = input.shown.to_string_lossy().into();
        let columns = self.columns;
        let before = self.read;
        let identity = match input.form.format {
            Format::JsonLines | Format::JsonArray | Format::TextLines => {
                let lines = input.form.format == Format::TextLines;
                let facts = read_raw(input, &mut |raw| {
                    let (row, id) = columns.row(&raw, lines);
                    self.accept(&file, raw.place, raw.offset, row, id);
                })?;
                self.blank_lines += facts.blank_lines;
                self.notes.marks += u64::from(facts.bom);
                facts.identity
            }
            Format::Csv => {
                let mut content = input.open()?.ok_or(RawError::NotAFile)?;
                let (rows, others) = read_csv(&mut content, columns.wanted, &mut |place, offset, row| {
                    self.accept(&file, place, offset, row, None);
                })?;
                self.notes.unread(others, rows);
                content.finish()?
            }
            Format::Parquet => {
                let (plain, content) = input.open_seekable()?.ok_or(RawError::NotAFile)?;
                let facts = read_parquet(plain, columns.wanted, &mut |place, row| {
                    self.accept(&file, place, 0, row, None);
                })?;
                self.notes.unread(facts.others, facts.rows);
                content.finish()?
            }
        };
        Ok(FileFacts { identity, rows: self.read - before })
    }

    fn accept(
        &mut self,
        file: &Arc<str>,
        place: Place,
        offset: u64,
        row: Result<Row, FieldFault>,
        id: Option<String>,
    ) {
        let spot = Spot { file: Arc::clone(file), place };
        let mut id = id;
        let record = row.and_then(|mut row| {
            self.notes.unread(std::mem::take(&mut row.others), 1);
            if row.mended > 0 {
                let what = "lone surrogates that were replaced by U+FFFD";
                self.notes.count(what, row.mended as u64, &spot);
            }
            id = row.peek(self.columns.id);
            (self.columns.parse)(&mut row, &mut self.notes, &spot)
        });
        match record {
            Ok(record) => {
                self.read += 1;
                if let Err(fault) = self.compare.compare(&record, &spot, &mut self.notes) {
                    self.contradictions.push(fault.at(file, place, offset, id));
                }
                // Once the source is refused the records are of no use: only the faults are.
                if !self.refused {
                    self.rows.extend((self.keep)(record));
                }
            }
            Err(fault) => {
                if self.strict || (self.columns.fatal)(&fault.problem) {
                    self.refused = true;
                    self.rows = Vec::new();
                }
                self.faults.push(fault.at(file, place, offset, id));
            }
        }
    }

    /// Gives what was kept, unless the source is refused.
    pub(crate) fn finish(self) -> Result<Table<U>, Faults> {
        let Self { rows, read, notes, mut faults, contradictions, refused, blank_lines, compare, .. } = self;
        if refused {
            for fault in &mut faults.shown {
                // The other id is told as well, wherever it stands.
                if let RowProblem::TaskId(TaskIdError::Edge(id)) = &fault.problem
                    && let Some(first) = compare.first_of(id.trim())
                {
                    let other = id.trim().to_owned();
                    fault.problem = RowProblem::WhiteSpaceOnly { other, first };
                }
            }
            return Err(faults.and(contradictions));
        }
        if !contradictions.is_empty() {
            return Err(contradictions);
        }
        Ok(Table { rows, read, notes, faults, blank_lines })
    }
}

impl<T> Columns<T> {
    /// Reads one raw row, and as much of its id as a row that does not parse shows.
    fn row(&self, raw: &RawRow, lines: bool) -> (Result<Row, FieldFault>, Option<String>) {
        let bytes = match &raw.bytes {
            Ok(bytes) => bytes,
            Err(problem) => return (Err(FieldFault::row(problem.clone())), None),
        };
        let row = if lines {
            Row::line(bytes, self.wanted, self.id)
        } else if self.bare {
            Row::text_or_object(bytes, self.wanted, self.id, self.surrogates)
        } else {
            Row::object(bytes, self.wanted, self.surrogates)
        };
        let id = if row.is_err() && !lines { salvage_id(bytes, self.id) } else { None };
        (row, id)
    }
}
