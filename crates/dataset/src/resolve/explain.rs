//! Why one task is in the set and in its split, or is not, and what would have changed that.

use std::collections::BTreeSet;

use ident::{RepoKey, TaskId};
use record::{Finding, PlannedTask, Severity, SimilarBy, Split, Status};
use serde::Serialize;

use crate::kinship::Kinship;
use crate::resolve::candidates::{Candidate, Exclusion, Verdicts, candidates, candidates_and};
use crate::resolve::outcome::{ResolveRules, Units, chosen, resolve};
use crate::resolve::splits::{SplitSizes, assign, deviation_with};
use crate::resolve::{ResolveError, replacements};

/// What decided about one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The task.
    pub task_id: TaskId,
    /// What became of it.
    pub outcome: Fate,
    /// What was looked at, in order.
    pub steps: Vec<Step>,
}

/// What became of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Fate {
    /// It is in the set.
    Chosen {
        /// Its pool.
        stage: String,
        /// Its split.
        split: Split,
        /// Whether it came from the reserves.
        reserve: bool,
    },
    /// It can be chosen, and is not.
    LeftOver {
        /// Its pool.
        stage: String,
    },
    /// It cannot be chosen.
    Excluded {
        /// Its pool.
        stage: String,
        /// Why.
        exclusion: Exclusion,
    },
    /// The plan does not know it.
    NotPlanned,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// What it is about: `plan`, `task`, `checks`, `alike`, `proof`, `set`, `split`, or `otherwise` for what would have
    /// changed the outcome.
    pub about: &'static str,
    /// What was found, as a phrase.
    pub finding: String,
}

/// Explains what the rules make of a task. A shortage does not keep it from an answer.
pub fn explain(
    verdicts: Verdicts<'_>,
    rules: &ResolveRules,
    task_id: &TaskId,
) -> Result<Explanation, ResolveError> {
    let mut explainer = Explainer { verdicts, rules, task_id, steps: Vec::new() };
    let outcome = explainer.outcome()?;
    Ok(Explanation { task_id: task_id.clone(), outcome, steps: explainer.steps })
}

struct Explainer<'a> {
    verdicts: Verdicts<'a>,
    rules: &'a ResolveRules,
    task_id: &'a TaskId,
    steps: Vec<Step>,
}

impl Explainer<'_> {
    fn say(&mut self, about: &'static str, finding: impl Into<String>) {
        self.steps.push(Step { about, finding: finding.into() });
    }

    fn outcome(&mut self) -> Result<Fate, ResolveError> {
        let Some(planned) = self.plan() else {
            self.say("plan", "neither plan.json nor reserves.json lists it");
            return Ok(Fate::NotPlanned);
        };
        self.task();
        self.checks();
        self.alike();
        self.proof();
        let (ranked, excluded) = candidates(self.verdicts)?;
        let set = chosen(self.rules, &ranked);
        if let Some(exclusion) = excluded.get(self.task_id) {
            self.say("set", format!("is no candidate: it {exclusion}"));
            self.if_cleared(&set)?;
            return Ok(Fate::Excluded { stage: planned.stage, exclusion: exclusion.clone() });
        }
        self.places(&planned, &ranked, &set);
        if !set.iter().any(|task| task.task_id == *self.task_id) {
            self.if_wider(&planned, &ranked);
            return Ok(Fate::LeftOver { stage: planned.stage });
        }
        let split = self.split(&planned.repo, &set)?;
        let reserve = self.replaced(&ranked)?;
        if let Err(error) =
            resolve(artifact::Inputs::new(), self.rules, &ranked, &self.verdicts.checks.similar)
        {
            self.say("set", format!("is refused as a whole: {error}"));
        }
        Ok(Fate::Chosen { stage: planned.stage, split, reserve })
    }

    /// Where the plan has it.
    fn plan(&mut self) -> Option<PlannedTask> {
        for (what, document) in [("primary", self.verdicts.plan), ("reserve", self.verdicts.reserves)] {
            let Some(task) = document.tasks.iter().find(|task| task.task_id == *self.task_id) else {
                continue;
            };
            let pool = || document.tasks.iter().filter(|other| other.stage == task.stage);
            let place = pool().take_while(|other| other.task_id != *self.task_id).count() + 1;
            let tier = task.evidence_tier.map_or("no tier".to_owned(), |tier| format!("tier {tier}"));
            self.say(
                "plan",
                format!(
                    "{what} {place} of {} in pool `{}`, {tier}, repository `{}`",
                    pool().count(),
                    task.stage,
                    task.repo
                ),
            );
            return Some(task.clone());
        }
        None
    }

    fn task(&mut self) {
        let documents = self.verdicts.materialized;
        if let Some(refused) = documents.refused.iter().find(|task| task.task_id == *self.task_id) {
            self.say("task", format!("could not be written: {} ({})", refused.reason, refused.detail));
        } else if let Some(task) = documents.tasks.iter().find(|task| task.task_id == *self.task_id) {
            self.say("task", format!("is written, tree digest {}", task.tree_digest));
        } else {
            self.say("task", "was never written");
        }
    }

    fn checks(&mut self) {
        let Some(check) = self.verdicts.checks.tasks.iter().find(|task| task.task_id == *self.task_id) else {
            self.say("checks", "the static rules have not looked at it");
            return;
        };
        let rules = |fits: &dyn Fn(&Finding) -> bool| {
            let rules: BTreeSet<&str> = check
                .findings
                .iter()
                .filter(|finding| fits(finding))
                .map(|finding| finding.rule.as_str())
                .collect();
            rules.into_iter().map(|rule| format!("`{rule}`")).collect::<Vec<_>>().join(", ")
        };
        let errors = rules(&|finding| finding.severity == Severity::Error);
        let others = rules(&|finding| finding.severity != Severity::Error);
        let mut text = if check.accepted { "accepted".to_owned() } else { format!("rejected by {errors}") };
        if !others.is_empty() {
            text = format!("{text}; also found: {others}");
        }
        self.say("checks", text);
    }

    /// Tasks that are alike and what follows from it.
    fn alike(&mut self) {
        let task_id = self.task_id;
        let similar = &self.verdicts.checks.similar;
        for pair in similar.iter().filter(|pair| [&pair.kept, &pair.other].contains(&task_id)) {
            let other = if pair.kept == *task_id { &pair.other } else { &pair.kept };
            self.say(
                "alike",
                match pair.by {
                    SimilarBy::Solution => {
                        format!("its solution makes the same change as that of `{other}`; only the first that can be chosen is a candidate")
                    }
                    SimilarBy::Instruction => format!(
                        "its instruction is like that of `{other}` ({}.{} %); their repositories go to one split",
                        pair.permille / 10,
                        pair.permille % 10
                    ),
                },
            );
        }
    }

    fn proof(&mut self) {
        let Some(proof) = self.verdicts.proofs.tasks.iter().find(|task| task.task_id == *self.task_id) else {
            self.say("proof", "was never tried");
            return;
        };
        let runs = format!(
            "{} nop and {} oracle runs count, {} cheats got nothing",
            proof.nop_runs,
            proof.oracle_runs,
            proof.cheats.len()
        );
        let made = self.verdicts.materialized.tasks.iter().find(|task| task.task_id == *self.task_id);
        let same = made.is_some_and(|made| {
            (made.tree_digest, made.verifier_digest) == (proof.tree_digest, proof.verifier_digest)
        });
        let verdict = match &proof.verdict {
            Status::Accepted => "accepted".to_owned(),
            Status::Rejected { reason, detail } => format!("rejected as {reason}: {detail}"),
            Status::Error { reason, detail, .. } => format!("undecided, {reason}: {detail}"),
            Status::Pending => "pending".to_owned(),
        };
        let about = if same { "" } else { ", but about another state of its directory" };
        self.say("proof", format!("{verdict}{about}; {runs}"));
    }

    /// How full its pool and its repository are.
    fn places(&mut self, planned: &PlannedTask, ranked: &[Candidate], set: &[&Candidate]) {
        let rank = ranked.iter().take_while(|task| task.task_id != *self.task_id).count() + 1;
        let target = self.target(&planned.stage).unwrap_or(0);
        let in_pool = set.iter().filter(|task| task.stage == planned.stage).count();
        let in_repo = set.iter().filter(|task| task.repo == planned.repo).count();
        self.say("set", format!("is candidate {rank} of {}", ranked.len()));
        self.say("set", format!("pool `{}` has {in_pool} of {target}", planned.stage));
        self.say(
            "set",
            format!("repository `{}` has {in_repo} of {} over all pools", planned.repo, self.rules.repo_cap),
        );
    }

    fn target(&self, stage: &str) -> Option<u64> {
        self.rules.pools.iter().find(|pool| pool.stage == stage).map(|pool| pool.target)
    }

    /// What would be if nothing spoke against the task.
    fn if_cleared(&mut self, set: &[&Candidate]) -> Result<(), ResolveError> {
        let (ranked, _) = candidates_and(self.verdicts, Some(self.task_id))?;
        let with = chosen(self.rules, &ranked);
        let is_in = |set: &[&Candidate], id: &TaskId| set.iter().any(|task| task.task_id == *id);
        let finding = if is_in(&with, self.task_id) {
            let gone: Vec<String> = set
                .iter()
                .filter(|task| !is_in(&with, &task.task_id))
                .map(|task| format!("`{}`", task.task_id))
                .collect();
            match gone.as_slice() {
                [] => "as a candidate it would be chosen, and the set larger by one".to_owned(),
                gone => format!("as a candidate it would be chosen, in the place of {}", gone.join(", ")),
            }
        } else {
            "as a candidate it would not be chosen either".to_owned()
        };
        self.say("otherwise", finding);
        Ok(())
    }

    /// Which wider cap or target would take the task.
    fn if_wider(&mut self, planned: &PlannedTask, ranked: &[Candidate]) {
        let all = ranked.len() as u64;
        let taken =
            |rules: &ResolveRules| chosen(rules, ranked).iter().any(|task| task.task_id == *self.task_id);
        let with_cap = |repo_cap| ResolveRules { repo_cap, ..self.rules.clone() };
        let with_target = |target| {
            let mut rules = self.rules.clone();
            for pool in rules.pools.iter_mut().filter(|pool| pool.stage == planned.stage) {
                pool.target = target;
            }
            rules
        };
        let cap = least(self.rules.repo_cap, all, |cap| taken(&with_cap(cap)));
        let target =
            self.target(&planned.stage).and_then(|now| least(now, all, |target| taken(&with_target(target))));
        if let Some(cap) = cap {
            self.say("otherwise", format!("`repo_cap = {cap}` would take it, and {} does not", cap - 1));
        }
        if let Some(target) = target {
            let now = target - 1;
            self.say(
                "otherwise",
                format!("`target = {target}` of its pool would take it, and {now} does not"),
            );
        }
        if cap.is_none() && target.is_none() {
            self.say("otherwise", "neither a wider cap nor a larger pool alone would take it");
        }
    }

    /// Why its repository goes to its split.
    fn split(&mut self, repo: &RepoKey, set: &[&Candidate]) -> Result<Split, ResolveError> {
        let aimed: SplitSizes = if self.rules.allow_shortfall {
            self.rules.split.scaled_to(set.len() as u64)?
        } else {
            self.rules.split
        };
        let units = Units::of(set, &self.verdicts.checks.similar);
        let assignment = assign(&units.sizes, &aimed);
        let at = units.of_repo[repo];
        let split = assignment.splits[at];
        let mut unit = format!("repository `{repo}`");
        if let Some(group) = units.together.iter().find(|group| group.contains(repo)) {
            let others: Vec<String> =
                group.iter().filter(|other| *other != repo).map(|other| format!("`{other}`")).collect();
            unit = format!("{unit}, together with {} because of near-duplicates,", others.join(", "));
        }
        self.say(
            "split",
            format!(
                "{unit} has {} of the set's {} tasks and goes to {split}; aimed at: {aimed}; there are: {}",
                units.sizes[at],
                set.len(),
                assignment.sizes
            ),
        );
        let kinship = Kinship::new(&self.verdicts.checks.similar);
        let class = kinship.class(self.task_id);
        let kin: Vec<String> = set
            .iter()
            .filter(|task| task.task_id != *self.task_id && kinship.class(&task.task_id) == class)
            .map(|task| format!("`{}`", task.task_id))
            .collect();
        if !kin.is_empty() {
            self.say("split", format!("tasks that are alike are in {split} too: {}", kin.join(", ")));
        }
        for other in
            [Split::Train, Split::Validation, Split::Test].into_iter().filter(|other| *other != split)
        {
            let deviation = deviation_with(&units.sizes, at, other, &aimed);
            let finding = if deviation == assignment.deviation {
                format!(
                    "in {other} the sizes would come as near; of such assignments the first in order is taken"
                )
            } else {
                format!(
                    "in {other} the sizes would be off by {deviation} at least, and now by {}",
                    assignment.deviation
                )
            };
            self.say("otherwise", finding);
        }
        Ok(split)
    }

    /// Says which primary it stands for; tells whether it is a reserve.
    fn replaced(&mut self, ranked: &[Candidate]) -> Result<bool, ResolveError> {
        let reserve = ranked.iter().any(|task| task.task_id == *self.task_id && task.reserve);
        if !reserve {
            return Ok(false);
        }
        let anyhow = ResolveRules { allow_shortfall: true, ..self.rules.clone() };
        let resolved = resolve(artifact::Inputs::new(), &anyhow, ranked, &self.verdicts.checks.similar)?;
        let (_, excluded) = candidates(self.verdicts)?;
        let all = replacements(self.verdicts.plan, &resolved.selection, &excluded);
        if let Some(replaced) = all.iter().find(|replaced| replaced.by.as_ref() == Some(self.task_id))
            && let (Some(lost), Some(why)) = (&replaced.lost, &replaced.why)
        {
            self.say("set", format!("stands for primary `{lost}`, which {why}"));
        }
        Ok(true)
    }
}

/// A number above `now` and up to `most` that is enough where the one before it is not.
fn least(now: u64, most: u64, enough: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut low, mut high) = (now, most);
    if high <= low || !enough(high) {
        return None;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if enough(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}
