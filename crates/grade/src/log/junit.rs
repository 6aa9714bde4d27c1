//! Reads JUnit XML documents that were printed into a log, or Gradle's console where there is none.
//!
//! A document reaches from its declaration, or its first `<testsuite`, to the end of the outermost suite. A test is
//! called `classname.name`. A document without an end counts for nothing and leaves the log incomplete. As soon as
//! there is a document, text outside of documents is not read; without any, Gradle's `Class > test PASSED` lines are.

use super::{
    names::{Results, group},
    xml::{Tag, Tags, attribute},
};
use crate::{Completion, TestStatus};

pattern!(CONSOLE, r"^([\w$.]+) > (\S.*?) (PASSED|FAILED|SKIPPED)(?: \([0-9.]+m?s\))?$");

/// How pytest says that a test it reports as skipped failed as expected.
const PYTEST_XFAIL: &str = "pytest.xfail";

/// Reads the lines of a run.
pub(super) fn parse(lines: &[&str]) -> Results {
    let text = lines.join("\n");
    let mut tags = Tags::of(&text);
    let mut results = Results::default();
    let mut is_any = false;
    while tags.seek_report() {
        is_any = true;
        let Some(cases) = document(&mut tags) else {
            results.spoil(Completion::Incomplete, "a JUnit document has no end".to_owned());
            continue;
        };
        for Case { name, status, is_rerun } in cases {
            results.record(&group([]), &name, status);
            if is_rerun {
                results.record_rerun(&group([]), &name);
            }
        }
    }
    if !is_any {
        console(&mut results, lines);
    }
    results
}

struct Case {
    name: String,
    status: TestStatus,
    is_rerun: bool,
}

/// Reads one document; `None` when it ends too early.
fn document(tags: &mut Tags<'_>) -> Option<Vec<Case>> {
    let mut cases: Vec<Case> = Vec::new();
    let mut suites: Vec<String> = Vec::new();
    let mut is_inside = false;
    let mut is_first = true;
    for tag in tags.by_ref() {
        let is_beginning = std::mem::take(&mut is_first);
        match tag {
            Tag::Declaration if is_beginning => {}
            Tag::Declaration | Tag::Cut => return None,
            Tag::Open { name: "testsuites" | "testsuite", attributes, is_empty } => {
                if !is_empty {
                    suites.push(attribute(attributes, "name").unwrap_or_default().into_owned());
                } else if suites.is_empty() {
                    return Some(cases);
                }
            }
            Tag::Close { name: "testsuites" | "testsuite" } => {
                suites.pop();
                if suites.is_empty() {
                    return Some(cases);
                }
            }
            Tag::Open { name: "testcase", attributes, is_empty } => {
                let suite = suites.last()?;
                let class = attribute(attributes, "classname").unwrap_or(suite.as_str().into());
                let name = attribute(attributes, "name").unwrap_or_default();
                cases.push(Case {
                    name: [&*class, ".", &*name].concat(),
                    status: TestStatus::Passed,
                    is_rerun: false,
                });
                is_inside = !is_empty;
            }
            Tag::Close { name: "testcase" } => is_inside = false,
            Tag::Open { name, attributes, .. } if is_inside => {
                if let Some(case) = cases.last_mut() {
                    case.child(name, attributes);
                }
            }
            // Some other document: no report.
            Tag::Open { .. } if suites.is_empty() => return Some(cases),
            Tag::Open { .. } | Tag::Close { .. } => {}
        }
    }
    suites.is_empty().then_some(cases)
}

impl Case {
    fn child(&mut self, name: &str, attributes: &str) {
        match name {
            "failure" => self.status = TestStatus::Failed,
            "error" => self.status = TestStatus::Error,
            "skipped" if self.status == TestStatus::Passed => {
                let is_xfail = attribute(attributes, "type").is_some_and(|kind| kind == PYTEST_XFAIL);
                self.status = if is_xfail { TestStatus::Xfail } else { TestStatus::Skipped };
            }
            "flakyFailure" | "flakyError" | "rerunFailure" | "rerunError" => self.is_rerun = true,
            _ => {}
        }
    }
}

fn console(results: &mut Results, lines: &[&str]) {
    for line in lines {
        let Some(found) = CONSOLE.captures(line) else { continue };
        let (_, [class, test, word]) = found.extract();
        let status = match word {
            "PASSED" => TestStatus::Passed,
            "SKIPPED" => TestStatus::Skipped,
            _ => TestStatus::Failed,
        };
        results.record(&group([]), &[class, ".", test].concat(), status);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogFormat, SuiteRun, TestNames, parse_log_named};

    fn read(text: &str) -> SuiteRun {
        parse_log_named(LogFormat::Junit, TestNames::Collection, text.as_bytes(), None)
    }

    const DOCUMENT: &str = "> Task :test\na.Forged > t PASSED\n<?xml version=\"1.0\"?>\n<testsuite name=\"a.TillTest\" tests=\"5\">\n\
        <properties/>\n<testcase name=\"adds()\" classname=\"a.TillTest\" time=\"0.1\"/>\n\
        <testcase name=\"takes(int) &lt;1&gt;\"><failure message=\"no\">at <![CDATA[</failure></testcase><testcase name=\"x\"/>]]></failure></testcase>\n\
        <testcase name=\"opens\" classname=\"a.TillTest\"><error/></testcase>\n\
        <testcase name=\"later\" classname=\"a.TillTest\"><skipped/></testcase>\n\
        <testcase name=\"again\" classname=\"a.TillTest\"><flakyFailure/></testcase>\n\
        <system-out><![CDATA[<testcase name=\"forged\" classname=\"a.TillTest\"/>]]></system-out>\n</testsuite>\n";

    #[test]
    fn documents_are_read_and_their_text_is_not() {
        let run = read(&[DOCUMENT, DOCUMENT].concat());
        assert_eq!(
            run.statuses.iter().collect::<Vec<_>>(),
            [
                ("a.TillTest.adds()", TestStatus::Passed),
                ("a.TillTest.again", TestStatus::Passed),
                ("a.TillTest.later", TestStatus::Skipped),
                ("a.TillTest.opens", TestStatus::Error),
                ("a.TillTest.takes(int) <1>", TestStatus::Failed),
            ]
        );
        assert_eq!(run.statuses.flaky().collect::<Vec<_>>(), ["a.TillTest.again"]);
        assert_eq!(run.completion, Completion::Complete);
    }

    #[test]
    fn a_cut_document_counts_for_nothing() {
        let cut = "<?xml version=\"1.0\"?><testsuite name=\"b\"><testcase name=\"x\"/>";
        for text in
            [[cut, DOCUMENT].concat(), [DOCUMENT, cut].concat(), [DOCUMENT, cut, "<![CDATA["].concat()]
        {
            let run = read(&text);
            assert_eq!(run.completion, Completion::Incomplete);
            assert_eq!(run.detail.as_deref(), Some("a JUnit document has no end"));
            assert_eq!(run.statuses.len(), 5, "{text}");
        }
    }

    #[test]
    fn nested_suites_and_other_documents() {
        let run = read(
            "<?xml version='1.0'?><project><testcase name='x'/></project>\n<testsuites><testsuite name='s'>\
             <testcase name='t'/></testsuite><testsuite name='e'/></testsuites>",
        );
        assert_eq!(run.statuses.iter().collect::<Vec<_>>(), [("s.t", TestStatus::Passed)]);
    }

    #[test]
    fn the_console_counts_where_there_is_no_document() {
        let run = read(
            "a.TillTest > adds() PASSED\na.TillTest > takes 1 > from 2 FAILED\n    java.lang.Error\na.TillTest > later SKIPPED\n",
        );
        assert_eq!(
            run.statuses.iter().collect::<Vec<_>>(),
            [
                ("a.TillTest.adds()", TestStatus::Passed),
                ("a.TillTest.later", TestStatus::Skipped),
                ("a.TillTest.takes 1 > from 2", TestStatus::Failed),
            ]
        );
    }
}
