//! Sets from selection to export, on real directories.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod exporting;
mod freezing;
mod project;
mod resolving;
mod tampering;
