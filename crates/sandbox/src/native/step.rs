//! Runs build instructions: a command over an image, and what it changed as a new layer.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use fs_err as fs;
use image::{RootImage, RunCommand, RunFailure, RunStep};
use rustix::fs::Mode;
use rustix::io::Errno;

use crate::native::engine::Native;
use crate::native::running::Running;
use crate::native::wire::Overlay;
use crate::{Capture, ExecSpec, ExitStatus, Limits, Network, Sandbox, SandboxError, SandboxSpec};

/// How much of a step's output is kept for the message about its failure.
const TAIL: usize = 16 << 10;

/// Lines of output in a failure's message.
const TAIL_LINES: usize = 40;

/// Deepest tree a step may leave.
const MAX_DEPTH: usize = 512;

/// Attributes with which the kernel remembers where a file was copied from.
const NOTES: &[&str] =
    &["user.overlay.origin", "user.overlay.impure", "user.overlay.nlink", "user.overlay.uuid"];

/// Runs `RUN` instructions in sandboxes of the native engine.
#[derive(Debug)]
pub struct StepRunner {
    engine: Native,
    network: Network,
    limits: Limits,
    timeout: Option<Duration>,
}

impl StepRunner {
    /// A runner without network, limits or deadline.
    pub fn new(engine: Native) -> Self {
        Self { engine, network: Network::None, limits: Limits::default(), timeout: None }
    }

    /// Sets what steps can reach.
    #[must_use]
    pub fn with_network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// Sets the limits of each step.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the wall-clock limit of each step.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    async fn run_in_sandbox(
        &self,
        base: &RootImage,
        command: &RunCommand,
        into: &Path,
    ) -> Result<(), RunFailure> {
        let engine = |error: SandboxError| RunFailure::Engine(error.to_string());
        let file = |error: io::Error| RunFailure::Engine(error.to_string());
        // Beside the target, so that the changes only have to be renamed.
        let beside =
            into.parent().ok_or_else(|| RunFailure::Engine(format!("{} has no parent", into.display())))?;
        let scratch = tempfile::Builder::new().prefix(".step-").tempdir_in(beside).map_err(file)?;
        let root = RootImage { config: image::ImageConfig::default(), ..base.clone() };
        let spec = SandboxSpec {
            limits: self.limits.clone(),
            network: self.network.clone(),
            ..SandboxSpec::new("build", root.into(), scratch.path())
        };
        let mut sandbox = self.engine.launch(&spec).await.map_err(engine)?;
        let result = self.run_command(&mut sandbox, command, into).await;
        let removed = Box::new(sandbox).destroy().await.map_err(engine);
        result.and(removed)
    }

    async fn run_command(
        &self,
        sandbox: &mut Running,
        command: &RunCommand,
        into: &Path,
    ) -> Result<(), RunFailure> {
        let engine = |error: SandboxError| RunFailure::Engine(error.to_string());
        let command = ExecSpec {
            argv: command.argv.clone(),
            env: command.env.clone(),
            workdir: Some(command.workdir.clone()),
            user: command.user.clone(),
            stdin: command.stdin.clone(),
            timeout: self.timeout,
            capture: Capture { limit: TAIL, merge: true },
        };
        let outcome = sandbox.exec(&command).await.map_err(engine)?;
        let code = match outcome.status {
            ExitStatus::Code(0) => {
                // The kernel writes to the directories until the last mount is gone.
                sandbox.stop().await.map_err(engine)?;
                let collected = sandbox.overlays().iter().try_for_each(|overlay| collect(overlay, into));
                return collected.map_err(|error| RunFailure::Engine(error.to_string()));
            }
            ExitStatus::Code(code) => code,
            ExitStatus::Signal(signal) => 128 + signal,
            ExitStatus::Timeout => {
                return Err(RunFailure::Timeout { seconds: self.timeout.unwrap_or_default().as_secs() });
            }
        };
        Err(RunFailure::Exit { code, tail: last_lines(&outcome.stdout.bytes) })
    }
}

impl RunStep for StepRunner {
    fn run(&self, base: &RootImage, command: &RunCommand, into: &Path) -> Result<(), RunFailure> {
        // The builder is not asynchronous but may be called from a thread that is; a runtime in a thread of its own
        // works from everywhere.
        std::thread::scope(|scope| {
            let run = scope.spawn(|| {
                tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .map_err(|error| RunFailure::Engine(error.to_string()))?
                    .block_on(self.run_in_sandbox(base, command, into))
            });
            run.join().unwrap_or_else(|_| Err(RunFailure::Engine("the step runner panicked".into())))
        })
    }
}

/// Moves what was written to one overlay to its place below `into`.
fn collect(overlay: &Overlay, into: &Path) -> io::Result<()> {
    clean(&overlay.upper)?;
    let inside = overlay.at.strip_prefix("/").unwrap_or(&overlay.at);
    let target = into.join(inside);
    if fs::read_dir(&overlay.upper)?.next().is_none() {
        return Ok(());
    }
    if let Some(parent) = target.parent().filter(|_| target != into) {
        fs::create_dir_all(parent)?;
    }
    match fs::rename(&overlay.upper, &target) {
        // The root's own overlay may hold the directory that the tree is mounted on, with nothing in it.
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
            for entry in fs::read_dir(&overlay.upper)? {
                let entry = entry?;
                fs::rename(entry.path(), target.join(entry.file_name()))?;
            }
            Ok(())
        }
        other => other,
    }
}

/// Removes what the kernel noted for the mount that is gone, and keeps what makes a layer: whiteouts and opaque
/// directories. The notes hold numbers of this file system and would make equal layers differ.
fn clean(directory: &Path) -> io::Result<()> {
    clean_below(directory, 0)
}

fn clean_below(path: &Path, depth: usize) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(io::Error::other(format!("{} lies deeper than {MAX_DEPTH} directories", path.display())));
    }
    let metadata = fs::symlink_metadata(path)?;
    if metadata.is_dir() || metadata.is_file() {
        remove_notes(path)?;
    }
    if metadata.is_dir() {
        // Root reads every directory; an ordinary user first has to be let in, and the mode is put back.
        let mode = Mode::from_raw_mode(metadata.mode());
        let closed = !mode.contains(Mode::RUSR | Mode::XUSR);
        if closed {
            rustix::fs::chmod(path, mode | Mode::RWXU)?;
        }
        for entry in fs::read_dir(path)? {
            clean_below(&entry?.path(), depth + 1)?;
        }
        if closed {
            rustix::fs::chmod(path, mode)?;
        }
    }
    Ok(())
}

fn remove_notes(path: &Path) -> io::Result<()> {
    for note in NOTES {
        match rustix::fs::lremovexattr(path, *note) {
            // Not there, a file system without such attributes, or a file that an ordinary user owns but may not write.
            Ok(()) | Err(Errno::NODATA | Errno::NOTSUP | Errno::ACCESS) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn last_lines(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}
