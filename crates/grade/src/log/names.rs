//! How tests are called, and the results of one log under those names.

use std::{collections::BTreeMap, rc::Rc};

use crate::{Completion, StatusMap, SuiteRun, TestStatus};

/// Stands between the parts of a full name.
pub(super) const SEPARATOR: &str = " > ";

/// Longest path of groups that becomes part of a full name, in bytes; a longer one is left out.
const MAX_GROUP_BYTES: usize = 1_024;

/// Which names the statuses are kept under.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TestNames {
    /// The names of the public collections: what the runner prints on the line of the result.
    ///
    /// Several tests may share one, such as tests of the same title in two suites. The worst of their statuses then
    /// counts, and their disagreement is not flakiness.
    #[default]
    Collection,
    /// With what the test belongs to in front, joined by ` > `: package, binary, file, suites.
    ///
    /// Runners whose lines name everything (pytest, unittest, Surefire, JUnit) have the same names both ways.
    Full,
}

/// The results of one log, before the names are chosen.
#[derive(Default)]
pub(super) struct Results {
    tests: BTreeMap<(Rc<str>, String), Test>,
    pub(super) placed_skips: usize,
    pub(super) completion: Option<(Completion, String)>,
}

/// What is known of one test: nothing at first, then one result or several.
#[derive(Default)]
struct Test {
    statuses: StatusMap,
    rerun: bool,
}

/// The key under which a test keeps its own small map.
const OWN: &str = "";

impl Results {
    fn test(&mut self, group: &Rc<str>, name: &str) -> &mut Test {
        self.tests.entry((Rc::clone(group), name.to_owned())).or_default()
    }

    /// Notes a name that a result should follow.
    pub(super) fn announce(&mut self, group: &Rc<str>, name: &str) {
        self.test(group, name);
    }

    /// Notes a result.
    pub(super) fn record(&mut self, group: &Rc<str>, name: &str, status: TestStatus) {
        self.test(group, name).statuses.record(OWN, status);
    }

    /// Notes that the runner ran a test again after a failure.
    pub(super) fn record_rerun(&mut self, group: &Rc<str>, name: &str) {
        self.test(group, name).rerun = true;
    }

    /// Says whether a test of this name has a result.
    pub(super) fn has(&self, group: &Rc<str>, name: &str) -> bool {
        self.tests.get(&(Rc::clone(group), name.to_owned())).is_some_and(|test| !test.statuses.is_empty())
    }

    /// Notes why the log does not count.
    pub(super) fn spoil(&mut self, completion: Completion, detail: String) {
        self.completion.get_or_insert((completion, detail));
    }

    /// Puts the results under the chosen names.
    pub(super) fn into_run(self, names: TestNames) -> SuiteRun {
        let mut run = SuiteRun { placed_skips: self.placed_skips, ..SuiteRun::default() };
        let mut announced = Vec::new();
        for ((group, name), test) in self.tests {
            let name = match names {
                TestNames::Full if !group.is_empty() && !name.is_empty() => {
                    [&*group, SEPARATOR, &name].concat()
                }
                _ if name.is_empty() => group.to_string(),
                _ => name,
            };
            match test.statuses.get(OWN) {
                Some(status) => run.statuses.record_namesake(&name, status),
                None => announced.push(name.clone()),
            }
            if test.rerun || test.statuses.is_flaky(OWN) {
                run.statuses.record_rerun(&name);
            }
        }
        announced.retain(|name| !run.statuses.contains(name));
        announced.sort();
        announced.dedup();
        run.unresolved = announced;
        if let Some((completion, detail)) = self.completion {
            (run.completion, run.detail) = (completion, Some(detail));
        } else {
            run.completion = Completion::Complete;
        }
        run
    }
}

/// Joins the parts of a group; nothing when the whole is too long to be one.
pub(super) fn group<'p>(parts: impl IntoIterator<Item = &'p str>) -> Rc<str> {
    let mut joined = String::new();
    for part in parts {
        if part.is_empty() {
            continue;
        }
        if !joined.is_empty() {
            joined.push_str(SEPARATOR);
        }
        joined.push_str(part);
        if joined.len() > MAX_GROUP_BYTES {
            return Rc::from("");
        }
    }
    Rc::from(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namesakes_keep_the_worst_and_are_not_flaky() {
        let fill = || {
            let mut results = Results::default();
            let (a, b) = (group(["a"]), group(["b", "c"]));
            results.record(&a, "t", TestStatus::Passed);
            results.record(&b, "t", TestStatus::Failed);
            results.record(&b, "u", TestStatus::Passed);
            results.record(&b, "u", TestStatus::Failed);
            results.announce(&a, "v");
            results
        };
        let run = fill().into_run(TestNames::Collection);
        assert_eq!(run.statuses.get("t"), Some(TestStatus::Failed));
        assert!(!run.statuses.is_flaky("t"));
        assert!(run.statuses.is_flaky("u"));
        assert_eq!(run.unresolved, ["v"]);
        let run = fill().into_run(TestNames::Full);
        assert_eq!(run.statuses.get("a > t"), Some(TestStatus::Passed));
        assert_eq!(run.statuses.get("b > c > t"), Some(TestStatus::Failed));
        assert_eq!(run.unresolved, ["a > v"]);
    }

    #[test]
    fn a_group_without_end_is_left_out() {
        assert_eq!(&*group(["x"; 300]), "");
        assert_eq!(&*group(["", "x", "", "y"]), "x > y");
    }
}
