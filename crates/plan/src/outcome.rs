//! The plan as a whole: inputs are checked, pools are filled in turn, documents are written down.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use artifact::Document;
use ident::TaskId;
use record::{PlanDocument, PlannedTask, PoolSummary};

use crate::candidate::{Catalog, catalog};
use crate::evidence::{Evidence, tier};
use crate::order::OrderKey;
use crate::pool::{Filled, Member, Pool};
use crate::{
    InputError, InputErrors, Note, PlanError, PlanInput, PlanStats, PoolRules, Reserve, SetExpr,
    ShortageReport,
};

/// Version of the rules.
pub const RULES: &str = "plan/1";

/// Name of the set whose ids must all be forced.
pub const CANARY_SET: &str = "canary";

/// A plan, and what is worth knowing about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanOutcome {
    /// The primaries, for `plan.json`.
    pub plan: PlanDocument,
    /// The replacements, for `reserves.json`.
    pub reserves: PlanDocument,
    /// The table of both.
    pub stats: PlanStats,
    /// What was set aside, sorted.
    pub notes: Vec<Note>,
}

/// Makes the plan.
///
/// Fails with every fault of the input at once, or else, when a pool cannot be filled, with the state of all pools.
pub fn plan(input: &PlanInput) -> Result<PlanOutcome, PlanError> {
    let (Planner { mut notes, .. }, pools) = Planner::prepare(input)?;
    let filled: Vec<(&Pool, Filled)> = pools.iter().map(|pool| (pool, pool.fill())).collect();
    if filled.iter().any(|(_, filled)| filled.counts.have < filled.counts.want) {
        let pools = filled.into_iter().map(|(_, filled)| filled.counts).collect();
        return Err(ShortageReport { pools }.into());
    }

    let mut documents = [Vec::new(), Vec::new()].map(|pools| PlanDocument {
        schema: PlanDocument::SCHEMA.to_owned(),
        rules: RULES.to_owned(),
        inputs: input.inputs.clone(),
        pools,
        tasks: Vec::new(),
    });
    let [plan, reserves] = &mut documents;
    for (pool, filled) in &filled {
        let selected = filled.primaries.len() as u64;
        plan.pools.push(summary(pool, filled.relaxed, pool.rules.target, selected));
        plan.tasks.extend(filled.primaries.iter().map(|member| planned(pool, member)));
        let selected = filled.reserves.len() as u64;
        let wanted = match pool.rules.reserve {
            Reserve::Count(count) => count,
            Reserve::Rest => selected,
        };
        reserves.pools.push(summary(pool, 0, wanted, selected));
        reserves.tasks.extend(filled.reserves.iter().map(|member| planned(pool, member)));
        if selected < wanted {
            let stage = pool.rules.stage.clone();
            notes.push(Note::FewerReserves { stage, have: selected, want: wanted });
        }
    }
    notes.sort();
    let stats = PlanStats::new(&filled);
    let [plan, reserves] = documents;
    Ok(PlanOutcome { plan, reserves, stats, notes })
}

fn summary(pool: &Pool, relaxed: u64, target: u64, selected: u64) -> PoolSummary {
    let stage = pool.rules.stage.clone();
    PoolSummary { stage, target, cap: pool.cap, relaxed, selected, shortage: target - selected }
}

fn planned(pool: &Pool, member: &Member) -> PlannedTask {
    PlannedTask {
        task_id: member.id.clone(),
        stage: pool.rules.stage.clone(),
        repo: member.repo.clone(),
        base_image: member.base_image.to_owned(),
        evidence_tier: member.tier.map(crate::Tier::number),
        official_models: member.official.iter().map(|family| family.name().to_owned()).collect(),
        swe_master: member.rollouts,
        image_status: member.image,
        retained: member.retained,
        canary: member.canary,
    }
}

pub(crate) type Ids<'a> = HashSet<&'a str>;

/// Collapses repeated ids of every list.
fn named_sets<'a>(
    input: &'a PlanInput,
    errors: &mut Vec<InputError>,
    notes: &mut Vec<Note>,
) -> BTreeMap<&'a str, Ids<'a>> {
    let mut sets = BTreeMap::new();
    for (name, listed) in &input.sets {
        if !SetExpr::is_name(name) {
            errors.push(InputError::SetName(name.clone()));
        }
        let ids: Ids = listed.iter().map(String::as_str).collect();
        if ids.len() < listed.len() {
            let mut rows: BTreeMap<String, u64> = BTreeMap::new();
            for id in listed {
                *rows.entry(id.clone()).or_default() += 1;
            }
            rows.retain(|_, count| *count > 1);
            notes.push(Note::RepeatedIds { set: name.clone(), rows });
        }
        sets.insert(name.as_str(), ids);
    }
    sets
}

/// Everything that evaluating the pools needs and adds to.
pub(crate) struct Planner<'a> {
    input: &'a PlanInput,
    pub(crate) catalog: Catalog<'a>,
    pub(crate) evidence: Evidence<'a>,
    pub(crate) sets: BTreeMap<&'a str, Ids<'a>>,
    errors: Vec<InputError>,
    notes: Vec<Note>,
}

impl<'a> Planner<'a> {
    /// Checks the whole input and looks up every pool's members; fails with every fault at once.
    pub(crate) fn prepare(input: &'a PlanInput) -> Result<(Self, Vec<Pool<'a>>), InputErrors> {
        let (mut errors, mut notes) = (Vec::new(), Vec::new());
        let catalog = catalog(input, &mut errors, &mut notes);
        let evidence = Evidence::read(input, &catalog, &mut errors, &mut notes);
        let sets = named_sets(input, &mut errors, &mut notes);
        let mut planner = Self { input, catalog, evidence, sets, errors, notes };
        let pools = planner.pools();
        if planner.errors.is_empty() { Ok((planner, pools)) } else { Err(InputErrors(planner.errors)) }
    }

    /// Evaluates and checks all pools.
    fn pools(&mut self) -> Vec<Pool<'a>> {
        let mut stages = BTreeSet::new();
        let mut pools = Vec::new();
        let mut memberships: Vec<(&'a str, Ids<'a>)> = Vec::new();
        let canary = self.sets.get(CANARY_SET).cloned().unwrap_or_default();
        let mut unforced = canary.clone();
        for rules in &self.input.pools {
            if !stages.insert(rules.stage.as_str()) {
                self.errors.push(InputError::RepeatedStage(rules.stage.clone()));
            }
            let members = self.eval(rules, "members", Some(&rules.members));
            let retained = self.eval(rules, "retain", rules.retain.as_ref());
            let mut forced = self.eval(rules, "force", rules.force.as_ref());
            forced.extend(&retained);
            unforced.retain(|id| !forced.contains(id));
            self.check_forced(rules, &members, &forced);
            for (stage, earlier) in &memberships {
                let ids = owned(earlier.intersection(&members).copied());
                if !ids.is_empty() {
                    let (first, second) = ((*stage).to_owned(), rules.stage.clone());
                    self.errors.push(InputError::Overlap { first, second, ids });
                }
            }
            let pool = self.pool(rules, &members, |member| {
                let id = member.id.as_str();
                member.forced = forced.contains(id);
                member.retained = retained.contains(id);
                member.canary = canary.contains(id);
            });
            pools.push(pool);
            memberships.push((&rules.stage, members));
        }
        if !unforced.is_empty() {
            self.errors.push(InputError::CanaryNotForced { ids: owned(unforced.into_iter()) });
        }
        pools
    }

    /// The ids of one expression of a pool.
    fn eval(&mut self, rules: &PoolRules, field: &'static str, expression: Option<&SetExpr>) -> Ids<'a> {
        let Some(expression) = expression else { return Ids::new() };
        for name in expression.names() {
            if !self.sets.contains_key(name) {
                self.errors.push(InputError::UnknownSet {
                    stage: rules.stage.clone(),
                    field,
                    name: name.to_owned(),
                    known: self.sets.keys().map(|name| (*name).to_owned()).collect(),
                });
            }
        }
        expression.eval(&|name| self.sets.get(name))
    }

    fn check_forced(&mut self, rules: &PoolRules, members: &Ids<'a>, forced: &Ids<'a>) {
        let stage = || rules.stage.clone();
        let outside: Ids = forced.difference(members).copied().collect();
        if !outside.is_empty() {
            self.errors.push(InputError::ForcedOutside { stage: stage(), ids: owned(outside.into_iter()) });
        }
        let unknown: Ids = forced.iter().filter(|id| !self.catalog.contains_key(*id)).copied().collect();
        if !unknown.is_empty() {
            self.errors.push(InputError::ForcedUnknown { stage: stage(), ids: owned(unknown.into_iter()) });
        }
        let (forced, target) = (forced.len() as u64, rules.target);
        if forced > target {
            self.errors.push(InputError::TooManyForced { stage: stage(), forced, target });
        }
    }

    /// Looks up the members; `mark` sets what the pool's lists say about each.
    fn pool(&mut self, rules: &'a PoolRules, ids: &Ids<'a>, mark: impl Fn(&mut Member<'a>)) -> Pool<'a> {
        let mut members = Vec::with_capacity(ids.len());
        let mut strangers = Vec::new();
        let mut homeless: BTreeMap<&str, InputError> = BTreeMap::new();
        for &id in ids {
            let Some(candidate) = self.catalog.get(id) else {
                strangers.push(id);
                continue;
            };
            // An id that is none was reported with the catalog.
            let Ok(task_id) = TaskId::new(id) else { continue };
            let repo = match candidate.repo_key(&task_id) {
                Ok(key) => self.input.aliases.canonical(key),
                Err(error) => {
                    homeless.insert(id, error);
                    continue;
                }
            };
            let (official, rollouts) = (self.evidence.official(id), self.evidence.rollouts(id));
            let mut member = Member {
                repo,
                base_image: &candidate.image,
                official,
                rollouts,
                image: self.evidence.image(id),
                tier: tier(official, rollouts, self.input.cross_source),
                key: OrderKey::new(&task_id, official),
                id: task_id,
                forced: false,
                retained: false,
                canary: false,
            };
            mark(&mut member);
            members.push(member);
        }
        self.errors.extend(homeless.into_values());
        let not_instances = strangers.len() as u64;
        if !strangers.is_empty() {
            self.notes
                .push(Note::NotInstances { stage: rules.stage.clone(), ids: owned(strangers.into_iter()) });
        }
        Pool { rules, cap: rules.cap.of(rules.target), not_instances, members }
    }
}

/// The ids in order, for messages.
fn owned<'a>(ids: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut ids: Vec<String> = ids.map(str::to_owned).collect();
    ids.sort_unstable();
    ids
}
