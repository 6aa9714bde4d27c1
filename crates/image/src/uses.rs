//! Which images the layers of a store are for, so that layers nobody needs can go.
//!
//! ```text
//! <root>/uses/<sha256 of the name>.json    the name of an image, and the keys of its layers
//! ```

use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use fs_err as fs;
use serde::{Deserialize, Serialize};

use crate::digest::hex_of;
use crate::stack::open_file;
use crate::store::{Collected, LayerKey, LayerStore};
use crate::{ImageError, RootImage};

/// No description of an image comes near this size.
const USE_LIMIT: u64 = 1 << 20;

/// An image that was made, by the name that its makers know it by.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Use {
    name: String,
    layers: BTreeSet<LayerKey>,
}

impl LayerStore {
    /// Writes down which layers an image consists of.
    pub fn remember(&self, name: &str, image: &RootImage) -> Result<(), ImageError> {
        let path = self.uses().join(format!("{}.json", hex_of(name.as_bytes())));
        let now = Use { name: name.to_owned(), layers: self.keys_of(image) };
        if read(&path).as_ref() == Some(&now) {
            return Ok(());
        }
        let doing = |e: io::Error| ImageError::io("describing an image", e);
        let text = serde_json::to_vec(&now).map_err(|e| doing(e.into()))?;
        artifact::write_atomic(&path, &text).map_err(|e| doing(io::Error::other(e)))
    }

    /// Removes every layer that no image with one of these names has. Nobody may use the store meanwhile: a layer that is mounted
    /// somewhere would be missed there.
    pub fn collect_unused(&self, names: &BTreeSet<String>) -> Result<Collected, ImageError> {
        let doing = |e: io::Error| ImageError::io("reading which images there are", e);
        let mut keep = BTreeSet::new();
        let entries = match fs::read_dir(self.uses()) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return self.collect(&keep),
            other => other.map_err(doing)?,
        };
        for entry in entries {
            let path = entry.map_err(doing)?.path();
            match read(&path).filter(|found| names.contains(&found.name)) {
                Some(found) => keep.extend(found.layers),
                None => fs::remove_file(&path).map_err(doing)?,
            }
        }
        self.collect(&keep)
    }

    fn uses(&self) -> PathBuf {
        self.root().join("uses")
    }
}

/// A description, where it is one.
fn read(path: &Path) -> Option<Use> {
    let mut text = Vec::new();
    open_file(path).ok()?.take(USE_LIMIT).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ImageConfig;

    #[test]
    fn layers_of_images_that_are_named_stay() {
        let root = tempfile::tempdir().unwrap();
        let store = LayerStore::open(root.path()).unwrap();
        let layer = |text: &str| {
            let key = LayerKey::parse(&hex_of(text.as_bytes())).unwrap();
            let fill =
                |into: &Path| fs::write(into.join(text), text).map_err(|e| ImageError::io("writing", e));
            let made = store.get_or_make(&key, "test", fill).unwrap();
            (key, made.layer().unwrap())
        };
        let [(base_key, base), (a_key, a), (b_key, b)] = ["base", "a", "b"].map(layer);
        let (lost_key, _) = layer("lost");
        let image =
            |layers: Vec<_>| RootImage { layers, config: ImageConfig::default(), digest: String::new() };
        store.remember("a", &image(vec![base.clone(), a])).unwrap();
        store.remember("b", &image(vec![base, b])).unwrap();

        let names = BTreeSet::from(["a".to_owned()]);
        assert_eq!(store.collect_unused(&names).unwrap().layers, 2);
        assert!(store.get(&base_key).is_some() && store.get(&a_key).is_some());
        assert!(store.get(&b_key).is_none() && store.get(&lost_key).is_none());
        assert_eq!(store.collect_unused(&names).unwrap().layers, 0);
        assert_eq!(store.collect_unused(&BTreeSet::new()).unwrap().layers, 2);
    }
}
