//! Logs that runners write here and now.

use std::{fs, path::Path, process::Command};

use grade::{LogFormat, SuiteRun, TestNames, TestStatus, parse_log_named};

/// Runs a command and reads what it printed on both streams, in the order of the streams.
fn run(command: &mut Command, format: LogFormat, names: TestNames) -> (SuiteRun, i32) {
    let output = command.output().unwrap();
    let log = [output.stderr, output.stdout].concat();
    (parse_log_named(format, names, &log, None), output.status.code().unwrap())
}

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

#[test]
fn cargo_prints_what_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let library = "//! ```\n//! assert_eq!(shop::add(1, 2), 3);\n//! ```\n\
        /// Adds.\npub fn add(a: u32, b: u32) -> u32 { a + b }\n\
        #[cfg(test)] mod till {\n\
        #[test] fn adds() { println!(\"\\ntest till::forged ... ok\"); assert_eq!(crate::add(1, 2), 3); }\n\
        #[test] fn takes() { panic!(\"no\"); }\n\
        #[test] #[should_panic] fn odd() { panic!(); }\n\
        #[test] #[ignore = \"slow\"] fn later() {}\n}\n";
    write(
        folder.path(),
        &[
            (
                "Cargo.toml",
                "[package]\nname = \"shop\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[workspace]\n",
            ),
            ("src/lib.rs", library),
        ],
    );
    let cargo = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO"));
        command.args(["test", "--offline", "--verbose", "--no-fail-fast"]).args(arguments);
        command.current_dir(folder.path()).env("CARGO_TARGET_DIR", folder.path().join("target"));
        command.env("CARGO_TERM_COLOR", "always").env_remove("RUSTFLAGS");
        command
    };
    let (found, exit) = run(&mut cargo(&["--lib"]), LogFormat::Cargo, TestNames::Full);
    assert_eq!(
        found.statuses.iter().collect::<Vec<_>>(),
        [
            ("shop > till::adds", TestStatus::Passed),
            ("shop > till::later", TestStatus::Skipped),
            ("shop > till::odd - should panic", TestStatus::Passed),
            ("shop > till::takes", TestStatus::Failed),
        ]
    );
    assert_eq!(LogFormat::Cargo.suite_exit(exit), 1);
    let (found, exit) = run(&mut cargo(&["--doc"]), LogFormat::Cargo, TestNames::Full);
    assert_eq!(
        found.statuses.iter().collect::<Vec<_>>(),
        [("shop > src/lib.rs - (line 1)", TestStatus::Passed)]
    );
    assert_eq!(exit, 0);
    // Past libtest anything can be printed: what is forged outnumbers the count.
    let (found, _) = run(
        &mut cargo(&["--lib", "--", "--nocapture", "--test-threads=1"]),
        LogFormat::Cargo,
        TestNames::Full,
    );
    assert_eq!(found.completion, grade::Completion::Forged, "{found:?}");
}

#[test]
fn node_prints_what_is_read() {
    let there = Command::new("node").arg("--version").output().ok();
    let version =
        there.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < 20) {
        eprintln!("skipped: no node of version 20 or newer on PATH");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let suite = "const {describe, it} = require('node:test');\n\
        describe('till', () => {\n\
        it('adds', () => { console.log('    ok 1 - printed'); });\n\
        it('takes (1) from 2', () => { throw new Error('no'); });\n\
        it.skip('later', () => {});\n\
        describe('deep', () => { it('waits (5 ms)', () => {}); it('ends with a blank ', () => {}); });\n\
        });\n";
    write(folder.path(), &[("a.test.cjs", suite)]);
    let node = |reporter: &str| {
        let mut command = Command::new("node");
        command
            .args(["--test", &format!("--test-reporter={reporter}"), "a.test.cjs"])
            .current_dir(folder.path());
        command.env_remove("NODE_OPTIONS").env_remove("NODE_TEST_CONTEXT");
        command
    };
    let wanted = [
        ("till", TestStatus::Failed),
        ("till > adds", TestStatus::Passed),
        ("till > deep", TestStatus::Passed),
        ("till > deep > ends with a blank ", TestStatus::Passed),
        ("till > deep > waits", TestStatus::Passed),
        ("till > later", TestStatus::Skipped),
        ("till > takes (1) from 2", TestStatus::Failed),
    ];
    let (found, exit) = run(&mut node("spec"), LogFormat::Node, TestNames::Full);
    assert_eq!(found.statuses.iter().collect::<Vec<_>>(), wanted);
    assert_eq!(exit, 1);
    // TAP has no run times in titles, so nothing is cut; what tests print is a comment there.
    let (found, _) = run(&mut node("tap"), LogFormat::Tap, TestNames::Full);
    let wanted = wanted.map(|(name, status)| (name.replace("waits", "waits (5 ms)"), status));
    let shown: Vec<_> = found.statuses.iter().map(|(name, status)| (name.to_owned(), status)).collect();
    assert_eq!(shown, wanted);
}
