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
}

impl Agent {
    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Oracle => "oracle",
            Self::Nop => "nop",
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

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "oracle" => Ok(Self::Oracle),
            "nop" => Ok(Self::Nop),
            other => Err(format!("no agent is called `{other}`; there are oracle and nop")),
        }
    }
}
