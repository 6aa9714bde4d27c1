//! Logs of runners other than pytest that SWE-smith's harness recorded, when the corpus has them.

use std::{collections::BTreeSet, fs, path::Path};

use grade::{
    Completion, Framework, LogFormat, SWE_SMITH_MARKS, SuiteRun, TestNames, TestStatus, parse_harness_log,
};
use serde_json::Value;

use crate::{
    recorded::{files_below, strings},
    twin::{config, has_python, python_answer, rust_answer},
};

fn read(format: LogFormat, names: TestNames, path: &Path) -> SuiteRun {
    parse_harness_log(format, names, &fs::read(path).unwrap())
}

fn count(run: &SuiteRun, status: TestStatus) -> usize {
    run.statuses.iter().filter(|(_, found)| *found == status).count()
}

/// The runner of a JavaScript repository of the corpus.
fn format_of(path: &Path) -> Option<LogFormat> {
    let text = path.to_string_lossy();
    [("dayjs", LogFormat::Jest), ("axios", LogFormat::Mocha), ("trigger.dev", LogFormat::Vitest)]
        .into_iter()
        .find_map(|(repository, format)| text.contains(repository).then_some(format))
}

#[test]
fn javascript_logs_agree_with_their_reports() {
    let Some(folder) = corpus::find("data/swesmith/xdotli") else { return };
    let mut files = Vec::new();
    files_below(&folder, &mut files);
    let (mut logs, mut compared) = (0, 0);
    for path in files.iter().filter(|path| path.ends_with("test_output.txt")) {
        let Some(format) = format_of(path) else { continue };
        let run = read(format, TestNames::Collection, path);
        logs += 1;
        let Ok(report) = fs::read(path.with_file_name("report.json")) else { continue };
        let report: Value = serde_json::from_slice(&report).unwrap();
        if report["timed_out"].as_bool() == Some(true) {
            assert_eq!(run.completion, Completion::TimedOut, "{}", path.display());
            compared += 1;
            continue;
        }
        assert_eq!(run.completion, Completion::Complete, "{}", path.display());
        let mut passed = [strings(&report["PASS_TO_PASS"]), strings(&report["FAIL_TO_PASS"])].concat();
        let mut found: Vec<_> = run
            .statuses
            .iter()
            .filter(|(_, status)| *status == TestStatus::Passed)
            .map(|(id, _)| id)
            .collect();
        passed.sort();
        found.sort_unstable();
        assert_eq!(found, passed, "{}", path.display());
        compared += 1;
    }
    assert!(logs >= 12 && compared >= 8, "only {compared} of {logs} logs have a report");
}

#[test]
fn a_mocha_log_shows_the_titles_of_its_passes() {
    let Some(path) = corpus::find(
        "data/swesmith/xdotli/logs/run_validation/axios__axios.ef36347f/axios__axios.ef36347f.ref/test_output.txt",
    ) else {
        return;
    };
    let log = fs::read_to_string(&path).unwrap();
    let passes: Vec<_> = log.lines().filter_map(|line| line.trim_start().strip_prefix("\u{2714} ")).collect();
    assert!(log.contains(&format!("  {} passing (", passes.len())));
    let titles: BTreeSet<_> = passes
        .iter()
        .map(|title| {
            title.rsplit_once(" (").filter(|(_, time)| time.ends_with("ms)")).map_or(*title, |cut| cut.0)
        })
        .collect();
    let short = read(LogFormat::Mocha, TestNames::Collection, &path);
    assert_eq!(short.statuses.iter().map(|(title, _)| title).collect::<BTreeSet<_>>(), titles);
    assert_eq!(count(&short, TestStatus::Passed), titles.len());
    let run = read(LogFormat::Mocha, TestNames::Full, &path);
    assert!(run.statuses.len() > titles.len());
    assert_eq!(
        run.statuses.get("supports fetch with nodejs > progress > upload > should not fail with get method"),
        Some(TestStatus::Passed),
    );
}

#[test]
fn a_go_log_keeps_packages_apart() {
    let Some(folder) = corpus::find("data/swesmith/swesmith-repo/tests/test_logs/test_output") else {
        return;
    };
    let mut files = Vec::new();
    files_below(&folder, &mut files);
    let path = files.first().expect("the folder holds a log");
    let log = fs::read_to_string(path).unwrap();
    let run = read(LogFormat::Go, TestNames::Full, path);
    let failed: Vec<_> = run.statuses.iter().filter(|(_, status)| status.is_failure()).collect();
    assert_eq!(failed, [("github.com/gin-gonic/gin > TestRouteStaticNoListing", TestStatus::Failed)]);
    assert!(run.unresolved.is_empty(), "{:?}", run.unresolved);
    // Every test that was announced has a result, under its package.
    let announced = log.lines().filter(|line| line.starts_with("=== RUN ")).count();
    assert_eq!(run.statuses.len(), announced);
    let short = read(LogFormat::Go, TestNames::Collection, path);
    assert!(short.statuses.len() <= announced);
    assert!(!short.statuses.contains("github.com/gin-gonic/gin"), "a package is no test");
}

#[test]
fn a_log_read_as_another_runners_shows_no_pass_of_it() {
    let Some(path) =
        corpus::find("data/swesmith/swesmith-repo/tests/test_logs/run_validation/test_output.txt")
    else {
        return;
    };
    for format in LogFormat::ALL {
        let passes = count(&read(format, TestNames::Collection, &path), TestStatus::Passed);
        assert_eq!(passes > 0, format == LogFormat::Pytest, "{format} finds {passes}");
    }
}

#[test]
fn logs_of_other_languages_are_read_alike_by_both_graders() {
    let Some(folder) = corpus::find("data/swesmith") else { return };
    if !has_python() {
        return;
    }
    let mut files = Vec::new();
    files_below(&folder, &mut files);
    let mut compared = 0;
    for path in &files {
        let is_go = path.to_string_lossy().contains("gin-gonic__gin");
        let is_log = path.file_name().is_some_and(|name| name == "test_output.txt") || is_go;
        let Some(format) = (if is_go { Some(LogFormat::Go) } else { format_of(path) }).filter(|_| is_log)
        else {
            continue;
        };
        let framework = Framework::of_log(format).unwrap();
        let run = grade::parse_log(framework, &fs::read(path).unwrap(), Some(SWE_SMITH_MARKS));
        let config = config(framework, &["x".to_owned()], &[]);
        let (begin, end) = (SWE_SMITH_MARKS.begin, SWE_SMITH_MARKS.end);
        let arguments = ["--grade-log", path.to_str().unwrap(), "--begin", begin, "--end", end];
        let python = python_answer(&config, &arguments, None);
        assert_eq!(python, rust_answer(config.required(), &run, None), "{}", path.display());
        compared += 1;
    }
    assert!(compared >= 13, "only {compared} logs were compared");
}
