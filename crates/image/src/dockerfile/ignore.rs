//! `.dockerignore`: which files of the context do not exist for `COPY` and `ADD`.

use std::path::Path;

use super::pattern::matches_path;
use crate::ImageError;
use crate::layer_path::LayerPath;

const MAX_SIZE: u64 = 1 << 20;

/// The rules of a `.dockerignore` file, in order; the last that matches decides.
#[derive(Debug, Default)]
pub(super) struct Ignore {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    pattern: Vec<String>,
    excludes: bool,
}

impl Ignore {
    /// Reads `<Dockerfile>.dockerignore` beside the Dockerfile, else `.dockerignore` of the context, else nothing.
    pub(super) fn load(context: &Path, dockerfile: &Path) -> Result<Self, ImageError> {
        let mut beside = dockerfile.as_os_str().to_owned();
        beside.push(".dockerignore");
        for path in [Path::new(&beside), &context.join(".dockerignore")] {
            if fs_err::symlink_metadata(path).is_ok_and(|m| m.is_file()) {
                let text = super::build::read_text(path, MAX_SIZE)?;
                return Ok(Self::parse(&text));
            }
        }
        Ok(Self::default())
    }

    /// Parses the file. Lines that are empty, comments or only slashes and dots are no rules.
    pub(super) fn parse(text: &str) -> Self {
        let mut rules = Vec::new();
        for line in text.trim_start_matches('\u{feff}').lines().filter(|line| !line.starts_with('#')) {
            let line = line.trim();
            let (excludes, line) = match line.strip_prefix('!') {
                Some(rest) => (false, rest.trim()),
                None => (true, line),
            };
            let mut pattern: Vec<String> = Vec::new();
            for part in line.split('/') {
                match part {
                    "" | "." => {}
                    ".." => {
                        pattern.pop();
                    }
                    _ => pattern.push(part.to_owned()),
                }
            }
            if !pattern.is_empty() {
                rules.push(Rule { pattern, excludes });
            }
        }
        Self { rules }
    }

    /// Whether a path of the context does not exist for the build. A rule that matches a directory matches all below.
    pub(super) fn excludes(&self, path: &LayerPath) -> bool {
        let names = path.names();
        let mut excluded = false;
        for rule in &self.rules {
            if rule.excludes != excluded
                && (1..=names.len()).any(|n| matches_path(&rule.pattern, &names[..n]))
            {
                excluded = rule.excludes;
            }
        }
        excluded
    }

    /// Whether something below an excluded directory may still exist.
    pub(super) fn has_exceptions(&self) -> bool {
        self.rules.iter().any(|rule| !rule.excludes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_matching_rule_decides() {
        let ignore = Ignore::parse("# comment\n*.log\n/build/\n!build/keep.txt\n**/__pycache__\n.env\n");
        let excluded = |path: &str| ignore.excludes(&LayerPath::of_entry(Path::new(path)).unwrap());
        for path in ["a.log", "build", "build/x/y", "a/b/__pycache__/c.pyc", "__pycache__", ".env"] {
            assert!(excluded(path), "{path}");
        }
        for path in ["sub/a.log", "build/keep.txt", "a", "x.env"] {
            assert!(!excluded(path), "{path}");
        }
        assert!(ignore.has_exceptions());
        assert!(!Ignore::parse("a\n\n.\n").has_exceptions());
    }
}
