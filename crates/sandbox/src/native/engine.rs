//! The engine itself: what is found out once, and the start of a sandbox.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use fs_err as fs;
use rustix::fs::{MemfdFlags, SealFlags};

use crate::naming::hostname;
use crate::native::cgroup::{Enforceable, Hierarchy, group_name};
use crate::native::launch::Process;
use crate::native::running::{Parts, Running};
use crate::native::scratch::Scratch;
use crate::native::stack;
use crate::native::wire::Setup;
use crate::{Engine, Network, Root, Sandbox, SandboxError, SandboxSpec};

/// The engine's name.
const NAME: &str = "native";

/// How to set the engine up.
#[derive(Debug, Clone)]
pub struct NativeConfig {
    /// The program that offers the hidden init entry, normally the running program itself.
    pub init: PathBuf,
    /// Refuse to start a sandbox whose limits cannot be held on this machine. Otherwise it starts, a warning is
    /// logged, and [`Native::enforceable`] tells which limits hold.
    pub require_limits: bool,
}

/// The embedded engine. Clones share what was found out when it was set up.
#[derive(Debug, Clone)]
pub struct Native {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    init: Program,
    hierarchy: Hierarchy,
    require_limits: bool,
}

/// Sandboxes started by this process, by whichever engine value; gives each its number.
static STARTED: AtomicU64 = AtomicU64::new(0);

impl Native {
    /// Prepares the engine: copies the init program, finds the control groups, and removes the groups that killed
    /// runs left behind.
    pub fn new(config: NativeConfig) -> Result<Self, SandboxError> {
        let unavailable = |reason: String| SandboxError::Unavailable { engine: NAME, reason };
        let init =
            Program::copy(config.init).map_err(|error| unavailable(format!("no init program: {error}")))?;
        let hierarchy = Hierarchy::discover();
        hierarchy.sweep();
        let shared = Shared { init, hierarchy, require_limits: config.require_limits };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Which limits hold on this machine.
    pub fn enforceable(&self) -> Enforceable {
        self.shared.hierarchy.enforceable()
    }
}

#[async_trait]
impl Engine for Native {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<Box<dyn Sandbox>, SandboxError> {
        Ok(Box::new(self.launch(spec).await?))
    }
}

impl Native {
    /// Starts a sandbox without hiding its type.
    pub(crate) async fn launch(&self, spec: &SandboxSpec) -> Result<Running, SandboxError> {
        let shared = Arc::clone(&self.shared);
        let spec = spec.clone();
        // Starting blocks for some milliseconds on the kernel and on the init.
        tokio::task::spawn_blocking(move || shared.start(spec))
            .await
            .map_err(|error| SandboxError::Lost(format!("the start was interrupted: {error}")))?
    }
}

impl Shared {
    fn start(&self, spec: SandboxSpec) -> Result<Running, SandboxError> {
        tracing::debug!(sandbox = spec.name, "starts");
        refuse(&spec)?;
        let missing = self.hierarchy.enforceable().missing(&spec.limits);
        if !missing.is_empty() {
            let what = format!("{} limits on this machine: no usable control group", missing.join(", "));
            if self.require_limits {
                return Err(SandboxError::Unsupported { engine: NAME, what });
            }
            tracing::warn!(
                sandbox = spec.name,
                missing = missing.join(","),
                "limits are not held on this machine"
            );
        }
        let parts = self
            .build(&spec)
            .map_err(|error| SandboxError::Start { name: spec.name.clone(), reason: error.to_string() })?;
        Running::new(spec, parts)
    }

    /// Builds everything that belongs to a sandbox; what was built before an error goes with the error.
    fn build(&self, spec: &SandboxSpec) -> io::Result<Parts> {
        let name = group_name(STARTED.fetch_add(1, Ordering::Relaxed));
        let scratch = Scratch::create(&spec.scratch, &name)?;
        let Root::Layers(root) = &spec.root else {
            return Err(io::Error::other("its image is not on this machine"));
        };
        let overlays = stack::plan(&root.layers, scratch.path())?;
        overlays.iter().try_for_each(Scratch::prepare)?;
        let hostname = hostname(&spec.name);
        let setup = Setup {
            identity_map: rustix::process::geteuid().is_root(),
            isolate_network: spec.network == Network::None,
            stage: scratch.stage(),
            mount_points: overlays
                .iter()
                .map(|overlay| overlay.at.clone())
                .chain(stack::MOUNT_POINTS.iter().map(PathBuf::from))
                .collect(),
            files: provided_files(&hostname, &spec.network),
            largest_file: spec.limits.storage,
            doors: spec.doors.iter().map(|door| door.port).collect(),
            hostname,
            overlays: overlays.clone(),
        };
        let group = self.hierarchy.create(&name, &spec.limits)?;
        stack::settle(&root.layers)?;
        let process = Process::start(&self.init.path(), &setup, &group)?;
        Ok(Parts { process, group, scratch, overlays })
    }
}

/// Refuses by name what the engine cannot give.
fn refuse(spec: &SandboxSpec) -> Result<(), SandboxError> {
    let unsupported = |what: &str| Err(SandboxError::Unsupported { engine: NAME, what: what.to_owned() });
    crate::door::check(NAME, &spec.doors)?;
    match (&spec.network, &spec.root) {
        (Network::Allowlist(_), _) => unsupported("a network allow-list"),
        (_, Root::Image(image)) => unsupported(&format!("images of other engines ({})", image.reference)),
        _ => Ok(()),
    }
}

/// The files every sandbox gets from the engine instead of its image.
fn provided_files(hostname: &str, network: &Network) -> BTreeMap<PathBuf, String> {
    let resolver = match network {
        Network::None | Network::Allowlist(_) => String::new(),
        // Only what it says goes in, not the file: it may change under the sandbox, or be a link.
        Network::Public => resolver().unwrap_or_default(),
    };
    let hosts =
        format!("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\t{hostname}\n");
    BTreeMap::from([
        ("/etc/hostname".into(), format!("{hostname}\n")),
        ("/etc/hosts".into(), hosts),
        ("/etc/resolv.conf".into(), resolver),
    ])
}

/// The host's resolver configuration, as much of it as any resolver reads.
fn resolver() -> io::Result<String> {
    const MAX: u64 = 64 << 10;
    let mut text = String::new();
    fs::File::open("/etc/resolv.conf")?.take(MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// The init program in a sealed memory file.
///
/// Root inside a sandbox has the number of root outside. Should a command ever get hold of the program that started
/// it, through `/proc` or as the interpreter of a script, it finds a file that nobody can change.
#[derive(Debug)]
enum Program {
    Sealed(OwnedFd),
    /// Where memory files may not be executed.
    File(PathBuf),
}

impl Program {
    fn copy(path: PathBuf) -> io::Result<Self> {
        let source = fs::File::open(&path)?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Kernels before 6.3 do not know the flag and make every memory file executable.
        let memory = rustix::fs::memfd_create("seatrial-init", flags | MemfdFlags::EXEC)
            .or_else(|_| rustix::fs::memfd_create("seatrial-init", flags));
        let Ok(memory) = memory else { return Ok(Self::File(path)) };
        let mut memory = File::from(memory);
        // The plain file: between two of them the kernel copies, without a detour.
        io::copy(&mut source.file(), &mut memory)?;
        let seals = SealFlags::SEAL | SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK;
        rustix::fs::fcntl_add_seals(&memory, seals)?;
        Ok(Self::Sealed(memory.into()))
    }

    fn path(&self) -> PathBuf {
        match self {
            Self::Sealed(memory) => format!("/proc/self/fd/{}", memory.as_raw_fd()).into(),
            Self::File(path) => path.clone(),
        }
    }
}
