//! Both graders read the same logs and reports and must answer the same.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use grade::{
    CONFIG_SCHEMA, Completion, Framework, Marks, Outcome, Reason, Required, SuiteRun, Surface,
    VerifierConfig, decide, parse_log, read_report,
};
use serde::Deserialize;
use serde_json::{Value, json};

/// Directory of the recorded inputs.
pub(crate) fn logs() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/logs"))
}

/// Says whether `python3` can be started, and prints why tests are skipped when not.
pub(crate) fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("skipped: no python3 on PATH");
    }
    found
}

pub(crate) fn config(
    framework: Framework,
    fail_to_pass: &[String],
    pass_to_pass: &[String],
) -> VerifierConfig {
    VerifierConfig {
        schema: CONFIG_SCHEMA.to_owned(),
        instance_id: "twin".to_owned(),
        workdir: "/testbed".to_owned(),
        framework,
        command: vec!["pytest".to_owned()],
        env: BTreeMap::new(),
        python: None,
        timeout_sec: 60,
        p2p_only: false,
        fail_to_pass: fail_to_pass.to_vec(),
        pass_to_pass: pass_to_pass.to_vec(),
        surface: Surface::pytest(),
    }
}

/// Gives the Rust grader's answer in the shape of the Python grader's.
pub(crate) fn rust_answer(required: Required<'_>, run: &SuiteRun, exit: Option<i32>) -> Value {
    let statuses: BTreeMap<_, _> = run.statuses.iter().collect();
    json!({
        "statuses": statuses,
        "flaky": run.statuses.flaky().collect::<Vec<_>>(),
        "placed_skips": run.placed_skips,
        "unresolved": run.unresolved,
        "completion": run.completion,
        "verdict": decide(required, run, exit),
    })
}

/// Gives the Python grader's answer on a recorded input.
pub(crate) fn python_answer(config: &VerifierConfig, arguments: &[&str], exit: Option<i32>) -> Value {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let config_path = folder.path().join("config.json");
    let script = folder.path().join("verify.py");
    fs::write(&config_path, config.to_json().expect("the configuration is valid")).unwrap();
    for file in grade::vendored::FILES {
        fs::write(folder.path().join(file.name), file.text).unwrap();
    }
    let mut command = Command::new("python3");
    command.args(["-I", "-S", "-B"]).arg(&script).arg("--config").arg(&config_path).args(arguments);
    if let Some(exit) = exit {
        command.arg(format!("--exit={exit}"));
    }
    let output = command.output().expect("python3 starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the grader prints JSON")
}

#[derive(Deserialize)]
struct Logs {
    begin: String,
    end: String,
    cases: Vec<LogCase>,
}

#[derive(Deserialize)]
struct LogCase {
    log: String,
    framework: Framework,
    exit: Option<i32>,
    fail_to_pass: Vec<String>,
    pass_to_pass: Vec<String>,
    outcome: Outcome,
    reason: Option<Reason>,
    reward: Option<u8>,
    #[serde(default)]
    flaky: Vec<String>,
}

#[test]
fn logs_get_the_verdict_they_deserve_from_both() {
    let logs_file: Logs = serde_json::from_slice(&fs::read(logs().join("cases.json")).unwrap()).unwrap();
    let marks = Marks { begin: &logs_file.begin, end: &logs_file.end };
    let with_python = has_python();
    for case in &logs_file.cases {
        let path = logs().join(&case.log);
        let run = parse_log(case.framework, &fs::read(&path).unwrap(), Some(marks));
        let config = config(case.framework, &case.fail_to_pass, &case.pass_to_pass);
        let verdict = decide(config.required(), &run, case.exit);
        assert_eq!(
            (verdict.outcome, verdict.reason, verdict.reward, &verdict.flaky),
            (case.outcome, case.reason, case.reward, &case.flaky),
            "{}: {run:#?}",
            case.log
        );
        if with_python {
            let arguments =
                ["--grade-log", path.to_str().unwrap(), "--begin", marks.begin, "--end", marks.end];
            let python = python_answer(&config, &arguments, case.exit);
            assert_eq!(python, rust_answer(config.required(), &run, case.exit), "{}", case.log);
        }
    }
}

#[test]
fn every_recorded_log_has_a_case() {
    let logs_file: Logs = serde_json::from_slice(&fs::read(logs().join("cases.json")).unwrap()).unwrap();
    let mut named: Vec<_> = logs_file.cases.iter().map(|case| case.log.clone()).collect();
    let mut there: Vec<_> = fs::read_dir(logs())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.strip_suffix(".log").is_some())
        .collect();
    named.sort();
    there.sort();
    assert_eq!(named, there);
}

#[derive(Deserialize)]
struct Reports {
    nonce: String,
    fail_to_pass: Vec<String>,
    pass_to_pass: Vec<String>,
    cases: Vec<ReportCase>,
}

#[derive(Deserialize)]
struct ReportCase {
    name: String,
    report: String,
    exit: i32,
    completion: Completion,
    outcome: Outcome,
    reason: Option<Reason>,
    reward: Option<u8>,
}

#[test]
fn reports_get_the_verdict_they_deserve_from_both() {
    let reports: Reports = serde_json::from_slice(&fs::read(logs().join("reports.json")).unwrap()).unwrap();
    let config = config(Framework::Pytest, &reports.fail_to_pass, &reports.pass_to_pass);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report");
    let with_python = has_python();
    for case in &reports.cases {
        let run = read_report(case.report.as_bytes(), &reports.nonce).unwrap();
        let verdict = decide(config.required(), &run, Some(case.exit));
        assert_eq!(
            (run.completion, verdict.outcome, verdict.reason, verdict.reward),
            (case.completion, case.outcome, case.reason, case.reward),
            "{}: {run:?}",
            case.name
        );
        if with_python {
            fs::write(&path, &case.report).unwrap();
            let arguments = ["--grade-report", path.to_str().unwrap(), "--nonce", &reports.nonce];
            let python = python_answer(&config, &arguments, Some(case.exit));
            assert_eq!(python, rust_answer(config.required(), &run, Some(case.exit)), "{}", case.name);
        }
    }
}

/// Pieces that parsers trip over.
const PIECES: [&str; 124] = [
    "PASSED",
    "FAILED",
    "ERROR",
    "SKIPPED",
    "XFAIL",
    "XPASS",
    "RERUN",
    " ",
    "  ",
    "[ 50%]",
    "[100%]",
    "[3/7]",
    "a.py::t",
    "d/b.py::C::u",
    "[x y]",
    "[",
    "]",
    "::",
    " - ",
    "(reason)",
    "\n",
    "\n",
    "\n",
    "\r\n",
    "\u{1b}[32m",
    "\u{1b}[0m",
    "[gw0] ",
    "SUBFAIL ",
    "SUBFAILED[m] ",
    "test_a (m.T) ... ",
    "ok",
    "FAIL",
    "skipped 'x'",
    "[ok]: ",
    " (12 ms)",
    "\u{e9}\u{2028}\u{b}",
    "\u{1c}",
    "\r",
    "\n  ",
    "\n    ",
    "\n      ",
    "=== RUN   TestA\n",
    "=== RUN   TestB/x\n",
    "--- PASS: TestA (0.00s)\n",
    "    --- FAIL: TestB/x (1.5s)\n",
    "--- SKIP: TestA (0s)\n",
    "ok  \texample.test/p\t0.1s\n",
    "FAIL\texample.test/q\t0.1s\n",
    "FAIL\texample.test/r [build failed]\n",
    "?   \tp\t[no test files]\n",
    "     Running unittests src/lib.rs (target/debug/deps/shop-0123456789abcdef)\n",
    "   Doc-tests shop\n",
    "test till::adds ... ok\n",
    "test till::takes ... FAILED\n",
    "test till::odd ... ",
    "ignored, slow\n",
    "ok\n",
    "test result: ok. 9 passed; 0 failed; 1 ignored; 0 measured\n",
    "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured\n",
    "  till\n",
    "    deep\n",
    "    \u{2714} adds (12ms)\n",
    "      \u{2713} takes 1) from 2\n",
    "      1) gives change\n",
    "      2) \"before each\" hook for \"adds\"\n",
    "      +3) third\n",
    "    - knows dollars\n",
    "    \u{2716} crossed (5 ms)\n",
    "  4 passing (1m)\n",
    "PASS test/till.test.js (6.2 s)\n",
    "FAIL test/door.test.ts\n",
    " FAIL  test/door.test.ts > till > takes\n",
    " FAIL  test/b.test.ts [ test/b.test.ts ]\n",
    "    \u{2715} fails (1.2 s)\n",
    "    \u{25cb} skipped later\n",
    "    \u{25cb} skipped 3 tests\n",
    "    \u{270e} todo some day\n",
    "  \u{25cf} till \u{203a} adds\n",
    "  \u{25cf} Test suite failed to run\n",
    "  \u{25cf} Console\n",
    "Tests:       1 failed, 5 total\n",
    " \u{2713} test/a.test.ts > till > adds 5ms\n",
    " \u{2713} test/a.test.ts (9 tests) 22ms\n",
    " \u{276f} test/b.test.ts (3 tests | 1 failed) 10ms\n",
    "   \u{d7} till > takes 5ms\n",
    "   \u{276f} inner (2)\n",
    "     \u{2713} leaf  301ms\n",
    " \u{2193} |unit| test/c.test.ts > off [skipped]\n",
    "stdout | test/e.test.ts > till\n",
    "\u{25b6} suite\n",
    "\u{25b6} suite (12.5ms)\n",
    "\u{2714} alone (0.4ms)\n",
    "  \u{2716} inner (0.5ms)\n",
    "  \u{fe63} later (0.1ms) # SKIP needs net\n",
    "  \u{2714} odd (5ms) # TODO\n",
    "\u{2716} failing tests:\n",
    "# Subtest: till\n",
    "    # Subtest: adds\n",
    "    ok 1 - adds\n",
    "ok 1 - till\n",
    "ok 2 opens # SKIP no key\n",
    "not ok 3 - closes # todo: later\n",
    "not ok 4 locks\n",
    "ok 5 - ends # SKIPPED\n",
    "Bail out! no disk\n",
    "{\"Action\":\"run\",\"Package\":\"p\",\"Test\":\"TestA\"}\n",
    "{\"Action\":\"pass\",\"Package\":\"p\",\"Test\":\"TestA\"}\n",
    "{\"Action\":\"fail\",\"Package\":\"p\"}\n",
    "{\"Action\":\"build-fail\",\"ImportPath\":\"r\"}\n",
    "{\"type\":\"suite\",\"event\":\"started\",\"test_count\":1}\n",
    "{\"type\":\"test\",\"event\":\"ok\",\"name\":\"till::adds\"}\n",
    "{\"type\":\"test\",\"event\":\"failed\",\"name\":\"a$b#2\"}\n",
    "{\"type\":\"suite\",\"event\":\"ok\",\"passed\":1}\n",
    " (7ms)",
    "\u{a0}",
    "99999999999999999999999) x\n",
    "[INFO] a.b.TillTest.adds -- Time elapsed: 0.001 s\n",
    "[ERROR] takes(a.b.OldTest)  Time elapsed: 0,01 sec  <<< FAILURE!\n",
    " Time elapsed: 1 ms <<< ERROR!",
    "[WARNING] a.b.TillTest.later skipped\n",
    "later(a.b.\u{e9}Test) SKIPPED: no\n",
    "Tests run: 3, Failures: 1, Time elapsed: 1 s\n",
    "a.b.C$D.x",
    "locks[1, 2](a.b.OlderTest)",
];

/// So many pieces are events; the texts of Go and Cargo are read only where none is among them.
const EVENTS: std::ops::Range<usize> = 105..113;

#[test]
fn garbled_logs_are_read_alike() {
    if !has_python() {
        return;
    }
    // A fixed pseudo-random order: every line differs, every run is the same.
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % PIECES.len()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    for with_events in [false, true] {
        let pieces = (0..40_000).map(|_| next()).filter(|at| with_events || !EVENTS.contains(at));
        let text: String = pieces.map(|at| PIECES[at]).collect();
        fs::write(&path, &text).unwrap();
        for framework in Framework::ALL {
            let config = config(framework, &["a.py::t".to_owned()], &["TestA".to_owned()]);
            let run = parse_log(framework, text.as_bytes(), None);
            assert!(run.statuses.len() > 1, "{framework:?} found only {}", run.statuses.len());
            let python = python_answer(&config, &["--grade-log", path.to_str().unwrap()], None);
            assert_eq!(python, rust_answer(config.required(), &run, None), "{framework:?}");
        }
    }
}

#[test]
fn short_garbled_logs_are_read_alike() {
    if !has_python() {
        return;
    }
    let mut state: u64 = 0x2545_f491_4f6c_dd1d;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    for length in (1..40).step_by(2) {
        let mut text = String::new();
        for _ in 0..length {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(PIECES[36 + (state >> 33) as usize % (PIECES.len() - 36)]);
        }
        fs::write(&path, &text).unwrap();
        let framework = Framework::ALL[(state >> 40) as usize % Framework::ALL.len()];
        let config = config(framework, &["TestA".to_owned()], &["adds".to_owned()]);
        let run = parse_log(framework, text.as_bytes(), None);
        let python = python_answer(&config, &["--grade-log", path.to_str().unwrap()], Some(1));
        assert_eq!(python, rust_answer(config.required(), &run, Some(1)), "{framework:?}\n{text}");
    }
}
