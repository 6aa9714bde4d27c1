//! Runs one command and ends its whole process tree when asked to.
//!
//! The helper is a subreaper: whatever the command starts, however often it forks and whatever session it moves to,
//! stays the helper's descendant. At the deadline, or when nobody waits any more, the helper kills all descendants.
//! When the command ends by itself, the helper reports that and goes, and what the command left running belongs to
//! process 1 from then on.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::account;
use crate::capture::Collector;
use crate::process::{candidates, descendants};
use crate::sys::{self, Change, Wait};
use crate::wire::{Command, Outcome, Status, Wire};

/// How long descendants are hunted one by one; the engine then has process 1 kill everything at once.
const HUNT: Duration = Duration::from_secs(2);

/// More descendants than these are not hunted one by one.
const CROWD: usize = 200;

/// How long output is still read after the command ended while something it left behind holds the streams open.
const GRACE: Duration = Duration::from_millis(100);

/// Bytes read at a time, the size of a pipe.
const CHUNK: usize = 64 << 10;

/// Makes the kernel pick commands, not process 1, when memory runs out.
const OOM_SCORE: &str = "500";

/// The life of a command's helper.
pub(crate) fn supervise(socket: &UnixStream, nice: i32) -> io::Result<()> {
    let command = Command::get(&mut io::BufReader::with_capacity(CHUNK, socket))?;
    let deadline = command.timeout_ms.map(|millis| Instant::now() + Duration::from_millis(millis));
    sys::become_subreaper()?;
    let children = sys::child_signals()?;
    let stdin = input(&command.stdin)?;
    let (out, stdout) = sys::pipe()?;
    let (err, stderr) = sys::pipe()?;
    let (mut refusal, refused) = sys::pipe()?;
    let Some(pid) = sys::split()? else {
        let streams = [&stdin, &stdout, if command.merge { &stdout } else { &stderr }];
        let reason = become_command(&command, streams, nice);
        let _ = (&refused).write_all(reason.as_bytes());
        std::process::exit(127)
    };
    drop((stdin, stdout, stderr, refused));
    let mut reason = String::new();
    refusal.read_to_string(&mut reason)?;
    if !reason.is_empty() {
        let outcome =
            Outcome { status: Status::Spawn(reason), stdout: (0, Vec::new()), stderr: (0, Vec::new()) };
        return reply(socket, &outcome);
    }
    let keep = usize::try_from(command.keep).unwrap_or(usize::MAX);
    let mut streams = [Stream::new(out, keep), Stream::new(err, keep)];
    let mut run = Run { pid, children, status: None };
    let status = run.follow(socket, deadline, &mut streams)?;
    let mut held = Vec::new();
    let [stdout, stderr] = streams.map(|stream| {
        let output = stream.collector.finish();
        held.extend(stream.pipe);
        (output.total, output.bytes)
    });
    reply(socket, &Outcome { status, stdout, stderr })?;
    throw_away(held)
}

fn reply(mut socket: &UnixStream, outcome: &Outcome) -> io::Result<()> {
    let mut bytes = Vec::new();
    outcome.put(&mut bytes)?;
    socket.write_all(&bytes)
}

/// Reads on what still holds the streams open may write, so that it neither blocks nor breaks, in a process that
/// belongs to no command.
fn throw_away(mut pipes: Vec<File>) -> io::Result<()> {
    if pipes.is_empty() || sys::split()?.is_some() {
        return Ok(());
    }
    let fds: Vec<i32> = pipes.iter().map(AsRawFd::as_raw_fd).collect();
    sys::keep_pipes(&fds)?;
    let mut buffer = vec![0; CHUNK];
    while !pipes.is_empty() {
        let fds: Vec<i32> = pipes.iter().map(AsRawFd::as_raw_fd).collect();
        let ready = sys::readable(&fds, None)?;
        let mut at = 0;
        pipes.retain_mut(|pipe| {
            let open = !ready[at] || !matches!(pipe.read(&mut buffer), Ok(0));
            at += 1;
            open
        });
    }
    std::process::exit(0)
}

/// Standard input as a file at its start; nothing else can reach it.
fn input(bytes: &[u8]) -> io::Result<File> {
    if bytes.is_empty() {
        // Put here by process 1, whatever lies at that path by now.
        return sys::duplicate(0);
    }
    let mut file = sys::memory_file(c"seatrial-stdin")?;
    file.write_all(bytes)?;
    file.rewind()?;
    sys::seal(&file)?;
    Ok(file)
}

/// One output stream of a command.
struct Stream {
    pipe: Option<File>,
    collector: Collector,
}

impl Stream {
    fn new(pipe: File, keep: usize) -> Self {
        Self { pipe: Some(pipe), collector: Collector::new(keep) }
    }

    /// Reads once what is there.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        match pipe.read(buffer) {
            Ok(0) => self.pipe = None,
            Ok(count) => self.collector.push(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// A running command.
struct Run {
    pid: i32,
    children: File,
    status: Option<Status>,
}

impl Run {
    /// Reads the streams until the command has ended, and tells how.
    fn follow(
        &mut self,
        socket: &UnixStream,
        deadline: Option<Instant>,
        streams: &mut [Stream; 2],
    ) -> io::Result<Status> {
        let mut buffer = vec![0; CHUNK];
        // Set when the command has ended.
        let mut end: Option<(Status, Instant)> = None;
        loop {
            if let Some((status, grace)) = &end {
                let open = streams.iter().any(|stream| stream.pipe.is_some());
                if !open || Instant::now() >= *grace {
                    return Ok(status.clone());
                }
            }
            let mut fds = vec![self.children.as_raw_fd()];
            // A negative number is not looked at.
            fds.push(if end.is_none() { socket.as_raw_fd() } else { -1 });
            fds.extend(streams.iter().map(|stream| stream.pipe.as_ref().map_or(-1, AsRawFd::as_raw_fd)));
            let wake = end.as_ref().map(|(_, grace)| *grace).or(deadline);
            let patience = wake.map(|wake| wake.saturating_duration_since(Instant::now()));
            let ready = sys::readable(&fds, patience)?;
            for (stream, _) in streams.iter_mut().zip(&ready[2..]).filter(|(_, ready)| **ready) {
                stream.read(&mut buffer)?;
            }
            if ready[0] {
                while (&self.children).read(&mut buffer).is_ok() {}
                self.reap()?;
            }
            if end.is_some() {
                continue;
            }
            let over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            let status = match self.status.take() {
                Some(status) => status,
                // Nobody writes to the socket any more; that it can be read means that it was closed.
                None if over || ready[1] => self.hunt()?,
                None => continue,
            };
            end = Some((status, Instant::now() + GRACE));
        }
    }

    /// Collects ended children; returns whether any are left.
    fn reap(&mut self) -> io::Result<bool> {
        loop {
            let (pid, change) = match sys::wait(Wait::Poll) {
                Ok(Some(change)) => change,
                Ok(None) => return Ok(true),
                Err(error) if sys::no_child(&error) => return Ok(false),
                Err(error) => return Err(error),
            };
            match change {
                Change::Exited(code) if pid == self.pid => self.status = Some(Status::Code(code)),
                Change::Signaled(signal) if pid == self.pid => self.status = Some(Status::Signal(signal)),
                _ => {}
            }
        }
    }

    /// Kills all descendants until none is left. Killed parents cannot fork, and their children become ours.
    fn hunt(&mut self) -> io::Result<Status> {
        let end = Instant::now() + HUNT;
        while self.reap()? {
            if Instant::now() >= end {
                return Err(io::Error::other("the command outran its end"));
            }
            let found = descendants(std::process::id().cast_signed());
            if found.len() > CROWD {
                return Err(io::Error::other("the command became a crowd"));
            }
            for pid in found {
                // Gone already is as good.
                let _ = sys::kill(pid, sys::SIGKILL);
            }
            std::thread::sleep(Duration::from_micros(300));
        }
        Ok(Status::Timeout)
    }
}

/// Turns the current process into the command; returns the reason when that is not possible.
fn become_command(command: &Command, streams: [&File; 3], nice: i32) -> String {
    match try_become(command, streams, nice) {
        Ok(never) => match never {},
        Err(reason) => reason,
    }
}

enum Never {}

fn try_become(command: &Command, streams: [&File; 3], nice: i32) -> Result<Never, String> {
    let fail = |doing: &'static str| move |error: io::Error| format!("{doing}: {error}");
    sys::new_session().map_err(fail("starting a session"))?;
    // Not possible everywhere; then all processes are equal when memory runs out.
    let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    sys::calm_down(nice).map_err(fail("taking its turn"))?;
    let identity = account::look_up(&command.user).map_err(|error| error.to_string())?;
    sys::limit_files(command.largest_file).map_err(fail("limiting the size of files"))?;
    sys::assume(identity.uid, identity.gid, &identity.groups).map_err(fail("dropping privileges"))?;
    std::env::set_current_dir(&command.workdir).map_err(|error| {
        let reason = match error.kind() {
            ErrorKind::NotFound => "it does not exist".to_owned(),
            _ => error.to_string(),
        };
        format!("cannot enter the working directory {}: {reason}", command.workdir)
    })?;
    for (fd, stream) in (0..).zip(streams) {
        sys::dup2(stream, fd).map_err(|error| error.to_string())?;
    }
    sys::default_signals().map_err(fail("resetting signals"))?;
    execute(command, &identity.home)
}

fn execute(command: &Command, home: &str) -> Result<Never, String> {
    let c =
        |text: &str| CString::new(text).map_err(|_| format!("`{}` holds a zero byte", text.escape_debug()));
    let arguments = command.argv.0.iter().map(|argument| c(argument)).collect::<Result<Vec<_>, _>>()?;
    let mut environment = Vec::new();
    let (mut path, mut has_home) = ("", false);
    for pair in command.env.0.chunks_exact(2) {
        let (name, value) = (&pair[0], &pair[1]);
        environment.push(c(&format!("{name}={value}"))?);
        has_home |= name == "HOME";
        if name == "PATH" {
            path = value;
        }
    }
    if !has_home {
        environment.push(c(&format!("HOME={home}"))?);
    }
    let program = command.argv.0.first().map(String::as_str).filter(|program| !program.is_empty());
    let program = program.ok_or("no program was named")?;
    let mut reason = "no such file".to_owned();
    for candidate in candidates(program, path) {
        let candidate = CString::new(candidate).map_err(|error| error.to_string())?;
        let error = sys::execute(&candidate, &arguments, &environment);
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => {
                if program.contains('/') && Path::new(program).exists() {
                    "its interpreter does not exist".clone_into(&mut reason);
                }
            }
            kind => {
                reason = error.to_string().to_lowercase();
                // Permission denied in one directory does not end the search, as in every shell.
                if kind != ErrorKind::PermissionDenied {
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
