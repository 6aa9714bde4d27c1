//! Holds earlier results against what is proved now. Pure.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use image::ImageRef;
use ledger::{Decision, ProofKey, ProofRule, decide};
use record::{Observation, Outcome, Status};
use serde::Serialize;
use task::TaskDigests;
use task::config::{Network, NetworkMode, TaskConfig, VerifierConfig, VerifierMode};

use super::history::{Earlier, EarlierImage, EarlierLimits, EarlierNetwork, History, Tree};

/// Longest text about where an earlier result was, in characters.
const MAX_TRIAL: usize = 200;

/// Why an earlier result about a task of this name says nothing now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ignored {
    /// The tests were others.
    OtherVerifier,
    /// The task directory was another.
    OtherTree,
    /// The root file system was another, or is not known.
    OtherImage,
    /// The limits were others, or are not known.
    OtherLimits,
    /// There may have been a network, and proofs have none.
    OtherNetwork,
    /// The engine was another, or is not known.
    OtherEngine,
    /// The same result is in the ledger already.
    Known,
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherVerifier => "other tests",
            Self::OtherTree => "another task tree",
            Self::OtherImage => "another or an unknown image",
            Self::OtherLimits => "other or unknown limits",
            Self::OtherNetwork => "with a network",
            Self::OtherEngine => "another or an unknown engine",
            Self::Known => "known already",
        })
    }
}

/// What becomes of a task with its earlier results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Its verdict stands by earlier results; nothing is run.
    Reused,
    /// An earlier failure may pass, and is tried again.
    Retried,
    /// Some of its runs are there; the rest is run.
    Continued,
    /// There is nothing to use; it is proved as any other.
    Run,
}

/// One task in the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// The task.
    pub task_id: ident::TaskId,
    /// What becomes of it.
    pub fate: Fate,
    /// Its verdict with what was taken over.
    pub verdict: Status,
    /// How many results are taken over.
    pub taken: usize,
    /// How many are not, by why.
    pub ignored: BTreeMap<Ignored, usize>,
}

/// What came of all histories.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reconciled {
    /// One line a task, in the order of the tasks.
    pub lines: Vec<Line>,
    /// Results about tasks that are not proved here.
    pub strangers: usize,
}

/// What is proved now.
pub(crate) struct Current<'a> {
    pub(crate) key: &'a ProofKey,
    pub(crate) digests: &'a TaskDigests,
    pub(crate) rule: &'a ProofRule,
    pub(crate) settled: Settled,
    /// What the ledger holds about it.
    pub(crate) known: Vec<Observation>,
}

/// What a task itself leaves no doubt about, wherever it is run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Settled {
    /// Its images, which it names by their digests.
    pub(crate) images: bool,
    /// That no phase of it has a network.
    pub(crate) offline: bool,
}

impl Settled {
    pub(crate) fn of(config: &TaskConfig) -> Self {
        let verifiers =
            || std::iter::once(&config.verifier).chain(config.steps.iter().map(|step| &step.verifier));
        let separate = |verifier: &&VerifierConfig| verifier.mode == VerifierMode::Separate;
        let own = verifiers().filter(separate).map(|verifier| verifier.environment.as_deref());
        let environments = || own.clone().chain([Some(&config.environment)]);
        let is_pinned = |image: &str| image.parse().is_ok_and(|image: ImageRef| image.pinned());
        let agents = std::iter::once(&config.agent).chain(config.steps.iter().map(|step| &step.agent));
        let phases = verifiers().map(|verifier| &verifier.network).chain(agents.map(|agent| &agent.network));
        let none = |network: &Network| network.mode == NetworkMode::NoNetwork;
        Self {
            images: environments()
                .all(|own| own.and_then(|own| own.docker_image.as_deref()).is_some_and(is_pinned)),
            offline: environments().flatten().all(|own| none(&own.network)) && phases.flatten().all(none),
        }
    }
}

/// Sorts all results. Gives the table, and what is to be appended to the ledger, in the order of tasks and histories.
pub(crate) fn reconciled(histories: &[History], tasks: &[Current<'_>]) -> (Reconciled, Vec<Observation>) {
    let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut by_hash: HashMap<String, Vec<usize>> = HashMap::new();
    for (number, task) in tasks.iter().enumerate() {
        by_name.entry(task.key.task_id.as_str()).or_default().push(number);
        for hash in [task.digests.content_hash.hex(), task.digests.task_checksum.hex()] {
            by_hash.entry(hash).or_default().push(number);
        }
    }
    let mut taken: Vec<Vec<Observation>> = tasks.iter().map(|_| Vec::new()).collect();
    let mut ignored: Vec<BTreeMap<Ignored, usize>> = tasks.iter().map(|_| BTreeMap::new()).collect();
    let mut strangers = 0;
    for history in histories {
        for earlier in &history.results {
            let named = by_name.get(earlier.task.as_str());
            let about = match &earlier.tree {
                Tree::Digest(_) => named,
                Tree::Harbor(hash) => by_hash.get(hash).or(named),
            };
            let Some(about) = about else {
                strangers += 1;
                continue;
            };
            for &number in about {
                let task = &tasks[number];
                let fit = fits(earlier, task).and_then(|()| {
                    let observation = observation(history, earlier, task.key);
                    let same = |other: &Observation| is_same(other, &observation);
                    let is_known = task.known.iter().any(same) || taken[number].iter().any(same);
                    if is_known { Err(Ignored::Known) } else { Ok(observation) }
                });
                match fit {
                    Ok(observation) => taken[number].push(observation),
                    Err(why) => *ignored[number].entry(why).or_default() += 1,
                }
            }
        }
    }
    let lines = tasks.iter().zip(&taken).zip(ignored);
    let shared: Vec<&Observation> =
        taken.iter().flatten().filter(|seen| seen.cheat_group.is_some()).collect();
    let lines = lines.map(|((task, taken), ignored)| line(task, taken, &shared, ignored)).collect();
    (Reconciled { lines, strangers }, taken.into_iter().flatten().collect())
}

fn line(
    task: &Current<'_>,
    taken: &[Observation],
    shared: &[&Observation],
    ignored: BTreeMap<Ignored, usize>,
) -> Line {
    let mut all = [&task.known[..], taken].concat();
    // Cheats that others of its group withstood.
    let of_group =
        shared.iter().filter(|seen| seen.cheat_group == task.key.cheat_group && !task.key.matches(seen));
    all.extend(of_group.map(|seen| (*seen).clone()));
    let decision = decide(task.key, &all, task.rule);
    Line {
        task_id: task.key.task_id.clone(),
        fate: fate(&decision, &all),
        verdict: decision.status,
        taken: taken.len(),
        ignored,
    }
}

fn fate(decision: &Decision, all: &[Observation]) -> Fate {
    let passing = |seen: &Observation| matches!(seen.outcome, Outcome::Failed { retryable: true, .. });
    if all.is_empty() {
        Fate::Run
    } else if matches!(decision.status, Status::Error { retryable: true, .. })
        || !decision.is_settled() && all.iter().any(passing)
    {
        Fate::Retried
    } else if decision.is_settled() {
        Fate::Reused
    } else {
        Fate::Continued
    }
}

/// Whether a result is about the very thing that is proved now.
fn fits(earlier: &Earlier, task: &Current<'_>) -> Result<(), Ignored> {
    let key = task.key;
    if earlier.verifier_digest.is_some_and(|verifier| verifier != key.verifier_digest) {
        return Err(Ignored::OtherVerifier);
    }
    let same_tree = match &earlier.tree {
        Tree::Digest(digest) => *digest == key.tree_digest,
        Tree::Harbor(hash) => {
            *hash == task.digests.content_hash.hex() || *hash == task.digests.task_checksum.hex()
        }
    };
    let same_limits = match &earlier.limits {
        EarlierLimits::Stated(limits) => *limits == key.limits,
        EarlierLimits::OfTask => true,
        EarlierLimits::Unknown => false,
    };
    // An image that cannot be had now has no identity, and none is equal to it.
    let same_image = !key.image_digest.is_empty()
        && match &earlier.image {
            EarlierImage::Digest(digest) => *digest == key.image_digest,
            EarlierImage::OfTask => task.settled.images,
            EarlierImage::Unknown => false,
        };
    if !same_tree {
        Err(Ignored::OtherTree)
    } else if !same_image {
        Err(Ignored::OtherImage)
    } else if !same_limits {
        Err(Ignored::OtherLimits)
    } else if earlier.network == EarlierNetwork::OfTask && !task.settled.offline {
        Err(Ignored::OtherNetwork)
    } else if earlier.engine.as_ref() != Some(&key.engine) {
        Err(Ignored::OtherEngine)
    } else {
        Ok(())
    }
}

/// A result as the ledger keeps it, with where it is from.
fn observation(history: &History, earlier: &Earlier, key: &ProofKey) -> Observation {
    let digest = history.digest.hex();
    let trial: String = task::printable(earlier.trial.as_bytes()).chars().take(MAX_TRIAL).collect();
    Observation {
        task_id: key.task_id.clone(),
        kind: earlier.kind.clone(),
        tree_digest: key.tree_digest,
        verifier_digest: key.verifier_digest,
        image_digest: key.image_digest.clone(),
        limits: key.limits.clone(),
        engine: key.engine.clone(),
        outcome: earlier.outcome.clone(),
        tests: earlier.tests.clone(),
        wall_ms: earlier.wall_ms,
        trial: format!("{}@{}: {trial}", history.name, &digest[..12]),
        ended_at: earlier.ended_at.clone(),
        // It speaks for others of its group, as long as that is the group that the task has now.
        cheat_group: earlier.cheat_group.filter(|group| Some(*group) == key.cheat_group),
    }
}

/// Whether two observations are of one trial: equal but for where it was, and for what else it speaks for.
fn is_same(one: &Observation, other: &Observation) -> bool {
    one.kind == other.kind
        && one.outcome == other.outcome
        && one.tests == other.tests
        && one.wall_ms == other.wall_ms
        && one.ended_at == other.ended_at
}
