//! The system calls that the standard library does not offer. The guest has one thread, which makes `fork` sound.

#![expect(
    unsafe_code,
    reason = "the guest has no dependencies, so it declares what it needs of the C library"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub(crate) const SIGKILL: i32 = 9;
const SIGCHLD: i32 = 17;
const SIG_SETMASK: c_int = 2;
const WNOHANG: c_int = 1;
const WUNTRACED: c_int = 2;
const POLLIN: i16 = 1;
const O_CLOEXEC: c_int = 0o2_000_000;
const PR_CAPBSET_READ: c_int = 23;
const PR_CAPBSET_DROP: c_int = 24;
const PR_SET_CHILD_SUBREAPER: c_int = 36;
/// `CAP_SYS_NICE`, the one capability that the guest keeps for itself.
const GUARD: u32 = 23;
const PRIO_PROCESS: c_int = 0;
/// The highest scheduling priority that there is.
const FIRST: c_int = -20;
const RLIMIT_FSIZE: c_int = 1;
const RLIMIT_CORE: c_int = 4;
const F_SETFD: c_int = 2;
const F_DUPFD_CLOEXEC: c_int = 1030;
const F_ADD_SEALS: c_int = 1033;
const MFD_CLOEXEC: c_uint = 1;
const MFD_ALLOW_SEALING: c_uint = 2;
const FD_CLOEXEC: c_int = 1;
const SOL_SOCKET: c_int = 1;
const SO_SNDTIMEO: c_int = 21;
const SYS_OPENAT2: c_long = 437;
#[cfg(target_arch = "x86_64")]
const SYS_CAPGET_CAPSET: (c_long, c_long) = (125, 126);
#[cfg(not(target_arch = "x86_64"))]
const SYS_CAPGET_CAPSET: (c_long, c_long) = (90, 91);

pub(crate) const O_PATH: i32 = 0o10_000_000;
pub(crate) const O_NONBLOCK: i32 = 0o4000;
#[cfg(target_arch = "x86_64")]
pub(crate) const O_DIRECTORY: i32 = 0o200_000;
#[cfg(target_arch = "x86_64")]
pub(crate) const O_NOFOLLOW: i32 = 0o400_000;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const O_DIRECTORY: i32 = 0o40_000;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const O_NOFOLLOW: i32 = 0o100_000;

pub(crate) const RESOLVE_NO_MAGICLINKS: u64 = 0x02;
pub(crate) const RESOLVE_BENEATH: u64 = 0x08;
pub(crate) const RESOLVE_IN_ROOT: u64 = 0x10;

#[repr(C)]
struct PollFd {
    fd: c_int,
    events: i16,
    revents: i16,
}

/// As large as any C library makes it.
#[repr(C)]
struct SigSet([c_ulong; 16]);

impl SigSet {
    const EMPTY: Self = Self([0; 16]);

    fn child() -> Self {
        let mut set = Self::EMPTY;
        set.0[0] = 1 << (SIGCHLD - 1);
        set
    }
}

#[repr(C)]
struct Rlimit {
    current: u64,
    maximum: u64,
}

#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

#[repr(C)]
struct CapHeader {
    version: u32,
    pid: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct CapData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

#[repr(C)]
struct Timeval {
    seconds: c_long,
    micros: c_long,
}

unsafe extern "C" {
    safe fn fork() -> c_int;
    #[link_name = "kill"]
    safe fn c_kill(pid: c_int, signal: c_int) -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn poll(fds: *mut PollFd, count: c_ulong, timeout: c_int) -> c_int;
    fn pipe2(fds: *mut c_int, flags: c_int) -> c_int;
    fn signalfd(fd: c_int, mask: *const SigSet, flags: c_int) -> c_int;
    fn sigprocmask(how: c_int, set: *const SigSet, old: *mut SigSet) -> c_int;
    safe fn prctl(option: c_int, ...) -> c_int;
    safe fn setsid() -> c_int;
    safe fn getpriority(which: c_int, who: c_uint) -> c_int;
    safe fn setpriority(which: c_int, who: c_uint, nice: c_int) -> c_int;
    safe fn geteuid() -> u32;
    safe fn getegid() -> u32;
    fn setgroups(count: usize, groups: *const u32) -> c_int;
    safe fn setresgid(real: u32, effective: u32, saved: u32) -> c_int;
    safe fn setresuid(real: u32, effective: u32, saved: u32) -> c_int;
    fn setrlimit(resource: c_int, limit: *const Rlimit) -> c_int;
    #[link_name = "umask"]
    safe fn c_umask(mask: c_uint) -> c_uint;
    #[link_name = "dup2"]
    safe fn c_dup2(from: c_int, to: c_int) -> c_int;
    fn execve(path: *const c_char, argv: *const *const c_char, env: *const *const c_char) -> c_int;
    #[link_name = "mkfifo"]
    fn c_mkfifo(path: *const c_char, mode: c_uint) -> c_int;
    fn memfd_create(name: *const c_char, flags: c_uint) -> c_int;
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: c_uint) -> c_int;
    safe fn close_range(first: c_uint, last: c_uint, flags: c_uint) -> c_int;
    #[link_name = "fcntl"]
    safe fn c_fcntl(fd: c_int, command: c_int, ...) -> c_int;
    fn syscall(number: c_long, ...) -> c_long;
    #[link_name = "signal"]
    safe fn c_signal(signal: c_int, handler: usize) -> usize;
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn retry(mut call: impl FnMut() -> c_int) -> io::Result<c_int> {
    loop {
        match check(call()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Forks; the child gets `None`.
pub(crate) fn split() -> io::Result<Option<i32>> {
    check(fork()).map(|pid| (pid > 0).then_some(pid))
}

/// Sends a signal; -1 means everything but process 1 and the caller.
pub(crate) fn kill(pid: i32, signal: i32) -> io::Result<()> {
    check(c_kill(pid, signal)).map(|_| ())
}

/// What happened to a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Exited(u32),
    Signaled(u32),
    Stopped,
}

/// How to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Takes what has changed, stops included.
    Poll,
    /// Until a child ends.
    Block,
}

/// The next changed child. `Ok(None)` when there is none now, an error with `ECHILD` when there is none at all.
pub(crate) fn wait(wait: Wait) -> io::Result<Option<(i32, Change)>> {
    let options = match wait {
        Wait::Poll => WNOHANG | WUNTRACED,
        Wait::Block => 0,
    };
    let mut status = 0;
    // SAFETY: the pointer is to a local that outlives the call.
    let pid = retry(|| unsafe { waitpid(-1, &raw mut status, options) })?;
    if pid == 0 {
        return Ok(None);
    }
    let change = match status & 0x7f {
        0 => Change::Exited(((status >> 8) & 0xff) as u32),
        0x7f => Change::Stopped,
        signal => Change::Signaled(signal as u32),
    };
    Ok(Some((pid, change)))
}

/// Whether an error says that there is no child at all.
pub(crate) fn no_child(error: &io::Error) -> bool {
    const ECHILD: i32 = 10;
    error.raw_os_error() == Some(ECHILD)
}

/// Whether an error says that there is nobody to signal.
pub(crate) fn nobody(error: &io::Error) -> bool {
    const ESRCH: i32 = 3;
    error.raw_os_error() == Some(ESRCH)
}

/// Waits until one can be read, or ended, or the time is over; tells which.
pub(crate) fn readable(fds: &[RawFd], patience: Option<Duration>) -> io::Result<Vec<bool>> {
    let mut polled: Vec<PollFd> =
        fds.iter().map(|fd| PollFd { fd: *fd, events: POLLIN, revents: 0 }).collect();
    // Rounded up: waking early would mean to spin.
    let millis = |time: Duration| c_int::try_from(time.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX);
    let timeout = patience.map_or(-1, millis);
    // SAFETY: pointer and length are those of one vector that outlives the call.
    match check(unsafe { poll(polled.as_mut_ptr(), polled.len() as c_ulong, timeout) }) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
        _ => {}
    }
    Ok(polled.iter().map(|fd| fd.revents != 0).collect())
}

/// A pipe, reading end first; both ends close when a command starts.
pub(crate) fn pipe() -> io::Result<(File, File)> {
    let mut fds = [0; 2];
    // SAFETY: the array has room for the two descriptors that the kernel writes.
    check(unsafe { pipe2(fds.as_mut_ptr(), O_CLOEXEC) })?;
    // SAFETY: both descriptors are new and belong to nobody else.
    Ok(unsafe { (File::from_raw_fd(fds[0]), File::from_raw_fd(fds[1])) })
}

/// Makes the end of children something to poll for, instead of a signal.
pub(crate) fn child_signals() -> io::Result<File> {
    let set = SigSet::child();
    // SAFETY: the set outlives the calls; no old mask is asked for.
    check(unsafe { sigprocmask(SIG_SETMASK, &raw const set, std::ptr::null_mut()) })?;
    // SAFETY: as above; the descriptor is new.
    let fd = check(unsafe { signalfd(-1, &raw const set, O_CLOEXEC | O_NONBLOCK) })?;
    // SAFETY: the descriptor belongs to nobody else.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// No signal blocked or ignored, as programs expect it at their start.
pub(crate) fn default_signals() -> io::Result<()> {
    for signal in 1..=64 {
        // Some cannot be set, and need not.
        c_signal(signal, 0);
    }
    let set = SigSet::EMPTY;
    // SAFETY: the set outlives the call; no old mask is asked for.
    check(unsafe { sigprocmask(SIG_SETMASK, &raw const set, std::ptr::null_mut()) }).map(|_| ())
}

/// Adopts the orphans among the descendants.
pub(crate) fn become_subreaper() -> io::Result<()> {
    check(prctl(PR_SET_CHILD_SUBREAPER, 1 as c_ulong, 0 as c_ulong, 0 as c_ulong, 0 as c_ulong)).map(|_| ())
}

/// Goes before everything else in the container, where that is allowed, and returns the priority of before.
pub(crate) fn hurry() -> i32 {
    let before = getpriority(PRIO_PROCESS, 0);
    setpriority(PRIO_PROCESS, 0, FIRST);
    before
}

/// Goes back to the priority of before.
pub(crate) fn calm_down(before: i32) -> io::Result<()> {
    check(setpriority(PRIO_PROCESS, 0, before)).map(|_| ())
}

pub(crate) fn new_session() -> io::Result<()> {
    check(setsid()).map(|_| ())
}

pub(crate) fn umask(mask: u32) {
    c_umask(mask);
}

pub(crate) fn dup2(from: &impl AsRawFd, to: RawFd) -> io::Result<()> {
    check(c_dup2(from.as_raw_fd(), to)).map(|_| ())
}

/// Closes every descriptor above the standard streams except these two; both get new numbers.
pub(crate) fn keep_only(
    socket: UnixStream,
    listener: Option<&TcpListener>,
) -> io::Result<(UnixStream, Option<TcpListener>)> {
    // Far above first, since one may have the other's number.
    const FAR: RawFd = 500;
    const SOCKET: RawFd = 3;
    const LISTENER: RawFd = 4;
    let far = |fd: RawFd| check(c_fcntl(fd, F_DUPFD_CLOEXEC, FAR));
    let kept =
        [Some(far(socket.as_raw_fd())?), listener.map(|listener| far(listener.as_raw_fd())).transpose()?];
    // Its number may be about to mean something else.
    let _ = socket.into_raw_fd();
    let mut next = SOCKET;
    for fd in kept.into_iter().flatten() {
        check(c_dup2(fd, next))?;
        check(c_fcntl(next, F_SETFD, FD_CLOEXEC))?;
        next += 1;
    }
    check(close_range(next.cast_unsigned(), c_uint::MAX, 0))?;
    // SAFETY: both descriptors were just made, and what had these numbers before is never used again.
    Ok(unsafe { (UnixStream::from_raw_fd(SOCKET), listener.map(|_| TcpListener::from_raw_fd(LISTENER))) })
}

/// Closes everything but these pipes, the streams included.
pub(crate) fn keep_pipes(pipes: &[RawFd]) -> io::Result<()> {
    let mut next = 0;
    let mut sorted = pipes.to_vec();
    sorted.sort_unstable();
    for pipe in sorted.iter().map(|fd| fd.cast_unsigned()) {
        if pipe > next {
            check(close_range(next, pipe - 1, 0))?;
        }
        next = pipe + 1;
    }
    check(close_range(next, c_uint::MAX, 0)).map(|_| ())
}

/// Another descriptor for an open one.
pub(crate) fn duplicate(fd: RawFd) -> io::Result<File> {
    let new = check(c_fcntl(fd, F_DUPFD_CLOEXEC, 3))?;
    // SAFETY: the descriptor is new and belongs to nobody else.
    Ok(unsafe { File::from_raw_fd(new) })
}

/// A file in memory, without a name that a path could lead to.
pub(crate) fn memory_file(name: &CStr) -> io::Result<File> {
    // SAFETY: the text ends with a zero byte and outlives the call.
    let fd = check(unsafe { memfd_create(name.as_ptr(), MFD_CLOEXEC | MFD_ALLOW_SEALING) })?;
    // SAFETY: the descriptor is new and belongs to nobody else.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Lets nobody change a memory file any more.
pub(crate) fn seal(file: &File) -> io::Result<()> {
    const ALL: c_int = 1 | 2 | 4 | 8;
    check(c_fcntl(file.as_raw_fd(), F_ADD_SEALS, ALL)).map(|_| ())
}

/// Bounds what a command can do to the disk by itself.
pub(crate) fn limit_files(largest: Option<u64>) -> io::Result<()> {
    // One byte, not none: with none the kernel still hands a crash to the host's handler when it has one.
    let limits = [(RLIMIT_CORE, Some(1)), (RLIMIT_FSIZE, largest)];
    for (resource, bytes) in limits {
        let Some(bytes) = bytes else { continue };
        let limit = Rlimit { current: bytes, maximum: bytes };
        // SAFETY: the structure outlives the call.
        check(unsafe { setrlimit(resource, &raw const limit) })?;
    }
    Ok(())
}

/// The user and group that this process is.
pub(crate) fn user() -> (u32, u32) {
    (geteuid(), getegid())
}

/// Switches to another user, and gives up the guard whoever it is. There is no way back.
///
/// A container without any capability has no guard to give up and nobody else to become; its groups stay as they are.
pub(crate) fn assume(uid: u32, gid: u32, groups: &[u32]) -> io::Result<()> {
    let guard = |option| prctl(option, c_ulong::from(GUARD), 0 as c_ulong, 0 as c_ulong, 0 as c_ulong);
    if guard(PR_CAPBSET_READ) != 0 {
        check(guard(PR_CAPBSET_DROP))?;
    }
    // SAFETY: pointer and length are those of one slice.
    match check(unsafe { setgroups(groups.len(), groups.as_ptr()) }) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && user() == (uid, gid) => {}
        other => other.map(|_| ())?,
    }
    check(setresgid(gid, gid, gid))?;
    check(setresuid(uid, uid, uid))?;
    let header = CapHeader { version: 0x2008_0522, pid: 0 };
    let mut data = [CapData { effective: 0, permitted: 0, inheritable: 0 }; 2];
    // SAFETY: header and data have the layout of this version and outlive the calls.
    let got = unsafe { syscall(SYS_CAPGET_CAPSET.0, &raw const header, data.as_mut_ptr()) };
    check(got as c_int)?;
    data[0].permitted &= !(1 << GUARD);
    for half in &mut data {
        half.effective = half.permitted;
        half.inheritable = 0;
    }
    // SAFETY: as above.
    let set = unsafe { syscall(SYS_CAPGET_CAPSET.1, &raw const header, data.as_ptr()) };
    check(set as c_int).map(|_| ())
}

/// Replaces the process; returns why that failed.
pub(crate) fn execute(path: &CString, argv: &[CString], env: &[CString]) -> io::Error {
    let pointers = |texts: &[CString]| -> Vec<*const c_char> {
        texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: both lists end with a null pointer, and all texts outlive the call.
    unsafe { execve(path.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

pub(crate) fn make_fifo(path: &Path, mode: u32) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the text outlives the call.
    check(unsafe { c_mkfifo(path.as_ptr(), mode) }).map(|_| ())
}

/// Makes a write to a socket fail, instead of wait for ever, when the other side does not read.
pub(crate) fn bound_sending(socket: &impl AsRawFd, time: Duration) -> io::Result<()> {
    let value = Timeval { seconds: time.as_secs().cast_signed(), micros: 0 };
    let len = size_of::<Timeval>() as c_uint;
    // SAFETY: the pointer and the size are those of the structure.
    let done =
        unsafe { setsockopt(socket.as_raw_fd(), SOL_SOCKET, SO_SNDTIMEO, (&raw const value).cast(), len) };
    check(done).map(|_| ())
}

/// Opens a path with rules for how it is resolved.
pub(crate) fn open_resolved(top: &File, path: &Path, flags: i32, resolve: u64) -> io::Result<File> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let how = OpenHow { flags: (flags | O_CLOEXEC) as u64, mode: 0, resolve };
    // SAFETY: the text and the structure outlive the call, and the structure's true size is passed.
    let fd =
        unsafe { syscall(SYS_OPENAT2, top.as_raw_fd(), path.as_ptr(), &raw const how, size_of::<OpenHow>()) };
    let fd = check(fd as c_int)?;
    // SAFETY: the descriptor is new and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) }.into())
}
