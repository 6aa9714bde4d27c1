//! The skeleton of a host image: decided first as a list, then written as a layer.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::ImageError;
use crate::digest::Fields;
use crate::layer_path::LayerPath;
use crate::store::LayerKey;
use crate::writer::{Attributes, LayerWriter};

/// Grows with every change to what a skeleton holds that its content does not show.
const VERSION: &str = "seatrial.skeleton/1";

/// One object of the skeleton.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    Directory(u32),
    File(u32, Vec<u8>),
    Link(PathBuf),
}

/// Everything that the skeleton will hold, by path.
#[derive(Debug, Default)]
pub(super) struct Plan {
    nodes: BTreeMap<LayerPath, Node>,
}

impl Plan {
    /// Adds an object unless there is one at that path already.
    pub(super) fn add(&mut self, path: &str, node: Node) {
        if let Ok(path) = LayerPath::of_absolute(Path::new(path)) {
            self.nodes.entry(path).or_insert(node);
        }
    }

    /// Adds an object at a path of the host.
    pub(super) fn add_at(&mut self, path: &Path, node: Node) {
        if let Ok(path) = LayerPath::of_absolute(path) {
            self.nodes.entry(path).or_insert(node);
        }
    }

    /// Content key of the skeleton.
    pub(super) fn key(&self) -> LayerKey {
        let mut fields = Fields::new(VERSION);
        for (path, node) in &self.nodes {
            fields.add(path.relative().as_os_str().as_bytes());
            match node {
                Node::Directory(mode) => fields.add(b"directory").number(u64::from(*mode)),
                Node::File(mode, content) => fields.add(b"file").number(u64::from(*mode)).add(content),
                Node::Link(target) => fields.add(b"link").add(target.as_os_str().as_bytes()),
            };
        }
        LayerKey::from(fields.digest())
    }

    /// Writes the skeleton into an empty directory.
    pub(super) fn write(&self, into: &Path) -> Result<(), ImageError> {
        let mut writer = LayerWriter::open(into, &|_| None)?;
        for (path, node) in &self.nodes {
            match node {
                Node::Directory(mode) => writer.directory(path, Attributes::new(*mode, 0, 0))?,
                Node::File(mode, content) => {
                    let attributes = Attributes::new(*mode, 0, 0);
                    writer.file(path, &mut content.as_slice(), content.len() as u64, &attributes)?;
                }
                Node::Link(target) => {
                    writer.symlink(path, target.as_os_str(), &Attributes::new(0o777, 0, 0))?;
                }
            }
        }
        writer.finish()
    }
}

/// Adds the empty directories of a running system.
pub(super) fn mount_points(plan: &mut Plan) {
    const OPEN: [&str; 2] = ["/tmp", "/var/tmp"];
    const PLAIN: [&str; 15] = [
        "/proc",
        "/sys",
        "/dev",
        "/run",
        "/home",
        "/mnt",
        "/media",
        "/srv",
        "/logs",
        "/usr",
        "/opt",
        "/var/lib",
        "/var/log",
        "/var/cache",
        "/var/spool",
    ];
    for path in OPEN {
        plan.add(path, Node::Directory(0o1777));
    }
    for path in PLAIN {
        plan.add(path, Node::Directory(0o755));
    }
    plan.add("/root", Node::Directory(0o700));
    plan.add("/var/run", Node::Link(PathBuf::from("/run")));
    plan.add("/var/lock", Node::Link(PathBuf::from("/run/lock")));
}
