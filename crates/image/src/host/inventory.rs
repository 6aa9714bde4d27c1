//! What the host's system is made of, and the digest over it.

use std::io::BufRead as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use fs_err as fs;
use ident::Digest;
use serde::{Deserialize, Serialize};

use crate::ImageError;
use crate::digest::Fields;
use crate::store::LayerKey;

const SCHEMA: &str = "seatrial.host/1";
const MAX_LISTED: u64 = 4_000_000;
const MAX_STATUS: u64 = 256 << 20;

/// The record of a host system that a freeze keeps, and that its digest is taken over.
///
/// Where the system is managed by dpkg, its packages stand for what they installed, and only `/usr/local` and `/opt`,
/// which packages leave alone, are listed file by file; a file of a package that somebody changed by hand is not
/// noticed. Elsewhere all trees are listed, which takes longer and notices everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostInventory {
    /// Schema name and version.
    pub schema: String,
    /// The content of `/etc/os-release`.
    pub os_release: String,
    /// The machine's architecture.
    pub architecture: String,
    /// Installed packages, `name version architecture`, sorted; empty where dpkg does not manage the system.
    pub packages: Vec<String>,
    /// Directories listed file by file, sorted by path.
    pub listings: Vec<Listing>,
    /// Directories that a sandbox sees, sorted.
    pub trees: Vec<PathBuf>,
    /// Content key of the skeleton, which covers the filtered `/etc`.
    pub skeleton: LayerKey,
}

/// One directory listed file by file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// The directory.
    pub path: PathBuf,
    /// Files, links and directories below it, compiled Python left out because running a program writes it.
    pub entries: u64,
    /// SHA-256 over path, mode, and length and modification second (files) or target (links) of each, sorted by path.
    pub digest: Digest,
}

impl HostInventory {
    /// The bytes that the digest is taken over.
    pub fn canonical(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings, numbers and UTF-8 paths serialise")
    }
}

/// Takes the inventory of the system at `root`.
pub(super) fn take(root: &Path, trees: &[PathBuf], skeleton: &LayerKey) -> Result<HostInventory, ImageError> {
    for tree in trees {
        if tree.to_str().is_none() {
            return Err(ImageError::Host(format!("the path {} is not UTF-8", tree.display())));
        }
    }
    let os_release = ["etc/os-release", "usr/lib/os-release"]
        .iter()
        .find_map(|name| fs::read(root.join(name)).ok())
        .map(|bytes| String::from_utf8_lossy(&bytes[..bytes.len().min(1 << 16)]).into_owned())
        .unwrap_or_default();
    let packages = dpkg_packages(&root.join("var/lib/dpkg/status"))?;
    let mut listed: Vec<PathBuf> = if packages.is_empty() {
        trees.to_vec()
    } else {
        let unmanaged = [root.join("usr/local"), root.join("opt")];
        let mut listed: Vec<PathBuf> =
            trees.iter().filter(|tree| unmanaged.iter().any(|dir| tree.starts_with(dir))).cloned().collect();
        // Where `/usr` is one tree, `/usr/local` lies inside it.
        listed.extend(
            unmanaged
                .into_iter()
                .filter(|dir| dir.is_dir() && trees.iter().any(|tree| dir.starts_with(tree) && dir != tree)),
        );
        listed
    };
    listed.sort();
    listed.dedup();
    let listings = listed.iter().map(|path| list(path)).collect::<Result<Vec<_>, _>>()?;
    Ok(HostInventory {
        schema: SCHEMA.to_owned(),
        os_release,
        architecture: std::env::consts::ARCH.to_owned(),
        packages,
        listings,
        trees: trees.to_vec(),
        skeleton: skeleton.clone(),
    })
}

/// Installed packages of a dpkg status file, sorted; none when there is no such file.
fn dpkg_packages(status: &Path) -> Result<Vec<String>, ImageError> {
    use std::io::Read as _;
    let Ok(file) = fs::File::open(status) else { return Ok(Vec::new()) };
    let mut packages = Vec::new();
    let (mut name, mut version, mut architecture, mut installed) =
        (String::new(), String::new(), String::new(), false);
    let reader = std::io::BufReader::new(file.take(MAX_STATUS));
    let blank_line_at_end = std::iter::once(Ok(Vec::new()));
    for line in reader.split(b'\n').chain(blank_line_at_end) {
        let line = line.map_err(|e| ImageError::io("reading the package list", e))?;
        let line = String::from_utf8_lossy(&line);
        if line.is_empty() {
            if installed && !name.is_empty() {
                packages.push(format!("{name} {version} {architecture}"));
            }
            (name, version, architecture, installed) = Default::default();
        } else if let Some(value) = line.strip_prefix("Package: ") {
            value.clone_into(&mut name);
        } else if let Some(value) = line.strip_prefix("Version: ") {
            value.clone_into(&mut version);
        } else if let Some(value) = line.strip_prefix("Architecture: ") {
            value.clone_into(&mut architecture);
        } else if let Some(value) = line.strip_prefix("Status: ") {
            installed = value.ends_with(" installed");
        }
    }
    packages.sort();
    Ok(packages)
}

fn list(path: &Path) -> Result<Listing, ImageError> {
    let mut fields = Fields::new("seatrial.listing/1");
    let mut entries = 0;
    let walk = walkdir::WalkDir::new(path).min_depth(1).follow_links(false).sort_by_file_name();
    for entry in walk.into_iter().filter_entry(|entry| entry.file_name() != "__pycache__") {
        let doing = |e: std::io::Error| ImageError::io(format!("listing {}", path.display()), e);
        let entry = match entry {
            Ok(entry) => entry,
            // A directory that this user may not read cannot be read inside either.
            Err(e) if e.io_error().is_some_and(|e| e.kind() == std::io::ErrorKind::PermissionDenied) => {
                continue;
            }
            Err(e) => return Err(doing(e.into())),
        };
        entries += 1;
        if entries > MAX_LISTED {
            return Err(ImageError::Host(format!("{} holds more than {MAX_LISTED} files", path.display())));
        }
        let metadata = entry.metadata().map_err(|e| doing(e.into()))?;
        let relative = entry.path().strip_prefix(path).unwrap_or(entry.path());
        fields.add(relative.as_os_str().as_bytes()).number(u64::from(metadata.mode()));
        if metadata.is_file() {
            fields.number(metadata.len()).add(&metadata.mtime().to_be_bytes());
        } else if metadata.is_symlink() {
            fields.add(fs::read_link(entry.path()).map_err(doing)?.as_os_str().as_bytes());
        }
    }
    Ok(Listing { path: path.to_path_buf(), entries, digest: fields.digest() })
}
