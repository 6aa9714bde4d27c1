//! Images in OCI layout directories, as `skopeo copy`, `docker buildx build --output type=oci` and others write them.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::ImageError;
use crate::blobs::{BlobDirectory, FetchedImage};
use crate::manifest::{self, Descriptor, Document, MAX_MANIFEST, Manifest, broken};
use crate::stack::open_file;
use crate::store::LayerStore;
use crate::unpack::UnpackLimits;

/// Deepest nesting of indexes.
const MAX_NESTING: usize = 4;
/// Annotations that hold an image's name in an index.
const NAMES: [&str; 2] = ["org.opencontainers.image.ref.name", "io.containerd.image.name"];

/// An OCI layout directory.
#[derive(Debug, Clone)]
pub struct Layout {
    root: PathBuf,
    blobs: BlobDirectory,
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Marker {
    image_layout_version: String,
}

impl Layout {
    /// Opens a layout directory and reads its index.
    pub fn open(root: &Path) -> Result<Self, ImageError> {
        let marker = root.join("oci-layout");
        let place = marker.display().to_string();
        let version: Marker = serde_json::from_slice(&read_bounded(&marker, 4096)?)
            .map_err(|e| broken(&place, format!("does not mark an OCI layout: {e}")))?;
        if !version.image_layout_version.starts_with("1.") {
            let what = format!("has the layout version {}, and 1.x is read", version.image_layout_version);
            return Err(broken(&place, what));
        }
        let index = root.join("index.json");
        let place = index.display().to_string();
        let Document::Index(manifests) = manifest::read(&place, &read_bounded(&index, MAX_MANIFEST)?)? else {
            return Err(broken(&place, "is a manifest, where a layout has an index"));
        };
        Ok(Self { root: root.to_path_buf(), blobs: BlobDirectory::new(root), manifests })
    }

    /// The names in the index, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.manifests.iter().flat_map(names_of).map(str::to_owned).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Unpacks an image into the store.
    ///
    /// `name` is a name of the index or the digest of one of its manifests; without it there must be one image for
    /// this machine. Every blob is verified while it is read.
    pub fn load(
        &self,
        name: Option<&str>,
        store: &LayerStore,
        limits: &UnpackLimits,
    ) -> Result<FetchedImage, ImageError> {
        let index = self.root.join("index.json").display().to_string();
        let candidates: Vec<Descriptor> = match name {
            None => self.manifests.clone(),
            Some(name) => {
                let is_it = |m: &&Descriptor| m.digest == name || names_of(m).any(|found| found == name);
                self.manifests.iter().filter(is_it).cloned().collect()
            }
        };
        if candidates.is_empty() {
            let names = self.names();
            let known = if names.is_empty() { "no names".to_owned() } else { names.join(", ") };
            return Err(ImageError::NotFound {
                reference: name.unwrap_or("without a name").to_owned(),
                reason: format!("{index} has {known}"),
            });
        }
        if name.is_none() && candidates.len() > 1 && candidates.iter().all(|m| m.platform.is_none()) {
            let what = format!("has several images; name one of: {}", self.names().join(", "));
            return Err(broken(&index, what));
        }
        let first = manifest::choose(&index, &candidates)?;
        let (descriptor, found) = self.descend(first, MAX_NESTING)?;
        let file = self.blobs.config(&found)?;
        let origin = format!("layout {}", self.root.display());
        let image = self.blobs.assemble(&origin, &found, &file, store, limits)?;
        let (resolved, manifest) = (first.sha256(&index)?, descriptor.sha256(&index)?);
        Ok(FetchedImage { image, resolved, manifest })
    }

    /// The entries of the index by the first name of each.
    pub(crate) fn by_name(&self) -> std::collections::BTreeMap<String, Descriptor> {
        let named = |entry: &Descriptor| names_of(entry).next().map(|name| (name.to_owned(), entry.clone()));
        self.manifests.iter().filter_map(named).collect()
    }

    /// The directory of blobs.
    pub(crate) fn blobs(&self) -> &BlobDirectory {
        &self.blobs
    }

    fn descend(&self, descriptor: &Descriptor, levels: usize) -> Result<(Descriptor, Manifest), ImageError> {
        let bytes = self.blobs.read(descriptor, MAX_MANIFEST)?;
        let place = self.blobs.path(descriptor.hex("manifest")?).display().to_string();
        match manifest::read(&place, &bytes)? {
            Document::Manifest(found) => Ok((descriptor.clone(), found)),
            Document::Index(_) if levels == 0 => {
                Err(broken(&place, format!("is nested more than {MAX_NESTING} indexes deep")))
            }
            Document::Index(manifests) => self.descend(manifest::choose(&place, &manifests)?, levels - 1),
        }
    }
}

fn names_of(descriptor: &Descriptor) -> impl Iterator<Item = &str> {
    NAMES.iter().filter_map(|name| descriptor.annotations.as_ref()?.get(*name)).map(String::as_str)
}

fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, ImageError> {
    let mut bytes = Vec::new();
    let read = open_file(path)?.take(limit + 1).read_to_end(&mut bytes);
    read.map_err(|e| ImageError::io(format!("reading {}", path.display()), e))?;
    if bytes.len() as u64 > limit {
        return Err(broken(&path.display().to_string(), format!("is larger than {limit} bytes")));
    }
    Ok(bytes)
}
