//! Carrying a conversion out.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::clean::clean;
use super::difficulty::difficulty;
use super::forms::{about, alternating, masked, schema, sharegpt};
use super::pairs::preference;
use super::table::{Cell, Table};
use super::tokens::tokens;
use super::{Advantage, ConvertOptions, ConvertReport, Form, each_sample};
use crate::TraceError;
use crate::row::{Role, Row, Verdict};
use crate::stats::advantage;

/// The group of a sample: the trials of one task by one agent with one model in one run.
pub(super) type GroupKey = [Option<crate::Text>; 4];

/// Converts the trials below `paths` into samples in the file `out`, JSON lines or Parquet by its suffix.
pub fn convert(paths: &[PathBuf], options: &ConvertOptions, out: &Path) -> Result<ConvertReport, TraceError> {
    let mut report = ConvertReport::default();
    match options.form {
        Form::Preference => preference(paths, options, out, &mut report)?,
        Form::Tokens => tokens(paths, options, out, &mut report)?,
        Form::Difficulty => difficulty(paths, options, out, &mut report)?,
        Form::Rl => groups(paths, options, out, &mut report)?,
        _ => single(paths, options, out, &mut report)?,
    }
    report.quarantined.sort();
    report.odd.sort();
    report.masked.sort();
    Ok(report)
}

/// Cleans a row, unless it is left out.
pub(super) fn ready(
    row: &mut Row,
    place: &str,
    options: &ConvertOptions,
    report: &mut ConvertReport,
) -> bool {
    if options.filter.is_some_and(|filter| !filter.keeps(row.result.as_ref())) {
        report.leave_out("filter");
        return false;
    }
    clean(row, place, &options.clean, report);
    // Where the model was never asked, whatever the result says, there is nothing to learn from.
    if !row.conversations.iter().any(|message| message.role == Role::Assistant) {
        report.leave_out("no turn of the agent");
        return false;
    }
    true
}

/// Forms with a sample a trial.
fn single(
    paths: &[PathBuf],
    options: &ConvertOptions,
    out: &Path,
    report: &mut ConvertReport,
) -> Result<(), TraceError> {
    let mut table = Table::create(out, schema(options.form))?;
    each_sample(paths, report, &mut |report, place, mut row| {
        if !ready(&mut row, &place, options, report) {
            return Ok(());
        }
        let own = match options.form {
            Form::Sharegpt => vec![sharegpt(&row)],
            Form::Masked => masked(&row).into(),
            Form::LlamaFactory => match alternating(&mut row) {
                Ok(()) => vec![Cell::Messages(std::mem::take(&mut row.conversations))],
                Err(why) => {
                    report.leave_out(why);
                    return Ok(());
                }
            },
            _ => vec![Cell::Messages(std::mem::take(&mut row.conversations))],
        };
        report.kept += 1;
        table.write(own.into_iter().chain(about(&row)).collect())
    })?;
    report.samples = table.written;
    table.finish()
}

/// Samples with their group: the rewards of all are known before the first one is written.
fn groups(
    paths: &[PathBuf],
    options: &ConvertOptions,
    out: &Path,
    report: &mut ConvertReport,
) -> Result<(), TraceError> {
    let mut rewards: HashMap<GroupKey, Vec<f64>> = HashMap::new();
    each_sample(paths, &mut ConvertReport::default(), &mut |scratch, place, mut row| {
        if ready(&mut row, &place, options, scratch)
            && let Some(reward) = row.reward()
        {
            rewards.entry(group_key(&row)).or_default().push(reward);
        }
        Ok(())
    })?;
    let mut table = Table::create(out, schema(Form::Rl))?;
    let mut written: HashMap<GroupKey, u32> = HashMap::new();
    each_sample(paths, report, &mut |report, place, mut row| {
        if !ready(&mut row, &place, options, report) {
            return Ok(());
        }
        let Some(reward) = row.reward() else {
            report.leave_out(no_reward(&row));
            return Ok(());
        };
        let key = group_key(&row);
        let group = rewards.get(&key).map(Vec::as_slice).unwrap_or_default();
        if options.drop_constant_groups && group.iter().all(|other| other.total_cmp(&reward).is_eq()) {
            report.leave_out("group without variance");
            return Ok(());
        }
        let by_std = options.advantage == Advantage::Std;
        let Some(advantage) = advantage(reward, group, by_std) else {
            report.leave_out("rewards too large for an advantage");
            return Ok(());
        };
        let index = written.entry(key).or_default();
        let mut cells: Vec<Cell> = masked(&row).into();
        cells.push(Cell::Text(Some(group_id(&row).into())));
        cells.push(Cell::Count(Some((*index).into())));
        cells.push(Cell::Count(i64::try_from(group.len()).ok()));
        cells.push(Cell::Number(Some(advantage)));
        cells.extend(about(&row));
        *index += 1;
        report.kept += 1;
        table.write(cells)
    })?;
    report.groups = written.len() as u64;
    report.samples = table.written;
    table.finish()
}

/// Why a sample has no reward that counts.
pub(super) fn no_reward(row: &Row) -> &'static str {
    match Verdict::of(row.result.as_ref()) {
        Verdict::Exception(_) => "something went wrong and no reward counts",
        _ => "no reward",
    }
}

pub(super) fn group_key(row: &Row) -> GroupKey {
    [row.run_id.clone(), row.agent.clone(), row.model.clone(), row.task.clone()]
}

/// The group's name: run, agent, model and task.
pub(super) fn group_id(row: &Row) -> String {
    group_key(row).each_ref().map(|part| part.as_deref().unwrap_or("-")).join("|")
}
