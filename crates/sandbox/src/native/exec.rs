//! One command, seen from the engine: streams, deadline, outcome.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use image::ImageConfig;
use rustix::fs::{Mode, OFlags};
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep_until};

use crate::native::running::{Answers, Running, io_error, pipe_pair};
use crate::native::wire::{self, CommandRequest, Operation, Reply};
use crate::resolve::{self, Settings};
use crate::shared::capture::Collector;
use crate::{ExecOutcome, ExecSpec, ExitStatus, Output, Root, Sandbox, SandboxError, SandboxSpec};

/// How long output is still read after the command ended while something it left behind holds the streams open.
const GRACE: Duration = Duration::from_millis(100);

/// How long the hunt for a command's processes may take before everything in the sandbox is killed instead.
const HUNT_PATIENCE: Duration = Duration::from_secs(4);

/// Bytes read at a time, the size of a pipe.
const CHUNK: usize = 64 << 10;

/// Runs one command to its end.
pub(crate) async fn run(sandbox: &Running, command: &ExecSpec) -> Result<ExecOutcome, SandboxError> {
    let program = command.argv.first().cloned().unwrap_or_default();
    let started = Instant::now();
    let body = wire::body(&request(&sandbox.spec, command)).map_err(io_error("preparing a request"))?;
    let stdin = input(&command.stdin).map_err(io_error("preparing standard input"))?;
    let pipes = io_error("making pipes");
    let ((out, stdout), second) = pipe_pair()
        .and_then(|first| Ok((first, if command.capture.merge { None } else { Some(pipe_pair()?) })))
        .map_err(pipes)?;
    let (err, stderr) = second.map_or((None, None), |(read, write)| (Some(read), Some(write)));
    let mut out = Stream::new(Some(out), command.capture.limit)?;
    let mut err = Stream::new(err, command.capture.limit)?;
    let streams = [stdin.as_fd(), stdout.as_fd(), stderr.as_ref().unwrap_or(&stdout).as_fd()];
    let answers = sandbox.request(Operation::Exec, &body, &streams)?;
    drop((stdin, stdout, stderr));

    let deadline = command.timeout.map(|timeout| started + timeout);
    let reply = follow(sandbox, answers, deadline, &mut out, &mut err).await?;
    let wall = started.elapsed();
    let status = match reply {
        None => ExitStatus::Timeout,
        Some(Reply::Code(code)) => ExitStatus::Code(code),
        Some(Reply::Signal(signal)) => ExitStatus::Signal(signal),
        Some(Reply::Spawn(reason)) => return Err(SandboxError::Spawn { program, reason }),
        Some(Reply::Failed(reason)) => {
            return Err(SandboxError::Io {
                doing: format!("running `{program}`"),
                source: io::Error::other(reason),
            });
        }
        Some(other @ (Reply::Done | Reply::NoSuchPath)) => {
            return Err(SandboxError::Lost(format!("its init gave the answer {other:?} to a command")));
        }
    };
    Ok(ExecOutcome { status, stdout: out.finish(), stderr: err.finish(), wall })
}

/// Reads the streams until the command has ended; `None` when its deadline ended it.
async fn follow(
    sandbox: &Running,
    mut answers: Answers,
    deadline: Option<Instant>,
    out: &mut Stream,
    err: &mut Stream,
) -> Result<Option<Reply>, SandboxError> {
    let far = || Instant::now() + Duration::from_secs(365 * 24 * 3600);
    let mut wake = deadline.unwrap_or_else(far);
    let mut phase = Phase::Running;
    // Held from the deadline on.
    let mut _hurry = None;
    loop {
        tokio::select! {
            read = out.read(), if out.open() => read?,
            read = err.read(), if err.open() => read?,
            reply = answers.next(), if !matches!(phase, Phase::Ended(_)) => {
                let outcome = match (reply?, &phase) {
                    // The init could not catch them one by one.
                    (Reply::Failed(_), Phase::Stopping) => {
                        sandbox.kill_all().await?;
                        None
                    }
                    (_, Phase::Stopping | Phase::StoppingAll) => None,
                    (reply, _) => Some(reply),
                };
                phase = Phase::Ended(outcome);
                wake = Instant::now() + GRACE;
            }
            () = sleep_until(wake) => match phase {
                Phase::Running if deadline.is_some() => {
                    _hurry = sandbox.unthrottled();
                    answers.stop().await?;
                    phase = Phase::Stopping;
                    wake = Instant::now() + HUNT_PATIENCE;
                }
                Phase::Running => wake = far(),
                Phase::Stopping => {
                    sandbox.kill_all().await?;
                    phase = Phase::StoppingAll;
                    wake = Instant::now() + HUNT_PATIENCE;
                }
                Phase::StoppingAll => return Err(SandboxError::Lost("its init does not answer".into())),
                Phase::Ended(outcome) => {
                    out.take_rest()?;
                    err.take_rest()?;
                    return Ok(outcome);
                }
            },
        }
        if let Phase::Ended(outcome) = phase {
            if !out.open() && !err.open() {
                return Ok(outcome);
            }
            phase = Phase::Ended(outcome);
        }
    }
}

enum Phase {
    Running,
    Stopping,
    StoppingAll,
    Ended(Option<Reply>),
}

/// The command with everything filled in that sandbox and image say.
fn request(spec: &SandboxSpec, command: &ExecSpec) -> CommandRequest {
    let none = ImageConfig::default();
    let config = match &spec.root {
        Root::Layers(root) => &root.config,
        Root::Image(_) => &none,
    };
    let Settings { env, workdir, user } = resolve::settings(config, spec, command);
    CommandRequest { argv: command.argv.clone(), env, workdir, user }
}

fn input(bytes: &[u8]) -> io::Result<OwnedFd> {
    if bytes.is_empty() {
        return Ok(rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?);
    }
    wire::sealed("seatrial-stdin", bytes)
}

/// One output stream of a command.
struct Stream {
    pipe: Option<pipe::Receiver>,
    collector: Collector,
    buffer: Vec<u8>,
}

impl Stream {
    fn new(pipe: Option<OwnedFd>, limit: usize) -> Result<Self, SandboxError> {
        let pipe = pipe.map(pipe::Receiver::from_owned_fd).transpose().map_err(io_error("making pipes"))?;
        Ok(Self { pipe, collector: Collector::new(limit), buffer: Vec::new() })
    }

    fn open(&self) -> bool {
        self.pipe.is_some()
    }

    /// Waits for bytes or the end of the stream, and takes what is there. Nothing is lost when it is dropped.
    async fn read(&mut self) -> Result<(), SandboxError> {
        let Some(pipe) = &self.pipe else { return Ok(()) };
        pipe.readable().await.map_err(io_error("reading output"))?;
        self.try_read().map(|_| ())
    }

    /// Takes what is there without waiting; returns whether something was.
    fn try_read(&mut self) -> Result<bool, SandboxError> {
        let Some(pipe) = &self.pipe else { return Ok(false) };
        self.buffer.resize(CHUNK, 0);
        match pipe.try_read(&mut self.buffer) {
            Ok(0) => {
                self.pipe = None;
                Ok(false)
            }
            Ok(read) => {
                self.collector.push(&self.buffer[..read]);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(io_error("reading output")(error)),
        }
    }

    /// Takes what the command itself wrote before it ended. What still holds the stream open may go on writing:
    /// that is read and thrown away, so that it neither blocks nor breaks.
    fn take_rest(&mut self) -> Result<(), SandboxError> {
        const PIPES_FULL: usize = 16;
        for _ in 0..PIPES_FULL {
            if !self.try_read()? {
                break;
            }
        }
        if let Some(mut pipe) = self.pipe.take() {
            tokio::spawn(async move { tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await });
        }
        Ok(())
    }

    fn finish(self) -> Output {
        self.collector.finish()
    }
}
