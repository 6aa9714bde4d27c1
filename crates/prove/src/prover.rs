//! Decides, runs what is needed, writes it down, decides again.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{join_all, try_join_all};
use ledger::{Decision, Filter, Ledger, ProofKey, ProofRule, decide};
use record::{Limits, Observation, ProvedTask, Status, TrialKind};
use task::config::TaskConfig;
use trial::{Agent, Images, Job, TrialReport};

use crate::{Candidate, ProveError};

/// How proofs are made.
pub struct ProveSpec {
    /// How much proof is asked for.
    pub rule: ProofRule,
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
    candidate: &'a Candidate,
    key: ProofKey,
    rule: ProofRule,
    decision: Decision,
}

impl Assessed<'_> {
    /// How many trials the whole proof takes when nothing goes wrong.
    pub fn expected(&self) -> u64 {
        if self.decision.next.is_nothing() {
            return 0;
        }
        let left = |wanted: u32, done: u32| u64::from(wanted.saturating_sub(done));
        left(self.rule.nop_runs, self.decision.nop_runs)
            + left(self.rule.oracle_runs, self.decision.oracle_runs)
    }

    /// The verdict as it stands.
    pub fn proved(self) -> ProvedTask {
        ProvedTask {
            task_id: self.candidate.task_id.clone(),
            tree_digest: self.key.tree_digest,
            verifier_digest: self.key.verifier_digest,
            image_digest: self.key.image_digest,
            engine: self.key.engine,
            nop_runs: self.decision.nop_runs,
            oracle_runs: self.decision.oracle_runs,
            verdict: self.decision.status,
        }
    }
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
        let key = ProofKey {
            task_id: candidate.task_id.clone(),
            tree_digest: candidate.task.digests.tree_digest,
            verifier_digest: candidate.task.digests.verifier_digest,
            image_digest,
            limits: limits(&candidate.task.config),
            engine: self.spec.engine.to_owned(),
        };
        let mut rule = self.spec.rule;
        let mut decision = self.decide(&key, &rule)?;
        if let Status::Error { retryable: true, .. } = decision.status {
            // Whoever asks for a proof again wants what broke down to be tried again.
            rule.retries += decision.passing_failures;
            decision = self.decide(&key, &rule)?;
        }
        Ok(Assessed { candidate, key, rule, decision })
    }

    /// Runs what the verdicts need as trials of `job`, and returns the verdicts in the same order.
    pub async fn prove(&self, job: &Job, assessed: Vec<Assessed<'_>>) -> Result<Vec<ProvedTask>, ProveError> {
        // All end before an error is told: a trial that runs is not dropped because another could not be written down.
        join_all(assessed.into_iter().map(|task| self.prove_one(job, task))).await.into_iter().collect()
    }

    async fn prove_one(&self, job: &Job, mut task: Assessed<'_>) -> Result<ProvedTask, ProveError> {
        while !task.decision.next.is_nothing() {
            let next = task.decision.next;
            let nops = (0..next.nop).map(|_| (Agent::Nop, TrialKind::Nop));
            let oracles = (0..next.oracle).map(|_| (Agent::Oracle, TrialKind::Oracle));
            let ran = join_all(nops.chain(oracles).map(async |(agent, kind)| {
                let report = job.run(&task.candidate.task, agent).await?;
                // Written down at once: what has been seen survives whatever happens next.
                self.ledger().append(&[self.observation(&task.key, kind, &report)])?;
                Ok::<_, ProveError>(())
            }));
            ran.await.into_iter().collect::<Result<(), _>>()?;
            task.decision = self.decide(&task.key, &task.rule)?;
        }
        Ok(task.proved())
    }

    fn decide(&self, key: &ProofKey, rule: &ProofRule) -> Result<Decision, ProveError> {
        let observations = self.ledger().observations(&Filter::of_key(key))?;
        Ok(decide(key, &observations, rule))
    }

    fn observation(&self, key: &ProofKey, kind: TrialKind, report: &TrialReport) -> Observation {
        let directory = report.directory.strip_prefix(&self.spec.root).unwrap_or(&report.directory);
        Observation {
            task_id: key.task_id.clone(),
            kind,
            tree_digest: key.tree_digest,
            verifier_digest: key.verifier_digest,
            image_digest: key.image_digest.clone(),
            limits: key.limits.clone(),
            engine: key.engine.clone(),
            outcome: report.outcome.clone(),
            tests: report.tests.clone(),
            wall_ms: u64::try_from(report.wall.as_millis()).unwrap_or(u64::MAX),
            trial: directory.display().to_string(),
            ended_at: report.ended_at.clone(),
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
