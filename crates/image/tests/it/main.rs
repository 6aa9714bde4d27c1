//! Tests of the crate from outside: archives, Dockerfiles, layouts, registries.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod build;
mod certificates;
mod fake;
mod layout;
mod mirror;
mod pack;
mod real_dockerfiles;
mod registry;
mod sample;
mod saved;
mod support;
mod tags;
mod unpack;
