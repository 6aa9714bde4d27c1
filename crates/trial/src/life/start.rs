//! The environment: its image, its sandbox, its healthcheck.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use record::Reason;
use sandbox::{Archive, Door, ExecSpec, ExitStatus, Network, Root, Sandbox, SandboxSpec};
use task::config::{EnvironmentConfig, Healthcheck, NetworkMode};

use super::access::{Access, bounded, failure};
use super::course::{Clock, Course};
use super::{Failure, Life, Phase};
use crate::EnvironmentSource;
use crate::trial_task::{bytes, resolved};

/// Processes and threads of a sandbox.
const PIDS: u64 = 4096;
/// No healthcheck is asked for longer, whatever the task says.
const HEALTHCHECK_LIMIT: Duration = Duration::from_secs(3600);

/// An environment that is to be started.
pub(super) struct Environment<'a> {
    /// Name of the sandbox.
    pub(super) name: String,
    pub(super) config: &'a EnvironmentConfig,
    pub(super) source: EnvironmentSource,
    /// The network that its phases ask for.
    pub(super) network: &'a task::config::Network,
    /// Name of the table in `task.toml`, for messages.
    pub(super) table: &'static str,
    /// What of this machine can be reached from within.
    pub(super) doors: Vec<Door>,
}

/// A sandbox that has started.
pub(super) struct Started {
    pub(super) sandbox: Box<dyn Sandbox>,
    /// The working directory, where task or image name one.
    pub(super) workdir: Option<String>,
}

impl Life<'_> {
    /// Image, sandbox, the files of an environment without a Dockerfile, healthcheck: each a phase of its own.
    pub(super) async fn start(
        &self,
        environment: &Environment<'_>,
        clock: &Clock,
        course: &mut Course<'_>,
    ) -> Result<Started, Failure> {
        let begun = Instant::now();
        course.begin(Phase::Build, None);
        let built = self.build(environment, clock).await;
        let root = course.end(built)?;
        course.image_digest = Some(root.digest().to_owned());

        course.begin(Phase::Start, None);
        let started = self.launch(environment, root, begun.elapsed(), true, clock).await;
        let started = course.end(started)?;

        if let Some(healthcheck) = &environment.config.healthcheck {
            course.begin(Phase::Healthcheck, None);
            let access = Access { sandbox: started.sandbox.as_ref(), clock };
            let healthy = healthy(&access, healthcheck, None).await;
            if let Err(failure) = course.end(healthy) {
                self.destroy(started.sandbox, course).await;
                return Err(failure);
            }
        }
        Ok(started)
    }

    /// The same for the verifier's own environment, which is part of the verifier's phase.
    pub(super) async fn start_beside(
        &self,
        environment: &Environment<'_>,
        clock: &Clock,
    ) -> Result<Started, Failure> {
        let begun = Instant::now();
        let root = self.build(environment, clock).await?;
        let started = self.launch(environment, root, begun.elapsed(), false, clock).await?;
        if let Some(healthcheck) = &environment.config.healthcheck {
            let access = Access { sandbox: started.sandbox.as_ref(), clock };
            if let Err(failure) = healthy(&access, healthcheck, None).await {
                self.discard(started.sandbox).await;
                return Err(failure);
            }
        }
        Ok(started)
    }

    async fn build(&self, environment: &Environment<'_>, clock: &Clock) -> Result<Root, Failure> {
        let own = self.budgets.limit(&self.budgets.build, Some(environment.config.build_timeout_sec));
        let late = |own: Duration| {
            let (seconds, table) = (own.as_secs_f64(), environment.table);
            (Reason::EnvironmentStartFailed, format!("no image within the {seconds} s that {table} allows"))
        };
        bounded(clock, own, late, self.images.root(&environment.source)).await
    }

    /// Starts a sandbox. One that starts `alone`, while its trial holds no other, may wait for room that other trials hold.
    async fn launch(
        &self,
        environment: &Environment<'_>,
        root: Root,
        spent: Duration,
        alone: bool,
        clock: &Clock,
    ) -> Result<Started, Failure> {
        let config = environment.config;
        let scratch = self.scratch.join(&environment.name);
        fs_err::create_dir_all(&scratch).map_err(super::access::disk)?;
        let image_workdir = match &root {
            Root::Layers(root) => root.config.workdir.clone(),
            Root::Image(_) => None,
        };
        let workdir = config.workdir.clone().or(image_workdir).filter(|workdir| !workdir.is_empty());
        let spec = SandboxSpec {
            labels: BTreeMap::from([
                ("job".into(), self.job.to_owned()),
                ("trial".into(), self.name.to_owned()),
                ("task".into(), self.task.name.clone()),
                ("attempt".into(), self.attempt.to_string()),
            ]),
            env: resolved(&format!("{}.env", environment.table), &config.env)?,
            workdir: config.workdir.clone(),
            limits: sandbox::Limits {
                cpus: config.cpus,
                memory: config.memory_mb.map(bytes),
                pids: Some(PIDS),
                storage: config.storage_mb.map(bytes),
            },
            network: network(environment.network, self.network_allowed),
            doors: environment.doors.clone(),
            ..SandboxSpec::new(environment.name.clone(), root, scratch)
        };
        // What the image took is gone from the limit of both together.
        let both = self.budgets.limit(&self.budgets.build, Some(config.build_timeout_sec));
        let both = both.map(|both| both.saturating_sub(spent));
        let own = match (self.budgets.limit(&self.budgets.start, None), both) {
            (Some(own), Some(both)) => Some(own.min(both)),
            (own, both) => own.or(both),
        };
        let asked = Instant::now();
        let _slot = self.admission.start().await;
        clock.excuse(asked.elapsed());
        let usual = Reason::EnvironmentStartFailed;
        let start = async { self.engine.start(&spec).await.map_err(|error| failure(&error, usual)) };
        let late = |own: Duration| (usual, format!("no sandbox within {} s", own.as_secs_f64()));
        let sandbox = if alone && self.engine.queues() {
            // It may wait for other trials, and the engine bounds the rest.
            let asked = Instant::now();
            let started = start.await;
            clock.excuse(asked.elapsed());
            started?
        } else {
            bounded(clock, own, late, start).await?
        };
        let started = Started { sandbox, workdir };
        if let Err(failure) = bring_loose_files(&environment.source, &started, clock).await {
            self.discard(started.sandbox).await;
            return Err(failure);
        }
        Ok(started)
    }
}

/// The network of a sandbox. Where the run does not allow one there is none, whatever the task asks for: a task may lose by
/// that, but it can never reach more than it asked for.
fn network(asked: &task::config::Network, allowed: bool) -> Network {
    match asked.mode {
        _ if !allowed => Network::None,
        NetworkMode::NoNetwork => Network::None,
        NetworkMode::Public => Network::Public,
        NetworkMode::Allowlist => Network::Allowlist(asked.allowed_hosts.clone()),
    }
}

async fn bring_loose_files(
    source: &EnvironmentSource,
    started: &Started,
    clock: &Clock,
) -> Result<(), Failure> {
    let usual = Reason::EnvironmentStartFailed;
    let files = loose_files(source)
        .map_err(|error| (usual, format!("{} cannot be packed: {error}", source.context.display())))?;
    let Some(files) = files else { return Ok(()) };
    let access = Access { sandbox: started.sandbox.as_ref(), clock };
    let workdir = working_directory(&access, started).await?;
    access.upload(&files, &workdir, usual).await
}

/// The files beside a prebuilt image that has neither Dockerfile nor compose file: nothing else brings them in.
fn loose_files(source: &EnvironmentSource) -> std::io::Result<Option<Archive>> {
    let there = |name: &str| source.context.join(name).symlink_metadata().is_ok();
    if source.docker_image.is_none()
        || !source.context.is_dir()
        || ["Dockerfile", "docker-compose.yaml", "docker-compose.yml"].iter().any(|name| there(name))
        || fs_err::read_dir(&source.context)?.next().is_none()
    {
        return Ok(None);
    }
    crate::files::pack(&[&source.context]).map(Some)
}

/// The working directory of commands: the task's, the image's, or what the sandbox says.
pub(super) async fn working_directory(access: &Access<'_>, started: &Started) -> Result<String, Failure> {
    if let Some(workdir) = &started.workdir {
        return Ok(workdir.clone());
    }
    let command = ExecSpec { timeout: Some(Duration::from_secs(60)), ..ExecSpec::default() };
    let said = access.shell("pwd", command, Reason::EnvironmentStartFailed).await?;
    let path = String::from_utf8_lossy(&said.stdout.bytes).trim_end_matches('\n').to_owned();
    Ok(if Path::new(&path).is_absolute() { path } else { "/".to_owned() })
}

/// Asks until the environment says that it is ready.
pub(super) async fn healthy(
    access: &Access<'_>,
    config: &Healthcheck,
    user: Option<&String>,
) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut patience = Patience::new(config);
    loop {
        let command = ExecSpec {
            user: user.cloned(),
            timeout: Some(seconds(config.timeout_sec)),
            capture: sandbox::Capture { limit: 4 << 10, merge: true },
            ..ExecSpec::default()
        };
        // A failure counts by when its try began.
        let asked = begun.elapsed();
        let said = access.shell(&config.command, command, Reason::HealthcheckFailed).await?;
        if said.success() {
            return Ok(());
        }
        let Some(pause) = patience.after_failure(asked).filter(|_| asked < HEALTHCHECK_LIMIT) else {
            let how = match said.status {
                ExitStatus::Code(code) => format!("it ended with code {code}"),
                ExitStatus::Signal(signal) => format!("signal {signal} ended it"),
                ExitStatus::Timeout => format!("it took longer than {} s", config.timeout_sec),
            };
            let tail: String = String::from_utf8_lossy(&said.stdout.bytes).trim().chars().take(400).collect();
            let detail =
                format!("the healthcheck failed {} times in a row; {how}: {tail}", patience.failures);
            return Err((Reason::HealthcheckFailed, detail));
        };
        let cut = access.clock.cut(Some(pause));
        tokio::time::sleep(cut.left.unwrap_or(pause)).await;
        if cut.whole {
            return Err(access.clock.over());
        }
    }
}

/// Docker's rule: failures that begin within the start period do not count, afterwards `retries` in a row end it.
struct Patience<'a> {
    config: &'a Healthcheck,
    failures: u64,
}

impl<'a> Patience<'a> {
    fn new(config: &'a Healthcheck) -> Self {
        Self { config, failures: 0 }
    }

    /// The pause before the next try after one that began `asked` after the start; `None` when it was the last.
    fn after_failure(&mut self, asked: Duration) -> Option<Duration> {
        if asked < seconds(self.config.start_period_sec) {
            // A start interval of nothing would never let the machine rest.
            return Some(seconds(self.config.start_interval_sec).max(Duration::from_millis(50)));
        }
        self.failures += 1;
        (self.failures < self.config.retries).then(|| seconds(self.config.interval_sec))
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(HEALTHCHECK_LIMIT)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_healthcheck_is_given_up_as_docker_does() {
        let config = Healthcheck {
            command: String::new(),
            interval_sec: 5.0,
            timeout_sec: 1.0,
            start_period_sec: 10.0,
            start_interval_sec: 2.0,
            retries: 3,
        };
        let mut patience = Patience::new(&config);
        let mut pauses = Vec::new();
        let mut now = Duration::ZERO;
        while let Some(pause) = patience.after_failure(now) {
            pauses.push(pause.as_secs());
            now += pause;
        }
        // Five failures that do not count, then three in a row.
        assert_eq!(pauses, [2, 2, 2, 2, 2, 5, 5]);
        assert_eq!(patience.failures, 3);
        let none = Healthcheck { retries: 0, start_period_sec: 0.0, ..config };
        assert_eq!(Patience::new(&none).after_failure(Duration::ZERO), None);
    }

    #[test]
    fn a_network_is_given_only_where_the_run_allows_one() {
        let asked = |mode| task::config::Network { mode, allowed_hosts: vec!["example.invalid".into()] };
        for mode in [NetworkMode::NoNetwork, NetworkMode::Public, NetworkMode::Allowlist] {
            assert_eq!(network(&asked(mode), false), Network::None);
        }
        assert_eq!(network(&asked(NetworkMode::NoNetwork), true), Network::None);
        assert_eq!(network(&asked(NetworkMode::Public), true), Network::Public);
        assert_eq!(
            network(&asked(NetworkMode::Allowlist), true),
            Network::Allowlist(vec!["example.invalid".into()])
        );
    }

    #[test]
    fn loose_files_are_those_that_nothing_else_brings_in() {
        let directory = tempfile::tempdir().unwrap();
        let source = |image: Option<&str>| EnvironmentSource {
            docker_image: image.map(str::to_owned),
            context: directory.path().to_owned(),
        };
        let names = |image| {
            let archive = loose_files(&source(image)).unwrap()?;
            let mut names: Vec<PathBuf> = Vec::new();
            for entry in archive.as_tar().entries().unwrap() {
                names.push(entry.unwrap().path().unwrap().into_owned());
            }
            Some(names)
        };
        assert_eq!(names(Some("x")), None, "an empty directory");
        std::fs::write(directory.path().join("data"), "1").unwrap();
        assert_eq!(names(Some("x")), Some(vec!["data".into()]));
        assert_eq!(names(None), None);
        std::fs::write(directory.path().join("Dockerfile"), "FROM x").unwrap();
        assert_eq!(names(Some("x")), None);
    }
}
