//! From the re-executed program to process 1 of a new set of namespaces.
//!
//! The first process still has the caller's privileges. It forks process 1 into the new namespaces as its own
//! sibling (`CLONE_PARENT`), so that the engine can wait for it, writes its id maps and ends.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::process::{DumpableBehavior, Pid};
use rustix::thread::{Gid, Uid};

use crate::native::init::privileges::{self, Policy};
use crate::native::init::{rootfs, serve};
use crate::native::sys::{self, Forked};
use crate::native::wire::{self, Operation, Setup, StartReply};

/// Runs the init of a sandbox and never returns. The control socket is standard input.
///
/// The program that embeds the engine calls this before anything else, in particular before it starts a thread,
/// when its first argument is [`INIT_ARGUMENT`](crate::native::INIT_ARGUMENT).
pub fn init_main() -> ! {
    let code = match run() {
        Ok(()) => 0,
        Err(_) => 1,
    };
    std::process::exit(code)
}

fn run() -> io::Result<()> {
    let control = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3)?;
    let control = if std::os::fd::AsRawFd::as_raw_fd(&control) == 3 {
        control
    } else {
        return Err(io::Error::other("descriptor 3 is taken"));
    };
    sys::close_from(4)?;
    rustix::thread::set_name(c"sandbox-init")?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    nix::unistd::dup2_stdin(&null)?;
    drop(null);
    match start(&control) {
        Ok(()) => Ok(()),
        Err(failure) => {
            wire::send_start(&control, &StartReply::Failed(failure.to_string()), &[])?;
            Ok(())
        }
    }
}

fn start(control: &OwnedFd) -> io::Result<()> {
    let Some(request) = wire::receive_request(control)? else { return Ok(()) };
    let mut fds = request.fds.into_iter();
    let (Operation::Setup, Some(body)) = (request.operation, fds.next()) else {
        return Err(io::Error::other("the first message is not a setup"));
    };
    let setup: Setup = wire::read_body(body)?;
    // Before there is a process 1, since the engine raises the priority of that one.
    let nice = rustix::process::getpriority_process(None)?;
    let (mapped, tell) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let mut flags = sys::NAMESPACES | libc::CLONE_PARENT;
    if setup.isolate_network {
        flags |= libc::CLONE_NEWNET;
    }
    match sys::fork(flags).map_err(|error| step("creating namespaces", &error))? {
        Forked::Child => {
            drop(tell);
            first_process(control, &setup, nice, mapped)
        }
        Forked::Parent(init) => {
            drop(mapped);
            let pid = init.as_raw_nonzero().get();
            wire::send_start(control, &StartReply::Init(pid), &[])?;
            write_id_maps(init, setup.identity_map).map_err(|error| step("mapping user ids", &error))?;
            File::from(tell).write_all(b"m")
        }
    }
}

/// Gives the new user namespace its ids: all of this namespace's own, or the caller's alone as root.
fn write_id_maps(init: Pid, identity: bool) -> io::Result<()> {
    let directory = format!("/proc/{}", init.as_raw_nonzero());
    let put = |name: &str, text: &str| fs_err::write(Path::new(&directory).join(name), text);
    if identity {
        put("uid_map", &identity_of(&fs_err::read_to_string("/proc/self/uid_map")?)?)?;
        put("gid_map", &identity_of(&fs_err::read_to_string("/proc/self/gid_map")?)?)
    } else {
        put("setgroups", "deny")?;
        put("uid_map", &format!("0 {} 1", rustix::process::geteuid().as_raw()))?;
        put("gid_map", &format!("0 {} 1", rustix::process::getegid().as_raw()))
    }
}

/// The map that gives every id of the current user namespace its own number in a child namespace.
fn identity_of(own: &str) -> io::Result<String> {
    own.lines()
        .map(|line| {
            let mut fields = line.split_whitespace();
            match (fields.next(), fields.next(), fields.next()) {
                (Some(inside), Some(_), Some(count)) => Ok(format!("{inside} {inside} {count}\n")),
                _ => Err(io::Error::other(format!("unexpected id map line `{line}`"))),
            }
        })
        .collect()
}

fn first_process(control: &OwnedFd, setup: &Setup, nice: i32, mapped: OwnedFd) -> ! {
    match complete(setup, nice, mapped) {
        Ok((policy, listeners)) => {
            let fds: Vec<BorrowedFd<'_>> = listeners.iter().map(AsFd::as_fd).collect();
            if wire::send_start(control, &StartReply::Ready, &fds).is_ok() {
                drop(listeners);
                serve::serve(control.as_fd(), &policy)
            }
        }
        Err(failure) => {
            // Without a listener there is nobody to tell.
            let _ = wire::send_start(control, &StartReply::Failed(failure.to_string()), &[]);
        }
    }
    std::process::exit(1)
}

fn complete(setup: &Setup, nice: i32, mapped: OwnedFd) -> io::Result<(Policy, Vec<TcpListener>)> {
    let mut signal = [0_u8; 1];
    File::from(mapped).read_exact(&mut signal)?;
    become_init(setup)?;
    let listeners = setup.doors.iter().map(|port| listen(*port)).collect::<io::Result<_>>()?;
    Ok((Policy::new(setup.largest_file, nice)?, listeners))
}

/// Listens on the sandbox's own loopback; the engine takes the clients.
fn listen(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .map_err(|error| step(&format!("opening a door at port {port}"), &error))
}

fn become_init(setup: &Setup) -> io::Result<()> {
    rustix::process::setsid()?;
    rustix::thread::set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT)?;
    if setup.identity_map {
        rustix::thread::set_thread_groups(&[])?;
    }
    rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    rustix::system::sethostname(setup.hostname.as_bytes())
        .map_err(|error| step("setting the host name", &error.into()))?;
    if setup.isolate_network {
        sys::loopback_up().map_err(|error| step("bringing loopback up", &error))?;
    }
    rootfs::enter(setup)?;
    privileges::limit_bounding_set().map_err(|error| step("limiting capabilities", &error))?;
    // Nobody inside may look into this process or its forks: they hold more capabilities than commands do.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// Names the step that failed in front of its reason.
pub(super) fn step(doing: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{doing}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::identity_of;

    #[test]
    fn identity_maps_cover_what_this_namespace_has() {
        assert_eq!(identity_of("         0          0 4294967295\n").unwrap(), "0 0 4294967295\n");
        assert_eq!(identity_of("0 1000 1\n1 100000 65536\n").unwrap(), "0 0 1\n1 1 65536\n");
        assert!(identity_of("nonsense\n").is_err());
    }
}
