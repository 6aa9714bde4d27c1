//! Where images come from: other registries, OCI layouts in directories, OCI layouts in archives.

use std::collections::BTreeMap;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::stream;
use tokio::io::AsyncReadExt as _;

use crate::blobs::BlobDirectory;
use crate::digest::is_hex64;
use crate::manifest::{MAX_MANIFEST, broken};
use crate::registry::{ByteStream, Registry};
use crate::stack::open_file;
use crate::{ImageError, ImageRef, RemoteRef};

/// What stands in front of the path of a layout.
const LAYOUT: [&str; 2] = ["oci:", "oci-archive:"];
/// Bytes read from a file at once.
const PIECE: usize = 256 << 10;
/// Most entries of an archive.
const MAX_ENTRIES: usize = 200_000;

/// A place that has images.
#[derive(Clone)]
pub(super) enum Source {
    Registry(Registry, RemoteRef),
    Layout(Arc<LayoutFiles>),
}

/// Opens sources, layouts once however many images they hold.
pub(super) struct Sources {
    registry: Registry,
    /// What relative paths are relative to.
    root: PathBuf,
    layouts: Mutex<BTreeMap<PathBuf, Arc<LayoutFiles>>>,
}

/// The blobs of a layout.
pub(super) struct LayoutFiles {
    path: PathBuf,
    kind: LayoutKind,
}

enum LayoutKind {
    Directory(BlobDirectory),
    /// Where blobs begin in an archive and how long they are, by the digits of their digest.
    Archive(BTreeMap<String, (u64, u64)>),
}

impl Sources {
    pub(super) fn new(registry: Registry, root: PathBuf) -> Self {
        Self { registry, root, layouts: Mutex::default() }
    }

    /// The source that a plan names: a reference, or `oci:PATH` with an optional `:NAME` behind it.
    pub(super) fn open(&self, text: &str) -> Result<Source, ImageError> {
        let Some(path) = LAYOUT.iter().find_map(|prefix| text.strip_prefix(prefix)) else {
            let reference: ImageRef = text.parse()?;
            let not_found = || ImageError::NotFound {
                reference: text.to_owned(),
                reason: "it exists on this machine only".to_owned(),
            };
            let remote = reference.remote().ok_or_else(not_found)?;
            return Ok(Source::Registry(self.registry.clone(), remote.clone()));
        };
        let whole = self.root.join(path);
        // The name is not needed: content is asked for by digest.
        let path = match path.rsplit_once(':') {
            Some((path, _)) if !whole.exists() => self.root.join(path),
            _ => whole,
        };
        let mut layouts = self.layouts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(layout) = layouts.get(&path) {
            return Ok(Source::Layout(Arc::clone(layout)));
        }
        let layout = Arc::new(LayoutFiles::open(&path)?);
        layouts.insert(path, Arc::clone(&layout));
        Ok(Source::Layout(layout))
    }
}

impl Source {
    /// The bytes of a manifest, which the caller verifies. A registry is asked once for each; what it gave is kept.
    pub(super) async fn manifest(&self, digest: &str) -> Result<Vec<u8>, ImageError> {
        match self {
            Self::Registry(registry, reference) => registry.manifest_by_digest(reference, digest).await,
            Self::Layout(layout) => {
                let (mut file, size) = layout.find(digest)?;
                if size > MAX_MANIFEST {
                    let what = format!("{digest} has {size} bytes; at most {MAX_MANIFEST} are read");
                    return Err(broken(&layout.place(), what));
                }
                let mut bytes = Vec::new();
                file.by_ref()
                    .take(size)
                    .read_to_end(&mut bytes)
                    .map_err(|e| ImageError::io(format!("reading {}", layout.place()), e))?;
                Ok(bytes)
            }
        }
    }

    /// The content of a blob, not verified yet.
    pub(super) async fn blob(&self, digest: &str) -> Result<ByteStream, ImageError> {
        match self {
            Self::Registry(registry, reference) => registry.blob_stream(reference, digest).await,
            Self::Layout(layout) => {
                let (file, size) = layout.find(digest)?;
                let reading = format!("reading {}", layout.place());
                let file = tokio::fs::File::from_std(file).take(size);
                Ok(Box::pin(stream::try_unfold((file, reading), async |(mut file, reading)| {
                    let mut piece = Vec::with_capacity(PIECE);
                    let read = (&mut file).take(PIECE as u64).read_to_end(&mut piece).await;
                    match read {
                        Ok(0) => Ok(None),
                        Ok(_) => Ok(Some((Bytes::from(piece), (file, reading)))),
                        Err(error) => Err(ImageError::io(reading, error)),
                    }
                })))
            }
        }
    }

    /// Where the source is, for messages.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Registry(_, reference) => format!("{}/{}", reference.host(), reference.path()),
            Self::Layout(layout) => layout.place(),
        }
    }

    /// The repository, where the source is a registry.
    pub(super) fn repository(&self) -> Option<&RemoteRef> {
        match self {
            Self::Registry(_, reference) => Some(reference),
            Self::Layout(_) => None,
        }
    }
}

impl LayoutFiles {
    fn open(path: &Path) -> Result<Self, ImageError> {
        let found = fs_err::metadata(path).map_err(|e| ImageError::io("opening a layout", e))?;
        let kind = if found.is_dir() {
            if !path.join("oci-layout").exists() {
                return Err(broken(
                    &path.display().to_string(),
                    "is no OCI layout: it has no file oci-layout",
                ));
            }
            LayoutKind::Directory(BlobDirectory::new(path))
        } else {
            LayoutKind::Archive(list(path)?)
        };
        Ok(Self { path: path.to_owned(), kind })
    }

    fn place(&self) -> String {
        format!("layout {}", self.path.display())
    }

    /// A file that stands at the beginning of a blob, and the blob's length.
    fn find(&self, digest: &str) -> Result<(std::fs::File, u64), ImageError> {
        let missing = || ImageError::NotFound { reference: digest.to_owned(), reason: self.place() };
        let hex = digest.strip_prefix("sha256:").filter(|hex| is_hex64(hex)).ok_or_else(missing)?;
        let reading = |e| ImageError::io(format!("reading {}", self.place()), e);
        match &self.kind {
            LayoutKind::Directory(blobs) => {
                let path = blobs.path(hex);
                let found = fs_err::symlink_metadata(&path).map_err(|_| missing())?;
                if !found.is_file() {
                    return Err(missing());
                }
                Ok((open_file(&path)?, found.len()))
            }
            LayoutKind::Archive(entries) => {
                let (offset, size) = *entries.get(hex).ok_or_else(missing)?;
                let mut file = open_file(&self.path)?;
                file.seek(SeekFrom::Start(offset)).map_err(reading)?;
                Ok((file, size))
            }
        }
    }
}

/// Finds the blobs of a layout in an archive without compression.
fn list(path: &Path) -> Result<BTreeMap<String, (u64, u64)>, ImageError> {
    let place = path.display().to_string();
    let reading = |e| ImageError::io(format!("reading {place}"), e);
    let mut archive = tar::Archive::new(open_file(path)?);
    let mut blobs = BTreeMap::new();
    let mut is_layout = false;
    for (number, entry) in archive.entries_with_seek().map_err(reading)?.enumerate() {
        let unreadable =
            |e: std::io::Error| broken(&place, format!("is no archive without compression: {e}"));
        let entry = entry.map_err(unreadable)?;
        if number >= MAX_ENTRIES {
            return Err(broken(&place, format!("has more than {MAX_ENTRIES} entries")));
        }
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = entry.path().map_err(unreadable)?;
        let parts: Vec<&str> = name
            .components()
            .filter(|part| !matches!(part, Component::CurDir))
            .map(|part| part.as_os_str().to_str().unwrap_or_default())
            .collect();
        match parts[..] {
            ["oci-layout"] => is_layout = true,
            ["blobs", "sha256", hex] if is_hex64(hex) => {
                blobs.insert(hex.to_owned(), (entry.raw_file_position(), entry.size()));
            }
            _ => {}
        }
    }
    if is_layout {
        Ok(blobs)
    } else {
        Err(broken(&place, "is no archive of an OCI layout: it has no file oci-layout"))
    }
}
