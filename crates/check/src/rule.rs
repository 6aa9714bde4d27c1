//! The catalogue: what every rule is called, how much it weighs, and why it exists.

use std::fmt;
use std::sync::LazyLock;

use record::Severity;

use crate::options::Profile;
use crate::rules::FAMILIES;
use crate::set;

/// One named rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Its name in kebab case; never reused for another meaning.
    pub name: &'static str,
    /// What it is about.
    pub family: Family,
    /// How much a finding weighs on a task that somebody else wrote.
    pub severity: Severity,
    /// How much it weighs on a task that this program wrote.
    pub materialized: Severity,
    /// What it finds, in one sentence.
    pub summary: &'static str,
    /// Why that matters and how the rule decides, with its limits.
    pub explanation: &'static str,
    /// What to do about a finding.
    pub fix: &'static str,
}

impl Rule {
    /// How much a finding weighs under `profile`.
    pub fn severity_in(&self, profile: Profile) -> Severity {
        match profile {
            Profile::Foreign => self.severity,
            Profile::Materialized => self.materialized,
        }
    }
}

/// What a rule is about. Each family is one file of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Parts of the directory and the syntax of `task.toml`.
    Format,
    /// Time, memory and other limits.
    Limits,
    /// Task names and ids.
    Names,
    /// Links and special files.
    Links,
    /// Shell scripts.
    Scripts,
    /// What the verifier needs while it runs.
    Verifier,
    /// Answers within reach of the agent.
    Leaks,
    /// Git history within reach of the agent.
    History,
    /// The prompt.
    Instruction,
    /// Dockerfiles and base images.
    Images,
    /// Patches.
    Patches,
    /// Whether tests, solution and workspace belong together.
    Alignment,
    /// Tasks of a set beside one another.
    Set,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Format => "format",
            Self::Limits => "limits",
            Self::Names => "names",
            Self::Links => "links",
            Self::Scripts => "scripts",
            Self::Verifier => "verifier",
            Self::Leaks => "leaks",
            Self::History => "history",
            Self::Instruction => "instruction",
            Self::Images => "images",
            Self::Patches => "patches",
            Self::Alignment => "alignment",
            Self::Set => "set",
        })
    }
}

/// Every rule in order of its name.
pub fn rules() -> &'static [Rule] {
    static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
        let single = FAMILIES.iter().flat_map(|family| family.rules);
        let mut rules: Vec<Rule> = single.chain(set::RULES).map(|rule| **rule).collect();
        rules.sort_by_key(|rule| rule.name);
        rules
    });
    &RULES
}

/// The rule of this name.
pub fn explain(name: &str) -> Option<&'static Rule> {
    rules().binary_search_by_key(&name, |rule| rule.name).ok().map(|at| &rules()[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_in_kebab_case() {
        let names: Vec<_> = rules().iter().map(|rule| rule.name).collect();
        let mut unique = names.clone();
        unique.dedup();
        assert_eq!(names, unique);
        for name in names {
            assert!(
                name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'),
                "{name}"
            );
            assert_eq!(explain(name).unwrap().name, name);
        }
        assert_eq!(explain("no-such-rule"), None);
    }

    #[test]
    fn every_rule_explains_itself() {
        for rule in rules() {
            assert!(rule.summary.ends_with('.') && rule.summary.len() < 140, "{}", rule.name);
            assert!(rule.explanation.ends_with('.') && rule.explanation.len() > 60, "{}", rule.name);
            assert!(!rule.fix.is_empty() && !rule.fix.ends_with('.'), "{}", rule.name);
            assert!(rule.materialized >= rule.severity, "{} is laxer with its own tasks", rule.name);
        }
    }

    /// The page of the book has a row for each rule, with the severities of the code.
    #[test]
    fn the_book_lists_every_rule() {
        let page = include_str!("../../../docs/rules.md");
        for rule in rules() {
            let severity = match (rule.severity, rule.materialized) {
                (foreign, own) if foreign == own => word(foreign).to_owned(),
                (foreign, own) => format!("{}, own {}", word(foreign), word(own)),
            };
            let row = format!("| `{}` | {severity} |", rule.name);
            assert!(page.contains(&row), "docs/rules.md has no row that begins with {row}");
        }
        let rows = page.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(rows, rules().len(), "docs/rules.md has rows of rules that do not exist");
    }

    fn word(severity: Severity) -> &'static str {
        match severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}
