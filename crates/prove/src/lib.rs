//! Nop and oracle, k times, in fresh sandboxes, and then the cheat set, until the ledger gives a verdict.
//!
//! Task directories come in; observations go to the ledger, and one verdict a task comes out. What runs next is decided by the
//! ledger's pure rules from what has been seen so far, so a run that was interrupted goes on where it stopped, and nothing that is
//! known is run again. Verdicts do not depend on what was faster.

mod candidate;
pub mod cheats;
mod error;
pub mod history;
mod outlook;
mod prover;
mod quarantine;
pub mod reconcile;
mod scrub;

pub use candidate::{Candidate, Origin};
pub use error::ProveError;
pub use outlook::{Outlook, outlook};
pub use prover::{Assessed, ProveSpec, Prover, expected, is_settled, limits, verdict};
pub use quarantine::quarantined;
pub use scrub::{Scrubbed, Walker};
