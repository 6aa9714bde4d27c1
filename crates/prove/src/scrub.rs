//! Walks the history of built environments before anything is tried in them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use ident::TaskId;
use jiff::Timestamp;
use record::{FailureClass, Observation, Outcome, Reason, TrialKind};
use sandbox::{Archive, Engine, ExecSpec, Root, Sandbox, SandboxError, SandboxSpec};
use trial::Images;

use crate::history::{Allowed, Trace, gather, judge};
use crate::{Assessed, Candidate, ProveError, Prover};

/// Largest working directory that is walked, packed, in bytes.
const MAX_PACKED: u64 = 4 << 30;
/// So many traces are told in a verdict.
const TOLD: usize = 3;

/// What environments are started with to be walked.
pub struct Walker {
    /// The engine of trials.
    pub engine: Arc<dyn Engine>,
    /// Images for that engine.
    pub images: Arc<dyn Images>,
    /// Where sandboxes keep their writable layers.
    pub scratch: PathBuf,
    /// How many environments are walked at once; at least one.
    pub at_once: usize,
    /// What may be there.
    pub allowed: Allowed,
}

/// The candidates after the walk, and what was found in the environments of some of them.
pub struct Scrubbed<'a> {
    /// All candidates, in their order; those that are rejected for their history are settled.
    pub assessed: Vec<Assessed<'a>>,
    /// Tasks with traces, in the order of the candidates.
    pub traces: Vec<(TaskId, Vec<Trace>)>,
}

impl Prover {
    /// Walks every distinct environment of candidates that are not settled, once.
    ///
    /// With [`Allowed::OneCommit`] any trace of another commit rejects the tasks of that environment, and the ledger keeps it.
    /// With [`Allowed::Ancestors`] traces are told and decide nothing: such tasks may be about history.
    ///
    /// # Errors
    /// Environments that cannot be started or read, and the ledger's own.
    pub async fn scrub<'a>(
        &self,
        walker: &Walker,
        mut assessed: Vec<Assessed<'a>>,
    ) -> Result<Scrubbed<'a>, ProveError> {
        // By root file system and working directory; candidates of one place are in their order.
        let mut places: BTreeMap<(String, Option<String>), Vec<usize>> = BTreeMap::new();
        for (number, task) in assessed.iter().enumerate() {
            // Without an image there is nothing to walk, and no trial starts either.
            if !task.decision.is_settled() && !task.key.image_digest.is_empty() {
                let workdir = task.candidate.task.config.environment.workdir.clone();
                places.entry((task.key.image_digest.clone(), workdir)).or_default().push(number);
            }
        }
        let places: Vec<Vec<usize>> = places.into_values().collect();
        let mut found = Vec::new();
        for some in places.chunks(walker.at_once.max(1)) {
            let begun = Instant::now();
            let walks = some.iter().map(|tasks| walker.walk(assessed[tasks[0]].candidate));
            for (tasks, traces) in some.iter().zip(join_all(walks).await) {
                let traces = traces?;
                if traces.is_empty() {
                    continue;
                }
                for &number in tasks {
                    let task = &mut assessed[number];
                    if walker.allowed == Allowed::OneCommit {
                        let wall_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
                        self.ledger().append(&[leak(task, &traces, wall_ms)])?;
                        task.decision = self.decide(&task.key, &task.rule)?;
                    }
                    found.push((number, traces.clone()));
                }
            }
        }
        found.sort_by_key(|(number, _)| *number);
        let traces = found
            .into_iter()
            .map(|(number, traces)| (assessed[number].key.task_id.clone(), traces))
            .collect();
        Ok(Scrubbed { assessed, traces })
    }
}

/// What the ledger keeps of a leak: a nop whose environment gave the answer away.
fn leak(task: &Assessed<'_>, traces: &[Trace], wall_ms: u64) -> Observation {
    let mut told: Vec<String> = traces.iter().take(TOLD).map(ToString::to_string).collect();
    if traces.len() > TOLD {
        told.push(format!("and {} more", traces.len() - TOLD));
    }
    let key = &task.key;
    Observation {
        task_id: key.task_id.clone(),
        kind: TrialKind::Nop,
        tree_digest: key.tree_digest,
        verifier_digest: key.verifier_digest,
        image_digest: key.image_digest.clone(),
        limits: key.limits.clone(),
        engine: key.engine.clone(),
        outcome: Outcome::Failed {
            reason: Reason::HistoryLeak,
            class: FailureClass::Task,
            retryable: false,
            detail: told.join("; "),
        },
        tests: BTreeMap::new(),
        wall_ms,
        // Nothing was tried, so there is no trial to look at.
        trial: String::new(),
        ended_at: Timestamp::now().to_string(),
        cheat_group: None,
    }
}

impl Walker {
    /// Starts the environment of a task, packs its working directory, and judges what is in it.
    async fn walk(&self, candidate: &Candidate) -> Result<Vec<Trace>, ProveError> {
        let failed = |detail: String| ProveError::Walk { task_id: candidate.task_id.clone(), detail };
        let environment = candidate.task.environment();
        let root = self.images.root(&environment).await.map_err(|(_, detail)| failed(detail))?;
        let (archive, within) = match self.packed(candidate, root).await {
            Ok(packed) => packed,
            Err(SandboxError::NoSuchPath(_)) => return Ok(Vec::new()),
            Err(SandboxError::TooLarge { limit, .. }) => {
                let what = format!("the working directory is larger than {limit} bytes and cannot be walked");
                return Ok(vec![Trace { place: ".".into(), what }]);
            }
            Err(error) => return Err(failed(error.to_string())),
        };
        let allowed = self.allowed;
        let judged = tokio::task::spawn_blocking(move || {
            gather(archive.reader(), within).map(|gathered| judge(&gathered, allowed))
        });
        let judged = judged.await.map_err(|error| failed(error.to_string()))?;
        judged.map_err(|error| failed(error.to_string()))
    }

    /// The packed working directory, and where in it the names of the archive begin.
    async fn packed(
        &self,
        candidate: &Candidate,
        root: Root,
    ) -> Result<(Archive, &'static str), SandboxError> {
        let config = &candidate.task.config.environment;
        let image_workdir = match &root {
            Root::Layers(root) => root.config.workdir.clone(),
            Root::Image(_) => None,
        };
        let name = format!("history-{}", candidate.task_id);
        let scratch = self.scratch.join(&name);
        fs_err::create_dir_all(&scratch)
            .map_err(|source| SandboxError::Io { doing: "making room for a sandbox".into(), source })?;
        let spec = SandboxSpec { workdir: config.workdir.clone(), ..SandboxSpec::new(name, root, scratch) };
        let sandbox = self.engine.start(&spec).await?;
        let workdir = config.workdir.clone().or(image_workdir).filter(|workdir| !workdir.is_empty());
        let packed = async {
            let workdir = match workdir {
                Some(workdir) => workdir,
                None => said_by(sandbox.as_ref()).await?,
            };
            // The whole system is no working directory; only what lies at its top can be meant.
            let (path, within) = if workdir == "/" { ("/.git", ".git") } else { (&*workdir, "") };
            Ok((sandbox.download(path, MAX_PACKED).await?, within))
        };
        let packed = packed.await;
        sandbox.destroy().await?;
        packed
    }
}

/// The working directory that a sandbox gives its commands.
async fn said_by(sandbox: &dyn Sandbox) -> Result<String, SandboxError> {
    let command =
        ExecSpec { argv: vec!["pwd".into()], timeout: Some(Duration::from_secs(60)), ..ExecSpec::default() };
    let said = sandbox.exec(&command).await?;
    let path = String::from_utf8_lossy(&said.stdout.bytes).trim_end_matches('\n').to_owned();
    Ok(if path.starts_with('/') { path } else { "/".to_owned() })
}
