//! Recorded logs and reward files of a local corpus, when there is one.

use std::{
    fs,
    path::{Path, PathBuf},
};

use grade::{Framework, Outcome, Reason, SWE_SMITH_MARKS as SWE_SMITH, decide, parse_log, read_reward};
use serde::Deserialize;
use serde_json::Value;

use crate::twin::{config, has_python, python_answer, rust_answer};

/// Finds the case whose folder name, after its number, is this one.
fn case_folder(cases: &Path, name: &str) -> PathBuf {
    let mut entries = fs::read_dir(cases).unwrap().map(|entry| entry.unwrap().path());
    let is_wanted = |path: &PathBuf| {
        path.file_name().unwrap().to_string_lossy().split_once('-').is_some_and(|(_, rest)| rest == name)
    };
    entries.find(is_wanted).unwrap_or_else(|| panic!("no case {name} in {}", cases.display()))
}

pub(crate) fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() && !path.is_symlink() {
            files_below(&path, found);
        } else if path.is_file() {
            found.push(path);
        }
    }
}

pub(crate) fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

#[test]
fn recorded_runs_agree_with_their_harness_and_between_the_graders() {
    let Some(folder) = corpus::find("data/swesmith") else { return };
    let with_python = has_python();
    let mut files = Vec::new();
    files_below(&folder, &mut files);
    let mut graded = 0;
    for path in files {
        let name = path.file_name().unwrap().to_string_lossy();
        if !name.starts_with("test_output") {
            continue;
        }
        let log = fs::read(&path).unwrap();
        let run = parse_log(Framework::Pytest, &log, Some(SWE_SMITH));
        let beside = fs::read(path.with_file_name("report.json")).ok();
        let report: Value = beside.map_or(Value::Null, |bytes| serde_json::from_slice(&bytes).unwrap());
        let status = &report["tests_status"];
        let list = |list: &str, part: &str| strings(&status[list][part]);
        let both = |name: &str| [list(name, "success"), list(name, "failure")].concat();
        let config = config(Framework::Pytest, &both("FAIL_TO_PASS"), &both("PASS_TO_PASS"));
        if with_python {
            let arguments =
                ["--grade-log", path.to_str().unwrap(), "--begin", SWE_SMITH.begin, "--end", SWE_SMITH.end];
            let python = python_answer(&config, &arguments, None);
            assert_eq!(python, rust_answer(config.required(), &run, None), "{}", path.display());
        }
        let Some(resolved) = report["resolved"].as_bool().filter(|_| !status.is_null()) else { continue };
        let verdict = decide(config.required(), &run, None);
        assert_eq!(verdict.is_resolved(), resolved, "{}: {verdict:?}", path.display());
        let tallies =
            [("FAIL_TO_PASS", verdict.fail_to_pass, false), ("PASS_TO_PASS", verdict.pass_to_pass, true)];
        for (name, tally, skips_are_kept) in tallies {
            let mut good = [tally.passed, tally.xpass].concat();
            if skips_are_kept {
                good.extend(tally.skipped);
            }
            let mut peer = list(name, "success");
            good.sort();
            peer.sort();
            peer.dedup();
            assert_eq!(good, peer, "{} {name}", path.display());
        }
        graded += 1;
    }
    assert!(graded >= 4, "only {graded} recorded pytest runs with a verdict were found");
}

#[derive(Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
struct Expected {
    fail_to_pass: Vec<String>,
    pass_to_pass: Vec<String>,
}

#[test]
fn log_cases_end_as_their_notes_say() {
    use Framework::{Lines, Pytest, Unittest};
    use Outcome::{Invalid, Resolved, Unresolved};
    let Some(folder) = corpus::find("cases") else { return };
    let with_python = has_python();
    let cases = [
        ("log-ansi", Pytest, None, Resolved, None),
        ("log-percent-phantom", Pytest, None, Resolved, None),
        ("log-interleaved-status", Unittest, None, Resolved, None),
        ("log-timing-suffix", Lines, None, Resolved, None),
        ("log-no-end-mark", Pytest, None, Invalid, Some(Reason::Incomplete)),
        ("log-skipped-f2p", Pytest, None, Unresolved, None),
        ("log-skipped-p2p", Pytest, None, Unresolved, None),
        ("log-forged-lines", Pytest, Some(1), Invalid, Some(Reason::Contradiction)),
        ("log-empty-required-lists", Pytest, None, Invalid, Some(Reason::F2pEmpty)),
        ("log-ids-trailing-space", Lines, None, Invalid, Some(Reason::IdMismatch)),
    ];
    for (case, framework, exit, outcome, reason) in cases {
        let folder = case_folder(&folder, case);
        let path = folder.join("test_output.txt");
        let expected = fs::read(folder.join("expected.json")).unwrap();
        let expected: Expected = serde_json::from_slice(&expected).unwrap();
        let config = config(framework, &expected.fail_to_pass, &expected.pass_to_pass);
        let run = parse_log(framework, &fs::read(&path).unwrap(), Some(SWE_SMITH));
        let verdict = decide(config.required(), &run, exit);
        assert_eq!((verdict.outcome, verdict.reason), (outcome, reason), "{case}: {run:?}");
        if with_python {
            let arguments =
                ["--grade-log", path.to_str().unwrap(), "--begin", SWE_SMITH.begin, "--end", SWE_SMITH.end];
            let python = python_answer(&config, &arguments, exit);
            assert_eq!(python, rust_answer(config.required(), &run, exit), "{case}");
        }
    }
}

#[test]
fn reward_cases_end_as_their_notes_say() {
    let Some(folder) = corpus::find("cases") else { return };
    let cases = [
        ("reward-empty", Err("reward_empty")),
        ("reward-newline", Ok(true)),
        ("reward-no-newline-int", Ok(true)),
        ("reward-blank", Err("reward_empty")),
        ("reward-nan", Err("reward_non_finite")),
        ("reward-word", Err("reward_unparsable")),
        ("reward-two-lines", Err("reward_several_values")),
        ("reward-bom", Ok(true)),
        ("reward-out-of-range", Ok(false)),
        ("reward-near-one", Ok(false)),
        ("reward-json-several-keys", Ok(true)),
        ("reward-json-bool-and-string", Err("reward_not_a_number")),
        ("reward-json-nan-token", Err("reward_non_finite")),
        ("reward-json-bare-number", Err("reward_not_an_object")),
        ("reward-json-empty-object", Err("reward_no_key")),
        ("reward-json-nested", Err("reward_not_a_number")),
        ("reward-both-disagree", Err("reward_conflict")),
    ];
    for (case, expected) in cases {
        let files = case_folder(&folder, case).join("verifier");
        let read = |name: &str| fs::read(files.join(name)).ok();
        let (text, json) = (read("reward.txt"), read("reward.json"));
        let found = read_reward(text.as_deref(), json.as_deref(), None);
        let found = found.as_ref().map(grade::Reward::is_full).map_err(grade::RewardError::name);
        assert_eq!(found, expected, "{case}");
    }
}
