//! An OCI layout that images are written into.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use flate2::{Compression, GzBuilder};
use fs_err as fs;
use ident::{Digest, Sha256Writer};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::base::Published;
use super::{BASE_DIGEST, BASE_NAME, BaseImage, MANIFEST, ORIGIN, REF_NAME, ZSTD_LAYER, config, layer};
use crate::blobs::{BlobDirectory, Blobs as _, LayoutBlobs};
use crate::manifest::{self, Descriptor, Document, MAX_MANIFEST, Manifest, broken};
use crate::{ImageError, Layer, Layout, RootImage};

pub(super) const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(super) const GZIP_LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// An image in the layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// Its name there.
    pub name: String,
    /// Digest of its manifest, `sha256:...`.
    pub digest: String,
    /// Type of its manifest.
    pub media_type: &'static str,
    /// Bytes of its manifest.
    size: u64,
    /// What it was packed from: equal texts, equal images.
    origin: String,
    /// The image of a registry that its first layers come from.
    published: Option<Box<Published>>,
}

/// Writes images into a layout directory. Several threads may add images; the index appears when all are there.
#[derive(Debug)]
pub struct LayoutWriter {
    root: PathBuf,
    blobs: BlobDirectory,
    /// Images of the last time, by name.
    earlier: BTreeMap<String, Descriptor>,
}

impl LayoutWriter {
    /// Opens a directory, which is created when missing. Images that it holds are not packed again where they are the same.
    pub fn open(root: &Path) -> Result<Self, ImageError> {
        let blobs = BlobDirectory::new(root);
        fs::create_dir_all(blobs.directory()).map_err(writing)?;
        // A layout that cannot be read is written anew.
        let earlier = Layout::open(root).map(|layout| layout.by_name()).unwrap_or_default();
        Ok(Self { root: root.to_owned(), blobs, earlier })
    }

    /// Packs an image under a name. Over a base that it was built on, it gets one layer with all that the build changed; without
    /// one, every layer of it is packed.
    ///
    /// # Errors
    ///
    /// The host's own system is no image, and neither is what is built on it.
    pub fn add(&self, name: &str, image: &RootImage, base: Option<&BaseImage>) -> Result<Packed, ImageError> {
        let base = base.filter(|base| image.layers.starts_with(&base.image.layers));
        let origin =
            base.map_or_else(|| image.digest.clone(), |base| format!("{} on {}", image.digest, base.digest));
        let published = base.and_then(|base| base.published.as_ref());
        if let Some(packed) = self.packed_before(name, &origin, published) {
            return Ok(packed);
        }
        let own = &image.layers[base.map_or(0, |base| base.image.layers.len())..];
        let directories = own.iter().map(directory).collect::<Option<Vec<_>>>().ok_or_else(|| {
            ImageError::Host(format!("`{name}` is built on it, so it cannot be packed as an image"))
        })?;
        let stacks: Vec<&[&Path]> = match base {
            Some(_) if directories.is_empty() => Vec::new(),
            Some(_) => vec![&directories],
            None => directories.chunks(1).collect(),
        };
        let (mut layers, mut diff_ids) = (Vec::new(), Vec::new());
        if let Some(base) = base {
            layers.extend(base.layers.iter().map(described));
            self.copy_blobs(base)?;
        }
        for stack in stacks {
            let (blob, size, diff_id) = self.layer(stack)?;
            layers.push(json!({ "mediaType": GZIP_LAYER, "digest": blob.prefixed(), "size": size }));
            diff_ids.push(diff_id.prefixed());
        }
        let config = config::document(base.map(|base| &base.config), &image.config, &diff_ids);
        let (config_digest, config_size) = self.json(&config)?;
        let mut manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": { "mediaType": CONFIG, "digest": config_digest.prefixed(), "size": config_size },
            "layers": layers,
        });
        if let Some(Published { reference, digest, .. }) = published {
            manifest["annotations"] = json!({ BASE_DIGEST: digest, BASE_NAME: reference.to_string() });
        }
        self.packed(name, &manifest, &origin, published)
    }

    /// Writes the manifest of an image whose blobs are there.
    pub(super) fn packed(
        &self,
        name: &str,
        manifest: &Value,
        origin: &str,
        published: Option<&Published>,
    ) -> Result<Packed, ImageError> {
        let (digest, size) = self.json(manifest)?;
        Ok(Packed {
            name: name.to_owned(),
            digest: digest.prefixed(),
            media_type: MANIFEST,
            size,
            origin: origin.to_owned(),
            published: published.cloned().map(Box::new),
        })
    }

    /// An image that was packed here, as a base of others.
    pub fn as_base(&self, packed: &Packed, image: &RootImage) -> Result<BaseImage, ImageError> {
        let digest = Digest::parse(&packed.digest).map_err(|e| broken(&packed.name, e.to_string()))?;
        let base = BaseImage::read(image.clone(), digest, LayoutBlobs::Directory(self.blobs.clone()))?;
        Ok(BaseImage { published: packed.published.as_deref().cloned(), ..base })
    }

    /// Writes the index over these images and removes blobs that belong to none of them.
    pub fn finish(self, images: &[Packed]) -> Result<(), ImageError> {
        let sorted: BTreeMap<&str, &Packed> =
            images.iter().map(|image| (image.name.as_str(), image)).collect();
        let manifests: Vec<Value> = sorted
            .values()
            .map(|image| {
                json!({
                    "mediaType": image.media_type,
                    "digest": image.digest,
                    "size": image.size,
                    "annotations": { REF_NAME: image.name, ORIGIN: image.origin },
                })
            })
            .collect();
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests });
        write_json(&self.root.join("oci-layout"), &json!({ "imageLayoutVersion": "1.0.0" }))?;
        write_json(&self.root.join("index.json"), &index)?;
        let mut named = BTreeSet::new();
        for image in sorted.values() {
            let digest = Digest::parse(&image.digest).map_err(|e| broken(&image.name, e.to_string()))?;
            named.insert(digest.hex());
            named.extend(
                self.manifest(digest)?.blobs().filter_map(|blob| blob.hex("blob").ok().map(str::to_owned)),
            );
        }
        for entry in fs::read_dir(self.blobs.directory()).map_err(writing)? {
            let entry = entry.map_err(writing)?;
            if entry.file_name().to_str().is_none_or(|name| !named.contains(name)) {
                fs::remove_file(entry.path()).map_err(writing)?;
            }
        }
        Ok(())
    }

    /// The image of the last time, when it was packed from the same and its blobs are all there but for those of a registry.
    pub(super) fn packed_before(
        &self,
        name: &str,
        origin: &str,
        published: Option<&Published>,
    ) -> Option<Packed> {
        let entry = self.earlier.get(name)?;
        let same = entry.annotations.as_ref()?.get(ORIGIN).is_some_and(|found| found == origin);
        let digest = entry.sha256("manifest").ok().filter(|_| same)?;
        let manifest = self.manifest(digest).ok()?;
        let has = |blob: &Descriptor| {
            let path = self.blobs.path(blob.hex("blob").ok()?);
            fs::symlink_metadata(path).ok().filter(|m| m.is_file() && m.len() == blob.size)
        };
        has(&manifest.config)?;
        let elsewhere = published.map_or(0, |published| published.layers);
        manifest.layers.iter().skip(elsewhere).map(has).collect::<Option<Vec<_>>>()?;
        Some(Packed {
            name: name.to_owned(),
            digest: entry.digest.clone(),
            media_type: MANIFEST,
            size: entry.size,
            origin: origin.to_owned(),
            published: published.cloned().map(Box::new),
        })
    }

    fn manifest(&self, digest: Digest) -> Result<Manifest, ImageError> {
        let place = digest.prefixed();
        match manifest::read(&place, &self.blobs.read_whole(digest, MAX_MANIFEST)?)? {
            Document::Manifest(found) => Ok(found),
            Document::Index(_) => Err(broken(&place, "is an index, where one image was packed")),
        }
    }

    /// Packs a stack of layer directories: digest and size of the blob, and the digest of the archive in it.
    fn layer(&self, directories: &[&Path]) -> Result<(Digest, u64, Digest), ImageError> {
        self.compressed(|archive| layer::write(directories, archive))
    }

    /// Compresses an archive that is written: digest and size of the blob, and the digest of the archive in it.
    pub(super) fn compressed(
        &self,
        write: impl FnOnce(&mut dyn io::Write) -> Result<(), ImageError>,
    ) -> Result<(Digest, u64, Digest), ImageError> {
        let file = NamedTempFile::new_in(self.blobs.directory()).map_err(writing)?;
        let blob = Sha256Writer::new(io::BufWriter::new(file));
        // The header names no file, no time and no system.
        let gzip = GzBuilder::new().operating_system(255).write(blob, Compression::default());
        let mut archive = Sha256Writer::new(gzip);
        write(&mut archive)?;
        let (diff_id, gzip) = archive.finish();
        let blob = gzip.finish().map_err(writing)?;
        let (digest, size) = self.keep(blob)?;
        Ok((digest, size, diff_id))
    }

    /// Copies a blob as it is: its digest and size.
    pub(super) fn copied(&self, content: &mut dyn io::Read) -> Result<(Digest, u64), ImageError> {
        let file = NamedTempFile::new_in(self.blobs.directory()).map_err(writing)?;
        let mut blob = Sha256Writer::new(io::BufWriter::new(file));
        io::copy(content, &mut blob).map_err(writing)?;
        self.keep(blob)
    }

    /// Puts a blob that was written in its place.
    fn keep(
        &self,
        mut blob: Sha256Writer<io::BufWriter<NamedTempFile>>,
    ) -> Result<(Digest, u64), ImageError> {
        blob.flush().map_err(writing)?;
        let size = blob.written();
        let (digest, file) = blob.finish();
        let file = file.into_inner().map_err(|e| writing(e.into_error()))?;
        file.persist(self.blobs.path(&digest.hex())).map_err(|e| writing(e.error))?;
        Ok((digest, size))
    }

    fn json(&self, value: &Value) -> Result<(Digest, u64), ImageError> {
        self.blob(value.to_string().as_bytes())
    }

    /// Writes a small blob: its digest and size.
    pub(super) fn blob(&self, bytes: &[u8]) -> Result<(Digest, u64), ImageError> {
        let digest = Digest::of(bytes);
        write_file(&self.blobs.path(&digest.hex()), bytes)?;
        Ok((digest, bytes.len() as u64))
    }

    /// The layers of a base that no registry has.
    fn copy_blobs(&self, base: &BaseImage) -> Result<(), ImageError> {
        let elsewhere = base.published.as_ref().map_or(0, |published| published.layers);
        for layer in base.layers.iter().skip(elsewhere) {
            let hex = layer.hex("layer")?;
            let to = self.blobs.path(hex);
            if fs::symlink_metadata(&to).is_ok_and(|m| m.is_file() && m.len() == layer.size) {
                continue;
            }
            self.copied(&mut base.blobs.open(hex)?)?;
        }
        Ok(())
    }
}

fn write_json(path: &Path, value: &Value) -> Result<(), ImageError> {
    write_file(path, value.to_string().as_bytes())
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), ImageError> {
    artifact::write_atomic(path, bytes).map_err(|error| writing(io::Error::other(error)))
}

pub(super) fn writing(error: io::Error) -> ImageError {
    ImageError::io("writing an image layout", error)
}

fn directory(layer: &Layer) -> Option<&Path> {
    match layer {
        Layer::Directory(path) => Some(path),
        Layer::Host(_) => None,
    }
}

/// A layer of a base as a manifest of the other spelling names it; the bytes are the same.
fn described(layer: &Descriptor) -> Value {
    let kind = match layer.media_type.as_str() {
        "application/vnd.docker.image.rootfs.diff.tar.gzip"
        | "application/vnd.docker.container.image.rootfs.diff+x-gtar" => GZIP_LAYER,
        "application/vnd.docker.image.rootfs.diff.tar.zstd" => ZSTD_LAYER,
        "application/vnd.docker.image.rootfs.diff.tar" => "application/vnd.oci.image.layer.v1.tar",
        other => other,
    };
    json!({ "mediaType": kind, "digest": layer.digest, "size": layer.size })
}
