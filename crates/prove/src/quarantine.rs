//! Which varying tests may be taken out of a task.

use std::collections::BTreeMap;

use ledger::reason;
use record::{FlakyTest, ProvedTask, Status};

/// The tests to take out of a rejected task so that it may be proved again; nothing where that would not do.
///
/// Every test that varied has to be one of `pass_to_pass` and none of `fail_to_pass`: those say what the task is about, and a
/// task whose point varies stays rejected. At least one test of `pass_to_pass` has to be left. Rewards that varied while no test
/// did have another cause, which no list of tests mends.
pub fn quarantined(
    proved: &ProvedTask,
    fail_to_pass: &[String],
    pass_to_pass: &[String],
) -> Option<BTreeMap<String, FlakyTest>> {
    let flaky = matches!(&proved.verdict, Status::Rejected { reason, .. } if reason == reason::FLAKY);
    let varied = &proved.flaky_tests;
    if !flaky || varied.is_empty() {
        return None;
    }
    let may_go = |test: &String| pass_to_pass.contains(test) && !fail_to_pass.contains(test);
    let left = pass_to_pass.iter().any(|test| !varied.contains_key(test));
    (varied.keys().all(may_go) && left).then(|| varied.clone())
}

#[cfg(test)]
mod tests {
    use ident::{Digest, TaskId};

    use super::*;

    fn proved(reason: &str, varied: &[&str]) -> ProvedTask {
        let counts = |pairs: &[(&str, u32)]| -> BTreeMap<String, u32> {
            pairs.iter().map(|(status, count)| ((*status).to_owned(), *count)).collect()
        };
        let test =
            FlakyTest { nop: counts(&[("passed", 10)]), oracle: counts(&[("failed", 3), ("passed", 7)]) };
        ProvedTask {
            task_id: TaskId::new("a").unwrap(),
            tree_digest: Digest::of("tree"),
            verifier_digest: Digest::of("tests"),
            image_digest: "image".into(),
            engine: "native".into(),
            cheat_group: None,
            nop_runs: 10,
            oracle_runs: 10,
            cheats: vec![],
            flaky_tests: varied.iter().map(|name| ((*name).to_owned(), test.clone())).collect(),
            verdict: Status::Rejected { reason: reason.into(), detail: String::new() },
        }
    }

    #[test]
    fn only_tests_that_must_stay_as_they_were_can_go() {
        let lists = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (point, rest) = (lists(&["f"]), lists(&["a", "b"]));
        let taken = quarantined(&proved("flaky", &["a"]), &point, &rest).unwrap();
        assert_eq!(taken["a"].oracle["failed"], 3);
        assert_eq!(quarantined(&proved("oracle_failed", &["a"]), &point, &rest), None);
        assert_eq!(quarantined(&proved("flaky", &[]), &point, &rest), None, "only rewards varied");
        assert_eq!(quarantined(&proved("flaky", &["f"]), &point, &rest), None);
        assert_eq!(quarantined(&proved("flaky", &["a", "f"]), &point, &rest), None);
        assert_eq!(quarantined(&proved("flaky", &["a"]), &lists(&["a"]), &rest), None, "in both lists");
        assert_eq!(quarantined(&proved("flaky", &["a", "b"]), &point, &rest), None, "none is left");
        assert_eq!(quarantined(&proved("flaky", &["elsewhere"]), &point, &rest), None);
    }
}
