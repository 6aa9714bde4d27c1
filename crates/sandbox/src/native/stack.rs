//! From the layers of an image to the overlays that have to be mounted.
//!
//! A stack of directories is one overlay. Over the host's own system the root overlay lies on the skeleton, and each
//! host tree gets an overlay of its own: the matching sub-directories of the layers above, then the tree. So a
//! sandbox may write everywhere while neither the host nor a layer ever changes.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use fs_err as fs;
use image::{HostRoot, Layer};
use rustix::fs::{AtFlags, FileType};

use crate::native::wire::Overlay;

/// Directories every sandbox needs to mount on, whatever its image holds.
pub(crate) const MOUNT_POINTS: &[&str] = &["/dev", "/proc", "/sys", "/tmp"];

/// The overlays for a stack of layers, the root first, with changes below `scratch`.
pub(crate) fn plan(layers: &[Layer], scratch: &Path) -> io::Result<Vec<Overlay>> {
    let mut directories = Vec::new();
    let mut host: Option<&HostRoot> = None;
    for (number, layer) in layers.iter().enumerate() {
        match layer {
            Layer::Directory(directory) => directories.push(directory.as_path()),
            Layer::Host(root) if number == 0 => host = Some(root),
            Layer::Host(_) => return Err(io::Error::other("the host's system can only be the lowest layer")),
        }
    }
    // Overlays list the topmost layer first.
    directories.reverse();
    let mut lowers: Vec<PathBuf> = directories.iter().map(|directory| directory.to_path_buf()).collect();
    lowers.extend(host.map(|host| host.skeleton.clone()));
    let mut overlays = vec![overlay(PathBuf::from("/"), lowers, 0, scratch)];
    for tree in host.into_iter().flat_map(|host| &host.trees) {
        let lowers = tree_lowers(&directories, tree)?;
        if !lowers.is_empty() {
            overlays.push(overlay(tree.clone(), lowers, overlays.len(), scratch));
        }
    }
    Ok(overlays)
}

/// How coarse clocks are: the start of a process is told in hundredths of a second, and times of files may lag by as much.
const COARSE: Duration = Duration::from_millis(20);

/// Waits until no layer is as young as clocks are coarse. Who compares times inside a sandbox then knows what was there before
/// its process 1 began and what was changed afterwards.
pub(crate) fn settle(layers: &[Layer]) -> io::Result<()> {
    for layer in layers {
        if let Layer::Directory(directory) = layer {
            let metadata = fs::symlink_metadata(directory)?;
            let since_epoch = |sec: i64, nanos: i64| {
                Duration::new(u64::try_from(sec).unwrap_or(0), u32::try_from(nanos).unwrap_or(0))
            };
            let changed = SystemTime::UNIX_EPOCH + since_epoch(metadata.ctime(), metadata.ctime_nsec());
            let age = changed.elapsed().unwrap_or_default();
            std::thread::sleep(COARSE.saturating_sub(age));
        }
    }
    Ok(())
}

fn overlay(at: PathBuf, lowers: Vec<PathBuf>, number: usize, scratch: &Path) -> Overlay {
    let place = |name: &str| scratch.join(format!("{name}-{number}"));
    Overlay { at, lowers, upper: place("upper"), work: place("work") }
}

/// What lies below a host tree, topmost first; empty when a layer removed or replaced the tree.
fn tree_lowers(directories: &[&Path], tree: &Path) -> io::Result<Vec<PathBuf>> {
    let inside = tree.strip_prefix("/").unwrap_or(tree);
    let mut lowers = Vec::new();
    for directory in directories {
        let mut path = directory.to_path_buf();
        let mut hides = false;
        let mut present = true;
        for component in inside.components() {
            path.push(component);
            match look(&path)? {
                Entry::Absent => {
                    present = false;
                    break;
                }
                Entry::Directory { opaque } => hides |= opaque,
                // A whiteout, a link or a file: what is below cannot be seen any more.
                Entry::Other => {
                    hides = true;
                    present = false;
                    break;
                }
            }
        }
        if present {
            lowers.push(path);
        }
        if hides {
            return Ok(lowers);
        }
    }
    lowers.push(tree.to_path_buf());
    Ok(lowers)
}

enum Entry {
    Absent,
    Directory { opaque: bool },
    Other,
}

fn look(path: &Path) -> io::Result<Entry> {
    match rustix::fs::statat(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
            let mut value = [0_u8; 2];
            let opaque = matches!(rustix::fs::lgetxattr(path, "user.overlay.opaque", &mut value[..]), Ok(1) if value[0] == b'y');
            Ok(Entry::Directory { opaque })
        }
        Ok(_) => Ok(Entry::Other),
        Err(rustix::io::Errno::NOENT) => Ok(Entry::Absent),
        Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use fs_err as fs;

    use super::*;

    fn directories(root: &Path, names: &[&str]) -> Vec<PathBuf> {
        names
            .iter()
            .map(|name| {
                let path = root.join(name);
                fs::create_dir_all(&path).unwrap();
                path
            })
            .collect()
    }

    #[test]
    fn plain_layers_make_one_overlay_topmost_first() {
        let layers = [Layer::Directory("/a".into()), Layer::Directory("/b".into())];
        let overlays = plan(&layers, Path::new("/scratch")).unwrap();
        assert_eq!(overlays.len(), 1);
        assert_eq!(overlays[0].lowers, [PathBuf::from("/b"), PathBuf::from("/a")]);
        assert_eq!(overlays[0].upper, Path::new("/scratch/upper-0"));
    }

    #[test]
    fn host_trees_get_their_part_of_the_layers_above() {
        let temp = tempfile::tempdir().unwrap();
        let made = directories(temp.path(), &["skeleton", "one/usr/lib", "two/etc"]);
        let host = HostRoot { skeleton: made[0].clone(), trees: vec!["/usr".into(), "/opt".into()] };
        let layers = [
            Layer::Host(host),
            Layer::Directory(temp.path().join("one")),
            Layer::Directory(temp.path().join("two")),
        ];
        let overlays = plan(&layers, Path::new("/s")).unwrap();
        let places: Vec<_> = overlays.iter().map(|overlay| overlay.at.clone()).collect();
        assert_eq!(places, [PathBuf::from("/"), "/usr".into(), "/opt".into()]);
        assert_eq!(overlays[1].lowers, [temp.path().join("one/usr"), "/usr".into()]);
        assert_eq!(overlays[2].lowers, [PathBuf::from("/opt")]);
    }

    #[test]
    fn a_layer_can_take_a_tree_away() {
        let temp = tempfile::tempdir().unwrap();
        let made = directories(temp.path(), &["skeleton", "one", "two/opt"]);
        fs::os::unix::fs::symlink("/elsewhere", made[1].join("opt")).unwrap();
        let host = HostRoot { skeleton: made[0].clone(), trees: vec!["/opt".into()] };
        let replaced = [Layer::Host(host.clone()), Layer::Directory(made[1].clone())];
        assert_eq!(plan(&replaced, Path::new("/s")).unwrap().len(), 1);
        let rebuilt =
            [Layer::Host(host), Layer::Directory(made[1].clone()), Layer::Directory(temp.path().join("two"))];
        let overlays = plan(&rebuilt, Path::new("/s")).unwrap();
        assert_eq!(overlays[1].lowers, [temp.path().join("two/opt")]);
    }

    #[test]
    fn the_host_lies_at_the_bottom_or_nowhere() {
        let host = HostRoot { skeleton: "/s".into(), trees: vec![] };
        let layers = [Layer::Directory("/a".into()), Layer::Host(host)];
        assert!(plan(&layers, Path::new("/s")).unwrap_err().to_string().contains("lowest"));
    }
}
