//! What a trial does with a running sandbox, each time with a deadline and a reason for its failure.

use std::future::Future;
use std::time::Duration;

use artifact::is_disk_full;
use record::Reason;
use sandbox::{Archive, ExecOutcome, ExecSpec, ExitStatus, Sandbox, SandboxError, Usage};

use super::Failure;
use super::course::Clock;

/// For bringing files in or out.
const TRANSFER_LIMIT: Duration = Duration::from_secs(600);
/// For everything else that an engine does at once.
const STEP_LIMIT: Duration = Duration::from_secs(60);

/// Where shells are looked for. An agent can put another one ahead on `PATH`, so that one is looked up by name only in images
/// that have none at the usual places.
const SHELLS: [&str; 4] = ["/bin/bash", "/usr/bin/bash", "bash", "/bin/sh"];

/// One running sandbox under the trial's clock.
#[derive(Clone, Copy)]
pub(super) struct Access<'a> {
    pub(super) sandbox: &'a dyn Sandbox,
    pub(super) clock: &'a Clock,
}

/// What a download gave.
pub(super) enum Fetched {
    Archive(Archive),
    Missing,
    /// More than the bound, or something that cannot be packed, in words. Neither is the engine's fault: whoever wrote those
    /// files would otherwise choose whether the trial counts.
    Refused(String),
}

impl Access<'_> {
    /// Runs a command. Its own limit is cut at the trial's; running into the trial's is a failure, into its own an outcome.
    pub(super) async fn exec(&self, mut command: ExecSpec, usual: Reason) -> Result<ExecOutcome, Failure> {
        let cut = self.clock.cut(command.timeout);
        command.timeout = cut.left;
        let outcome = self.sandbox.exec(&command).await.map_err(|error| failure(&error, usual))?;
        match outcome.status {
            ExitStatus::Timeout if cut.whole => Err(self.clock.over()),
            _ => Ok(outcome),
        }
    }

    /// Runs a script of the task with the image's own shell, which also takes scripts without a `#!` line.
    pub(super) async fn shell(
        &self,
        script: &str,
        mut command: ExecSpec,
        usual: Reason,
    ) -> Result<ExecOutcome, Failure> {
        let cut = self.clock.cut(command.timeout);
        command.timeout = cut.left;
        let mut missing = None;
        for shell in SHELLS {
            command.argv = [shell, "-c", script].map(String::from).to_vec();
            match self.sandbox.exec(&command).await {
                Err(error @ SandboxError::Spawn { .. }) => missing = Some(error),
                Err(error) => return Err(failure(&error, usual)),
                Ok(ExecOutcome { status: ExitStatus::Timeout, .. }) if cut.whole => {
                    return Err(self.clock.over());
                }
                Ok(outcome) => return Ok(outcome),
            }
        }
        let Some(error) = missing else { return Err((usual, "no shell was tried".to_owned())) };
        let (reason, why) = failure(&error, usual);
        Err((reason, format!("no shell could be started: {why}")))
    }

    pub(super) async fn upload(&self, archive: &Archive, to: &str, usual: Reason) -> Result<(), Failure> {
        self.within(TRANSFER_LIMIT, usual, self.sandbox.upload(archive, to)).await
    }

    /// Brings a file or directory out, up to `limit` bytes.
    pub(super) async fn download(&self, path: &str, limit: u64) -> Result<Fetched, Failure> {
        let fetch = async {
            match self.sandbox.download(path, limit).await {
                Ok(archive) => Ok(Fetched::Archive(archive)),
                Err(SandboxError::NoSuchPath(_)) => Ok(Fetched::Missing),
                Err(SandboxError::Io { source, doing }) if !is_disk_full(&source) => {
                    Ok(Fetched::Refused(format!("{doing}: {source}")))
                }
                Err(error @ SandboxError::TooLarge { .. }) => Ok(Fetched::Refused(error.to_string())),
                Err(error) => Err(error),
            }
        };
        self.within(TRANSFER_LIMIT, Reason::EngineLost, fetch).await
    }

    pub(super) async fn kill_all(&self) -> Result<(), Failure> {
        self.within(STEP_LIMIT, Reason::EngineLost, self.sandbox.kill_all()).await
    }

    pub(super) async fn usage(&self) -> Result<Usage, Failure> {
        self.within(STEP_LIMIT, Reason::EngineLost, self.sandbox.usage()).await
    }

    /// Removes paths as root, whatever they are, and says why that did not work.
    pub(super) async fn remove(&self, paths: &[&str], usual: Reason) -> Result<(), Failure> {
        let argv = ["rm", "-rf"].iter().chain(paths).map(|part| (*part).to_owned()).collect();
        let command = ExecSpec {
            argv,
            env: [("PATH".to_owned(), "/usr/sbin:/usr/bin:/sbin:/bin".to_owned())].into(),
            user: Some("0".into()),
            workdir: Some("/".into()),
            timeout: Some(STEP_LIMIT),
            ..ExecSpec::default()
        };
        let removed = self.exec(command, usual).await?;
        if removed.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&removed.stderr.bytes);
        let said: String = said.trim().chars().take(400).collect();
        Err((usual, format!("cannot clear {}: {said}", paths.join(" and "))))
    }

    async fn within<T>(
        &self,
        own: Duration,
        usual: Reason,
        work: impl Future<Output = Result<T, SandboxError>>,
    ) -> Result<T, Failure> {
        let work = async { work.await.map_err(|error| failure(&error, usual)) };
        let silent = |own: Duration| {
            (Reason::EngineLost, format!("the engine gave no answer within {} s", own.as_secs()))
        };
        bounded(self.clock, Some(own), silent, work).await
    }
}

/// Does something within its own limit, of which `late` says that it was reached, and within the trial's.
pub(super) async fn bounded<T>(
    clock: &Clock,
    own: Option<Duration>,
    late: impl FnOnce(Duration) -> Failure,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let cut = clock.cut(own);
    let Some(left) = cut.left else { return work.await };
    match tokio::time::timeout(left, work).await {
        Ok(done) => done,
        Err(_) if cut.whole => Err(clock.over()),
        Err(_) => Err(late(left)),
    }
}

/// The reason that an engine's error stands for; `usual` where the error says no more than that it did not work.
pub(super) fn failure(error: &SandboxError, usual: Reason) -> Failure {
    let reason = match error {
        // Commands and uploads meet no other bound than the sandbox's storage.
        SandboxError::TooLarge { .. } => Reason::StorageLimit,
        SandboxError::Unsupported { .. } => Reason::TaskInvalid,
        // What cannot be started now cannot be started the next time: no such program, user or working directory.
        SandboxError::Spawn { .. } if job::rule(usual).retryable => Reason::TaskInvalid,
        SandboxError::Lost(_) | SandboxError::Unavailable { .. } => Reason::EngineLost,
        SandboxError::Io { source, .. } if is_disk_full(source) => Reason::DiskFull,
        _ => usual,
    };
    (reason, error.to_string())
}

/// The failure of a trial directory that cannot be written.
#[expect(clippy::needless_pass_by_value, reason = "used as an error mapper")]
pub(super) fn disk(error: std::io::Error) -> Failure {
    let reason = if is_disk_full(&error) { Reason::DiskFull } else { Reason::EngineLost };
    (reason, format!("cannot write the trial directory: {error}"))
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    #[test]
    fn errors_of_engines_have_reasons() {
        let io = |kind: ErrorKind| SandboxError::Io { doing: "x".into(), source: kind.into() };
        let usual = Reason::VerifierSetupFailed;
        let pairs = [
            (SandboxError::TooLarge { what: "x".into(), limit: 1 }, Reason::StorageLimit),
            (SandboxError::Unsupported { engine: "e", what: "x".into() }, Reason::TaskInvalid),
            (SandboxError::Lost("x".into()), Reason::EngineLost),
            (io(ErrorKind::StorageFull), Reason::DiskFull),
            (io(ErrorKind::PermissionDenied), usual),
            (SandboxError::Spawn { program: "x".into(), reason: "y".into() }, Reason::TaskInvalid),
            (SandboxError::NoSuchPath("x".into()), usual),
        ];
        for (error, reason) in pairs {
            assert_eq!(failure(&error, usual).0, reason, "{error}");
        }
        assert_eq!(disk(ErrorKind::StorageFull.into()).0, Reason::DiskFull);
        assert_eq!(disk(ErrorKind::NotADirectory.into()).0, Reason::EngineLost);
    }
}
