//! `seatrial completions` and `seatrial man`, both made from the one definition of the command line.

use std::io;

use clap::CommandFactory;

use crate::cli::Cli;
use crate::failure::{Exit, OrExit, Result};

/// Prints the completions of a shell.
pub fn completions(shell: clap_complete::Shell) -> Result {
    clap_complete::generate(shell, &mut Cli::command(), "seatrial", &mut io::stdout());
    Ok(())
}

/// Prints the man page.
pub fn man() -> Result {
    clap_mangen::Man::new(Cli::command()).render(&mut io::stdout()).or_exit(Exit::Failed)
}
