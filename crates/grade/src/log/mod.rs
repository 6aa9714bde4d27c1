//! Recorded test logs to test statuses, one file a runner.
//!
//! Bytes come in; a [`crate::SuiteRun`] goes out. Parsers never fail and never panic: what is no result is passed
//! over, a name without a result is reported as unresolved, a log that ends too early is incomplete. Time and memory
//! grow with the length of the log and not faster.
//!
//! | runner | what is trusted | what code under test can forge |
//! |---|---|---|
//! | pytest, unittest, lines | the runner's own lines | any line |
//! | `go test -v` | results of tests that a `=== RUN` line announced | any line |
//! | `go test -json` | events that are whole JSON objects; their `output` is never read | whole events |
//! | cargo | results, against the counts of each binary's `test result:` line | any line, when it writes past libtest |
//! | libtest's JSON | events that are whole JSON objects, against the counts of each binary | whole events |
//! | nextest | results, against the counts of the `Summary` line | lines of tests that do not run |
//! | jest | the tree behind each `PASS`/`FAIL` line, up to its first block of messages | lines of the tree |
//! | mocha, node | the tree above the summary; failures only under their next number | lines of the tree |
//! | vitest | marked lines and the headings of failures | any line |
//! | Surefire | lines with a name and a run time | any line |
//! | JUnit XML | whole documents; text inside them is escaped by the writer | whole documents |
//! | CTRF | whole JSON objects, against the count of each summary | whole objects |
//!
//! So no log proves anything by itself. A live run of pytest or unittest is graded by [`crate::read_report`], other live runs
//! together with what their runners say at their end, and a recorded log only together with the exit status
//! ([`crate::decide`] calls a contradiction by its name).

#[macro_use]
mod pattern;

mod cargo;
mod ctrf;
mod format;
mod go;
mod harness;
mod jest;
mod junit;
mod libtest;
mod lines;
mod names;
mod nextest;
mod pytest;
mod read;
mod spec;
mod surefire;
mod tap;
mod tree;
mod unittest;
mod vitest;
mod xml;

pub use format::{Framework, LogFormat, UnknownFormat};
pub use harness::{SWE_SMITH_MARKS, parse_harness_log};
pub use names::TestNames;
pub use read::{Marks, parse_log, parse_log_named};
