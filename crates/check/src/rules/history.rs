//! Git history within reach of the agent.

use record::Severity;
use task::printable;

use crate::facts::Facts;
use crate::history::stores;
use crate::report::{Place, Report};
use crate::rule::{Family, Rule};

pub(super) const RULES: &[&Rule] = &[&HISTORY_LEAK, &HISTORY_UNREAD];

const HISTORY_LEAK: Rule = Rule {
    name: "history-leak",
    family: Family::History,
    severity: Severity::Warning,
    materialized: Severity::Error,
    summary: "A repository in the build context leads to other commits than the one checked out.",
    explanation: "Later commits hold the fix and earlier ones may hold the hidden tests; agents do look. Tags, remote \
                  branches, reflogs, heads left by merges and stored commits that are no ancestors are named one by \
                  one. A task of this program's own has a single commit, so ancestors are reported there too. A \
                  foreign task may be about history, so this is a warning for it.",
    fix: "make the repository anew with one commit, or remove `.git`",
};

const HISTORY_UNREAD: Rule = Rule {
    name: "history-unread",
    family: Family::History,
    severity: Severity::Note,
    materialized: Severity::Warning,
    summary: "A repository in the build context has packed objects that could not all be read.",
    explanation: "A pack may hold any number of commits that no name leads to. Packs are walked object by object; one \
                  that is too large to be kept, damaged, or stores objects as differences to others leaves some \
                  unknown.",
    fix: "make the repository anew with one commit",
};

pub(super) fn check(facts: &Facts<'_>, report: &mut Report<'_>) {
    for ((file, inside), store) in stores(facts) {
        let traces = store.traces();
        let at = if inside.is_empty() { String::new() } else { format!("in `{}`: ", printable(inside)) };
        for lead in traces.leads {
            report.add(&HISTORY_LEAK, Place::file(file), format!("{at}{lead}"));
        }
        if traces.ancestors > 0 && report.materialized() {
            let message = format!("{at}{} commits stand before the one checked out", traces.ancestors);
            report.add(&HISTORY_LEAK, Place::file(file), message);
        }
        if traces.unread > 0 {
            report.add(
                &HISTORY_UNREAD,
                Place::file(file),
                format!("{at}{} packs could not be read whole", traces.unread),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{changed_task, findings, own_findings, places, tar_of, task_with};

    #[test]
    fn a_repository_in_an_archive_is_looked_at() {
        let (head, later) = ("1".repeat(40), "2".repeat(40));
        let archive = tar_of(&[
            ("repo/.git/HEAD", b"ref: refs/heads/main\n"),
            ("repo/.git/refs/heads/main", head.as_bytes()),
            ("repo/.git/refs/tags/v2", later.as_bytes()),
            ("repo/.git/objects/pack/pack-x.pack", b"PACK"),
        ]);
        let view =
            changed_task(|root| std::fs::write(root.join("environment/workspace.tar"), &archive).unwrap());
        let expected = ["history-leak environment/workspace.tar", "history-unread environment/workspace.tar"];
        assert_eq!(places(&findings(&view)), expected);
        assert!(findings(&view)[0].message.starts_with("in `repo/.git`: the reference `refs/tags/v2`"));
        assert!(crate::accepted(&findings(&view)));
        assert!(!crate::accepted(&own_findings(&view)));
    }

    #[test]
    fn a_plain_git_directory_is_looked_at() {
        let later = "2".repeat(40);
        let view = task_with(&[
            ("environment/.git/HEAD", "ref: refs/heads/main"),
            ("environment/.git/ORIG_HEAD", &later),
        ]);
        let expected = ["history-leak environment/.git", "nested-repository environment/.git"];
        assert_eq!(places(&findings(&view)), expected);
    }
}
