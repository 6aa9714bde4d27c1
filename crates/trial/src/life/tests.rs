//! Engines that hang, which no real one does on request: every limit ends what it is about, and nothing is left.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use record::FailureClass;
use sandbox::{
    Archive, Engine, EngineImage, ExecOutcome, ExecSpec, ExitStatus, Output, Root, SandboxError, SandboxSpec,
};

use super::*;
use crate::{AdmissionLimits, Budget, EnvironmentSource};

/// Where the engine stops answering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hangs {
    Image,
    Start,
    Upload,
    /// At the first command that runs this script.
    Script(&'static str),
}

/// Sandboxes that exist, of the one trial that lives at a time.
static ALIVE: AtomicUsize = AtomicUsize::new(0);
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[async_trait]
impl Images for Hangs {
    async fn root(&self, _: &EnvironmentSource) -> Result<Root, (Reason, String)> {
        if *self == Self::Image {
            std::future::pending::<()>().await;
        }
        Ok(Root::Image(EngineImage { reference: "x".into(), digest: "sha256:x".into() }))
    }
}

#[async_trait]
impl Engine for Hangs {
    fn name(&self) -> &'static str {
        "hanging"
    }

    async fn start(&self, _: &SandboxSpec) -> Result<Box<dyn Sandbox>, SandboxError> {
        if *self == Self::Start {
            std::future::pending::<()>().await;
        }
        ALIVE.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(*self))
    }
}

#[async_trait]
impl Sandbox for Hangs {
    async fn exec(&self, command: &ExecSpec) -> Result<ExecOutcome, SandboxError> {
        let status = match self {
            Self::Script(script) if command.argv.last().is_some_and(|last| last == script) => {
                tokio::time::sleep(command.timeout.expect("a command without a limit would never end")).await;
                ExitStatus::Timeout
            }
            _ => ExitStatus::Code(0),
        };
        let [stdout, stderr] = [(); 2].map(|()| Output::default());
        Ok(ExecOutcome { status, stdout, stderr, wall: Duration::ZERO })
    }

    async fn upload(&self, _: &Archive, _: &str) -> Result<(), SandboxError> {
        if *self == Self::Upload {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    async fn download(&self, path: &str, _: u64) -> Result<Archive, SandboxError> {
        if path == "/tests" {
            return Err(SandboxError::NoSuchPath(path.to_owned()));
        }
        Archive::pack(|_| Ok(())).map_err(|source| SandboxError::Io { doing: "packing".into(), source })
    }

    async fn kill_all(&self) -> Result<(), SandboxError> {
        Ok(())
    }

    async fn usage(&self) -> Result<sandbox::Usage, SandboxError> {
        Ok(sandbox::Usage::default())
    }

    async fn destroy(self: Box<Self>) -> Result<(), SandboxError> {
        ALIVE.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }
}

/// Lives a trial of a small task on an engine that hangs, and checks that nothing is left.
fn live(engine: Hangs, budgets: &Budgets) -> Lived {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().unwrap();
    let task = directory.path().join("task");
    for (file, text) in [
        ("task.toml", "schema_version = \"1.4\"\n"),
        ("instruction.md", "Do it.\n"),
        ("environment/Dockerfile", "FROM x\n"),
        ("solution/solve.sh", "true\n"),
        ("tests/test.sh", "true\n"),
    ] {
        let path = task.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let admission = Admission::new(AdmissionLimits {
        slots: 1,
        starts: 1,
        memory: None,
        disk: directory.path().to_owned(),
        reserve: 0,
    });
    let files = TrialFiles::create(directory.path().join("trial")).unwrap();
    let life = Life {
        task: &TrialTask::open(&task, None).unwrap(),
        agent: Agent::Oracle,
        model: None,
        attempt: 0,
        engine: &engine,
        images: &engine,
        admission: &admission,
        job: "job",
        name: "trial",
        scratch: directory.path().join("scratch"),
        files: &files,
        budgets: *budgets,
        network_allowed: false,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let lived = runtime.block_on(life.live());
    assert_eq!(ALIVE.load(Ordering::SeqCst), 0, "{engine:?}");
    assert!(lived.phases.iter().all(|phase| phase.finished_at.is_some()), "{:?}", lived.phases);
    lived
}

fn short() -> Budget {
    Budget { override_sec: Some(0.05), ..Budget::default() }
}

/// Reason, class and whether another try may help.
fn failure(lived: &Lived) -> (Reason, FailureClass, bool) {
    match &lived.outcome {
        Outcome::Failed { reason, class, retryable, .. } => (*reason, *class, *retryable),
        Outcome::Reward(reward) => panic!("rewarded {reward}"),
    }
}

#[test]
fn every_phase_ends_at_its_own_limit() {
    use FailureClass::{Agent, Infrastructure, Task};
    let cases = [
        (
            Hangs::Image,
            Budgets { build: short(), ..Budgets::default() },
            (Reason::EnvironmentStartFailed, Infrastructure, true),
        ),
        (
            Hangs::Start,
            Budgets { build: short(), ..Budgets::default() },
            (Reason::EnvironmentStartFailed, Infrastructure, true),
        ),
        (
            Hangs::Start,
            Budgets { start: short(), ..Budgets::default() },
            (Reason::EnvironmentStartFailed, Infrastructure, true),
        ),
        (
            Hangs::Upload,
            Budgets { setup: short(), ..Budgets::default() },
            (Reason::AgentSetupFailed, Infrastructure, true),
        ),
        (
            Hangs::Script("/solution/solve.sh"),
            Budgets { agent: short(), ..Budgets::default() },
            (Reason::AgentTimeout, Agent, false),
        ),
        (
            Hangs::Script("/tests/test.sh"),
            Budgets { verifier: short(), ..Budgets::default() },
            (Reason::VerifierTimeout, Task, false),
        ),
    ];
    for (engine, budgets, expected) in cases {
        assert_eq!(failure(&live(engine, &budgets)), expected, "{engine:?}");
    }
}

#[test]
fn the_whole_trial_ends_at_its_limit_wherever_it_is() {
    use FailureClass::{Agent, Infrastructure, Task};
    for (engine, class, retryable, phase) in [
        (Hangs::Image, Infrastructure, true, Phase::Build),
        (Hangs::Start, Infrastructure, true, Phase::Start),
        (Hangs::Upload, Infrastructure, true, Phase::Setup),
        (Hangs::Script("/solution/solve.sh"), Agent, false, Phase::Agent),
        (Hangs::Script("/tests/test.sh"), Task, false, Phase::Verifier),
    ] {
        let lived = live(engine, &Budgets { trial_sec: Some(0.2), ..Budgets::default() });
        assert_eq!(failure(&lived), (Reason::TrialTimeout, class, retryable), "{engine:?}");
        let failed = lived.phases.iter().find(|record| record.outcome != job::PhaseOutcome::Done).unwrap();
        assert_eq!(failed.phase, phase);
        assert!(lived.rewards.is_none());
    }
}

#[test]
fn only_the_agents_own_failures_are_graded() {
    let graded: Vec<_> = Reason::ALL.into_iter().filter(|reason| is_graded(*reason)).collect();
    for reason in [Reason::AgentTimeout, Reason::AgentError, Reason::ContextOverflow, Reason::ApiFailed] {
        assert!(graded.contains(&reason), "{reason:?}");
    }
    for reason in [
        Reason::AgentSetupFailed,
        Reason::AgentAuthFailed,
        Reason::OutOfMemory,
        Reason::StorageLimit,
        Reason::DiskFull,
        Reason::EngineLost,
        Reason::TrialTimeout,
        Reason::Cancelled,
        Reason::TaskInvalid,
    ] {
        assert!(!graded.contains(&reason), "{reason:?}");
    }
}
