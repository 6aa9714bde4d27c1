//! The layer store: unpacked layers by content key, each complete or absent.
//!
//! ```text
//! <root>/<key>/          the layer; appears by one rename when it is complete
//! <root>/<key>.json      what is known about it: origin, entries, bytes
//! <root>/<key>.lock      held by whoever makes or removes it
//! <root>/<key>.part-*/   being made, in `layer`, with room beside it for whoever makes it; left over only after a
//!                        crash, and swept by the next maker or collection
//! ```
//!
//! Everything in the store can be made again, so files are not synced one by one: a crash may cost a layer, and a
//! layer whose description is missing or does not parse counts as absent.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use fs_err as fs;
use ident::Digest;
use serde::{Deserialize, Serialize};

use crate::digest::is_hex64;
use crate::{ImageError, Layer, RootImage};

const SCHEMA: &str = "seatrial.layer/1";

/// Content key of a layer: 64 hexadecimal digits of SHA-256.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LayerKey(String);

impl LayerKey {
    /// Takes 64 lower-case hexadecimal digits, with or without `sha256:` in front.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix("sha256:").unwrap_or(text);
        is_hex64(hex).then(|| Self(hex.to_owned()))
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LayerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for LayerKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("`{text}` is not a layer key of 64 hexadecimal digits"))
    }
}

impl From<Digest> for LayerKey {
    fn from(digest: Digest) -> Self {
        Self(digest.hex())
    }
}

impl From<LayerKey> for String {
    fn from(key: LayerKey) -> Self {
        key.0
    }
}

/// What is known about a stored layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerInfo {
    /// Schema name and version.
    schema: String,
    /// Content key.
    pub key: LayerKey,
    /// Where it came from, for people: a registry reference, a Dockerfile line.
    pub origin: String,
    /// Files, links and directories, the root not counted.
    pub entries: u64,
    /// Bytes of file content.
    pub bytes: u64,
}

/// A layer in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredLayer {
    /// The unpacked directory.
    pub directory: PathBuf,
    /// What is known about it.
    pub info: LayerInfo,
}

impl StoredLayer {
    /// The layer as part of a root image; nothing when it changes nothing.
    pub fn layer(&self) -> Option<Layer> {
        (self.info.entries > 0).then(|| Layer::Directory(self.directory.clone()))
    }
}

/// What a collection removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Collected {
    /// Layers removed.
    pub layers: u64,
    /// Bytes of file content removed.
    pub bytes: u64,
    /// Layers kept although nobody asked for them, because somebody is working on them.
    pub busy: u64,
}

/// A directory of layers, safe to share between threads and processes.
#[derive(Debug, Clone)]
pub struct LayerStore {
    root: PathBuf,
    capacity: Option<u64>,
}

impl LayerStore {
    /// Opens the store in `root`, which is created when missing.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, ImageError> {
        let root = root.into();
        fs::create_dir_all(&root).map_err(|e| ImageError::io("creating the layer store", e))?;
        let root = fs::canonicalize(&root).map_err(|e| ImageError::io("opening the layer store", e))?;
        Ok(Self { root, capacity: None })
    }

    /// Bounds the bytes of file content that the store may hold. A layer beyond the bound is refused, none is evicted.
    #[must_use]
    pub fn with_capacity(mut self, bytes: u64) -> Self {
        self.capacity = Some(bytes);
        self
    }

    /// The store's directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns a layer if it is complete.
    pub fn get(&self, key: &LayerKey) -> Option<StoredLayer> {
        let directory = self.directory(key);
        let info = self.read_info(key)?;
        fs::symlink_metadata(&directory).ok().filter(std::fs::Metadata::is_dir)?;
        Some(StoredLayer { directory, info })
    }

    /// Returns a layer, making it first if it is absent.
    ///
    /// `fill` gets an empty directory, whose parent it may use for scratch on the same file system. It runs at most
    /// once for a key at any time, whatever threads and processes ask for it; the others wait. What it wrote is
    /// dropped when it fails. `origin` describes the layer to people.
    pub fn get_or_make(
        &self,
        key: &LayerKey,
        origin: &str,
        fill: impl FnOnce(&Path) -> Result<(), ImageError>,
    ) -> Result<StoredLayer, ImageError> {
        if let Some(layer) = self.get(key) {
            return Ok(layer);
        }
        let _lock = self.lock(key)?;
        if let Some(layer) = self.get(key) {
            return Ok(layer);
        }
        self.sweep(key)?;
        let part = tempfile::Builder::new()
            .prefix(&format!("{key}.part-"))
            .tempdir_in(&self.root)
            .map_err(|e| ImageError::io(format!("making layer {key}"), e))?;
        let made = self.make(key, origin, &part.path().join("layer"), fill);
        // A directory inside may forbid its own removal, which the temporary directory would not overcome.
        let part = part.keep();
        remove_tree(&part).map_err(|e| ImageError::io(format!("removing {}", part.display()), e))?;
        made
    }

    fn make(
        &self,
        key: &LayerKey,
        origin: &str,
        directory: &Path,
        fill: impl FnOnce(&Path) -> Result<(), ImageError>,
    ) -> Result<StoredLayer, ImageError> {
        let doing = |e: io::Error| ImageError::io(format!("making layer {key}"), e);
        fs::create_dir(directory).map_err(doing)?;
        // The root directory of the topmost layer gives the mounted root its mode.
        fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).map_err(doing)?;
        fill(directory)?;
        let (entries, bytes) = measure(directory)?;
        if let Some(capacity) = self.capacity {
            let used = self.usage()?.saturating_add(bytes);
            if used > capacity {
                return Err(ImageError::StoreFull { root: self.root.clone(), used, capacity });
            }
        }
        let info = LayerInfo {
            schema: SCHEMA.to_owned(),
            key: key.clone(),
            origin: origin.to_owned(),
            entries,
            bytes,
        };
        let mut text = serde_json::to_vec_pretty(&info).map_err(|e| doing(e.into()))?;
        text.push(b'\n');
        // Description first: a description without its layer counts as absent, and so does the reverse.
        let mut file = tempfile::Builder::new()
            .prefix(&format!("{key}.part-"))
            .tempfile_in(&self.root)
            .map_err(doing)?;
        io::Write::write_all(&mut file, &text).map_err(doing)?;
        file.persist(self.info_path(key)).map_err(|e| doing(e.error))?;
        fs::rename(directory, self.directory(key)).map_err(doing)?;
        Ok(StoredLayer { directory: self.directory(key), info })
    }

    /// Every complete layer, sorted by key.
    pub fn list(&self) -> Result<Vec<LayerInfo>, ImageError> {
        Ok(self.keys()?.iter().filter_map(|key| self.get(key)).map(|layer| layer.info).collect())
    }

    /// The keys of an image's layers in this store, the skeleton of the host's system included: what a collection has
    /// to keep while the image is in use.
    pub fn keys_of(&self, image: &RootImage) -> BTreeSet<LayerKey> {
        let directories = image.layers.iter().map(|layer| match layer {
            Layer::Directory(directory) => directory,
            Layer::Host(host) => &host.skeleton,
        });
        directories
            .filter(|directory| directory.parent() == Some(&self.root))
            .filter_map(|directory| LayerKey::parse(directory.file_name()?.to_str()?))
            .collect()
    }

    /// Bytes of file content of all layers.
    pub fn usage(&self) -> Result<u64, ImageError> {
        Ok(self.list()?.iter().map(|info| info.bytes).sum())
    }

    /// Removes every layer whose key is not in `keep`, and what crashes have left.
    ///
    /// The caller sees to it that no sandbox uses a layer that is not in `keep`. Layers that somebody is making or
    /// removing at this moment are left alone.
    pub fn collect(&self, keep: &BTreeSet<LayerKey>) -> Result<Collected, ImageError> {
        let mut collected = Collected::default();
        for key in self.keys()? {
            if keep.contains(&key) {
                continue;
            }
            let Some(_lock) = self.try_lock(&key)? else {
                collected.busy += 1;
                continue;
            };
            self.sweep(&key)?;
            let info = self.get(&key).map(|layer| layer.info);
            let directory = self.directory(&key);
            let doing = |e: io::Error| ImageError::io(format!("removing layer {key}"), e);
            if directory.exists() {
                // Out of sight first, so that a crash half-way leaves no incomplete layer behind.
                let doomed = self.root.join(format!("{key}.part-removed"));
                fs::rename(&directory, &doomed).map_err(doing)?;
                remove_tree(&doomed).map_err(doing)?;
            }
            remove_if_present(&self.info_path(&key)).map_err(doing)?;
            if let Some(info) = info {
                collected.layers += 1;
                collected.bytes += info.bytes;
            }
        }
        Ok(collected)
    }

    /// Keys that have anything in the store.
    fn keys(&self) -> Result<BTreeSet<LayerKey>, ImageError> {
        let doing = |e: io::Error| ImageError::io("listing the layer store", e);
        let mut keys = BTreeSet::new();
        for entry in fs::read_dir(&self.root).map_err(doing)? {
            let name = entry.map_err(doing)?.file_name();
            let Some((key, kind)) = name.to_str().map(|name| name.split_once('.').unwrap_or((name, "")))
            else {
                continue;
            };
            if kind != "lock" {
                keys.extend(LayerKey::parse(key));
            }
        }
        Ok(keys)
    }

    fn directory(&self, key: &LayerKey) -> PathBuf {
        self.root.join(key.as_str())
    }

    fn info_path(&self, key: &LayerKey) -> PathBuf {
        self.root.join(format!("{key}.json"))
    }

    fn read_info(&self, key: &LayerKey) -> Option<LayerInfo> {
        let path = self.info_path(key);
        fs::symlink_metadata(&path).ok().filter(|m| m.is_file() && m.len() < 1 << 20)?;
        let info: LayerInfo = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
        (info.schema == SCHEMA && info.key == *key).then_some(info)
    }

    fn lock_file(&self, key: &LayerKey) -> Result<std::fs::File, ImageError> {
        let path = self.root.join(format!("{key}.lock"));
        std::fs::OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|e| ImageError::io(format!("opening {}", path.display()), e))
    }

    fn lock(&self, key: &LayerKey) -> Result<std::fs::File, ImageError> {
        let file = self.lock_file(key)?;
        file.lock().map_err(|e| ImageError::io(format!("locking layer {key}"), e))?;
        Ok(file)
    }

    fn try_lock(&self, key: &LayerKey) -> Result<Option<std::fs::File>, ImageError> {
        let file = self.lock_file(key)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(e)) => Err(ImageError::io(format!("locking layer {key}"), e)),
        }
    }

    /// Removes what a crash left of `key`; the caller holds its lock.
    fn sweep(&self, key: &LayerKey) -> Result<(), ImageError> {
        let doing = |e: io::Error| ImageError::io(format!("clearing leftovers of layer {key}"), e);
        let prefix = format!("{key}.part-");
        for entry in fs::read_dir(&self.root).map_err(doing)? {
            let entry = entry.map_err(doing)?;
            if entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix)) {
                remove_tree(&entry.path()).map_err(doing)?;
            }
        }
        if self.get(key).is_none() {
            let directory = self.directory(key);
            if fs::symlink_metadata(&directory).is_ok() {
                remove_tree(&directory).map_err(doing)?;
            }
            remove_if_present(&self.info_path(key)).map_err(doing)?;
        }
        Ok(())
    }
}

fn remove_if_present(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Removes a file or a tree, making directories writable that forbid it.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    let is_dir = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.is_dir(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
    };
    if !is_dir {
        return fs::remove_file(path);
    }
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            // A directory is yielded before it is read, so each becomes readable just in time.
            for entry in walkdir::WalkDir::new(path).follow_links(false).into_iter().flatten() {
                if entry.file_type().is_dir() {
                    fs::set_permissions(entry.path(), std::fs::Permissions::from_mode(0o700))?;
                }
            }
            fs::remove_dir_all(path)
        }
        other => other,
    }
}

/// Counts entries and bytes of file content; several names of one file count once.
fn measure(root: &Path) -> Result<(u64, u64), ImageError> {
    use std::os::unix::fs::MetadataExt as _;
    let (mut entries, mut bytes) = (0, 0);
    let mut linked = BTreeSet::new();
    for entry in walkdir::WalkDir::new(root).min_depth(1).follow_links(false) {
        let entry = entry.map_err(|e| ImageError::io("measuring a layer", e))?;
        entries += 1;
        if entry.file_type().is_file() {
            let metadata = entry.metadata().map_err(|e| ImageError::io("measuring a layer", e))?;
            if metadata.nlink() == 1 || linked.insert((metadata.dev(), metadata.ino())) {
                bytes += metadata.len();
            }
        }
    }
    if entries == 0 && crate::overlay::is_opaque(root) {
        entries = 1;
    }
    Ok((entries, bytes))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::digest::hex_of;

    fn key(text: &str) -> LayerKey {
        LayerKey::parse(&hex_of(text.as_bytes())).unwrap()
    }

    fn store() -> (tempfile::TempDir, LayerStore) {
        let root = tempfile::tempdir().unwrap();
        let store = LayerStore::open(root.path().join("layers")).unwrap();
        (root, store)
    }

    fn write(text: &'static str) -> impl Fn(&Path) -> Result<(), ImageError> {
        move |dir| fs::write(dir.join("f"), text).map_err(|e| ImageError::io("writing", e))
    }

    #[test]
    fn a_layer_is_made_once_for_all_threads() {
        let (_root, store) = store();
        let runs = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let layer = store
                        .get_or_make(&key("a"), "test", |dir| {
                            runs.fetch_add(1, Ordering::SeqCst);
                            write("content")(dir)
                        })
                        .unwrap();
                    assert_eq!(fs::read_to_string(layer.directory.join("f")).unwrap(), "content");
                    assert_eq!((layer.info.entries, layer.info.bytes), (1, 7));
                });
            }
        });
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_failed_layer_leaves_nothing() {
        let (_root, store) = store();
        let failed = store.get_or_make(&key("a"), "test", |dir| {
            write("half")(dir)?;
            fs::create_dir(dir.join("locked")).unwrap();
            fs::set_permissions(dir.join("locked"), std::fs::Permissions::from_mode(0o000)).unwrap();
            Err(ImageError::Host("no".to_owned()))
        });
        assert!(failed.is_err());
        assert!(store.get(&key("a")).is_none());
        let left: Vec<_> = fs::read_dir(store.root()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, [std::ffi::OsString::from(format!("{}.lock", key("a")))]);
        store.get_or_make(&key("a"), "test", write("whole")).unwrap();
        assert!(store.get(&key("a")).is_some());
    }

    #[test]
    fn leftovers_of_a_crash_count_as_absent() {
        let (_root, store) = store();
        let half = store.root().join(format!("{}.part-x", key("a")));
        fs::create_dir(&half).unwrap();
        fs::create_dir(store.root().join(key("a").as_str())).unwrap();
        assert!(store.get(&key("a")).is_none());
        let layer = store.get_or_make(&key("a"), "test", write("x")).unwrap();
        assert!(layer.directory.join("f").exists());
        assert!(!half.exists());
    }

    #[test]
    fn collection_keeps_what_it_is_told_to() {
        let (_root, store) = store();
        let kept = store.get_or_make(&key("a"), "test", write("aa")).unwrap();
        store.get_or_make(&key("b"), "test", write("bbb")).unwrap();
        store.get_or_make(&key("c"), "test", write("c")).unwrap();
        let busy = store.lock(&key("c")).unwrap();
        let image = RootImage { layers: kept.layer().into_iter().collect(), ..RootImage::empty() };
        assert_eq!(store.keys_of(&image), BTreeSet::from([key("a")]));
        let collected = store.collect(&store.keys_of(&image)).unwrap();
        assert_eq!(collected, Collected { layers: 1, bytes: 3, busy: 1 });
        drop(busy);
        let kept: Vec<_> = store.list().unwrap().into_iter().map(|info| info.key).collect();
        let mut expected = vec![key("a"), key("c")];
        expected.sort();
        assert_eq!(kept, expected);
    }

    #[test]
    fn a_full_store_refuses() {
        let (_root, store) = store();
        let store = store.with_capacity(5);
        store.get_or_make(&key("a"), "test", write("123")).unwrap();
        let refused = store.get_or_make(&key("b"), "test", write("456")).unwrap_err();
        assert!(refused.to_string().contains("collect"), "{refused}");
        assert!(store.get(&key("b")).is_none());
    }

    #[test]
    fn an_empty_layer_is_no_part_of_an_image() {
        let (_root, store) = store();
        assert_eq!(store.get_or_make(&key("a"), "test", |_| Ok(())).unwrap().layer(), None);
    }
}
