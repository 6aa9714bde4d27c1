//! The last conversation of every trial, from jobs and from sets of rows.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use super::ConvertReport;
use crate::TraceError;
use crate::export::{Episodes, ExportOptions, export};
use crate::input::Input;
use crate::read::{Wanted, read_rows};
use crate::row::{Row, RowKey};

/// Hands over the last row of every trial's own conversation, with the place it is from.
pub(crate) fn each_sample(
    paths: &[PathBuf],
    report: &mut ConvertReport,
    sink: &mut dyn FnMut(&mut ConvertReport, String, Row) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let (mut jobs, mut files) = (Vec::new(), Vec::new());
    for path in paths {
        match Input::of(path)? {
            Input::Jobs(path) => jobs.push(path),
            Input::Set(set) => {
                report.read.odd.extend(set.odd);
                files.extend(set.files);
            }
        }
    }
    if !jobs.is_empty() {
        let options =
            ExportOptions { episodes: Episodes::Last, system_role: true, ..ExportOptions::default() };
        let done = export(&jobs, options, &mut |row| {
            report.trials += 1;
            let place = row.key().to_string();
            sink(report, place, row)
        })?;
        report.trials += done.without_turn + done.without_trajectory + done.quarantined.len() as u64;
        report.quarantined.extend(done.quarantined);
        report.odd.extend(done.odd);
        report.copies += done.copies;
        for (why, number) in
            [("no turn of the agent", done.without_turn), ("no trajectory", done.without_trajectory)]
        {
            if number > 0 {
                *report.left_out.entry(why).or_default() += number;
            }
        }
    }
    if files.is_empty() { Ok(()) } else { rows(&files, report, sink) }
}

/// Which row of a trial is its last, found before any text is read.
#[derive(Default)]
struct Last {
    episode: u64,
    /// Where it was handed over, and a number that stands for its content.
    taken: Option<(String, u64)>,
}

fn rows(
    files: &[PathBuf],
    report: &mut ConvertReport,
    sink: &mut dyn FnMut(&mut ConvertReport, String, Row) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let mut last: HashMap<RowKey, Last> = HashMap::new();
    read_rows(files, Wanted::Facts, &mut |place, row| {
        let key = key_of(&row, &place.to_string());
        let episode = key.episode;
        let known = last.entry(RowKey { episode: 0, ..key }).or_default();
        known.episode = known.episode.max(episode);
        Ok(())
    })?;
    let mut others = 0;
    let read = read_rows(files, Wanted::Rows, &mut |place, row| {
        let place = place.to_string();
        let key = key_of(&row, &place);
        let known = last.entry(RowKey { episode: 0, ..key.clone() }).or_default();
        if key.episode != known.episode || is_helper(&row) {
            others += 1;
            return Ok(());
        }
        let mut hasher = DefaultHasher::new();
        (row.result.as_deref(), row.conversations.len()).hash(&mut hasher);
        row.conversations.iter().for_each(|message| message.content.hash(&mut hasher));
        let content = hasher.finish();
        if let Some((first, taken)) = &known.taken {
            if *taken != content {
                return Err(TraceError::Conflict {
                    key: key.to_string(),
                    first: first.clone(),
                    second: place,
                });
            }
            report.copies += 1;
            return Ok(());
        }
        known.taken = Some((place.clone(), content));
        report.trials += 1;
        sink(report, place, row)
    })?;
    report.other_rows += others;
    report.read.add(read);
    Ok(())
}

/// A row without the name of a trial is a trial of its own.
fn key_of(row: &Row, place: &str) -> RowKey {
    let key = row.key();
    if row.trial_name.is_some() { key } else { RowKey { trial_name: place.into(), ..key } }
}

/// Whether a row belongs to a helper. Some sets write the name of their harness in place of `main`.
pub(crate) fn is_helper(row: &Row) -> bool {
    row.trace_source
        .as_deref()
        .is_some_and(|source| ["summarization-", "subagent-"].iter().any(|start| source.starts_with(start)))
}
