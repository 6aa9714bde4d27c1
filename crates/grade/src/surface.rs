//! Which workspace files decide what a suite checks: the test surface.

use serde::{Deserialize, Serialize};

use crate::Framework;

/// What belongs to the tests of one language.
struct Kind {
    /// Patterns of the files that runners take tests or settings from.
    patterns: &'static [&'static str],
    /// Folders whose content is never touched: history, environments, packages and what is built.
    kept_folders: &'static [&'static str],
    /// Settings that would be taken from a folder above the workspace.
    ancestor_files: &'static [&'static str],
}

/// Python: pytest's and unittest's tests and settings, and what the interpreter runs by itself at start-up.
const PYTHON: Kind = Kind {
    patterns: &[
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
    ],
    kept_folders: &[".eggs", ".git", ".hg", ".nox", ".svn", ".tox", ".venv", "node_modules", "venv"],
    ancestor_files: &[
        ".pytest.ini",
        ".pytest.toml",
        "conftest.py",
        "pyproject.toml",
        "pytest.ini",
        "pytest.toml",
        "setup.cfg",
        "tox.ini",
    ],
};

/// Go: tests and their data, and what decides which packages they are built with.
const GO: Kind = Kind {
    patterns: &["*_test.go", "go.mod", "go.sum", "go.work", "go.work.sum", "testdata/", "vendor/"],
    kept_folders: &[".git", ".hg", ".svn", "node_modules"],
    ancestor_files: &["go.mod", "go.work"],
};

/// Cargo: tests beside the sources, and what decides how they are built. Tests inside a source file stay the agent's.
const CARGO: Kind = Kind {
    patterns: &[".cargo/", "Cargo.lock", "Cargo.toml", "rust-toolchain", "rust-toolchain.toml", "tests/"],
    kept_folders: &[".git", ".hg", ".svn", "node_modules", "target"],
    ancestor_files: &[
        ".cargo/config",
        ".cargo/config.toml",
        "Cargo.toml",
        "rust-toolchain",
        "rust-toolchain.toml",
    ],
};

/// JavaScript: tests, what runs them, and what translates the sources on the way.
const JAVASCRIPT: Kind = Kind {
    patterns: &[
        "*-test.?js",
        "*-test.?s",
        "*.spec.*",
        "*.test.*",
        "*_spec.*",
        "*_test.?js",
        "*_test.?s",
        ".babelrc",
        ".babelrc.*",
        ".c8rc*",
        ".mocharc",
        ".mocharc.*",
        ".npmrc",
        ".nycrc*",
        ".pnp.*",
        ".pnpmfile.*",
        ".swcrc",
        ".taprc",
        ".yarn/",
        ".yarnrc",
        ".yarnrc.*",
        "GNUmakefile",
        "Makefile",
        "__fixtures__/",
        "__mocks__/",
        "__snapshots__/",
        "__tests__/",
        "babel.config.*",
        "jest-*.config.*",
        "jest.*",
        "jsconfig.json",
        "karma.*",
        "makefile",
        "mocha.opts",
        "npm-shrinkwrap.json",
        "package-lock.json",
        "package.json",
        "pnpm-lock.yaml",
        "pnpm-workspace.yaml",
        "spec/",
        "test.?js",
        "test.?s",
        "test/",
        "tests.?js",
        "tests.?s",
        "tests/",
        "tsconfig.*",
        "vite.config.*",
        "vitest.*",
        "yarn.lock",
    ],
    kept_folders: &[".git", ".hg", ".svn", "node_modules"],
    ancestor_files: &[
        ".babelrc",
        ".mocharc.cjs",
        ".mocharc.js",
        ".mocharc.json",
        ".mocharc.jsonc",
        ".mocharc.yaml",
        ".mocharc.yml",
        ".npmrc",
        ".pnp.cjs",
        ".pnp.loader.mjs",
        ".swcrc",
        ".yarnrc",
        ".yarnrc.yml",
        "babel.config.cjs",
        "babel.config.js",
        "babel.config.json",
        "babel.config.mjs",
        "pnpm-workspace.yaml",
        "tsconfig.json",
    ],
};

/// Maven: tests, what they are built and run by, and what JUnit and TestNG take settings and listeners from. What was built is
/// removed by the verifier.
const JAVA: Kind = Kind {
    patterns: &[
        "*Test.java",
        "*TestCase.java",
        "*Tests.java",
        ".mvn/",
        "junit-platform.properties",
        "mvnw",
        "mvnw.cmd",
        "org.junit.*",
        "org.testng.*",
        "pom.xml",
        "test/",
        "tests/",
        "testng*.xml",
    ],
    kept_folders: &[".git", ".hg", ".svn", "node_modules", "target"],
    ancestor_files: &["pom.xml"],
};

/// Folders the verifier always removes: compiled files may not belong to their sources, and pytest's cache may choose
/// which tests run.
const CACHE_FOLDERS: [&str; 2] = ["__pycache__", ".pytest_cache"];

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
        Self::of(Framework::Pytest)
    }

    /// Gives the surface of a project whose tests a framework runs, archived under `surface.tar`.
    pub fn of(framework: Framework) -> Self {
        let kind = match framework {
            Framework::Pytest | Framework::Unittest | Framework::Lines => PYTHON,
            Framework::Go => GO,
            Framework::Cargo => CARGO,
            Framework::Surefire => JAVA,
            Framework::Jest | Framework::Mocha | Framework::Vitest | Framework::Node | Framework::Tap => {
                JAVASCRIPT
            }
        };
        let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Self {
            archive: "surface.tar".to_owned(),
            sha256: None,
            patterns: owned(kind.patterns),
            keep_folders: owned(kind.kept_folders),
            ancestor_files: owned(kind.ancestor_files),
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
            && any_matches(&self.patterns, path)
    }
}

/// Matches workspace paths.
///
/// `name` matches a file name at any depth; `dir/` matches everything below a folder of that name at any depth, and
/// a link or file of that name; a pattern with a slash at its start or inside is anchored at the workspace root,
/// with a slash at its end it covers everything below. `*` and `?` stay within one path component; there are no
/// other special characters.
#[derive(Clone, Debug, Default)]
pub struct SurfacePatterns(Vec<String>);

impl SurfacePatterns {
    /// Takes the patterns as they are written.
    pub fn new<S: AsRef<str>>(patterns: &[S]) -> Self {
        Self(patterns.iter().map(|pattern| pattern.as_ref().to_owned()).collect())
    }

    /// Says whether a path relative to the workspace matches.
    pub fn is_match(&self, path: &str) -> bool {
        any_matches(&self.0, path)
    }
}

fn any_matches(patterns: &[String], path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    patterns.iter().any(|pattern| matches(pattern, &parts))
}

/// Matches the components of a path, of which there is at least one.
fn matches(pattern: &str, parts: &[&str]) -> bool {
    let wanted = pattern.trim_matches('/');
    let folder = pattern.ends_with('/');
    if pattern.starts_with('/') || wanted.contains('/') {
        let count = wanted.split('/').count();
        (parts.len() == count || folder && parts.len() > count)
            && wanted.split('/').zip(parts).all(|(wanted, part)| component_matches(wanted, part))
    } else if folder {
        parts.iter().any(|part| component_matches(wanted, part))
    } else {
        parts.last().is_some_and(|name| component_matches(wanted, name))
    }
}

/// Matches one path component against a pattern with `*` and `?`, in time proportional to their product.
fn component_matches(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // What follows the last star, and where in the text it was last tried.
    let mut retry: Option<(&str, &str)> = None;
    loop {
        let (mut wanted, mut found) = (pattern.chars(), text.chars());
        match (wanted.next(), found.next()) {
            (None, None) => return true,
            (Some('*'), _) => {
                pattern = wanted.as_str();
                retry = Some((pattern, text));
            }
            (Some(one), Some(other)) if one == '?' || one == other => {
                (pattern, text) = (wanted.as_str(), found.as_str());
            }
            _ => {
                let Some((after, from)) = retry else { return false };
                let mut later = from.chars();
                if later.next().is_none() {
                    return false;
                }
                (pattern, text) = (after, later.as_str());
                retry = Some((pattern, text));
            }
        }
    }
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
    fn every_language_has_its_own_surface() {
        for (framework, inside, outside) in [
            (
                Framework::Go,
                &["till_test.go", "a/testdata/x", "go.mod", "sub/go.sum", "vendor/x/y.go"][..],
                &["till.go", "testing.go", "conftest.py", "latest.go"][..],
            ),
            (
                Framework::Mocha,
                &[
                    "test/till.js",
                    ".mocharc.yml",
                    "package.json",
                    "src/a.test.ts",
                    "lib/a_test.mjs",
                    "test.js",
                ],
                &["lib/till.js", "node_modules/mocha/test/a.js", "latest.js", "contest.js", "attest.ts"],
            ),
            (
                Framework::Cargo,
                &["tests/it.rs", "Cargo.toml", "sub/.cargo/config.toml"],
                &["src/lib.rs", "target/tests/x"],
            ),
        ] {
            let surface = Surface::of(framework);
            assert!(surface.patterns.is_sorted(), "{framework:?}");
            for path in inside {
                assert!(surface.contains(path), "{framework:?} {path}");
            }
            for path in outside {
                assert!(!surface.contains(path), "{framework:?} {path}");
            }
        }
        assert_eq!(Surface::of(Framework::Unittest), Surface::pytest());
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
