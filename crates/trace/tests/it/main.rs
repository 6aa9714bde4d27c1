//! Tests of the crate as others use it, on real data where there is some.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod canary;
mod golden;
mod links;
mod outputs;
mod reading;
mod sets;
mod training;
