//! Several sets made one: sorted, every row once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};

use serde::Serialize;

use crate::TraceError;
use crate::read::{ReadReport, Wanted, read_rows, set_files};
use crate::row::{Row, RowKey};
use crate::write::{Columns, RowSet, Target, Written};

/// So many rows of a file may be ready before one is taken.
const AHEAD: usize = 16;

/// What a merge found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MergeReport {
    /// Rows of the new set.
    pub rows: u64,
    /// Rows that were equal to others.
    pub copies: u64,
    /// Files whose rows were not in order, so that all of them were held in memory at once.
    pub unsorted_files: u64,
    /// What was found while the sets were read.
    pub read: ReadReport,
}

/// A row on its way, with its place.
type Placed = (RowKey, String, Row);

/// Merges the sets at `paths` into a new one at `out`. Rows of one run, trial, source and turn have to be equal; all but one of
/// them are dropped. Without a row nothing is written, and what stood at `out` stays.
pub fn merge(
    paths: &[PathBuf],
    shard_bytes: u64,
    out: &Path,
) -> Result<(MergeReport, Option<Written>), TraceError> {
    Target::of(out)?;
    let mut report = MergeReport::default();
    let mut files = Vec::new();
    for path in paths {
        std::fs::metadata(path).map_err(TraceError::io(path))?;
        let detail = || "holds no file of rows (.parquet, .jsonl)".to_owned();
        let found = set_files(path)?
            .ok_or_else(|| TraceError::NotTraces { path: path.clone(), detail: detail() })?
            .some(path)?;
        report.read.odd.extend(found.odd);
        files.extend(found.files);
    }
    let mut optional = [false, false];
    let mut sorted = Vec::new();
    for file in &files {
        let mut last: Option<RowKey> = None;
        let mut in_order = true;
        read_rows(std::slice::from_ref(file), Wanted::Facts, &mut |_, row| {
            let key = row.key();
            in_order &= last.as_ref().is_none_or(|last| *last <= key);
            last = Some(key);
            Ok(())
        })?;
        report.unsorted_files += u64::from(!in_order);
        sorted.push(in_order);
    }
    // Which of the further columns there are is told by the names alone.
    for (column, there) in ["instruction", "tool_definitions"].iter().zip(&mut optional) {
        *there = files.iter().any(|file| crate::read::has_column(file, column));
    }
    let mut set = RowSet::create(out, Columns::field(optional[0], optional[1], false), shard_bytes)?;
    std::thread::scope(|scope| {
        let mut streams: Vec<Receiver<Result<Placed, TraceError>>> = Vec::new();
        let mut readers = Vec::new();
        for (file, in_order) in files.iter().zip(sorted) {
            let (sender, receiver) = sync_channel(AHEAD);
            streams.push(receiver);
            readers.push(scope.spawn(move || {
                let mut held = Vec::new();
                let read = read_rows(std::slice::from_ref(file), Wanted::Rows, &mut |place, row| {
                    let placed = (row.key(), place.to_string(), row);
                    if in_order {
                        // Nobody takes any more once the merge has failed.
                        let _ = sender.send(Ok(placed));
                    } else {
                        held.push(placed);
                    }
                    Ok(())
                });
                held.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
                for placed in held {
                    let _ = sender.send(Ok(placed));
                }
                match read {
                    Ok(report) => report,
                    Err(error) => {
                        let _ = sender.send(Err(error));
                        ReadReport::default()
                    }
                }
            }));
        }
        let merged = join(&streams, &mut set, &mut report);
        // Readers that nobody listens to any more end as well.
        drop(streams);
        for reader in readers {
            report.read.add(reader.join().unwrap_or_default());
        }
        merged
    })?;
    let written = if report.rows > 0 { Some(set.finish()?) } else { None };
    Ok((report, written))
}

/// Takes the smallest row of all streams, again and again.
fn join(
    streams: &[Receiver<Result<Placed, TraceError>>],
    set: &mut RowSet,
    report: &mut MergeReport,
) -> Result<(), TraceError> {
    let mut heads: Vec<Option<(String, Row)>> = Vec::new();
    let mut order = BinaryHeap::new();
    let next = |stream: usize, order: &mut BinaryHeap<Reverse<(RowKey, usize)>>| -> Result<_, TraceError> {
        match streams[stream].recv() {
            Ok(placed) => {
                let (key, place, row) = placed?;
                order.push(Reverse((key, stream)));
                Ok(Some((place, row)))
            }
            Err(_) => Ok(None),
        }
    };
    for stream in 0..streams.len() {
        let head = next(stream, &mut order)?;
        heads.push(head);
    }
    let mut last: Option<Placed> = None;
    while let Some(Reverse((key, stream))) = order.pop() {
        let head = next(stream, &mut order)?;
        let Some((place, row)) = std::mem::replace(&mut heads[stream], head) else { continue };
        match &last {
            // Rows without the name of a trial are rows of their own.
            Some((other, first, kept)) if *other == key && row.trial_name.is_some() => {
                if *kept != row {
                    return Err(TraceError::Conflict {
                        key: key.to_string(),
                        first: first.clone(),
                        second: place,
                    });
                }
                report.copies += 1;
            }
            _ => {
                set.write(row.clone())?;
                report.rows += 1;
                last = Some((key, place, row));
            }
        }
    }
    Ok(())
}
