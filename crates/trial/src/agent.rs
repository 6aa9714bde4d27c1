//! Who works on tasks.

use std::fmt;
use std::str::FromStr;

use ::agent::installed::Spec;

/// Who works on the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Agent {
    /// Applies the task's own solution.
    Oracle,
    /// Does nothing.
    Nop,
    /// Tries to get the reward without solving the task. It never sees the solution.
    Cheat(Script),
    /// Lets the run's model give shell commands.
    Shell,
    /// Starts a program of the image, which asks the run's model by itself.
    Installed(&'static Spec),
}

/// A fixed program that works on a task in the place of its solution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Script {
    /// The agent's name in results.
    pub agent: &'static str,
    /// A shell script. It is started in the working directory of the environment, as solutions are.
    pub text: &'static str,
}

/// The model of a run, and how agents work with it.
#[derive(Debug, Clone)]
pub struct Model {
    /// Asks it.
    pub client: ::agent::endpoint::Client,
    /// What the agent goes by.
    pub rules: ::agent::shell::Rules,
    /// Seed of the first attempt at a task; each further attempt has the next number.
    pub seed: Option<u64>,
    /// Whether the bytes of requests and answers are kept in the trial's directory.
    pub keep_wire: bool,
}

impl Model {
    /// Its name, as the endpoint calls it.
    pub fn name(&self) -> &str {
        &self.client.settings().model
    }
}

impl Agent {
    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Oracle => "oracle",
            Self::Nop => "nop",
            Self::Cheat(script) => script.agent,
            Self::Shell => ::agent::shell::NAME,
            Self::Installed(spec) => &spec.name,
        }
    }

    /// Whether it asks a model.
    pub fn asks_model(self) -> bool {
        matches!(self, Self::Shell | Self::Installed(_))
    }

    /// Its version in results.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Shell => env!("CARGO_PKG_VERSION"),
            Self::Installed(spec) => &spec.version,
            Self::Oracle | Self::Nop | Self::Cheat(_) => "1.0.0",
        }
    }
}

impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Agent {
    type Err = String;

    /// Knows the agents that need no script of their own.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "oracle" => Ok(Self::Oracle),
            "nop" => Ok(Self::Nop),
            ::agent::shell::NAME => Ok(Self::Shell),
            other => match Spec::built_in().iter().find(|spec| spec.name == other) {
                Some(spec) => Ok(Self::Installed(spec)),
                None => {
                    let known: Vec<_> = Spec::built_in().iter().map(|spec| spec.name.as_str()).collect();
                    Err(format!(
                        "no agent is called `{other}`; there are oracle, nop, shell, {}",
                        known.join(", ")
                    ))
                }
            },
        }
    }
}
