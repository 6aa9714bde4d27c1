//! The life of process 1: take requests, reap what ends, end with the engine.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::vec::IntoIter;

use nix::sys::signal::{SigSet, Signal as NixSignal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, WaitOptions, WaitStatus};

use crate::native::init::privileges::Policy;
use crate::native::init::{command, privileges, transfer};
use crate::native::sys::{self, Forked};
use crate::native::wire::{self, Operation, Reply, Request};

/// Serves requests until the engine closes its end; ending process 1 ends everything in the sandbox.
pub(super) fn serve(control: BorrowedFd<'_>, policy: &Policy) -> ! {
    let code = match Init::new(control, policy).and_then(Init::run) {
        Ok(()) => 0,
        Err(_) => 1,
    };
    std::process::exit(code)
}

/// Every process of the namespace but the caller's own, to `kill`.
const EVERYTHING: nix::unistd::Pid = nix::unistd::Pid::from_raw(-1);

struct Init<'a> {
    control: BorrowedFd<'a>,
    children: SignalFd,
    policy: &'a Policy,
    /// Helpers at work, with the answer socket of their request.
    helpers: BTreeMap<i32, OwnedFd>,
}

impl<'a> Init<'a> {
    fn new(control: BorrowedFd<'a>, policy: &'a Policy) -> io::Result<Self> {
        Ok(Self { control, children: child_signals()?, policy, helpers: BTreeMap::new() })
    }

    fn run(mut self) -> io::Result<()> {
        loop {
            let mut ready =
                [PollFd::new(&self.control, PollFlags::IN), PollFd::new(&self.children, PollFlags::IN)];
            rustix::io::retry_on_intr(|| rustix::event::poll(&mut ready, None))?;
            let (request, child) = (!ready[0].revents().is_empty(), !ready[1].revents().is_empty());
            if child {
                while self.children.read_signal().map_err(io::Error::from)?.is_some() {}
                self.reap(WaitOptions::NOHANG | WaitOptions::UNTRACED)?;
            }
            if request {
                let Some(request) = wire::receive_request(self.control)? else { return Ok(()) };
                self.take(request)?;
            }
        }
    }

    fn take(&mut self, request: Request) -> io::Result<()> {
        let mut fds = request.fds.into_iter();
        let (Some(body), Some(answers)) = (fds.next(), fds.next()) else {
            return Err(io::Error::other("a request lacks its descriptors"));
        };
        if request.operation == Operation::KillAll {
            let outcome = self.kill_all();
            let reply = outcome.map_or_else(|error| Reply::Failed(error.to_string()), |()| Reply::Done);
            // The engine may have stopped waiting; the work is done either way.
            let _ = wire::send_reply(&answers, &reply);
            return Ok(());
        }
        match sys::fork(0) {
            Ok(Forked::Parent(helper)) => {
                self.helpers.insert(helper.as_raw_nonzero().get(), answers);
            }
            Ok(Forked::Child) => self.help(request.operation, body, &answers, fds),
            Err(error) => {
                let reason = format!("cannot start another process: {error}");
                let _ = wire::send_reply(&answers, &Reply::Failed(reason));
            }
        }
        Ok(())
    }

    /// The life of a helper: one request, then the end.
    fn help(
        &self,
        operation: Operation,
        body: OwnedFd,
        answers: &OwnedFd,
        mut streams: IntoIter<OwnedFd>,
    ) -> ! {
        let outcome = match operation {
            Operation::Exec => command::supervise(body, answers, streams, self.policy),
            Operation::Upload => self.transfer(body, streams.next(), transfer::unpack),
            Operation::Download => self.transfer(body, streams.next(), transfer::pack),
            Operation::Setup | Operation::KillAll => Err(io::Error::other("unexpected request")),
        };
        let reply = outcome.unwrap_or_else(|error| Reply::Failed(error.to_string()));
        let sent = wire::send_reply(answers, &reply);
        std::process::exit(i32::from(sent.is_err()))
    }

    fn transfer(
        &self,
        body: OwnedFd,
        stream: Option<OwnedFd>,
        work: fn(OwnedFd, OwnedFd) -> io::Result<Reply>,
    ) -> io::Result<Reply> {
        privileges::calm_down(self.policy)?;
        work(body, stream.ok_or_else(|| io::Error::other("no data stream"))?)
    }

    /// Collects ended processes. A helper that was killed by something inside is answered for.
    fn reap(&mut self, options: WaitOptions) -> io::Result<()> {
        loop {
            match rustix::io::retry_on_intr(|| rustix::process::wait(options)) {
                Ok(Some((pid, status))) => self.ended(pid, status),
                Ok(None) | Err(rustix::io::Errno::CHILD) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn ended(&mut self, pid: Pid, status: WaitStatus) {
        let pid = pid.as_raw_nonzero().get();
        if status.stopped() {
            if self.helpers.contains_key(&pid) {
                Self::mutiny();
            }
            return;
        }
        let Some(answers) = self.helpers.remove(&pid) else { return };
        if let Some(signal) = status.terminating_signal() {
            Self::mutiny();
            // The engine may be the one that had it killed, and gone by now.
            let _ = wire::send_reply(&answers, &Reply::Signal(signal));
        }
    }

    /// Ends everything, because something inside killed or stopped a helper to set its command free. Nothing is set
    /// free.
    fn mutiny() {
        // With nobody left to signal there is nothing to do.
        let _ = nix::sys::signal::kill(EVERYTHING, NixSignal::SIGKILL);
    }

    /// Kills every process but this one and waits until none is left. The kernel signals all processes of the
    /// namespace while none can be created, so nothing outruns it.
    fn kill_all(&mut self) -> io::Result<()> {
        match nix::sys::signal::kill(EVERYTHING, NixSignal::SIGKILL) {
            Ok(()) | Err(nix::errno::Errno::ESRCH) => {}
            Err(error) => return Err(error.into()),
        }
        self.reap(WaitOptions::empty())
    }
}

/// Blocks `SIGCHLD` and returns the descriptor that reports it.
pub(super) fn child_signals() -> io::Result<SignalFd> {
    let mut mask = SigSet::empty();
    mask.add(NixSignal::SIGCHLD);
    mask.thread_block().map_err(io::Error::from)?;
    SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK).map_err(io::Error::from)
}
