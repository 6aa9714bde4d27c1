//! `seatrial completions` and `seatrial man`, both made from the one definition of the command line.

use clap::CommandFactory;

use crate::cli::Cli;
use crate::failure::{Exit, OrExit, Result};
use crate::output::print_line;

/// Prints the completions of a shell.
pub fn completions(shell: clap_complete::Shell) -> Result {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "seatrial", &mut text);
    print_text(&text)
}

/// Prints the man page.
pub fn man() -> Result {
    let mut text = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut text).or_exit(Exit::Failed)?;
    print_text(&text)
}

fn print_text(text: &[u8]) -> Result {
    print_line(String::from_utf8_lossy(text).trim_end())
}
