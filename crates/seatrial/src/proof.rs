//! The trials of one proof as a job, for a recipe's tasks and for any others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ledger::{Ledger, ProofRule};
use prove::cheats::{CHEATS, Cheat};
use prove::history::{Allowed, Trace};
use prove::reconcile::{Fate, History, HistoryError, Reconciled};
use prove::{Candidate, ProveSpec, Prover, Walker};
use record::{ProvedTask, Status};
use serde_json::json;
use trial::{Agent, Budgets, Job, JobIdentity, JobSpec};

use crate::failure::{Exit, OrExit, Result};
use crate::output::{Output, count, table};
use crate::progress;
use crate::workbench::{Workbench, timed_job};

/// Passing failures of one kind that are made good by another run.
pub const RETRIES: u32 = 2;

/// What is asked for, and where it is written.
pub struct Proof {
    /// How much proof is asked for.
    pub rule: ProofRule,
    /// Whether nop and oracle are run as often as after a disagreement.
    pub confirm: bool,
    /// Earlier results that are taken over first.
    pub histories: Vec<History>,
    /// Whether it is only told what would be taken over.
    pub dry_run: bool,
    /// What the repositories of environments may know beside the commit that is checked out.
    pub history: Allowed,
    /// Trial directories are recorded relative to this directory.
    pub root: PathBuf,
    /// The ledger.
    pub ledger: PathBuf,
    /// The directory of jobs.
    pub jobs_dir: PathBuf,
    /// Where the inventory of the host goes, when tasks run on its own system.
    pub host: Option<PathBuf>,
}

impl Proof {
    /// Proves the candidates; what the ledger holds already is not run again, and without anything to run there is no job. Before
    /// the first trial `begin` is told how the candidates stand.
    pub fn run(
        self,
        output: Output,
        bench: &Workbench,
        candidates: &[Candidate],
        begin: impl FnOnce(Vec<ProvedTask>) -> Result,
    ) -> Result<Vec<ProvedTask>> {
        let runs = self.rule.oracle_runs.max(self.rule.nop_runs);
        let attempts = if self.confirm { runs.max(self.rule.confirm_runs) } else { runs };
        let mut agents = vec![Agent::Oracle, Agent::Nop];
        if !self.rule.cheats.is_empty() {
            agents.extend(CHEATS.map(Cheat::agent));
        }
        let spec = ProveSpec {
            rule: self.rule,
            confirm: self.confirm,
            engine: bench.engine.name(),
            root: self.root,
        };
        // Where nothing is to be written there may be no ledger yet; then an empty one elsewhere stands for it.
        let spare = tempfile::tempdir().or_exit(Exit::Failed)?;
        let ledger = if self.dry_run && !self.ledger.exists() {
            Ledger::open(&spare.path().join("ledger.db"))?
        } else {
            Ledger::open(&self.ledger)?
        };
        let prover = Prover::new(spec, bench.images.clone(), ledger);
        bench.run_job(async {
            let assessed = prover.assess(candidates).await.or_exit(Exit::Failed)?;
            if let (Some(inventory), Some(host)) = (bench.local.host_inventory(), &self.host)
                && !self.dry_run
            {
                artifact::write_atomic(host, &inventory)?;
            }
            if self.dry_run {
                let (assessed, taken) = prover.reconcile(&self.histories, assessed, true)?;
                show(output, &self.histories, &taken)?;
                return Ok(prover.proved(&assessed)?);
            }
            // Before anything else counts, so that nobody else's results spare an environment the walk.
            let walker = Walker {
                engine: bench.engine.clone(),
                images: bench.images.clone(),
                scratch: bench.scratch.path().to_owned(),
                at_once: bench.admission.slots(),
                allowed: self.history,
            };
            let scrubbed = prover.scrub(&walker, assessed).await?;
            if self.history == Allowed::Ancestors {
                for (task, traces) in &scrubbed.traces {
                    output.warn(format_args!("{task}: its history tells more: {}", shown(traces)));
                }
            }
            let mut assessed = scrubbed.assessed;
            if !self.histories.is_empty() {
                let (decided, taken) = prover.reconcile(&self.histories, assessed, false)?;
                show(output, &self.histories, &taken)?;
                assessed = decided;
            }
            let known = prover.proved(&assessed)?;
            begin(known.clone())?;
            if prove::is_settled(&assessed) {
                return Ok(known);
            }
            let planned = prove::expected(&assessed);
            output.stage(
                "prove",
                format_args!(
                    "{}, about {planned} trials, {} at once",
                    count(candidates.len(), "task"),
                    bench.admission.slots()
                ),
            );
            let (events, receiver) = tokio::sync::mpsc::unbounded_channel();
            let reporter = tokio::spawn(progress::show(output, "prove", planned, receiver));
            let tasks: Vec<_> = candidates.iter().map(|candidate| candidate.task.clone()).collect();
            let identity = JobIdentity::new(
                bench.engine.name(),
                &agents,
                attempts,
                BTreeMap::new(),
                tasks.iter().map(AsRef::as_ref),
            );
            let spec = JobSpec {
                // What was seen is in the ledger: a proof that goes on needs no earlier job.
                name: timed_job(&self.jobs_dir, "prove-")?,
                jobs_dir: self.jobs_dir,
                agents,
                attempts,
                planned: usize::try_from(planned).unwrap_or(usize::MAX),
                // The ledger's rule decides what is run again.
                max_retries: 0,
                budgets: Budgets::default(),
                network_allowed: false,
                model: None,
            };
            let job = Job::open(spec, &identity, &tasks, bench.resources(events))?;
            let proved = prover.prove(&job, assessed).await?;
            job.finish()?;
            drop(job);
            let _ = reporter.await;
            Ok(proved)
        })
    }
}

/// Reads the histories that are named on the command line.
pub fn histories(directory: &Path, paths: &[PathBuf]) -> Result<Vec<History>> {
    let read = |path: &PathBuf| prove::reconcile::read(&directory.join(path));
    paths.iter().map(read).collect::<Result<_, HistoryError>>().or_exit(Exit::Usage)
}

/// Shows what becomes of each task with its earlier results.
fn show(output: Output, histories: &[History], taken: &Reconciled) -> Result {
    output.json(&json!({"reconciled": taken}))?;
    for history in histories {
        let over = history.passed_over.iter().map(|(why, trials)| format!(", {trials} passed over: {why}"));
        let results = count(history.results.len(), "result");
        output.stage("reconcile", format_args!("{}: {results}{}", history.name, over.collect::<String>()));
    }
    let known = taken.lines.iter().filter(|line| line.fate != Fate::Run || !line.ignored.is_empty());
    let rows: Vec<_> = known
        .map(|line| {
            let ignored = line.ignored.iter().map(|(why, count)| format!("{count} {why}"));
            [
                line.task_id.to_string(),
                word(line.fate).to_owned(),
                verdict_word(&line.verdict),
                line.taken.to_string(),
                ignored.collect::<Vec<_>>().join(", "),
            ]
        })
        .collect();
    if !rows.is_empty() {
        output.print(table(["task", "is", "verdict", "taken over", "ignored"], rows))?;
    }
    let of = |fate| taken.lines.iter().filter(|line| line.fate == fate).count();
    output.stage(
        "reconcile",
        format_args!(
            "{} reused, {} retried, {} continued, {} without earlier results; {} about other tasks",
            of(Fate::Reused),
            of(Fate::Retried),
            of(Fate::Continued),
            of(Fate::Run),
            count(taken.strangers, "result")
        ),
    );
    Ok(())
}

fn word(fate: Fate) -> &'static str {
    match fate {
        Fate::Reused => "reused",
        Fate::Retried => "retried",
        Fate::Continued => "continued",
        Fate::Run => "run",
    }
}

fn verdict_word(status: &Status) -> String {
    match status {
        Status::Accepted => "accepted".into(),
        Status::Pending => "pending".into(),
        Status::Rejected { reason, .. } | Status::Error { reason, .. } => reason.clone(),
    }
}

/// The first of some traces, and how many there are.
fn shown(traces: &[Trace]) -> String {
    match traces {
        [] => String::new(),
        [only] => only.to_string(),
        [first, rest @ ..] => format!("{first} (and {})", count(rest.len(), "other trace")),
    }
}
