//! What one plan does otherwise than another.

use std::collections::{BTreeMap, BTreeSet};

use record::{PlanDocument, PlannedTask, PoolSummary, SourceInput};
use serde::Serialize;

/// The differences between two documents of a plan, both of primaries or both of reserves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PlanDiff {
    /// Inputs that differ, by name.
    pub inputs: BTreeMap<String, InputChange>,
    /// Pools whose numbers differ: before and after, in the later document's order.
    pub pools: Vec<Change<PoolSummary>>,
    /// Tasks that are new, in the later document's order.
    pub added: Vec<PlannedTask>,
    /// Tasks that are gone, in the earlier document's order.
    pub removed: Vec<PlannedTask>,
    /// Tasks in both of which something but the place differs.
    pub changed: Vec<TaskChange>,
    /// Tasks in both that differ in nothing but in their order among each other.
    pub moved: u64,
}

/// A value before and after; none where there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change<T> {
    /// In the earlier document.
    pub before: Option<T>,
    /// In the later one.
    pub after: Option<T>,
}

/// What differs in one input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InputChange {
    /// The earlier plan did not have it.
    Added,
    /// The later plan does not have it.
    Removed,
    /// Another revision, other files or another number of rows.
    Changed(Change<SourceInput>),
}

/// What differs in one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskChange {
    /// The task.
    pub task_id: String,
    /// Field by field: before and after, as the documents write them.
    pub fields: BTreeMap<&'static str, (String, String)>,
}

impl PlanDiff {
    /// Compares two documents.
    pub fn of(before: &PlanDocument, after: &PlanDocument) -> Self {
        let (earlier, later) = (by_id(before), by_id(after));
        let missing = |tasks: &[PlannedTask], other: &BTreeMap<&str, &PlannedTask>| {
            tasks.iter().filter(|task| !other.contains_key(task.task_id.as_str())).cloned().collect()
        };
        let changed: Vec<TaskChange> = after
            .tasks
            .iter()
            .filter_map(|task| {
                let fields = fields(earlier.get(task.task_id.as_str())?, task);
                (!fields.is_empty()).then(|| TaskChange { task_id: task.task_id.to_string(), fields })
            })
            .collect();
        Self {
            inputs: inputs(before, after),
            pools: pools(&before.pools, &after.pools),
            added: missing(&after.tasks, &earlier),
            removed: missing(&before.tasks, &later),
            moved: moved(before, after, &changed),
            changed,
        }
    }

    /// Whether both documents say the same.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn by_id(document: &PlanDocument) -> BTreeMap<&str, &PlannedTask> {
    document.tasks.iter().map(|task| (task.task_id.as_str(), task)).collect()
}

fn inputs(before: &PlanDocument, after: &PlanDocument) -> BTreeMap<String, InputChange> {
    let names: BTreeSet<&String> = before.inputs.keys().chain(after.inputs.keys()).collect();
    let change = |name: &String| match (before.inputs.get(name), after.inputs.get(name)) {
        (None, _) => Some(InputChange::Added),
        (_, None) => Some(InputChange::Removed),
        (earlier, later) if earlier == later => None,
        (earlier, later) => {
            Some(InputChange::Changed(Change { before: earlier.cloned(), after: later.cloned() }))
        }
    };
    names.into_iter().filter_map(|name| Some((name.clone(), change(name)?))).collect()
}

fn pools(before: &[PoolSummary], after: &[PoolSummary]) -> Vec<Change<PoolSummary>> {
    let find = |pools: &[PoolSummary], stage: &str| pools.iter().find(|pool| pool.stage == stage).cloned();
    let later = after.iter().map(|pool| (find(before, &pool.stage), Some(pool.clone())));
    let gone = before.iter().filter(|pool| find(after, &pool.stage).is_none());
    let all = later.chain(gone.map(|pool| (Some(pool.clone()), None)));
    all.filter(|(before, after)| before != after).map(|(before, after)| Change { before, after }).collect()
}

/// The fields of a task that differ.
fn fields(before: &PlannedTask, after: &PlannedTask) -> BTreeMap<&'static str, (String, String)> {
    let shown = |task: &PlannedTask| {
        let tier = task.evidence_tier.map_or_else(|| "none".to_owned(), |tier| tier.to_string());
        [
            ("stage", task.stage.clone()),
            ("repo", task.repo.to_string()),
            ("base_image", task.base_image.clone()),
            ("evidence_tier", tier),
            ("official_models", task.official_models.join(", ")),
            ("swe_master", task.swe_master.name().to_owned()),
            ("image_status", task.image_status.name().to_owned()),
            ("retained", task.retained.to_string()),
            ("canary", task.canary.to_string()),
        ]
    };
    let pairs = shown(before).into_iter().zip(shown(after));
    pairs.filter(|(a, b)| a != b).map(|((name, a), (_, b))| (name, (a, b))).collect()
}

/// How many of the unchanged tasks stand at another place among the unchanged ones.
fn moved(before: &PlanDocument, after: &PlanDocument, changed: &[TaskChange]) -> u64 {
    let changed: BTreeSet<&str> = changed.iter().map(|change| change.task_id.as_str()).collect();
    let (earlier, later) = (by_id(before), by_id(after));
    let in_both = |task: &&PlannedTask| {
        let id = task.task_id.as_str();
        !changed.contains(id) && earlier.contains_key(id) && later.contains_key(id)
    };
    let pairs = before.tasks.iter().filter(in_both).zip(after.tasks.iter().filter(in_both));
    pairs.filter(|(a, b)| a.task_id != b.task_id).count() as u64
}

#[cfg(test)]
mod tests {
    use ident::{RepoKey, TaskId};
    use record::{ImageStatus, SweMaster};

    use super::*;

    fn task(name: &str) -> PlannedTask {
        PlannedTask {
            task_id: TaskId::new(name).unwrap(),
            stage: "main".into(),
            repo: RepoKey::parse("o/a").unwrap(),
            base_image: "image".into(),
            evidence_tier: Some(2),
            official_models: vec!["gpt-4o".into()],
            swe_master: SweMaster::None,
            image_status: ImageStatus::Pending,
            retained: false,
            canary: false,
        }
    }

    fn document(tasks: Vec<PlannedTask>) -> PlanDocument {
        let selected = tasks.len() as u64;
        let pool =
            PoolSummary { stage: "main".into(), target: selected, cap: 2, relaxed: 0, selected, shortage: 0 };
        let input = |rows| SourceInput { revision: None, sha256: BTreeMap::new(), rows };
        PlanDocument {
            schema: "seatrial.plan/1".into(),
            rules: "plan/1".into(),
            inputs: [("runs".to_owned(), input(selected)), ("kept".to_owned(), input(7))].into(),
            pools: vec![pool],
            tasks,
        }
    }

    #[test]
    fn the_same_plan_has_no_differences() {
        let plan = document(vec![task("a"), task("b")]);
        assert!(PlanDiff::of(&plan, &plan).is_empty());
    }

    #[test]
    fn every_kind_of_difference_is_told_once() {
        let before = document(["gone", "a", "b", "c"].map(task).into());
        let mut better = task("c");
        better.evidence_tier = Some(1);
        better.swe_master = SweMaster::Full;
        let mut after = document(vec![task("b"), task("a"), better, task("new"), task("newer")]);
        after.inputs.remove("kept");
        after.inputs.insert("more".into(), SourceInput { revision: None, sha256: BTreeMap::new(), rows: 1 });
        let diff = PlanDiff::of(&before, &after);
        let ids = |tasks: &[PlannedTask]| -> Vec<String> {
            tasks.iter().map(|task| task.task_id.to_string()).collect()
        };
        assert_eq!(ids(&diff.added), ["new", "newer"]);
        assert_eq!(ids(&diff.removed), ["gone"]);
        assert_eq!(diff.changed.len(), 1);
        assert_eq!(diff.changed[0].fields["evidence_tier"], ("2".into(), "1".into()));
        assert_eq!(diff.changed[0].fields["swe_master"], ("none".into(), "full".into()));
        assert_eq!(diff.moved, 2);
        assert_eq!(diff.inputs["kept"], InputChange::Removed);
        assert_eq!(diff.inputs["more"], InputChange::Added);
        assert!(matches!(&diff.inputs["runs"], InputChange::Changed(change)
            if change.before.as_ref().is_some_and(|input| input.rows == 4)));
        assert_eq!(diff.pools.len(), 1);
    }
}
