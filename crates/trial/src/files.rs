//! A trial's directory on the host, and what travels into sandboxes as tar streams.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use fs_err as fs;
use sandbox::{Archive, ArchiveWriter};

use crate::rewards::plain_name;

/// Nothing of a task that travels into a sandbox is larger than this.
const PACK_LIMIT: u64 = 2 << 30;

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
        let name =
            plain_name(Path::new(name)).ok_or_else(|| io::Error::other(format!("odd file name {name:?}")))?;
        let path = self.directory.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, bytes)
    }

    /// Writes a file whose appearance means something, such as `result.json`: temporary name, sync, rename.
    pub(crate) fn write_whole(&self, name: &str, bytes: &[u8]) -> Result<(), artifact::ArtifactError> {
        artifact::write_atomic(&self.directory.join(name), bytes)
    }

    /// Unpacks the regular files of a tar stream that came out of a sandbox; links and special files stay behind.
    pub(crate) fn unpack(&self, archive: &Archive, below: &str) -> io::Result<()> {
        for entry in archive.as_tar().entries()? {
            let mut entry = entry?;
            let path = entry.path()?.into_owned();
            if !entry.header().entry_type().is_file() {
                continue;
            }
            if let Some(name) = plain_name(&path) {
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes)?;
                self.write(&format!("{below}/{name}"), &bytes)?;
            }
        }
        Ok(())
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

/// Packs a directory of a task: sorted, owned by root, links kept as links, scripts executable.
pub(crate) fn pack(directory: &Path) -> io::Result<Archive> {
    Archive::pack(|builder| pack_into(builder, directory))
}

fn pack_into(builder: &mut tar::Builder<ArchiveWriter>, directory: &Path) -> io::Result<()> {
    let mut size = 0;
    let mut pending = vec![PathBuf::new()];
    while let Some(relative) = pending.pop() {
        let mut entries: Vec<_> = fs::read_dir(directory.join(&relative))?.collect::<Result<_, _>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
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
                builder.append_data(&mut header, &path, io::empty())?;
                pending.push(path);
            } else if metadata.is_symlink() {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_mode(0o777);
                header.set_size(0);
                builder.append_link(&mut header, &path, std::fs::read_link(entry.path())?)?;
            } else if metadata.is_file() {
                size += metadata.len();
                if size > PACK_LIMIT {
                    return Err(io::Error::other(format!("more than {} GiB", PACK_LIMIT >> 30)));
                }
                header.set_mode(mode_of(&metadata, &path));
                header.set_size(metadata.len());
                let file = std::fs::File::open(entry.path())?;
                builder.append_data(&mut header, &path, file.take(metadata.len()))?;
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
    let script = path == Path::new("test.sh") || path == Path::new("solve.sh");
    if script || metadata.permissions().mode() & 0o111 != 0 { 0o755 } else { 0o644 }
}

/// `/logs/agent` and `/logs/artifacts`, open to whatever user the agent runs as.
pub(crate) fn log_directories() -> Archive {
    directories(&[("agent", 0o777), ("artifacts", 0o777)])
}

/// `/logs/verifier`, closed to everybody but root until the verifier runs.
pub(crate) fn verifier_directory() -> Archive {
    directories(&[("verifier", 0o755)])
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
        let tar = pack(root).unwrap();
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
        files.unpack(&tar, "agent").unwrap();
        assert!(!directory.path().join("evil").exists());
        assert!(!directory.path().join("trial/agent").exists());
    }
}
