//! Writes the universe into a directory: `cargo run --release -p rehearsal -- DIR [WORDS]`.

use std::path::Path;
use std::process::ExitCode;

use rehearsal::{Options, Universe, write_project};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(directory) = arguments.next() else {
        return complain("usage: rehearsal DIR [WORDS OF MESSAGES A ROW]");
    };
    let mut options = Options::default();
    if let Some(words) = arguments.next() {
        match words.parse() {
            Ok(words) => options.message_words = words,
            Err(_) => return complain(&format!("`{words}` is no number of words")),
        }
    }
    match write_project(Path::new(&directory), &Universe::new(), options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&error.to_string()),
    }
}

#[expect(clippy::print_stderr, reason = "a program speaks to its user")]
fn complain(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::from(2)
}
