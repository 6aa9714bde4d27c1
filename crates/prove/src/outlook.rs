//! Whether more proofs can change anything: the pure decision between two batches.

use artifact::Inputs;
use dataset::resolve::{ResolveError, ResolveRules, Verdicts, candidates, resolve};
use record::{ProofDocument, Shortage, Status};

/// What the verdicts so far mean for the final set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outlook {
    /// The wanted set can be made of what is accepted.
    Satisfied,
    /// More verdicts may make it possible, or the set larger.
    Open,
    /// Even if everything that is undecided were accepted, a pool would miss its target.
    Hopeless(Vec<Shortage>),
}

/// Asks the rules of the final set twice: with everything undecided left out, and with everything undecided accepted.
///
/// Only a pool that cannot be filled is hopeless, since more candidates never make it smaller. Splits can come out exactly with
/// fewer tasks when they do not with more. With `allow_shortfall` nothing is hopeless: each further task makes the set better.
pub fn outlook(verdicts: Verdicts<'_>, rules: &ResolveRules) -> Result<Outlook, ResolveError> {
    let strict = ResolveRules { allow_shortfall: false, ..rules.clone() };
    let try_with = |proofs: &ProofDocument| {
        let (candidates, _) = candidates(Verdicts { proofs, ..verdicts })?;
        resolve(Inputs::new(), &strict, &candidates, &verdicts.checks.similar)
    };
    match try_with(verdicts.proofs) {
        Ok(_) => return Ok(Outlook::Satisfied),
        Err(ResolveError::PoolShortage(_) | ResolveError::Splits { .. }) => {}
        Err(error) => return Err(error),
    }
    if rules.allow_shortfall {
        return Ok(Outlook::Open);
    }
    let mut hopeful = verdicts.proofs.clone();
    for task in &mut hopeful.tasks {
        if matches!(task.verdict, Status::Pending | Status::Error { retryable: true, .. }) {
            task.verdict = Status::Accepted;
        }
    }
    match try_with(&hopeful) {
        Ok(_) | Err(ResolveError::Splits { .. }) => Ok(Outlook::Open),
        Err(ResolveError::PoolShortage(shortages)) => Ok(Outlook::Hopeless(shortages)),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
