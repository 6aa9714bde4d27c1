//! What trials of cheats say about a task.
//!
//! | observed | a cheat |
//! |---|---|
//! | a reward that is not below 1 on this very task | got the reward, and nothing outvotes that |
//! | two reward files that disagree | got the reward: there are readers that take the better one |
//! | a reward below 1 | got nothing |
//! | no reward, because the verifier was broken or stopped | got nothing |
//! | no reward for the machine's sake | is tried again, as often as other runs are |
//! | got nothing on another task of the group, and fell to nobody there | got nothing, where the rule lets it be shared |

use std::collections::BTreeMap;

use record::{CheatName, Observation, Outcome, Reason, TrialKind};

use crate::runs::{Failures, Gate};
use crate::verdict::{ProofKey, ProofRule, times};

/// How far the cheats of a rule are.
#[derive(Debug)]
pub(crate) struct Tried {
    pub(crate) standing: Standing,
    /// Those before it, which got nothing.
    pub(crate) withstood: Vec<CheatName>,
    /// Passing failures of the cheat that has most of them.
    pub(crate) passing_failures: u32,
}

/// Where a task stands with the cheats that it is asked to withstand.
#[derive(Debug)]
pub(crate) enum Standing {
    /// All of them got nothing.
    Withstood,
    /// One got the reward, and how that was seen.
    Fell(CheatName, String),
    /// One cannot be tried.
    Failed { cheat: CheatName, reason: Reason, retryable: bool, detail: String },
    /// The next to try.
    Untried(CheatName),
}

/// What was seen of one cheat.
#[derive(Debug, Default)]
struct Seen<'o> {
    /// How it got the reward on this very task.
    fell: Option<String>,
    withstood: bool,
    passing: Failures<'o>,
    lasting: Failures<'o>,
    others_fell: bool,
    others_withstood: bool,
}

/// What one trial of a cheat came to.
enum Came<'o> {
    Rewarded(String),
    ToNothing,
    Undone { reason: Reason, retryable: bool, detail: &'o str },
    Cancelled,
}

/// Looks at the cheats in the rule's order, up to the first that got the reward or is not yet tried.
pub(crate) fn standing(key: &ProofKey, observations: &[Observation], rule: &ProofRule) -> Tried {
    let seen = seen(key, observations);
    let nothing = Seen::default();
    let mut withstood = Vec::new();
    let mut standing = Standing::Withstood;
    for asked in rule.cheats.iter() {
        let seen = seen.get(&asked.name).unwrap_or(&nothing);
        let shared = asked.shared && seen.others_withstood && !seen.others_fell;
        if seen.fell.is_some() || !(seen.withstood || shared) {
            standing = seen.judge(&asked.name, rule.retries);
            break;
        }
        withstood.push(asked.name.clone());
    }
    Tried {
        standing,
        withstood,
        passing_failures: seen.values().map(|seen| seen.passing.count()).max().unwrap_or(0),
    }
}

fn seen<'o>(key: &ProofKey, observations: &'o [Observation]) -> BTreeMap<&'o CheatName, Seen<'o>> {
    let mut all: BTreeMap<&CheatName, Seen<'o>> = BTreeMap::new();
    for observation in observations {
        let TrialKind::Cheat(name) = &observation.kind else { continue };
        let own = key.matches(observation);
        if !own && (key.cheat_group.is_none() || key.cheat_group != observation.cheat_group) {
            continue;
        }
        let seen = all.entry(name).or_default();
        match (came(&observation.outcome), own) {
            (Came::Rewarded(how), true) => seen.fell = seen.fell.take().max(Some(how)),
            (Came::Rewarded(_), false) => seen.others_fell = true,
            (Came::ToNothing, true) => seen.withstood = true,
            (Came::ToNothing, false) => seen.others_withstood = true,
            (Came::Undone { reason, retryable, detail }, true) => {
                if retryable { &mut seen.passing } else { &mut seen.lasting }.add(reason, detail);
            }
            // What went wrong elsewhere may go right here.
            (Came::Undone { .. }, false) | (Came::Cancelled, _) => {}
        }
    }
    all
}

impl Seen<'_> {
    /// Where this cheat, which is not known to get nothing, leaves the task.
    fn judge(&self, cheat: &CheatName, retries: u32) -> Standing {
        let cheat = cheat.clone();
        if let Some(how) = &self.fell {
            return Standing::Fell(cheat, how.clone());
        }
        let failed = |failures: &Failures<'_>, retryable| {
            let (reason, count, detail) = failures.foremost()?;
            let detail = format!("{}: {detail}", times(count));
            Some(Standing::Failed { cheat: cheat.clone(), reason, retryable, detail })
        };
        let lasting = failed(&self.lasting, false);
        let worn_out = || (self.passing.count() > retries).then(|| failed(&self.passing, true)).flatten();
        lasting.or_else(worn_out).unwrap_or_else(|| Standing::Untried(cheat.clone()))
    }
}

fn came(outcome: &Outcome) -> Came<'_> {
    match outcome {
        Outcome::Reward(reward) if Gate::Below.is_solved(*reward) => {
            Came::Rewarded(format!("reward {reward}"))
        }
        Outcome::Reward(_) => Came::ToNothing,
        Outcome::Failed { reason: Reason::Cancelled, .. } => Came::Cancelled,
        Outcome::Failed { reason: Reason::RewardConflict, detail, .. } => {
            Came::Rewarded(format!("two rewards that disagree, {detail}"))
        }
        Outcome::Failed { reason, retryable, .. } if !retryable && is_broken(*reason) => Came::ToNothing,
        Outcome::Failed { reason, retryable, detail, .. } => {
            Came::Undone { reason: *reason, retryable: *retryable, detail }
        }
    }
}

/// Whether a lasting failure of this name is what a cheat can bring about: it spoiled its own trial, and got nothing for it.
fn is_broken(reason: Reason) -> bool {
    match reason {
        Reason::AgentError
        | Reason::AgentTimeout
        | Reason::VerifierTimeout
        | Reason::RewardMissing
        | Reason::RewardEmpty
        | Reason::RewardUnparsable
        | Reason::RewardNonFinite
        | Reason::RewardUnsafe
        | Reason::ToolNotFound
        | Reason::StorageLimit
        | Reason::TrialTimeout => true,
        Reason::TaskInvalid
        | Reason::EnvironmentBuildFailed
        | Reason::EnvironmentStartFailed
        | Reason::HealthcheckFailed
        | Reason::AgentSetupFailed
        | Reason::ContextOverflow
        | Reason::OutputOverflow
        | Reason::AgentRefused
        | Reason::AgentAuthFailed
        | Reason::ModelNotFound
        | Reason::ApiFailed
        | Reason::VerifierSetupFailed
        | Reason::RewardConflict
        | Reason::RewardOutOfRange
        | Reason::HistoryLeak
        | Reason::OutOfMemory
        | Reason::DiskFull
        | Reason::Cancelled
        | Reason::EngineLost => false,
    }
}

#[cfg(test)]
mod tests;
