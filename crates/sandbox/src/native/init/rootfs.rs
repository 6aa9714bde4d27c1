//! The file system a sandbox sees: overlays, `/proc`, `/dev`, and nothing else of the host.
//!
//! The layers are untrusted. Every mount point below the new root is opened with `openat2`, which resolves links as
//! if the new root were `/`, and mounted through its descriptor, so no link in an image can aim a mount elsewhere.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};

use crate::native::init::entry::step;
use crate::native::sys;
use crate::native::wire::{Overlay, Setup};

/// Device nodes taken from the host, all harmless and stateless.
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

/// Links in `/dev` that programs expect.
const DEV_LINKS: &[(&str, &str)] = &[
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Parts of `/proc` that tell about the host what no command needs.
const PROC_HIDDEN: &[&str] = &[
    "acpi",
    "asound",
    "config.gz",
    "interrupts",
    "kallsyms",
    "kcore",
    "keys",
    "key-users",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "latency_stats",
    "modules",
    "sched_debug",
    "scsi",
    "timer_list",
    "timer_stats",
    "vmallocinfo",
];

/// Bytes of mount options that the kernel takes: one page.
const MAX_OPTIONS: usize = 4096;

/// Layers that one overlay takes (`OVL_MAX_STACK`).
const MAX_LAYERS: usize = 500;

/// Mode of a temporary directory.
const TEMPORARY: Mode = Mode::from_raw_mode(0o1777);

/// Builds the root file system and makes it the root of this process.
pub(super) fn enter(setup: &Setup) -> io::Result<()> {
    rustix::mount::mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)
        .map_err(|error| step("making mounts private", &error.into()))?;
    let stage = Stage::mount(setup)?;
    let root = stage.overlays(setup)?;
    mount_proc(root.as_fd()).map_err(|error| step("mounting /proc", &error))?;
    mount_dev(root.as_fd(), setup.identity_map).map_err(|error| step("setting up /dev", &error))?;
    stage.files(root.as_fd(), setup).map_err(|error| step("placing files", &error))?;
    open_temporary(root.as_fd());
    rustix::process::fchdir(&root)?;
    rustix::process::pivot_root(".", ".").map_err(|error| step("changing the root", &error.into()))?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)
        .map_err(|error| step("leaving the host's root", &error.into()))?;
    rustix::process::chdir("/")?;
    Ok(())
}

/// A private memory file system where the parts are prepared.
struct Stage(PathBuf);

impl Stage {
    fn mount(setup: &Setup) -> io::Result<Self> {
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        rustix::mount::mount("tmpfs", &setup.stage, "tmpfs", flags, c"mode=755")
            .map_err(|error| step("mounting the stage", &error.into()))?;
        let stage = Self(setup.stage.clone());
        for name in ["root", "base", "files"] {
            fs_err::create_dir(stage.0.join(name))?;
        }
        Ok(stage)
    }

    /// Mounts all overlays and returns the new root.
    fn overlays(&self, setup: &Setup) -> io::Result<OwnedFd> {
        let (first, trees) = setup
            .overlays
            .split_first()
            .ok_or_else(|| io::Error::other("the sandbox has no root file system"))?;
        let named = |overlay: &Overlay, error: &io::Error| {
            step(&format!("mounting the overlay at {}", overlay.at.display()), error)
        };
        let base = self.base(setup)?;
        let target = self.0.join("root");
        mount_overlay(first, Some(&base), &path_fd(&target)?).map_err(|error| named(first, &error))?;
        let root = path_fd(&target)?;
        for overlay in trees {
            within(root.as_fd(), &overlay.at, OFlags::DIRECTORY)
                .and_then(|at| mount_overlay(overlay, None, &at))
                .map_err(|error| named(overlay, &error))?;
        }
        Ok(root)
    }

    /// The lowest directory of all: mount points that no image has to bring along.
    fn base(&self, setup: &Setup) -> io::Result<PathBuf> {
        let base = self.0.join("base");
        for point in &setup.mount_points {
            fs_err::create_dir_all(base.join(relative(point)))?;
        }
        rustix::fs::chmod(base.join("tmp"), TEMPORARY)?;
        for path in setup.files.keys() {
            let path = base.join(relative(path));
            if let Some(parent) = path.parent() {
                fs_err::create_dir_all(parent)?;
            }
            fs_err::write(&path, "")?;
        }
        Ok(base)
    }

    /// Binds the files the engine provides over those of the image. Root inside may write to them.
    fn files(&self, root: BorrowedFd<'_>, setup: &Setup) -> io::Result<()> {
        for (number, (path, text)) in setup.files.iter().enumerate() {
            let source = self.0.join("files").join(number.to_string());
            fs_err::write(&source, text)?;
            // An image that removed the file, or put something else there, keeps what it has.
            let Ok(target) = within(root, path, OFlags::empty()) else { continue };
            if FileType::from_raw_mode(rustix::fs::fstat(&target)?.st_mode) == FileType::RegularFile {
                rustix::mount::mount_bind(&source, by_fd(&target))
                    .map_err(|error| step(&path.to_string_lossy(), &error.into()))?;
            }
        }
        Ok(())
    }
}

fn mount_overlay(overlay: &Overlay, base: Option<&Path>, target: &OwnedFd) -> io::Result<()> {
    // Layers are named by descriptor, relative to the directory of descriptors. That keeps the option string short
    // (it has to fit a page), needs no quoting, and keeps host paths out of the sandbox's mount table.
    rustix::process::chdir("/proc/self/fd")?;
    let number = |fd: &OwnedFd| fd.as_raw_fd().to_string();
    let lowers = overlay.lowers.iter().map(PathBuf::as_path).chain(base).map(path_fd);
    let lowers = lowers.collect::<io::Result<Vec<OwnedFd>>>()?;
    let (upper, work) = (path_fd(&overlay.upper)?, path_fd(&overlay.work)?);
    let names: Vec<String> = lowers.iter().map(number).collect();
    // `volatile`: nothing written here has to survive a crash, so no flush on unmount or `fsync`.
    let options = format!(
        "userxattr,volatile,lowerdir={},upperdir={},workdir={}",
        names.join(":"),
        number(&upper),
        number(&work)
    );
    if options.len() >= MAX_OPTIONS || lowers.len() > MAX_LAYERS {
        return Err(io::Error::other(format!("{} layers are more than the kernel mounts", lowers.len())));
    }
    let options = CString::new(options).map_err(io::Error::other)?;
    let flags = MountFlags::empty();
    rustix::mount::mount("overlay", by_fd(target), "overlay", flags, options.as_c_str()).map_err(|error| {
        let hint = match error {
            rustix::io::Errno::INVAL => {
                "; the scratch directory must lie on a file system that can hold an overlay's changes, \
                 not on an overlay"
            }
            _ => "",
        };
        io::Error::other(format!("{error}{hint}"))
    })
}

fn mount_proc(root: BorrowedFd<'_>) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let target = within(root, Path::new("/proc"), OFlags::DIRECTORY)?;
    rustix::mount::mount("proc", by_fd(&target), "proc", flags, None)?;
    let proc = within(root, Path::new("/proc"), OFlags::DIRECTORY)?;
    // Second fence: no user namespace can be made inside, whatever the system call filter misses. An old kernel
    // may not have the file.
    let _ = fs_err::write(Path::new(&by_fd(&proc)).join("sys/user/max_user_namespaces"), "0");
    let null = rustix::fs::open("/dev/null", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    for name in kernel_entries(&proc)? {
        let Ok(target) = open_entry(&proc, &name) else { continue };
        let mode = rustix::fs::fstat(&target)?.st_mode;
        let directory = FileType::from_raw_mode(mode) == FileType::Directory;
        if PROC_HIDDEN.iter().any(|hidden| name == *hidden) {
            if directory {
                let flags = flags | MountFlags::RDONLY;
                rustix::mount::mount(
                    "tmpfs",
                    by_fd(&target),
                    "tmpfs",
                    flags,
                    c"size=0,nr_inodes=1,mode=755",
                )?;
                continue;
            }
            rustix::mount::mount_bind(by_fd(&null), by_fd(&target))?;
        } else if directory || mode & 0o222 != 0 {
            rustix::mount::mount_bind_recursive(by_fd(&target), by_fd(&target))?;
        } else {
            continue;
        }
        sys::make_read_only(open_entry(&proc, &name)?)?;
    }
    Ok(())
}

/// What `/proc` holds beside processes. Root inside has the number of root outside, to whom the kernel gives many of
/// these files for writing, whatever the capabilities; so all that could be written becomes read-only.
fn kernel_entries(proc: &OwnedFd) -> io::Result<Vec<OsString>> {
    let directory =
        rustix::fs::openat(proc, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        let process = name.iter().all(u8::is_ascii_digit);
        if !process && name != b"." && name != b".." && entry.file_type() != FileType::Symlink {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}

fn mount_dev(root: BorrowedFd<'_>, identity_map: bool) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let target = within(root, Path::new("/dev"), OFlags::DIRECTORY)?;
    rustix::mount::mount("tmpfs", by_fd(&target), "tmpfs", flags, c"mode=755,size=64m")?;
    let dev = within(root, Path::new("/dev"), OFlags::DIRECTORY)?;
    for name in DEVICES {
        let source = Path::new("/dev").join(name);
        rustix::fs::mknodat(&dev, *name, FileType::RegularFile, Mode::from_raw_mode(0o666), 0)?;
        let node = rustix::fs::openat(&dev, *name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        rustix::mount::mount_bind(&source, by_fd(&node))?;
        // Read-only keeps root inside from changing the mode of the host's node; devices stay writable all the same.
        sys::make_read_only(rustix::fs::openat(&dev, *name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)?;
    }
    for (name, target) in DEV_LINKS {
        rustix::fs::symlinkat(*target, &dev, *name)?;
    }
    let pts = if identity_map {
        c"newinstance,ptmxmode=0666,mode=620,gid=5"
    } else {
        c"newinstance,ptmxmode=0666,mode=620"
    };
    for (name, kind, options) in [("pts", "devpts", pts), ("shm", "tmpfs", c"mode=1777")] {
        rustix::fs::mkdirat(&dev, name, Mode::from_raw_mode(0o755))?;
        let at = rustix::fs::openat(&dev, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let flags = if name == "shm" { flags | MountFlags::NODEV } else { flags };
        rustix::mount::mount(kind, by_fd(&at), kind, flags, options)?;
    }
    Ok(())
}

/// Opens the temporary directories to every user, as any system has them, unless the image made them something else.
fn open_temporary(root: BorrowedFd<'_>) {
    for path in ["/tmp", "/var/tmp"] {
        let Ok(directory) = within(root, Path::new(path), OFlags::DIRECTORY) else { continue };
        let closed = rustix::fs::fstat(&directory)
            .is_ok_and(|stat| Mode::from_raw_mode(stat.st_mode & 0o7777) != TEMPORARY);
        if closed {
            let _ = rustix::fs::chmod(by_fd(&directory), TEMPORARY);
        }
    }
}

/// Opens a path below `root`, resolving links as if `root` were `/`.
fn within(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    Ok(rustix::fs::openat2(root, path, OFlags::PATH | OFlags::CLOEXEC | flags, Mode::empty(), resolve)?)
}

fn open_entry(directory: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(directory, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

fn path_fd(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|error| step(&path.to_string_lossy(), &error.into()))
}

/// The path that leads to what a descriptor of this process refers to.
fn by_fd(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

fn relative(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}
