//! A running sandbox, seen from the engine.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use crate::door::{self, Doors};
use crate::native::cgroup::{Group, Unthrottled};
use crate::native::exec;
use crate::native::launch::Process;
use crate::native::scratch::Scratch;
use crate::native::storage::Uppers;
use crate::native::wire::{self, Operation, Overlay, Reply, TransferRequest};
use crate::removal;
use crate::storage::StorageWatch;
use crate::{Archive, ArchiveWriter, ExecOutcome, ExecSpec, Sandbox, SandboxError, SandboxSpec, Usage};

/// Bytes moved at a time, the size of a pipe.
const CHUNK: usize = 64 << 10;

/// How long process 1 may take to kill what it can kill at once.
const KILL_PATIENCE: Duration = Duration::from_secs(30);

/// What a sandbox consists of; the order is the order of its removal.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) process: Process,
    pub(crate) group: Group,
    pub(crate) scratch: Scratch,
    /// What is mounted, and where its changes are.
    pub(crate) overlays: Vec<Overlay>,
}

impl Parts {
    /// Ends the processes, then removes what they used.
    fn remove(mut self) -> io::Result<()> {
        self.process.end()?;
        let group = self.group.remove();
        self.scratch.remove()?;
        group
    }
}

/// One running sandbox of the native engine.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) spec: SandboxSpec,
    parts: Option<Parts>,
    storage: Option<StorageWatch>,
    _doors: Doors,
}

impl Running {
    /// Lets the sandbox's processes end without a processor quota, as long as the value lives.
    pub(crate) fn unthrottled(&self) -> Option<Unthrottled<'_>> {
        self.parts().ok()?.group.unthrottled(self.spec.limits.cpus?)
    }

    /// Takes a sandbox that has started. Must be called within a runtime.
    pub(crate) fn new(spec: SandboxSpec, mut parts: Parts) -> Result<Self, SandboxError> {
        let listeners = std::mem::take(&mut parts.process.doors);
        let doors = door::serve(listeners, &spec.doors).map_err(io_error("opening doors"))?;
        let watch = |limit| {
            let control = parts.process.control.try_clone().map_err(io_error("watching storage"))?;
            let uppers = parts.overlays.iter().map(|overlay| overlay.upper.clone());
            Ok::<_, SandboxError>(StorageWatch::start(limit, Uppers::new(uppers, control)))
        };
        let storage = spec.limits.storage.map(watch).transpose()?;
        Ok(Self { spec, parts: Some(parts), storage, _doors: doors })
    }

    /// An error once the sandbox wrote more than it may.
    fn check_storage(&self) -> Result<(), SandboxError> {
        self.storage.as_ref().map_or(Ok(()), StorageWatch::check)
    }

    /// Ends all processes and thereby all mounts, and keeps the files.
    pub(crate) async fn stop(&mut self) -> Result<(), SandboxError> {
        let mut parts = self.parts.take().ok_or_else(|| SandboxError::Lost("it was destroyed".into()))?;
        let ended = tokio::task::spawn_blocking(move || parts.process.end().map(|()| parts)).await;
        let ended = ended.map_err(|error| SandboxError::Lost(format!("its end was interrupted: {error}")))?;
        self.parts = Some(ended.map_err(io_error(format!("ending sandbox {}", self.spec.name)))?);
        Ok(())
    }

    /// The overlays of the sandbox, the root first.
    pub(crate) fn overlays(&self) -> &[Overlay] {
        self.parts.as_ref().map_or(&[], |parts| &parts.overlays)
    }

    fn parts(&self) -> Result<&Parts, SandboxError> {
        self.parts.as_ref().ok_or_else(|| SandboxError::Lost("it was destroyed".into()))
    }

    /// Sends a request with its body and streams; returns where the answers arrive.
    pub(crate) fn request(
        &self,
        operation: Operation,
        body: &OwnedFd,
        streams: &[BorrowedFd<'_>],
    ) -> Result<Answers, SandboxError> {
        let (ours, theirs) =
            std::os::unix::net::UnixStream::pair().map_err(io_error("making an answer socket"))?;
        ours.set_nonblocking(true).map_err(io_error("making an answer socket"))?;
        let ours = UnixStream::from_std(ours).map_err(io_error("making an answer socket"))?;
        let mut fds = vec![body.as_fd(), theirs.as_fd()];
        fds.extend_from_slice(streams);
        let control = &self.parts()?.process.control;
        wire::send_request(control, operation, &fds)
            .map_err(|error| SandboxError::Lost(error.to_string()))?;
        Ok(Answers { socket: BufReader::new(ours), line: Vec::new() })
    }
}

#[async_trait]
impl Sandbox for Running {
    async fn exec(&self, command: &ExecSpec) -> Result<ExecOutcome, SandboxError> {
        self.check_storage()?;
        // What a command is called with may hold secrets.
        tracing::debug!(sandbox = self.spec.name, program = command.argv.first(), "runs a command");
        let outcome = exec::run(self, command).await?;
        tracing::debug!(sandbox = self.spec.name, program = command.argv.first(), "the command ended");
        self.check_storage()?;
        Ok(outcome)
    }

    async fn upload(&self, archive: &Archive, directory: &str) -> Result<(), SandboxError> {
        self.check_storage()?;
        let what = || format!("unpacking files into {directory}");
        let body = wire::body(&TransferRequest { path: directory.to_owned() }).map_err(io_error(what()))?;
        let (theirs, ours) = pipe_pair().map_err(io_error(what()))?;
        let mut answers = self.request(Operation::Upload, &body, &[theirs.as_fd()])?;
        drop(theirs);
        let mut sender = pipe::Sender::from_owned_fd(ours).map_err(io_error(what()))?;
        let send = async {
            let mut chunk = vec![0; CHUNK.min(usize::try_from(archive.len()).unwrap_or(CHUNK))];
            let mut at = 0;
            loop {
                match archive.read_at(at, &mut chunk)? {
                    0 => break,
                    count => {
                        at += count as u64;
                        // When the other side stops reading, its answer says why.
                        if sender.write_all(&chunk[..count]).await.is_err() {
                            break;
                        }
                    }
                }
            }
            drop(sender);
            Ok(())
        };
        let (sent, reply) = tokio::join!(send, answers.next());
        sent.map_err(io_error(what()))?;
        match reply? {
            Reply::Done => Ok(()),
            other => Err(unexpected(&what(), other)),
        }
    }

    async fn download(&self, path: &str, limit: u64) -> Result<Archive, SandboxError> {
        let what = || format!("packing {path}");
        let body = wire::body(&TransferRequest { path: path.to_owned() }).map_err(io_error(what()))?;
        let (ours, theirs) = pipe_pair().map_err(io_error(what()))?;
        let mut answers = self.request(Operation::Download, &body, &[theirs.as_fd()])?;
        drop(theirs);
        let receiver = pipe::Receiver::from_owned_fd(ours).map_err(io_error(what()))?;
        let mut receiver = receiver.take(limit.saturating_add(1));
        let mut writer = ArchiveWriter::default();
        let mut chunk = Vec::with_capacity(CHUNK);
        while receiver.read_buf(&mut chunk).await.map_err(io_error(what()))? > 0 {
            writer.write_all(&chunk).map_err(io_error(what()))?;
            chunk.clear();
        }
        if writer.len() > limit {
            return Err(SandboxError::TooLarge { what: format!("{path} in the sandbox, packed,"), limit });
        }
        match answers.next().await? {
            Reply::Done => Ok(writer.finish()),
            Reply::NoSuchPath => Err(SandboxError::NoSuchPath(path.to_owned())),
            other => Err(unexpected(&what(), other)),
        }
    }

    async fn kill_all(&self) -> Result<(), SandboxError> {
        let body = wire::body(&()).map_err(io_error("preparing a request"))?;
        let _hurry = self.unthrottled();
        let mut answers = self.request(Operation::KillAll, &body, &[])?;
        match tokio::time::timeout(KILL_PATIENCE, answers.next()).await {
            Ok(reply) => match reply? {
                Reply::Done => Ok(()),
                other => Err(unexpected("killing the sandbox's processes", other)),
            },
            Err(_) => Err(SandboxError::Lost(format!(
                "its processes did not end within {} s of being killed",
                KILL_PATIENCE.as_secs()
            ))),
        }
    }

    async fn usage(&self) -> Result<Usage, SandboxError> {
        Ok(self.parts()?.group.usage())
    }

    async fn destroy(mut self: Box<Self>) -> Result<(), SandboxError> {
        let Some(parts) = self.parts.take() else { return Ok(()) };
        tracing::debug!(sandbox = self.spec.name, "is removed");
        tokio::task::spawn_blocking(move || parts.remove())
            .await
            .map_err(|error| SandboxError::Lost(format!("its removal was interrupted: {error}")))?
            .map_err(io_error(format!("removing sandbox {}", self.spec.name)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(parts) = self.parts.take() else { return };
        removal::beside(move || {
            if let Err(error) = parts.remove() {
                tracing::warn!(%error, "a dropped sandbox could not be removed");
            }
        });
    }
}

/// The answers to one request. Dropping them tells the init that nobody waits any more.
pub(crate) struct Answers {
    socket: BufReader<UnixStream>,
    /// What has arrived of the next answer.
    line: Vec<u8>,
}

impl Answers {
    /// The next answer. Dropping the call and calling again loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Reply, SandboxError> {
        let lost = |reason: String| SandboxError::Lost(reason);
        self.socket.read_until(b'\n', &mut self.line).await.map_err(|error| lost(error.to_string()))?;
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return Err(lost("its init ended".into()));
        }
        serde_json::from_slice(&line)
            .map_err(|error| lost(format!("its init gave an answer that is none: {error}")))
    }

    /// Asks the init to end what the request started.
    pub(crate) async fn stop(&mut self) -> Result<(), SandboxError> {
        self.socket.get_mut().write_all(b"k").await.map_err(|error| SandboxError::Lost(error.to_string()))
    }
}

/// A pipe, reading end first.
pub(crate) fn pipe_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

pub(crate) fn io_error(doing: impl Into<String>) -> impl FnOnce(io::Error) -> SandboxError {
    let doing = doing.into();
    move |source| SandboxError::Io { doing, source }
}

fn unexpected(doing: &str, reply: Reply) -> SandboxError {
    let reason = match reply {
        Reply::Failed(reason) => reason,
        Reply::Signal(signal) => format!("signal {signal} ended the helper"),
        other => format!("unexpected answer {other:?}"),
    };
    SandboxError::Io { doing: doing.to_owned(), source: io::Error::other(reason) }
}
