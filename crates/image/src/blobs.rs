//! Content by digest in files, `blobs/sha256/<hex>`: the heart of an OCI layout, and the cache of a registry.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use ident::Digest;

use crate::chain::Chain;
use crate::digest::{Fields, HashingReader};
use crate::layer_path::LayerPath;
use crate::manifest::{self, Descriptor, Document, ImageFile, MAX_CONFIG, MAX_MANIFEST, Manifest};
use crate::stack::open_file;
use crate::store::{LayerKey, LayerStore, StoredLayer};
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

    /// Reads a small blob and verifies it.
    pub(crate) fn read(&self, descriptor: &Descriptor, limit: u64) -> Result<Vec<u8>, ImageError> {
        let path = self.path(descriptor.hex("descriptor")?);
        let place = path.display().to_string();
        if descriptor.size > limit {
            return Err(manifest::broken(
                &place,
                format!("has {} bytes; at most {limit} are read", descriptor.size),
            ));
        }
        let mut bytes = Vec::new();
        open_file(&path)?
            .take(limit)
            .read_to_end(&mut bytes)
            .map_err(|e| ImageError::io(format!("reading {place}"), e))?;
        manifest::verify(&place, &bytes, descriptor)?;
        Ok(bytes)
    }

    /// Reads a small blob of which only the digest is known, and verifies it.
    pub(crate) fn read_whole(&self, digest: Digest, limit: u64) -> Result<Vec<u8>, ImageError> {
        let path = self.path(&digest.hex());
        let place = path.display().to_string();
        let mut bytes = Vec::new();
        let read = open_file(&path)?.take(limit + 1).read_to_end(&mut bytes);
        read.map_err(|e| ImageError::io(format!("reading {place}"), e))?;
        let found = Digest::of(&bytes);
        if found == digest {
            return Ok(bytes);
        }
        Err(ImageError::Digest { place, expected: digest.prefixed(), found: found.prefixed() })
    }

    /// Reads the configuration of an image.
    pub(crate) fn config(&self, manifest: &Manifest) -> Result<ImageFile, ImageError> {
        let bytes = self.read(&manifest.config, MAX_CONFIG)?;
        let place = self.path(manifest.config.hex("configuration")?).display().to_string();
        manifest::read_config(&place, &bytes, manifest.layers.len())
    }

    /// Unpacks what is not in the store yet and puts the image together.
    pub(crate) fn assemble(
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
            let stored = self.layer(origin, descriptor, diff_id, store, limits)?;
            layers.extend(stored.layer());
            chain = chain.push(diff_id);
        }
        let digest = chain.image_digest(&file.config);
        Ok(RootImage { layers, config: file.config.clone(), digest })
    }

    fn layer(
        &self,
        origin: &str,
        descriptor: &Descriptor,
        diff_id: &LayerKey,
        store: &LayerStore,
        limits: &UnpackLimits,
    ) -> Result<StoredLayer, ImageError> {
        store.get_or_make(&stored_key(diff_id), &format!("{origin} {}", descriptor.digest), |into| {
            self.unpack(descriptor, diff_id, into, limits)
        })
    }

    /// Unpacks a layer blob and verifies, on the way, the digests of the blob and of the archive inside.
    fn unpack(
        &self,
        descriptor: &Descriptor,
        diff_id: &LayerKey,
        into: &Path,
        limits: &UnpackLimits,
    ) -> Result<(), ImageError> {
        let path = self.path(descriptor.hex("layer")?);
        let place = path.display().to_string();
        let reading = |e| ImageError::io(format!("reading {place}"), e);
        let mut blob = HashingReader::new(open_file(&path)?);
        let mut tar = HashingReader::new(archive::inflate(&place, Box::new(&mut blob))?);
        let mut writer = LayerWriter::open(into, &|_| None)?;
        let mut whole = |path: &LayerPath, _: bool| Ok(path.clone());
        let rules = Rules { whiteouts: true, owner: None, time: None, place: &mut whole };
        unpack_into(&place, &mut tar, &mut writer, limits, rules)?;
        writer.finish()?;
        let (found, _) = tar.finish(MAX_PADDING).map_err(reading)?;
        check(&place, diff_id.as_str(), &found)?;
        let (found, size) = blob.finish(MAX_PADDING).map_err(reading)?;
        check(&place, descriptor.hex("layer")?, &found)?;
        if size != descriptor.size {
            return Err(manifest::broken(&place, format!("has {size} bytes, expected {}", descriptor.size)));
        }
        Ok(())
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
