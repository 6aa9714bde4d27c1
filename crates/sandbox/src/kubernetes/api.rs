//! Asking the API server, which may be slow, busy, restarting, or gone.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use kube::api::DeleteParams;
use kube::{Api, Error};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};

use crate::SandboxError;
use crate::error::chain;
use crate::kubernetes::pauses::Pauses;
use crate::kubernetes::pod::NAME;

/// How long the server may take for one answer.
const ANSWER: Duration = Duration::from_secs(30);

/// How long a request is tried again while the server does not answer; restarts take less.
pub(super) const PATIENCE: Duration = Duration::from_secs(90);

/// How long a refusal for missing rights may pass: a server that just started does not know roles yet.
const RIGHTS: Duration = Duration::from_secs(15);

/// Pauses between tries: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What the server made of a request.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It answered, with this status, reason and message.
    Status {
        code: u16,
        reason: String,
        message: String,
        /// Seconds to wait, where it says so.
        retry_after: Option<u64>,
    },
    /// It did not answer, or nothing that makes sense.
    Silence(String),
}

impl Refusal {
    /// Whether there is no such object.
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Status { code: 404, .. })
    }

    /// Whether another object has the name.
    pub(super) fn is_name_in_use(&self) -> bool {
        matches!(self, Self::Status { code: 409, reason, .. } if reason == "AlreadyExists")
    }

    /// Whether the namespace's quota is used up, which passes as other pods end.
    pub(super) fn is_quota(&self) -> bool {
        matches!(self, Self::Status { code: 403, message, .. } if message.contains("exceeded quota"))
    }

    /// How long it is worth to ask again: the server may be busy, restarting, or out of reach.
    fn may_pass(&self) -> Duration {
        match self {
            Self::Status { code, .. } if *code == 429 || *code >= 500 => Duration::MAX,
            Self::Status { code: 403, .. } if !self.is_quota() => RIGHTS,
            Self::Status { .. } => Duration::ZERO,
            Self::Silence(_) => Duration::MAX,
        }
    }

    /// Takes an object that is there already for one that was created.
    pub(super) fn unless_there(self) -> Result<(), Self> {
        if self.is_name_in_use() { Ok(()) } else { Err(self) }
    }

    /// As an error about a sandbox that was to start.
    pub(super) fn at_start(self, name: &str) -> SandboxError {
        match self {
            Self::Status { message, .. } => SandboxError::Start { name: name.to_owned(), reason: message },
            Self::Silence(reason) => SandboxError::Lost(reason),
        }
    }

    /// As an error about anything else.
    pub(super) fn doing(self, doing: &str) -> SandboxError {
        match self {
            Self::Status { message, .. } => {
                SandboxError::Io { doing: doing.to_owned(), source: std::io::Error::other(message) }
            }
            Self::Silence(reason) => SandboxError::Lost(format!("{reason} ({doing})")),
        }
    }

    /// As the reason why the engine cannot be used.
    pub(super) fn unavailable(self, doing: &str) -> SandboxError {
        let reason = match self {
            Self::Status { code: 401 | 403, message, .. } => {
                format!("{doing}: {message}; docs/kubernetes.md has the rights that are needed")
            }
            Self::Status { message, .. } => format!("{doing}: {message}"),
            Self::Silence(reason) => format!("{doing}: {reason}"),
        };
        SandboxError::Unavailable { engine: NAME, reason }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::Api(status) => {
                let after = status.details.as_ref().map(|details| details.retry_after_seconds);
                Self::Status {
                    code: status.code,
                    reason: status.reason.clone(),
                    message: status.message.clone(),
                    retry_after: after.filter(|after| *after > 0).map(u64::from),
                }
            }
            other => Self::Silence(format!("the API server does not answer: {}", chain(&other))),
        }
    }
}

/// Deletes an object; one that is gone is no error.
pub(super) async fn delete<K>(
    patience: Duration,
    api: &Api<K>,
    name: &str,
    parameters: &DeleteParams,
) -> Result<(), Refusal>
where
    K: Clone + DeserializeOwned + Debug,
{
    match insist(patience, || api.delete(name, parameters)).await {
        Ok(_) => Ok(()),
        Err(refusal) if refusal.is_not_found() => Ok(()),
        Err(refusal) => Err(refusal),
    }
}

/// One answer, but not for ever.
pub(super) async fn answer<T>(request: impl Future<Output = Result<T, Error>>) -> Result<T, Refusal> {
    match timeout(ANSWER, request).await {
        Ok(answer) => answer.map_err(Refusal::from),
        Err(_) => {
            Err(Refusal::Silence(format!("the API server did not answer within {} s", ANSWER.as_secs())))
        }
    }
}

/// An answer to a request that may be repeated: tried again, with growing pauses, while the server is busy or away.
pub(super) async fn insist<T, F: Future<Output = Result<T, Error>>>(
    patience: Duration,
    request: impl Fn() -> F,
) -> Result<T, Refusal> {
    let begin = Instant::now();
    // What passes after a while does so from its own beginning: a server that was away may lack roles when it comes back.
    let mut same = (Duration::MAX, begin);
    let mut pauses = Pauses::new(FIRST_PAUSE, LONGEST_PAUSE);
    loop {
        let refusal = match answer(request()).await {
            Ok(answer) => return Ok(answer),
            Err(refusal) => refusal,
        };
        let asked = match &refusal {
            Refusal::Status { retry_after, .. } => retry_after.map(Duration::from_secs),
            Refusal::Silence(_) => None,
        };
        let pause = pauses.pause();
        let wait = asked.unwrap_or(pause);
        let passes = refusal.may_pass();
        if same.0 != passes {
            same = (passes, Instant::now());
        }
        if begin.elapsed() + wait > patience || same.1.elapsed() + wait > passes {
            return Err(refusal);
        }
        tracing::debug!(?refusal, "asks the API server again");
        sleep(wait).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, reason: &str, message: &str) -> Refusal {
        Refusal::Status { code, reason: reason.into(), message: message.into(), retry_after: None }
    }

    #[test]
    fn what_passes_is_told_from_what_stays() {
        for passing in
            [status(429, "TooManyRequests", ""), status(503, "", ""), Refusal::Silence(String::new())]
        {
            assert_eq!(passing.may_pass(), Duration::MAX);
        }
        assert_eq!(status(403, "Forbidden", "pods is forbidden").may_pass(), RIGHTS);
        assert_eq!(status(422, "Invalid", "").may_pass(), Duration::ZERO);
        assert!(
            status(403, "Forbidden", "pods \"a\" is forbidden: exceeded quota: q, requested: pods=1")
                .is_quota()
        );
        assert!(
            status(409, "AlreadyExists", "").is_name_in_use()
                && !status(409, "Conflict", "").is_name_in_use()
        );
    }

    #[tokio::test]
    async fn a_server_that_comes_back_is_waited_for() {
        let tries = std::cell::Cell::new(0);
        let answered = insist(PATIENCE, || {
            tries.set(tries.get() + 1);
            let broken = tries.get() < 3;
            async move { if broken { Err(Error::LinesCodecMaxLineLengthExceeded) } else { Ok(7) } }
        });
        assert_eq!(answered.await.unwrap(), 7);
        let gone =
            insist(Duration::ZERO, || async { Err::<(), _>(Error::LinesCodecMaxLineLengthExceeded) }).await;
        assert!(matches!(gone, Err(Refusal::Silence(_))));
    }
}
