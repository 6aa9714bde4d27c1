//! Every observation ever made, append-only, and the verdicts that follow from them.
//!
//! Finished trials come in and are kept for good: the database itself refuses to change or delete one. Verdicts come
//! out of pure functions over them: the order of observations never matters, a verdict speaks only about the very
//! task tree, verifier, image, limits and engine that were observed, nothing is accepted without every run that the
//! rule asks for, and what once spoke against a task cannot be outvoted.

mod cheats;
mod error;
mod ledger;
mod placements;
mod runs;
mod schema;
mod tally;
mod verdict;

pub use error::LedgerError;
pub use ledger::{Filter, Ledger};
pub use tally::{Tally, TallyError, tally};
pub use verdict::{AskedCheat, Decision, Needed, ProofKey, ProofRule, decide, flake_bound, reason};
