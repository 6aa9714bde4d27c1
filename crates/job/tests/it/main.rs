//! Jobs and trials read from directories, as everybody else sees them.
#![expect(clippy::unwrap_used, reason = "tests may stop at once")]

mod corpus;
mod documents;
mod hostile;
mod jobs;
mod shelf;
mod trials;
