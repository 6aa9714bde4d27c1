//! Commands, the end of everything, and what was used, by way of the guest.

use std::io;
use std::time::Duration;

use image::ImageConfig;
use tokio::time::{Instant, sleep, sleep_until};

use crate::guest::Link;
use crate::resolve::{self, Settings};
use crate::shared::wire::{Command, Counters, Operation, Outcome, Setting, Status, Texts, Wire};
use crate::{ExecOutcome, ExecSpec, ExitStatus, Output, SandboxError, SandboxSpec, Usage};

/// How long the guest may take beyond a deadline before everything in the sandbox is killed instead.
const HUNT: Duration = Duration::from_secs(4);

/// How long killing may take, and answering a question about what was used.
const ANSWER: Duration = Duration::from_secs(30);

/// How often a guest that works on a command is asked whether it is still there.
const ALIVE: Duration = Duration::from_secs(30);

/// What a reply holds beside the output.
const REPLY: usize = 64 << 10;

impl Link {
    /// Runs one command to its end.
    pub(crate) async fn exec(
        &self,
        config: &ImageConfig,
        spec: &SandboxSpec,
        command: &ExecSpec,
    ) -> Result<ExecOutcome, SandboxError> {
        let started = Instant::now();
        let Settings { env, workdir, user } = resolve::settings(config, spec, command);
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let request = Command {
            argv: Texts(command.argv.clone()),
            env: Texts(env.into_iter().flat_map(|(name, value)| [name, value]).collect()),
            workdir,
            user,
            stdin: command.stdin.clone(),
            merge: command.capture.merge,
            keep: command.capture.limit as u64,
            timeout_ms: command.timeout.map(millis),
            largest_file: spec.limits.storage,
        };
        let program = command.argv.first().cloned().unwrap_or_default();
        let body = bytes(&request).map_err(io_error(format!("preparing `{program}`")))?;
        let deadline = command.timeout.map(|timeout| started + timeout + HUNT);
        let most = command.capture.limit.saturating_mul(2).saturating_add(REPLY);
        let (reply, in_time) = self.follow(&body, deadline, most).await?;
        let wall = started.elapsed();
        let (status, stdout, stderr) = parse(&reply);
        let status = match status {
            _ if !in_time => ExitStatus::Timeout,
            // The engine's own kill comes first as the end of the reply, and only then as the answer to it.
            None if command.timeout.is_some_and(|timeout| wall >= timeout) => ExitStatus::Timeout,
            // Something inside killed the command's helper, and with it everything.
            None => ExitStatus::Signal(libc::SIGKILL),
            Some(Status::Code(code)) => ExitStatus::Code(code.cast_signed()),
            Some(Status::Signal(signal)) => ExitStatus::Signal(signal.cast_signed()),
            Some(Status::Timeout) => ExitStatus::Timeout,
            Some(Status::Spawn(reason)) => return Err(SandboxError::Spawn { program, reason }),
            Some(Status::Failed(_)) if command.timeout.is_some_and(|timeout| wall >= timeout) => {
                // The guest could not catch them one by one.
                self.kill_all().await?;
                ExitStatus::Timeout
            }
            Some(other) => return Err(unexpected(&format!("running `{program}`"), other)),
        };
        Ok(ExecOutcome { status, stdout, stderr, wall })
    }

    /// Sends the request and waits for the reply; says whether it came in time.
    ///
    /// The three things that may happen go on side by side: all replies come over one connection, so none of them may
    /// be left unread while another is waited for.
    async fn follow(
        &self,
        body: &[u8],
        deadline: Option<Instant>,
        most: usize,
    ) -> Result<(Vec<u8>, bool), SandboxError> {
        let mut exchange = self.request(Operation::Exec).await?;
        let work = async {
            exchange.send(body).await?;
            let mut reply = Vec::new();
            exchange.collect(&mut reply, most).await?;
            Ok::<_, SandboxError>(reply)
        };
        let killing = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
            self.kill_all().await
        };
        let watching = async {
            loop {
                sleep(ALIVE).await;
                if let Err(error) = self.usage().await {
                    return error;
                }
            }
        };
        tokio::pin!(work);
        tokio::select! {
            reply = &mut work => return Ok((reply?, true)),
            killed = killing => killed?,
            lost = watching => return Err(lost),
        }
        let ended = tokio::time::timeout(HUNT, work).await;
        let reply = ended.map_err(|_| SandboxError::Lost("its process 1 does not answer".into()))??;
        Ok((reply, false))
    }

    /// Kills every process but the guest.
    pub(crate) async fn kill_all(&self) -> Result<(), SandboxError> {
        match self.ask::<Status>(Operation::KillAll).await? {
            Status::Done => Ok(()),
            other => Err(unexpected("killing the sandbox's processes", other)),
        }
    }

    /// What the sandbox used so far.
    pub(crate) async fn usage(&self) -> Result<Usage, SandboxError> {
        let counters = self.ask::<Counters>(Operation::Usage).await?;
        Ok(Usage {
            peak_memory: counters.peak_memory,
            oom_kills: counters.oom_kills.unwrap_or(0),
            cpu_time: counters.cpu_micros.map(Duration::from_micros),
        })
    }

    /// What the image sets, as the guest found it. `HOME` comes from the account of each command.
    pub(crate) async fn setting(&self, without: impl Fn(&str) -> bool) -> Result<ImageConfig, SandboxError> {
        let Setting { env, workdir, user } = self.ask(Operation::Setting).await?;
        let pairs = env.0.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
        Ok(ImageConfig {
            env: pairs.filter(|(name, _)| !without(name)).collect(),
            workdir: Some(workdir).filter(|workdir| !workdir.is_empty()),
            user: Some(user),
            ..ImageConfig::default()
        })
    }

    /// Which of these addresses, `host:port`, take a connection from inside.
    pub(crate) async fn reach(&self, addresses: &[String]) -> Result<Vec<String>, SandboxError> {
        let addresses = bytes(&Texts(addresses.to_vec())).map_err(io_error("naming addresses"))?;
        self.ask_with::<Texts>(Operation::Reach, &addresses).await.map(|reached| reached.0)
    }

    /// Asks something that is answered at once.
    async fn ask<T: Wire>(&self, operation: Operation) -> Result<T, SandboxError> {
        self.ask_with(operation, &[]).await
    }

    /// Asks something about something.
    async fn ask_with<T: Wire>(&self, operation: Operation, about: &[u8]) -> Result<T, SandboxError> {
        let answer = async {
            let mut exchange = self.request(operation).await?;
            exchange.send(about).await?;
            let mut reply = Vec::new();
            exchange.collect(&mut reply, REPLY).await?;
            Ok::<_, SandboxError>(reply)
        };
        let silent =
            || SandboxError::Lost(format!("its process 1 did not answer within {} s", ANSWER.as_secs()));
        let reply = tokio::time::timeout(ANSWER, answer).await.map_err(|_| silent())??;
        T::get(&mut reply.as_slice()).map_err(|_| SandboxError::Lost("its process 1 gave no answer".into()))
    }
}

/// Takes a reply apart. A request that failed has a status alone; one whose helper was killed may have nothing.
fn parse(reply: &[u8]) -> (Option<Status>, Output, Output) {
    if let Ok(outcome) = Outcome::get(&mut &*reply) {
        let output = |(total, bytes)| Output { bytes, total };
        return (Some(outcome.status), output(outcome.stdout), output(outcome.stderr));
    }
    (Status::get(&mut &*reply).ok(), Output::default(), Output::default())
}

pub(super) fn bytes(value: &impl Wire) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    value.put(&mut bytes)?;
    Ok(bytes)
}

pub(super) fn io_error(doing: impl Into<String>) -> impl FnOnce(io::Error) -> SandboxError {
    let doing = doing.into();
    move |source| SandboxError::Io { doing, source }
}

pub(super) fn unexpected(doing: &str, status: Status) -> SandboxError {
    let reason = match status {
        Status::Failed(reason) => reason,
        other => format!("unexpected answer {other:?}"),
    };
    SandboxError::Io { doing: doing.to_owned(), source: io::Error::other(reason) }
}
