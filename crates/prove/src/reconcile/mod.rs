//! Earlier results as observations: what can be reused, what is retried, what says nothing, and why.
//!
//! Histories come in, read under bounds; observations that fit what is proved now go out, with the file and the digest that
//! each is from. An earlier result fits where task tree, verifier, root file system, limits and engine are the same and there was
//! no network; Harbor's hash may stand for the tree, and where the tree is the same, what it fixes itself is known. What neither
//! history nor tree says is not assumed. Verdicts are made by the ledger's rules from what
//! was taken over, as from anything else: so accepted and terminal results are reused, and passing failures are retried.

mod history;
mod matching;
mod take_over;
#[cfg(test)]
mod tests;

pub use history::{Earlier, History, HistoryError, Tree, read};
pub(crate) use matching::{Current, Settled, reconciled};
pub use matching::{Fate, Ignored, Line, Reconciled};
