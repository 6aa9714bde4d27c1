//! Images as container daemons save them (`docker save`, `podman save`): a tar archive with `manifest.json`, a configuration and
//! the layers, which are mostly not compressed.
//!
//! Source: Docker image specification 1.2, "Combined Image JSON + Filesystem Changeset Format".

use std::io;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::layout::{CONFIG, GZIP_LAYER, LayoutWriter, Packed, writing};
use super::{MANIFEST, ZSTD_LAYER};
use crate::archive::{Compression, inflate, read_head};
use crate::digest::HashingReader;
use crate::manifest::{MAX_CONFIG, MAX_LAYERS, MAX_MANIFEST, broken};
use crate::tar_file::TarFile;
use crate::{ImageError, UnpackLimits};

/// The file that says what an archive holds.
const LIST: &str = "manifest.json";
/// Longest head of a layer that is looked at.
const HEAD: usize = 8;

/// One image of an archive.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    #[serde(default)]
    layers: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Config {
    os: String,
    architecture: String,
    rootfs: RootFs,
}

#[derive(Deserialize)]
struct RootFs {
    #[serde(default)]
    diff_ids: Vec<String>,
}

impl LayoutWriter {
    /// The image of this name, when the layout has it from the same origin.
    pub fn saved_before(&self, name: &str, origin: &str) -> Option<Packed> {
        self.packed_before(name, origin, None)
    }

    /// Takes over the one image of an archive that a daemon saved. Layers that are not compressed are compressed as those that are
    /// packed here; each has to be what the configuration says. Equal images give equal bytes. `origin` tells what it was made from.
    ///
    /// # Errors
    /// An archive that is not what it should be, and an image for another platform than the one that is wanted.
    pub fn add_saved(
        &self,
        name: &str,
        archive: &Path,
        origin: &str,
        platform: Option<&str>,
    ) -> Result<Packed, ImageError> {
        let tar = TarFile::open(archive)?;
        let saved = |what: String| broken(&format!("the saved image `{name}`"), what);
        let missing = |file: &str| saved(format!("lacks the file `{file}`"));
        let list = tar.small(LIST, MAX_MANIFEST)?.ok_or_else(|| missing(LIST))?;
        let images: Vec<Saved> = serde_json::from_slice(&list)
            .map_err(|error| saved(format!("has a {LIST} that is none: {error}")))?;
        let [image] = images.as_slice() else {
            return Err(saved(format!("is {} images, where one is wanted", images.len())));
        };
        let config = tar.small(&image.config, MAX_CONFIG)?.ok_or_else(|| missing(&image.config))?;
        let read: Config = serde_json::from_slice(&config)
            .map_err(|error| saved(format!("has no configuration: {error}")))?;
        let own = format!("{}/{}", read.os, read.architecture);
        if let Some(wanted) = platform
            && *wanted != own
            && !wanted.starts_with(&format!("{own}/"))
        {
            return Err(saved(format!("is for {own}, and not for {wanted}")));
        }
        let files = image.layers.as_deref().unwrap_or_default();
        let diff_ids = &read.rootfs.diff_ids;
        if files.len() != diff_ids.len() || files.len() > MAX_LAYERS {
            let what = format!(
                "has {} layers, and its configuration names {}; at most {MAX_LAYERS} can be stacked",
                files.len(),
                diff_ids.len()
            );
            return Err(saved(what));
        }
        let mut layers = Vec::new();
        for (file, diff_id) in files.iter().zip(diff_ids) {
            layers.push(self.saved_layer(&tar, file, diff_id, name)?);
        }
        let (digest, size) = self.blob(&config)?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": { "mediaType": CONFIG, "digest": digest.prefixed(), "size": size },
            "layers": layers,
        });
        self.packed(name, &manifest, origin, None)
    }

    /// Takes over a layer; returns what a manifest says of it.
    fn saved_layer(&self, tar: &TarFile, file: &str, diff_id: &str, name: &str) -> Result<Value, ImageError> {
        let place = format!("the saved image `{name}`, layer `{file}`");
        let reading = |error: io::Error| ImageError::io(format!("reading {place}"), error);
        let open = || tar.file(file)?.ok_or_else(|| broken(&place, "is missing"));
        let compression = Compression::of(&read_head(&mut open()?, HEAD).map_err(reading)?);
        let (kind, blob, size, found) = match compression {
            Compression::Plain => {
                let (blob, size, found) = self.compressed(|out| {
                    io::copy(&mut open()?, out).map_err(writing)?;
                    Ok(())
                })?;
                (GZIP_LAYER, blob, size, found)
            }
            Compression::Gzip | Compression::Zstd => {
                let content = inflate(&place, Box::new(open()?))?;
                let found =
                    HashingReader::new(content).finish(UnpackLimits::default().total).map_err(reading)?.0;
                let found = ident::Digest::parse(&found).map_err(|e| broken(&place, e.to_string()))?;
                let (blob, size) = self.copied(&mut open()?)?;
                let kind = if compression == Compression::Gzip { GZIP_LAYER } else { ZSTD_LAYER };
                (kind, blob, size, found)
            }
            Compression::Unsupported(method) => {
                return Err(ImageError::Compression { name: place, method });
            }
        };
        if found.prefixed() != diff_id {
            return Err(ImageError::Digest { place, expected: diff_id.to_owned(), found: found.prefixed() });
        }
        Ok(json!({ "mediaType": kind, "digest": blob.prefixed(), "size": size }))
    }
}
