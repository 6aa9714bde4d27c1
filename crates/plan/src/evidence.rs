//! Evidence: who solved which candidate, how often, and the tier that follows.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use record::{ImageState, ImageStatus, RewardMean, SweMaster, Trajectory};

use crate::candidate::Catalog;
use crate::model::Mapping;
use crate::{CrossSource, EvidenceKind, InputError, ModelFamily, Note, PlanInput};

/// How a solved run is listed that names no model.
const NO_MODEL: &str = "<null>";

/// How strong the evidence is that a candidate can be solved; the strongest tier comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Solved in the published runs and in the rollouts.
    CrossSource,
    /// Solved in the published runs only.
    OfficialOnly,
    /// Always solved in the rollouts, and in no published run.
    SweMasterFull,
    /// Sometimes solved in the rollouts, and in no published run.
    SweMasterPartial,
}

impl Tier {
    /// All tiers, the strongest first.
    pub const ALL: [Self; 4] =
        [Self::CrossSource, Self::OfficialOnly, Self::SweMasterFull, Self::SweMasterPartial];

    /// The tier's number in documents, 1 to 4.
    pub fn number(self) -> u8 {
        self as u8 + 1
    }

    /// The tier's name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::CrossSource => "cross_source",
            Self::OfficialOnly => "official_only",
            Self::SweMasterFull => "swe_master_full",
            Self::SweMasterPartial => "swe_master_partial",
        }
    }
}

/// A set of model families.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Families([bool; ModelFamily::ALL.len()]);

impl Families {
    pub(crate) fn contains(self, family: ModelFamily) -> bool {
        self.0[family as usize]
    }

    fn insert(&mut self, family: ModelFamily) {
        self.0[family as usize] = true;
    }

    fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// The families in order of preference.
    pub(crate) fn iter(self) -> impl Iterator<Item = ModelFamily> {
        ModelFamily::ALL.into_iter().filter(move |family| self.contains(*family))
    }
}

impl FromIterator<ModelFamily> for Families {
    fn from_iter<I: IntoIterator<Item = ModelFamily>>(families: I) -> Self {
        let mut set = Self::default();
        families.into_iter().for_each(|family| set.insert(family));
        set
    }
}

/// The tier that published runs and rollouts give together.
pub(crate) fn tier(official: Families, rollouts: SweMaster, rule: CrossSource) -> Option<Tier> {
    if !official.is_empty() {
        let both = match rule {
            CrossSource::Any => matches!(rollouts, SweMaster::Full | SweMaster::Partial),
            CrossSource::Full => rollouts == SweMaster::Full,
        };
        return Some(if both { Tier::CrossSource } else { Tier::OfficialOnly });
    }
    match rollouts {
        SweMaster::Full => Some(Tier::SweMasterFull),
        SweMaster::Partial => Some(Tier::SweMasterPartial),
        SweMaster::Zero | SweMaster::None => None,
    }
}

/// All evidence by candidate.
#[derive(Debug, Default)]
pub(crate) struct Evidence<'a> {
    official: HashMap<&'a str, Families>,
    rollouts: HashMap<&'a str, SweMaster>,
    images: HashMap<&'a str, ImageStatus>,
}

impl<'a> Evidence<'a> {
    /// Reads all rows; what contradicts itself becomes an error, what concerns no candidate a note.
    pub(crate) fn read(
        input: &'a PlanInput,
        catalog: &Catalog<'a>,
        errors: &mut Vec<InputError>,
        notes: &mut Vec<Note>,
    ) -> Self {
        let mut evidence = Self::default();
        evidence.read_trajectories(input, catalog, errors, notes);
        evidence.read_rewards(&input.reward_means, errors);
        evidence.read_images(&input.image_states, errors);
        let unknown = |kind, ids: &mut dyn Iterator<Item = &'a str>| {
            let mut rows: BTreeMap<String, u64> = BTreeMap::new();
            for id in ids.filter(|id| !catalog.contains_key(id)) {
                *rows.entry(id.to_owned()).or_default() += 1;
            }
            (!rows.is_empty()).then_some(Note::UnknownEvidence { kind, rows })
        };
        let trajectories = &mut input.trajectories.iter().map(|row| row.instance_id.as_str());
        let rewards = &mut input.reward_means.iter().map(|row| row.instance_id_or_commit_hash.as_str());
        let images = &mut input.image_states.iter().map(|row| row.task_id.as_str());
        notes.extend(unknown(EvidenceKind::Trajectories, trajectories));
        notes.extend(unknown(EvidenceKind::RewardMeans, rewards));
        notes.extend(unknown(EvidenceKind::ImageStates, images));
        evidence
    }

    /// Families with a resolved run.
    pub(crate) fn official(&self, id: &str) -> Families {
        self.official.get(id).copied().unwrap_or_default()
    }

    /// What the rollouts say.
    pub(crate) fn rollouts(&self, id: &str) -> SweMaster {
        self.rollouts.get(id).copied().unwrap_or(SweMaster::None)
    }

    /// State of the image.
    pub(crate) fn image(&self, id: &str) -> ImageStatus {
        self.images.get(id).copied().unwrap_or_default()
    }

    fn read_trajectories(
        &mut self,
        input: &'a PlanInput,
        catalog: &Catalog<'a>,
        errors: &mut Vec<InputError>,
        notes: &mut Vec<Note>,
    ) {
        let mut models: BTreeMap<&str, (Option<Mapping>, u64)> = BTreeMap::new();
        let mut count = |model: &'a str, rows: u64| {
            let entry = models.entry(model).or_insert_with(|| (input.models.map(model), 0));
            entry.1 += rows;
            entry.0
        };
        for row in &input.trajectories {
            if let Some(model) = &row.model {
                count(model, 1);
            }
        }
        let mut runs: HashMap<&str, Run> = HashMap::with_capacity(input.trajectories.len());
        let mut contradicting: BTreeSet<&str> = BTreeSet::new();
        for row in &input.trajectories {
            let run = runs.entry(&row.traj_id).or_insert(Run { first: row, model: None, rows: 0 });
            run.rows += 1;
            if !run.agrees(row) {
                contradicting.insert(&row.traj_id);
            } else if run.model.is_none() {
                run.model = row.model.as_deref();
            }
        }
        for traj_id in contradicting {
            runs.remove(traj_id);
            let mut rows: Vec<&Trajectory> =
                input.trajectories.iter().filter(|row| row.traj_id == traj_id).collect();
            rows.sort_unstable_by_key(|row| (&row.instance_id, &row.model, row.resolved));
            if let Some((first, second)) = disagreement(&rows) {
                let (first, second) = (Box::new(first.clone()), Box::new(second.clone()));
                errors.push(InputError::TrajectoryConflict { first, second });
            }
        }
        for run in runs.into_values().filter(|run| run.first.resolved) {
            let mapping = match run.model {
                Some(model) => count(model, 0),
                None => count(NO_MODEL, run.rows),
            };
            let id = run.first.instance_id.as_str();
            if let Some(Mapping::Family(family)) = mapping
                && catalog.contains_key(id)
            {
                self.official.entry(id).or_default().insert(family);
            }
        }
        let rows_of = |wanted: Option<Mapping>| -> BTreeMap<String, u64> {
            let fitting = models.iter().filter(|(_, (mapping, _))| *mapping == wanted);
            fitting.map(|(model, (_, rows))| ((*model).to_owned(), *rows)).collect()
        };
        let (unmapped, ignored) = (rows_of(None), rows_of(Some(Mapping::Ignore)));
        if !unmapped.is_empty() {
            errors.push(InputError::UnmappedModels { rows: unmapped });
        }
        if !ignored.is_empty() {
            notes.push(Note::IgnoredModels { rows: ignored });
        }
    }

    fn read_rewards(&mut self, means: &'a [RewardMean], errors: &mut Vec<InputError>) {
        let key = |row: &'a RewardMean| row.instance_id_or_commit_hash.as_str();
        let mut rows: Vec<&RewardMean> = means.iter().collect();
        rows.sort_unstable_by(|a, b| {
            key(a).cmp(key(b)).then_with(|| a.reward_mean.total_cmp(&b.reward_mean))
        });
        for run in rows.chunk_by(|a, b| key(a) == key(b)) {
            if let Some(row) = run.iter().find(|row| !(0.0..=1.0).contains(&row.reward_mean)) {
                errors.push(InputError::RewardRange { key: key(row).into(), value: row.reward_mean });
                continue;
            }
            // Both ends are in range, so the run holds two values exactly when the last is above the first.
            let (first, last) = (run[0].reward_mean, run[run.len() - 1].reward_mean);
            if last > first {
                errors.push(InputError::RewardConflict { key: key(run[0]).into(), first, second: last });
                continue;
            }
            let reward = if first >= 1.0 {
                SweMaster::Full
            } else if first > 0.0 {
                SweMaster::Partial
            } else {
                SweMaster::Zero
            };
            self.rollouts.insert(key(run[0]), reward);
        }
    }

    fn read_images(&mut self, states: &'a [ImageState], errors: &mut Vec<InputError>) {
        let mut rows: Vec<&ImageState> = states.iter().collect();
        rows.sort_unstable_by_key(|row| (&row.task_id, row.status));
        for run in rows.chunk_by(|a, b| a.task_id == b.task_id) {
            let (first, last) = (run[0], run[run.len() - 1]);
            if first.status != last.status {
                errors.push(InputError::ImageConflict {
                    id: first.task_id.clone(),
                    first: first.status,
                    second: last.status,
                });
            }
            self.images.insert(&first.task_id, first.status);
        }
    }
}

/// One run: its first row, and what the others add.
struct Run<'a> {
    first: &'a Trajectory,
    model: Option<&'a str>,
    rows: u64,
}

impl Run<'_> {
    /// Whether one more row can be right together with those before it.
    fn agrees(&self, row: &Trajectory) -> bool {
        let model = self.model.is_none() || row.model.is_none() || self.model == row.model.as_deref();
        model && self.first.resolved == row.resolved && self.first.instance_id == row.instance_id
    }
}

/// Two rows of one run that cannot both be right; a row without a model agrees with any model.
fn disagreement<'a>(run: &[&'a Trajectory]) -> Option<(&'a Trajectory, &'a Trajectory)> {
    let named = run.iter().find(|row| row.model.is_some());
    run.iter().find_map(|row| {
        let first = run[0];
        if (row.resolved, &row.instance_id) != (first.resolved, &first.instance_id) {
            return Some((first, *row));
        }
        let named = named.filter(|named| row.model.is_some() && row.model != named.model)?;
        Some((*named, *row))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Candidate;

    fn run(traj_id: &str, id: &str, model: Option<&str>, resolved: bool) -> Trajectory {
        Trajectory { instance_id: id.into(), model: model.map(Into::into), resolved, traj_id: traj_id.into() }
    }

    fn mean(key: &str, reward_mean: f64) -> RewardMean {
        RewardMean { instance_id_or_commit_hash: key.into(), reward_mean }
    }

    fn known(ids: &[&str]) -> PlanInput {
        let row = None;
        let candidate =
            |id: &&str| Candidate { id: (*id).into(), repo: "o/a".into(), image: String::new(), row };
        PlanInput { instances: ids.iter().map(candidate).collect(), ..PlanInput::default() }
    }

    fn read(input: &PlanInput) -> (Evidence<'_>, Vec<InputError>, Vec<Note>) {
        let (mut errors, mut notes) = (Vec::new(), Vec::new());
        let catalog = crate::candidate::catalog(input, &mut errors, &mut notes);
        let evidence = Evidence::read(input, &catalog, &mut errors, &mut notes);
        (evidence, errors, notes)
    }

    #[test]
    fn tiers_follow_the_table() {
        use CrossSource::{Any, Full};
        let solved: Families = [ModelFamily::Claude37].into_iter().collect();
        let none = Families::default();
        for (official, rollouts, rule, expected) in [
            (solved, SweMaster::Full, Any, Some(Tier::CrossSource)),
            (solved, SweMaster::Partial, Any, Some(Tier::CrossSource)),
            (solved, SweMaster::Partial, Full, Some(Tier::OfficialOnly)),
            (solved, SweMaster::Full, Full, Some(Tier::CrossSource)),
            (solved, SweMaster::Zero, Any, Some(Tier::OfficialOnly)),
            (solved, SweMaster::None, Full, Some(Tier::OfficialOnly)),
            (none, SweMaster::Full, Any, Some(Tier::SweMasterFull)),
            (none, SweMaster::Partial, Full, Some(Tier::SweMasterPartial)),
            (none, SweMaster::Zero, Any, None),
            (none, SweMaster::None, Any, None),
        ] {
            assert_eq!(tier(official, rollouts, rule), expected, "{official:?} {rollouts:?} {rule:?}");
        }
    }

    #[test]
    fn encodings_of_one_run_are_one_run() {
        let mut input = known(&["t"]);
        input.trajectories = vec![
            run("r1", "t", None, true),
            run("r1", "t", Some("claude-3-7-sonnet"), true),
            run("r2", "t", Some("gpt-4o-mini"), false),
            run("r3", "gone", Some("claude-3.5"), true),
        ];
        let (evidence, errors, notes) = read(&input);
        assert_eq!(errors, []);
        assert_eq!(evidence.official("t").iter().collect::<Vec<_>>(), [ModelFamily::Claude37]);
        assert_eq!(
            notes,
            [Note::UnknownEvidence {
                kind: EvidenceKind::Trajectories,
                rows: [("gone".to_owned(), 1)].into()
            }]
        );
    }

    #[test]
    fn rows_of_one_run_that_disagree_are_both_named() {
        for (other, words) in [
            (run("r1", "t", Some("gpt-4o"), false), ["resolved true", "resolved false"]),
            (run("r1", "u", Some("gpt-4o"), true), ["instance `t`", "instance `u`"]),
            (run("r1", "t", Some("claude-3.5"), true), ["model `gpt-4o`", "model `claude-3.5`"]),
        ] {
            let mut input = known(&["t", "u"]);
            input.trajectories =
                vec![run("r1", "t", Some("gpt-4o"), true), run("r1", "t", None, true), other];
            let (_, errors, _) = read(&input);
            assert_eq!(errors.len(), 1, "{errors:?}");
            let text = errors[0].to_string();
            assert!(text.contains("`r1`") && words.iter().all(|word| text.contains(word)), "{text}");
        }
    }

    #[test]
    fn unmapped_models_are_listed_with_their_rows() {
        let mut input = known(&["t"]);
        input.trajectories = vec![
            run("r1", "t", Some("llama"), false),
            run("r2", "t", Some("llama"), true),
            run("r3", "t", None, true),
            run("r3", "t", None, true),
            run("r4", "t", None, false),
        ];
        let expected = [("llama".to_owned(), 2), (NO_MODEL.to_owned(), 2)];
        assert_eq!(read(&input).1, [InputError::UnmappedModels { rows: expected.clone().into() }]);
        input.models = crate::ModelTable::new([("llama", "ignore"), ("<null>", "ignore")]).unwrap();
        let (evidence, errors, notes) = read(&input);
        assert_eq!((errors, notes), (vec![], vec![Note::IgnoredModels { rows: expected.into() }]));
        assert_eq!(evidence.official("t"), Families::default());
    }

    #[test]
    fn means_are_compared_exactly() {
        let mut input = known(&["one", "almost", "little", "zero", "minus"]);
        input.reward_means = vec![
            mean("one", 1.0),
            mean("almost", 0.999_999_999_999_999_9),
            mean("little", f64::MIN_POSITIVE),
            mean("zero", 0.0),
            mean("zero", -0.0),
            mean("0123456789abcdef", 0.5),
        ];
        let (evidence, errors, notes) = read(&input);
        assert_eq!(errors, []);
        assert_eq!(notes.len(), 1);
        let got = ["one", "almost", "little", "zero", "minus"].map(|id| evidence.rollouts(id));
        let partial = SweMaster::Partial;
        assert_eq!(got, [SweMaster::Full, partial, partial, SweMaster::Zero, SweMaster::None]);
    }

    #[test]
    fn impossible_and_contradicting_means_are_errors() {
        for value in [f64::NAN, f64::INFINITY, -0.1, 1.000_000_1] {
            let mut input = known(&["t"]);
            input.reward_means = vec![mean("t", value)];
            assert!(matches!(&read(&input).1[..], [InputError::RewardRange { .. }]), "{value}");
        }
        let mut input = known(&["t"]);
        input.reward_means = vec![mean("t", 0.5), mean("t", 0.25)];
        assert!(matches!(&read(&input).1[..], [InputError::RewardConflict { .. }]));
    }

    #[test]
    fn a_missing_image_state_is_pending_and_two_states_are_an_error() {
        let mut input = known(&["t", "u"]);
        let state = |status| ImageState { task_id: "t".into(), status };
        input.image_states = vec![state(ImageStatus::Completed), state(ImageStatus::Completed)];
        let (evidence, errors, _) = read(&input);
        assert_eq!(errors, []);
        assert_eq!(
            [evidence.image("t"), evidence.image("u")],
            [ImageStatus::Completed, ImageStatus::Pending]
        );
        input.image_states.push(state(ImageStatus::Skipped));
        assert!(matches!(&read(&input).1[..], [InputError::ImageConflict { .. }]));
    }
}
