//! What holds for every log format: no bytes are too strange, colours change nothing, and time grows with length.

use std::fmt::Write as _;

use grade::{Completion, LogFormat, Marks, SuiteRun, TestNames, TestStatus, parse_log, parse_log_named};
use proptest::prelude::*;

/// A log of each format with one passing and one failing test, and their names.
const SAMPLES: [(LogFormat, &str, &str, &str); 14] = [
    (
        LogFormat::Pytest,
        "t/test_a.py::adds PASSED   [ 50%]\nt/test_a.py::takes[a b] FAILED   [100%]\n",
        "t/test_a.py::adds",
        "t/test_a.py::takes[a b]",
    ),
    (
        LogFormat::Unittest,
        "test_adds (m.T) ... ok\ntest_takes (m.T) ... FAIL\n",
        "test_adds (m.T)",
        "test_takes (m.T)",
    ),
    (LogFormat::Lines, "[ok]: adds (12 ms)\n[fail]: takes (1.5s)\n", "adds", "takes"),
    (
        LogFormat::Go,
        "=== RUN   TestAdds\n--- PASS: TestAdds (0.00s)\n=== RUN   TestTakes\n--- FAIL: TestTakes (0.10s)\nFAIL\nFAIL\tp\t0.1s\n",
        "TestAdds",
        "TestTakes",
    ),
    (
        LogFormat::Cargo,
        "running 2 tests\ntest till::adds ... ok\ntest till::takes ... FAILED\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured\n",
        "till::adds",
        "till::takes",
    ),
    (
        LogFormat::Nextest,
        "    Starting 2 tests across 1 binary\n        PASS [   0.004s] (1/2) shop till::adds\n        FAIL [   0.005s] (2/2) shop till::takes\n     Summary [   0.010s] 2 tests run: 1 passed, 1 failed, 0 skipped\n",
        "till::adds",
        "till::takes",
    ),
    (
        LogFormat::Jest,
        "FAIL a.test.js (5.1 s)\n  till\n    ✓ adds (12 ms)\n    ✕ takes (3 ms)\n",
        "adds",
        "takes",
    ),
    (
        LogFormat::Mocha,
        "  till\n    ✔ adds (12ms)\n    1) takes\n\n  1 passing (5ms)\n  1 failing\n",
        "adds",
        "takes",
    ),
    (
        LogFormat::Vitest,
        " ✓ a.test.ts > till > adds 5ms\n × a.test.ts > till > takes 3ms\n",
        "a.test.ts > till > adds",
        "a.test.ts > till > takes",
    ),
    (LogFormat::Node, "▶ till\n  ✔ adds (1.25ms)\n  ✖ takes (0.5ms)\n▶ till (2ms)\n", "adds", "takes"),
    (LogFormat::Tap, "ok 1 - adds\nnot ok 2 - takes\n1..2\n", "adds", "takes"),
    (
        LogFormat::Surefire,
        "[INFO] a.TillTest.adds -- Time elapsed: 0.001 s\n[ERROR] a.TillTest.takes -- Time elapsed: 0.01 s <<< FAILURE!\n",
        "a.TillTest.adds",
        "a.TillTest.takes",
    ),
    (
        LogFormat::Junit,
        "<?xml version=\"1.0\"?>\n<testsuite name=\"a.TillTest\">\n<testcase name=\"adds\"/>\n<testcase name=\"takes\"><failure/></testcase>\n</testsuite>\n",
        "a.TillTest.adds",
        "a.TillTest.takes",
    ),
    (
        LogFormat::Ctrf,
        "{\"reportFormat\": \"CTRF\", \"results\": {\"summary\": {\"passed\": 1}, \"tests\": [\n{\"name\": \"adds\", \"status\": \"passed\"},\n{\"name\": \"takes\", \"status\": \"failed\"}\n]}}\n",
        "adds",
        "takes",
    ),
];

const MARKS: Marks<'static> = Marks { begin: "<<begin 7f>>", end: "<<end 7f>>" };

fn check(run: &SuiteRun, format: LogFormat, passing: &str, failing: &str) {
    assert_eq!(run.statuses.get(passing), Some(TestStatus::Passed), "{format}: {run:#?}");
    assert_eq!(run.statuses.get(failing), Some(TestStatus::Failed), "{format}: {run:#?}");
    assert_eq!(run.statuses.len(), 2, "{format}: {run:#?}");
    assert!(run.unresolved.is_empty(), "{format}: {run:#?}");
}

#[test]
fn every_format_has_a_sample_that_is_read() {
    for ((format, log, passing, failing), wanted) in SAMPLES.into_iter().zip(LogFormat::ALL) {
        assert_eq!(format, wanted);
        check(&parse_log(format, log.as_bytes(), None), format, passing, failing);
    }
}

#[test]
fn line_ends_of_windows_change_nothing() {
    for (format, log, passing, failing) in SAMPLES {
        check(&parse_log(format, log.replace('\n', "\r\n").as_bytes(), None), format, passing, failing);
    }
}

#[test]
fn progress_that_is_wiped_is_no_text() {
    // Those that the vendored verifier reads too keep a line whole, and documents are not bound to lines.
    let whole = [LogFormat::Pytest, LogFormat::Unittest, LogFormat::Lines, LogFormat::Junit, LogFormat::Ctrf];
    for (format, log, passing, failing) in SAMPLES.into_iter().filter(|sample| !whole.contains(&sample.0)) {
        let log = log.replace('\n', "\n 10%\r 99%\r");
        check(&parse_log(format, log.as_bytes(), None), format, passing, failing);
    }
}

#[test]
fn a_log_without_its_end_mark_is_incomplete_in_every_format() {
    for (format, log, passing, failing) in SAMPLES {
        let whole = format!("noise\n{}\n{log}{}\n{log}", MARKS.begin, MARKS.end);
        let run = parse_log(format, whole.as_bytes(), Some(MARKS));
        check(&run, format, passing, failing);
        assert_eq!(run.completion, Completion::Complete, "{format}");
        let cut = format!("{}\n{log}", MARKS.begin);
        assert_eq!(
            parse_log(format, cut.as_bytes(), Some(MARKS)).completion,
            Completion::Incomplete,
            "{format}"
        );
        let twice = format!("{}\n{log}{}\n{}\n", MARKS.begin, MARKS.end, MARKS.end);
        assert_eq!(
            parse_log(format, twice.as_bytes(), Some(MARKS)).completion,
            Completion::Forged,
            "{format}"
        );
    }
}

#[test]
fn a_percentage_is_never_a_test() {
    for format in LogFormat::ALL {
        let log = "PASSED [100%]\n[100%]\n    ✓ \n  100%|##| 3/3\n--- PASS: [100%]\n";
        let run = parse_log(format, log.as_bytes(), None);
        assert!(run.statuses.iter().all(|(name, _)| !name.starts_with('[')), "{format}: {run:?}");
    }
}

#[test]
fn trailing_blanks_belong_to_names_that_may_have_them() {
    for (format, log, name) in [
        (LogFormat::Lines, "PASSED a name \n", "a name "),
        (LogFormat::Mocha, "  till\n    ✔ a name \n", "a name "),
        (LogFormat::Jest, "PASS a.test.js\n  ✓ a name  (5 ms)\n", "a name "),
        (LogFormat::Node, "✔ a name  (5ms)\n", "a name "),
        (LogFormat::Junit, "<testsuite name='s'><testcase name='a name '/></testsuite>", "s.a name "),
    ] {
        let run = parse_log(format, log.as_bytes(), None);
        assert_eq!(run.statuses.get(name), Some(TestStatus::Passed), "{format}: {run:?}");
    }
}

/// Pieces that parsers trip over when there are very many of them.
const HOSTILE: [&str; 34] = [
    "<![CDATA[",
    "<!--",
    "<testcase name=\"",
    "<testsuite ",
    "<?xml",
    "<a b='",
    "</testsuite>",
    "&#",
    "=== RUN   T\n",
    "--- PASS: ",
    "--- FAIL: T (0.00s)\n",
    "FAIL\tp\t0.1s\n",
    "{\"Action\":\"run\",\"Test\":\"",
    "test a ... ",
    "ok\n",
    "test result: ok. 1 passed; 0 failed; 0 ignored;\n",
    "PASS a.test.js\n",
    "  ● a › b › ",
    "  ✓ t (5 ms)",
    " (5 ms)",
    "  x\n",
    "    ✔ t\n",
    "▶ s\n",
    " > ",
    "[ERROR] ",
    " -- Time elapsed: 1 s",
    "a.py::t ",
    "\x1b[",
    "    Starting 1 test across 1 binary\n",
    "        PASS [   0.004s] (1/2) shop a\n",
    "  TRY 2 FAIL [   0.004s] ",
    "{\"type\":\"test\",\"event\":\"ok\",\"name\":\"",
    "{\"results\":[\n",
    "{\"reportFormat\":\"CTRF\"}\n",
];

#[test]
fn much_hostile_text_takes_no_longer_than_its_length_asks_for() {
    // A parser whose time grew with the square of the length would not come to an end here.
    for piece in HOSTILE {
        let log = piece.repeat(400_000 / piece.len());
        for format in LogFormat::ALL {
            parse_log_named(format, TestNames::Full, log.as_bytes(), None);
        }
    }
}

#[test]
fn deep_trees_stay_small() {
    let mut log = String::from("PASS a.test.js\n");
    for depth in 1..200 {
        writeln!(log, "{}suite {}", " ".repeat(2 * depth), "x".repeat(300)).unwrap();
        writeln!(log, "{}✓ adds (5 ms)", " ".repeat(2 * depth + 2)).unwrap();
    }
    for format in [LogFormat::Jest, LogFormat::Mocha] {
        let run = parse_log_named(format, TestNames::Full, log.as_bytes(), None);
        assert!(run.statuses.iter().all(|(name, _)| name.len() < 2_000));
        assert!(run.statuses.len() > 1);
    }
}

proptest! {
    #[test]
    fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        for format in LogFormat::ALL {
            parse_log(format, &bytes, None);
        }
    }

    #[test]
    fn no_pieces_are_too_strange(pieces in proptest::collection::vec(0..HOSTILE.len(), 0..60)) {
        let log: String = pieces.into_iter().map(|piece| HOSTILE[piece]).collect();
        for format in LogFormat::ALL {
            let run = parse_log_named(format, TestNames::Full, log.as_bytes(), None);
            prop_assert!(run.unresolved.iter().all(|name| !run.statuses.contains(name)));
            prop_assert_eq!(&run, &parse_log_named(format, TestNames::Full, log.as_bytes(), None));
        }
    }

    #[test]
    fn colours_change_nothing(seed in any::<u64>()) {
        for (format, log, passing, failing) in SAMPLES {
            let mut state = seed;
            let mut coloured = String::new();
            for character in log.chars() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let codes = ["", "\x1b[1;32m", "\x1b[0m", "\x1b[K", "\x1b]0;title\x07", "", "", ""];
                coloured.push_str(codes[(state >> 33) as usize % codes.len()]);
                coloured.push(character);
            }
            check(&parse_log(format, coloured.as_bytes(), None), format, passing, failing);
        }
    }

    #[test]
    fn text_around_the_marks_counts_for_nothing(before in "[ -~\n]{0,80}", after in "[ -~\n]{0,80}") {
        for (format, log, passing, failing) in SAMPLES {
            let text = format!("{before}\n{}\n{log}{}\n{after}", MARKS.begin, MARKS.end);
            check(&parse_log(format, text.as_bytes(), Some(MARKS)), format, passing, failing);
        }
    }
}
