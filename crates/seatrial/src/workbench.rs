//! What trials need on this machine: an engine, images, scratch space, and how much may run at once.

use std::collections::BTreeMap;
use std::fs::File;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::ZonedDateTime;
use recipe::EngineName;
use record::ClusterConfig;
use sandbox::SandboxError;
use sandbox::docker::{Docker, DockerConfig, Sweep};
use sandbox::kubernetes::{Kubernetes, KubernetesConfig};
use sandbox::native::{Native, NativeConfig, StepRunner};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::UnboundedSender;
use trial::{
    Admission, AdmissionLimits, ClusterImages, DockerImages, Event, Images, ImagesConfig, LocalImages,
    Mirrored, Resources,
};

use crate::cli::Jobs;
use crate::failure::{Exit, Failure, OrExit, Result};
use crate::interruption;

/// Memory that one trial is assumed to use when the task states no limit.
const TRIAL_MEMORY: u64 = 1 << 30;
/// Free space without which no further trial begins.
const DISK_RESERVE: u64 = 256 << 20;
/// Where scratch directories lie, in the directory of derived files.
pub const SANDBOXES: &str = "sandboxes";
/// Before the names of scratch directories.
const RUN: &str = "run-";
/// Held by the process that owns a scratch directory.
const LOCK: &str = "lock";
/// The longest that one `RUN` line may take.
const BUILD_LIMIT: Duration = Duration::from_secs(1800);

/// How long an interrupted program waits for the removal of its sandboxes.
const REMOVAL_LIMIT: Duration = Duration::from_secs(20);

/// Where Docker keeps names and passwords for registries.
pub fn credentials() -> Option<PathBuf> {
    let directory = std::env::var_os("DOCKER_CONFIG").filter(|directory| !directory.is_empty());
    let directory = directory.map(PathBuf::from);
    let directory = directory.or_else(|| std::env::home_dir().map(|home| home.join(".docker")))?;
    Some(directory.join("config.json"))
}

/// Engine, images and scratch space.
pub struct Workbench {
    /// The engine of trials.
    pub engine: Arc<dyn sandbox::Engine>,
    /// The embedded engine, for whatever is done with images on this machine.
    pub native: Native,
    /// Images for the engine of trials.
    pub images: Arc<dyn Images>,
    /// Images made on this machine.
    pub local: Arc<LocalImages>,
    /// How much runs at once.
    pub admission: Arc<Admission>,
    runtime: Runtime,
    /// Where sandboxes keep their writable layers. Goes last, when nothing can start a sandbox any more.
    pub scratch: Scratch,
}

/// Where a workbench keeps and finds things.
#[derive(Debug, Default)]
pub struct Places<'a> {
    /// The engine of trials.
    pub engine: EngineName,
    /// A directory of derived files, created when missing.
    pub state: PathBuf,
    /// Directories that are never visible in sandboxes.
    pub private: Vec<PathBuf>,
    /// An OCI image layout directory.
    pub layout: Option<&'a Path>,
    /// Build contexts of the project's own images, by name.
    pub bases: BTreeMap<String, PathBuf>,
    /// How a cluster is used.
    pub cluster: ClusterConfig,
    /// Where images were mirrored to: what nodes of a cluster pull.
    pub mirrored: Mirrored,
}

impl Workbench {
    /// Sets everything up.
    pub fn open(places: Places<'_>, jobs: &Jobs) -> Result<Self> {
        let init = std::env::current_exe().or_exit(Exit::Failed)?;
        let native = Native::new(NativeConfig { init, require_limits: false }).map_err(|error| {
            Failure::from_error(Exit::Failed, &error)
                .hint("`seatrial doctor` tells what is missing, and the remedy")
        })?;
        let ignore = places.state.join(".gitignore");
        if !ignore.exists() {
            artifact::write_atomic(&ignore, b"*\n")?;
        }
        let scratch = Scratch::open(&places.state.join(SANDBOXES)).or_exit(Exit::Failed)?;
        let runtime = Runtime::new().or_exit(Exit::Failed)?;
        let run = Box::new(StepRunner::new(native.clone()).with_timeout(BUILD_LIMIT));
        let config = ImagesConfig {
            state: places.state,
            private: places.private,
            layout: places.layout.map(Path::to_owned),
            bases: places.bases,
            credentials: credentials(),
        };
        let local = LocalImages::open(&config, run, runtime.handle().clone()).or_exit(Exit::Failed)?;
        let local = Arc::new(local);
        let (engine, images): (Arc<dyn sandbox::Engine>, Arc<dyn Images>) = match places.engine {
            EngineName::Native => (Arc::new(native.clone()), local.clone()),
            EngineName::Docker => {
                let docker = runtime.block_on(docker())?;
                (Arc::new(docker.clone()), Arc::new(DockerImages::new(docker)))
            }
            EngineName::Kubernetes => {
                let cluster = runtime.block_on(kubernetes(places.cluster))?;
                (Arc::new(cluster), Arc::new(ClusterImages::new(places.mirrored)))
            }
        };
        let available = available_memory();
        let slots = jobs.jobs.map_or_else(|| default_slots(available), usize::from);
        // On a cluster its scheduler gives memory and processors out, and the engine bounds how many pods wait for them.
        let (starts, memory) = match places.engine {
            EngineName::Native | EngineName::Docker => (processors(), available),
            EngineName::Kubernetes => (sandbox::kubernetes::MOST_PENDING, None),
        };
        let limits =
            AdmissionLimits { slots, starts, memory, disk: scratch.path().to_owned(), reserve: DISK_RESERVE };
        Ok(Self {
            engine,
            native,
            images,
            local,
            admission: Arc::new(Admission::new(limits)),
            runtime,
            scratch,
        })
    }

    /// What the trials of a job are run with.
    pub fn resources(&self, events: UnboundedSender<Event>) -> Resources {
        Resources {
            engine: self.engine.clone(),
            images: self.images.clone(),
            scratch: self.scratch.path().to_owned(),
            admission: self.admission.clone(),
            stop: interruption::drain(),
            events: Some(events),
        }
    }

    /// Runs `work` to its end, or until it is interrupted: then it is dropped, with every sandbox that it holds.
    pub fn run<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        interruption::block_on(&self.runtime, work)
    }

    /// Runs a job, which is asked to come to an end before it is dropped.
    pub fn run_job<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        interruption::block_on_trials(&self.runtime, work)
    }
}

/// Connects to the container daemon, and removes what killed programs left there.
async fn docker() -> Result<Docker> {
    let unusable = |error: SandboxError| {
        Failure::from_error(Exit::Failed, &error)
            .hint("`seatrial doctor` tells what is missing, and the remedy")
    };
    let docker = Docker::connect(&DockerConfig::default()).await.map_err(unusable)?;
    let (removed, _) = docker.sweep(&Sweep::Orphans).await.map_err(unusable)?;
    if !removed.is_empty() {
        tracing::info!(containers = removed.len(), "removed what an earlier run left");
    }
    Ok(docker)
}

/// Connects to the cluster that `KUBECONFIG` names, as a run of its own. What killed programs left there goes with `seatrial gc`.
pub async fn kubernetes(cluster: ClusterConfig) -> Result<Kubernetes> {
    let run = KubernetesConfig::run_name("run", &uuid::Uuid::new_v4().to_string());
    let config = KubernetesConfig { cluster, ..KubernetesConfig::new(run) };
    Kubernetes::connect(config).await.map_err(|error| {
        Failure::from_error(Exit::Failed, &error).hint("docs/kubernetes.md tells what a cluster needs")
    })
}

/// Makes the directory of a job that is called after the local time, behind `prefix`, and returns its name. What was started in
/// the same second has that name already: then a number follows.
pub fn timed_job(jobs_dir: &Path, prefix: &str) -> Result<String> {
    fs_err::create_dir_all(jobs_dir).or_exit(Exit::Failed)?;
    let time = ZonedDateTime::now().strftime("%Y-%m-%d__%H-%M-%S").to_string();
    let mut name = format!("{prefix}{time}");
    for number in 2.. {
        match fs_err::create_dir(jobs_dir.join(&name)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            result => return result.or_exit(Exit::Failed).map(|()| name),
        }
        name = format!("{prefix}{time}-{number}");
    }
    unreachable!("one of all numbers is free")
}

/// A directory for this process alone. A process that was killed leaves its own behind; the next one removes it.
pub struct Scratch {
    directory: TempDir,
    _lock: File,
}

impl Scratch {
    fn open(parent: &Path) -> io::Result<Self> {
        fs_err::create_dir_all(parent)?;
        // While this is held nobody else is between making a directory and locking it.
        let everybody = File::create(parent.with_extension(LOCK))?;
        everybody.lock()?;
        let directory = tempfile::Builder::new().prefix(RUN).tempdir_in(parent)?;
        let lock = File::create(directory.path().join(LOCK))?;
        lock.lock()?;
        for path in Self::deserted(parent)? {
            if let Err(error) = sandbox::native::remove_tree(&path) {
                tracing::warn!(%error, "a deserted sandbox directory cannot be removed");
            }
        }
        Ok(Self { directory, _lock: lock })
    }

    /// Removes the directories below `parent` that killed processes left behind; returns them in order.
    pub fn sweep(parent: &Path) -> io::Result<Vec<PathBuf>> {
        if !parent.is_dir() {
            return Ok(Vec::new());
        }
        let everybody = File::create(parent.with_extension(LOCK))?;
        everybody.lock()?;
        let deserted = Self::deserted(parent)?;
        deserted.iter().try_for_each(|path| sandbox::native::remove_tree(path))?;
        Ok(deserted)
    }

    /// Does something while nobody has a scratch directory below `parent`, and nobody gets one; nothing where somebody has.
    pub fn alone<T>(parent: &Path, work: impl FnOnce() -> T) -> io::Result<Option<T>> {
        if !parent.is_dir() {
            return Ok(Some(work()));
        }
        let everybody = File::create(parent.with_extension(LOCK))?;
        everybody.lock()?;
        let held = |entry: io::Result<fs_err::DirEntry>| {
            let lock = entry?.path().join(LOCK);
            io::Result::Ok(File::open(lock).is_ok_and(|lock| lock.try_lock().is_err()))
        };
        for entry in fs_err::read_dir(parent)? {
            if held(entry)? {
                return Ok(None);
            }
        }
        Ok(Some(work()))
    }

    /// The directories whose process is gone, in order. Whoever asks holds the lock for everybody.
    fn deserted(parent: &Path) -> io::Result<Vec<PathBuf>> {
        let mut deserted = Vec::new();
        for entry in fs_err::read_dir(parent)? {
            let entry = entry?;
            // Only what this program makes, and no link.
            let is_run = entry.file_name().as_encoded_bytes().starts_with(RUN.as_bytes());
            if !is_run || !entry.file_type()?.is_dir() {
                continue;
            }
            let path = entry.path();
            let free = match File::open(path.join(LOCK)) {
                Ok(lock) => lock.try_lock().is_ok(),
                Err(error) => error.kind() == ErrorKind::NotFound,
            };
            if free {
                deserted.push(path);
            }
        }
        deserted.sort();
        Ok(deserted)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        sandbox::native::settle(REMOVAL_LIMIT);
    }
}

/// How many processors this program may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// One trial a processor, as long as memory allows.
fn default_slots(memory: Option<u64>) -> usize {
    let fitting = memory.map_or(usize::MAX, |bytes| (bytes / TRIAL_MEMORY) as usize);
    processors().min(fitting).max(1)
}

fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

/// Runs work that needs no sandbox, with the same answer to interruptions.
pub fn run_alone<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = Runtime::new().or_exit(Exit::Failed)?;
    let ended = interruption::block_on(&runtime, work);
    // Threads may still be reading large files for work that was dropped, and nobody asks for what they find.
    runtime.shutdown_background();
    ended
}
