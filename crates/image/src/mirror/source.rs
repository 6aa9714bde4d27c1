//! Where images come from: other registries, and OCI layouts on this machine.

use std::fs::File;
use std::io::{Read as _, Take};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use record::ImageSource;
use tokio::io::AsyncReadExt as _;

use crate::blobs::Blobs as _;
use crate::digest::is_hex64;
use crate::manifest::{MAX_MANIFEST, broken};
use crate::registry::{ByteStream, Registry};
use crate::{ImageError, ImageRef, Layout, RemoteRef};

/// What stands in front of the name of an image that is in a layout on this machine, where a plan names the source of an image.
pub const IN_LAYOUT: &str = "oci:";

/// Bytes read from a file at once.
const PIECE: usize = 256 << 10;

/// A place that has images.
#[derive(Clone)]
pub(super) enum Source {
    Registry(Registry, RemoteRef),
    Layouts(Arc<Layouts>),
}

/// All layouts that a project knows: whichever has a digest gives it.
pub(super) struct Layouts(Vec<Layout>);

/// Opens what plans name as a source.
pub(super) struct Sources {
    registry: Registry,
    layouts: Arc<Layouts>,
}

impl Sources {
    pub(super) fn new(registry: Registry, layouts: &[Layout]) -> Self {
        Self { registry, layouts: Arc::new(Layouts(layouts.to_vec())) }
    }

    /// The source that a plan names: a reference, or a place on this machine. Content is asked for by digest, so that the name
    /// is for people.
    pub(super) fn open(&self, text: &str) -> Result<Source, ImageError> {
        if ImageSource::is_prefix_of(text) {
            return Ok(Source::Layouts(Arc::clone(&self.layouts)));
        }
        let reference: ImageRef = text.parse()?;
        self.remote(&reference).ok_or_else(|| ImageError::NotFound {
            reference: text.to_owned(),
            reason: "it exists on this machine only".to_owned(),
        })
    }

    /// The registry of a reference, if it is in one.
    pub(super) fn remote(&self, reference: &ImageRef) -> Option<Source> {
        Some(Source::Registry(self.registry.clone(), reference.remote()?.clone()))
    }
}

impl Source {
    /// The bytes of a manifest, which the caller verifies. A registry is asked once for each; what it gave is kept.
    pub(super) async fn manifest(&self, digest: &str) -> Result<Vec<u8>, ImageError> {
        match self {
            Self::Registry(registry, reference) => registry.manifest_by_digest(reference, digest).await,
            Self::Layouts(layouts) => {
                let mut file = layouts.find(digest)?;
                if file.limit() > MAX_MANIFEST {
                    let what = format!("has {} bytes; at most {MAX_MANIFEST} are read", file.limit());
                    return Err(broken(digest, what));
                }
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes).map_err(|e| ImageError::io(format!("reading {digest}"), e))?;
                Ok(bytes)
            }
        }
    }

    /// The content of a blob, not verified yet.
    pub(super) async fn blob(&self, digest: &str) -> Result<ByteStream, ImageError> {
        match self {
            Self::Registry(registry, reference) => registry.blob_stream(reference, digest).await,
            Self::Layouts(layouts) => {
                let file = layouts.find(digest)?;
                let (size, reading) = (file.limit(), format!("reading {digest}"));
                let file = tokio::fs::File::from_std(file.into_inner()).take(size);
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

    /// Where the source is, for messages. Sources of one place are the same.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Registry(_, reference) => format!("{}/{}", reference.host(), reference.path()),
            Self::Layouts(_) => "the layouts of this machine".to_owned(),
        }
    }

    /// The repository, where the source is a registry.
    pub(super) fn repository(&self) -> Option<&RemoteRef> {
        match self {
            Self::Registry(_, reference) => Some(reference),
            Self::Layouts(_) => None,
        }
    }
}

impl Layouts {
    /// A blob, ready to be read.
    fn find(&self, digest: &str) -> Result<Take<File>, ImageError> {
        let missing = || ImageError::NotFound {
            reference: digest.to_owned(),
            reason: "no layout of this machine has it".to_owned(),
        };
        let hex = digest.strip_prefix("sha256:").filter(|hex| is_hex64(hex)).ok_or_else(missing)?;
        for layout in &self.0 {
            if let Some(file) = layout.blobs().find(hex)? {
                return Ok(file);
            }
        }
        Err(missing())
    }
}
