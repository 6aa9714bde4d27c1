//! The runners whose output can be read.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The runners that the vendored verifier knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Framework {
    /// Pytest: verbose lines, the `-rA` summary, pytest-xdist's lines.
    Pytest,
    /// Python's unittest with `--verbose`, Django's runner included.
    Unittest,
    /// Lines that begin with a status, `PASSED name` or `[ok]: name (12 ms)`; recorded logs only.
    Lines,
    /// `go test`.
    Go,
    /// `cargo test`.
    Cargo,
    /// Jest.
    Jest,
    /// Mocha.
    Mocha,
    /// Vitest.
    Vitest,
    /// `node --test`.
    Node,
    /// The Test Anything Protocol.
    Tap,
    /// Maven with its plugin Surefire.
    Surefire,
}

impl Framework {
    /// All frameworks, in the order of the enum.
    pub const ALL: [Self; 11] = [
        Self::Pytest,
        Self::Unittest,
        Self::Lines,
        Self::Go,
        Self::Cargo,
        Self::Jest,
        Self::Mocha,
        Self::Vitest,
        Self::Node,
        Self::Tap,
        Self::Surefire,
    ];

    /// Gives the name used in configurations.
    pub const fn as_str(self) -> &'static str {
        LogFormat::of_framework(self).as_str()
    }

    /// Gives the framework whose suites print such logs; `None` where the vendored verifier knows none.
    pub fn of_log(log: LogFormat) -> Option<Self> {
        Self::ALL.into_iter().find(|framework| LogFormat::of_framework(*framework) == log)
    }
}

/// The form of a recorded log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Pytest: verbose lines, the `-rA` summary, pytest-xdist's lines.
    Pytest,
    /// Python's unittest with `--verbose`, Django's runner included.
    Unittest,
    /// Lines that begin with a status, `PASSED name` or `[ok]: name (12 ms)`.
    Lines,
    /// `go test -v`, and `go test -json` where a line is such an event.
    Go,
    /// `cargo test`: libtest's lines, documentation tests included, or its JSON events.
    Cargo,
    /// `cargo nextest run`: its lines, or its libtest events.
    Nextest,
    /// Jest, with `--verbose` or without.
    Jest,
    /// Mocha's `spec` reporter.
    Mocha,
    /// Vitest's default and verbose reporters.
    Vitest,
    /// The `spec` reporter of `node --test`.
    Node,
    /// The Test Anything Protocol: tape, QUnit, `node --test` of old.
    Tap,
    /// Maven Surefire's console, with `reportFormat=plain` for tests that pass.
    Surefire,
    /// JUnit XML documents within a log, or Gradle's console where there is none.
    Junit,
    /// Reports in the Common Test Report Format within a log.
    Ctrf,
}

impl LogFormat {
    /// All formats, in the order of the enum.
    pub const ALL: [Self; 14] = [
        Self::Pytest,
        Self::Unittest,
        Self::Lines,
        Self::Go,
        Self::Cargo,
        Self::Nextest,
        Self::Jest,
        Self::Mocha,
        Self::Vitest,
        Self::Node,
        Self::Tap,
        Self::Surefire,
        Self::Junit,
        Self::Ctrf,
    ];

    const fn of_framework(framework: Framework) -> Self {
        match framework {
            Framework::Pytest => Self::Pytest,
            Framework::Unittest => Self::Unittest,
            Framework::Lines => Self::Lines,
            Framework::Go => Self::Go,
            Framework::Cargo => Self::Cargo,
            Framework::Jest => Self::Jest,
            Framework::Mocha => Self::Mocha,
            Framework::Vitest => Self::Vitest,
            Framework::Node => Self::Node,
            Framework::Tap => Self::Tap,
            Framework::Surefire => Self::Surefire,
        }
    }

    /// Gives the name used in profiles.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pytest => "pytest",
            Self::Unittest => "unittest",
            Self::Lines => "lines",
            Self::Go => "go",
            Self::Cargo => "cargo",
            Self::Nextest => "nextest",
            Self::Jest => "jest",
            Self::Mocha => "mocha",
            Self::Vitest => "vitest",
            Self::Node => "node",
            Self::Tap => "tap",
            Self::Surefire => "surefire",
            Self::Junit => "junit",
            Self::Ctrf => "ctrf",
        }
    }

    /// Translates the runner's exit status into the words of [`crate::decide`]: 0 all passed, 1 some failed, 5 nothing ran.
    ///
    /// Cargo ends with 101 when tests fail, nextest with 100 (and with 4 when there are none), Mocha with the number of
    /// failures, and Go with 2 when a package cannot be built, which is an error of that package. Every other status
    /// stays as it is.
    pub const fn suite_exit(self, exit: i32) -> i32 {
        match (self, exit) {
            (Self::Cargo, 101) | (Self::Nextest, 100) | (Self::Go, 2) | (Self::Mocha, 1..=125) => 1,
            (Self::Nextest, 4) => 5,
            _ => exit,
        }
    }
}

impl From<Framework> for LogFormat {
    fn from(framework: Framework) -> Self {
        Self::of_framework(framework)
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A name that is no log format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no log format; known are pytest, unittest, lines, go, cargo, nextest, jest, mocha, vitest, node, tap, surefire, junit, ctrf"
)]
pub struct UnknownFormat(pub String);

impl FromStr for LogFormat {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        let found = Self::ALL.into_iter().find(|format| format.as_str() == text);
        found.ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_and_are_those_of_serde() {
        for format in LogFormat::ALL {
            assert_eq!(format.as_str().parse(), Ok(format));
            assert_eq!(serde_json::to_value(format).unwrap(), format.as_str());
        }
        for framework in Framework::ALL {
            assert_eq!(serde_json::to_value(framework).unwrap(), framework.as_str());
            assert_eq!(Framework::of_log(framework.into()), Some(framework));
        }
        assert_eq!(Framework::of_log(LogFormat::Junit), None);
        let error = "nose".parse::<LogFormat>().unwrap_err();
        assert!(error.to_string().contains("\"nose\" is no log format"), "{error}");
    }

    #[test]
    fn exits_of_failing_suites_are_alike() {
        assert_eq!(LogFormat::Cargo.suite_exit(101), 1);
        assert_eq!(LogFormat::Mocha.suite_exit(7), 1);
        assert_eq!(LogFormat::Mocha.suite_exit(137), 137);
        assert_eq!(LogFormat::Go.suite_exit(2), 1);
        assert_eq!([100, 4, 101].map(|exit| LogFormat::Nextest.suite_exit(exit)), [1, 5, 101]);
        assert_eq!(LogFormat::Jest.suite_exit(2), 2);
        assert_eq!(LogFormat::Pytest.suite_exit(5), 5);
    }
}
