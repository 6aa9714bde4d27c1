//! The file system a sandbox sees: overlays, `/proc`, `/dev`, and nothing else of the host.
//!
//! The layers are untrusted. Every mount point below the new root is opened with `openat2`, which resolves links as
//! if the new root were `/`, and mounted through its descriptor, so no link in an image can aim a mount elsewhere.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};
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

/// Parts of `/proc` that configure the whole kernel: readable, never writable.
const PROC_READ_ONLY: &[&str] =
    &["sys", "sysrq-trigger", "irq", "bus", "fs", "driver", "dynamic_debug", "mtrr"];

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
        if let Some(bytes) = setup.memory_upper {
            let upper = stage.0.join("upper");
            fs_err::create_dir(&upper)?;
            let options = c_string(format!("mode=755,size={bytes}"))?;
            rustix::mount::mount("tmpfs", &upper, "tmpfs", flags, options.as_c_str())?;
        }
        Ok(stage)
    }

    /// Mounts all overlays and returns the new root.
    fn overlays(&self, setup: &Setup) -> io::Result<OwnedFd> {
        let base = self.base(setup)?;
        let target = self.0.join("root");
        let mut root: Option<OwnedFd> = None;
        for (number, overlay) in setup.overlays.iter().enumerate() {
            let doing = || format!("mounting the overlay at {}", overlay.at.display());
            let mounted = match &root {
                None => {
                    self.overlay(overlay, number, Some(&base), &path_fd(&target)?, setup).and_then(|()| {
                        root = Some(path_fd(&target)?);
                        Ok(())
                    })
                }
                Some(root) => within(root.as_fd(), &overlay.at, OFlags::DIRECTORY)
                    .and_then(|at| self.overlay(overlay, number, None, &at, setup)),
            };
            mounted.map_err(|error| step(&doing(), &error))?;
        }
        root.ok_or_else(|| io::Error::other("the sandbox has no root file system"))
    }

    /// The lowest directory of all: mount points that no image has to bring along.
    fn base(&self, setup: &Setup) -> io::Result<PathBuf> {
        let base = self.0.join("base");
        for point in &setup.mount_points {
            fs_err::create_dir_all(base.join(relative(point)))?;
        }
        for path in setup.files.keys() {
            let path = base.join(relative(path));
            if let Some(parent) = path.parent() {
                fs_err::create_dir_all(parent)?;
            }
            fs_err::write(&path, "")?;
        }
        Ok(base)
    }

    fn overlay(
        &self,
        overlay: &Overlay,
        number: usize,
        base: Option<&Path>,
        target: &OwnedFd,
        setup: &Setup,
    ) -> io::Result<()> {
        // Descriptors keep the option string short (it has to fit a page), need no quoting, and keep host paths out
        // of the sandbox's mount table.
        let lowers: Vec<OwnedFd> = overlay
            .lowers
            .iter()
            .map(PathBuf::as_path)
            .chain(base)
            .map(path_fd)
            .collect::<io::Result<_>>()?;
        let (upper, work) = if setup.memory_upper.is_some() {
            let place = |name: &str| self.0.join("upper").join(format!("{name}-{number}"));
            fs_err::create_dir(place("upper"))?;
            fs_err::create_dir(place("work"))?;
            (path_fd(&place("upper"))?, path_fd(&place("work"))?)
        } else {
            (path_fd(&overlay.upper)?, path_fd(&overlay.work)?)
        };
        let lowers: Vec<String> = lowers.iter().map(by_fd).collect();
        // `volatile`: nothing written here has to survive a crash, so no flush on unmount or `fsync`.
        let options = c_string(format!(
            "userxattr,volatile,lowerdir={},upperdir={},workdir={}",
            lowers.join(":"),
            by_fd(&upper),
            by_fd(&work)
        ))?;
        rustix::mount::mount("overlay", by_fd(target), "overlay", MountFlags::empty(), options.as_c_str())?;
        Ok(())
    }

    /// Binds the files the engine provides over those of the image, read-only for nobody: root may change them.
    fn files(&self, root: BorrowedFd<'_>, setup: &Setup) -> io::Result<()> {
        for (number, (path, text)) in setup.files.iter().enumerate() {
            let source = self.0.join("files").join(number.to_string());
            fs_err::write(&source, text)?;
            // An image that removed the file, or put something else there, keeps what it has.
            let Ok(target) = within(root, path, OFlags::empty()) else { continue };
            let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&target)?.st_mode);
            if kind == rustix::fs::FileType::RegularFile {
                rustix::mount::mount_bind(&source, by_fd(&target))
                    .map_err(|error| step(&path.to_string_lossy(), &error.into()))?;
            }
        }
        Ok(())
    }
}

fn mount_proc(root: BorrowedFd<'_>) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let target = within(root, Path::new("/proc"), OFlags::DIRECTORY)?;
    rustix::mount::mount("proc", by_fd(&target), "proc", flags, None)?;
    let proc = within(root, Path::new("/proc"), OFlags::DIRECTORY)?;
    // Second fence: no user namespace can be made inside, whatever the system call filter misses. An old kernel
    // may not have the file.
    let _ = fs_err::write(format!("{}/sys/user/max_user_namespaces", by_fd(&proc)), "0");
    let null = rustix::fs::open("/dev/null", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    for name in PROC_HIDDEN {
        let Some(target) = existing(&proc, name)? else { continue };
        let is_directory = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&target)?.st_mode)
            == rustix::fs::FileType::Directory;
        if is_directory {
            let flags = flags | MountFlags::RDONLY;
            rustix::mount::mount("tmpfs", by_fd(&target), "tmpfs", flags, c"size=0,nr_inodes=1,mode=755")?;
        } else {
            rustix::mount::mount_bind(by_fd(&null), by_fd(&target))?;
            if let Some(hidden) = existing(&proc, name)? {
                sys::make_read_only(hidden)?;
            }
        }
    }
    for name in PROC_READ_ONLY {
        let Some(target) = existing(&proc, name)? else { continue };
        rustix::mount::mount_bind_recursive(by_fd(&target), by_fd(&target))?;
        if let Some(bound) = existing(&proc, name)? {
            sys::make_read_only(bound)?;
        }
    }
    Ok(())
}

fn mount_dev(root: BorrowedFd<'_>, identity_map: bool) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let target = within(root, Path::new("/dev"), OFlags::DIRECTORY)?;
    rustix::mount::mount("tmpfs", by_fd(&target), "tmpfs", flags, c"mode=755,size=64m")?;
    let dev = within(root, Path::new("/dev"), OFlags::DIRECTORY)?;
    for name in DEVICES {
        let source = Path::new("/dev").join(name);
        rustix::fs::mknodat(&dev, *name, rustix::fs::FileType::RegularFile, Mode::from_raw_mode(0o666), 0)?;
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
        let wanted = Mode::from_raw_mode(0o1777);
        if rustix::fs::fstat(&directory)
            .is_ok_and(|stat| Mode::from_raw_mode(stat.st_mode) & Mode::from_raw_mode(0o7777) != wanted)
        {
            let _ = rustix::fs::chmod(by_fd(&directory), wanted);
        }
    }
}

/// Opens a path below `root`, resolving links as if `root` were `/`.
fn within(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    Ok(rustix::fs::openat2(root, path, OFlags::PATH | OFlags::CLOEXEC | flags, Mode::empty(), resolve)?)
}

/// Opens an entry of `/proc` if this kernel has it.
fn existing(proc: &OwnedFd, name: &str) -> io::Result<Option<OwnedFd>> {
    match rustix::fs::openat(proc, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Ok(fd) => Ok(Some(fd)),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn path_fd(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|error| step(&path.to_string_lossy(), &error.into()))
}

/// The path that leads to what a descriptor of this process refers to.
fn by_fd(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

fn c_string(text: String) -> io::Result<CString> {
    CString::new(text).map_err(io::Error::other)
}

fn relative(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}
