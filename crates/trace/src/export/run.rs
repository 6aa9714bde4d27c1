//! Carrying an export out.

use std::path::PathBuf;
use std::sync::mpsc::sync_channel;

use super::index::{Index, Indexed, add};
use super::rows::{Draft, Made, NoRows, rows};
use super::{ExportOptions, ExportReport, LeftOut};
use crate::TraceError;
use crate::row::Row;

/// More threads than this do not read: each holds a trial, and another one that is ready.
const READERS: usize = 4;

/// Hands the rows of all trials below `paths` to `sink`, sorted by run, trial, source and turn.
///
/// Threads read trials in turn while this one takes their rows in order. A malformed trial is left out by name; an error of the sink, two
/// trials of one name that differ, and what Harbor's exporter stops at under its rules, end the export.
pub fn export(
    paths: &[PathBuf],
    options: ExportOptions,
    sink: &mut dyn FnMut(Row) -> Result<(), TraceError>,
) -> Result<ExportReport, TraceError> {
    let mut report = ExportReport::default();
    let index = Index::new(paths, options, &mut report)?;
    std::thread::scope(|scope| {
        let index = &index;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let readers: Vec<_> = (0..cores.min(READERS))
            .map(|reader| {
                let (sender, receiver) = sync_channel(1);
                scope.spawn(move || {
                    for trial in index.trials.iter().skip(reader).step_by(cores.min(READERS)) {
                        // Nobody takes any more once the sink has failed.
                        if sender.send((trial, rows(index, trial, options))).is_err() {
                            return;
                        }
                    }
                });
                receiver
            })
            .collect();
        let mut earlier: Option<(&Indexed, Vec<Draft>)> = None;
        // A reader that has no more trials ends; the one whose turn it is then was the last.
        for (trial, made) in readers.iter().cycle().map_while(|reader| reader.recv().ok()) {
            let Made { rows, none, faults, mended, media } = made?;
            add(&mut report, mended);
            report.media += media;
            let path = index.path_of(&trial.place).display().to_string();
            let odd = faults.into_iter().map(|fault| LeftOut { path: path.clone(), why: fault.to_string() });
            report.odd.extend(odd);
            match none {
                Some(NoRows::NoTrajectory) => report.without_trajectory += 1,
                Some(NoRows::NoTurn) => report.without_turn += 1,
                Some(NoRows::Malformed(why)) => report.quarantined.push(LeftOut { path, why }),
                None => {
                    let same = |other: &Indexed| {
                        !options.harbor
                            && (&other.run_id, &other.trial_name) == (&trial.run_id, &trial.trial_name)
                    };
                    if let Some((first, kept)) = earlier.as_ref().filter(|(other, _)| same(other)) {
                        if *kept != rows {
                            return Err(TraceError::Conflict {
                                key: format!("run {}, trial {}", trial.run_id, trial.trial_name),
                                first: index.path_of(&first.place).display().to_string(),
                                second: path,
                            });
                        }
                        report.copies += 1;
                        continue;
                    }
                    report.exported += 1;
                    report.rows += rows.len() as u64;
                    report.helper_rows += rows.iter().filter(|draft| !draft.is_main()).count() as u64;
                    for draft in &rows {
                        sink(draft.row())?;
                    }
                    earlier = Some((trial, rows));
                }
            }
        }
        Ok(())
    })?;
    report.quarantined.sort();
    report.odd.sort();
    Ok(report)
}
