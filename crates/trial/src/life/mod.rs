//! One trial from its directory to its reward.
//!
//! Image, sandbox, healthcheck; setup, agent; everything of the agent dead; logs and artifacts out; tests in, verifier, reward
//! out; sandbox gone. Each phase has a limit and leaves its begin, its end and what came of it; whatever fails ends as a typed
//! reason, never as a zero.

mod access;
mod agent;
mod artifacts;
mod collect;
mod course;
mod installed;
mod model;
mod round;
mod start;
mod steps;
mod verify;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) use job::Phase;
use job::{Flag, ModelWork, PhaseRecord, Span, StepResult, Usage};
use record::{Outcome, Reason};
use sandbox::Sandbox;
use serde_json::Number;
use task::config::VerifierMode;

use self::access::Access;
use self::course::{Clock, Course};
use self::round::Round;
use self::start::{Environment, Started, working_directory};
use crate::files::TrialFiles;
use crate::outcome::failed_in;
use crate::rewards::Graded;
use crate::{Admission, Agent, Budgets, Images, Model, TrialTask, failed};

/// Kept of an agent's or a verifier's output: the first half from its start, the second from its end.
const LOG_LIMIT: usize = 4 << 20;
/// How long the removal of a sandbox may take.
const DESTROY_LIMIT: Duration = Duration::from_secs(120);

/// Why something did not work, and what happened.
pub(crate) type Failure = (Reason, String);

/// Everything one trial works with.
pub(crate) struct Life<'a> {
    pub(crate) task: &'a TrialTask,
    pub(crate) agent: Agent,
    /// The model, for agents that ask one.
    pub(crate) model: Option<&'a Model>,
    /// Which attempt at the task this is, from 0.
    pub(crate) attempt: u32,
    pub(crate) engine: &'a dyn sandbox::Engine,
    pub(crate) images: &'a dyn Images,
    /// Bounds how many sandboxes start at a time; waiting for it counts in no budget.
    pub(crate) admission: &'a Admission,
    /// The job's identifier, for labels.
    pub(crate) job: &'a str,
    /// Name of the trial.
    pub(crate) name: &'a str,
    /// Where the trial's sandboxes may keep their writable layers; the directory is the caller's.
    pub(crate) scratch: PathBuf,
    pub(crate) files: &'a TrialFiles,
    pub(crate) budgets: Budgets,
    /// Whether sandboxes get the network that their tasks ask for; otherwise they get none.
    pub(crate) network_allowed: bool,
}

/// What one trial gave.
#[derive(Debug, Clone)]
pub(crate) struct Lived {
    /// The reward; or the reason of the exception, where there is one, whether or not there are rewards beside it.
    pub(crate) outcome: Outcome,
    /// All rewards that the verifier named.
    pub(crate) rewards: Option<BTreeMap<String, Number>>,
    /// What went wrong first. An agent's failure may stand beside rewards: the verifier was asked all the same.
    pub(crate) exception: Option<Failure>,
    /// What is noted beside a reward that stands: one outside [0, 1], a tool that was not found.
    pub(crate) flags: Vec<Flag>,
    /// Status of the required tests, where the verifier reported them.
    pub(crate) tests: BTreeMap<String, String>,
    /// The phases that were begun, in order.
    pub(crate) phases: Vec<PhaseRecord>,
    /// Results of the steps of a task that has several, as far as they were begun.
    pub(crate) steps: Option<Vec<StepResult>>,
    /// `shared` or `separate`.
    pub(crate) verifier_mode: &'static str,
    /// Identity of the agent's root file system, once there was one.
    pub(crate) image_digest: Option<String>,
    /// What the sandboxes used.
    pub(crate) usage: Usage,
    /// What the agent did with a model.
    pub(crate) model: Option<ModelWork>,
}

impl Lived {
    /// Begin and end of a phase that was reached, as Harbor writes them.
    pub(crate) fn span(&self, phase: Phase) -> Option<Span> {
        course::span(&self.phases, phase)
    }
}

/// The end of one round, or of all of them.
#[derive(Debug, Clone, Default)]
struct Ended {
    exception: Option<Failure>,
    graded: Option<Graded>,
    steps: Option<Vec<StepResult>>,
}

impl Ended {
    fn failed(failure: Failure) -> Self {
        Self { exception: Some(failure), ..Self::default() }
    }
}

impl Life<'_> {
    /// Lives the trial. Its sandboxes are gone when this returns.
    pub(crate) async fn live(&self) -> Lived {
        let clock = Clock::start(self.budgets.trial());
        let mut course = Course::new(self.files);
        let ended = match self.task.supported(self.agent, self.network_allowed) {
            Ok(()) => self.sequence(&clock, &mut course).await,
            Err(detail) => Ended::failed((Reason::TaskInvalid, detail)),
        };
        self.sum_up(ended, course)
    }

    async fn sequence(&self, clock: &Clock, course: &mut Course<'_>) -> Ended {
        let config = &self.task.config;
        let environment = Environment {
            name: self.name.to_owned(),
            config: &config.environment,
            source: self.task.environment(),
            network: &config.environment.network,
            table: "environment",
            doors: match self.doors() {
                Ok(doors) => doors,
                Err(failure) => return Ended::failed(failure),
            },
        };
        let started = match self.start(&environment, clock, course).await {
            Ok(started) => started,
            Err(failure) => return Ended::failed(failure),
        };
        if !config.steps.is_empty() {
            return self.steps(started, clock, course).await;
        }
        let mut place = Some(started);
        let ended = self.round(&mut place, &Round::whole(self.task), true, clock, course).await;
        if let Some(started) = place {
            self.destroy(started.sandbox, course).await;
        }
        ended
    }

    /// One agent at work and its verification. The sandbox is taken out of `place` where it has to be gone before the verifier
    /// starts in another one.
    async fn round(
        &self,
        place: &mut Option<Started>,
        round: &Round<'_>,
        last: bool,
        clock: &Clock,
        course: &mut Course<'_>,
    ) -> Ended {
        let Some(started) = place.as_ref() else {
            return Ended::failed((Reason::EngineLost, "there is no sandbox".to_owned()));
        };
        let access = Access { sandbox: started.sandbox.as_ref(), clock };
        course.begin(Phase::Setup, round.name());
        let setup = self.bounded_set_up(&access, round).await;
        if let Err(failure) = course.end(setup) {
            return Ended::failed(failure);
        }
        course.begin(Phase::Agent, round.name());
        let worked = self.work(&access, round, course).await;
        let exception = course.end(worked).err();
        if let Some(failure) = exception.clone().filter(|(reason, _)| !is_graded(*reason)) {
            return Ended::failed(failure);
        }

        course.begin(Phase::Collect, round.name());
        let collected = async {
            self.hooks(&access, round).await?;
            // Nothing of the agent may run beside the verifier.
            access.kill_all().await?;
            let absolute = round.artifacts.iter().all(|artifact| artifact.source.starts_with('/'));
            let workdir = if absolute { "/".to_owned() } else { working_directory(&access, started).await? };
            self.collect(&access, round, &workdir).await
        };
        let collected = collected.await;
        let crossings = match course.end(collected) {
            Ok(crossings) => crossings,
            Err(failure) => return Ended::failed(exception.unwrap_or(failure)),
        };
        if round.separate && last {
            let started = place.take().expect("it was there a moment ago and nobody else takes it");
            self.destroy(started.sandbox, course).await;
        }
        course.begin(Phase::Verifier, round.name());
        let verified = if round.separate {
            self.verify_separately(round, &crossings, clock, course).await
        } else {
            match place.as_ref() {
                Some(started) => {
                    let access = Access { sandbox: started.sandbox.as_ref(), clock };
                    self.verify_shared(&access, round, course).await
                }
                None => Err((Reason::EngineLost, "there is no sandbox".to_owned())),
            }
        };
        match (course.end(verified), exception) {
            (Ok(graded), exception) => Ended { exception, graded: Some(graded), ..Ended::default() },
            (Err(failure), None) => Ended::failed(failure),
            (Err((_, why)), Some((reason, detail))) => {
                Ended::failed((reason, format!("{detail}; then there was no reward either: {why}")))
            }
        }
    }

    /// Making the agent ready, within its budget.
    async fn bounded_set_up(&self, access: &Access<'_>, round: &Round<'_>) -> Result<(), Failure> {
        let own = self.budgets.limit(&self.budgets.setup, Some(agent::SETUP_SEC));
        let late =
            |own: Duration| (Reason::AgentSetupFailed, format!("not ready within {} s", own.as_secs_f64()));
        access::bounded(access.clock, own, late, self.set_up(access, round)).await
    }

    /// Ends the agent's sandbox.
    async fn destroy(&self, sandbox: Box<dyn Sandbox>, course: &mut Course<'_>) {
        course.begin(Phase::Destroy, None);
        let gone = self.end(sandbox, course).await;
        // What comes after the reward does not take it away.
        let failed_in = course.failed_in;
        let _ = course.end(gone);
        course.failed_in = failed_in;
    }

    /// Ends a sandbox within another phase.
    async fn remove(&self, sandbox: Box<dyn Sandbox>, course: &mut Course<'_>) {
        if let Err((_, detail)) = self.end(sandbox, course).await {
            self.files.log(&format!("destroy: {detail}"));
        }
    }

    /// Ends a sandbox that never came to be used.
    async fn discard(&self, sandbox: Box<dyn Sandbox>) {
        match tokio::time::timeout(DESTROY_LIMIT, sandbox.destroy()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.files.log(&format!("destroy: {error}")),
            Err(_) => self.files.log(&format!("destroy: not gone after {} s", DESTROY_LIMIT.as_secs())),
        }
    }

    async fn end(&self, sandbox: Box<dyn Sandbox>, course: &mut Course<'_>) -> Result<(), Failure> {
        // The trial's own limit is no reason to leave anything behind.
        let clock = Clock::start(None);
        if let Ok(usage) = (Access { sandbox: sandbox.as_ref(), clock: &clock }).usage().await {
            course.used(&usage);
        }
        match tokio::time::timeout(DESTROY_LIMIT, sandbox.destroy()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err((Reason::EngineLost, error.to_string())),
            Err(_) => {
                Err((Reason::EngineLost, format!("it is not gone after {} s", DESTROY_LIMIT.as_secs())))
            }
        }
    }

    fn sum_up(&self, ended: Ended, course: Course<'_>) -> Lived {
        let Ended { mut exception, graded, steps } = ended;
        let model = course.model_work();
        let reward = graded.as_ref().and_then(|graded| graded.rewards.get("reward").copied());
        let outcome = match (&exception, reward) {
            (Some((reason, detail)), _) => failed_in(course.failed_in, *reason, detail),
            (None, Some(reward)) => Outcome::Reward(reward),
            (None, None) => {
                let detail = "the verifier names no reward called `reward`";
                exception = Some((Reason::RewardMissing, detail.to_owned()));
                failed(Reason::RewardMissing, detail)
            }
        };
        let flags: Vec<_> = graded
            .iter()
            .flat_map(|graded| &graded.flags)
            .map(|(reason, detail)| Flag { reason: *reason, detail: detail.clone() })
            .collect();
        for flag in &flags {
            self.files.log(&format!("note: {} ({})", flag.reason, flag.detail));
        }
        Lived {
            outcome,
            rewards: graded.map(|graded| graded.numbers),
            exception,
            flags,
            tests: course.tests,
            phases: course.records,
            steps,
            verifier_mode: match self.task.config.verifier.mode {
                VerifierMode::Shared => "shared",
                VerifierMode::Separate => "separate",
            },
            image_digest: course.image_digest,
            usage: course.usage,
            model,
        }
    }
}

/// Whether the verifier is asked after such a failure: as Harbor's policies say, and never in a sandbox that cannot go on.
fn is_graded(reason: Reason) -> bool {
    let broken = [Reason::TaskInvalid, Reason::StorageLimit, Reason::DiskFull, Reason::TrialTimeout];
    !broken.contains(&reason) && job::policy_of(job::rule(reason).exception).should_grade
}

#[cfg(test)]
mod tests;
