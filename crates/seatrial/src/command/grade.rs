//! `seatrial grade`: what a recorded log of tests is worth.

use std::io::{self, Read};
use std::path::Path;

use fs_err as fs;
use grade::{
    LogFormat, Marks, Outcome, Reason, Required, SuiteRun, Tally, TestNames, Verdict, VerifierConfig, decide,
    parse_harness_log, parse_log_named,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli;
use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::{Output, count, table};

/// Largest log that is read, in bytes.
const MAX_LOG: u64 = 256 << 20;
/// Largest file of required tests, in bytes.
const MAX_LISTS: u64 = 64 << 20;
/// So many tests of the log are named when none of the required ones is among them.
const SHOWN: usize = 3;

/// The tests that must pass, from wherever they are told.
struct Wanted {
    fail_to_pass: Vec<String>,
    pass_to_pass: Vec<String>,
    pass_to_pass_only: bool,
    format: Option<LogFormat>,
}

/// Grades one log. Everything but a resolved run ends with exit 1.
pub fn run(output: Output, directory: &Path, arguments: &cli::Grade) -> Result {
    let wanted = wanted(directory, arguments)?;
    let format = arguments.framework.or(wanted.format).ok_or_else(|| {
        Failure::new(Exit::Usage, "the log's framework is not told")
            .hint("name it with --framework; `seatrial grade --help` lists them")
    })?;
    let log = if arguments.recorded == Path::new("-") {
        bounded(io::stdin().lock(), MAX_LOG, "standard input")?
    } else {
        read(&directory.join(&arguments.recorded), MAX_LOG)?
    };
    let names = if arguments.full_names { TestNames::Full } else { TestNames::Collection };
    let run = match (&arguments.marks[..], arguments.harness) {
        (_, true) => parse_harness_log(format, names, &log),
        ([begin, end], _) => parse_log_named(format, names, &log, Some(Marks { begin, end })),
        _ => parse_log_named(format, names, &log, None),
    };
    let required = Required {
        fail_to_pass: &wanted.fail_to_pass,
        pass_to_pass: &wanted.pass_to_pass,
        pass_to_pass_only: wanted.pass_to_pass_only,
    };
    let verdict = decide(required, &run, arguments.exit_status.map(|exit| format.suite_exit(exit)));
    show(output, &run, &verdict)?;
    output.json(&json!({
        "log": arguments.recorded.display().to_string(),
        "framework": format,
        "collected": run.statuses.len(),
        "unresolved": run.unresolved,
        "completion": run.completion,
        "verdict": verdict,
    }))?;
    if verdict.is_resolved() {
        return Ok(());
    }
    let outcome = if verdict.outcome == Outcome::Invalid { "does not count" } else { "is not resolved" };
    Err(Failure::new(Exit::Failed, format!("the run {outcome}")).silent())
}

/// Gathers the required tests from the arguments and the files that they name.
fn wanted(directory: &Path, arguments: &cli::Grade) -> Result<Wanted> {
    let mut wanted = Wanted {
        fail_to_pass: arguments.f2p.clone(),
        pass_to_pass: arguments.p2p.clone(),
        pass_to_pass_only: arguments.p2p_only,
        format: None,
    };
    if let Some(path) = &arguments.config {
        let path = directory.join(path);
        let text = String::from_utf8(read(&path, MAX_LISTS)?).or_exit(Exit::Usage)?;
        let config = VerifierConfig::from_json(&text)
            .map_err(|error| Failure::new(Exit::Usage, format!("{}: {error}", path.display())))?;
        wanted.format = Some(config.framework.into());
        wanted.fail_to_pass.extend(config.fail_to_pass);
        wanted.pass_to_pass.extend(config.pass_to_pass);
        wanted.pass_to_pass_only |= config.p2p_only;
    } else if let Some(path) = &arguments.instance {
        let path = directory.join(path);
        let row: Row = serde_json::from_slice(&read(&path, MAX_LISTS)?).map_err(|error| {
            Failure::new(Exit::Usage, format!("{} is no row of an instance: {error}", path.display()))
                .hint("one JSON object with FAIL_TO_PASS and PASS_TO_PASS is wanted")
        })?;
        wanted.fail_to_pass.extend(row.fail_to_pass.0);
        wanted.pass_to_pass.extend(row.pass_to_pass.0);
    } else if wanted.fail_to_pass.is_empty() && wanted.pass_to_pass.is_empty() {
        return Err(Failure::new(Exit::Usage, "no required test is named")
            .hint("give --f2p and --p2p, or a file with --config or --instance"));
    }
    Ok(wanted)
}

/// What is read of an instance's row.
#[derive(Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
struct Row {
    fail_to_pass: List,
    #[serde(default)]
    pass_to_pass: List,
}

/// A list of tests; some collections write it as a text that holds the JSON of the list.
#[derive(Default)]
struct List(Vec<String>);

impl<'de> Deserialize<'de> for List {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        use serde::de::Error;
        let list = match Value::deserialize(deserializer)? {
            Value::String(text) => serde_json::from_str(&text),
            value => serde_json::from_value(value),
        };
        list.map(Self).map_err(|error| D::Error::custom(format!("the list of tests: {error}")))
    }
}

fn read(path: &Path, limit: u64) -> Result<Vec<u8>> {
    bounded(fs::File::open(path).or_exit(Exit::Usage)?, limit, &path.display().to_string())
}

fn bounded(from: impl Read, limit: u64, name: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(limit + 1).read_to_end(&mut bytes).or_exit(Exit::Usage)?;
    if bytes.len() as u64 > limit {
        return Err(Failure::new(Exit::Usage, format!("{name} is larger than {limit} bytes"))
            .hint("cut the log down to the output of the suite"));
    }
    Ok(bytes)
}

/// Prints the required tests and the verdict, for people.
fn show(output: Output, run: &SuiteRun, verdict: &Verdict) -> Result {
    let lists = [("F2P", &verdict.fail_to_pass), ("P2P", &verdict.pass_to_pass)];
    let rows: Vec<_> = lists.into_iter().flat_map(|(list, tally)| rows(list, tally, verdict)).collect();
    if !rows.is_empty() {
        output.print(table(["list", "status", "test", ""], rows))?;
        output.print("")?;
    }
    output.print(headline(verdict))?;
    let is_any_shown = lists
        .iter()
        .any(|(_, tally)| statuses(tally).any(|(status, ids)| status != "missing" && !ids.is_empty()));
    if !is_any_shown && verdict.near_names.is_empty() && !run.statuses.is_empty() {
        let first: Vec<_> = run.statuses.iter().take(SHOWN).map(|(id, _)| format!("`{id}`")).collect();
        output.say(format_args!(
            "none of the required tests is in the log; it has {}, such as {}",
            count(run.statuses.len(), "other"),
            first.join(", ")
        ));
    }
    Ok(())
}

fn statuses(tally: &Tally) -> impl Iterator<Item = (&'static str, &[String])> {
    [
        ("passed", &tally.passed[..]),
        ("xpass", &tally.xpass),
        ("skipped", &tally.skipped),
        ("xfail", &tally.xfail),
        ("failed", &tally.failed),
        ("error", &tally.error),
        ("missing", &tally.missing),
    ]
    .into_iter()
}

/// The rows of one list, in the order of the ids.
fn rows(list: &'static str, tally: &Tally, verdict: &Verdict) -> Vec<[String; 4]> {
    let note = |id: &String| {
        if let Some(near) = verdict.near_names.get(id) {
            format!("the log shows `{near}`")
        } else if verdict.flaky.contains(id) {
            "flaky: run again, or with results that differ".to_owned()
        } else {
            String::new()
        }
    };
    let mut rows: Vec<_> = statuses(tally)
        .flat_map(|(status, ids)| ids.iter().map(move |id| (id, status)))
        .map(|(id, status)| [list.to_owned(), status.to_owned(), id.clone(), note(id)])
        .collect();
    rows.sort_by(|one, other| one[2].cmp(&other[2]));
    rows
}

/// The verdict in one line.
fn headline(verdict: &Verdict) -> String {
    let bad = |tally: &Tally, skips_are_kept: bool| {
        let bad = tally.failed.len() + tally.error.len() + tally.xfail.len() + tally.missing.len();
        bad + if skips_are_kept { 0 } else { tally.skipped.len() }
    };
    match verdict.outcome {
        Outcome::Resolved => "resolved: every required test holds".to_owned(),
        Outcome::Unresolved => {
            let (f2p, p2p) = (bad(&verdict.fail_to_pass, false), bad(&verdict.pass_to_pass, true));
            format!("unresolved: {f2p} of F2P did not pass, {p2p} of P2P regressed")
        }
        Outcome::Invalid => {
            let reason = verdict.reason.map_or("", Reason::as_str);
            let because = verdict.reason.map_or("", because);
            let detail = verdict.detail.as_ref().map(|detail| format!(" ({detail})")).unwrap_or_default();
            format!("invalid, {reason}: {because}{detail}")
        }
    }
}

/// Why a run does not count, in words.
fn because(reason: Reason) -> &'static str {
    match reason {
        Reason::F2pEmpty => "no test is to be fixed, so there is nothing to prove",
        Reason::Timeout => "the suite reached its time limit",
        Reason::Forged => "the log holds what the runner cannot have written",
        Reason::Interrupted => "the runner was interrupted, as it is by errors while collecting",
        Reason::InternalError => "the runner had an error of its own",
        Reason::UsageError => "the runner could not use its arguments",
        Reason::NothingCollected => "not one test was run",
        Reason::AbnormalExit => "the runner did not end by itself",
        Reason::Incomplete => "the log has no end",
        Reason::Contradiction => "the exit status and the results do not agree",
        Reason::IdMismatch => "required ids are not quite those of the log",
    }
}
