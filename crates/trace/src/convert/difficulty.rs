//! How hard tasks are: solve rates with intervals, in the columns that a plan takes reward means from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::table::{Cell, Kind, Table};
use super::{ConvertOptions, ConvertReport};
use crate::TraceError;
use crate::stats::{Outcome, gather, wilson};

/// A reward that solves a task.
const SOLVED: f64 = 1.0;

/// The trials of one task.
#[derive(Debug, Default)]
struct Group {
    rewards: Vec<f64>,
    errored: i64,
}

/// Writes a row a task, in ascending order of names. A trial without a reward counts in no mean.
pub(super) fn difficulty(
    paths: &[PathBuf],
    options: &ConvertOptions,
    out: &Path,
    report: &mut ConvertReport,
) -> Result<(), TraceError> {
    let gathered = gather(paths)?;
    report.trials = gathered.trials.len() as u64;
    report.copies = gathered.copies;
    report.other_rows = gathered.other_rows;
    report.read = gathered.read;
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for trial in &gathered.trials {
        // What no model was asked about says nothing about how hard a task is for one.
        if trial.turns.is_none_or(|turns| turns == 0) {
            report.leave_out("no turn of the agent");
            continue;
        }
        let Some(task) = &trial.task else {
            report.leave_out("no task");
            continue;
        };
        // Instances have no organisation before their name.
        let name = task.rsplit('/').next().unwrap_or(task).to_owned();
        match &trial.outcome {
            Outcome::Rewarded { reward, .. } if (0.0..=1.0).contains(reward) => {
                groups.entry(name).or_default().rewards.push(*reward);
                report.kept += 1;
            }
            Outcome::Rewarded { .. } => report.leave_out("a reward outside of 0 to 1"),
            _ => {
                groups.entry(name).or_default().errored += 1;
                report.leave_out("no reward that counts");
            }
        }
    }
    let schema = vec![
        ("instance_id_or_commit_hash", Kind::Text),
        ("reward_mean", Kind::Number),
        ("rewarded", Kind::Count),
        ("errored", Kind::Count),
        ("solved", Kind::Count),
        ("low", Kind::Number),
        ("high", Kind::Number),
        ("spread", Kind::Text),
    ];
    let mut table = Table::create(out, schema)?;
    for (task, Group { rewards, errored }) in groups {
        if rewards.is_empty() {
            continue;
        }
        let constant = rewards.iter().all(|reward| reward.total_cmp(&rewards[0]).is_eq());
        if constant && rewards.len() > 1 && options.drop_constant_groups {
            report.leave_out("group without variance");
            continue;
        }
        let solved = rewards.iter().filter(|reward| **reward >= SOLVED).count();
        let interval = wilson(solved as u64, rewards.len() as u64);
        let spread = match (rewards.len(), constant) {
            (1, _) => "single",
            (_, true) => "none",
            (_, false) => "mixed",
        };
        let count = |number: usize| Cell::Count(i64::try_from(number).ok());
        table.write(vec![
            Cell::Text(Some(task.into())),
            Cell::Number(Some(rewards.iter().sum::<f64>() / rewards.len() as f64)),
            count(rewards.len()),
            Cell::Count(Some(errored)),
            count(solved),
            Cell::Number(interval.map(|interval| interval.low)),
            Cell::Number(interval.map(|interval| interval.high)),
            Cell::Text(Some(spread.into())),
        ])?;
        report.groups += 1;
    }
    report.samples = table.written;
    table.finish()
}
