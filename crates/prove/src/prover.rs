//! Decides, runs what is needed, writes it down, decides again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{join, join_all, try_join_all};
use ident::Digest;
use ledger::{Decision, Ledger, ProofKey, ProofRule, decide};
use record::{CheatName, Limits, Observation, Outcome, ProvedTask, Status, TrialKind};
use task::config::TaskConfig;
use tokio::sync::oneshot;
use trial::{Agent, EnvironmentSource, Images, Job, TrialReport};

use crate::cheats::{Cheat, Grouping, cheat_group};
use crate::{Candidate, ProveError};

/// How proofs are made.
pub struct ProveSpec {
    /// How much proof is asked for: verdicts go by it.
    pub rule: ProofRule,
    /// Whether both kinds are run as often as after a disagreement, even where there was none.
    pub confirm: bool,
    /// Name of the engine, part of what a verdict is tied to.
    pub engine: &'static str,
    /// Trial directories are recorded relative to this directory.
    pub root: PathBuf,
}

/// Proves tasks over one ledger.
pub struct Prover {
    spec: ProveSpec,
    images: Arc<dyn Images>,
    ledger: Mutex<Ledger>,
}

/// The limits that a task's trials run under, part of what a verdict is tied to.
pub fn limits(config: &TaskConfig) -> Limits {
    Limits {
        verifier_sec: config.verifier.timeout_sec.ceil() as u64,
        memory_mb: config.environment.memory_mb,
        millicpus: config.environment.cpus.map(|cpus| (cpus * 1000.0).round() as u64),
    }
}

/// What is known about a candidate before anything is run.
pub struct Assessed<'a> {
    pub(crate) candidate: &'a Candidate,
    pub(crate) key: ProofKey,
    pub(crate) rule: ProofRule,
    pub(crate) decision: Decision,
}

impl Assessed<'_> {
    /// How many trials the whole proof takes when nothing goes wrong, without the cheats that others answer for.
    fn expected(&self) -> u64 {
        if self.decision.is_settled() {
            return 0;
        }
        let left = |wanted: u32, done: u32| u64::from(wanted.saturating_sub(done));
        left(self.rule.nop_runs, self.decision.nop_runs)
            + left(self.rule.oracle_runs, self.decision.oracle_runs)
            + self.untried(false)
    }

    /// How many trials of cheats the first of its group takes on top, in whose place the others of the group do without.
    fn expected_of_first(&self) -> u64 {
        if self.decision.is_settled() { 0 } else { self.untried(true) }
    }

    /// How many cheats have no outcome yet, of those that are shared or of the others.
    fn untried(&self, shared: bool) -> u64 {
        let untried = self.rule.cheats.iter().filter(|asked| asked.shared == shared);
        untried.filter(|asked| !self.decision.cheats.contains(&asked.name)).count() as u64
    }
}

/// A decision as a stage document has it.
pub fn verdict(key: ProofKey, decision: Decision) -> ProvedTask {
    ProvedTask {
        task_id: key.task_id,
        tree_digest: key.tree_digest,
        verifier_digest: key.verifier_digest,
        image_digest: key.image_digest,
        engine: key.engine,
        cheat_group: key.cheat_group,
        nop_runs: decision.nop_runs,
        oracle_runs: decision.oracle_runs,
        cheats: decision.cheats,
        flaky_tests: decision.flaky_tests,
        verdict: decision.status,
    }
}

/// Whether there is nothing left to run.
pub fn is_settled(assessed: &[Assessed<'_>]) -> bool {
    assessed.iter().all(|task| task.decision.is_settled())
}

/// How many trials the proofs take together when nothing goes wrong.
pub fn expected(assessed: &[Assessed<'_>]) -> u64 {
    let mut groups = BTreeSet::new();
    let first = |task: &&Assessed<'_>| match task.key.cheat_group {
        Some(group) => !task.decision.is_settled() && groups.insert(group),
        None => true,
    };
    let firsts: u64 = assessed.iter().filter(first).map(Assessed::expected_of_first).sum();
    assessed.iter().map(Assessed::expected).sum::<u64>() + firsts
}

impl Prover {
    /// A prover that reads and writes `ledger`.
    pub fn new(spec: ProveSpec, images: Arc<dyn Images>, ledger: Ledger) -> Self {
        Self { spec, images, ledger: Mutex::new(ledger) }
    }

    /// Looks up what is known about the candidates, in their order. Images are built where they are not there yet, since their
    /// identity is part of what a verdict is tied to.
    pub async fn assess<'a>(&self, candidates: &'a [Candidate]) -> Result<Vec<Assessed<'a>>, ProveError> {
        try_join_all(candidates.iter().map(|candidate| self.assess_one(candidate))).await
    }

    async fn assess_one<'a>(&self, candidate: &'a Candidate) -> Result<Assessed<'a>, ProveError> {
        // An image that cannot be had is found out again by the trial, which writes down why.
        let image_digest = self
            .images
            .root(&candidate.task.environment())
            .await
            .map(|root| root.digest().to_owned())
            .unwrap_or_default();
        let mut key = ProofKey {
            task_id: candidate.task_id.clone(),
            tree_digest: candidate.task.digests.tree_digest,
            verifier_digest: candidate.task.digests.verifier_digest,
            image_digest,
            limits: limits(&candidate.task.config),
            engine: self.spec.engine.to_owned(),
            cheat_group: None,
        };
        key.cheat_group = self.group_of(candidate, &key).await;
        let mut rule = self.spec.rule.clone();
        if self.spec.confirm {
            rule.nop_runs = rule.nop_runs.max(rule.confirm_runs);
            rule.oracle_runs = rule.oracle_runs.max(rule.confirm_runs);
        }
        let mut decision = self.decide(&key, &rule)?;
        if let Status::Error { retryable: true, .. } = decision.status {
            // Whoever asks for a proof again wants what broke down to be tried again.
            rule.retries += decision.passing_failures;
            decision = self.decide(&key, &rule)?;
        }
        Ok(Assessed { candidate, key, rule, decision })
    }

    /// The tasks that a candidate's cheats speak for. Where its base image cannot be had, it stands by itself.
    async fn group_of(&self, candidate: &Candidate, key: &ProofKey) -> Option<Digest> {
        let origin = candidate.origin.as_ref().filter(|_| !self.spec.rule.cheats.is_empty())?;
        let base = EnvironmentSource {
            docker_image: Some(origin.base_image.clone()),
            ..candidate.task.environment()
        };
        let base = self.images.root(&base).await.ok()?;
        let of = Grouping {
            repo: &origin.repo,
            base_digest: base.digest(),
            verifier_digest: key.verifier_digest,
            limits: &key.limits,
            engine: &key.engine,
        };
        cheat_group(&candidate.task.directory.join("tests"), of)
    }

    /// The verdicts as they stand, by the rule that verdicts go by.
    pub fn proved(&self, assessed: &[Assessed<'_>]) -> Result<Vec<ProvedTask>, ProveError> {
        let proved = assessed.iter().map(|task| {
            let decision = self.decide(&task.key, &self.spec.rule)?;
            Ok(verdict(task.key.clone(), decision))
        });
        proved.collect()
    }

    /// Runs what the verdicts need as trials of `job`, and returns the verdicts in the same order.
    ///
    /// Tasks of one group meet the cheats one after the other in the order of the candidates, so that it never depends on how
    /// fast something was which of them answers for the others.
    pub async fn prove(&self, job: &Job, assessed: Vec<Assessed<'_>>) -> Result<Vec<ProvedTask>, ProveError> {
        let mut groups: Vec<Vec<(usize, Assessed<'_>)>> = Vec::new();
        let mut places: BTreeMap<Digest, usize> = BTreeMap::new();
        for (position, task) in assessed.into_iter().enumerate() {
            let group = task.key.cheat_group;
            match group.and_then(|group| places.get(&group).copied()) {
                Some(place) => groups[place].push((position, task)),
                None => {
                    places.extend(group.map(|group| (group, groups.len())));
                    groups.push(vec![(position, task)]);
                }
            }
        }
        // All end before an error is told: a trial that runs is not dropped because another could not be written down.
        let ended = join_all(groups.into_iter().map(|tasks| self.prove_group(job, tasks))).await;
        let mut proved = ended.into_iter().flatten().collect::<Result<Vec<_>, _>>()?;
        proved.sort_by_key(|(position, _)| *position);
        let assessed: Vec<_> = proved.into_iter().map(|(_, task)| task).collect();
        self.proved(&assessed)
    }

    /// Nops and oracles of all tasks at once, and then the cheats: what is shared in order, the rest at once.
    async fn prove_group<'a>(
        &self,
        job: &Job,
        tasks: Vec<(usize, Assessed<'a>)>,
    ) -> Vec<Result<(usize, Assessed<'a>), ProveError>> {
        let (mut basics, mut ready) = (Vec::new(), Vec::new());
        for (position, task) in tasks {
            let (done, wait) = oneshot::channel();
            basics.push(async move {
                // The other end waits for exactly this.
                let _ = done.send((position, self.runs(job, task).await));
            });
            ready.push(wait);
        }
        let (mut turns, mut turn) = (Vec::new(), None);
        for wait in ready {
            let (done, next) = oneshot::channel::<()>();
            let before = turn.replace(next);
            turns.push(async move {
                let (position, task) = wait.await.expect("the sender does not end before it has sent");
                if let Some(before) = before {
                    // An error as well means that the one before has ended.
                    let _ = before.await;
                }
                let task = self.shared_cheats(job, task?).await;
                drop(done);
                let task = self.own_cheats(job, task?).await?;
                Ok((position, task))
            });
        }
        join(join_all(basics), join_all(turns)).await.1
    }

    /// Runs nops and oracles until they say all that they have to say.
    async fn runs<'a>(&self, job: &Job, mut task: Assessed<'a>) -> Result<Assessed<'a>, ProveError> {
        while !task.decision.next.is_nothing() {
            let next = task.decision.next;
            let nops = (0..next.nop).map(|_| (Agent::Nop, TrialKind::Nop));
            let oracles = (0..next.oracle).map(|_| (Agent::Oracle, TrialKind::Oracle));
            let ran = join_all(nops.chain(oracles).map(|(agent, kind)| self.run(job, &task, agent, kind)));
            ran.await.into_iter().collect::<Result<(), _>>()?;
            task.decision = self.decide(&task.key, &task.rule)?;
        }
        Ok(task)
    }

    /// Tries the cheats up to the last one whose outcome may speak for others.
    async fn shared_cheats<'a>(&self, job: &Job, mut task: Assessed<'a>) -> Result<Assessed<'a>, ProveError> {
        // Those before this one may have answered for it.
        task.decision = self.decide(&task.key, &task.rule)?;
        while let Some(name) = task.decision.next_cheat.clone() {
            if task.rule.cheats.iter().any(|asked| asked.name == name && !asked.shared) {
                break;
            }
            task = self.cheat(job, task, name).await?;
        }
        Ok(task)
    }

    /// Tries the cheats that are left.
    async fn own_cheats<'a>(&self, job: &Job, mut task: Assessed<'a>) -> Result<Assessed<'a>, ProveError> {
        while let Some(name) = task.decision.next_cheat.clone() {
            task = self.cheat(job, task, name).await?;
        }
        Ok(task)
    }

    async fn cheat<'a>(
        &self,
        job: &Job,
        mut task: Assessed<'a>,
        name: CheatName,
    ) -> Result<Assessed<'a>, ProveError> {
        let cheat = Cheat::named(name.as_str()).ok_or_else(|| ProveError::UnknownCheat(name.clone()))?;
        self.run(job, &task, cheat.agent(), TrialKind::Cheat(name)).await?;
        task.decision = self.decide(&task.key, &task.rule)?;
        Ok(task)
    }

    /// Runs one trial and writes it down at once: what has been seen survives whatever happens next.
    async fn run(
        &self,
        job: &Job,
        task: &Assessed<'_>,
        agent: Agent,
        kind: TrialKind,
    ) -> Result<(), ProveError> {
        let report = job.run(&task.candidate.task, agent).await?;
        self.ledger().append(&[self.observation(&task.key, kind, &report)])?;
        Ok(())
    }

    pub(crate) fn decide(&self, key: &ProofKey, rule: &ProofRule) -> Result<Decision, ProveError> {
        let observations = self.ledger().about(key)?;
        Ok(decide(key, &observations, rule))
    }

    fn observation(&self, key: &ProofKey, kind: TrialKind, report: &TrialReport) -> Observation {
        let directory = report.directory.strip_prefix(&self.spec.root).unwrap_or(&report.directory);
        let cheats = matches!(kind, TrialKind::Cheat(_));
        let (outcome, tests) = match report.reward {
            // A cheat that ran into its limit has been graded all the same, and a reward is what it was after.
            Some(reward) if cheats => (Outcome::Reward(reward), BTreeMap::new()),
            _ if cheats => (report.outcome.clone(), BTreeMap::new()),
            _ => (report.outcome.clone(), report.tests.clone()),
        };
        Observation {
            task_id: key.task_id.clone(),
            kind,
            tree_digest: key.tree_digest,
            verifier_digest: key.verifier_digest,
            image_digest: key.image_digest.clone(),
            limits: key.limits.clone(),
            engine: key.engine.clone(),
            outcome,
            tests,
            wall_ms: u64::try_from(report.wall.as_millis()).unwrap_or(u64::MAX),
            trial: directory.display().to_string(),
            ended_at: report.ended_at.clone(),
            cheat_group: key.cheat_group.filter(|_| cheats),
        }
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
