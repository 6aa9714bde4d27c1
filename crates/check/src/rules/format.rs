//! Parts of the directory, the syntax of `task.toml`, names of files.

use std::borrow::Cow;
use std::collections::BTreeMap;

use record::Severity;
use task::config::{ConfigError, ConfigProblem, ProblemKind, is_step_name};
use task::{is_extraneous, is_litter, printable};
use unicode_normalization::UnicodeNormalization;

use crate::facts::Facts;
use crate::history::nested_repositories;
use crate::lines::file_name;
use crate::report::{Place, Report};
use crate::rule::{Family, Rule};
use crate::view::{ConfigState, Entry};

/// The files that every task writes by hand, but its configuration.
const WRITTEN: [&str; 7] = [
    "instruction.md",
    "environment/Dockerfile",
    "environment/.dockerignore",
    "environment/docker-compose.yaml",
    "environment/docker-compose.yml",
    "solution/solve.sh",
    "tests/test.sh",
];

pub(super) const RULES: &[&Rule] = &[
    &PART_MISSING,
    &SOLUTION_MISSING,
    &CONFIG_SYNTAX,
    &CONFIG_UNREADABLE,
    &CONFIG_INVALID,
    &CONFIG_KEY_UNKNOWN,
    &CONFIG_KEY_MISSPELT,
    &CONFIG_KEY_MISPLACED,
    &CONFIG_VALUE_DROPPED,
    &TREE_TOO_LARGE,
    &FILE_TOO_LARGE,
    &FILE_NAME_NOT_UTF8,
    &FILE_NAME_UNPORTABLE,
    &FILE_NAMES_COLLIDE,
    &EXTRANEOUS_FILE,
    &NESTED_REPOSITORY,
];

const PART_MISSING: Rule = Rule {
    name: "part-missing",
    family: Family::Format,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "A part without which no trial can run is not there.",
    explanation: "A task needs `task.toml`, an image or an `environment/`, an instruction and a test script; a task of \
                  steps needs a directory and an instruction for each. A test script that `.harborignore` leaves out \
                  is never uploaded and counts as missing. All missing parts are listed at once.",
    fix: "add the file",
};

const SOLUTION_MISSING: Rule = Rule {
    name: "solution-missing",
    family: Family::Format,
    severity: Severity::Warning,
    materialized: Severity::Error,
    summary: "There is no solution script for the oracle.",
    explanation: "Without a reference solution nobody can show that the task can be solved, so it can never be proved. \
                  Harbor itself runs such a task.",
    fix: "add a script that solves the task",
};

const CONFIG_SYNTAX: Rule = Rule {
    name: "config-syntax",
    family: Family::Format,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "The file `task.toml` is no TOML.",
    explanation: "No limit and no image can be read from it. Templates with placeholders are the usual cause. A byte \
                  order mark is no error: the file reads the same with and without one, in every stage.",
    fix: "correct the syntax at the place named",
};

const CONFIG_UNREADABLE: Rule = Rule {
    name: "config-unreadable",
    family: Family::Format,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "The file `task.toml` is there and cannot be taken.",
    explanation: "It is larger than any configuration, or a link to something that cannot be read. Nothing can be said \
                  about limits and images of such a task.",
    fix: "put a regular file of ordinary size in its place",
};

const CONFIG_INVALID: Rule = Rule {
    name: "config-invalid",
    family: Family::Format,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "A value in `task.toml` is one that Harbor refuses.",
    explanation: "Harbor validates the file before anything else and runs no trial with a wrong type, an unknown word \
                  where a few are allowed, or a package name that is not of the form `org/name`.",
    fix: "correct the value",
};

const CONFIG_KEY_UNKNOWN: Rule = Rule {
    name: "config-key-unknown",
    family: Family::Format,
    severity: Severity::Warning,
    materialized: Severity::Error,
    summary: "A key or table in `task.toml` is unknown and has no effect.",
    explanation: "Harbor drops unknown keys in silence. Foreign tasks keep notes of their own there, so this is a \
                  warning for them; free content belongs into `[metadata]`.",
    fix: "remove the key or move it into `[metadata]`",
};

const CONFIG_KEY_MISSPELT: Rule = Rule {
    name: "config-key-misspelt",
    family: Family::Format,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "A key or table in `task.toml` is unknown and nearly one that is known and absent.",
    explanation: "Harbor would run with a default where the author set something else: another time limit, no memory \
                  limit, a verifier that was never configured. The known key must be at most two letters \
                  away, absent from the same table, and able to hold such a value; otherwise the key is only unknown.",
    fix: "write the key that was meant",
};

const CONFIG_KEY_MISPLACED: Rule = Rule {
    name: "config-key-misplaced",
    family: Family::Format,
    severity: Severity::Warning,
    materialized: Severity::Error,
    summary: "A key or table in `task.toml` has an effect in another table, and none where it stands.",
    explanation: "Harbor drops it in silence: `timeout_sec` outside `[agent]` and `[verifier]` limits nothing,                   `artifacts` below `[verifier]` collects nothing. Reported for names that mean one thing only, where                   the value fits and the right table does not have the key already.",
    fix: "move the key to the table named",
};

const CONFIG_VALUE_DROPPED: Rule = Rule {
    name: "config-value-dropped",
    family: Family::Format,
    severity: Severity::Warning,
    materialized: Severity::Error,
    summary: "Harbor knows a key of `task.toml` and drops this value of it.",
    explanation: "The older keys `memory` and `storage` take a text such as `2G`; a number there is dropped without a \
                  word and no limit holds.",
    fix: "write the present key with a number of MiB",
};

const TREE_TOO_LARGE: Rule = Rule {
    name: "tree-too-large",
    family: Family::Format,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "The directory holds more, or nests deeper, than any task does.",
    explanation: "What lies behind the bound was not looked at, so nothing can be said for the task. The bounds are \
                  200,000 entries and 100 levels.",
    fix: "pack the content into an archive or leave it out",
};

const FILE_TOO_LARGE: Rule = Rule {
    name: "file-too-large",
    family: Family::Format,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "A file that decides what the task is was too large to be read.",
    explanation: "Files of more than 1 MiB, and all files behind the first 64 MiB of a task, are hashed and not read: \
                  most are data. The instruction, the Dockerfile, what it leaves out, compose files and the scripts of \
                  the solution and the tests are nothing but text that somebody wrote. Where one of these was not \
                  read, no rule saw what is in it, so nothing can be said for the task.",
    fix: "move data out of the file; keep what is written by hand below 1 MiB",
};

const FILE_NAME_NOT_UTF8: Rule = Rule {
    name: "file-name-not-utf8",
    family: Family::Format,
    severity: Severity::Warning,
    materialized: Severity::Error,
    summary: "A name in the directory is not UTF-8.",
    explanation: "Digests of this program are defined on bytes and cover such a name; other tools write paths as text \
                  and may fail on it or change it. The name is shown with its odd bytes escaped.",
    fix: "rename the file",
};

const FILE_NAME_UNPORTABLE: Rule = Rule {
    name: "file-name-unportable",
    family: Family::Format,
    severity: Severity::Note,
    materialized: Severity::Warning,
    summary: "A name in the directory is one that some systems cannot hold.",
    explanation: "A copy made there lacks the file or has another name for it, and with it another digest. Named are                   `< > : \" \\ | ? *` and control characters, dots and blanks at the end, the device names of Windows,                   and names of more than 255 bytes.",
    fix: "rename the file",
};

const FILE_NAMES_COLLIDE: Rule = Rule {
    name: "file-names-collide",
    family: Family::Format,
    severity: Severity::Warning,
    materialized: Severity::Error,
    summary: "Two names in one directory differ only in case or in the way characters are composed.",
    explanation: "On file systems that fold case or normalise names one of the files overwrites the other, and the digest                   of such a copy is another one. Names are compared after Unicode normalisation (NFC) in lower case.",
    fix: "rename one of the two",
};

const EXTRANEOUS_FILE: Rule = Rule {
    name: "extraneous-file",
    family: Family::Format,
    severity: Severity::Note,
    materialized: Severity::Warning,
    summary: "A file is left over from an editor, a desktop or an interpreter.",
    explanation: "`.DS_Store`, `Thumbs.db`, editor backups, byte code. Litter of desktops and editors never counts in \
                  the tree digest, so it neither changes nor protects a verdict; byte code counts, because programs \
                  read it.",
    fix: "remove it",
};

const NESTED_REPOSITORY: Rule = Rule {
    name: "nested-repository",
    family: Family::Format,
    severity: Severity::Warning,
    materialized: Severity::Error,
    summary: "There is a `.git` directory inside the task.",
    explanation: "A repository in the build context shows the agent everything it remembers, and version control drops \
                  it when the task itself is committed. What it remembers is looked at by `history-leak`.",
    fix: "remove it; make the repository in the Dockerfile from files without history",
};

pub(super) fn check(facts: &Facts<'_>, report: &mut Report<'_>) {
    let view = facts.view;
    for part in &view.missing {
        let rule = if part.required { &PART_MISSING } else { &SOLUTION_MISSING };
        report.add(rule, Place::file(&part.path), format!("{} is missing: {}", part.path, part.purpose));
    }
    match &view.config {
        // A missing file is among the missing parts.
        ConfigState::Missing => {}
        ConfigState::Unreadable(why) => report.add(&CONFIG_UNREADABLE, Place::file("task.toml"), why.clone()),
        ConfigState::Broken(error) => {
            let place = match error {
                ConfigError::Syntax { line, .. } => Place::line("task.toml", *line),
                ConfigError::NotUtf8 { .. } => Place::file("task.toml"),
            };
            report.add(&CONFIG_SYNTAX, place, error.to_string());
        }
        ConfigState::Read(reading) => {
            let text = view.text(b"task.toml").filter(|_| !reading.problems.is_empty());
            let written =
                text.and_then(|text| toml::from_str::<toml::Table>(text.trim_start_matches('\u{feff}')).ok());
            for problem in &reading.problems {
                config_problem(problem, written.as_ref(), report);
            }
        }
    }
    for why in &view.cut {
        report.add(&TREE_TOO_LARGE, Place::file(""), why.clone());
    }
    for (path, file) in view.files().filter(|(path, file)| file.content.is_none() && is_written(path)) {
        let path = printable(path);
        let message = format!("{path} has {} bytes and was not read", file.size);
        report.add(&FILE_TOO_LARGE, Place::file(&path), message);
    }
    names_of_files(facts, report);
}

/// Whether a file of this path is one that every task writes by hand, of the task or of one of its steps.
fn is_written(path: &[u8]) -> bool {
    let inside = path.strip_prefix(b"steps/").and_then(|rest| {
        let end = rest.iter().position(|byte| *byte == b'/')?;
        Some(&rest[end + 1..])
    });
    WRITTEN.iter().any(|written| written.as_bytes() == inside.unwrap_or(path))
}

fn config_problem(problem: &ConfigProblem, written: Option<&toml::Table>, report: &mut Report<'_>) {
    let place = Place::line("task.toml", problem.line);
    let message = format!("`{}` {}", problem.key, problem.message);
    match (problem.kind, &problem.near) {
        // A family of its own.
        (ProblemKind::Limit, _) => {}
        (ProblemKind::Invalid, _) => report.add(&CONFIG_INVALID, place, message),
        (ProblemKind::Dropped, _) => report.add(&CONFIG_VALUE_DROPPED, place, message),
        (ProblemKind::UnknownKey, Some(near))
            if written.is_some_and(|table| is_misspelt(table, &problem.key, near)) =>
        {
            report.add_with_fix(
                &CONFIG_KEY_MISSPELT,
                place,
                message,
                format!("write `{near}` if that is meant"),
            );
        }
        (ProblemKind::UnknownKey, _) => match written.and_then(|table| home_of(table, &problem.key)) {
            Some(home) => {
                let fix = format!("move it to {home}");
                report.add_with_fix(&CONFIG_KEY_MISPLACED, place, message, fix);
            }
            None => report.add(&CONFIG_KEY_UNKNOWN, place, message),
        },
    }
}

/// Where a key that is unknown in its table has an effect, for people; nothing when it says something else there, or
/// the right place has the key already.
fn home_of(table: &toml::Table, path: &str) -> Option<String> {
    const ENVIRONMENT: &[&str] = &["environment"];
    const ROOT: &[&str] = &[""];
    let (above, key) = path.rsplit_once('.').unwrap_or(("", path));
    let homes = match key {
        "timeout_sec" => &["agent", "verifier"][..],
        "environment_mode" | "collect" => &["verifier"],
        "build_timeout_sec" | "docker_image" | "cpus" | "memory_mb" | "storage_mb" | "gpus" | "gpu_types"
        | "mcp_servers" | "skills_dir" | "healthcheck" | "network_mode" | "allowed_hosts"
        | "allow_internet" => ENVIRONMENT,
        "artifacts" | "multi_step_reward_strategy" | "agent" | "verifier" | "environment" => ROOT,
        _ => return None,
    };
    // A step has an agent and a verifier of its own.
    let step = above.starts_with("steps[").then(|| above.split('.').next().unwrap_or_default());
    let full = |home: &str| match (step, home) {
        (Some(step), "agent" | "verifier") => format!("{step}.{home}"),
        (_, home) => home.to_owned(),
    };
    let value = table_at(table, above)?.get(key)?;
    let free = |home: &&&str| {
        let there = table_at(table, &full(home));
        full(home) != above && there.is_none_or(|there| !there.contains_key(key))
    };
    let names: Vec<String> = homes
        .iter()
        .filter(free)
        .map(|home| {
            if home.is_empty() {
                "the top, above all tables".to_owned()
            } else {
                format!("`[{}]`", full(home))
            }
        })
        .collect();
    (fits(key, value) && !names.is_empty()).then(|| names.join(" or "))
}

/// The table at a path such as `steps[0].agent`; the whole one for an empty path.
fn table_at<'a>(table: &'a toml::Table, path: &str) -> Option<&'a toml::Table> {
    let mut at = table;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let (name, index) = match part.split_once('[') {
            Some((name, index)) => (name, index.trim_end_matches(']').parse::<usize>().ok()),
            None => (part, None),
        };
        let next = match (at.get(name), index) {
            (Some(toml::Value::Array(items)), Some(index)) => items.get(index),
            (next, _) => next,
        };
        // A key with a dot of its own leads nowhere: nothing is known of its neighbours.
        at = next?.as_table()?;
    }
    Some(at)
}

/// Whether the key at `path` is the known key `near` with a slip of the pen: at most two letters apart, with a value of
/// the right kind, and `near` absent from the same table.
fn is_misspelt(table: &toml::Table, path: &str, near: &str) -> bool {
    let (above, key) = path.rsplit_once('.').unwrap_or(("", path));
    let Some(at) = table_at(table, above) else { return false };
    let fits = at.get(key).is_some_and(|value| fits(near, value));
    fits && !at.contains_key(near) && strsim::osa_distance(key, near) <= 2
}

/// Whether a value is of a kind that the known key `near` could have.
fn fits(near: &str, value: &toml::Value) -> bool {
    const TABLES: &[&str] =
        &["task", "agent", "verifier", "environment", "solution", "metadata", "healthcheck", "tpu"];
    const LISTS: &[&str] = &[
        "steps",
        "artifacts",
        "authors",
        "keywords",
        "mcp_servers",
        "collect",
        "gpu_types",
        "allowed_hosts",
    ];
    match near {
        _ if TABLES.contains(&near) => value.is_table(),
        _ if LISTS.contains(&near) => value.is_array(),
        "env" | "min_reward" => true,
        _ => !value.is_table() && !value.is_array(),
    }
}

fn names_of_files(facts: &Facts<'_>, report: &mut Report<'_>) {
    let inside_git = |path: &[u8]| path.split(|&b| b == b'/').any(|part| part == b".git");
    let mut folded: BTreeMap<(&[u8], Cow<'_, str>), &[u8]> = BTreeMap::new();
    for (path, entry) in &facts.view.entries {
        let name = file_name(path);
        let shown = || printable(name);
        match std::str::from_utf8(name) {
            Err(_) => {
                report.add(
                    &FILE_NAME_NOT_UTF8,
                    Place::file(path),
                    format!("the name `{}` is not UTF-8", shown()),
                );
            }
            Ok(text) => {
                if !is_step_name(text) {
                    let message = format!("some systems cannot hold the name `{}`", shown());
                    report.add(&FILE_NAME_UNPORTABLE, Place::file(path), message);
                }
                let folder = &path[..path.len() - name.len()];
                let alike: Cow<'_, str> = if text.bytes().all(|b| b.is_ascii() && !b.is_ascii_uppercase()) {
                    text.into()
                } else {
                    text.nfc().flat_map(char::to_lowercase).collect()
                };
                if let Some(other) = folded.insert((folder, alike), name) {
                    let message = format!("the name is like `{}` beside it", printable(other));
                    report.add(&FILE_NAMES_COLLIDE, Place::file(path), message);
                }
            }
        }
        if inside_git(path) || !is_extraneous(name) {
            continue;
        }
        let what = match entry {
            Entry::Directory => "a folder of byte code",
            _ if is_litter(name) => "litter of a desktop or an editor",
            // The folder has been reported already.
            _ if path.split(|&b| b == b'/').any(|part| part == b"__pycache__") => continue,
            _ => "byte code",
        };
        report.add(&EXTRANEOUS_FILE, Place::file(path), format!("it is {what}"));
    }
    for path in nested_repositories(facts) {
        report.add(&NESTED_REPOSITORY, Place::file(path), "it is a git repository inside the task");
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::super::testing::{
        changed_task, findings, found_with, own_findings, places, task_with, view_of,
    };
    use super::WRITTEN;

    #[test]
    fn missing_parts_are_listed_at_once() {
        let view = task_with(&[("instruction.md", "-"), ("tests/test.sh", "-"), ("solution/solve.sh", "-")]);
        let expected = [
            "part-missing instruction.md",
            "solution-missing solution/solve.sh",
            "part-missing tests/test.sh",
        ];
        assert_eq!(places(&findings(&view)), expected);
        assert_eq!(places(&findings(&view_of("x", &[])))[4..], ["part-missing tests/test.sh".to_owned()]);
    }

    #[test]
    fn the_line_of_a_syntax_error_is_named() {
        assert_eq!(
            found_with(&[("task.toml", "[agent]\ntimeout_sec = {{ n }}\n")]),
            ["config-syntax task.toml:2"]
        );
        let marked = "\u{feff}[task]\nname = \"demo/add\"\n";
        assert_eq!(found_with(&[("task.toml", marked)]), [""; 0]);
    }

    #[test]
    fn misspelt_keys_are_told_from_unknown_ones() {
        let text = "colour = 1\ntags = []\n[verifer]\ntimeout_sec = 1\n[environment]\ncpu = 1\nmemory_mbs = 1\nmemory_mb = 1\n\
                    [[steps]]\nname = \"a\"\n[steps.agent]\ntimeout_secs = 3\n";
        let step = [
            ("steps/a/instruction.md", "x"),
            ("steps/a/solution/solve.sh", "#!/bin/sh\n"),
            ("task.toml", text),
        ];
        assert_eq!(
            found_with(&step),
            [
                "config-key-unknown task.toml:1",
                "config-key-unknown task.toml:2",
                "config-key-misspelt task.toml:3",
                "config-key-misspelt task.toml:6",
                "config-key-unknown task.toml:7",
                "config-key-misspelt task.toml:12",
            ]
        );
        let fix = findings(&task_with(&step)).remove(2).fix;
        assert_eq!(fix, "write `verifier` if that is meant");
    }

    #[test]
    fn keys_in_the_wrong_table_are_told_where_they_belong() {
        let text = "docker_image = \"a/b:1\"\ndifficulty = \"easy\"\n[task]\nname = \"demo/add\"\ntimeout_sec = 5\n\
                    [verifier]\nartifacts = [\"/x\"]\ntimeout_sec = 5\n[agent]\ncpus = \"many\"\n[agent.environment]\n\
                    [environment]\nmemory_mb = 1\n[solution]\nmemory_mb = 2\n";
        let view = task_with(&[("task.toml", text)]);
        let found = findings(&view);
        let unknown: Vec<_> = found.iter().filter(|found| found.rule.starts_with("config-key")).collect();
        let brief = |found: &&record::Finding| format!("{:?} {} {}", found.line, found.rule, found.fix);
        assert_eq!(
            unknown.iter().map(brief).collect::<Vec<_>>(),
            [
                "Some(1) config-key-misplaced move it to `[environment]`",
                "Some(2) config-key-unknown remove the key or move it into `[metadata]`",
                "Some(5) config-key-misplaced move it to `[agent]`",
                "Some(7) config-key-misplaced move it to the top, above all tables",
                // Texts are numbers where Harbor reads them.
                "Some(10) config-key-misplaced move it to `[environment]`",
                // There is an environment already, and it has a memory limit.
                "Some(11) config-key-unknown remove the key or move it into `[metadata]`",
                "Some(15) config-key-unknown remove the key or move it into `[metadata]`",
            ]
        );
        let steps = "[[steps]]\nname = \"a\"\ntimeout_sec = 3\n[steps.agent]\ntimeout_sec = 3\n";
        let step = [
            ("steps/a/instruction.md", "x"),
            ("steps/a/solution/solve.sh", "#!/bin/sh\n"),
            ("task.toml", steps),
        ];
        assert_eq!(findings(&task_with(&step))[0].fix, "move it to `[steps[0].verifier]`");
    }

    #[test]
    fn values_are_refused_or_dropped() {
        let text = "[environment]\nmemory = 3\nos = \"plan9\"\n";
        assert_eq!(
            found_with(&[("task.toml", text)]),
            ["config-value-dropped task.toml:2", "config-invalid task.toml:3"]
        );
        let view =
            changed_task(|root| std::fs::write(root.join("task.toml"), "#\n".repeat(3 << 20)).unwrap());
        assert_eq!(places(&findings(&view)), ["config-unreadable task.toml"]);
    }

    #[test]
    fn what_was_not_read_is_not_taken_for_right() {
        let padded = |path: &str, text: &str| {
            let padded = format!("{}{text}", "# pad\n".repeat(200_000));
            places(&findings(&changed_task(|root| {
                let path = root.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, padded).unwrap();
            })))
        };
        for path in WRITTEN {
            assert!(
                padded(path, "COPY solution/ /s\n").contains(&format!("file-too-large {path}")),
                "{path}"
            );
        }
        assert!(
            padded("steps/a/instruction.md", "").contains(&"file-too-large steps/a/instruction.md".into())
        );
        let other = "file-too-large environment/data.sh".to_owned();
        assert!(!padded("environment/data.sh", "").contains(&other), "data may be large");
    }

    #[test]
    fn names_that_do_not_travel_are_named() {
        let files = [
            ("environment/Data.txt", "x"),
            ("environment/data.txt", "x"),
            ("environment/sub/data.txt", "x"),
            ("environment/caf\u{e9}", "x"),
            ("environment/cafe\u{301}", "x"),
            ("environment/a:b", "x"),
            ("environment/nul.txt", "x"),
        ];
        assert_eq!(
            found_with(&files),
            [
                "file-name-unportable environment/a:b",
                "file-names-collide environment/caf\u{e9}",
                "file-names-collide environment/data.txt",
                "file-name-unportable environment/nul.txt",
            ]
        );
    }

    #[test]
    fn litter_repositories_and_odd_names_are_named() {
        let files = [
            (".DS_Store", "x"),
            ("environment/sum.sh~", "x"),
            ("environment/.git/HEAD", "ref: refs/heads/main\n"),
            ("tests/__pycache__/x.cpython-311.pyc", "x"),
        ];
        assert_eq!(
            found_with(&files),
            [
                "extraneous-file .DS_Store",
                "nested-repository environment/.git",
                "extraneous-file environment/sum.sh~",
                "extraneous-file tests/__pycache__",
            ]
        );
        let view = changed_task(|root| {
            std::fs::write(root.join("environment").join(OsStr::from_bytes(b"foo\xff")), "x").unwrap();
        });
        assert_eq!(places(&findings(&view)), ["file-name-not-utf8 environment/foo\\xff"]);
        assert!(!crate::accepted(&own_findings(&view)));
    }

    #[test]
    fn too_deep_a_tree_is_an_error() {
        let view = changed_task(|root| {
            let deep = root.join("environment").join("d/".repeat(120));
            std::fs::create_dir_all(deep).unwrap();
        });
        assert!(places(&findings(&view)).contains(&"tree-too-large ".to_owned()));
    }
}
