//! Nop and oracle, k times, in fresh sandboxes, until the ledger gives a verdict.
//!
//! Task directories come in; observations go to the ledger, and one verdict a task comes out. What runs next is decided by the
//! ledger's pure rules from what has been seen so far, so a run that was interrupted goes on where it stopped, and nothing that is
//! known is run again.

mod candidate;
mod error;
mod prover;

pub use candidate::Candidate;
pub use error::ProveError;
pub use prover::{Assessed, ProveSpec, Prover, limits};
