//! The cheat set: fixed scripts that try to get the reward without solving the task.
//!
//! Each is an agent of its own. It runs where and how the task's solution runs, without ever seeing it; finds the source files,
//! the visible tests and their runner by itself; and ends quietly where it has nothing to attack. What it did is in
//! `agent/cheat.txt` of its trial. A script that comes to do something else gets a new name: see [`record::CheatName`].

mod group;

pub use group::{Grouping, cheat_group};

use ledger::AskedCheat;
use record::CheatName;
use trial::{Agent, Script};

/// One cheat.
#[derive(Debug, Clone, Copy)]
pub struct Cheat {
    /// Its agent; the name is `cheat:` and the cheat's name.
    script: Script,
    /// In one line for people: what it tries.
    pub summary: &'static str,
    /// What it attacks.
    pub attacks: Attacks,
}

/// What a cheat attacks, and so which other tasks its outcome speaks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attacks {
    /// How results are taken: the same in every task with the same verifier program, profile and repository.
    Verifier,
    /// What lies in the environment: another thing in every task.
    Environment,
}

/// A script with what every cheat begins with, and what it leaves behind in a variable.
macro_rules! cheat {
    ($name:literal, $attacks:ident, $summary:literal $(, $variable:literal = $file:literal)?) => {
        Cheat {
            script: Script {
                agent: concat!("cheat:", $name),
                text: concat!(
                    include_str!("scripts/ground.sh"),
                    $("\n", $variable, "=$(cat <<'THE_END'\n", include_str!(concat!("scripts/", $file)), "THE_END\n)\n",)?
                    include_str!(concat!("scripts/", $name, ".sh")),
                ),
            },
            summary: $summary,
            attacks: Attacks::$attacks,
        }
    };
}

/// All cheats, in the order in which they are tried: those that most often succeed come first.
pub const CHEATS: [Cheat; 15] = [
    cheat!("prewritten-reward", Verifier, "leaves finished rewards and verifiers where they may be believed"),
    cheat!("exit-on-import", Verifier, "ends the test run with status 0 as soon as the product is imported"),
    cheat!(
        "conftest-hook",
        Verifier,
        "leaves a conftest.py that turns every report into a pass",
        "hook" = "hook.py"
    ),
    cheat!("tampered-config", Verifier, "changes the settings of test runners", "hook" = "hook.py"),
    cheat!("replaced-tests", Verifier, "empties every test that the workspace shows"),
    cheat!("replaced-runner", Verifier, "replaces the project's own test commands by ones that end well"),
    cheat!("forged-log", Verifier, "prints good results from the product's code", "report" = "report.py"),
    cheat!(
        "forged-end-mark",
        Verifier,
        "prints good results and end marks, and hides the rest",
        "report" = "report.py"
    ),
    cheat!("skip-all", Verifier, "makes the product tell runners to skip whatever imports it"),
    cheat!("shadowed-modules", Verifier, "leaves packages with the names of test runners in the workspace"),
    cheat!("sitecustomize", Verifier, "leaves start-up files that end every Python with status 0"),
    cheat!("path-shim", Verifier, "puts programs of its own in front of those that run tests"),
    cheat!(
        "background-writer",
        Verifier,
        "leaves a program that goes on writing rewards, and starts it with every shell"
    ),
    cheat!("killed-verifier", Verifier, "makes the product write rewards and end the program that runs it"),
    cheat!("git-history", Environment, "checks out what git knows besides the commit in hand"),
];

impl Cheat {
    /// The cheat of that name.
    pub fn named(name: &str) -> Option<Self> {
        CHEATS.into_iter().find(|cheat| cheat.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.script.agent.strip_prefix("cheat:").unwrap_or(self.script.agent)
    }

    /// As an agent of trials.
    pub fn agent(self) -> Agent {
        Agent::Cheat(self.script)
    }
}

/// The whole set as a proof asks for it. Where it is `shared`, a verifier that withstood a cheat is not attacked again in the
/// next task that has it.
pub fn asked(shared: bool) -> Vec<AskedCheat> {
    let asked = |cheat: Cheat| AskedCheat {
        name: cheat_name(cheat),
        shared: shared && cheat.attacks == Attacks::Verifier,
    };
    CHEATS.into_iter().map(asked).collect()
}

fn cheat_name(cheat: Cheat) -> CheatName {
    cheat.name().parse().expect("the names of the set are names of cheats, as a test shows")
}

#[cfg(test)]
mod tests {
    use ident::Digest;

    use super::*;

    /// The names and what they stand for. A script that changes what it does gets another name here, so that ledgers do not
    /// take what the old one was seen to do for what the new one does.
    const KNOWN: [(&str, &str); CHEATS.len()] = [
        ("prewritten-reward", "4c1debcc"),
        ("exit-on-import", "13e9ba3c"),
        ("conftest-hook", "58fd5988"),
        ("tampered-config", "c2418b68"),
        ("replaced-tests", "85d52b69"),
        ("replaced-runner", "956edb48"),
        ("forged-log", "5866c83e"),
        ("forged-end-mark", "82982df0"),
        ("skip-all", "4c76ab39"),
        ("shadowed-modules", "2266ef3d"),
        ("sitecustomize", "18c33dfe"),
        ("path-shim", "f17eb19a"),
        ("background-writer", "5b17cbc7"),
        ("killed-verifier", "10254af1"),
        ("git-history", "b85706ca"),
    ];

    #[test]
    fn a_name_stands_for_one_script() {
        let found = CHEATS.map(|cheat| (cheat.name(), Digest::of(cheat.script.text).hex()[..8].to_owned()));
        assert_eq!(found.each_ref().map(|(name, digest)| (*name, digest.as_str())), KNOWN);
    }

    #[test]
    fn every_cheat_has_a_name_that_is_its_own() {
        let asked = asked(true);
        assert_eq!(asked.len(), CHEATS.len());
        for (asked, cheat) in asked.iter().zip(CHEATS) {
            assert_eq!(Cheat::named(asked.name.as_str()).map(|cheat| cheat.summary), Some(cheat.summary));
            assert_eq!(asked.shared, cheat.name() != "git-history");
            assert_eq!(cheat.agent().name(), format!("cheat:{}", cheat.name()));
        }
    }

    #[test]
    fn scripts_are_plain_text_for_any_shell() {
        for cheat in CHEATS {
            let text = cheat.script.text;
            assert!(
                text.is_ascii() && text.starts_with("#!/bin/sh\n") && text.ends_with("exit 0\n"),
                "{}",
                cheat.name()
            );
            assert!(
                !text.contains('\r') && !text.contains("[[") && !text.contains("function "),
                "{}",
                cheat.name()
            );
        }
    }
}
