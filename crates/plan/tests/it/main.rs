//! Whole plans: the rules against a plain second reading of them, and a plan of full size.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod faults;
mod identity;
mod properties;
mod published;
mod rehearsal;
mod rounds;
