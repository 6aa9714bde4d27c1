//! Names of tasks: as directories, as packages, as parts of other names.

use ident::TaskId;
use record::Severity;
use task::config::is_step_name;

use crate::facts::Facts;
use crate::report::{Place, Report, quoted};
use crate::rule::{Family, Rule};

pub(super) const RULES: &[&Rule] = &[&TASK_ID_REFUSED, &NAME_DIFFERS];

const TASK_ID_REFUSED: Rule = Rule {
    name: "task-id-refused",
    family: Family::Names,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "The name of the task cannot be a path component or a part of other names.",
    explanation: "The directory's name is the id of the task, and paths, containers and images are named after it. \
                  Refused are empty names, dots alone, slashes, control and invisible characters, white space at an \
                  end, a leading dash, the device names of Windows, and the characters that a shell acts on.",
    fix: "rename the directory: letters, digits, `.`, `_` and `-`",
};

const NAME_DIFFERS: Rule = Rule {
    name: "name-differs-from-directory",
    family: Family::Names,
    severity: Severity::Warning,
    materialized: Severity::Error,
    summary: "The package name in `task.toml` is not the name of the directory.",
    explanation: "The id of a task is the name of its directory, everywhere. Harbor shows `[task].name` instead where \
                  there is one, so results of the two are easily taken for different tasks. The part behind the \
                  slash is compared.",
    fix: "rename the directory or change `[task].name`",
};

/// Characters that a shell acts on.
const SHELL_CHARACTERS: &[char] = &['$', '`', ';', '&', '(', ')', '{', '}', '\'', '!', '#', '~', '\n'];

pub(super) fn check(facts: &Facts<'_>, report: &mut Report<'_>) {
    let view = facts.view;
    if let Some(why) = refusal(&view.name) {
        report.add(&TASK_ID_REFUSED, Place::file(""), why);
    }
    let Some(package) = view.task_config().and_then(|config| config.package.as_ref()) else { return };
    if let Some((_, name)) = package.name.split_once('/')
        && name.as_bytes() != view.name
    {
        let line = view.text(b"task.toml").and_then(|text| line_of_name(&text));
        let place = line.map_or(Place::file("task.toml"), |line| Place::line("task.toml", line));
        let message = format!(
            "the package is called {} and the directory {}, which is the id",
            quoted(&package.name),
            quoted(&view.name)
        );
        report.add(&NAME_DIFFERS, place, message);
    }
}

/// The line of `name` in the table `[task]`.
fn line_of_name(text: &str) -> Option<u32> {
    let mut inside = false;
    for (number, line) in crate::lines::numbered(text) {
        let line = line.trim();
        if line.starts_with('[') {
            inside = line.trim_end_matches(|c: char| c != ']') == "[task]";
        } else if inside && line.strip_prefix("name").is_some_and(|rest| rest.trim_start().starts_with('=')) {
            return Some(number);
        }
    }
    None
}

/// Why a name is refused as a task id.
fn refusal(name: &[u8]) -> Option<String> {
    let Ok(text) = std::str::from_utf8(name) else {
        return Some(format!("the name {} is not UTF-8", quoted(name)));
    };
    if let Err(error) = TaskId::new(text) {
        return Some(error.to_string());
    }
    if !is_step_name(text) {
        return Some(format!("the name {} is no portable file name", quoted(name)));
    }
    let odd = text.chars().find(|c| SHELL_CHARACTERS.contains(c))?;
    Some(format!("the name {} holds `{odd}`, which a shell acts on", quoted(name)))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, found_with, places, task_with};
    use super::*;

    #[test]
    fn another_package_name_is_named_with_its_line() {
        let text = "[metadata]\nname = \"x\"\n[task] # package\nname = \"demo/other\"\n";
        assert_eq!(found_with(&[("task.toml", text)]), ["name-differs-from-directory task.toml:4"]);
        assert_eq!(found_with(&[("task.toml", "[metadata]\nname = \"x\"\n")]), [""; 0]);
    }

    #[test]
    fn hostile_names_are_refused() {
        let ids = [
            "../../escape",
            "a/b",
            "a\0b",
            "line\nbreak",
            "-rf",
            "",
            ".",
            "..",
            " lead",
            "trail ",
            "con",
            "NUL.txt",
            "a:b",
            "$(id)",
            "`id`",
            "a;b",
            "a'b",
            "dot.",
        ];
        for id in ids {
            assert!(refusal(id.as_bytes()).is_some(), "{id:?}");
        }
        for id in [
            "oauthlib__oauthlib.1fd52536.combine_file__09vlzwgc",
            "Example-Org__TinyCalc.AB12",
            "café",
            "a b",
        ] {
            assert_eq!(refusal(id.as_bytes()), None);
        }
        let view = task_with(&[("task.toml", "")]).named("a;b");
        assert_eq!(places(&findings(&view)), ["task-id-refused "]);
    }
}
