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
    /// An environment could not be walked for its history.
    #[error("the history in the environment of `{task_id}` cannot be walked: {detail}")]
    Walk {
        /// The task.
        task_id: ident::TaskId,
        /// What happened.
        detail: String,
    },
    /// A cheat is asked for that this program does not have.
    #[error("there is no cheat called `{0}`")]
    UnknownCheat(record::CheatName),
}
