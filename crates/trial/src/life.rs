//! One trial from its directory to its reward.
//!
//! Sandbox up, agent, every process of the agent dead, tests in, verifier, files out, sandbox gone. Each phase has a
//! deadline and leaves its begin and end in the result; whatever fails ends as a typed reason, never as a zero.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use job::{Phase, PhaseRecord, Rewards, Span, StepResult, Usage};
use record::{Outcome, Reason};
use sandbox::{
    Archive, Capture, ExecOutcome, ExecSpec, ExitStatus, Network, Root, Sandbox, SandboxError, SandboxSpec,
};
use serde_json::Number;

use crate::files::{TrialFiles, pack};
use crate::rewards::VerifierFiles;
use crate::{Admission, Agent, Images, TrialTask, failed};

/// Kept of an agent's or a verifier's output.
const LOG_LIMIT: usize = 16 << 20;
/// Taken out of one directory of a sandbox.
const COLLECT_LIMIT: u64 = 256 << 20;
/// For the small commands between the phases.
const STEP_LIMIT: Duration = Duration::from_secs(60);
/// Processes and threads of a sandbox whose task states no limit.
const PIDS: u64 = 4096;

/// What one trial gave.
#[derive(Debug, Clone)]
pub(crate) struct Lived {
    pub(crate) outcome: Outcome,
    /// All rewards that the verifier named.
    pub(crate) rewards: Option<BTreeMap<String, Number>>,
    /// What went wrong; a reward may stand beside it.
    pub(crate) exception: Option<(Reason, String)>,
    /// Status of the required tests, where the verifier reported them.
    pub(crate) tests: BTreeMap<String, String>,
    /// The phases that were begun, in order.
    pub(crate) phases: Vec<PhaseRecord>,
    /// Results of the steps of a task that has several.
    pub(crate) steps: Option<Vec<StepResult>>,
    /// `shared` or `separate`.
    pub(crate) verifier_mode: &'static str,
    /// Identity of the root file system, once there was one.
    pub(crate) image_digest: Option<String>,
    /// What the sandbox used.
    pub(crate) usage: Usage,
}

impl Lived {
    /// Begin and end of a phase that was reached, as Harbor writes them.
    pub(crate) fn span(&self, phase: Phase) -> Option<Span> {
        let record = self.phases.iter().find(|record| record.phase == phase)?;
        Some(Span { started_at: Some(record.started_at.clone()), finished_at: record.finished_at.clone() })
    }
}

/// Begin and end of the phases that were reached.
#[derive(Debug, Clone, Default)]
pub(crate) struct Phases {
    pub(crate) environment: Option<Span>,
    pub(crate) agent_setup: Option<Span>,
    pub(crate) agent: Option<Span>,
    pub(crate) verifier: Option<Span>,
}

/// Why a phase ended the trial.
type Failure = (Reason, String);

/// Everything one trial works with.
pub(crate) struct Life<'a> {
    pub(crate) task: &'a TrialTask,
    pub(crate) agent: Agent,
    pub(crate) engine: &'a dyn sandbox::Engine,
    pub(crate) images: &'a dyn Images,
    /// Bounds how many sandboxes start at a time: waiting for [`Admission::start`] is no part of the start's budget.
    pub(crate) admission: &'a Admission,
    /// The job's identifier, for labels.
    pub(crate) job: &'a str,
    pub(crate) name: &'a str,
    pub(crate) scratch: PathBuf,
    pub(crate) files: &'a TrialFiles,
}

impl Life<'_> {
    /// Lives the trial. The sandbox is gone when this returns.
    pub(crate) async fn live(&self) -> Lived {
        let mut phases = Phases::default();
        let mut tests = BTreeMap::new();
        let mut image_digest = None;
        let result = match self.root().await {
            Ok(root) => {
                image_digest = Some(root.digest().to_owned());
                self.phases(root, &mut phases, &mut tests).await
            }
            Err(failure) => Err(failure),
        };
        let (outcome, rewards) = match result {
            Ok(rewards) => match rewards.get("reward") {
                Some(&reward) => (Outcome::Reward(reward), Some(rewards)),
                None => (
                    failed(Reason::RewardMissing, "the verifier names no reward called `reward`"),
                    Some(rewards),
                ),
            },
            Err((reason, detail)) => (failed(reason, detail), None),
        };
        let exception = match &outcome {
            Outcome::Reward(_) => None,
            Outcome::Failed { reason, detail, .. } => Some((*reason, detail.clone())),
        };
        let number = |(name, value)| Some((name, Number::from_f64(value)?));
        let rewards = rewards.map(|rewards| rewards.into_iter().filter_map(number).collect());
        let record = |(phase, span): (Phase, Option<Span>)| {
            span.map(|span| PhaseRecord {
                phase,
                step: None,
                started_at: span.started_at.unwrap_or_default(),
                finished_at: span.finished_at,
                outcome: job::PhaseOutcome::Done,
            })
        };
        let phases = [
            (Phase::Start, phases.environment),
            (Phase::Setup, phases.agent_setup),
            (Phase::Agent, phases.agent),
            (Phase::Verifier, phases.verifier),
        ];
        Lived {
            outcome,
            rewards,
            exception,
            tests,
            phases: phases.into_iter().filter_map(record).collect(),
            steps: None,
            verifier_mode: "shared",
            image_digest,
            usage: Usage::default(),
        }
    }

    async fn root(&self) -> Result<Root, Failure> {
        self.task.supported(self.agent).map_err(|detail| (Reason::TaskInvalid, detail))?;
        self.images.root(&self.task.environment()).await
    }

    async fn phases(
        &self,
        root: Root,
        phases: &mut Phases,
        tests: &mut BTreeMap<String, String>,
    ) -> Result<Rewards, Failure> {
        let begun = begin(&mut phases.environment);
        let started = self.start(root).await;
        end(&mut phases.environment);
        self.files.log(&format!("environment: {} in {}", say(&started), millis(begun)));
        let sandbox = started?;

        let result = self.inside(sandbox.as_ref(), phases, tests).await;

        let begun = Instant::now();
        let destroyed = sandbox.destroy().await;
        self.files.log(&format!("destroy: {} in {}", say(&destroyed), millis(begun)));
        result
    }

    async fn start(&self, root: Root) -> Result<Box<dyn Sandbox>, Failure> {
        let environment = &self.task.config.environment;
        let spec = SandboxSpec {
            labels: BTreeMap::from([
                ("trial".into(), self.name.to_owned()),
                ("task".into(), self.task.name.clone()),
                ("job".into(), self.job.to_owned()),
            ]),
            env: self.task.environment_env()?,
            workdir: environment.workdir.clone(),
            limits: sandbox::Limits {
                cpus: environment.cpus,
                memory: environment.memory_mb.map(|mib| mib << 20),
                pids: Some(PIDS),
                storage: environment.storage_mb.map(|mib| mib << 20),
            },
            network: Network::None,
            ..SandboxSpec::new(self.name, root, &self.scratch)
        };
        let limit =
            Duration::try_from_secs_f64(environment.build_timeout_sec).unwrap_or(Duration::from_secs(600));
        let _slot = self.admission.start().await;
        match tokio::time::timeout(limit, self.engine.start(&spec)).await {
            Ok(Ok(sandbox)) => Ok(sandbox),
            Ok(Err(error)) => Err((Reason::EnvironmentStartFailed, error.to_string())),
            Err(_) => {
                Err((Reason::EnvironmentStartFailed, format!("no sandbox within {} s", limit.as_secs())))
            }
        }
    }

    async fn inside(
        &self,
        sandbox: &dyn Sandbox,
        phases: &mut Phases,
        tests: &mut BTreeMap<String, String>,
    ) -> Result<Rewards, Failure> {
        begin(&mut phases.agent_setup);
        let setup = self.set_up(sandbox).await;
        end(&mut phases.agent_setup);
        setup.map_err(|error| (Reason::AgentSetupFailed, error.to_string()))?;

        begin(&mut phases.agent);
        let agent = self.work(sandbox).await;
        end(&mut phases.agent);
        // Nothing of the agent may run beside the verifier.
        sandbox.kill_all().await.map_err(lost)?;
        self.collect_agent(sandbox).await?;
        agent?;

        begin(&mut phases.verifier);
        let verified = self.verify(sandbox, tests).await;
        end(&mut phases.verifier);
        verified
    }

    /// The directories that agents and verifiers expect, and the solution where it is wanted.
    async fn set_up(&self, sandbox: &dyn Sandbox) -> Result<(), SandboxError> {
        sandbox.upload(&crate::files::log_directories(), "/logs").await?;
        if self.agent == Agent::Oracle {
            sandbox.upload(&self.pack("solution")?, "/solution").await?;
        }
        Ok(())
    }

    async fn work(&self, sandbox: &dyn Sandbox) -> Result<(), Failure> {
        if self.agent == Agent::Nop {
            return Ok(());
        }
        let config = &self.task.config;
        let mut env = self.task.solution_env()?;
        env.insert("DEBIAN_FRONTEND".into(), "noninteractive".into());
        let limit = config.agent.timeout_sec.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let command = ExecSpec {
            // A constant line: bash also runs scripts that lack a `#!` line, as these often do.
            argv: ["bash", "-c", "/solution/solve.sh"].map(String::from).to_vec(),
            env,
            user: config.agent.user.clone(),
            timeout: limit,
            capture: Capture { limit: LOG_LIMIT, merge: true },
            ..ExecSpec::default()
        };
        let outcome = sandbox.exec(&command).await.map_err(|error| agent_failure(&error))?;
        self.files.log(&format!("agent: {:?} in {} ms", outcome.status, outcome.wall.as_millis()));
        self.files.write("agent/oracle.txt", &outcome.stdout.bytes).map_err(disk)?;
        match outcome.status {
            ExitStatus::Code(0) => Ok(()),
            // The verifier decides about a solution that ends badly, as in Harbor; the code is kept.
            ExitStatus::Code(code) => {
                self.files.write("agent/exit-code.txt", code.to_string().as_bytes()).map_err(disk)
            }
            ExitStatus::Signal(signal) => {
                self.files.write("agent/exit-code.txt", (128 + signal).to_string().as_bytes()).map_err(disk)
            }
            ExitStatus::Timeout => {
                let seconds = limit.unwrap_or_default().as_secs();
                Err((Reason::AgentTimeout, format!("the oracle was stopped at its limit of {seconds} s")))
            }
        }
    }

    async fn collect_agent(&self, sandbox: &dyn Sandbox) -> Result<(), Failure> {
        for (inside, outside) in [("/logs/agent", "agent"), ("/logs/artifacts", "artifacts/logs/artifacts")] {
            match sandbox.download(inside, COLLECT_LIMIT).await {
                Ok(tar) => self.files.unpack(&tar, outside).map_err(disk)?,
                Err(SandboxError::NoSuchPath(_)) => {}
                Err(error @ SandboxError::TooLarge { .. }) => self.files.log(&format!("left out: {error}")),
                Err(error) => return Err(lost(error)),
            }
        }
        Ok(())
    }

    async fn verify(
        &self,
        sandbox: &dyn Sandbox,
        tests: &mut BTreeMap<String, String>,
    ) -> Result<Rewards, Failure> {
        let verifier = &self.task.config.verifier;
        let before = sandbox.usage().await.map_err(lost)?.oom_kills;
        // Whatever an agent put there is gone before the verifier starts, links included.
        let clean = ExecSpec {
            argv: ["rm", "-rf", "/logs/verifier", "/tests"].map(String::from).to_vec(),
            user: Some("0".into()),
            workdir: Some("/".into()),
            env: BTreeMap::from([("PATH".into(), "/usr/sbin:/usr/bin:/sbin:/bin".into())]),
            timeout: Some(STEP_LIMIT),
            ..ExecSpec::default()
        };
        let setup = |detail: String| (Reason::VerifierSetupFailed, detail);
        let cleaned = sandbox.exec(&clean).await.map_err(|error| setup(error.to_string()))?;
        if !cleaned.success() {
            return Err(setup(format!("cannot clear /logs/verifier: {}", text_of(&cleaned))));
        }
        sandbox
            .upload(&crate::files::verifier_directory(), "/logs")
            .await
            .map_err(|error| setup(error.to_string()))?;
        let tar = self.pack("tests").map_err(|error| setup(error.to_string()))?;
        sandbox.upload(&tar, "/tests").await.map_err(|error| setup(error.to_string()))?;

        let limit = Duration::try_from_secs_f64(verifier.timeout_sec).unwrap_or(Duration::from_secs(600));
        let command = ExecSpec {
            env: self.task.verifier_env()?,
            user: Some(verifier.user.clone().unwrap_or_else(|| "0".into())),
            timeout: Some(limit),
            capture: Capture { limit: LOG_LIMIT, merge: true },
            ..ExecSpec::default()
        };
        let ran = run_tests(sandbox, command).await.map_err(|error| setup(error.to_string()))?;
        self.files.log(&format!("verifier: {:?} in {} ms", ran.status, ran.wall.as_millis()));
        self.files.write("verifier/test-stdout.txt", &ran.stdout.bytes).map_err(disk)?;
        sandbox.kill_all().await.map_err(lost)?;
        let usage = sandbox.usage().await.map_err(lost)?;

        let tar = sandbox.download("/logs/verifier", COLLECT_LIMIT).await.map_err(|error| match error {
            SandboxError::TooLarge { .. } | SandboxError::NoSuchPath(_) => {
                (Reason::RewardUnsafe, error.to_string())
            }
            other => lost(other),
        })?;
        let found = VerifierFiles::from_archive(&tar)
            .map_err(|error| (Reason::RewardUnsafe, format!("/logs/verifier cannot be read: {error}")))?;
        for (name, bytes) in &found.files {
            self.files.write(&format!("verifier/{name}"), bytes).map_err(disk)?;
        }
        if ran.status == ExitStatus::Timeout {
            let message = format!("the verifier was stopped at its limit of {} s", limit.as_secs());
            return Err((Reason::VerifierTimeout, message));
        }
        if usage.oom_kills > before {
            let kills = usage.oom_kills - before;
            return Err((
                Reason::OutOfMemory,
                format!("the memory limit ended {kills} process(es) of the verifier"),
            ));
        }
        *tests = found.tests();
        found.rewards()
    }

    fn pack(&self, part: &str) -> Result<Archive, SandboxError> {
        let directory = self.task.directory.join(part);
        pack(&directory)
            .map_err(|source| SandboxError::Io { doing: format!("reading {}", directory.display()), source })
    }
}

/// Starts `/tests/test.sh` with the system's own shell. An agent can put another one ahead on `PATH`, so that one is looked
/// up by name only in images that have none at the usual places.
async fn run_tests(sandbox: &dyn Sandbox, mut command: ExecSpec) -> Result<ExecOutcome, SandboxError> {
    for shell in ["/bin/bash", "/usr/bin/bash"] {
        command.argv = [shell, "-c", "/tests/test.sh"].map(String::from).to_vec();
        match sandbox.exec(&command).await {
            Err(SandboxError::Spawn { .. }) => {}
            ran => return ran,
        }
    }
    command.argv[0] = "bash".into();
    sandbox.exec(&command).await
}

fn begin(phase: &mut Option<Span>) -> Instant {
    *phase = Some(Span { started_at: Some(job::utc(Timestamp::now())), finished_at: None });
    Instant::now()
}

fn end(phase: &mut Option<Span>) {
    if let Some(span) = phase {
        span.finished_at = Some(job::utc(Timestamp::now()));
    }
}

fn say<T, E: std::fmt::Debug>(result: &Result<T, E>) -> String {
    match result {
        Ok(_) => "ok".into(),
        Err(error) => format!("{error:?}"),
    }
}

fn millis(since: Instant) -> String {
    format!("{} ms", since.elapsed().as_millis())
}

fn text_of(outcome: &ExecOutcome) -> String {
    String::from_utf8_lossy(&outcome.stderr.bytes).trim().chars().take(400).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "used as an error mapper")]
fn lost(error: SandboxError) -> Failure {
    (Reason::EngineLost, error.to_string())
}

fn agent_failure(error: &SandboxError) -> Failure {
    match error {
        SandboxError::Spawn { .. } => (Reason::AgentSetupFailed, error.to_string()),
        other => (Reason::EngineLost, other.to_string()),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "used as an error mapper")]
fn disk(error: std::io::Error) -> Failure {
    let reason = match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Reason::DiskFull,
        _ => Reason::EngineLost,
    };
    (reason, format!("cannot write the trial directory: {error}"))
}
