//! What a sandbox starts from: a stack of read-only layers and the configuration that came with it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A root file system ready to be mounted: layers from the bottom up, and how commands start in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootImage {
    /// Layers, lowest first.
    pub layers: Vec<Layer>,
    /// Environment, working directory, user and so on, as the image states them.
    pub config: ImageConfig,
    /// Identity of the whole stack, `sha256:<hex>`: equal digests mean equal content.
    pub digest: String,
}

impl RootImage {
    /// The image without layers: `scratch`.
    pub fn empty() -> Self {
        let config = ImageConfig::default();
        let digest = crate::chain::Chain::empty().image_digest(&config);
        Self { layers: Vec::new(), config, digest }
    }
}

/// One read-only layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layer {
    /// An unpacked directory in the layer store. Deletions are overlay whiteouts: character device 0/0 or
    /// the `user.overlay.whiteout` form, opaque directories the `user.overlay.opaque` attribute.
    Directory(PathBuf),
    /// The host's own system under the reserved reference `seatrial.local/host`; only ever the lowest layer.
    Host(HostRoot),
}

/// The allow-listed part of the host that a sandbox may see, always read-only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRoot {
    /// A prepared directory: the links `/bin`, `/lib`… of a merged system, the filtered `/etc`, and an empty
    /// directory for every mount point.
    pub skeleton: PathBuf,
    /// Host directories seen at the same path inside (`/usr`, `/opt`, and `/lib` where it is a directory of its own).
    pub trees: Vec<PathBuf>,
}

/// The part of an OCI image configuration that decides how commands run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageConfig {
    /// Environment, sorted by name.
    pub env: BTreeMap<String, String>,
    /// Working directory; `/` when the image names none.
    pub workdir: Option<String>,
    /// `user[:group]`, by name or number; root when absent.
    pub user: Option<String>,
    /// `ENTRYPOINT` in exec form.
    pub entrypoint: Vec<String>,
    /// `CMD` in exec form.
    pub cmd: Vec<String>,
    /// `SHELL`; `["/bin/sh", "-c"]` when absent.
    pub shell: Vec<String>,
    /// Labels, sorted by name.
    pub labels: BTreeMap<String, String>,
}

/// Runs one build instruction over a stack of layers: the seam through which the builder, which knows no
/// sandbox, gets its `RUN` lines executed.
pub trait RunStep {
    /// Runs `command` over `base` and moves what it changed into `into`, an empty directory, in the layer form
    /// of [`Layer::Directory`].
    fn run(&self, base: &RootImage, command: &RunCommand, into: &std::path::Path) -> Result<(), RunFailure>;
}

/// One `RUN` instruction, ready to execute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunCommand {
    /// Program and arguments; the first is looked up on `PATH` inside the image.
    pub argv: Vec<String>,
    /// The complete environment.
    pub env: BTreeMap<String, String>,
    /// Absolute working directory inside the image.
    pub workdir: String,
    /// `user[:group]`; root when absent.
    pub user: Option<String>,
    /// Bytes for standard input (here-documents), usually empty.
    pub stdin: Vec<u8>,
}

/// Why a build step did not succeed.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum RunFailure {
    /// The command ran and failed.
    #[error("the command exited with {code}; its last output was:\n{tail}")]
    Exit {
        /// Exit code, 128 + signal for signals.
        code: i32,
        /// The last lines of standard output and error.
        tail: String,
    },
    /// The command was stopped at the build's deadline.
    #[error("the command was stopped at the time limit of {seconds} s")]
    Timeout {
        /// The limit that was hit, in seconds.
        seconds: u64,
    },
    /// The sandbox could not run it.
    #[error("the sandbox could not run the command: {0}")]
    Engine(String),
}
