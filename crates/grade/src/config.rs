//! What a task tells its verifier: `tests/config.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Framework, Required, Surface};

/// Names the schema of `tests/config.json`.
pub const CONFIG_SCHEMA: &str = "seatrial.verifier/1";

/// The verifier's configuration; both this crate and the vendored `verify.py` read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifierConfig {
    /// Always [`CONFIG_SCHEMA`].
    pub schema: String,
    /// Names the task in reports.
    pub instance_id: String,
    /// Absolute path of the workspace, the folder the suite runs in.
    pub workdir: String,
    /// What runs the tests and how its results are read; [`Framework::accepts`] says which commands are fit for it.
    pub framework: Framework,
    /// The suite's argument list, started without a shell. `pytest ...` and `python -m pytest ...` are started
    /// through the report plugin; other commands of pytest must load it from `PYTEST_ADDOPTS`.
    pub command: Vec<String>,
    /// Environment of the suite on top of the fixed one; `PATH` gets the interpreter's folder in front.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Absolute path of the interpreter for a Python suite; the one that runs the verifier when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// Time limit of the suite in seconds, at least 1.
    pub timeout_sec: u64,
    /// Allows an empty `fail_to_pass`, for runs that only look for regressions.
    #[serde(default)]
    pub p2p_only: bool,
    /// Tests that fail before the fix and must pass after it.
    pub fail_to_pass: Vec<String>,
    /// Tests that pass before and after the fix.
    pub pass_to_pass: Vec<String>,
    /// What is restored before the suite runs.
    pub surface: Surface,
}

/// Says why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The text is not JSON of the right shape.
    #[error("verifier configuration is not readable: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// The schema is another one.
    #[error("verifier configuration has schema {found:?}, wanted {CONFIG_SCHEMA:?}; write it anew")]
    Schema {
        /// What the file says.
        found: String,
    },
    /// A field holds a value that no verifier can work with.
    #[error("verifier configuration: {field} {problem}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl VerifierConfig {
    /// Reads and checks the text of a `config.json`.
    ///
    /// # Errors
    /// [`ConfigError`] names what is wrong.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        let config: Self = serde_json::from_str(text)?;
        config.check()?;
        Ok(config)
    }

    /// Gives the text of `config.json`: the same bytes for the same configuration.
    ///
    /// # Errors
    /// [`ConfigError`] names what is wrong; nothing that [`Self::from_json`] would refuse is written.
    pub fn to_json(&self) -> Result<String, ConfigError> {
        self.check()?;
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }

    /// Gives the required tests.
    pub fn required(&self) -> Required<'_> {
        Required {
            fail_to_pass: &self.fail_to_pass,
            pass_to_pass: &self.pass_to_pass,
            pass_to_pass_only: self.p2p_only,
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        let field = |field, problem| Err(ConfigError::Field { field, problem });
        if self.schema != CONFIG_SCHEMA {
            return Err(ConfigError::Schema { found: self.schema.clone() });
        }
        if self.command.first().is_none_or(String::is_empty) {
            return field("command", "is empty");
        }
        if self.timeout_sec == 0 {
            return field("timeout_sec", "must be at least 1");
        }
        if !self.workdir.starts_with('/') || self.workdir.split('/').any(|part| part == "..") {
            return field("workdir", "must be an absolute path without `..`");
        }
        if self.python.as_ref().is_some_and(|path| !path.starts_with('/')) {
            return field("python", "must be an absolute path");
        }
        if self.surface.archive.contains('/') || self.surface.archive.is_empty() {
            return field("surface.archive", "must be a plain file name");
        }
        if self.surface.patterns.iter().any(|pattern| {
            pattern.contains(['[', ']', '\\'])
                || pattern.trim_matches('/').is_empty()
                || pattern.contains("**")
        }) {
            return field("surface.patterns", "must not be empty or hold `[`, `]`, `\\` or `**`");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn config() -> VerifierConfig {
        VerifierConfig {
            schema: CONFIG_SCHEMA.to_owned(),
            instance_id: "demo".to_owned(),
            workdir: "/testbed".to_owned(),
            framework: Framework::Pytest,
            command: vec!["pytest".to_owned()],
            env: BTreeMap::new(),
            python: None,
            timeout_sec: 90,
            p2p_only: false,
            fail_to_pass: vec!["t.py::a".to_owned()],
            pass_to_pass: vec![],
            surface: Surface::pytest(),
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let text = config().to_json().unwrap();
        assert_eq!(VerifierConfig::from_json(&text).unwrap(), config());
    }

    #[test]
    fn unusable_values_are_refused_by_name() {
        let refused = |change: fn(&mut VerifierConfig)| {
            let mut changed = config();
            change(&mut changed);
            changed.to_json().unwrap_err().to_string()
        };
        assert!(refused(|c| c.command.clear()).contains("command"));
        assert!(refused(|c| c.timeout_sec = 0).contains("timeout_sec"));
        assert!(refused(|c| c.workdir = "/a/../b".into()).contains("workdir"));
        assert!(refused(|c| c.python = Some("python3".into())).contains("python"));
        assert!(refused(|c| c.surface.archive = "../x".into()).contains("archive"));
        assert!(refused(|c| c.surface.patterns.push("[a]".into())).contains("patterns"));
        assert!(refused(|c| c.schema = "other".into()).contains("schema"));
        assert!(VerifierConfig::from_json("{\"schema\": \"x\", \"extra\": 1}").is_err());
    }
}
