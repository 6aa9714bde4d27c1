//! The files of a build context, for whoever hands them on instead of building here.

use std::path::{Path, PathBuf};

use super::ignore::Ignore;
use crate::ImageError;
use crate::layer_path::LayerPath;

/// Lists what the context has for the build: paths relative to it, in order, without what `.dockerignore` excludes.
/// Links are listed, never followed.
pub fn context_files(context: &Path, dockerfile: &Path) -> Result<Vec<PathBuf>, ImageError> {
    let ignore = Ignore::load(context, dockerfile)?;
    let doing = |e: std::io::Error| ImageError::io(format!("reading {}", context.display()), e);
    let mut files = Vec::new();
    let mut walk = walkdir::WalkDir::new(context).min_depth(1).sort_by_file_name().into_iter();
    while let Some(entry) = walk.next() {
        let entry = entry.map_err(|e| doing(e.into()))?;
        let relative = entry.path().strip_prefix(context).unwrap_or(entry.path());
        let refused = |rule: &str| doing(std::io::Error::other(format!("{} {rule}", relative.display())));
        let excluded = ignore.excludes(&LayerPath::of_entry(relative).map_err(refused)?);
        let directory = entry.file_type().is_dir();
        if excluded && directory && !ignore.has_exceptions() {
            walk.skip_current_dir();
        }
        // A directory that is excluded comes back with whatever is excepted in it.
        if !excluded {
            files.push(relative.to_owned());
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use fs_err as fs;

    use super::*;

    #[test]
    fn excluded_files_do_not_exist_and_links_stay_links() {
        let temp = tempfile::tempdir().unwrap();
        let context = temp.path();
        for path in ["a/b", "a/keep", "z", ".git/x"] {
            fs::create_dir_all(context.join(path).parent().unwrap()).unwrap();
            fs::write(context.join(path), "x").unwrap();
        }
        fs::os::unix::fs::symlink("/etc", context.join("link")).unwrap();
        let list = || {
            let files = context_files(context, &context.join("Dockerfile")).unwrap();
            files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(list(), [".git", ".git/x", "a", "a/b", "a/keep", "link", "z"]);
        fs::write(context.join(".dockerignore"), ".git\na\n!a/keep\n").unwrap();
        assert_eq!(list(), [".dockerignore", "a/keep", "link", "z"]);
    }
}
