//! The statistics of a job's `result.json`, from which Harbor's exporter takes the `result` of its trials.

use std::collections::HashMap;
use std::path::Path;

use job::{Directory, python_float};

use super::load;
use crate::json::{Json, Mended};

/// What a job's statistics say of its trials.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct JobStats {
    results: HashMap<String, String>,
}

impl JobStats {
    /// Reads the statistics in a directory; `None` where there are none.
    pub(crate) fn read(directory: &Path) -> Option<Self> {
        let directory = Directory::open(directory).ok()?;
        let read = load(&directory, "result.json", &mut Mended::default(), |value| {
            Ok(value.some("stats").map(Self::from_stats))
        });
        read.ok().flatten().flatten()
    }

    fn from_stats(stats: &Json<'_>) -> Self {
        let mut read = Self::default();
        for (_, eval) in entries(stats.get("evals")) {
            // A trial that failed has the name of its exception, whatever its reward.
            for (reward, trials) in entries(eval.get("reward_stats").and_then(|stats| stats.get("reward"))) {
                if let Ok(reward) = reward.parse::<f64>() {
                    for trial in trials.items().iter().filter_map(Json::as_text) {
                        read.results.entry(trial.to_owned()).or_insert_with(|| python_float(reward));
                    }
                }
            }
            for (exception, trials) in entries(eval.get("exception_stats")) {
                for trial in trials.items().iter().filter_map(Json::as_text) {
                    read.results.insert(trial.to_owned(), exception.to_string());
                }
            }
        }
        read
    }

    /// What they say of one trial.
    pub(crate) fn result(&self, trial: &str) -> Option<&String> {
        self.results.get(trial)
    }
}

fn entries<'j, 'a>(value: Option<&'j Json<'a>>) -> &'j [(std::borrow::Cow<'a, str>, Json<'a>)] {
    match value {
        Some(Json::Object(entries)) => entries,
        _ => &[],
    }
}
