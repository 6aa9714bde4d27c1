//! Which workspace files decide what a suite checks: the test surface.

use serde::{Deserialize, Serialize};

/// Patterns of the files that pytest takes tests or settings from, or that Python runs by itself at start-up.
pub const PYTEST_PATTERNS: &[&str] = &[
    "*.pth",
    "*_test.py",
    ".coveragerc",
    ".pytest.ini",
    ".pytest.toml",
    "conftest.py",
    "pyproject.toml",
    "pytest.ini",
    "pytest.toml",
    "setup.cfg",
    "sitecustomize.*",
    "sitecustomize/",
    "test.py",
    "test/",
    "test_*.py",
    "tests.py",
    "tests/",
    "tox.ini",
    "usercustomize.*",
    "usercustomize/",
];

/// Folders whose content is never touched: history, environments and packages, none of which pytest collects.
pub const KEPT_FOLDERS: &[&str] =
    &[".eggs", ".git", ".hg", ".nox", ".svn", ".tox", ".venv", "node_modules", "venv"];

/// Folders the verifier always removes: compiled files may not belong to their sources, and pytest's cache may choose
/// which tests run.
const CACHE_FOLDERS: [&str; 2] = ["__pycache__", ".pytest_cache"];

/// Settings that pytest would take from a folder above the workspace.
pub const ANCESTOR_FILES: &[&str] = &[
    ".pytest.ini",
    ".pytest.toml",
    "conftest.py",
    "pyproject.toml",
    "pytest.ini",
    "pytest.toml",
    "setup.cfg",
    "tox.ini",
];

/// What the verifier restores before it runs the suite, as written into `tests/config.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Surface {
    /// Name of the uncompressed tar archive beside `config.json`; member names are relative to the workspace.
    pub archive: String,
    /// Sha256 of the archive in lower-case hexadecimal; checked before anything is restored when present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Patterns of [`SurfacePatterns`]; a matching file that the archive lacks is removed.
    pub patterns: Vec<String>,
    /// Names of folders that are not looked into.
    pub keep_folders: Vec<String>,
    /// Names of files removed from every folder above the workspace.
    pub ancestor_files: Vec<String>,
    /// Whether packaging metadata inside the workspace may register pytest plugins that the archive lacks; needed
    /// when the project is itself a pytest plugin.
    #[serde(default)]
    pub tree_plugins: bool,
}

impl Surface {
    /// Gives the surface of a pytest project, archived under `surface.tar`.
    pub fn pytest() -> Self {
        let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Self {
            archive: "surface.tar".to_owned(),
            sha256: None,
            patterns: owned(PYTEST_PATTERNS),
            keep_folders: owned(KEPT_FOLDERS),
            ancestor_files: owned(ANCESTOR_FILES),
            tree_plugins: false,
        }
    }

    /// Says whether a workspace path (relative, `/` between parts) belongs to the surface.
    ///
    /// Paths below a kept folder or a cache do not. Build the archive from the files (links included) for which this holds.
    pub fn contains(&self, path: &str) -> bool {
        let mut folders = path.split('/');
        folders.next_back();
        !folders
            .any(|part| CACHE_FOLDERS.contains(&part) || self.keep_folders.iter().any(|kept| kept == part))
            && SurfacePatterns::new(&self.patterns).is_match(path)
    }
}

/// Matches workspace paths.
///
/// `name` matches a file name at any depth; `dir/` matches everything below a folder of that name at any depth, and
/// a link or file of that name; a pattern with a slash at its start or inside is anchored at the workspace root,
/// with a slash at its end it covers everything below. `*` and `?` stay within one path component; there are no
/// other special characters.
#[derive(Clone, Debug, Default)]
pub struct SurfacePatterns {
    names: Vec<String>,
    folders: Vec<String>,
    anchored: Vec<(Vec<String>, bool)>,
}

impl SurfacePatterns {
    /// Sorts patterns into their kinds.
    pub fn new<S: AsRef<str>>(patterns: &[S]) -> Self {
        let mut found = Self::default();
        for pattern in patterns.iter().map(AsRef::as_ref) {
            let parts: Vec<String> = pattern.trim_matches('/').split('/').map(str::to_owned).collect();
            if pattern.starts_with('/') || parts.len() > 1 {
                found.anchored.push((parts, pattern.ends_with('/')));
            } else if pattern.ends_with('/') {
                found.folders.extend(parts);
            } else {
                found.names.extend(parts);
            }
        }
        found
    }

    /// Says whether a path relative to the workspace matches.
    pub fn is_match(&self, path: &str) -> bool {
        let parts: Vec<&str> = path.split('/').collect();
        let name = parts.last().copied().unwrap_or_default();
        self.names.iter().any(|pattern| component_matches(pattern, name))
            || self.folders.iter().any(|pattern| parts.iter().any(|part| component_matches(pattern, part)))
            || self.anchored.iter().any(|(pattern, folder)| {
                (parts.len() == pattern.len() || *folder && parts.len() > pattern.len())
                    && pattern.iter().zip(&parts).all(|(wanted, part)| component_matches(wanted, part))
            })
    }
}

/// Matches one path component against a pattern with `*` and `?`, in time proportional to their product.
fn component_matches(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut seen) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while seen < text.len() {
        match pattern.get(at) {
            Some('*') => {
                retry = Some((at, seen));
                at += 1;
            }
            Some(&wanted) if wanted == '?' || wanted == text[seen] => {
                at += 1;
                seen += 1;
            }
            _ => match retry {
                Some((star, from)) => {
                    retry = Some((star, from + 1));
                    at = star + 1;
                    seen = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|&rest| rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pytest_surface_covers_tests_and_settings() {
        let surface = Surface::pytest();
        for path in [
            "tests/test_calc.py",
            "conftest.py",
            "pytest.ini",
            "setup.cfg",
            "src/pkg/tests/data/a.json",
            "src/sitecustomize.py",
            "pkg/calc_test.py",
            "deep/down/conftest.py",
            "sub/tests",
        ] {
            assert!(surface.contains(path), "{path}");
        }
        for path in [
            "calc.py",
            "src/contest.py",
            "latest/x.py",
            ".git/tests/x",
            ".venv/a.pth",
            "tests/__pycache__/x.pyc",
        ] {
            assert!(!surface.contains(path), "{path}");
        }
    }

    #[test]
    fn anchored_patterns_hold_at_the_root_only() {
        let patterns = SurfacePatterns::new(&["/only.py", "a/*/c.py", "/data/"]);
        assert!(patterns.is_match("only.py"));
        assert!(!patterns.is_match("sub/only.py"));
        assert!(patterns.is_match("a/b/c.py"));
        assert!(!patterns.is_match("a/b/b/c.py"));
        assert!(patterns.is_match("data/x/y"));
        assert!(!patterns.is_match("sub/data/x"));
    }

    #[test]
    fn stars_backtrack_and_question_marks_take_one() {
        assert!(component_matches("*_test.py", "a_test_test.py"));
        assert!(component_matches("t?st", "test"));
        assert!(!component_matches("t?st", "tst"));
        assert!(component_matches("**", ""));
        assert!(!component_matches("", "x"));
    }
}
