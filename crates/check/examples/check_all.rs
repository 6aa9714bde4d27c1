//! Checks the tasks in the given directories as the command `check` does and prints the findings as JSON lines: what is measured
//! beside `read_all`, without the time to build the whole program.
//!
//! `cargo run --release -p check --example check_all -- DIRECTORY...`; each child of a directory is a task.

#![expect(clippy::print_stdout, reason = "a program for measurements")]

use std::error::Error;
use std::path::PathBuf;

use check::{CheckOptions, Profile, SetOptions, check_all, check_set};

fn main() -> Result<(), Box<dyn Error>> {
    let mut tasks: Vec<PathBuf> = Vec::new();
    for directory in std::env::args_os().skip(1) {
        for entry in std::fs::read_dir(directory)? {
            tasks.push(entry?.path());
        }
    }
    tasks.sort();
    let options = CheckOptions::of(Profile::Foreign);
    let mut checked = check_all(&tasks, &options).into_iter().collect::<Result<Vec<_>, _>>()?;
    check_set(&mut checked, &SetOptions::default(), &options);
    for (task, checked) in tasks.iter().zip(&checked) {
        println!("{} {}", task.display(), serde_json::to_string(&checked.findings)?);
    }
    Ok(())
}
