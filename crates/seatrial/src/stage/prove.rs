//! `seatrial prove`: nop and oracle trials until every task has a verdict.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ident::{Digest, TaskId};
use ledger::{Ledger, ProofRule};
use prove::{Assessed, Candidate, ProveSpec, Prover};
use rayon::prelude::*;
use record::{ProofDocument, ProvedTask, Status};
use serde_json::json;
use task::TaskDir;
use trial::{Agent, Budgets, Job, JobIdentity, JobSpec, TrialTask};

use crate::cli::Jobs;
use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::{Output, count};
use crate::progress;
use crate::project::{Project, section_digest};
use crate::stage::check::{self, CHECKS};
use crate::stage::materialize::{self, MATERIALIZE, TASKS};
use crate::workbench::timed_job;

/// Name of the document.
pub const PROOFS: &str = "proofs.json";
/// The inventory of the host, where tasks ran on its own system.
pub const HOST: &str = "host.json";
/// The ledger's file.
pub const LEDGER: &str = "ledger.db";
/// Passing failures of one kind that are made good by another run.
const RETRIES: u32 = 2;

/// The command.
pub fn run(output: Output, project: &Project, jobs: &Jobs) -> Result {
    let document = write(output, project, jobs)?;
    let counts =
        |wanted: fn(&Status) -> bool| document.tasks.iter().filter(|task| wanted(&task.verdict)).count();
    let accepted = counts(|status| *status == Status::Accepted);
    output.json(&json!({
        "tasks": document.tasks.len(),
        "accepted": accepted,
        "rejected": counts(|status| matches!(status, Status::Rejected { .. })),
        "error": counts(|status| matches!(status, Status::Error { .. })),
        "pending": counts(|status| *status == Status::Pending),
        "document": PROOFS,
    }))?;
    match document.tasks.len() - accepted {
        0 => Ok(()),
        rest => Err(Failure::new(Exit::Failed, format!("{} not accepted", count(rest, "task"))).silent()),
    }
}

/// Proves every task that the static rules accept, and writes the verdicts.
pub fn write(output: Output, project: &Project, jobs: &Jobs) -> Result<ProofDocument> {
    let (materialized, materialized_digest) = materialize::load(project)?;
    let (checks, checks_digest) = check::load(project)?;
    let accepted: BTreeSet<&TaskId> =
        checks.tasks.iter().filter(|task| task.accepted).map(|task| &task.task_id).collect();
    let candidates: Vec<Candidate> = materialized
        .tasks
        .par_iter()
        .filter(|task| accepted.contains(&task.task_id))
        .map(|task| {
            let directory = project.path(TASKS).join(task.task_id.as_str());
            Ok(Candidate {
                task_id: task.task_id.clone(),
                task: Arc::new(
                    TrialTask::open(&directory, Some(&project.recipe.dataset.name)).or_exit(Exit::Failed)?,
                ),
            })
        })
        .collect::<Result<_>>()?;
    let tasks = prove(output, project, jobs, &candidates)?;
    let document = ProofDocument {
        schema: <ProofDocument as artifact::Document>::SCHEMA.into(),
        inputs: inputs(project, materialized_digest, checks_digest)?,
        tasks,
    };
    artifact::store(&project.path(PROOFS), &document)?;
    summarize(output, &document.tasks);
    Ok(document)
}

fn prove(
    output: Output,
    project: &Project,
    jobs: &Jobs,
    candidates: &[Candidate],
) -> Result<Vec<ProvedTask>> {
    let recipe = &project.recipe.prove;
    let bench = project.workbench(jobs)?;
    let spec = ProveSpec { rule: rule(project), engine: bench.engine.name(), root: project.root.clone() };
    let ledger = Ledger::open(&project.path(LEDGER))?;
    let prover = Prover::new(spec, bench.images.clone(), ledger);
    bench.run_job(async {
        let assessed = prover.assess(candidates).await.or_exit(Exit::Failed)?;
        if let Some(inventory) = bench.local.host_inventory() {
            artifact::write_atomic(&project.path(HOST), &inventory)?;
        }
        let planned: u64 = assessed.iter().map(Assessed::expected).sum();
        if planned == 0 {
            return Ok(assessed.into_iter().map(Assessed::proved).collect());
        }
        output.stage(
            "prove",
            format_args!(
                "{} tasks, about {planned} trials, {} at once",
                candidates.len(),
                bench.admission.slots()
            ),
        );
        let (events, receiver) = tokio::sync::mpsc::unbounded_channel();
        let reporter = tokio::spawn(progress::show(output, "prove", planned, receiver));
        let (agents, attempts) = (vec![Agent::Oracle, Agent::Nop], recipe.oracle_runs.max(recipe.nop_runs));
        let jobs_dir = project.path("jobs");
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
            name: timed_job(&jobs_dir, "prove-")?,
            jobs_dir,
            agents,
            attempts,
            planned: usize::try_from(planned).unwrap_or(usize::MAX),
            // The ledger's rule decides what is run again.
            max_retries: 0,
            budgets: Budgets::default(),
            network_allowed: false,
        };
        let job = Job::open(spec, &identity, &tasks, bench.resources(events))?;
        let proved = prover.prove(&job, assessed).await?;
        job.finish()?;
        drop(job);
        let _ = reporter.await;
        Ok(proved)
    })
}

/// The document and its digest; refused when the tasks, the findings or the recipe have changed since.
pub fn load(project: &Project) -> Result<(ProofDocument, Digest)> {
    let (document, digest) = artifact::load::<ProofDocument>(&project.path(PROOFS))?;
    let now = inputs(
        project,
        materialize::file_digest(&project.path(MATERIALIZE))?,
        materialize::file_digest(&project.path(CHECKS))?,
    )?;
    if document.inputs == now {
        agree_with_ledger(project, &document)?;
        Ok((document, digest))
    } else {
        let message = format!("{PROOFS} is about other tasks, findings or settings");
        Err(Failure::new(Exit::Conflict, message).hint("run `seatrial prove`, or `seatrial up`"))
    }
}

/// Verdicts are recomputed from the ledger, so that an edited document is noticed before anything is chosen by it.
fn agree_with_ledger(project: &Project, document: &ProofDocument) -> Result {
    let Some(ledger) = Ledger::open_existing(&project.path(LEDGER))? else {
        return Err(Failure::new(
            Exit::Conflict,
            format!("{LEDGER} is missing, and {PROOFS} is made from it"),
        )
        .hint("put it back, or run `seatrial prove`, which proves the tasks anew"));
    };
    let rule = rule(project);
    for task in &document.tasks {
        let directory = project.path(TASKS).join(task.task_id.as_str());
        // The tree was held against its digest already; only its limits are read here.
        let opened = TaskDir::open(&directory).or_exit(Exit::Failed)?;
        let key = ledger::ProofKey {
            task_id: task.task_id.clone(),
            tree_digest: task.tree_digest,
            verifier_digest: task.verifier_digest,
            image_digest: task.image_digest.clone(),
            limits: prove::limits(opened.config()),
            engine: task.engine.clone(),
        };
        let seen = ledger.observations(&ledger::Filter::of_key(&key))?;
        let decision = ledger::decide(&key, &seen, &rule);
        let same_kind = std::mem::discriminant(&decision.status) == std::mem::discriminant(&task.verdict);
        if !same_kind || (decision.nop_runs, decision.oracle_runs) != (task.nop_runs, task.oracle_runs) {
            let message = format!("{PROOFS} says something else about `{}` than the ledger", task.task_id);
            return Err(Failure::new(Exit::Conflict, message).hint("run `seatrial prove`, or `seatrial up`"));
        }
    }
    Ok(())
}

fn rule(project: &Project) -> ProofRule {
    let recipe = &project.recipe.prove;
    ProofRule {
        nop_runs: recipe.nop_runs,
        oracle_runs: recipe.oracle_runs,
        confirm_runs: recipe.confirm_runs,
        retries: RETRIES,
    }
}

fn inputs(project: &Project, materialized: Digest, checks: Digest) -> Result<artifact::Inputs> {
    Ok(BTreeMap::from([
        (MATERIALIZE.to_owned(), materialized),
        (CHECKS.to_owned(), checks),
        ("seatrial.toml".to_owned(), section_digest(&project.recipe.prove)?),
    ]))
}

fn summarize(output: Output, tasks: &[ProvedTask]) {
    let accepted = tasks.iter().filter(|task| task.verdict == Status::Accepted).count();
    output.stage("prove", format_args!("{} tasks, {accepted} accepted", tasks.len()));
    for task in tasks {
        if let Status::Rejected { reason, detail } | Status::Error { reason, detail, .. } = &task.verdict {
            output.stage("", format_args!("{}: {reason} ({detail})", task.task_id));
        }
    }
}
