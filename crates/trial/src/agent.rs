//! The agents that need no model.

use std::fmt;
use std::str::FromStr;

/// Who works on the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Agent {
    /// Applies the task's own solution.
    Oracle,
    /// Does nothing.
    Nop,
    /// Tries to get the reward without solving the task. It never sees the solution.
    Cheat(Script),
}

/// A fixed program that works on a task in the place of its solution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Script {
    /// The agent's name in results.
    pub agent: &'static str,
    /// A shell script. It is started in the working directory of the environment, as solutions are.
    pub text: &'static str,
}

impl Agent {
    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Oracle => "oracle",
            Self::Nop => "nop",
            Self::Cheat(script) => script.agent,
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

    /// Knows the agents that need no script.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "oracle" => Ok(Self::Oracle),
            "nop" => Ok(Self::Nop),
            other => Err(format!("no agent is called `{other}`; there are oracle and nop")),
        }
    }
}
