//! The prompt: there at all, and without the answer.

use std::cell::LazyCell;

use record::Severity;
use task::printable;

use crate::facts::Facts;
use crate::gold::GoldLine;
use crate::lines::{is_canary, numbered, squeezed, text};
use crate::report::{Place, Report, quoted};
use crate::rule::{Family, Rule};
use crate::view::TaskView;

/// A gold line has to have this many characters that are not white space.
const MIN_CHARACTERS: usize = 12;

pub(super) const RULES: &[&Rule] = &[&INSTRUCTION_EMPTY, &SOLUTION_IN_INSTRUCTION];

const INSTRUCTION_EMPTY: Rule = Rule {
    name: "instruction-empty",
    family: Family::Instruction,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "The instruction says nothing.",
    explanation: "Public sets hold thousands of rows whose problem statement is empty; an agent that is told nothing \
                  cannot be blamed for doing nothing. Canary lines at the head do not count, because Harbor drops \
                  them.",
    fix: "write what is to be done, or leave the task out",
};

const SOLUTION_IN_INSTRUCTION: Rule = Rule {
    name: "solution-in-instruction",
    family: Family::Instruction,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "The instruction quotes a line of the solution word for word.",
    explanation: "Compared are lines that the gold patch adds, and lines that here-documents, `printf` and `echo` of \
                  the solution write into programs, with white space normalised. A line counts if it is telling: \
                  at least 12 characters, an operator or a call, two words; and not an import, a signature, a \
                  comment, a path, an address, a table key, or a line that the build context shows as well. Gold \
                  lines in other words, and solutions that are programs of their own, are not recognised.",
    fix: "take the line out of the instruction",
};

pub(super) fn check(facts: &Facts<'_>, report: &mut Report<'_>) {
    let telling: Vec<&GoldLine> = facts.gold.lines.iter().filter(|line| is_telling(&line.text)).collect();
    for root in facts.view.roots() {
        let path = [root.as_slice(), b"instruction.md"].concat();
        let Some(text) = facts.view.text(&path) else { continue };
        if says_nothing(&text) {
            report.add(&INSTRUCTION_EMPTY, Place::file(&path), "it holds no text");
            continue;
        }
        // One line of the prompt may hold the gold line whole; a gold line has no line end.
        let lines: LazyCell<Vec<(u32, String)>, _> =
            LazyCell::new(|| numbered(&text).map(|(number, line)| (number, squeezed(line))).collect());
        let has_words = |gold: &&&GoldLine| gold.text.split(' ').all(|word| text.contains(word));
        for gold in telling.iter().filter(has_words) {
            let quoting = lines.iter().find(|(_, line)| quotes(line, &gold.text));
            if let Some((number, _)) = quoting.filter(|_| !is_visible(facts.view, &gold.text)) {
                let from = match gold.line {
                    0 => printable(&gold.file),
                    line => format!("{}, line {line}", printable(&gold.file)),
                };
                let message = format!("it quotes {} of {from}", quoted(&gold.text));
                report.add(&SOLUTION_IN_INSTRUCTION, Place::line(&path, *number), message);
            }
        }
    }
}

/// Whether a prompt has no text behind its canary lines.
fn says_nothing(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').lines().map(str::trim).all(|line| line.is_empty() || is_canary(line))
}

/// Whether `line` holds `gold` between the bounds of words.
fn quotes(line: &str, gold: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(gold).any(|(at, found)| {
        let before = line[..at].chars().next_back();
        let after = line[at + found.len()..].chars().next();
        let joined = |outside: Option<char>, inside: Option<char>| {
            outside.is_some_and(is_word) && inside.is_some_and(is_word)
        };
        !joined(before, gold.chars().next()) && !joined(after, gold.chars().next_back())
    })
}

/// Whether a line gives the solution away when it is quoted.
fn is_telling(line: &str) -> bool {
    const OPENINGS: &[&str] = &[
        "import ",
        "from ",
        "#include",
        "using ",
        "use ",
        "package ",
        "require",
        "def ",
        "async def ",
        "class ",
        "func ",
        "function ",
        "fn ",
        "pub ",
        "public ",
        "private ",
        "struct ",
        "interface ",
        "type ",
        "@",
        "#",
        "//",
        "/*",
        "*",
        "--",
        "<!--",
        "```",
        "|",
        ">",
        "\"\"\"",
        "$ ",
    ];
    let characters = line.chars().filter(|c| !c.is_whitespace()).count();
    if characters < MIN_CHARACTERS || OPENINGS.iter().any(|opening| line.starts_with(opening)) {
        return false;
    }
    let words =
        line.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty()).count();
    let operator = line.contains(['=', '+', '*', '%', '(', '[', '{', '&', '<', '>'])
        || line.contains(" - ")
        || line.contains(" | ")
        || line.starts_with("return ");
    let address = line.contains("://") && !line.contains(' ');
    words >= 2 && operator && !address && !is_table_entry(line) && !is_prose(line)
}

/// Whether a line is data: nothing but numbers and quoted texts, or a key, a colon and a plain value.
fn is_table_entry(line: &str) -> bool {
    let line = line.trim_matches(|c| matches!(c, '{' | '}' | ',' | '[' | ']' | ' ' | '-'));
    let Some((key, value)) = line.split_once(':') else {
        let unquoted = line.split(['"', '\'']).step_by(2);
        return !unquoted.flat_map(str::chars).any(char::is_alphabetic);
    };
    let key = key.trim_matches(|c| matches!(c, '"' | '\''));
    let plain = !value.contains(['(', '=', '*', '+', '%', '<', '>']);
    plain
        && !key.is_empty()
        && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | ' ' | '.' | '/'))
        && !["if ", "elif ", "while ", "for ", "case ", "with ", "lambda "]
            .iter()
            .any(|word| key.starts_with(word))
}

/// Whether a line reads like a sentence: many words of letters alone, and no operator.
fn is_prose(line: &str) -> bool {
    let is_plain = |word: &str| {
        let word =
            word.trim_matches(|c: char| matches!(c, ',' | '.' | ';' | ':' | '(' | ')' | '"' | '\'' | '`'));
        !word.is_empty() && word.chars().all(|c| c.is_alphabetic() || c == '-')
    };
    let words: Vec<bool> = line.split_whitespace().map(is_plain).collect();
    let operator = line.contains(['=', '<', '>', '*', '+', '%']);
    !operator && words.len() >= 5 && words.iter().filter(|plain| **plain).count() * 4 >= words.len() * 3
}

/// Whether a text of the build context holds the line as well, so that the agent sees it anyway.
fn is_visible(view: &TaskView, gold: &str) -> bool {
    let shows = |content: &[u8]| {
        text(content).lines().any(|line| line.contains(first_word(gold)) && squeezed(line).contains(gold))
    };
    view.files_below(b"environment").any(|(_, file)| {
        file.content.as_deref().is_some_and(|content| file.archive.is_none() && shows(content))
            || file
                .archive
                .iter()
                .flat_map(|archive| &archive.members)
                .any(|member| member.content.as_deref().is_some_and(shows))
    })
}

fn first_word(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, found_with, task_with};
    use super::*;

    const SOLVE: &str = "#!/bin/sh\nprintf '#!/bin/sh\\necho $(( $1 + $2 ))\\n' > /app/sum.sh\n";

    #[test]
    fn empty_prompts_are_refused() {
        for text in ["", " \n\t\n", "<!-- x CANARY y -->\n# canary\n\n"] {
            assert_eq!(
                found_with(&[("instruction.md", text)]),
                ["instruction-empty instruction.md"],
                "{text:?}"
            );
        }
        assert_eq!(found_with(&[("instruction.md", "# canary\nfix it\n")]), [""; 0]);
    }

    #[test]
    fn a_quoted_gold_line_is_named_with_both_places() {
        let hint = "Repair it.\nHint: replace line 2 by `echo  $(( $1 + $2 ))`.\n";
        let files = [("solution/solve.sh", SOLVE), ("instruction.md", hint)];
        assert_eq!(found_with(&files), ["solution-in-instruction instruction.md:2"]);
        let message = &findings(&task_with(&files))[0].message;
        assert_eq!(message, "it quotes `echo $(( $1 + $2 ))` of solution/solve.sh, line 2");
        assert_eq!(found_with(&[("solution/solve.sh", SOLVE)]), [""; 0]);
    }

    #[test]
    fn lines_of_a_patch_count_in_the_direction_of_the_fix() {
        let patch = "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n x = read()\n-total = sum(x) + 1\n+total = sum(x) - 1\n";
        let row = |repo: &str, tests: Option<&str>| {
            let mut row = serde_json::json!({ "repo": repo, "patch": patch, "FAIL_TO_PASS": ["a"], "PASS_TO_PASS": ["b"] });
            if let Some(tests) = tests {
                row["test_patch"] = tests.into();
            }
            row.to_string()
        };
        let (breaks, repairs) = (row("swesmith/a", None), row("a/b", Some("")));
        let right = "It must be\n\n    total = sum(x) + 1\n";
        let wrong = "It says total = sum(x) - 1 at present.\n";
        let found =
            |row: &str, text: &str| found_with(&[("tests/config.json", row), ("instruction.md", text)]);
        assert_eq!(found(&breaks, right), ["solution-in-instruction instruction.md:3"]);
        assert_eq!(found(&breaks, wrong), [""; 0]);
        assert_eq!(found(&repairs, wrong), ["solution-in-instruction instruction.md:1"]);
    }

    #[test]
    fn what_the_agent_sees_anyway_is_no_leak() {
        let hint = "Use `echo $(( $1 + $2 ))`.\n";
        let shown = "#!/bin/sh\n# like echo   $(( $1 + $2 ))\n";
        let files = [("solution/solve.sh", SOLVE), ("instruction.md", hint), ("environment/sum.sh", shown)];
        assert_eq!(found_with(&files), [""; 0]);
    }

    #[test]
    fn ordinary_lines_are_not_telling() {
        for line in [
            "}",
            "return x",
            "import os, sys, re",
            "def load_table(path: str, limit: int = 5) -> dict:",
            "# total = sum(x) + 1",
            "/app/output/results.json",
            "https://docs.invalid/a?b=c",
            "total_of_all_columns",
            "\"name\": \"value\",",
            "name: some value here",
            "The sum (in euros) must be written to the file given above.",
            "[1, 2, 3, 4, 5, 6]",
        ] {
            assert!(!is_telling(line), "{line}");
        }
        for line in
            ["echo $(( $1 + $2 ))", "total = sum(x) + 1", "return left - right", "if x is None or y < 0:"]
        {
            assert!(is_telling(line), "{line}");
        }
    }

    #[test]
    fn quotes_end_at_the_bounds_of_words() {
        assert!(quotes("use `a = b + c`.", "a = b + c"));
        assert!(!quotes("use aa = b + c", "a = b + c"));
        assert!(!quotes("use a = b + cc", "a = b + c"));
        assert!(quotes("f(x)y", "(x)"));
    }
}
