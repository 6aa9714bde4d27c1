//! The life of process 1: take requests, pass bytes on, reap what ends, end with the engine.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::sys::{self, Change, Wait};
use crate::wire::{HEADER, Header, Kind, MAX_PAYLOAD, Operation, Status, Wire};
use crate::{command, counters, door, pack, surroundings, unpack};

/// How long a helper may leave a request unread before it counts as broken.
const PATIENCE: Duration = Duration::from_secs(20);

/// Serves requests until the engine closes its end; ending process 1 ends everything in the container.
pub(crate) fn run() -> io::Result<()> {
    // The program's file is the container's to change, so it goes; the running program stays.
    let _ = std::fs::remove_file(std::env::args_os().next().unwrap_or_default());
    sys::umask(0o022);
    // Taken before anything else runs here that could put another file in its place.
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let children = sys::child_signals()?;
    let mut guest = Guest {
        null,
        children,
        nice: sys::hurry(),
        helpers: BTreeMap::new(),
        doors: BTreeMap::new(),
        input: Vec::new(),
    };
    send(0, Kind::Ready, std::env::consts::ARCH.as_bytes())?;
    guest.serve()
}

/// Who works on a request.
struct Helper {
    pid: i32,
    /// None after its end was read, or when nobody waits any more.
    socket: Option<UnixStream>,
    ended: bool,
    cancelled: bool,
}

struct Guest {
    null: File,
    children: File,
    /// The scheduling priority of all but what ends others.
    nice: i32,
    helpers: BTreeMap<u32, Helper>,
    /// What listens, by port.
    doors: BTreeMap<u16, TcpListener>,
    /// What has arrived of frames that are not complete.
    input: Vec<u8>,
}

impl Guest {
    fn serve(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; MAX_PAYLOAD];
        loop {
            let mut fds = vec![0, self.children.as_raw_fd()];
            let mut streams = Vec::new();
            for (stream, helper) in &self.helpers {
                if let Some(socket) = &helper.socket {
                    streams.push(*stream);
                    fds.push(socket.as_raw_fd());
                }
            }
            let ready = sys::readable(&fds, None)?;
            if ready[1] {
                // Only that it came matters; it is read until nothing is left.
                while self.children.read(&mut buffer).is_ok() {}
                self.reap(Wait::Poll)?;
            }
            for (stream, _) in streams.iter().zip(&ready[2..]).filter(|(_, ready)| **ready) {
                self.pass_on(*stream, &mut buffer)?;
            }
            if ready[0] {
                match io::stdin().read(&mut buffer) {
                    Ok(0) => return Ok(()),
                    Ok(count) => self.take(&buffer[..count])?,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            self.finish()?;
        }
    }

    /// Passes bytes of a reply on.
    fn pass_on(&mut self, stream: u32, buffer: &mut [u8]) -> io::Result<()> {
        let Some(helper) = self.helpers.get_mut(&stream) else { return Ok(()) };
        let Some(socket) = &mut helper.socket else { return Ok(()) };
        match socket.read(buffer) {
            Ok(0) => helper.socket = None,
            Ok(count) => send(stream, Kind::Data, &buffer[..count])?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // It was killed with something of the request unread.
            Err(_) => helper.socket = None,
        }
        Ok(())
    }

    /// Takes bytes from the engine and does what the complete frames among them say.
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.input.extend_from_slice(bytes);
        let input = std::mem::take(&mut self.input);
        let mut rest = input.as_slice();
        while let Some((front, behind)) = rest.split_first_chunk::<HEADER>() {
            let header = Header::parse(*front)?;
            let Some((payload, behind)) = behind.split_at_checked(header.len) else { break };
            self.frame(header, payload)?;
            rest = behind;
        }
        self.input = rest.to_vec();
        Ok(())
    }

    fn frame(&mut self, header: Header, payload: &[u8]) -> io::Result<()> {
        match header.kind {
            Kind::Open => {
                let operation = payload.first().and_then(|code| Operation::from_code(*code));
                let operation = operation.ok_or_else(|| io::Error::other("unknown operation"))?;
                let port = payload.get(1..3).map_or(0, |port| u16::from_le_bytes([port[0], port[1]]));
                match operation {
                    Operation::KillAll => self.answer(header.stream, Self::kill_all),
                    Operation::Listen => self.answer(header.stream, |guest| guest.listen(port)),
                    _ => self.open(header.stream, operation, port),
                }
            }
            Kind::Data => {
                let socket = self.helpers.get_mut(&header.stream).and_then(|helper| helper.socket.as_mut());
                if let Some(socket) = socket
                    && let Err(error) = socket.write_all(payload)
                    && error.kind() == ErrorKind::WouldBlock
                {
                    // It was stopped by something inside. One that is gone has answered, or is reaped soon.
                    mutiny();
                }
                Ok(())
            }
            Kind::Cancel => {
                if let Some(helper) = self.helpers.get_mut(&header.stream) {
                    (helper.socket, helper.cancelled) = (None, true);
                }
                Ok(())
            }
            Kind::Ready | Kind::End => Err(io::Error::other("unexpected frame")),
        }
    }

    /// Does something without a helper.
    fn answer(&mut self, stream: u32, work: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<()> {
        let status = work(self).map_or_else(|error| Status::Failed(error.to_string()), |()| Status::Done);
        let mut reply = Vec::new();
        status.put(&mut reply)?;
        send(stream, Kind::Data, &reply)?;
        send(stream, Kind::End, &[])
    }

    fn listen(&mut self, port: u16) -> io::Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        // Several helpers wait for its clients.
        listener.set_nonblocking(true)?;
        self.doors.insert(port, listener);
        Ok(())
    }

    fn open(&mut self, stream: u32, operation: Operation, port: u16) -> io::Result<()> {
        let (ours, theirs) = UnixStream::pair()?;
        sys::bound_sending(&ours, PATIENCE)?;
        match sys::split() {
            Ok(Some(pid)) => {
                let helper = Helper { pid, socket: Some(ours), ended: false, cancelled: false };
                self.helpers.insert(stream, helper);
                Ok(())
            }
            Ok(None) => self.help(operation, theirs, port),
            Err(error) => self.answer(stream, |_| {
                Err(io::Error::new(error.kind(), format!("cannot start another process: {error}")))
            }),
        }
    }

    /// The life of a helper: one request, then the end.
    fn help(&self, operation: Operation, socket: UnixStream, port: u16) -> ! {
        let done = self.prepare(socket, port).and_then(|(socket, listener)| {
            let outcome = match (operation, listener) {
                (Operation::Exec, _) => command::supervise(&socket, self.nice),
                (Operation::Unpack, _) => sys::calm_down(self.nice).and_then(|()| unpack::run(&socket)),
                (Operation::Pack, _) => sys::calm_down(self.nice).and_then(|()| pack::run(&socket)),
                (Operation::Usage, _) => counters::read().put(&mut &socket),
                (Operation::Setting, _) => surroundings::setting().put(&mut &socket),
                (Operation::Reach, _) => surroundings::reach(&socket),
                (Operation::Accept, Some(listener)) => door::run(&socket, &listener),
                (Operation::Accept, None) => Err(io::Error::other("nothing listens on that port")),
                (Operation::KillAll | Operation::Listen, _) => Ok(()),
            };
            outcome.or_else(|error| Status::Failed(error.to_string()).put(&mut &socket))
        });
        std::process::exit(i32::from(done.is_err()))
    }

    /// Lets go of what belongs to process 1: its streams and the sockets of other helpers.
    fn prepare(&self, socket: UnixStream, port: u16) -> io::Result<(UnixStream, Option<TcpListener>)> {
        for fd in 0..=2 {
            sys::dup2(&self.null, fd)?;
        }
        sys::keep_only(socket, self.doors.get(&port))
    }

    /// Collects what has ended.
    fn reap(&mut self, wait: Wait) -> io::Result<()> {
        loop {
            match sys::wait(wait) {
                Ok(Some((pid, change))) => self.changed(pid, change),
                Ok(None) => return Ok(()),
                Err(error) if sys::no_child(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn changed(&mut self, pid: i32, change: Change) {
        let Some(helper) = self.helpers.values_mut().find(|helper| helper.pid == pid && !helper.ended) else {
            return;
        };
        match change {
            Change::Exited(_) => helper.ended = true,
            Change::Signaled(_) => {
                helper.ended = true;
                mutiny();
            }
            Change::Stopped => mutiny(),
        }
    }

    /// Says the end of replies whose helpers are gone.
    fn finish(&mut self) -> io::Result<()> {
        let gone: Vec<u32> = self
            .helpers
            .iter()
            .filter(|(_, helper)| helper.ended && helper.socket.is_none())
            .map(|(stream, _)| *stream)
            .collect();
        for stream in gone {
            let helper = self.helpers.remove(&stream);
            if helper.is_some_and(|helper| !helper.cancelled) {
                send(stream, Kind::End, &[])?;
            }
        }
        Ok(())
    }

    /// Kills every process but this one and waits until none is left. The kernel signals all processes of the
    /// namespace while none can be created, so nothing outruns it.
    fn kill_all(&mut self) -> io::Result<()> {
        match sys::kill(-1, sys::SIGKILL) {
            Ok(()) => {}
            Err(error) if sys::nobody(&error) => {}
            Err(error) => return Err(error),
        }
        self.reap(Wait::Block)
    }
}

/// Ends everything, because something inside killed or stopped a helper to set its command free. Nothing is set free.
fn mutiny() {
    // With nobody left to signal there is nothing to do.
    let _ = sys::kill(-1, sys::SIGKILL);
}

fn send(stream: u32, kind: Kind, payload: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(&Header::frame(stream, kind, payload))?;
    out.flush()
}
