//! Takes earlier results over into the ledger.

use record::Status;

use super::{Current, History, Reconciled, Settled, reconciled};
use crate::{Assessed, ProveError, Prover};

impl Prover {
    /// Appends what fits of the histories to the ledger, unless it is there already, and decides anew. With `dry_run` nothing is
    /// appended, and only the table says what would be.
    ///
    /// # Errors
    /// The ledger's own.
    pub fn reconcile<'a>(
        &self,
        histories: &[History],
        mut assessed: Vec<Assessed<'a>>,
        dry_run: bool,
    ) -> Result<(Vec<Assessed<'a>>, Reconciled), ProveError> {
        let tasks = assessed.iter().map(|task| {
            Ok(Current {
                key: &task.key,
                digests: &task.candidate.task.digests,
                rule: &task.rule,
                settled: Settled::of(&task.candidate.task.config),
                known: self.ledger().about(&task.key)?,
            })
        });
        let tasks = tasks.collect::<Result<Vec<_>, ProveError>>()?;
        let (table, taken) = reconciled(histories, &tasks);
        if dry_run {
            return Ok((assessed, table));
        }
        self.ledger().append(&taken)?;
        for task in &mut assessed {
            task.decision = self.decide(&task.key, &task.rule)?;
            if let Status::Error { retryable: true, .. } = task.decision.status {
                // Whoever takes a failure over wants it to be tried again.
                task.rule.retries += task.decision.passing_failures;
                task.decision = self.decide(&task.key, &task.rule)?;
            }
        }
        Ok((assessed, table))
    }
}
