//! Deletions in layer form: whiteouts and opaque directories as overlayfs reads them with `userxattr`.
//!
//! A whiteout is a character device 0/0, which since Linux 5.8 needs no privilege to create. Where a file system
//! refuses it, an empty file with the attribute `user.overlay.whiteout` stands for it, in a directory marked
//! `user.overlay.opaque` = `x` (Linux 6.7, Documentation/filesystems/overlayfs.rst, "whiteouts and opaque
//! directories"). An opaque directory has `user.overlay.opaque` = `y` in both forms.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, XattrFlags};
use rustix::io::Errno;

const WHITEOUT: &str = "user.overlay.whiteout";
const OPAQUE: &str = "user.overlay.opaque";

/// Whether an attribute name belongs to overlayfs itself, and so must not come from an archive.
pub(crate) fn is_reserved_attribute(name: &[u8]) -> bool {
    name.starts_with(b"user.overlay.") || name.starts_with(b"trusted.")
}

/// Creates a whiteout called `name` in the directory `parent`, where nothing of that name exists.
pub(crate) fn create_whiteout(parent: impl AsFd, name: &OsStr) -> rustix::io::Result<()> {
    let parent = parent.as_fd();
    match rustix::fs::mknodat(
        parent,
        name,
        FileType::CharacterDevice,
        Mode::empty(),
        rustix::fs::makedev(0, 0),
    ) {
        Ok(()) => return Ok(()),
        Err(Errno::PERM | Errno::ACCESS | Errno::NOTSUP | Errno::INVAL) => {}
        Err(other) => return Err(other),
    }
    create_marked_file(parent, name)
}

/// Creates a whiteout in the form for file systems without device nodes.
fn create_marked_file(parent: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(parent, name, flags, Mode::RUSR | Mode::WUSR)?;
    rustix::fs::fsetxattr(&file, WHITEOUT, b"y", XattrFlags::empty())?;
    let directory = reopen(parent)?;
    let mut mark = [0_u8; 1];
    match rustix::fs::fgetxattr(&directory, OPAQUE, &mut mark[..]) {
        Ok(1) if mark == *b"y" => Ok(()),
        _ => rustix::fs::fsetxattr(&directory, OPAQUE, b"x", XattrFlags::empty()),
    }
}

/// Marks the directory `directory` as hiding everything of lower layers.
pub(crate) fn make_opaque(directory: impl AsFd) -> rustix::io::Result<()> {
    rustix::fs::fsetxattr(reopen(directory.as_fd())?, OPAQUE, b"y", XattrFlags::empty())
}

/// Opens a directory for reading that may be held by path only.
fn reopen(directory: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(directory, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Whether the object at `path` with this metadata (links not followed) is a whiteout.
pub(crate) fn is_whiteout(path: &Path, metadata: &Metadata) -> bool {
    let kind = metadata.file_type();
    if kind.is_char_device() {
        return metadata.rdev() == 0;
    }
    kind.is_file() && metadata.len() == 0 && rustix::fs::lgetxattr_query(path, WHITEOUT).is_ok()
}

/// Whether the directory at `path` hides everything of lower layers.
pub(crate) fn is_opaque(path: &Path) -> bool {
    let mut mark = [0_u8; 1];
    matches!(rustix::fs::lgetxattr(path, OPAQUE, &mut mark[..]), Ok(1)) && mark == *b"y"
}

/// Whether something other than a directory exists under `name`, without following links.
pub(crate) fn stat_at(parent: impl AsFd, name: &OsStr) -> rustix::io::Result<Option<FileType>> {
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(other) => Err(other),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use fs_err as fs;

    use super::*;

    /// Mounts an overlay in a user namespace and lists it; nothing where that is not permitted.
    fn mounted(lower: &Path, upper: &Path, at: &Path) -> Option<Vec<String>> {
        let script =
            "mount -t overlay none -o \"lowerdir=$1:$2,userxattr\" \"$3\" && cd \"$3\" && find . -mindepth 1";
        let output = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
            .args([upper, lower, at])
            .output();
        match output {
            Ok(output) if output.status.success() => {
                let mut names: Vec<String> =
                    String::from_utf8_lossy(&output.stdout).lines().map(|l| l[2..].to_owned()).collect();
                names.sort();
                Some(names)
            }
            other => {
                eprintln!("skipped: no overlay in a user namespace: {other:?}");
                None
            }
        }
    }

    #[test]
    fn the_kernel_reads_both_forms() {
        for marked in [false, true] {
            let root = tempfile::tempdir().unwrap();
            let [lower, upper, at] = ["lower", "upper", "at"].map(|name| root.path().join(name));
            for directory in
                [lower.join("sub"), lower.join("cut"), upper.join("sub"), upper.join("cut"), at.clone()]
            {
                fs::create_dir_all(directory).unwrap();
            }
            for file in ["gone", "stays", "sub/gone", "sub/stays", "cut/gone"] {
                fs::write(lower.join(file), file).unwrap();
            }
            fs::write(upper.join("cut/new"), "new").unwrap();
            for directory in [upper.clone(), upper.join("sub")] {
                let open = fs::File::open(&directory).unwrap();
                let name = OsStr::new("gone");
                if marked {
                    create_marked_file(open.as_fd(), name).unwrap();
                } else {
                    create_whiteout(&open, name).unwrap();
                }
                let path = directory.join(name);
                assert!(is_whiteout(&path, &fs::symlink_metadata(&path).unwrap()));
            }
            make_opaque(fs::File::open(upper.join("cut")).unwrap()).unwrap();
            assert!(is_opaque(&upper.join("cut")) && !is_opaque(&upper.join("sub")));
            if let Some(names) = mounted(&lower, &upper, &at) {
                assert_eq!(names, ["cut", "cut/new", "stays", "sub", "sub/stays"], "marked: {marked}");
            }
        }
    }
}
