//! Runs one command and ends its whole process tree when asked to.
//!
//! Two processes serve a command. The supervisor, forked from process 1, is a subreaper: whatever the command
//! starts, however often it forks and whatever session it moves to, stays the supervisor's descendant. The command
//! itself is its child. When the engine closes the answer socket or writes to it (a deadline, or nobody waits any
//! more), the supervisor kills all its descendants. When the command ends by itself, the supervisor reports that
//! and goes, and what the command left running belongs to process 1 from then on.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};
use std::vec::IntoIter;

use nix::sys::signalfd::SignalFd;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::Mode;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use crate::native::init::privileges::Policy;
use crate::native::init::{privileges, serve};
use crate::native::sys::{self, Forked};
use crate::native::wire::{self, CommandRequest, Reply};
use crate::shared::account;
use crate::shared::process::{candidates, descendants};

/// How long the supervisor hunts descendants one by one before it gives up; the engine then has process 1 kill
/// everything at once, which nothing can outrun.
const HUNT: Duration = Duration::from_secs(2);

/// More descendants than these are not hunted one by one.
const CROWD: usize = 200;

/// Makes the kernel pick commands, not the init, when memory runs out.
const OOM_SCORE: &str = "500";

/// The life of a supervisor: starts the command, waits, answers.
pub(super) fn supervise(
    body: OwnedFd,
    answers: &OwnedFd,
    mut streams: IntoIter<OwnedFd>,
    policy: &Policy,
) -> io::Result<Reply> {
    let (Some(stdin), Some(stdout), Some(stderr)) = (streams.next(), streams.next(), streams.next()) else {
        return Err(io::Error::other("a command needs three streams"));
    };
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let children = serve::child_signals()?;
    let command = match sys::fork(0)? {
        Forked::Parent(command) => command,
        Forked::Child => {
            let reason = match become_command(body, [stdin, stdout, stderr], policy) {
                Ok(never) => match never {},
                Err(reason) => reason,
            };
            let _ = wire::send_reply(answers, &Reply::Spawn(reason));
            std::process::exit(127)
        }
    };
    drop((body, stdin, stdout, stderr));
    wait_for(command, answers, &children)
}

fn wait_for(command: Pid, answers: &OwnedFd, children: &SignalFd) -> io::Result<Reply> {
    let mut outcome = None;
    loop {
        let mut ready = [PollFd::new(answers, PollFlags::IN), PollFd::new(children, PollFlags::IN)];
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut ready, None))?;
        let (stop, child) = (!ready[0].revents().is_empty(), !ready[1].revents().is_empty());
        if child {
            while children.read_signal().map_err(io::Error::from)?.is_some() {}
            reap(command, &mut outcome)?;
            if let Some(reply) = outcome {
                return Ok(reply);
            }
        }
        if stop {
            hunt(command, &mut outcome)?;
            return outcome.ok_or_else(|| io::Error::other("the command outran its end"));
        }
    }
}

/// Collects ended children; returns whether any are left.
fn reap(command: Pid, outcome: &mut Option<Reply>) -> io::Result<bool> {
    loop {
        match rustix::io::retry_on_intr(|| rustix::process::wait(WaitOptions::NOHANG)) {
            Ok(Some((pid, status))) if pid == command => *outcome = Some(reply_for(status)),
            Ok(Some(_)) => {}
            Ok(None) => return Ok(true),
            Err(rustix::io::Errno::CHILD) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

fn reply_for(status: WaitStatus) -> Reply {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Reply::Code(code),
        (None, Some(signal)) => Reply::Signal(signal),
        (None, None) => Reply::Failed(format!("unexpected wait status {status:?}")),
    }
}

/// Kills all descendants until none is left or they are too many. Killed parents cannot fork, and their children become ours.
fn hunt(command: Pid, outcome: &mut Option<Reply>) -> io::Result<()> {
    let end = Instant::now() + HUNT;
    while reap(command, outcome)? && Instant::now() < end {
        let found = descendants(rustix::process::getpid().as_raw_nonzero().get());
        if found.len() > CROWD {
            return Err(io::Error::other("the command became a crowd"));
        }
        for pid in found {
            // Gone already is as good.
            let _ = Pid::from_raw(pid).map(|pid| rustix::process::kill_process(pid, Signal::KILL));
        }
        std::thread::sleep(Duration::from_micros(300));
    }
    Ok(())
}

/// What never returns.
enum Never {}

/// Turns the current process into the command, or says why that is not possible.
fn become_command(body: OwnedFd, streams: [OwnedFd; 3], policy: &Policy) -> Result<Never, String> {
    let fail = |doing: &'static str| move |error: io::Error| format!("{doing}: {error}");
    let request: CommandRequest = wire::read_body(body).map_err(fail("reading the request"))?;
    let [stdin, stdout, stderr] = streams;
    rustix::process::setsid().map_err(|error| format!("starting a session: {error}"))?;
    sys::default_signals().map_err(fail("resetting signals"))?;
    // Not possible everywhere; then all processes are equal when memory runs out.
    let _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    let identity = account::look_up(&request.user).map_err(|error| error.to_string())?;
    privileges::drop_to(&identity, policy).map_err(fail("dropping privileges"))?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    rustix::process::chdir(&request.workdir).map_err(|error| {
        let reason = match error {
            rustix::io::Errno::NOENT => "it does not exist".to_owned(),
            other => other.to_string(),
        };
        format!("cannot enter the working directory {}: {reason}", request.workdir)
    })?;
    nix::unistd::dup2_stdin(&stdin).map_err(|error| error.to_string())?;
    nix::unistd::dup2_stdout(&stdout).map_err(|error| error.to_string())?;
    nix::unistd::dup2_stderr(&stderr).map_err(|error| error.to_string())?;
    execute(&request, &identity.home)
}

fn execute(request: &CommandRequest, home: &str) -> Result<Never, String> {
    let c =
        |text: &str| CString::new(text).map_err(|_| format!("`{}` holds a zero byte", text.escape_debug()));
    let arguments = request.argv.iter().map(|argument| c(argument)).collect::<Result<Vec<_>, _>>()?;
    let mut environment = request
        .env
        .iter()
        .map(|(name, value)| c(&format!("{name}={value}")))
        .collect::<Result<Vec<_>, _>>()?;
    if !request.env.contains_key("HOME") {
        environment.push(c(&format!("HOME={home}"))?);
    }
    let program = request.argv.first().map(String::as_str).filter(|program| !program.is_empty());
    let program = program.ok_or("no program was named")?;
    let path = request.env.get("PATH").map_or("", String::as_str);
    let mut reason = "no such file".to_owned();
    for candidate in candidates(program, path) {
        let candidate = CString::new(candidate).map_err(|error| error.to_string())?;
        match nix::unistd::execve(&candidate, &arguments, &environment) {
            Ok(never) => match never {},
            Err(nix::errno::Errno::ENOENT | nix::errno::Errno::ENOTDIR) => {
                if program.contains('/') && Path::new(program).exists() {
                    "its interpreter does not exist".clone_into(&mut reason);
                }
            }
            Err(error) => {
                error.desc().to_lowercase().clone_into(&mut reason);
                // Permission denied in one directory does not end the search, as in every shell.
                if error != nix::errno::Errno::EACCES {
                    break;
                }
            }
        }
    }
    if reason == "no such file" && !program.contains('/') {
        reason = format!("not found on PATH ({path})");
    }
    Err(reason)
}
