//! Shell scripts: line ends, interpreters, and rewards that are never written.

use record::Severity;

use crate::facts::Facts;
use crate::lines::{file_name, holds};
use crate::report::{Place, Report, quoted};
use crate::rule::{Family, Rule};
use crate::shell::{Command, Joint, Script};
use crate::view::{FileEntry, MemberKind};

pub(super) const RULES: &[&Rule] =
    &[&SCRIPT_CRLF, &CONTEXT_SCRIPT_CRLF, &SHEBANG_MISSING, &REWARD_NOT_WRITTEN, &REWARD_LOST];

const SCRIPT_CRLF: Rule = Rule {
    name: "script-crlf",
    family: Family::Scripts,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "A script that a trial runs has CRLF line ends.",
    explanation: "The system looks for an interpreter whose name ends in a carriage return and finds none, and the \
                  failure of the oracle is booked as a bad task. Looked at are shell scripts in `tests/`, `solution/` \
                  and the same folders of steps. Data files may have any line ends. A script is wrong when its first \
                  line or most of its lines end in CRLF; single ones may be content of a here-document.",
    fix: "convert the file to LF line ends, and keep it so with `*.sh text eol=lf` in `.gitattributes`",
};

const CONTEXT_SCRIPT_CRLF: Rule = Rule {
    name: "context-script-crlf",
    family: Family::Scripts,
    severity: Severity::Warning,
    materialized: Severity::Warning,
    summary: "A shell script in the build context has CRLF line ends.",
    explanation: "It will not start in a Linux image. It may still be content of the project as it is meant to be, so \
                  the task is not refused.",
    fix: "convert the file to LF line ends unless the project wants it so",
};

const SHEBANG_MISSING: Rule = Rule {
    name: "shebang-missing",
    family: Family::Scripts,
    severity: Severity::Note,
    materialized: Severity::Warning,
    summary: "A script that a trial starts by its name does not say which interpreter it is for.",
    explanation: "`tests/test.sh` and `solution/solve.sh` are made executable and started directly; without a first \
                  line such as `#!/bin/bash` it depends on the caller which shell runs them, if any.",
    fix: "begin the file with `#!/bin/bash` or `#!/bin/sh`",
};

const REWARD_NOT_WRITTEN: Rule = Rule {
    name: "reward-not-written",
    family: Family::Scripts,
    severity: Severity::Warning,
    materialized: Severity::Error,
    summary: "Nothing in `tests/` mentions a reward.",
    explanation: "The verifier has to leave `reward.txt` or `reward.json` in `/logs/verifier`; a run that leaves none \
                  is an error and never a reward of 0. The word `reward` or that path is looked for in every text \
                  below `tests/`; a verifier with an environment of its own, or a file that could not be read, may \
                  write it elsewhere.",
    fix: "write the reward at the end of the test script, on every path",
};

const REWARD_LOST: Rule = Rule {
    name: "reward-lost-on-failure",
    family: Family::Scripts,
    severity: Severity::Warning,
    materialized: Severity::Error,
    summary: "The test script ends at the failing test, before it writes a reward.",
    explanation: "Under `set -e` a script ends at the first command that fails: every failed trial has no reward instead \
                  of 0. Found where a plain command at the top level is followed by one that reads `$?`, or where one \
                  that runs tests or compares something stands before the first line that mentions a reward and no \
                  other file in `tests/` mentions one. Scripts with `trap`, `set +e` or functions are let off.",
    fix: "put the command into `if`, or write `command || status=$?`",
};

pub(super) fn check(facts: &Facts<'_>, report: &mut Report<'_>) {
    let view = facts.view;
    for root in view.roots() {
        for folder in [&b"tests"[..], b"solution"] {
            for (path, file) in view.files_below(&[root.as_slice(), folder].concat()) {
                line_ends(path, file, &SCRIPT_CRLF, report);
            }
        }
        let test = [root.as_slice(), b"tests/test.sh"].concat();
        for path in [test.clone(), [root.as_slice(), b"solution/solve.sh"].concat()] {
            if view.text(&path).is_some_and(|text| !text.trim_start_matches('\u{feff}').starts_with("#!")) {
                report.add(&SHEBANG_MISSING, Place::line(&path, 1), "the first line names no interpreter");
            }
        }
        if let Some(script) = facts.scripts.get(test.as_slice()) {
            reward(facts, &root, &test, script, report);
        }
    }
    for (path, file) in view.files_below(b"environment") {
        line_ends(path, file, &CONTEXT_SCRIPT_CRLF, report);
    }
}

fn line_ends(path: &[u8], file: &FileEntry, rule: &'static Rule, report: &mut Report<'_>) {
    let Some(content) = &file.content else { return };
    let shell = [&b"sh"[..], b"bash"];
    let named = file_name(path).rsplit(|&b| b == b'.').next().is_some_and(|end| shell.contains(&end));
    let first = &content[..memchr::memchr(b'\n', content).unwrap_or(content.len())];
    let shell_by_first_line = first.starts_with(b"#!") && first.windows(2).any(|part| part == b"sh");
    if !(named || shell_by_first_line) {
        return;
    }
    let lines = memchr::memchr_iter(b'\n', content).count();
    let crlf = memchr::memmem::find_iter(content, b"\r\n").count();
    if first.ends_with(b"\r") || crlf * 2 > lines {
        let at = content.split(|&b| b == b'\n').position(|line| line.ends_with(b"\r")).unwrap_or(0);
        report.add(
            rule,
            Place::line(path, at as u32 + 1),
            format!("{crlf} of its {lines} lines end in CRLF"),
        );
    }
}

fn reward(facts: &Facts<'_>, root: &[u8], test: &[u8], script: &Script<'_>, report: &mut Report<'_>) {
    // What was not kept may mention it.
    let says = |content: Option<&[u8]>| {
        content.is_none_or(|content| holds(content, "reward") || holds(content, "/logs/verifier"))
    };
    let mentions = |file: &FileEntry| match &file.archive {
        Some(archive) => archive
            .members
            .iter()
            .any(|member| member.kind == MemberKind::File && says(member.content.as_deref())),
        None => says(file.content.as_deref()),
    };
    let own = [root, b"tests"].concat();
    // Mostly the script itself does.
    let script_itself = facts.view.file(test);
    let beside = facts.view.files_below(&own).chain(facts.view.files_below(b"tests")).map(|(_, file)| file);
    let mut files = script_itself.into_iter().chain(beside);
    let separate = facts.view.task_config().is_some_and(|config| config.verifier.environment.is_some());
    if !separate && !files.any(mentions) {
        report.add(&REWARD_NOT_WRITTEN, Place::file(test), "no file beside it mentions a reward either");
    }
    let alone = || {
        let others = facts.view.files_below(&own).chain(facts.view.files_below(b"tests"));
        !others.filter(|(path, _)| *path != test).any(|(_, file)| mentions(file))
    };
    if let Some((line, command)) = lost_status(script) {
        let message =
            format!("{} ends the script when it fails, before its status is looked at", quoted(command));
        report.add(&REWARD_LOST, Place::line(test, line), message);
    } else if let Some(command) = lost_verdict(script).filter(|_| alone()) {
        let words: Vec<_> = command.words.iter().map(|word| &*word.text).collect();
        let message =
            format!("{} ends the script when it fails, before a reward is written", quoted(words.join(" ")));
        report.add(&REWARD_LOST, Place::line(test, command.line), message);
    }
}

/// The command that runs the tests and whose failure ends the script before its first mention of a reward.
fn lost_verdict<'s, 'a>(script: &'s Script<'a>) -> Option<&'s Command<'a>> {
    // What a function does depends on where it is called.
    let unclear =
        |command: &Command<'_>| ["trap", "function", "{"].iter().any(|word| command.begins_with(word));
    if script.commands.iter().any(unclear) {
        return None;
    }
    let mut strict = false;
    let mut tested = None;
    for (at, command) in script.commands.iter().enumerate() {
        strict = strictness(command).unwrap_or(strict);
        let mentions = |text: &str| text.contains("reward") || text.contains("/logs/verifier");
        let words = command.words.iter().map(|word| &*word.text);
        if words.chain(command.outputs.iter().map(|file| &**file)).any(mentions) {
            return tested;
        }
        let alone = script.commands.get(at + 1).is_none_or(|next| next.joint == Joint::Then);
        if strict && alone && tested.is_none() && ends_the_script(command) && judges(command) {
            tested = Some(command);
        }
    }
    None
}

/// Whether a command runs tests or compares something, so that it fails when the agent has failed.
fn judges(command: &Command<'_>) -> bool {
    let words = command.program();
    let has = |wanted: &[&str]| words.iter().skip(1).any(|word| wanted.contains(&&*word.text));
    match command.name() {
        "pytest" | "py.test" | "tox" | "nosetests" | "jest" | "mocha" | "vitest" | "ctest" | "bats"
        | "rspec" | "phpunit" | "diff" | "cmp" | "test" | "[" | "[[" => true,
        "go" | "cargo" | "npm" | "pnpm" | "yarn" | "make" | "mvn" | "gradle" | "dotnet" => {
            has(&["test", "check"])
        }
        "uvx" | "uv" => has(&["pytest"]),
        "grep" => has(&["-q", "-qE", "-qF", "-Fq", "-Eq", "-qx"]),
        name if name.starts_with("python") => has(&["pytest", "unittest"]),
        _ => false,
    }
}

/// Whether a command turns `set -e` on or off.
fn strictness(command: &Command<'_>) -> Option<bool> {
    if !command.begins_with("set") {
        return None;
    }
    let mut strict = None;
    for (at, word) in command.words.iter().enumerate().skip(1) {
        let text = &*word.text;
        let option = |sign: char| {
            let letters = text.strip_prefix(sign).unwrap_or_default();
            letters.chars().all(|c| c.is_ascii_alphabetic()) && letters.contains('e')
        };
        let named = |sign: char| text == "errexit" && command.words[at - 1].text.starts_with(sign);
        if option('-') || named('-') {
            strict = Some(true);
        } else if option('+') || named('+') {
            strict = Some(false);
        }
    }
    strict
}

/// The command whose failure ends the script before the next one reads its status.
fn lost_status(script: &Script<'_>) -> Option<(u32, String)> {
    let mut strict = false;
    let mut before: Option<&Command<'_>> = None;
    for command in &script.commands {
        let words = &command.words;
        strict = strictness(command).unwrap_or(strict);
        if command.begins_with("trap") {
            return None;
        }
        let asks = words.iter().any(|word| word.text.contains("$?")) && command.depth == 0;
        if let (true, true, Some(before)) = (strict, asks, before)
            && command.joint == Joint::Then
            && ends_the_script(before)
        {
            let text: Vec<_> = before.words.iter().map(|word| &*word.text).collect();
            return Some((before.line, text.join(" ")));
        }
        before = Some(command);
    }
    None
}

/// Whether `set -e` ends the script when this command fails: it stands by itself at the top level. The end of a pipe
/// is let off, because it decides only together with `pipefail`.
fn ends_the_script(command: &Command<'_>) -> bool {
    const OPENING: &[&str] = &["if", "elif", "then", "else", "while", "until", "do", "!", "set"];
    const CLOSING: &[&str] = &["fi", "done", "esac", "}"];
    let guarded = OPENING.iter().chain(CLOSING).any(|word| command.begins_with(word));
    command.depth == 0 && command.joint == Joint::Then && !guarded
}

#[cfg(test)]
mod tests {
    use super::super::testing::found_with;

    #[test]
    fn scripts_with_crlf_are_errors_and_data_is_not() {
        let crlf = "#!/bin/sh\r\necho 1 > /logs/verifier/reward.txt\r\n";
        let files = [
            ("tests/test.sh", crlf),
            ("solution/solve.sh", "#!/bin/bash\r\ntrue\r\n"),
            ("environment/run.sh", "#!/bin/sh\r\n"),
            ("environment/data.csv", "a,b\r\n1,2\r\n"),
            ("environment/tool.py", "#!/usr/bin/env python3\r\n"),
        ];
        assert_eq!(
            found_with(&files),
            [
                "context-script-crlf environment/run.sh:1",
                "script-crlf solution/solve.sh:1",
                "script-crlf tests/test.sh:1"
            ]
        );
        let mixed = "#!/bin/sh\ncat > x <<E\nGET /\r\nE\necho\n";
        assert_eq!(found_with(&[("solution/solve.sh", mixed)]), [""; 0]);
    }

    #[test]
    fn scripts_without_an_interpreter_are_noted() {
        assert_eq!(found_with(&[("solution/solve.sh", "true\n")]), ["shebang-missing solution/solve.sh:1"]);
    }

    #[test]
    fn a_verifier_without_a_reward_is_named() {
        assert_eq!(
            found_with(&[("tests/test.sh", "#!/bin/sh\npytest\n")]),
            ["reward-not-written tests/test.sh"]
        );
        let python = [
            ("tests/test.sh", "#!/bin/sh\npython3 /tests/t.py\n"),
            ("tests/t.py", "p = '/logs/verifier/x'\n"),
        ];
        assert_eq!(found_with(&python), [""; 0]);
    }

    #[test]
    fn a_status_that_is_never_seen_is_named() {
        let script = |body: &str| {
            format!("#!/bin/bash\nset -euo pipefail\n{body}\necho $r > /logs/verifier/reward.txt\n")
        };
        let lost = |body: &str| found_with(&[("tests/test.sh", &script(body))]);
        assert_eq!(
            lost("pytest /tests\nif [ $? -eq 0 ]; then r=1; fi"),
            ["reward-lost-on-failure tests/test.sh:3"]
        );
        assert_eq!(lost("pytest /tests\nr=$?"), ["reward-lost-on-failure tests/test.sh:3"]);
        for kept in [
            "pytest /tests || r=$?",
            "set +e\npytest /tests\nr=$?\nset -e",
            "if pytest /tests; then r=1; fi\necho $?",
            "trap 'echo 0 > /logs/verifier/reward.txt' EXIT\npytest\nr=$?",
            "pytest && r=1\necho $?",
        ] {
            assert_eq!(lost(kept), [""; 0], "{kept}");
        }
    }

    #[test]
    fn a_verdict_that_ends_the_script_is_named() {
        let lost = |body: &str| found_with(&[("tests/test.sh", &format!("#!/bin/bash\nset -e\n{body}\n"))]);
        let write = "echo 1 > /logs/verifier/reward.txt";
        for body in [
            format!("cd /app\npytest /tests\n{write}"),
            format!("cd /app\npython3 -m pytest -q /tests/test_a.py\nmkdir -p x\n{write}"),
            format!("cd /app\ngrep -q done /app/out\n{write}"),
            format!("cd /app\n[ -f /app/out ]\n{write}"),
            format!("cd /app\ncargo test\n{write}"),
        ] {
            assert_eq!(lost(&body), ["reward-lost-on-failure tests/test.sh:4"], "{body}");
        }
        for body in [
            format!("echo 0 > /logs/verifier/reward.txt\npytest /tests\n{write}"),
            format!("pytest /tests && {write}\nexit 0"),
            format!("pytest /tests || true\n{write}"),
            format!("if pytest /tests; then {write}; else echo 0 > /logs/verifier/reward.txt; fi"),
            format!("trap 'echo 0 > /logs/verifier/reward.txt' ERR\npytest /tests\n{write}"),
            format!("run() {{\n pytest /tests\n}}\nif run; then {write}; fi"),
            format!("set +e\npytest /tests\n{write}"),
            format!("mkdir -p /logs/verifier\npytest /tests --ctrf /logs/verifier/ctrf.json\n{write}"),
        ] {
            assert_eq!(lost(&body), [""; 0], "{body}");
        }
        let elsewhere = [
            ("tests/test.sh", "#!/bin/sh\nset -e\npytest /tests\necho 1 > /logs/verifier/reward.txt\n"),
            ("tests/conftest.py", "open('/logs/verifier/reward.txt', 'w').write('0')\n"),
        ];
        assert_eq!(found_with(&elsewhere), [""; 0]);
    }
}
