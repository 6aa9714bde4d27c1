//! Tests of the crate from outside: archives, Dockerfiles, layouts, registries.

mod build;
mod corpus;
mod support;
mod unpack;
