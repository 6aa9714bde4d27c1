//! Writing packages.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ident::{Digest, Sha256Writer};
use tar::{Builder, EntryType, Header};
use walkdir::WalkDir;

use super::{SUFFIX, SUM_SUFFIX};
use crate::sums::{self, SUMS};
use crate::{DatasetError, Manifest};

/// How hard the archive is compressed: beyond this, time grows much faster than size falls.
const LEVEL: i32 = 6;
/// A bound for the file with the sums.
const SUMS_LIMIT: u64 = 1 << 30;

/// What is at a path below the set.
enum Member {
    Directory,
    /// A file, with its digest where `SHA256SUMS` lists it.
    File(Option<Digest>),
    /// A link and what it points at.
    Link(PathBuf),
}

/// Writes `<set>.tar.zst` and `<set>.tar.zst.sha256` into `root`. The set was verified before; a file that is another one by the time it
/// is packed is an error. One file is in memory at a time, in pieces.
pub(crate) fn pack(frozen: &Path, manifest: &Manifest, root: &Path) -> Result<(), DatasetError> {
    let set = manifest.directory();
    let name = format!("{set}{SUFFIX}");
    let path = root.join(&name);
    let failed = || DatasetError::io(&path);
    let file = BufWriter::with_capacity(1 << 20, File::create(&path).map_err(failed())?);
    let mut zstd = zstd::Encoder::new(Sha256Writer::new(file), LEVEL).map_err(failed())?;
    zstd.include_checksum(true).map_err(failed())?;
    let mut tar = Builder::new(zstd);
    append(&mut tar, &Member::Directory, Path::new(&set), frozen).map_err(failed())?;
    for (member, kind) in members(frozen, manifest)? {
        let below = Path::new(OsStr::from_bytes(&member));
        let from = frozen.join(below);
        append(&mut tar, &kind, &Path::new(&set).join(below), &from).map_err(DatasetError::io(&from))?;
    }
    let written = tar.into_inner().and_then(zstd::Encoder::finish).map_err(failed())?;
    let (digest, mut file) = written.finish();
    file.flush().map_err(failed())?;
    let sum = format!("{digest}  {name}\n");
    artifact::write_atomic(&root.join(format!("{name}{SUM_SUFFIX}")), sum.as_bytes())?;
    Ok(())
}

/// Everything that belongs to the set, by the bytes of its path below it.
fn members(frozen: &Path, manifest: &Manifest) -> Result<BTreeMap<Vec<u8>, Member>, DatasetError> {
    let (listed, _) = sums::parse(&artifact::read_bounded(&frozen.join(SUMS), SUMS_LIMIT)?);
    let mut members = BTreeMap::from([(SUMS.as_bytes().to_vec(), Member::File(None))]);
    let tasks = frozen.join("tasks");
    for entry in WalkDir::new(&tasks).follow_links(false) {
        let entry = entry.map_err(|error| DatasetError::Io {
            path: error.path().unwrap_or(&tasks).to_owned(),
            source: error.into(),
        })?;
        let Ok(below) = entry.path().strip_prefix(frozen) else { continue };
        if entry.file_type().is_dir() {
            members.insert(below.as_os_str().as_bytes().to_vec(), Member::Directory);
        }
    }
    for (path, digest) in listed {
        members.insert(path, Member::File(Some(digest)));
    }
    for task in &manifest.tasks {
        for (link, target) in &task.links {
            let path = format!("tasks/{}/{link}", task.task_id).into_bytes();
            members.insert(path, Member::Link(PathBuf::from(target)));
        }
    }
    Ok(members)
}

fn append<W: Write>(tar: &mut Builder<W>, member: &Member, name: &Path, from: &Path) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    header.set_mode(0o755);
    match member {
        Member::Directory => {
            header.set_entry_type(EntryType::Directory);
            tar.append_data(&mut header, name.join(""), io::empty())
        }
        Member::Link(target) => {
            header.set_entry_type(EntryType::Symlink);
            tar.append_link(&mut header, name, target)
        }
        Member::File(expected) => {
            let file = File::open(from)?;
            let metadata = file.metadata()?;
            let is_executable = std::os::unix::fs::MetadataExt::mode(&metadata) & 0o100 != 0;
            header.set_entry_type(EntryType::Regular);
            header.set_mode(if is_executable { 0o755 } else { 0o644 });
            header.set_size(metadata.len());
            let mut hashed = Hashed { inner: file.take(metadata.len()), hash: Sha256Writer::new(io::sink()) };
            tar.append_data(&mut header, name, &mut hashed)?;
            let is_as_listed = expected.is_none_or(|digest| hashed.hash.finish().0 == digest);
            if is_as_listed { Ok(()) } else { Err(io::Error::other("was changed while it was packed")) }
        }
    }
}

/// Hashes what is read through it.
struct Hashed<R> {
    inner: R,
    hash: Sha256Writer<io::Sink>,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hash.write_all(&buffer[..count])?;
        Ok(count)
    }
}
