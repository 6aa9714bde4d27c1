//! Pairs of a better and a worse trial of one group.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::forms::{MESSAGES, split};
use super::run::{group_id, no_reward, ready};
use super::table::{Cell, Kind, Table};
use super::{ConvertOptions, ConvertReport, each_sample};
use crate::TraceError;
use crate::row::{Message, Row, Text};

/// One trial that may stand in a pair.
struct Candidate {
    reward: f64,
    trial: Option<Text>,
    place: String,
    prompt: Vec<Message>,
    response: Vec<Message>,
}

/// Writes pairs: in each group the best with the worst, the second best with the second worst, as long as their rewards differ.
/// Both have to begin with the same prompt.
pub(super) fn preference(
    paths: &[PathBuf],
    options: &ConvertOptions,
    out: &Path,
    report: &mut ConvertReport,
) -> Result<(), TraceError> {
    let schema = vec![
        ("prompt", MESSAGES),
        ("chosen", MESSAGES),
        ("rejected", MESSAGES),
        ("chosen_reward", Kind::Number),
        ("rejected_reward", Kind::Number),
        ("task", Kind::Text),
        ("group_id", Kind::Text),
        ("chosen_trial", Kind::Text),
        ("rejected_trial", Kind::Text),
    ];
    let mut table = Table::create(out, schema)?;
    let mut groups: BTreeMap<String, (Option<Text>, Vec<Candidate>)> = BTreeMap::new();
    each_sample(paths, report, &mut |report, place, mut row: Row| {
        if !ready(&mut row, &place, options, report) {
            return Ok(());
        }
        let Some(reward) = row.reward() else {
            report.leave_out(no_reward(&row));
            return Ok(());
        };
        let (prompt, response) = split(&row);
        let group = groups.entry(group_id(&row)).or_insert_with(|| (row.task.clone(), Vec::new()));
        group.1.push(Candidate { reward, trial: row.trial_name.clone(), place, prompt, response });
        Ok(())
    })?;
    report.groups = groups.len() as u64;
    for (group, (task, mut candidates)) in groups {
        candidates.sort_by(|a, b| {
            b.reward.total_cmp(&a.reward).then_with(|| (&a.trial, &a.place).cmp(&(&b.trial, &b.place)))
        });
        let (mut first, mut last) = (0, candidates.len());
        while first + 1 < last {
            let (better, worse) = (&candidates[first], &candidates[last - 1]);
            if better.reward <= worse.reward {
                break;
            }
            (first, last) = (first + 1, last - 1);
            if better.prompt != worse.prompt {
                report.leave_out("prompts of a pair differ");
                report.leave_out("prompts of a pair differ");
                continue;
            }
            report.kept += 2;
            table.write(vec![
                Cell::Messages(better.prompt.clone()),
                Cell::Messages(better.response.clone()),
                Cell::Messages(worse.response.clone()),
                Cell::Number(Some(better.reward)),
                Cell::Number(Some(worse.reward)),
                Cell::Text(task.clone()),
                Cell::Text(Some(group.as_str().into())),
                Cell::Text(better.trial.clone()),
                Cell::Text(worse.trial.clone()),
            ])?;
        }
        for _ in first..last {
            report.leave_out("no counterpart with another reward");
        }
    }
    report.samples = table.written;
    table.finish()
}
