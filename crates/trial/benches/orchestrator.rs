//! What a job costs beside its sandboxes: trials in a sandbox that does nothing, and the resumption of a finished job.
//!
//! `cargo bench -p trial --bench orchestrator [-- TRIALS...]` prints a line for each size: seconds to run, seconds to find out
//! that nothing is left to run, and the peak of memory. Time grows with the number of trials, memory hardly.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement prints, and stops when it cannot measure"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use record::Reason;
use sandbox::{
    Archive, Engine, EngineImage, ExecOutcome, ExecSpec, ExitStatus, Output, Root, Sandbox, SandboxError,
    SandboxSpec, Usage,
};
use tokio_util::sync::CancellationToken;
use trial::{
    Admission, AdmissionLimits, Agent, Budgets, EnvironmentSource, Images, Job, JobIdentity, JobSpec, Plan,
    Rerun, Resources, TrialTask,
};

/// Trials at a time.
const SLOTS: usize = 16;
/// Attempts at every task.
const ATTEMPTS: u32 = 10;

fn main() {
    let sizes: Vec<u32> = std::env::args().skip(1).filter_map(|size| size.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![100, 1_000, 10_000] } else { sizes };
    println!("{:>8} {:>9} {:>9} {:>9}", "trials", "run s", "again s", "peak MiB");
    for size in sizes {
        let temp = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let tasks = tasks(temp.path(), size / ATTEMPTS);
        let run = runtime.block_on(measure(temp.path(), &tasks, 0));
        let again = runtime.block_on(measure(temp.path(), &tasks, tasks.len() * ATTEMPTS as usize));
        println!("{size:>8} {:>9.2} {:>9.3} {:>9}", run.as_secs_f64(), again.as_secs_f64(), peak_mib());
    }
}

/// Runs the job, of which `ended` trials have ended before.
async fn measure(root: &Path, tasks: &[Arc<TrialTask>], ended: usize) -> Duration {
    let begun = Instant::now();
    let agents = [Agent::Oracle];
    let identity =
        JobIdentity::new(Nothing.name(), &agents, ATTEMPTS, BTreeMap::new(), tasks.iter().map(AsRef::as_ref));
    let plan = Plan::new("job", tasks, &agents, ATTEMPTS).unwrap();
    let spec = JobSpec {
        name: "job".into(),
        jobs_dir: root.join("jobs"),
        agents: agents.to_vec(),
        attempts: ATTEMPTS,
        planned: plan.trials().len(),
        max_retries: 0,
        budgets: Budgets::default(),
        network_allowed: false,
        model: None,
    };
    let limits = AdmissionLimits { slots: SLOTS, starts: 2, memory: None, disk: root.to_owned(), reserve: 0 };
    let resources = Resources {
        engine: Arc::new(Nothing),
        images: Arc::new(Nothing),
        scratch: root.to_owned(),
        admission: Arc::new(Admission::new(limits)),
        stop: CancellationToken::new(),
        events: None,
    };
    let job = Job::open(spec, &identity, tasks, resources).unwrap();
    let ran = job.run_plan(&plan, Rerun::Nothing).await.unwrap();
    job.finish().unwrap();
    assert_eq!(ran.reports.len(), plan.trials().len());
    assert_eq!(ran.reports.iter().filter(|report| report.earlier).count(), ended);
    assert!(ran.reports.iter().all(|report| report.outcome == record::Outcome::Reward(1.0)));
    begun.elapsed()
}

fn tasks(root: &Path, count: u32) -> Vec<Arc<TrialTask>> {
    let files = [
        ("task.toml", "schema_version = \"1.4\"\n"),
        ("instruction.md", "Do nothing.\n"),
        ("environment/Dockerfile", "FROM scratch\n"),
        ("solution/solve.sh", "true\n"),
        ("tests/test.sh", "true\n"),
    ];
    let task = |number: u32| {
        let directory: PathBuf = root.join("tasks").join(format!("task-{number}"));
        for (name, text) in files {
            let path = directory.join(name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        }
        Arc::new(TrialTask::open(&directory, Some("tasks")).unwrap())
    };
    (0..count).map(task).collect()
}

/// The most memory that this process has used.
fn peak_mib() -> u64 {
    let status = fs_err::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() >> 10
}

/// An engine whose sandboxes do nothing and whose every verifier has given 1.
struct Nothing;

#[async_trait]
impl Engine for Nothing {
    fn name(&self) -> &'static str {
        "nothing"
    }

    async fn start(&self, _: &SandboxSpec) -> Result<Box<dyn Sandbox>, SandboxError> {
        Ok(Box::new(Self))
    }
}

#[async_trait]
impl Images for Nothing {
    async fn root(&self, _: &EnvironmentSource) -> Result<Root, (Reason, String)> {
        let digest = format!("sha256:{:064}", 0);
        Ok(Root::Image(EngineImage { reference: digest.clone(), digest }))
    }
}

#[async_trait]
impl Sandbox for Nothing {
    async fn exec(&self, _: &ExecSpec) -> Result<ExecOutcome, SandboxError> {
        tokio::task::yield_now().await;
        Ok(ExecOutcome {
            status: ExitStatus::Code(0),
            stdout: Output::default(),
            stderr: Output::default(),
            wall: Duration::ZERO,
        })
    }

    async fn upload(&self, _: &Archive, _: &str) -> Result<(), SandboxError> {
        Ok(())
    }

    async fn download(&self, path: &str, _: u64) -> Result<Archive, SandboxError> {
        let files: &[(&str, &[u8])] = if path == "/logs/verifier" { &[("reward.txt", b"1\n")] } else { &[] };
        let archive = Archive::pack(|tar| {
            for (name, content) in files {
                let mut header = tar::Header::new_gnu();
                header.set_size(content.len() as u64);
                header.set_mode(0o644);
                tar.append_data(&mut header, name, *content)?;
            }
            Ok(())
        });
        Ok(archive.unwrap())
    }

    async fn kill_all(&self) -> Result<(), SandboxError> {
        Ok(())
    }

    async fn usage(&self) -> Result<Usage, SandboxError> {
        Ok(Usage::default())
    }

    async fn destroy(self: Box<Self>) -> Result<(), SandboxError> {
        Ok(())
    }
}
