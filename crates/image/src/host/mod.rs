//! The machine's own system as an image, under the reserved reference `seatrial.local/host`.
//!
//! What a sandbox sees is an allow-list: the program trees (`/usr` with `/usr/local`, `/opt`, and `/bin`, `/sbin`,
//! `/lib*` where they are directories of their own), a filtered `/etc`, and empty mount points. Never homes, `/root`,
//! `/run`, sockets, other mounts, nor any directory that the caller names as private.

mod accounts;
mod etc;
mod inventory;
mod skeleton;
mod trees;

pub use inventory::{HostInventory, Listing};

use std::path::{Path, PathBuf};

use crate::chain::Chain;
use crate::digest::hex_of;
use crate::store::LayerStore;
use crate::{HostRoot, ImageConfig, ImageError, Layer, RootImage};

/// The search path inside, the same as that of the common base images.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The machine's own system, ready to be mounted, with the record of what it is.
#[derive(Debug, Clone)]
pub struct HostImage {
    /// The image: one [`Layer::Host`].
    pub image: RootImage,
    /// What the digest is taken over.
    pub inventory: HostInventory,
}

/// Prepares the machine's own system as an image.
///
/// `private` names directories that a sandbox must not see even if they lie inside a program tree: the project, its
/// tasks, caches and stores. A tree that contains one is taken apart around it: its other directories stay visible,
/// the private one does not exist inside. The layer store is always private.
///
/// The digest is deterministic for an unchanged machine; see [`HostInventory`] for what it covers.
pub fn prepare(store: &LayerStore, private: &[PathBuf]) -> Result<HostImage, ImageError> {
    prepare_from(Path::new("/"), store, private)
}

/// Does the work of [`prepare`] for a system whose root is `root`.
fn prepare_from(root: &Path, store: &LayerStore, private: &[PathBuf]) -> Result<HostImage, ImageError> {
    let mut hidden = vec![store.root().to_path_buf()];
    for path in private {
        // A directory that does not exist yet is private under the name it will have.
        let absolute =
            std::path::absolute(path).map_err(|e| ImageError::io("naming private directories", e))?;
        hidden.push(fs_err::canonicalize(path).unwrap_or(absolute));
    }
    let mut plan = skeleton::Plan::default();
    let trees = trees::choose(root, &hidden, &mut plan)?;
    etc::collect(root, &mut plan)?;
    skeleton::mount_points(&mut plan);
    let key = plan.key();
    let skeleton = store.get_or_make(&key, "skeleton of the host's system", |into| plan.write(into))?;
    let inventory = inventory::take(root, &trees, &key)?;
    let digest = hex_of(&inventory.canonical());
    let mut config = ImageConfig::default();
    config.env.insert("PATH".to_owned(), DEFAULT_PATH.to_owned());
    let layers = vec![Layer::Host(HostRoot { skeleton: skeleton.directory, trees })];
    let digest = Chain::of(&digest).image_digest(&config);
    Ok(HostImage { image: RootImage { layers, config, digest }, inventory })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use fs_err as fs;

    use super::*;
    use crate::layer_path::LayerPath;
    use crate::stack::{Leaving, Stack};

    /// A small system with a merged `/usr`, accounts, secrets, and a project inside `/opt`.
    fn system() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for path in [
            "usr/bin",
            "usr/lib",
            "usr/local/bin",
            "opt/tool/bin",
            "opt/yard/project/tasks",
            "opt/yard/other",
            "etc/ssl/certs",
            "etc/ssl/private",
            "etc/ssh",
            "etc/alternatives",
            "root",
            "home/someone",
            "var/lib/dpkg",
        ] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        for (path, text) in [
            ("usr/bin/sh", "sh"),
            ("usr/local/bin/mine", "mine"),
            ("opt/yard/readme", "readme"),
            ("opt/yard/project/secret", "secret"),
            (
                "etc/passwd",
                "root:x:0:0:The Boss:/root:/bin/bash\ndaemon:x:1:1:d:/:/bin/false\nsomeone:x:1000:1000:Some One:/home/someone:/bin/bash\nnobody:x:65534:65534:n:/:/bin/false\n",
            ),
            ("etc/group", "root:x:0:\nstaff:x:50:someone,daemon\nsomeone:x:1000:\nnogroup:x:65534:\n"),
            ("etc/shadow", "root:secret"),
            ("etc/ssh/key", "secret"),
            ("etc/ssl/private/key.pem", "secret"),
            ("etc/ssl/certs/ca.pem", "certificate"),
            ("etc/hostname", "the-machine"),
            ("etc/os-release", "ID=test\n"),
            ("root/.netrc", "secret"),
            (
                "var/lib/dpkg/status",
                "Package: b\nStatus: install ok installed\nArchitecture: all\nVersion: 2\n\nPackage: a\nStatus: install ok installed\nArchitecture: all\nVersion: 1\n\nPackage: gone\nStatus: deinstall ok config-files\nArchitecture: all\nVersion: 1\n",
            ),
        ] {
            fs::write(root.join(path), text).unwrap();
        }
        fs::set_permissions(root.join("etc/ssl/certs/ca.pem"), std::fs::Permissions::from_mode(0o644))
            .unwrap();
        symlink("usr/bin", root.join("bin")).unwrap();
        symlink("usr/lib", root.join("lib")).unwrap();
        symlink("/usr/bin/sh", root.join("etc/alternatives/sh")).unwrap();
        dir
    }

    fn skeleton(image: &HostImage) -> PathBuf {
        let Layer::Host(host) = &image.image.layers[0] else { panic!("not a host layer") };
        host.skeleton.clone()
    }

    #[test]
    fn only_the_allow_list_is_visible() {
        let root = system();
        let dir = tempfile::tempdir().unwrap();
        let store = LayerStore::open(dir.path()).unwrap();
        let project = root.path().join("opt/yard/project");
        let image = prepare_from(root.path(), &store, &[project]).unwrap();
        let skeleton = skeleton(&image);

        let passwd = fs::read_to_string(skeleton.join("etc/passwd")).unwrap();
        assert_eq!(
            passwd,
            "root:x:0:0::/root:/bin/bash\ndaemon:x:1:1::/:/bin/false\nnobody:x:65534:65534::/:/bin/false\n"
        );
        let group = fs::read_to_string(skeleton.join("etc/group")).unwrap();
        assert_eq!(group, "root:x:0:\nstaff:x:50:daemon\nnogroup:x:65534:\n");
        assert_eq!(fs::read_to_string(skeleton.join("etc/ssl/certs/ca.pem")).unwrap(), "certificate");
        assert_eq!(fs::read_link(skeleton.join("bin")).unwrap(), Path::new("usr/bin"));
        assert_eq!(fs::read_link(skeleton.join("etc/alternatives/sh")).unwrap(), Path::new("/usr/bin/sh"));
        assert_ne!(fs::read_to_string(skeleton.join("etc/hostname")).unwrap(), "the-machine");
        for absent in ["etc/shadow", "etc/ssh", "etc/ssl/private", "root/.netrc", "home/someone"] {
            assert!(fs::symlink_metadata(skeleton.join(absent)).is_err(), "{absent}");
        }
        for mount in ["proc", "sys", "dev", "run", "tmp", "logs", "home", "root", "var/tmp", "usr"] {
            assert!(skeleton.join(mount).is_dir(), "{mount}");
        }
        assert_eq!(fs::metadata(skeleton.join("tmp")).unwrap().permissions().mode() & 0o7777, 0o1777);

        // `/opt` is taken apart around the project.
        assert!(!skeleton.join("opt/yard/project").exists());
        assert_eq!(fs::read_to_string(skeleton.join("opt/yard/readme")).unwrap(), "readme");
        let Layer::Host(host) = &image.image.layers[0] else { panic!() };
        let trees: Vec<_> =
            host.trees.iter().map(|t| t.strip_prefix(root.path()).unwrap().to_path_buf()).collect();
        assert_eq!(trees, ["opt/tool", "opt/yard/other", "usr"].map(PathBuf::from));
        assert_eq!(image.inventory.packages, ["a 1 all", "b 2 all"]);
    }

    #[test]
    fn the_digest_follows_the_machine() {
        let root = system();
        let dir = tempfile::tempdir().unwrap();
        let store = LayerStore::open(dir.path()).unwrap();
        let digest = || prepare_from(root.path(), &store, &[]).unwrap().image.digest;
        let first = digest();
        assert_eq!(first, digest());
        fs::write(root.path().join("root/.netrc"), "changed").unwrap();
        assert_eq!(first, digest());
        fs::write(root.path().join("usr/local/bin/other"), "x").unwrap();
        let second = digest();
        assert_ne!(first, second);
        fs::write(root.path().join("etc/ssl/certs/ca.pem"), "another").unwrap();
        assert_ne!(second, digest());
    }

    #[test]
    fn the_real_machine_can_be_offered() {
        let dir = tempfile::tempdir().unwrap();
        let store = LayerStore::open(dir.path()).unwrap();
        let first = prepare(&store, &[]).unwrap();
        let again = prepare(&store, &[]).unwrap();
        assert_eq!(first.image, again.image);
        assert_eq!(first.inventory, again.inventory);
        let stack = Stack::new(&first.image.layers, Leaving::Clamp);
        let shell = LayerPath::of_absolute(Path::new("/bin/sh")).unwrap();
        let (_, shell) = stack.open(&shell).unwrap().expect("a shell is visible");
        assert!(shell.metadata.is_file());
        let shadow = LayerPath::of_absolute(Path::new("/etc/shadow")).unwrap();
        assert!(stack.open(&shadow).unwrap().is_none());
    }
}
