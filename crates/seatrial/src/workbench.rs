//! What trials need on this machine: an engine, images, scratch space, and how much may run at once.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sandbox::native::{Native, NativeConfig, StepRunner};
use tokio::runtime::Runtime;
use trial::{Images, ImagesConfig, LocalImages};

use crate::cli::Jobs;
use crate::failure::{Exit, Failure, OrExit, Result};

/// Memory that one trial is assumed to use when the task states no limit.
const TRIAL_MEMORY: u64 = 1 << 30;
/// The longest that one `RUN` line may take.
const BUILD_LIMIT: Duration = Duration::from_secs(1800);

/// Engine, images and scratch space.
pub struct Workbench {
    /// The engine.
    pub engine: Arc<dyn sandbox::Engine>,
    /// Images of tasks.
    pub images: Arc<dyn Images>,
    /// Where sandboxes keep their writable layers.
    pub scratch: PathBuf,
    /// How many trials run at once.
    pub concurrency: usize,
    runtime: Runtime,
}

/// Where a workbench keeps and finds things.
#[derive(Debug, Default)]
pub struct Places<'a> {
    /// A directory of derived files, created when missing.
    pub state: PathBuf,
    /// Directories that are never visible in sandboxes.
    pub private: Vec<PathBuf>,
    /// An OCI image layout directory.
    pub layout: Option<&'a Path>,
}

impl Workbench {
    /// Sets everything up.
    pub fn open(places: Places<'_>, jobs: &Jobs) -> Result<Self> {
        let init = std::env::current_exe().or_exit(Exit::Failed)?;
        let native = Native::new(NativeConfig { init, require_limits: false }).map_err(|error| {
            Failure::from_error(Exit::Failed, &error)
                .hint("`seatrial doctor` tells what is missing, and the remedy")
        })?;
        let scratch = places.state.join("sandboxes");
        fs_err::create_dir_all(&scratch).or_exit(Exit::Failed)?;
        let runtime = Runtime::new().or_exit(Exit::Failed)?;
        let run = Box::new(StepRunner::new(native.clone()).with_timeout(BUILD_LIMIT));
        let config = ImagesConfig {
            state: places.state,
            private: places.private,
            layout: places.layout.map(Path::to_owned),
            credentials: std::env::home_dir().map(|home| home.join(".docker/config.json")),
        };
        let images = LocalImages::open(&config, run, runtime.handle().clone()).or_exit(Exit::Failed)?;
        let concurrency = jobs.jobs.map_or_else(default_concurrency, usize::from);
        Ok(Self { engine: Arc::new(native), images: Arc::new(images), scratch, concurrency, runtime })
    }

    /// Runs `work` to its end, or until it is interrupted: then it is dropped, with every sandbox that it holds.
    pub fn run<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        block_on(&self.runtime, work)
    }
}

/// One trial a processor, as long as memory allows.
fn default_concurrency() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let fitting = available_memory().map_or(usize::MAX, |bytes| (bytes / TRIAL_MEMORY) as usize);
    processors.min(fitting).max(1)
}

fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

/// Runs work that needs no sandbox, with the same answer to interruptions.
pub fn run_alone<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    block_on(&Runtime::new().or_exit(Exit::Failed)?, work)
}

fn block_on<T>(runtime: &Runtime, work: impl Future<Output = Result<T>>) -> Result<T> {
    runtime.block_on(async {
        tokio::select! {
            result = work => result,
            () = interrupted() => Err(Failure::new(Exit::Interrupted, "interrupted")
                .hint("what was finished is kept; run the same command again to go on")),
        }
    })
}

/// Waits for Ctrl-C or a polite request to end.
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut hangup)) = (signal(SignalKind::terminate()), signal(SignalKind::hangup()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
}
