//! What took the place of primaries that could not be chosen.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ident::TaskId;
use record::{PlanDocument, Selection};
use serde::Serialize;

use crate::resolve::Exclusion;

/// A primary that is not in the set, and the reserve that is there in its place. Reserves belong to a pool and not to single
/// primaries, so they are paired in order: the first that was lost with the first that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Replacement {
    /// The pool.
    pub stage: String,
    /// The primary; none where reserves fill up a pool that was planned too small.
    pub lost: Option<TaskId>,
    /// Why it is not in the set.
    pub why: Option<Loss>,
    /// The reserve; none where none was left.
    pub by: Option<TaskId>,
}

/// Why a primary is not in the set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Loss {
    /// It was no candidate.
    Excluded(Exclusion),
    /// It was one, but the pool was full or the repository at its cap.
    LeftOver {
        /// Always `left_over`.
        cause: &'static str,
    },
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Excluded(exclusion) => exclusion.fmt(f),
            Self::LeftOver { .. } => f.write_str("found its pool full or its repository at the cap"),
        }
    }
}

/// Lists what is lost and what is there in its place, in the order of the plan.
pub fn replacements(
    plan: &PlanDocument,
    selection: &Selection,
    excluded: &BTreeMap<TaskId, Exclusion>,
) -> Vec<Replacement> {
    let chosen: BTreeSet<&TaskId> = selection.tasks.iter().map(|task| &task.task_id).collect();
    let mut all = Vec::new();
    for pool in &plan.pools {
        let stage = &pool.stage;
        let mut taken: VecDeque<&TaskId> = selection
            .tasks
            .iter()
            .filter(|task| task.reserve && task.stage == *stage)
            .map(|task| &task.task_id)
            .collect();
        for task in plan.tasks.iter().filter(|task| task.stage == *stage && !chosen.contains(&task.task_id)) {
            let why = excluded
                .get(&task.task_id)
                .cloned()
                .map_or(Loss::LeftOver { cause: "left_over" }, Loss::Excluded);
            all.push(Replacement {
                stage: stage.clone(),
                lost: Some(task.task_id.clone()),
                why: Some(why),
                by: taken.pop_front().cloned(),
            });
        }
        all.extend(taken.into_iter().map(|by| Replacement {
            stage: stage.clone(),
            lost: None,
            why: None,
            by: Some(by.clone()),
        }));
    }
    all
}
