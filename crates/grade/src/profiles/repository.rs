//! One repository's profile.

use std::collections::BTreeMap;

use record::Profile;
use serde::{Deserialize, Serialize};

use super::key::ProfileKeyError;
use crate::{Framework, LogFormat};

/// The language a repository's tests are run by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Go.
    Go,
    /// Java.
    Java,
    /// JavaScript.
    Javascript,
    /// Python.
    Python,
    /// Rust.
    Rust,
}

impl Language {
    /// Gives the name used in the data.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::Java => "java",
            Self::Javascript => "javascript",
            Self::Python => "python",
            Self::Rust => "rust",
        }
    }
}

/// How the tests of one repository at one commit are run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryProfile {
    /// `owner/name`, in its owner's spelling.
    pub repository: String,
    /// The commit, as many of its digits as the collection gives, 8 at least.
    pub commit: String,
    /// The language.
    pub language: Language,
    /// The suite's command as one shell line; for Python inside the environment of [`Self::interpreter`].
    pub command: String,
    /// The form of its log; `None` when the runner only counts tests and names none.
    pub log: Option<LogFormat>,
    /// The collection's limit for one run of the suite, in seconds.
    pub timeout_sec: u64,
    /// The collection's limit for the run that everything is compared with, in seconds.
    pub reference_timeout_sec: u64,
    /// The image or version the environment was built on, as far as it is known.
    pub toolchain: Option<String>,
    /// What installs the project, as far as it is known.
    pub install: Vec<String>,
    /// Absolute path of the interpreter inside the collection's image.
    pub interpreter: Option<String>,
    /// Says that the collection runs only the test files of an instance: the whole suite is too slow.
    pub narrow: bool,
    /// Says that the collection makes a reference run for every instance.
    pub reference_per_task: bool,
    /// Public evaluation sets that use this repository too.
    pub evaluation_sets: Vec<String>,
}

/// Why the vendored verifier cannot grade a repository's tasks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unverifiable {
    /// Its tests are run by something that the verifier does not know.
    #[error(
        "the tests of `{repository}` are {language} tests ({runner}), which the verifier inside tasks does not run"
    )]
    Runner {
        /// The repository.
        repository: String,
        /// Its language.
        language: &'static str,
        /// The form of its log.
        runner: &'static str,
    },
    /// The command is not one program with arguments that the verifier can start and watch.
    #[error("the command of `{repository}` is `{command}`: {why}; write a profile of your own")]
    Command {
        /// The repository.
        repository: String,
        /// The command.
        command: String,
        /// Why it cannot be started.
        why: &'static str,
    },
}

impl Unverifiable {
    /// Gives a stable name, for documents and tables.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Runner { .. } => "runner_unsupported",
            Self::Command { .. } => "command_unsupported",
        }
    }
}

/// Why there is no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// The name is none.
    #[error(transparent)]
    Key(#[from] ProfileKeyError),
    /// The repository is not known.
    #[error("no profile is known of `{0}`; write one of your own")]
    Repository(String),
    /// The repository is known at other commits.
    #[error("no profile of `{repository}` is known at commit {wanted}, only at {}; write one of your own", known.join(", "))]
    Commit {
        /// The repository.
        repository: String,
        /// The wanted commit.
        wanted: String,
        /// Commits with a profile.
        known: Vec<String>,
    },
    /// The digits of the commit fit several profiles.
    #[error("commit {wanted} of `{repository}` fits {}; give more of its digits", known.join(" and "))]
    Ambiguous {
        /// The repository.
        repository: String,
        /// The wanted commit.
        wanted: String,
        /// The commits it fits.
        known: Vec<String>,
    },
}

/// Characters that mean something to a shell beyond splitting words.
const SHELL: &[char] =
    &[';', '&', '|', '<', '>', '$', '`', '(', ')', '*', '?', '~', '{', '}', '#', '!', '\\', '\'', '"', '\n'];

impl RepositoryProfile {
    /// Gives the collection's name of the repository, `owner__name.commit8`.
    pub fn name(&self) -> String {
        let commit = self.commit.get(..8).unwrap_or(&self.commit);
        format!("{}.{commit}", self.repository.replacen('/', "__", 1))
    }

    /// Gives the name of the mirror, `swesmith/owner__name.commit8`.
    pub fn mirror(&self) -> String {
        format!("swesmith/{}", self.name())
    }

    /// Splits the command into variables and words; `None` when it takes a shell.
    pub fn words(&self) -> Option<(BTreeMap<String, String>, Vec<String>)> {
        if self.command.contains(SHELL) {
            return None;
        }
        let mut env = BTreeMap::new();
        let mut words = self.command.split_whitespace().peekable();
        while let Some((name, value)) = words.peek().and_then(|word| word.split_once('='))
            && is_variable(name)
        {
            env.insert(name.to_owned(), value.to_owned());
            words.next();
        }
        let words: Vec<String> = words.map(str::to_owned).collect();
        (!words.is_empty()).then_some((env, words))
    }

    /// Gives the profile that a task is made with, for an instance of the collection's repository `repo`.
    ///
    /// The limit is left to the recipe; [`Self::timeout_sec`] is what the collection found to be enough.
    ///
    /// # Errors
    /// [`Unverifiable`] names what the vendored verifier cannot do.
    pub fn to_profile(&self, repo: &str) -> Result<Profile, Unverifiable> {
        let repository = || self.repository.clone();
        let Some(framework) = self.log.and_then(Framework::of_log) else {
            return Err(Unverifiable::Runner {
                repository: repository(),
                language: self.language.as_str(),
                runner: self.log.map_or("no names", LogFormat::as_str),
            });
        };
        let unsupported =
            |why| Unverifiable::Command { repository: repository(), command: self.command.clone(), why };
        let (mut env, words) = self.words().ok_or_else(|| unsupported("it takes a shell"))?;
        framework.accepts(&words).map_err(unsupported)?;
        if framework == Framework::Pytest && Framework::of_command(&words) != Some(framework) {
            return Err(unsupported("another program starts pytest"));
        }
        if words[0].ends_with("/uv") || words[0] == "uv" {
            // The environment is there; without network nothing can be brought up to date.
            env.extend(["UV_NO_SYNC", "UV_OFFLINE"].map(|name| (name.to_owned(), "1".to_owned())));
        }
        Ok(Profile {
            repo: repo.to_owned(),
            package: None,
            version: None,
            sdist: None,
            sha256: None,
            framework: Some(framework.as_str().to_owned()),
            test_cmd: words.join(" "),
            env,
            test_files: Vec::new(),
            timeout_sec: None,
        })
    }
}

fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}
