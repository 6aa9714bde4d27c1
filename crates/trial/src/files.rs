//! A trial's directory on the host, and what travels into sandboxes as tar streams.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;

use fs_err as fs;
use fs_err::File;
use sandbox::{Archive, ArchiveWriter, append_entry};

/// Nothing of a task that travels into a sandbox is larger than this.
const PACK_LIMIT: u64 = 2 << 30;
/// Nothing that comes out of a sandbox is more files than this.
const MAX_FILES: u64 = 65_536;

/// The directory of one trial. Files appear whole under their names.
#[derive(Debug)]
pub(crate) struct TrialFiles {
    directory: PathBuf,
    log: Mutex<String>,
}

impl TrialFiles {
    /// Creates the directory, which must not exist.
    pub(crate) fn create(directory: PathBuf) -> io::Result<Self> {
        if let Some(parent) = directory.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::create_dir(&directory)?;
        Ok(Self { directory, log: Mutex::default() })
    }

    /// Writes one file at a relative name of plain components.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.path_of(name)?;
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, bytes)
    }

    /// Creates a file at a relative name of plain components, which grows while the trial runs.
    pub(crate) fn create_file(&self, name: &str) -> io::Result<std::fs::File> {
        let path = self.path_of(name)?;
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        Ok(file.into_parts().0)
    }

    /// Where a relative name of plain components lies.
    pub(crate) fn path_of(&self, name: &str) -> io::Result<PathBuf> {
        let name =
            plain_name(Path::new(name)).ok_or_else(|| io::Error::other(format!("odd file name {name:?}")))?;
        Ok(self.directory.join(name))
    }

    /// Writes a file whose appearance means something, such as `result.json`: temporary name, sync, rename.
    pub(crate) fn write_whole(&self, name: &str, bytes: &[u8]) -> Result<(), artifact::ArtifactError> {
        artifact::write_atomic(&self.directory.join(name), bytes)
    }

    /// Creates a directory at a relative name of plain components; one that is there is left as it is.
    pub(crate) fn create_directory(&self, name: &str) -> io::Result<()> {
        self.quietly(name, fs::create_dir_all(self.path_of(name)?)).map(|_| ())
    }

    /// Unpacks the regular files of a tar stream that came out of a sandbox, each to where `place` wants it. Links and special
    /// files stay behind, and so does what would stand in place of something that is there already. Returns how many files
    /// were written. Memory does not grow with what is unpacked.
    pub(crate) fn unpack(
        &self,
        archive: &Archive,
        place: impl Fn(&str) -> Option<String>,
    ) -> io::Result<u64> {
        let mut kept = 0;
        for entry in archive.as_tar().entries()? {
            let mut entry = entry?;
            if !entry.header().entry_type().is_file() {
                continue;
            }
            let Some(name) = plain_name(&entry.path()?).and_then(|name| place(&name)) else { continue };
            if kept == MAX_FILES {
                self.log(&format!("left out: {name} and what follows it, more than {MAX_FILES} files"));
                break;
            }
            let path = self.path_of(&name)?;
            let made = path.parent().map_or(Ok(()), fs::create_dir_all);
            let opened = made.and_then(|()| File::options().write(true).create_new(true).open(&path));
            if let Some(mut file) = self.quietly(&name, opened)? {
                io::copy(&mut entry, &mut file)?;
                kept += 1;
            }
        }
        Ok(kept)
    }

    /// Names that came out of a sandbox may be too long for this file system or collide with others; that is noted and no
    /// reason to lose the trial.
    fn quietly<T>(&self, name: &str, result: io::Result<T>) -> io::Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::AlreadyExists
                        | io::ErrorKind::NotADirectory
                        | io::ErrorKind::IsADirectory
                        | io::ErrorKind::InvalidFilename
                ) =>
            {
                self.log(&format!("left out: {name}: {error}"));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Adds a line to `trial.log`.
    pub(crate) fn log(&self, line: &str) {
        let mut log = self.log.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        log.push_str(line);
        log.push('\n');
    }

    /// Writes `trial.log`.
    pub(crate) fn finish_log(&self) -> io::Result<()> {
        let log = self.log.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        self.write("trial.log", log.as_bytes())
    }
}

/// Packs directories of a task into one archive, later ones over earlier ones: sorted, owned by root, links kept as links,
/// scripts executable.
pub(crate) fn pack(directories: &[impl AsRef<Path>]) -> io::Result<Archive> {
    pack_without(directories, &BTreeSet::new())
}

/// The same without these paths and what is below them.
pub(crate) fn pack_without(
    directories: &[impl AsRef<Path>],
    left_out: &BTreeSet<PathBuf>,
) -> io::Result<Archive> {
    let mut size = 0;
    Archive::pack(|builder| {
        directories
            .iter()
            .try_for_each(|directory| pack_into(builder, directory.as_ref(), left_out, &mut size))
    })
}

fn pack_into(
    builder: &mut tar::Builder<ArchiveWriter>,
    directory: &Path,
    left_out: &BTreeSet<PathBuf>,
    size: &mut u64,
) -> io::Result<()> {
    let mut pending = vec![PathBuf::new()];
    while let Some(relative) = pending.pop() {
        let mut entries: Vec<_> = fs::read_dir(directory.join(&relative))?.collect::<Result<_, _>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries.into_iter().filter(|entry| !left_out.contains(&entry.path())) {
            let path = relative.join(entry.file_name());
            let metadata = entry.metadata()?;
            let mut header = tar::Header::new_gnu();
            header.set_uid(0);
            header.set_gid(0);
            header.set_mtime(0);
            if metadata.is_dir() {
                header.set_entry_type(tar::EntryType::Directory);
                header.set_mode(0o755);
                header.set_size(0);
                append_entry(builder, &mut header, &path, None, io::empty())?;
                pending.push(path);
            } else if metadata.is_symlink() {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_mode(0o777);
                header.set_size(0);
                let to = std::fs::read_link(entry.path())?;
                append_entry(builder, &mut header, &path, Some(&to), io::empty())?;
            } else if metadata.is_file() {
                *size += metadata.len();
                if *size > PACK_LIMIT {
                    return Err(io::Error::other(format!("more than {} GiB", PACK_LIMIT >> 30)));
                }
                header.set_mode(mode_of(&metadata, &path));
                header.set_size(metadata.len());
                let file = std::fs::File::open(entry.path())?;
                append_entry(builder, &mut header, &path, None, file.take(metadata.len()))?;
            } else {
                return Err(io::Error::other(format!(
                    "{} is neither a file nor a directory",
                    path.display()
                )));
            }
        }
    }
    Ok(())
}

/// The executable bit as it stands, and always for the scripts that a trial starts.
fn mode_of(metadata: &std::fs::Metadata, path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    let script = ["test.sh", "solve.sh", "setup.sh"].iter().any(|script| path == Path::new(script));
    if script || metadata.permissions().mode() & 0o111 != 0 { 0o755 } else { 0o644 }
}

/// One script as an archive, executable.
pub(crate) fn pack_script(name: &str, text: &str) -> io::Result<Archive> {
    Archive::pack(|builder| {
        let mut header = tar::Header::new_gnu();
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_mode(0o755);
        header.set_size(text.len() as u64);
        append_entry(builder, &mut header, Path::new(name), None, text.as_bytes())
    })
}

/// `/logs/agent` and `/logs/artifacts`, open to whatever user the agent runs as.
pub(crate) fn log_directories() -> Archive {
    directories(&[("agent", 0o777), ("artifacts", 0o777)])
}

/// `/logs/verifier`, new and empty. Only a verifier that is not root needs it open.
pub(crate) fn verifier_directory(open: bool) -> Archive {
    directories(&[("verifier", if open { 0o777 } else { 0o755 })])
}

/// A relative path of plain components as text; odd bytes are escaped, anything that points elsewhere is dropped.
pub(crate) fn plain_name(path: &Path) -> Option<String> {
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
            Component::CurDir => {}
            _ => return None,
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

fn directories(names: &[(&str, u32)]) -> Archive {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, mode) in names {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_mode(*mode);
        header.set_size(0);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        builder.append_data(&mut header, name, io::empty()).expect("writing to memory does not fail");
    }
    builder.into_inner().expect("writing to memory does not fail").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_directory_is_sorted_and_keeps_links() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        std::fs::create_dir(root.join("b")).unwrap();
        std::fs::write(root.join("b/inner"), "2").unwrap();
        std::fs::write(root.join("solve.sh"), "1").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", root.join("link")).unwrap();
        let tar = pack(&[root]).unwrap();
        let seen: Vec<_> = tar
            .as_tar()
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                (
                    entry.path().unwrap().display().to_string(),
                    header.entry_type().is_file(),
                    header.mode().unwrap(),
                )
            })
            .collect();
        let expected = [
            ("b", false, 0o755),
            ("link", false, 0o777),
            ("solve.sh", true, 0o755),
            ("b/inner", true, 0o644),
        ];
        assert_eq!(seen, expected.map(|(name, file, mode)| (name.to_owned(), file, mode)));
    }

    #[test]
    fn what_comes_out_of_a_sandbox_stays_in_its_directory() {
        let directory = tempfile::tempdir().unwrap();
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(1);
        header.set_mode(0o644);
        header.as_gnu_mut().unwrap().name[..11].copy_from_slice(b"../../evil\0");
        header.set_cksum();
        builder.append(&header, &b"x"[..]).unwrap();
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        builder.append_link(&mut header, "link", "/etc/passwd").unwrap();
        let tar = Archive::from(builder.into_inner().unwrap());
        let files = TrialFiles::create(directory.path().join("trial")).unwrap();
        assert_eq!(files.unpack(&tar, |name| Some(format!("agent/{name}"))).unwrap(), 0);
        assert!(!directory.path().join("evil").exists());
        assert!(!directory.path().join("trial/agent").exists());
    }

    #[test]
    fn what_stands_in_the_way_is_left_out_and_said() {
        let directory = tempfile::tempdir().unwrap();
        let files = TrialFiles::create(directory.path().join("trial")).unwrap();
        files.write("agent/oracle.txt", b"ours").unwrap();
        let long = "x".repeat(200);
        let tar = Archive::pack(|builder| {
            for name in ["oracle.txt", "oracle.txt/below", "kept", &format!("{long}{long}")] {
                let mut header = tar::Header::new_gnu();
                header.set_size(1);
                header.set_mode(0o644);
                builder.append_data(&mut header, name, &b"1"[..])?;
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(files.unpack(&tar, |name| Some(format!("agent/{name}"))).unwrap(), 1);
        assert_eq!(std::fs::read(directory.path().join("trial/agent/oracle.txt")).unwrap(), b"ours");
        assert_eq!(std::fs::read(directory.path().join("trial/agent/kept")).unwrap(), b"1");
        files.finish_log().unwrap();
        let log = std::fs::read_to_string(directory.path().join("trial/trial.log")).unwrap();
        assert_eq!(log.matches("left out: agent/").count(), 3, "{log}");
    }

    #[test]
    fn later_directories_go_over_earlier_ones() {
        let directory = tempfile::tempdir().unwrap();
        let both = ["one", "two"].map(|name| directory.path().join(name));
        for part in &both {
            std::fs::create_dir(part).unwrap();
            std::fs::write(part.join("test.sh"), part.as_os_str().as_encoded_bytes()).unwrap();
        }
        let tar = pack(&both).unwrap();
        let mut texts = Vec::new();
        for entry in tar.as_tar().entries().unwrap() {
            let mut text = String::new();
            entry.unwrap().read_to_string(&mut text).unwrap();
            texts.push(text);
        }
        assert_eq!(texts, both.map(|path| path.display().to_string()));
    }
}
