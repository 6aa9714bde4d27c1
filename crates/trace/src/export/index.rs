//! All trials that were named, in the order of their rows.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use job::{TrialState, TrialView};

use super::{ExportOptions, ExportReport, LeftOut};
use crate::TraceError;
use crate::json::Mended;
use crate::row::Text;
use crate::trial::{Found, Head, JobStats, Place, Root, find, find_agents, load, run_above};

/// Harbor looks for the statistics of a job so many levels above a trial.
const STATS_ABOVE: usize = 6;

/// Harbor looks for a result so many levels above what it takes for a trial.
const RESULT_ABOVE: usize = 3;

/// A trial whose rows are wanted.
#[derive(Debug)]
pub(crate) struct Indexed {
    pub(crate) place: Place,
    pub(crate) run_id: Text,
    pub(crate) trial_name: Text,
    pub(crate) head: Head,
    pub(crate) result: Option<Text>,
}

/// The trials and the directories they lie below.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) roots: Vec<Root>,
    pub(crate) trials: Vec<Indexed>,
}

impl Index {
    /// The directory of a trial as the user would name it.
    pub(crate) fn path_of(&self, place: &Place) -> PathBuf {
        place.path(&self.roots[place.root])
    }

    /// Finds all trials below `paths`, applies the filter, and sorts.
    pub(crate) fn new(
        paths: &[PathBuf],
        options: ExportOptions,
        report: &mut ExportReport,
    ) -> Result<Self, TraceError> {
        let roots: Result<Vec<_>, _> =
            paths.iter().map(|path| Root::open(path).map_err(TraceError::io(path))).collect();
        let mut index = Self { roots: roots?, trials: Vec::new() };
        if options.harbor {
            index.as_harbor(report);
        } else {
            index.whole(report);
        }
        if let Some(filter) = options.filter {
            let before = index.trials.len();
            index.trials.retain(|trial| filter.keeps(trial.result.as_ref()));
            report.filtered += (before - index.trials.len()) as u64;
        }
        index
            .trials
            .sort_by(|a, b| (&a.run_id, &a.trial_name, &a.place).cmp(&(&b.run_id, &b.trial_name, &b.place)));
        Ok(index)
    }

    fn whole(&mut self, report: &mut ExportReport) {
        let mut found = Vec::new();
        for (index, root) in self.roots.iter().enumerate() {
            find(index, root, &mut found);
        }
        for found in found {
            match found {
                Found::File(place) => {
                    report.trials += 1;
                    let path = self.path_of(&place);
                    let head = Head::of_file(&path);
                    self.trials.push(indexed(place, head, &path));
                }
                Found::Odd(path, why) => {
                    report.odd.push(LeftOut { path: path.display().to_string(), why });
                }
                Found::Trial(place, head, mended) => {
                    report.trials += 1;
                    add(report, mended);
                    let path = self.path_of(&place);
                    match head.map_or_else(|| other(&path), |head| Ok(*head)) {
                        Ok(head) => {
                            let trial = indexed(place, head, &path);
                            self.trials.push(trial);
                        }
                        Err(why) => {
                            report.quarantined.push(LeftOut { path: path.display().to_string(), why });
                        }
                    }
                }
            }
        }
    }

    /// Takes what Harbor's exporter takes: the nearest result above, and the job's statistics before it.
    fn as_harbor(&mut self, report: &mut ExportReport) {
        let mut stats: HashMap<PathBuf, Option<JobStats>> = HashMap::new();
        let mut trials = Vec::new();
        for (index, root) in self.roots.iter().enumerate() {
            for place in find_agents(index, root) {
                report.trials += 1;
                let path = root.path_of(&place.names);
                let path = path.canonicalize().unwrap_or(path);
                let head = path.ancestors().take(RESULT_ABOVE + 1).find_map(|above| {
                    let directory = job::Directory::open(above).ok()?;
                    load(&directory, "result.json", &mut Mended::default(), |value| Ok(Head::read(&value)))
                        .ok()
                        .flatten()
                        .flatten()
                });
                let Some(head) = head.filter(|head| head.agent.is_some()) else {
                    report.without_trajectory += 1;
                    continue;
                };
                let stats = path.ancestors().skip(1).take(STATS_ABOVE).find_map(|above| {
                    let read = stats.entry(above.to_owned()).or_insert_with(|| JobStats::read(above));
                    read.clone()
                });
                let mut trial = indexed(place, head, &path);
                let said = stats.as_ref().and_then(|stats| stats.result(&trial.trial_name)).cloned();
                trial.result = said.or_else(|| trial.head.harbor_result()).map(Text::from);
                let unknown = || Text::from("unknown-run");
                trial.run_id = match (&trial.head.run_id, &trial.head.trial_name) {
                    (Some(id), _) | (None, Some(id)) => id.as_str().into(),
                    (None, None) => unknown(),
                };
                trials.push(trial);
            }
        }
        self.trials = trials;
    }
}

pub(super) fn add(report: &mut ExportReport, mended: Mended) {
    report.surrogates += mended.surrogates;
    report.not_utf8 += mended.not_utf8;
    report.cut += mended.cut;
}

fn indexed(place: Place, head: Head, path: &Path) -> Indexed {
    let name = |path: Option<&Path>| {
        path.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let trial_name = head.trial_name.clone().unwrap_or_else(|| name(Some(path)));
    let run_id = head.run_id.clone().unwrap_or_else(|| name(path.parent()));
    let result = if head.reward_is_bool { head.exception.clone() } else { head.harbor_result() };
    Indexed {
        place,
        run_id: run_id.into(),
        trial_name: trial_name.into(),
        result: result.map(Text::from),
        head,
    }
}

/// What is known of a trial without a result of Harbor's: the reader of jobs knows older kinds.
fn other(path: &Path) -> Result<Head, String> {
    let view = job::read_trial(path).map_err(|error| error.to_string())?;
    if let TrialState::Incomplete { cause } = &view.state {
        let first = view.oddities.first().map_or_else(String::new, |oddity| format!(" ({oddity})"));
        return Err(format!("has no readable result: {cause}{first}"));
    }
    if matches!(view.state, TrialState::Running) {
        return Err("is being run and has no result yet".into());
    }
    let run_id = Some(run_above(path, view.generation)).filter(|run| !run.is_empty());
    Ok(Head { run_id, ..from_view(view) })
}

fn from_view(view: TrialView) -> Head {
    let exception = view.state.failure().map(|failure| failure.exception.clone());
    Head {
        exception,
        reward: view.rewards.get("reward").copied(),
        trial_name: Some(view.name),
        task: view.task,
        agent: view.agent,
        model: view.model,
        provider: view.provider,
        started_at: view.started_at.map(|at| at.to_string()),
        ..Head::default()
    }
}
