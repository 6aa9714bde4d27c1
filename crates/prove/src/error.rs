//! Why a proof could not be carried out. What a task does wrong is a verdict, not an error.

/// Why a proof could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum ProveError {
    /// A trial could not be written down.
    #[error(transparent)]
    Trial(#[from] trial::TrialError),
    /// The ledger could not be read or written.
    #[error(transparent)]
    Ledger(#[from] ledger::LedgerError),
}
