//! Limits that no trial can run under.

use record::Severity;
use task::config::ProblemKind;

use crate::facts::Facts;
use crate::report::{Place, Report};
use crate::rule::{Family, Rule};
use crate::view::ConfigState;

pub(super) const RULES: &[&Rule] = &[&LIMIT_IMPOSSIBLE];

const LIMIT_IMPOSSIBLE: Rule = Rule {
    name: "limit-impossible",
    family: Family::Limits,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "A limit in `task.toml` is zero, negative, infinite or not a number.",
    explanation: "TOML allows `inf` and `nan`, and Harbor takes some of these values. No trial can run with no \
                  processor or no time, and an infinite limit is none. Every such key is reported. A key that is \
                  left out is fine.",
    fix: "write a finite number above 0, or leave the key out",
};

pub(super) fn check(facts: &Facts<'_>, report: &mut Report<'_>) {
    let ConfigState::Read(reading) = &facts.view.config else { return };
    for problem in reading.problems.iter().filter(|problem| problem.kind == ProblemKind::Limit) {
        let message = format!("`{}` {}", problem.key, problem.message);
        report.add(&LIMIT_IMPOSSIBLE, Place::line("task.toml", problem.line), message);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, found_with, task_with};

    #[test]
    fn every_impossible_limit_is_reported() {
        let text = "[agent]\ntimeout_sec = nan\n[verifier]\ntimeout_sec = 0\n[environment]\nbuild_timeout_sec = inf\n\
                    cpus = 0\nmemory_mb = -1\n";
        let expected = [2, 4, 6, 7, 8].map(|line| format!("limit-impossible task.toml:{line}"));
        assert_eq!(found_with(&[("task.toml", text)]), expected);
        let message = &findings(&task_with(&[("task.toml", text)]))[4].message;
        assert!(message.contains("`environment.memory_mb` is -1"), "{message}");
    }
}
