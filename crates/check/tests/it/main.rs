//! The rules on whole directories: on small tasks written here, and on a corpus where one is at hand.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail loudly and say what they skip")]

mod cases;
mod copy;
mod public_api;
mod real_tasks;
