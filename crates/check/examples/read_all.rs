//! Reads every byte of every file below the given directories and does nothing else: the time that a check of the same
//! directories cannot do without.
//!
//! `cargo run --release -p check --example read_all -- DIRECTORY...`; each child of a directory is one unit of work, as
//! each task is one for the check.

#![expect(clippy::print_stdout, reason = "a program for measurements")]

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use walkdir::WalkDir;

fn main() -> io::Result<()> {
    let mut units: Vec<PathBuf> = Vec::new();
    for directory in std::env::args_os().skip(1) {
        for entry in std::fs::read_dir(directory)? {
            units.push(entry?.path());
        }
    }
    let read = units.par_iter().with_max_len(1).map(|unit| read_below(unit));
    let (files, bytes) = read.try_reduce(|| (0, 0), |a, b| Ok((a.0 + b.0, a.1 + b.1)))?;
    println!("{} directories, {files} files, {bytes} bytes", units.len());
    Ok(())
}

thread_local! {
    /// Each thread reads into the same memory all the time.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; 1 << 18]);
}

fn read_below(directory: &Path) -> io::Result<(u64, u64)> {
    BUFFER.with_borrow_mut(|buffer| read_into(buffer, directory))
}

fn read_into(buffer: &mut [u8], directory: &Path) -> io::Result<(u64, u64)> {
    let (mut files, mut bytes) = (0, 0);
    for entry in WalkDir::new(directory) {
        let entry = entry?;
        if !entry.file_type().is_file() {
            continue;
        }
        files += 1;
        let mut file = File::open(entry.path())?;
        loop {
            match file.read(buffer)? {
                0 => break,
                read => bytes += read as u64,
            }
        }
    }
    Ok((files, bytes))
}
