//! Content by digest in files, `blobs/sha256/<hex>`: the heart of an OCI layout, and the cache of a registry.

use std::fs::File;
use std::io::{Read as _, Take};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ident::Digest;

use crate::chain::Chain;
use crate::digest::{Fields, HashingReader};
use crate::layer_path::LayerPath;
use crate::manifest::{self, Descriptor, Document, ImageFile, MAX_CONFIG, MAX_MANIFEST, Manifest};
use crate::stack::open_file;
use crate::store::{LayerKey, LayerStore, StoredLayer};
use crate::tar_file::TarFile;
use crate::unpack::{Rules, UnpackLimits, unpack_into};
use crate::writer::LayerWriter;
use crate::{ImageError, RootImage, archive};

/// Bytes that may follow the end of a layer's archive; writers pad to some block size.
const MAX_PADDING: u64 = 64 << 20;

/// An image that was found by reference and unpacked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedImage {
    /// The image, ready to be mounted. Its digest is taken over the layers and the configuration that matters here,
    /// so the same image has the same digest however it was compressed, packed and fetched.
    pub image: RootImage,
    /// Digest of what the reference named: an index or a manifest. Pin references to this.
    pub resolved: Digest,
    /// Digest of the manifest for this machine; the same as `resolved` unless that is an index.
    pub manifest: Digest,
}

/// Content by digest, wherever it lies.
pub(crate) trait Blobs {
    /// A blob, ready to be read to its end; none where it is not there.
    fn find(&self, hex: &str) -> Result<Option<Take<File>>, ImageError>;

    /// Where a blob is, or would be, for people.
    fn place(&self, hex: &str) -> String;

    /// A blob that has to be there.
    fn open(&self, hex: &str) -> Result<Take<File>, ImageError> {
        self.find(hex)?.ok_or_else(|| manifest::broken(&self.place(hex), "is missing"))
    }

    /// Reads a small blob and verifies it.
    fn read(&self, descriptor: &Descriptor, limit: u64) -> Result<Vec<u8>, ImageError> {
        let hex = descriptor.hex("descriptor")?;
        let place = self.place(hex);
        if descriptor.size > limit {
            return Err(manifest::broken(
                &place,
                format!("has {} bytes; at most {limit} are read", descriptor.size),
            ));
        }
        let bytes = self.bytes(hex, limit)?;
        manifest::verify(&place, &bytes, descriptor)?;
        Ok(bytes)
    }

    /// Reads a small blob of which only the digest is known, and verifies it.
    fn read_whole(&self, digest: Digest, limit: u64) -> Result<Vec<u8>, ImageError> {
        let bytes = self.bytes(&digest.hex(), limit.saturating_add(1))?;
        let found = Digest::of(&bytes);
        if found == digest {
            return Ok(bytes);
        }
        let place = self.place(&digest.hex());
        Err(ImageError::Digest { place, expected: digest.prefixed(), found: found.prefixed() })
    }

    /// The first bytes of a blob, at most `limit` of them.
    fn bytes(&self, hex: &str, limit: u64) -> Result<Vec<u8>, ImageError> {
        let mut bytes = Vec::new();
        let read = self.open(hex)?.take(limit).read_to_end(&mut bytes);
        read.map_err(|e| ImageError::io(format!("reading {}", self.place(hex)), e))?;
        Ok(bytes)
    }

    /// Reads the configuration of an image.
    fn config(&self, manifest: &Manifest) -> Result<ImageFile, ImageError> {
        let bytes = self.read(&manifest.config, MAX_CONFIG)?;
        let place = self.place(manifest.config.hex("configuration")?);
        manifest::read_config(&place, &bytes, manifest.layers.len())
    }

    /// Unpacks what is not in the store yet and puts the image together.
    fn assemble(
        &self,
        origin: &str,
        manifest: &Manifest,
        file: &ImageFile,
        store: &LayerStore,
        limits: &UnpackLimits,
    ) -> Result<RootImage, ImageError> {
        let mut layers = Vec::new();
        let mut chain = Chain::empty();
        for (descriptor, diff_id) in manifest.layers.iter().zip(&file.diff_ids) {
            let origin = format!("{origin} {}", descriptor.digest);
            let make = |into: &Path| self.unpack(descriptor, diff_id, into, limits);
            let stored: StoredLayer = store.get_or_make(&stored_key(diff_id), &origin, make)?;
            layers.extend(stored.layer());
            chain = chain.push(diff_id);
        }
        let digest = chain.image_digest(&file.config);
        Ok(RootImage { layers, config: file.config.clone(), digest })
    }

    /// Unpacks a layer blob and verifies, on the way, the digests of the blob and of the archive inside.
    fn unpack(
        &self,
        descriptor: &Descriptor,
        diff_id: &LayerKey,
        into: &Path,
        limits: &UnpackLimits,
    ) -> Result<(), ImageError> {
        let hex = descriptor.hex("layer")?;
        let place = self.place(hex);
        let reading = |e| ImageError::io(format!("reading {place}"), e);
        let mut blob = HashingReader::new(self.open(hex)?);
        let mut tar = HashingReader::new(archive::inflate(&place, Box::new(&mut blob))?);
        let mut writer = LayerWriter::open(into, &|_| None)?;
        let mut whole = |path: &LayerPath, _: bool| Ok(path.clone());
        let rules = Rules { whiteouts: true, owner: None, time: None, place: &mut whole };
        unpack_into(&place, &mut tar, &mut writer, limits, rules)?;
        writer.finish()?;
        let (found, _) = tar.finish(MAX_PADDING).map_err(reading)?;
        check(&place, diff_id.as_str(), &found)?;
        let (found, size) = blob.finish(MAX_PADDING).map_err(reading)?;
        check(&place, hex, &found)?;
        if size != descriptor.size {
            return Err(manifest::broken(&place, format!("has {size} bytes, expected {}", descriptor.size)));
        }
        Ok(())
    }
}

impl Blobs for BlobDirectory {
    fn find(&self, hex: &str) -> Result<Option<Take<File>>, ImageError> {
        let path = self.path(hex);
        // A link, a pipe or a directory of that name is no blob.
        match fs_err::symlink_metadata(&path) {
            Ok(found) if found.is_file() => Ok(Some(open_file(&path)?.take(found.len()))),
            _ => Ok(None),
        }
    }

    fn place(&self, hex: &str) -> String {
        self.path(hex).display().to_string()
    }
}

/// The blobs of a layout: of a directory, or of an archive that is read in place.
#[derive(Debug, Clone)]
pub(crate) enum LayoutBlobs {
    Directory(BlobDirectory),
    Archive(Arc<TarFile>),
}

impl Blobs for LayoutBlobs {
    fn find(&self, hex: &str) -> Result<Option<Take<File>>, ImageError> {
        match self {
            Self::Directory(directory) => directory.find(hex),
            Self::Archive(tar) => tar.file(&format!("blobs/sha256/{hex}")),
        }
    }

    fn place(&self, hex: &str) -> String {
        match self {
            Self::Directory(directory) => directory.place(hex),
            Self::Archive(tar) => format!("{}, blobs/sha256/{hex}", tar.path().display()),
        }
    }
}

/// A directory with blobs in it.
#[derive(Debug, Clone)]
pub(crate) struct BlobDirectory {
    root: PathBuf,
}

impl BlobDirectory {
    /// Takes the directory that holds `blobs/sha256`.
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.join("blobs").join("sha256") }
    }

    /// The directory of the blobs themselves.
    pub(crate) fn directory(&self) -> &Path {
        &self.root
    }

    /// Where a blob is, or would be.
    pub(crate) fn path(&self, hex: &str) -> PathBuf {
        self.root.join(hex)
    }

    /// Removes the layers of every manifest that is here; what describes images stays. Returns how many, and their bytes.
    ///
    /// A layer that was unpacked is not needed any more, and one that is missing is fetched again.
    pub(crate) fn remove_layers(&self) -> std::io::Result<(u64, u64)> {
        let mut layers = std::collections::BTreeSet::new();
        for entry in fs_err::read_dir(&self.root)? {
            let path = entry?.path();
            let small = fs_err::symlink_metadata(&path).is_ok_and(|m| m.is_file() && m.len() <= MAX_MANIFEST);
            if small
                && let Ok(bytes) = fs_err::read(&path)
                && let Ok(Document::Manifest(found)) = manifest::read("", &bytes)
            {
                layers.extend(found.layers.iter().filter_map(|layer| layer.hex("").ok().map(str::to_owned)));
            }
        }
        let (mut removed, mut bytes) = (0, 0);
        for layer in layers {
            let path = self.path(&layer);
            if let Ok(found) = fs_err::symlink_metadata(&path) {
                fs_err::remove_file(&path)?;
                removed += 1;
                bytes += found.len();
            }
        }
        Ok((removed, bytes))
    }
}

/// The key under which an unpacked archive is stored. The version grows when unpacking changes.
pub(crate) fn stored_key(diff_id: &LayerKey) -> LayerKey {
    let mut fields = Fields::new("seatrial.unpack/1");
    fields.add(diff_id.as_str().as_bytes());
    LayerKey::from(fields.digest())
}

fn check(place: &str, expected: &str, found: &str) -> Result<(), ImageError> {
    if expected == found {
        return Ok(());
    }
    Err(ImageError::Digest {
        place: place.to_owned(),
        expected: format!("sha256:{expected}"),
        found: format!("sha256:{found}"),
    })
}
