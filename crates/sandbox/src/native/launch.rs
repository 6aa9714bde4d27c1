//! Starts the init of a sandbox and waits until it says that all is in place.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};

use crate::native::cgroup::Group;
use crate::native::wire::{self, Operation, Setup, StartReply};

/// The first argument that makes the embedding program become an init.
pub const INIT_ARGUMENT: &str = "sandbox-init";

/// How long a sandbox may take to come up on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The scheduling priority of an init, the highest there is.
const INIT_NICE: i32 = -20;

/// A running init.
#[derive(Debug)]
pub(crate) struct Process {
    /// The engine's end of the control socket.
    pub(crate) control: OwnedFd,
    /// Listeners inside the sandbox, in the order of [`Setup::doors`].
    pub(crate) doors: Vec<OwnedFd>,
    /// Refers to process 1 of the sandbox.
    pidfd: OwnedFd,
    reaped: bool,
}

impl Process {
    /// Starts `program` as the init of a sandbox inside `group`.
    pub(crate) fn start(program: &Path, setup: &Setup, group: &Group) -> io::Result<Self> {
        let (control, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let mut first = Command::new(program)
            .arg0("seatrial")
            .arg(INIT_ARGUMENT)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| {
                io::Error::new(error.kind(), format!("starting {}: {error}", program.display()))
            })?;
        let started = Self::follow(control, &first, setup, group);
        finish(&mut first, started.is_err());
        started
    }

    fn follow(control: OwnedFd, first: &Child, setup: &Setup, group: &Group) -> io::Result<Self> {
        let pid = i32::try_from(first.id()).map_err(io::Error::other)?;
        group.add(pid)?;
        let body = wire::body(setup)?;
        wire::send_request(&control, Operation::Setup, &[body.as_fd()])?;
        let deadline = Instant::now() + PATIENCE;
        let mut process: Option<Self> = None;
        let mut control = Some(control);
        loop {
            let socket = process.as_ref().map(|process| &process.control).or(control.as_ref());
            let socket = socket.expect("the socket is either still here or in the process");
            match next_message(socket, deadline)? {
                Some((StartReply::Init(pid), _)) => {
                    let pid =
                        Pid::from_raw(pid).ok_or_else(|| io::Error::other("the init has no process id"))?;
                    // So that it can end what commands start, however much that is. Only root may; without, it takes its turn.
                    let _ = rustix::process::setpriority_process(Some(pid), INIT_NICE);
                    let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
                    process = control.take().map(|control| Self {
                        control,
                        doors: Vec::new(),
                        pidfd,
                        reaped: false,
                    });
                }
                Some((StartReply::Ready, doors)) => {
                    let missing = || io::Error::other("the init was ready before it was there");
                    let mut process = process.ok_or_else(missing)?;
                    process.doors = doors;
                    return Ok(process);
                }
                Some((StartReply::Failed(reason), _)) => return Err(io::Error::other(reason)),
                None => return Err(io::Error::other("the init ended while it set the sandbox up")),
            }
        }
    }

    /// Kills the init, and with it every process of the sandbox, and waits for the end of all of them.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        if self.reaped {
            return Ok(());
        }
        match rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
        // The kernel lets the init go only after every other process of its namespace.
        rustix::io::retry_on_intr(|| {
            rustix::process::waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED)
        })?;
        self.reaped = true;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(%error, "the init of a sandbox could not be ended");
        }
    }
}

fn next_message(socket: &OwnedFd, deadline: Instant) -> io::Result<Option<(StartReply, Vec<OwnedFd>)>> {
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
    let mut ready = [PollFd::new(socket, PollFlags::IN)];
    if rustix::io::retry_on_intr(|| rustix::event::poll(&mut ready, Some(&timeout)))? == 0 {
        return Err(io::Error::other(format!("it did not come up within {} s", PATIENCE.as_secs())));
    }
    wire::receive_start(socket)
}

/// Waits for the first process, which ends on its own once the init runs.
fn finish(first: &mut Child, failed: bool) {
    if failed {
        // It may have ended already.
        let _ = first.kill();
    }
    if let Err(error) = first.wait() {
        tracing::warn!(%error, "the first process of a sandbox could not be waited for");
    }
}
