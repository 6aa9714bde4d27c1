//! An agent that asks a model: the conversation, its trajectory, and what its end means for the trial.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use agent::endpoint::{EndpointError, Wire};
use agent::shell::{Broken, Commands, Conversation, End, PromptError, Session, Totals, work};
use agent::{Head, Trajectory};
use jiff::Timestamp;
use job::ModelWork;
use record::Reason;
use sandbox::{ExecOutcome, ExecSpec};
use tokio_util::sync::CancellationToken;

use super::access::{Access, disk};
use super::course::Course;
use super::round::Round;
use super::{Failure, Life};

/// The sandbox as the place where the model's commands run.
struct Place<'a> {
    access: &'a Access<'a>,
    /// Whether any command could be run so far.
    ran: AtomicBool,
}

impl Commands for Place<'_> {
    type Error = Failure;

    async fn run(&self, script: &str, command: ExecSpec) -> Result<ExecOutcome, Failure> {
        match self.access.shell(script, command, Reason::AgentSetupFailed).await {
            Ok(outcome) => {
                self.ran.store(true, Ordering::Relaxed);
                Ok(outcome)
            }
            // Where commands ran before, it was the agent that took the shell away.
            Err((Reason::TaskInvalid, detail)) if self.ran.load(Ordering::Relaxed) => {
                Err((Reason::AgentError, detail))
            }
            Err(failure) => Err(failure),
        }
    }
}

impl Life<'_> {
    /// Lets the model work until the conversation ends.
    pub(super) async fn converse(
        &self,
        access: &Access<'_>,
        round: &Round<'_>,
        course: &mut Course<'_>,
    ) -> Result<(), Failure> {
        let usual = Reason::AgentSetupFailed;
        let Some(model) = self.model else { return Err((usual, "the run has no model".to_owned())) };
        let instruction = self.task.instruction(round.name()).map_err(|error| (usual, error.to_string()))?;
        let unfilled = |error: PromptError| (usual, error.to_string());
        let mut conversation = Conversation::new(model.rules.clone(), &instruction).map_err(unfilled)?;
        let session = match round.name() {
            Some(step) => format!("{}.{}.{step}", self.job, self.name),
            None => format!("{}.{}", self.job, self.name),
        };
        let tools = model.rules.protocol.tools();
        let head = Head {
            session: &session,
            agent: self.agent.name(),
            version: self.agent.version(),
            model: model.name(),
            tools: &tools,
        };
        let file = self.files.create_file(&round.place("agent/trajectory.json")).map_err(disk)?;
        let mut trajectory =
            Trajectory::create(file, head, conversation.messages(), Timestamp::now()).map_err(disk)?;
        let wire = if model.keep_wire {
            let directory = self.files.path_of(&round.place("agent/wire")).map_err(disk)?;
            Some(Wire::new(directory).map_err(disk)?)
        } else {
            None
        };
        let limit = self.budgets.limit(&self.budgets.agent, round.agent_sec);
        let cut = access.clock.cut(limit);
        // A run that is stopped lets its trials go on to their ends.
        let stop = CancellationToken::new();
        let session = Session {
            client: &model.client,
            name: &session,
            seed: model.seed.map(|seed| seed.wrapping_add(self.attempt.into())),
            user: round.agent_user.clone(),
            deadline: cut.left.map(|left| Instant::now() + left),
            stop: &stop,
            wire,
        };
        let place = Place { access, ran: AtomicBool::new(false) };
        let worked = work(&session, &mut conversation, &place, &mut trajectory).await;
        let (end, failure) = match worked.end {
            Ok(End::Timeout) if cut.whole => (End::Timeout.name(), Some(access.clock.over())),
            Ok(end) => (end.name(), meaning(end, limit.map_or(0.0, |limit| limit.as_secs_f64()))),
            Err(broken) => ("broken", Some(broken_failure(broken))),
        };
        self.files.log(&format!("agent: {end} after {} answers of {}", worked.totals.steps, model.name()));
        let work = model_work(model.name(), end, &worked.totals);
        course.work.push((round.name().map(str::to_owned), work));
        failure.map_or(Ok(()), Err)
    }
}

fn model_work(name: &str, end: &str, totals: &Totals) -> ModelWork {
    ModelWork {
        name: name.to_owned(),
        end: end.to_owned(),
        turns: totals.steps,
        input_tokens: totals.prompt,
        cache_tokens: totals.cached,
        output_tokens: totals.completion,
        cost_usd: totals.cost_usd,
    }
}

/// The failure that an end is, if it is one. An agent that has used up what it may use is graded like one that submits.
fn meaning(end: End, seconds: f64) -> Option<Failure> {
    let failure = |reason, detail: &str| Some((reason, detail.to_owned()));
    match end {
        End::Submitted | End::StepLimit | End::CostLimit | End::TokenLimit => None,
        End::ContextOverflow => failure(
            Reason::ContextOverflow,
            "the conversation outgrew its budget of tokens, or the context of the model",
        ),
        End::FormatErrors => {
            failure(Reason::AgentError, "the model gave no command that can be run, too often in a row")
        }
        End::OutputOverflow => failure(
            Reason::OutputOverflow,
            "the model gave no command that can be run, too often in a row; its last answer was cut",
        ),
        End::Declined => failure(Reason::AgentRefused, "the model or its server declined to go on"),
        End::Timeout => {
            failure(Reason::AgentTimeout, &format!("the agent was stopped at its limit of {seconds} s"))
        }
    }
}

fn broken_failure(broken: Broken<Failure>) -> Failure {
    match broken {
        Broken::Commands(failure) => failure,
        Broken::Trajectory(error) | Broken::Endpoint(EndpointError::Wire(error)) => disk(error),
        Broken::Prompt(error) => (Reason::AgentSetupFailed, error.to_string()),
        Broken::Endpoint(error) => {
            let reason = match &error {
                EndpointError::Auth { .. } => Reason::AgentAuthFailed,
                EndpointError::NoModel { .. } => Reason::ModelNotFound,
                EndpointError::Cancelled => Reason::Cancelled,
                _ => Reason::ApiFailed,
            };
            (reason, error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy;

    #[test]
    fn ends_follow_the_policies() {
        for end in [End::Submitted, End::StepLimit, End::CostLimit, End::TokenLimit] {
            assert_eq!(meaning(end, 1.0), None);
        }
        for (end, reason) in [
            (End::ContextOverflow, Reason::ContextOverflow),
            (End::FormatErrors, Reason::AgentError),
            (End::OutputOverflow, Reason::OutputOverflow),
            (End::Declined, Reason::AgentRefused),
            (End::Timeout, Reason::AgentTimeout),
        ] {
            let (found, _) = meaning(end, 1.0).unwrap();
            assert_eq!(found, reason);
            let policy = policy(reason);
            assert!(policy.should_grade && policy.has_valid_reward && !policy.should_retry, "{end:?}");
        }
        let endpoint = |error| broken_failure(Broken::Endpoint(error)).0;
        let exhausted = EndpointError::Exhausted { tries: 1, detail: String::new() };
        assert_eq!(endpoint(exhausted), Reason::ApiFailed);
        assert!(policy(Reason::ApiFailed).should_retry && !policy(Reason::ApiFailed).has_valid_reward);
        let auth = EndpointError::Auth { status: 401, detail: String::new() };
        assert_eq!(endpoint(auth), Reason::AgentAuthFailed);
        assert!(!policy(Reason::AgentAuthFailed).should_grade);
    }
}
