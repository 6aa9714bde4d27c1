//! Integration tests of the grader: the Rust and the Python half must agree, and the vendored verifier must work.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::print_stderr, reason = "what is skipped is said")]

mod harness_logs;
mod known_profiles;
mod languages;
mod live;
mod noise;
mod recorded;
mod runs;
mod twin;
mod verifier;
