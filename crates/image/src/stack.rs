//! Looks paths up in a stack of layers as a process inside would see them, without mounting anything.
//!
//! Links are interpreted inside the image root only: a link that a lower layer points at the host's `/etc` leads to
//! the image's `/etc`, or nowhere.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::layer_path::LayerPath;
use crate::overlay;
use crate::writer::{Attributes, FIXED_TIME};
use crate::{HostRoot, ImageError, Layer};

/// Links followed in one resolution; the kernel's own bound.
const MAX_LINKS: usize = 40;

/// What a link may do that leads above the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// It stops at the root, as for a process inside.
    Clamp,
    /// It is refused, as in a build context.
    Refuse,
}

/// An object as the stack shows it.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// Where it lies on the host. Every component above the last is a directory, never a link.
    pub(crate) host_path: PathBuf,
    /// Its metadata, links not followed.
    pub(crate) metadata: Metadata,
}

impl Found {
    /// Whether it is a directory.
    pub(crate) fn is_dir(&self) -> bool {
        self.metadata.is_dir()
    }

    /// Whether it is a symbolic link.
    pub(crate) fn is_link(&self) -> bool {
        self.metadata.file_type().is_symlink()
    }

    /// Its permissions and owner, for a directory that an upper layer has to repeat.
    pub(crate) fn attributes(&self) -> Attributes {
        let metadata = &self.metadata;
        Attributes {
            mode: metadata.mode() & 0o7777,
            uid: metadata.uid(),
            gid: metadata.gid(),
            mtime: FIXED_TIME,
            xattrs: Vec::new(),
        }
    }
}

/// Layers as one file system, lowest first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stack<'a> {
    layers: &'a [Layer],
    leaving: Leaving,
}

/// What one layer says about a path.
enum Probe {
    /// It is here.
    Here(Found),
    /// It is not here, and no lower layer is asked.
    Gone,
    /// It is not here; a lower layer may have it.
    Below,
}

impl<'a> Stack<'a> {
    /// Takes layers, lowest first.
    pub(crate) fn new(layers: &'a [Layer], leaving: Leaving) -> Self {
        Self { layers, leaving }
    }

    /// Finds the object at `path`, whose parents are taken literally: a link among them means that there is nothing.
    pub(crate) fn find(&self, path: &LayerPath) -> Result<Option<Found>, ImageError> {
        for layer in self.layers.iter().rev() {
            match probe(layer, path)? {
                Probe::Here(found) => return Ok(Some(found)),
                Probe::Gone => return Ok(None),
                Probe::Below => {}
            }
        }
        Ok(None)
    }

    /// Resolves every link on the way to `path`, and at its end too if `follow_last`. Names after the last existing
    /// directory are kept as they are.
    pub(crate) fn resolve(&self, path: &LayerPath, follow_last: bool) -> Result<LayerPath, ImageError> {
        let mut done = LayerPath::root();
        let mut rest: Vec<OsString> = path.names().iter().rev().cloned().collect();
        let mut links = 0;
        while let Some(name) = rest.pop() {
            if name == ".." {
                match done.split() {
                    Some((parent, _)) => done = parent,
                    None if self.leaving == Leaving::Refuse => {
                        return Err(ImageError::entry(&path.relative(), "leads out of the build context"));
                    }
                    None => {}
                }
                continue;
            }
            let here = done.join(&name);
            let link = match self.find(&here)? {
                Some(found) if found.is_link() && (follow_last || !rest.is_empty()) => found,
                _ => {
                    done = here;
                    continue;
                }
            };
            links += 1;
            if links > MAX_LINKS {
                return Err(ImageError::entry(&path.relative(), "passes more than 40 symbolic links"));
            }
            let target = read_link(&link.host_path)?;
            if target.is_absolute() {
                if self.leaving == Leaving::Refuse {
                    return Err(ImageError::entry(
                        &path.relative(),
                        format!(
                            "passes a link to the absolute path {}, out of the build context",
                            target.display()
                        ),
                    ));
                }
                done = LayerPath::root();
            }
            for component in target.components().rev() {
                match component {
                    std::path::Component::Normal(name) => rest.push(name.to_owned()),
                    std::path::Component::ParentDir => rest.push(OsString::from("..")),
                    _ => {}
                }
            }
            if rest.len() > 1000 {
                return Err(ImageError::entry(
                    &path.relative(),
                    "grows beyond all bounds while links are resolved",
                ));
            }
        }
        Ok(done)
    }

    /// Finds the object that `path` leads to, following links.
    pub(crate) fn open(&self, path: &LayerPath) -> Result<Option<(LayerPath, Found)>, ImageError> {
        let resolved = self.resolve(path, true)?;
        Ok(self.find(&resolved)?.map(|found| (resolved, found)))
    }

    /// Lists the directory at `path`, whose parents are taken literally, sorted by name.
    pub(crate) fn list(&self, path: &LayerPath) -> Result<BTreeMap<OsString, Found>, ImageError> {
        let mut listing = BTreeMap::new();
        let mut hidden = BTreeSet::new();
        for layer in self.layers.iter().rev() {
            let found = match probe(layer, path)? {
                Probe::Here(found) if found.is_dir() => found,
                Probe::Below => continue,
                Probe::Here(_) | Probe::Gone => break,
            };
            for name in names_in(layer, path, &found.host_path)? {
                if hidden.contains(&name) || listing.contains_key(&name) {
                    continue;
                }
                match probe(layer, &path.join(&name))? {
                    Probe::Here(inner) => {
                        listing.insert(name, inner);
                    }
                    Probe::Gone => {
                        hidden.insert(name);
                    }
                    Probe::Below => {}
                }
            }
            if matches!(layer, Layer::Directory(_)) && is_cut_off(&found, layer, path) {
                break;
            }
        }
        Ok(listing)
    }

    /// Reads a small file of the image, following links inside it; nothing when it is absent or not a file.
    pub(crate) fn read_small(&self, path: &str, limit: u64) -> Result<Option<Vec<u8>>, ImageError> {
        use std::io::Read as _;
        let Ok(path) = LayerPath::of_absolute(Path::new(path)) else { return Ok(None) };
        let Some((_, found)) = self.open(&path)? else { return Ok(None) };
        if !found.metadata.is_file() || found.metadata.len() > limit {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let file = open_file(&found.host_path)?;
        file.take(limit).read_to_end(&mut bytes).map_err(|e| reading(&found.host_path, e))?;
        Ok(Some(bytes))
    }
}

/// Opens a regular file without following a link at its end.
pub(crate) fn open_file(path: &Path) -> Result<std::fs::File, ImageError> {
    artifact::open_file(path).map_err(|e| reading(path, e))
}

fn reading(path: &Path, e: io::Error) -> ImageError {
    ImageError::io(format!("reading {}", path.display()), e)
}

fn read_link(path: &Path) -> Result<PathBuf, ImageError> {
    fs::read_link(path).map_err(|e| reading(path, e))
}

/// Whether this layer's directory, or one above it in the layer, is opaque.
fn is_cut_off(found: &Found, layer: &Layer, path: &LayerPath) -> bool {
    let Layer::Directory(root) = layer else { return true };
    overlay::is_opaque(&found.host_path)
        || (0..path.names().len()).any(|depth| overlay::is_opaque(&root.join(path.prefix(depth).relative())))
}

fn names_in(layer: &Layer, path: &LayerPath, host_path: &Path) -> Result<BTreeSet<OsString>, ImageError> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(host_path).map_err(|e| reading(host_path, e))? {
        names.insert(entry.map_err(|e| reading(host_path, e))?.file_name());
    }
    if let Layer::Host(host) = layer {
        // Trees of the host that are mounted in this directory appear in it even if the skeleton has no such name.
        let here = path.absolute();
        names.extend(
            host.trees
                .iter()
                .filter(|tree| tree.parent() == Some(&here))
                .filter_map(|t| t.file_name())
                .map(OsStr::to_owned),
        );
    }
    Ok(names)
}

fn probe(layer: &Layer, path: &LayerPath) -> Result<Probe, ImageError> {
    match layer {
        Layer::Directory(root) => probe_directory(root, path),
        Layer::Host(host) => probe_host(host, path),
    }
}

fn probe_host(host: &HostRoot, path: &LayerPath) -> Result<Probe, ImageError> {
    let absolute = path.absolute();
    let tree =
        host.trees.iter().filter(|tree| absolute.starts_with(tree)).max_by_key(|tree| tree.as_os_str().len());
    let Some(tree) = tree else {
        return Ok(match walk(&host.skeleton, path.names())? {
            Some(found) => Probe::Here(found),
            None => Probe::Gone,
        });
    };
    let depth = tree.components().count().saturating_sub(1);
    Ok(walk(tree, &path.names()[depth..])?.map_or(Probe::Gone, Probe::Here))
}

/// Finds a name below `base` where every directory on the way is a real one.
fn walk(base: &Path, names: &[OsString]) -> Result<Option<Found>, ImageError> {
    let mut host_path = base.to_path_buf();
    let Some(mut metadata) = stat(&host_path)? else { return Ok(None) };
    for name in names {
        if !metadata.is_dir() {
            return Ok(None);
        }
        host_path.push(name);
        metadata = match stat(&host_path)? {
            Some(metadata) => metadata,
            None => return Ok(None),
        };
    }
    Ok(Some(Found { host_path, metadata }))
}

fn probe_directory(root: &Path, path: &LayerPath) -> Result<Probe, ImageError> {
    let mut host_path = root.to_path_buf();
    let Some(mut metadata) = stat(&host_path)? else {
        return Err(ImageError::io(
            format!("reading layer {}", root.display()),
            io::Error::from(io::ErrorKind::NotFound),
        ));
    };
    for depth in 0..path.names().len() {
        if !metadata.is_dir() {
            return Ok(Probe::Gone);
        }
        host_path.push(&path.names()[depth]);
        metadata = match stat(&host_path)? {
            Some(metadata) if overlay::is_whiteout(&host_path, &metadata) => return Ok(Probe::Gone),
            Some(metadata) => metadata,
            None => {
                let cut =
                    (0..=depth).any(|above| overlay::is_opaque(&root.join(path.prefix(above).relative())));
                return Ok(if cut { Probe::Gone } else { Probe::Below });
            }
        };
    }
    Ok(Probe::Here(Found { host_path, metadata }))
}

fn stat(path: &Path) -> Result<Option<Metadata>, ImageError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(e) => Err(reading(path, e)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::writer::LayerWriter;

    fn path(text: &str) -> LayerPath {
        LayerPath::of_absolute(Path::new(text)).unwrap()
    }

    fn layers() -> (tempfile::TempDir, Vec<Layer>) {
        let root = tempfile::tempdir().unwrap();
        let (low, high) = (root.path().join("low"), root.path().join("high"));
        fs::create_dir_all(low.join("usr/bin")).unwrap();
        fs::create_dir_all(low.join("srv/data")).unwrap();
        fs::write(low.join("usr/bin/tool"), "low").unwrap();
        fs::write(low.join("srv/data/old"), "old").unwrap();
        symlink("usr/bin", low.join("bin")).unwrap();
        symlink("/etc", low.join("config")).unwrap();
        symlink("../../../../outside", low.join("usr/up")).unwrap();
        symlink("loop", low.join("loop")).unwrap();
        fs::create_dir(&high).unwrap();
        let mut writer = LayerWriter::open(&high, &|_| None).unwrap();
        writer.whiteout(&path("/usr/bin/tool")).unwrap();
        writer.directory(&path("/srv/data"), Attributes::directory()).unwrap();
        writer.opaque(&path("/srv/data")).unwrap();
        writer.file(&path("/srv/data/new"), &mut &b"new"[..], 10, &Attributes::new(0o644, 0, 0)).unwrap();
        writer.finish().unwrap();
        let stack = vec![Layer::Directory(low), Layer::Directory(high)];
        (root, stack)
    }

    #[test]
    fn links_are_read_inside_the_root() {
        let (_root, layers) = layers();
        let stack = Stack::new(&layers, Leaving::Clamp);
        assert_eq!(stack.resolve(&path("/bin/new"), true).unwrap(), path("/usr/bin/new"));
        assert_eq!(stack.resolve(&path("/config/passwd"), true).unwrap(), path("/etc/passwd"));
        assert_eq!(stack.resolve(&path("/usr/up/x"), true).unwrap(), path("/outside/x"));
        assert_eq!(stack.resolve(&path("/bin"), false).unwrap(), path("/bin"));
        assert!(stack.resolve(&path("/loop"), true).unwrap_err().to_string().contains("40"));
        assert!(stack.find(&path("/bin/tool")).unwrap().is_none());
        let strict = Stack::new(&layers, Leaving::Refuse);
        assert!(strict.resolve(&path("/config/passwd"), true).unwrap_err().to_string().contains("context"));
        assert!(strict.resolve(&path("/usr/up"), true).unwrap_err().to_string().contains("context"));
    }

    #[test]
    fn deletions_hide_lower_layers() {
        let (_root, layers) = layers();
        let stack = Stack::new(&layers, Leaving::Clamp);
        assert!(stack.find(&path("/usr/bin/tool")).unwrap().is_none());
        assert!(stack.find(&path("/srv/data/old")).unwrap().is_none());
        assert!(stack.find(&path("/srv/data/new")).unwrap().is_some());
        let names: Vec<_> = stack.list(&path("/srv/data")).unwrap().into_keys().collect();
        assert_eq!(names, ["new"]);
        let names: Vec<_> = stack.list(&path("/")).unwrap().into_keys().collect();
        assert_eq!(names, ["bin", "config", "loop", "srv", "usr"]);
        assert!(stack.list(&path("/usr/bin")).unwrap().is_empty());
        assert!(Stack::new(&layers[..1], Leaving::Clamp).find(&path("/usr/bin/tool")).unwrap().is_some());
    }
}
