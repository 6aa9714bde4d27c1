//! Which directories of the host are seen inside at the same path.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::skeleton::{Node, Plan};
use crate::ImageError;

/// Top-level names that hold programs and libraries. All else of the root directory stays outside.
const PROGRAM_TREES: [&str; 8] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt"];
/// Largest loose file beside a private directory that is copied rather than refused, in bytes.
const MAX_LOOSE_FILE: u64 = 1 << 20;
/// How many directories a tree may be taken apart into.
const MAX_TREES: usize = 400;

/// Chooses the trees of the system at `root`, sorted. Links such as a merged `/bin` go into the skeleton. A tree that
/// contains a hidden directory is taken apart around it.
pub(super) fn choose(root: &Path, hidden: &[PathBuf], plan: &mut Plan) -> Result<Vec<PathBuf>, ImageError> {
    let mut trees = Vec::new();
    for name in PROGRAM_TREES {
        let path = root.join(name);
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() {
            take(root, &path, hidden, plan, &mut trees)?;
        } else if metadata.is_symlink() {
            let target = fs::read_link(&path).map_err(|e| ImageError::io("reading the host's root", e))?;
            if stays_in_trees(&target) {
                plan.add(&format!("/{name}"), Node::Link(target));
            }
        }
    }
    trees.sort();
    if trees.len() > MAX_TREES {
        return Err(ImageError::Host(format!(
            "a private directory lies among {} others in a program tree; move it out of /usr and /opt",
            trees.len()
        )));
    }
    Ok(trees)
}

/// Whether a top-level link leads to a program tree, as `usr/bin` does.
fn stays_in_trees(target: &Path) -> bool {
    let mut names = target.components().filter(|c| !matches!(c, std::path::Component::RootDir));
    let first = names.next().and_then(|c| c.as_os_str().to_str());
    first.is_some_and(|first| PROGRAM_TREES.contains(&first))
        && names.all(|c| matches!(c, std::path::Component::Normal(_)))
}

fn take(
    root: &Path,
    path: &Path,
    hidden: &[PathBuf],
    plan: &mut Plan,
    trees: &mut Vec<PathBuf>,
) -> Result<(), ImageError> {
    let doing = |e: std::io::Error| ImageError::io("choosing the host's program trees", e);
    let real = fs::canonicalize(path).map_err(doing)?;
    if hidden.iter().any(|private| real.starts_with(private)) {
        return Ok(());
    }
    if !hidden.iter().any(|private| private.starts_with(&real)) {
        trees.push(path.to_path_buf());
        return Ok(());
    }
    let inside = Path::new("/").join(path.strip_prefix(root).unwrap_or(path));
    plan.add_at(&inside, Node::Directory(0o755));
    let mut entries = Vec::new();
    for entry in fs::read_dir(path).map_err(doing)? {
        entries.push(entry.map_err(doing)?.path());
    }
    entries.sort();
    for entry in entries {
        let metadata = fs::symlink_metadata(&entry).map_err(doing)?;
        let inside = Path::new("/").join(entry.strip_prefix(root).unwrap_or(&entry));
        if metadata.is_dir() {
            take(root, &entry, hidden, plan, trees)?;
        } else if hidden.iter().any(|private| entry.starts_with(private)) {
            // A private file.
        } else if metadata.is_symlink() {
            plan.add_at(&inside, Node::Link(fs::read_link(&entry).map_err(doing)?));
        } else if metadata.is_file() {
            if metadata.len() > MAX_LOOSE_FILE {
                return Err(ImageError::Host(format!(
                    "{} lies beside a private directory and is too large to copy; move the private directory out of \
                     /usr and /opt",
                    entry.display()
                )));
            }
            let content = super::etc::read_bounded(&entry, MAX_LOOSE_FILE)?;
            plan.add_at(&inside, Node::File(metadata.mode() & 0o755, content));
        }
    }
    Ok(())
}
