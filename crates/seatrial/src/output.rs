//! What a command says: data on standard output, everything else on standard error.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use comfy_table::{ContentArrangement, Row, Table, presets};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::failure::{Exit, Failure, OrExit, Result};

/// Many lines are written in pieces of about this size.
const PIECE: usize = 64 << 10;

/// The bar that is on the screen: lines are written above it, whoever writes them.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Puts a bar on the screen, or takes it away.
pub fn set_bar(bar: Option<ProgressBar>) {
    *BAR.lock().unwrap_or_else(PoisonError::into_inner) = bar;
}

/// What tasks and sandboxes say may hold anything. A terminal obeys control characters and turns text around, so those are
/// shown as what they are.
pub fn harmless(text: impl std::fmt::Display) -> String {
    let obeyed = |c: char| match c {
        '\n' | '\t' => false,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => c.is_control(),
    };
    let mut shown = String::new();
    for c in text.to_string().chars() {
        if obeyed(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

fn to_stderr(line: impl std::fmt::Display) {
    let bar = BAR.lock().unwrap_or_else(PoisonError::into_inner).clone();
    // Nobody is left to tell when standard error is gone.
    let write = || drop(writeln!(io::stderr(), "{}", harmless(&line)));
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// How a command speaks.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// One JSON document (or JSON lines) on standard output and nothing else there.
    pub json: bool,
    /// Results only.
    pub quiet: bool,
}

impl Output {
    /// A line of progress or explanation, for people.
    pub fn say(self, line: impl std::fmt::Display) {
        if !self.quiet {
            to_stderr(line);
        }
    }

    /// A stage's own line.
    pub fn stage(self, stage: &str, line: impl std::fmt::Display) {
        self.say(format_args!("{stage:>12}  {line}"));
    }

    /// A warning; shown also when quiet.
    #[expect(clippy::unused_self, reason = "everything that is said goes through the same value")]
    pub fn warn(self, line: impl std::fmt::Display) {
        to_stderr(format_args!("     warning  {line}"));
    }

    /// A result for people; nothing in JSON mode.
    pub fn print(self, text: impl std::fmt::Display) -> Result {
        if self.json { Ok(()) } else { print_line(harmless(text)) }
    }

    /// A result as one JSON document on one line; nothing in text mode.
    pub fn json<T: Serialize>(self, value: &T) -> Result {
        if !self.json {
            return Ok(());
        }
        print_line(serde_json::to_string(value).or_exit(Exit::Failed)?)
    }

    /// Many results, each as one JSON document on a line of its own, written in few pieces; nothing in text mode.
    pub fn json_lines<T: Serialize>(self, values: impl IntoIterator<Item = T>) -> Result {
        if !self.json {
            return Ok(());
        }
        let mut piece = String::new();
        for value in values {
            if piece.len() >= PIECE {
                print_line(&piece)?;
                piece.clear();
            } else if !piece.is_empty() {
                piece.push('\n');
            }
            piece += &serde_json::to_string(&value).or_exit(Exit::Failed)?;
        }
        if piece.is_empty() { Ok(()) } else { print_line(piece) }
    }

    /// Shows a failure on standard error; in JSON mode also as a document on standard output.
    pub fn error(self, failure: &Failure) {
        let mut stderr = io::stderr();
        if failure.report.source_code().is_some() {
            let _ = write!(stderr, "{:?}", failure.report);
        } else {
            let _ = writeln!(stderr, "error: {}", harmless(&failure.report));
        }
        for hint in &failure.hints {
            let _ = writeln!(stderr, "hint: {}", harmless(hint));
        }
        self.json_error(failure);
    }

    /// A failure as a document on standard output; nothing in text mode.
    pub fn json_error(self, failure: &Failure) {
        if self.json && !failure.silent {
            let document = serde_json::json!({
                "error": failure.report.to_string(),
                "exit_code": failure.exit as u8,
                "hints": failure.hints,
            });
            let _ = writeln!(io::stdout(), "{document}");
        }
    }

    /// Whether progress bars make sense.
    pub fn bars(self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }
}

/// Prints one line; a closed pipe ends the program quietly, as readers such as `head` expect.
pub fn print_line(text: impl std::fmt::Display) -> Result {
    match writeln!(io::stdout(), "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            let exit = if artifact::is_disk_full(&error) { Exit::Budget } else { Exit::Failed };
            Err(Failure::new(exit, format_args!("standard output cannot be written: {error}")))
        }
        Ok(()) => Ok(()),
    }
}

/// Foreign text on one line: what would end the line or steer a terminal is shown as what it is.
pub fn one_line(text: impl std::fmt::Display) -> String {
    harmless(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// A plain table with aligned columns.
pub fn table<R: Into<Row>>(header: impl Into<Row>, rows: impl IntoIterator<Item = R>) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    for row in rows {
        // What stands in a cell is of anybody: it stays in its cell, and is as wide as it is counted.
        let row: Row = row.into();
        table.add_row(row.cell_iter().map(|cell| one_line(cell.content())).collect::<Vec<_>>());
    }
    table.trim_fmt()
}

/// A number and its noun: `1 task`, `2 tasks`.
pub fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_told_nothing_by_tasks() {
        assert_eq!(harmless("naïve 名 1\n\t2"), "naïve 名 1\n\t2");
        assert_eq!(harmless("\u{1b}[31m\u{7}\r\u{9b}"), "\\u{1b}[31m\\u{7}\\u{d}\\u{9b}");
        assert_eq!(harmless("a\u{202e}b"), "a\\u{202e}b");
        assert_eq!(one_line("a\n::error b\tc"), "a\\n::error b\\tc");
        let table = table(["name", "number"], [["a\nb", "1"], ["\u{1b}[1m", "2"]]);
        let columns: Vec<_> = table.lines().map(|line| line.rfind(|c: char| !c.is_whitespace())).collect();
        assert_eq!(table.lines().count(), 3);
        assert_eq!(columns[1], columns[2], "{table}");
    }
}
