//! Tests of the crate from outside: archives, Dockerfiles, layouts, registries.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests fail and report as tests do")]

mod build;
mod certificates;
mod fake;
mod layout;
mod mirror;
mod pack;
mod real_dockerfiles;
mod registry;
mod sample;
mod support;
mod tags;
mod unpack;
