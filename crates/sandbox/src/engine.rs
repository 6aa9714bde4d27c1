//! The one trait that every engine fulfils, and the values that go in and come out of it.
//!
//! An engine starts sandboxes; a sandbox runs commands, takes files in and gives files out as tar streams, and
//! is destroyed with everything that ran in it. Nothing here assumes a shared file system, so an engine may as
//! well be a container daemon or a cluster.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use image::RootImage;

use crate::{Archive, SandboxError};

/// Starts sandboxes.
#[async_trait]
pub trait Engine: Send + Sync {
    /// The engine's name as recipes and results spell it: `native`, `docker`, `kubernetes`.
    fn name(&self) -> &'static str;

    /// Starts one sandbox. When this returns an error nothing of the sandbox is left.
    async fn start(&self, spec: &SandboxSpec) -> Result<Box<dyn Sandbox>, SandboxError>;

    /// Whether a start may wait for room that other sandboxes of this engine hold, for as long as they live. Such an engine has a
    /// limit of its own for everything else that a start waits for.
    fn queues(&self) -> bool {
        false
    }
}

/// One running sandbox. Dropping it without [`Sandbox::destroy`] still ends its processes.
#[async_trait]
pub trait Sandbox: Send + Sync {
    /// Runs one command to its end or its deadline. A command that fails is an outcome, not an error.
    async fn exec(&self, command: &ExecSpec) -> Result<ExecOutcome, SandboxError>;

    /// Unpacks a tar stream below `directory`, which is created when missing. Entries keep their modes and belong
    /// to root.
    async fn upload(&self, archive: &Archive, directory: &str) -> Result<(), SandboxError>;

    /// Packs the file or directory at `path` into a tar stream of at most `limit` bytes, without following links.
    /// Entry names are relative to `path`; a single file is one entry with its own name. A missing path is
    /// [`SandboxError::NoSuchPath`]; more than `limit` bytes is [`SandboxError::TooLarge`].
    async fn download(&self, path: &str, limit: u64) -> Result<Archive, SandboxError>;

    /// Kills every process in the sandbox except its init, so that nothing of an earlier phase runs on.
    async fn kill_all(&self) -> Result<(), SandboxError>;

    /// What the sandbox used so far, and whether a limit was hit.
    async fn usage(&self) -> Result<Usage, SandboxError>;

    /// Ends the sandbox and removes everything that belongs to it.
    async fn destroy(self: Box<Self>) -> Result<(), SandboxError>;
}

/// What to start.
#[derive(Debug, Clone)]
pub struct SandboxSpec {
    /// A short name for messages and labels, unique among running sandboxes.
    pub name: String,
    /// What the sandbox belongs to, for engines that can write it on what they create: `job`, `trial`, `task`.
    pub labels: BTreeMap<String, String>,
    /// The root file system.
    pub root: Root,
    /// Environment on top of the image's own, for every command.
    pub env: BTreeMap<String, String>,
    /// Default working directory; the image's own when absent.
    pub workdir: Option<String>,
    /// Resource limits.
    pub limits: Limits,
    /// Network mode.
    pub network: Network,
    /// Single services of the host that are reachable inside, whatever the network mode.
    pub doors: Vec<Door>,
    /// A directory where an engine on this machine may keep the sandbox's writable layer and other scratch; it must exist.
    pub scratch: PathBuf,
}

impl SandboxSpec {
    /// A sandbox without network, limits and anything else that its image does not say.
    pub fn new(name: impl Into<String>, root: Root, scratch: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            labels: BTreeMap::new(),
            root,
            env: BTreeMap::new(),
            workdir: None,
            limits: Limits::default(),
            network: Network::None,
            doors: Vec::new(),
            scratch: scratch.into(),
        }
    }
}

/// What a sandbox's root file system comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Root {
    /// Layers on this machine, for the engine that mounts them itself.
    Layers(RootImage),
    /// An image that the engine holds or pulls.
    Image(EngineImage),
}

impl From<RootImage> for Root {
    fn from(root: RootImage) -> Self {
        Self::Layers(root)
    }
}

impl Root {
    /// Identity of the content, `sha256:<hex>`: equal digests mean equal content.
    pub fn digest(&self) -> &str {
        match self {
            Self::Layers(root) => &root.digest,
            Self::Image(image) => &image.digest,
        }
    }
}

/// An image by the name under which an engine finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineImage {
    /// What the engine is asked for: an image id, or a reference with its digest.
    pub reference: String,
    /// Identity of the content, `sha256:<hex>`.
    pub digest: String,
}

/// Resource limits of one sandbox; absent means unlimited.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Limits {
    /// Processors, fractions allowed.
    pub cpus: Option<f64>,
    /// Memory in bytes, swap included.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
    /// Bytes that may be written to the root file system.
    pub storage: Option<u64>,
}

/// What a sandbox can reach.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Network {
    /// Loopback only.
    #[default]
    None,
    /// The network of the host, or of the engine's machines.
    Public,
    /// These hosts only. No engine holds this yet: each refuses it by name.
    Allowlist(Vec<String>),
}

/// One service of the host that a sandbox reaches on a port of its own loopback, even without a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Door {
    /// The port on `127.0.0.1` inside the sandbox.
    pub port: u16,
    /// Where connections go on the host.
    pub to: HostService,
}

/// A service on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostService {
    /// A Unix socket.
    Unix(PathBuf),
    /// A port on `127.0.0.1`.
    Loopback(u16),
}

/// One command.
#[derive(Debug, Clone, Default)]
pub struct ExecSpec {
    /// Program and arguments; never a shell string built from data. The program is looked up on the command's `PATH`.
    pub argv: Vec<String>,
    /// Environment on top of the sandbox's.
    pub env: BTreeMap<String, String>,
    /// Working directory; the sandbox's default when absent.
    pub workdir: Option<String>,
    /// `user[:group]` by name or number; the image's user when absent.
    pub user: Option<String>,
    /// Standard input; empty means closed.
    pub stdin: Vec<u8>,
    /// Wall-clock limit; at its end the command's whole process tree is killed.
    pub timeout: Option<Duration>,
    /// How much of each output stream is kept.
    pub capture: Capture,
}

/// Where a command's output goes, and how much of it is kept.
#[derive(Debug, Clone)]
pub struct Capture {
    /// Bytes kept of each stream: the first half from the start, the second half from the end.
    pub limit: usize,
    /// Send standard error where standard output goes, in order of arrival.
    pub merge: bool,
}

impl Default for Capture {
    fn default() -> Self {
        Self { limit: 1 << 20, merge: false }
    }
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecOutcome {
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: Output,
    /// Standard error; empty when merged.
    pub stderr: Output,
    /// Wall-clock time from start to end.
    pub wall: Duration,
}

impl ExecOutcome {
    /// Whether the command exited with code 0.
    pub fn success(&self) -> bool {
        self.status == ExitStatus::Code(0)
    }
}

/// The end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// It was stopped at its deadline.
    Timeout,
}

/// A captured stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// What was kept; a marker line stands where bytes were left out.
    pub bytes: Vec<u8>,
    /// How many bytes the command wrote.
    pub total: u64,
}

impl Output {
    /// Whether something was left out.
    pub fn truncated(&self) -> bool {
        self.total > self.bytes.len() as u64
    }
}

/// Resource use of a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// Highest memory use in bytes, where the engine can tell.
    pub peak_memory: Option<u64>,
    /// How many times the memory limit ended a process.
    pub oom_kills: u64,
    /// Processor time used, where the engine can tell.
    pub cpu_time: Option<Duration>,
}
