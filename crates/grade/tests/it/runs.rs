//! Logs of real runs of every runner, all of one small suite: a till and its door, with a test that prints the line of
//! a result.

use std::{collections::BTreeMap, fs, path::Path};

use grade::{
    Framework, LogFormat, Outcome, Reason, Required, SuiteRun, TestNames, TestStatus, decide, parse_log_named,
};
use serde::Deserialize;

use crate::twin::{config, has_python, python_answer, rust_answer};

/// One log and what stands in it, told by whoever made the run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    log: String,
    /// Version of the runner.
    runner: String,
    /// Exit status of the runner, as the shell gave it.
    exit: i32,
    /// Every test by its full name.
    tests: BTreeMap<String, TestStatus>,
    #[serde(default)]
    flaky: Vec<String>,
    #[serde(default)]
    unresolved: Vec<String>,
    /// Names that only the printed line has: a parser of lines takes it for a result.
    #[serde(default)]
    forged: Vec<String>,
}

fn read(run: &Run, names: TestNames) -> (SuiteRun, LogFormat) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs").join(&run.log);
    let stem = run.log.split(['.', '-']).next().unwrap();
    let format: LogFormat = stem.parse().unwrap();
    (parse_log_named(format, names, &fs::read(path).unwrap(), None), format)
}

fn runs() -> Vec<Run> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs/runs.json");
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn recorded_runs_hold_what_was_run() {
    for run in runs() {
        let (found, _) = read(&run, TestNames::Full);
        let mut wanted = run.tests.clone();
        wanted.extend(run.forged.iter().map(|name| (name.clone(), TestStatus::Passed)));
        let shown: BTreeMap<_, _> =
            found.statuses.iter().map(|(name, status)| (name.to_owned(), status)).collect();
        assert_eq!(shown, wanted, "{} of {}", run.log, run.runner);
        assert_eq!(found.statuses.flaky().collect::<Vec<_>>(), run.flaky, "{}", run.log);
        assert_eq!(found.unresolved, run.unresolved, "{}", run.log);
    }
}

#[test]
fn every_format_has_a_recorded_run() {
    let runs = runs();
    let recorded: Vec<_> = runs.iter().map(|run| read(run, TestNames::Full).1).collect();
    // `lines` is no runner's own format, and what cargo prints is run live.
    let others = [LogFormat::Lines];
    for format in LogFormat::ALL.into_iter().filter(|format| !others.contains(format)) {
        assert!(recorded.contains(&format), "{format}");
    }
    let mut files: Vec<_> = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "runs.json")
        .collect();
    files.sort();
    assert_eq!(files, runs.iter().map(|run| run.log.clone()).collect::<Vec<_>>());
}

#[test]
fn recorded_runs_get_the_verdict_that_their_exit_status_and_tests_give() {
    for run in runs() {
        let (found, format) = read(&run, TestNames::Full);
        let of = |wanted: TestStatus| -> Vec<String> {
            let tests = run.tests.iter().filter(|(_, status)| **status == wanted);
            tests.map(|(name, _)| name.clone()).collect()
        };
        let verdict = |fail_to_pass: &[String]| {
            let required = Required { fail_to_pass, pass_to_pass: &[], pass_to_pass_only: false };
            decide(required, &found, Some(format.suite_exit(run.exit)))
        };
        let passed = of(TestStatus::Passed);
        let failed = [of(TestStatus::Failed), of(TestStatus::Error)].concat();
        assert!(!failed.is_empty(), "{}", run.log);
        if !passed.is_empty() {
            assert_eq!(verdict(&passed).outcome, Outcome::Resolved, "{}: {found:?}", run.log);
        }
        assert_eq!(verdict(&failed).outcome, Outcome::Unresolved, "{}", run.log);
        let required = Required { fail_to_pass: &failed, pass_to_pass: &[], pass_to_pass_only: false };
        assert_eq!(decide(required, &found, Some(0)).reason, Some(Reason::Contradiction), "{}", run.log);
    }
}

#[test]
fn recorded_runs_are_read_alike_by_both_graders() {
    if !has_python() {
        return;
    }
    let mut compared = Vec::new();
    for run in runs() {
        let (found, format) = read(&run, TestNames::Collection);
        let Some(framework) = Framework::of_log(format) else { continue };
        let of = |wanted: TestStatus| -> Vec<String> {
            let tests = found.statuses.iter().filter(|(_, status)| *status == wanted);
            tests.map(|(name, _)| name.to_owned()).collect()
        };
        let config = config(framework, &of(TestStatus::Failed), &of(TestStatus::Passed));
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs").join(&run.log);
        for exit in [run.exit, 0] {
            let python = python_answer(&config, &["--grade-log", path.to_str().unwrap()], Some(exit));
            let rust = rust_answer(config.required(), &found, Some(format.suite_exit(exit)));
            assert_eq!(python, rust, "{} ended with {exit}", run.log);
        }
        compared.push(framework);
    }
    // `lines` is no runner's own format, and what cargo prints is run live.
    for framework in Framework::ALL.into_iter().filter(|framework| *framework != Framework::Lines) {
        assert!(compared.contains(&framework), "{framework:?}");
    }
}
