//! What registries gave, in files.

use std::io::ErrorKind;
use std::path::Path;

use crate::ImageError;
use crate::blobs::BlobDirectory;

/// Removes downloaded layers from a blob cache and returns how many, and their bytes. Manifests stay, so that registries which count
/// what is pulled from them are not asked again. Nobody may pull meanwhile.
pub fn remove_layers(cache: &Path) -> Result<(u64, u64), ImageError> {
    match BlobDirectory::new(cache).remove_layers() {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok((0, 0)),
        other => other.map_err(|e| ImageError::io("removing downloaded layers", e)),
    }
}
