//! Reads a file of rows with the columns of one role.

use crate::file::FileInput;
use crate::read::{
    Faults, FieldFault, Place, RawError, RawFacts, RawRow, Row, RowFault, RowProblem, Surrogates, read_raw,
    salvage_id,
};
use std::collections::BTreeMap;

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
    /// Makes a record of one row.
    pub parse: fn(&mut Row, &mut Notes, Place) -> Result<T, FieldFault>,
    /// Looks at all rows together, once each of them is a record.
    pub compare: fn(&[Placed<T>], &mut Notes, &mut Faults),
}

/// A record and where it came from.
#[derive(Debug)]
pub(crate) struct Placed<T> {
    pub place: Place,
    pub offset: u64,
    pub record: T,
}

impl<T> Placed<T> {
    /// A fault of this row.
    pub(crate) fn fault(&self, id: &str, field: &str, problem: RowProblem) -> RowFault {
        let field = Some(field.to_owned());
        RowFault { place: self.place, offset: self.offset, id: Some(id.to_owned()), field, problem }
    }
}

/// What was read from one file.
#[derive(Debug)]
pub(crate) struct Table<T> {
    pub rows: Vec<T>,
    pub facts: RawFacts,
    pub notes: Notes,
}

/// Why a file gave no table.
#[derive(Debug)]
pub(crate) enum TableError {
    Raw(RawError),
    Rows(Faults),
}

/// What is worth telling about rows that were read.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    counted: BTreeMap<&'static str, (u64, Place)>,
    unread: BTreeMap<String, u64>,
}

impl Notes {
    /// Counts rows of which the same is to be told.
    pub(crate) fn count(&mut self, what: &'static str, number: u64, place: Place) {
        let entry = self.counted.entry(what).or_insert((0, place));
        entry.0 += number;
        entry.1 = entry.1.min(place);
    }

    fn unread(&mut self, columns: Vec<String>) {
        /// More names than any collection has columns: a hostile file shall not fill the memory with names.
        const NAMES: usize = 256;
        for column in columns {
            if self.unread.len() < NAMES || self.unread.contains_key(&column) {
                *self.unread.entry(column).or_default() += 1;
            }
        }
    }

    /// The notes as sentences, in a fixed order.
    pub(crate) fn sentences(self, bom: bool) -> Vec<String> {
        let mut all = Vec::new();
        if bom {
            all.push("the file begins with a byte order mark, which was skipped".to_owned());
        }
        for (what, (number, place)) in self.counted {
            all.push(format!("{what}: {number}, first at {place}"));
        }
        if !self.unread.is_empty() {
            let columns: Vec<_> =
                self.unread.iter().map(|(column, rows)| format!("{column} ({rows})")).collect();
            all.push(format!("columns that are not read, with their row counts: {}", columns.join(", ")));
        }
        all
    }
}

/// Reads every row of a JSON-lines or JSON-array file.
pub(crate) fn read_table<T>(input: &FileInput, columns: &Columns<T>) -> Result<Table<T>, TableError> {
    let mut rows: Vec<Placed<T>> = Vec::new();
    let mut notes = Notes::default();
    let mut faults = Faults::new(input.shown.clone());
    let facts = read_raw(input, &mut |raw| match read_row(&raw, columns, &mut notes) {
        // Once one row is refused the records are of no use: only the faults are.
        Ok(record) if faults.total == 0 => {
            rows.push(Placed { place: raw.place, offset: raw.offset, record });
        }
        Ok(_) => {}
        Err(fault) => {
            rows = Vec::new();
            faults.push(fault);
        }
    })
    .map_err(TableError::Raw)?;
    if faults.total == 0 {
        (columns.compare)(&rows, &mut notes, &mut faults);
    }
    if faults.total > 0 {
        return Err(TableError::Rows(faults));
    }
    Ok(Table { rows: rows.into_iter().map(|row| row.record).collect(), facts, notes })
}

fn read_row<T>(raw: &RawRow, columns: &Columns<T>, notes: &mut Notes) -> Result<T, RowFault> {
    let bytes = match &raw.bytes {
        Ok(bytes) => bytes,
        Err(problem) => {
            let problem = problem.clone();
            return Err(FieldFault { field: None, problem, offset: None }.at(raw, None));
        }
    };
    let parsed = if columns.bare {
        Row::text_or_object(bytes, columns.wanted, columns.id, columns.surrogates)
    } else {
        Row::object(bytes, columns.wanted, columns.surrogates)
    };
    let mut row = parsed.map_err(|fault| fault.at(raw, salvage_id(bytes, columns.id)))?;
    notes.unread(std::mem::take(&mut row.others));
    if row.mended > 0 {
        notes.count("lone surrogates that were replaced by U+FFFD", row.mended as u64, raw.place);
    }
    let id = row.peek(columns.id);
    (columns.parse)(&mut row, notes, raw.place).map_err(|fault| fault.at(raw, id))
}
