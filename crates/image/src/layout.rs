//! Images in OCI layouts, as `skopeo copy`, `docker buildx build --output type=oci` and others write them: directories, or tar
//! archives of such.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use crate::blobs::{BlobDirectory, Blobs as _, FetchedImage, LayoutBlobs};
use crate::manifest::{self, Descriptor, Document, MAX_MANIFEST, Manifest, broken};
use crate::registry::Found;
use crate::stack::open_file;
use crate::store::LayerStore;
use crate::tar_file::TarFile;
use crate::unpack::UnpackLimits;
use crate::{ImageError, ImageRef};

/// Deepest nesting of indexes.
const MAX_NESTING: usize = 4;
/// Annotations that hold an image's name in an index.
const NAMES: [&str; 2] = ["org.opencontainers.image.ref.name", "io.containerd.image.name"];

/// The file that marks a layout.
const MARKER: &str = "oci-layout";
/// The file that names its images.
const INDEX: &str = "index.json";
/// Largest marker in bytes.
const MAX_MARKER: u64 = 4096;

/// An OCI layout.
#[derive(Debug, Clone)]
pub struct Layout {
    root: PathBuf,
    blobs: LayoutBlobs,
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
        if root.is_file() {
            return Err(broken(&root.display().to_string(), "is a file, where a layout is a directory"));
        }
        let marker = read_bounded(&root.join(MARKER), MAX_MARKER)?;
        let index = read_bounded(&root.join(INDEX), MAX_MANIFEST)?;
        Self::read(root, &marker, &index, LayoutBlobs::Directory(BlobDirectory::new(root)))
    }

    /// Opens a tar archive of a layout directory, which is read in place.
    pub fn open_archive(path: &Path) -> Result<Self, ImageError> {
        let tar = TarFile::open(path)?;
        let read = |name: &str, limit| {
            let missing = || broken(&path.display().to_string(), format!("is no layout: it has no {name}"));
            tar.small(name, limit)?.ok_or_else(missing)
        };
        let (marker, index) = (read(MARKER, MAX_MARKER)?, read(INDEX, MAX_MANIFEST)?);
        Self::read(path, &marker, &index, LayoutBlobs::Archive(Arc::new(tar)))
    }

    fn read(root: &Path, marker: &[u8], index: &[u8], blobs: LayoutBlobs) -> Result<Self, ImageError> {
        let place = root.join(MARKER).display().to_string();
        let version: Marker = serde_json::from_slice(marker)
            .map_err(|e| broken(&place, format!("does not mark an OCI layout: {e}")))?;
        if !version.image_layout_version.starts_with("1.") {
            let what = format!("has the layout version {}, and 1.x is read", version.image_layout_version);
            return Err(broken(&place, what));
        }
        let place = root.join(INDEX).display().to_string();
        let Document::Index(manifests) = manifest::read(&place, index)? else {
            return Err(broken(&place, "is a manifest, where a layout has an index"));
        };
        Ok(Self { root: root.to_path_buf(), blobs, manifests })
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

    /// The name under which the layout has an image: the reference in full or as people write it.
    pub fn name_of(&self, reference: &ImageRef) -> Option<String> {
        let (full, familiar) = (reference.to_string(), reference.familiar());
        let is_it = |name: &String| {
            *name == full
                || *name == familiar
                || name.parse::<ImageRef>().is_ok_and(|parsed| parsed == *reference)
        };
        self.names().into_iter().find(is_it)
    }

    /// What a name of the index stands for; of an index of several platforms the manifest of one, where one is wanted.
    ///
    /// # Errors
    /// A name that stands for several images, an index without that platform, and one that cannot be read.
    pub fn look_up(&self, name: &str, platform: Option<&str>) -> Result<Option<Found>, ImageError> {
        let place = self.root.join(INDEX).display().to_string();
        let named: Vec<&Descriptor> =
            self.manifests.iter().filter(|m| names_of(m).any(|found| found == name)).collect();
        let descriptor = match (named.as_slice(), platform) {
            ([], _) => return Ok(None),
            ([first, rest @ ..], _) if rest.iter().all(|other| other.digest == first.digest) => *first,
            // Some tools name the image of each platform by itself.
            (_, Some(platform)) => {
                let named: Vec<Descriptor> = named.into_iter().cloned().collect();
                let chosen = manifest::choose_platform(&place, &named, platform)?.clone();
                return self.found(&chosen).map(Some);
            }
            (several, None) => {
                let what = format!("has {} images with the name {name}", several.len());
                return Err(broken(&place, what));
            }
        };
        let Some(platform) = platform else { return self.found(descriptor).map(Some) };
        let bytes = self.blobs.read(descriptor, MAX_MANIFEST)?;
        let place = self.blobs.place(descriptor.hex("manifest")?);
        match manifest::read(&place, &bytes)? {
            Document::Manifest(_) => self.found(descriptor).map(Some),
            Document::Index(manifests) => {
                self.found(manifest::choose_platform(&place, &manifests, platform)?).map(Some)
            }
        }
    }

    /// A manifest or index that is here, with its media type as it says itself, or else as what leads to it says.
    fn found(&self, descriptor: &Descriptor) -> Result<Found, ImageError> {
        let bytes = self.blobs.read(descriptor, MAX_MANIFEST)?;
        let place = self.blobs.place(descriptor.hex("manifest")?);
        let written = manifest::parse(&place, &bytes)?;
        Ok(Found { digest: descriptor.digest.clone(), media_type: written.kind(&descriptor.media_type) })
    }

    /// The entries of the index by the first name of each.
    pub(crate) fn by_name(&self) -> std::collections::BTreeMap<String, Descriptor> {
        let named = |entry: &Descriptor| names_of(entry).next().map(|name| (name.to_owned(), entry.clone()));
        self.manifests.iter().filter_map(named).collect()
    }

    /// Its blobs.
    pub(crate) fn blobs(&self) -> &LayoutBlobs {
        &self.blobs
    }

    fn descend(&self, descriptor: &Descriptor, levels: usize) -> Result<(Descriptor, Manifest), ImageError> {
        let bytes = self.blobs.read(descriptor, MAX_MANIFEST)?;
        let place = self.blobs.place(descriptor.hex("manifest")?);
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
