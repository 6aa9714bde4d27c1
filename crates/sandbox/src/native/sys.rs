//! The few system calls that neither `rustix` nor `nix` offers in a safe form.
//!
//! Everything here runs in the re-executed init, which has one thread; that is what makes `fork` and `clone`
//! sound: no other thread can hold a lock in the child.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::process::Pid;

/// Which side of a fork the caller is on.
pub(crate) enum Forked {
    /// The new process.
    Child,
    /// The old one, with the child's process id.
    Parent(Pid),
}

/// Namespaces of a sandbox, as flags of `clone`.
pub(crate) const NAMESPACES: i32 = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// Forks with `clone` flags; the child runs on a copy of the caller's stack, as after `fork`.
pub(crate) fn fork(flags: i32) -> io::Result<Forked> {
    let flags = flags | libc::SIGCHLD;
    // SAFETY: without CLONE_VM the child gets its own copy of memory, so a null stack and null thread pointers
    // are what `fork` itself passes. The init has one thread, hence no lock can be held by another one.
    #[expect(unsafe_code, reason = "clone with namespace flags has no safe wrapper")]
    let pid = unsafe {
        libc::syscall(libc::SYS_clone, libc::c_long::from(flags), 0_usize, 0_usize, 0_usize, 0_usize)
    };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        pid => {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            Ok(Forked::Parent(pid.expect("clone returns a positive process id")))
        }
    }
}

/// Makes the mount that `mount` refers to (its root) read-only without touching its other flags.
///
/// A remount would have to repeat every flag that the host locked; `mount_setattr` (Linux 5.12) only adds.
pub(crate) fn make_read_only(mount: impl AsFd) -> io::Result<()> {
    let attributes =
        libc::mount_attr { attr_set: libc::MOUNT_ATTR_RDONLY, attr_clr: 0, propagation: 0, userns_fd: 0 };
    // SAFETY: the path is an empty C string, allowed with AT_EMPTY_PATH; the attribute structure lives through
    // the call and its true size is passed with it.
    #[expect(unsafe_code, reason = "mount_setattr has no safe wrapper")]
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    check(done)
}

/// Brings the loopback interface of the current network namespace up.
pub(crate) fn loopback_up() -> io::Result<()> {
    let socket = rustix::net::socket_with(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )?;
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_flags: (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short,
        },
    };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    // SAFETY: SIOCSIFFLAGS reads one `ifreq`, which is fully initialised and outlives the call.
    #[expect(unsafe_code, reason = "interface requests have no safe wrapper")]
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) };
    check(done.into())
}

/// Closes every descriptor from `first` up, so that nothing that leaked into this process goes further.
pub(crate) fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: called once at the start of the init, before it has opened anything of its own: no `OwnedFd` exists
    // that could refer to a closed number.
    #[expect(unsafe_code, reason = "close_range has no safe wrapper")]
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) };
    check(done)
}

/// Gives every signal its default action and lifts the block, as a fresh program expects.
pub(crate) fn default_signals() -> io::Result<()> {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: SIG_DFL installs no handler. Signals that cannot be changed answer EINVAL, which is harmless.
        #[expect(unsafe_code, reason = "resetting a signal has no safe wrapper")]
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
    nix::sys::signal::SigSet::empty().thread_set_mask().map_err(io::Error::from)
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
