//! The verifier: in the agent's sandbox, or in one of its own that nothing but artifacts enters.

use record::Reason;
use sandbox::{Capture, ExecSpec, ExitStatus};
use task::config::EnvironmentConfig;

use super::access::{Access, Fetched, disk};
use super::collect::Crossing;
use super::course::{Clock, Course};
use super::round::Round;
use super::start::Environment;
use super::{Failure, LOG_LIMIT, Life};
use crate::EnvironmentSource;
use crate::files::{log_directories, verifier_directory};
use crate::rewards::{Graded, VerifierFiles, missing_tool, wanted_network};

/// Taken out of `/logs/verifier`.
const VERIFIER_LIMIT: u64 = 64 << 20;
/// Where the verifier's output goes.
const OUTPUT: &str = "test-stdout.txt";

impl Life<'_> {
    /// Verifies where the agent worked. None of its processes may be alive.
    pub(super) async fn verify_shared(
        &self,
        access: &Access<'_>,
        round: &Round<'_>,
        course: &mut Course<'_>,
    ) -> Result<Graded, Failure> {
        // The agent's files are what stands in the way, and another try is nothing that an agent may choose.
        let usual = Reason::RewardUnsafe;
        // Whatever an agent put there is gone before the verifier starts, links included.
        access.remove(&["/logs/verifier", "/tests"], usual).await?;
        self.open_logs(access, round, usual).await?;
        // Where the agent was root, the program that removes may be its own.
        let left = match access.download("/logs/verifier", 1 << 20).await? {
            Fetched::Archive(archive) if is_empty(&archive) => {
                match access.download("/tests", 1 << 20).await? {
                    Fetched::Missing => None,
                    _ => Some("/tests"),
                }
            }
            _ => Some("/logs/verifier"),
        };
        if let Some(place) = left {
            return Err((usual, format!("what the agent left in {place} cannot be removed")));
        }
        let tests = self.pack_tests(round)?;
        access.upload(&tests, "/tests", usual).await?;
        let graded = self.verify(access, round, course).await?;
        if round.step.is_some() {
            // The agent of the next step is to see no tests, and those that all steps share are its own as well.
            access.remove(&["/tests"], usual).await?;
        }
        Ok(graded)
    }

    /// Verifies in a new sandbox, which is gone when this returns.
    pub(super) async fn verify_separately(
        &self,
        round: &Round<'_>,
        crossings: &[Crossing],
        clock: &Clock,
        course: &mut Course<'_>,
    ) -> Result<Graded, Failure> {
        let environment = self.verifier_environment(round);
        let started = self
            .start_beside(&environment, clock)
            .await
            .map_err(|(reason, detail)| (reason, format!("the verifier's own environment: {detail}")))?;
        let access = Access { sandbox: started.sandbox.as_ref(), clock };
        let graded = self.verify_crossed(&access, round, crossings, &environment, course).await;
        self.remove(started.sandbox, course).await;
        graded
    }

    async fn verify_crossed(
        &self,
        access: &Access<'_>,
        round: &Round<'_>,
        crossings: &[Crossing],
        environment: &Environment<'_>,
        course: &mut Course<'_>,
    ) -> Result<Graded, Failure> {
        access.upload(&log_directories(), "/logs", Reason::VerifierSetupFailed).await?;
        // Artifacts are the agent's: what they break here is nothing that another try may be had for.
        let usual = if crossings.is_empty() { Reason::VerifierSetupFailed } else { Reason::RewardUnsafe };
        for crossing in crossings {
            access.upload(&crossing.archive, &crossing.directory, usual).await?;
        }
        // After the artifacts: none of them can be a reward.
        access.remove(&["/logs/verifier"], usual).await?;
        self.open_logs(access, round, usual).await?;
        // A prebuilt image for the verifier brings its tests along.
        if environment.source.docker_image.is_none() || round.verifier.environment.is_none() {
            let tests = self.pack_tests(round)?;
            access.upload(&tests, "/tests", usual).await?;
        }
        self.verify(access, round, course).await
    }

    /// The verifier's own environment: its own image, the Dockerfile beside the tests, or a fresh copy of the task's.
    fn verifier_environment<'r>(&'r self, round: &Round<'r>) -> Environment<'r> {
        let config = &self.task.config;
        let declared: Option<&EnvironmentConfig> =
            round.verifier.environment.as_deref().or(config.verifier.environment.as_deref());
        let own_image = declared.and_then(|own| own.docker_image.clone());
        let source = match (own_image, round.tests_with_dockerfile()) {
            (Some(image), _) => EnvironmentSource {
                docker_image: Some(image),
                context: self.task.directory.join("environment"),
            },
            (None, Some(tests)) => EnvironmentSource { docker_image: None, context: tests.to_owned() },
            (None, None) => self.task.environment(),
        };
        let config = declared.unwrap_or(&config.environment);
        Environment {
            name: format!("{}-verifier", self.name),
            config,
            source,
            network: round.verifier.network.as_ref().unwrap_or(&config.network),
            table: if declared.is_some() { "verifier.environment" } else { "environment" },
            doors: Vec::new(),
        }
    }

    async fn open_logs(&self, access: &Access<'_>, round: &Round<'_>, usual: Reason) -> Result<(), Failure> {
        let open = !matches!(round.verifier_user.as_str(), "0" | "root");
        access.upload(&verifier_directory(open), "/logs", usual).await
    }

    fn pack_tests(&self, round: &Round<'_>) -> Result<sandbox::Archive, Failure> {
        let tests = self.task.pack(&round.tests);
        tests.map_err(|error| (Reason::VerifierSetupFailed, format!("packing the tests: {error}")))
    }

    /// Runs the verifier's script and reads what it left.
    async fn verify(
        &self,
        access: &Access<'_>,
        round: &Round<'_>,
        course: &mut Course<'_>,
    ) -> Result<Graded, Failure> {
        let before = access.usage().await?.oom_kills;
        let limit = self.budgets.limit(&self.budgets.verifier, Some(round.verifier.timeout_sec));
        let command = ExecSpec {
            env: round.verifier_env()?,
            user: Some(round.verifier_user.clone()),
            timeout: limit,
            capture: Capture { limit: LOG_LIMIT, merge: true },
            ..ExecSpec::default()
        };
        let ran = access.shell("/tests/test.sh", command, Reason::VerifierSetupFailed).await?;
        self.files.log(&format!("verifier: {:?}, {} bytes of output", ran.status, ran.stdout.total));
        self.files.write(&round.place(&format!("verifier/{OUTPUT}")), &ran.stdout.bytes).map_err(disk)?;
        access.kill_all().await?;
        let kills = access.usage().await?.oom_kills.saturating_sub(before);
        let found = self.harvest(access, round).await?;
        if ran.status == ExitStatus::Timeout {
            let seconds = limit.unwrap_or_default().as_secs_f64();
            let message = format!("the verifier was stopped at its limit of {seconds} s");
            return Err((Reason::VerifierTimeout, message));
        }
        if kills > 0 {
            let message = format!("the memory limit ended {kills} process(es) of the verifier");
            return Err((Reason::OutOfMemory, message));
        }
        if let Some(why) = found.disowned(ran.status, round.has_vendored_verifier()) {
            return Err((Reason::RewardUnsafe, why));
        }
        course.tests.extend(found.tests());
        let missing = |log: &[u8]| {
            let tool = missing_tool(log)?;
            Some((Reason::ToolNotFound, format!("the verifier's shell did not find `{tool}`")))
        };
        let unreached = wanted_network(&ran.stdout.bytes)
            .map(|line| format!("the verifier wanted a network, and trials have none: {line}"));
        match found.graded() {
            // A reward of 0 for want of a tool or a network looks like an answer; it stays one, but not a silent one.
            Ok(mut graded) => {
                if graded.rewards.get("reward").is_some_and(|reward| *reward < 1.0) {
                    graded.flags.extend(missing(&ran.stdout.bytes));
                    graded.flags.extend(unreached.map(|why| (Reason::VerifierSetupFailed, why)));
                }
                Ok(graded)
            }
            Err((Reason::RewardMissing, detail)) => Err(match (missing(&ran.stdout.bytes), unreached) {
                (Some((reason, why)), _) if found.has_no_reward_file() => {
                    (reason, format!("{why}; {detail}"))
                }
                (None, Some(why)) => (Reason::RewardMissing, format!("{why}; {detail}")),
                _ => (Reason::RewardMissing, detail),
            }),
            Err(failure) => Err(failure),
        }
    }

    /// Brings out what the verifier left, as far as the bound allows, and what it says about the reward in any case.
    async fn harvest(&self, access: &Access<'_>, round: &Round<'_>) -> Result<VerifierFiles, Failure> {
        let mut found = VerifierFiles::default();
        match access.download("/logs/verifier", VERIFIER_LIMIT).await? {
            Fetched::Archive(archive) => {
                found.take(&archive).map_err(unreadable)?;
                let place = |name: &str| (name != OUTPUT).then(|| round.place(&format!("verifier/{name}")));
                self.files.unpack(&archive, place).map_err(disk)?;
                if found.has_no_reward_file() {
                    self.look_closer(access, &mut found).await?;
                }
            }
            Fetched::Missing => {
                return Err((Reason::RewardUnsafe, "the verifier removed /logs/verifier".to_owned()));
            }
            Fetched::Refused(why) => {
                self.files.log(&format!("left out: {why}; see verifier/left-out.txt"));
                self.list(access, round).await?;
                for (name, limit) in VerifierFiles::NAMES {
                    // Room for the archive's own blocks.
                    match access.download(&format!("/logs/verifier/{name}"), limit + (16 << 10)).await? {
                        Fetched::Archive(archive) => {
                            found.take(&archive).map_err(unreadable)?;
                            let place = |entry: &str| {
                                (entry == name).then(|| round.place(&format!("verifier/{name}")))
                            };
                            self.files.unpack(&archive, place).map_err(disk)?;
                        }
                        Fetched::Missing => {}
                        Fetched::Refused(_) => found.refuse(name, "a file that is too large"),
                    }
                }
                if found.has_no_reward_file() {
                    self.look_closer(access, &mut found).await?;
                }
            }
        }
        Ok(found)
    }

    /// Engines may leave special files out of an archive. Asked for by name they are there, with nothing in them.
    async fn look_closer(&self, access: &Access<'_>, found: &mut VerifierFiles) -> Result<(), Failure> {
        for (name, limit) in &VerifierFiles::NAMES[..2] {
            if let Fetched::Archive(archive) =
                access.download(&format!("/logs/verifier/{name}"), *limit).await?
                && is_empty(&archive)
            {
                found.refuse(name, "a special file or an empty directory");
            }
        }
        Ok(())
    }

    /// Writes down the names and true sizes of what the verifier left, as the sandbox tells them.
    async fn list(&self, access: &Access<'_>, round: &Round<'_>) -> Result<(), Failure> {
        let command = ExecSpec {
            argv: ["ls", "-lanR", "/logs/verifier"].map(String::from).to_vec(),
            user: Some("0".into()),
            workdir: Some("/".into()),
            timeout: Some(std::time::Duration::from_secs(60)),
            capture: Capture { limit: 64 << 10, merge: true },
            ..ExecSpec::default()
        };
        let listed = access.exec(command, Reason::VerifierSetupFailed).await?;
        self.files.write(&round.place("verifier/left-out.txt"), &listed.stdout.bytes).map_err(disk)
    }
}

fn is_empty(archive: &sandbox::Archive) -> bool {
    archive.as_tar().entries().is_ok_and(|mut entries| entries.next().is_none())
}

#[expect(clippy::needless_pass_by_value, reason = "used as an error mapper")]
fn unreadable(error: std::io::Error) -> Failure {
    (Reason::RewardUnsafe, format!("/logs/verifier cannot be read: {error}"))
}
