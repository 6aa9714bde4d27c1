//! Sets from selection to export, on real directories.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a panic is how a test fails, and it says what it skips"
)]

mod alike;
mod attesting;
mod cases;
mod documents;
mod end_state;
mod explaining;
mod exporting;
mod freezing;
mod images;
mod project;
mod registering;
mod reporting;
mod resolving;
mod tampering;
