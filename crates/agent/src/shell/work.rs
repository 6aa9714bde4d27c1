//! The work itself: the model is asked, its commands are run, and everything is written down.

use std::future::Future;
use std::io;
use std::time::Instant;

use jiff::Timestamp;
use sandbox::{Capture, ExecOutcome, ExecSpec};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Command, Conversation, End, Next, PromptError};
use crate::endpoint::{Ask, Client, EndpointError, Wire};
use crate::{AgentStep, Answer, Trajectory};

/// The variable in which a command comes to the shell that keeps its state.
const VARIABLE: &str = "SEATRIAL_COMMAND";

/// Runs a command where the one before it ended, and notes where it ends itself. The state is that of the shell which wrote it,
/// and both are always the same one.
const PERSISTENT: &str = r#"
if [ -r /tmp/.seatrial-shell ]; then . /tmp/.seatrial-shell; cd "$SEATRIAL_PWD" 2>/dev/null; fi
trap 'SEATRIAL_STATUS=$?; export SEATRIAL_PWD="$PWD"; unset SEATRIAL_COMMAND; export -p >/tmp/.seatrial-shell; exit $SEATRIAL_STATUS' EXIT
eval "$SEATRIAL_COMMAND"
"#;

/// Where commands are run.
pub trait Commands: Sync {
    /// Why one cannot be.
    type Error: Send;

    /// Runs a script with a shell. `command` says everything else about it; a timeout is an outcome.
    fn run(
        &self,
        script: &str,
        command: ExecSpec,
    ) -> impl Future<Output = Result<ExecOutcome, Self::Error>> + Send;
}

/// One attempt at a task.
#[derive(Debug)]
pub struct Session<'a> {
    /// The model.
    pub client: &'a Client,
    /// Its name, which the endpoint is told.
    pub name: &'a str,
    /// The seed of the attempt.
    pub seed: Option<u64>,
    /// The user that commands run as; the image's own when absent.
    pub user: Option<String>,
    /// When the time is over.
    pub deadline: Option<Instant>,
    /// Stops the work.
    pub stop: &'a CancellationToken,
    /// Where the bytes of the wire are kept.
    pub wire: Option<Wire>,
}

/// What the model used. A sum is unknown as soon as one of its parts is.
#[derive(Debug, Clone, PartialEq)]
pub struct Totals {
    /// Tokens of all prompts.
    pub prompt: Option<u64>,
    /// Tokens of all answers.
    pub completion: Option<u64>,
    /// Tokens of prompts that came from a cache.
    pub cached: Option<u64>,
    /// Dollars.
    pub cost_usd: Option<f64>,
    /// Answers.
    pub steps: u32,
}

impl Default for Totals {
    fn default() -> Self {
        Self { prompt: Some(0), completion: Some(0), cached: Some(0), cost_usd: Some(0.0), steps: 0 }
    }
}

impl Totals {
    fn add(&mut self, answer: &Answer) {
        let sum = |total: Option<u64>, part: Option<u64>| Some(total? + part?);
        self.prompt = sum(self.prompt, answer.usage.map(|usage| usage.prompt));
        self.completion = sum(self.completion, answer.usage.map(|usage| usage.completion));
        self.cached = sum(self.cached, answer.usage.and_then(|usage| usage.cached));
        self.cost_usd = self.cost_usd.zip(answer.cost_usd).map(|(total, part)| total + part);
        self.steps += 1;
    }
}

/// Why the work did not come to an end of its own.
#[derive(Debug, thiserror::Error)]
pub enum Broken<E> {
    /// The endpoint.
    #[error(transparent)]
    Endpoint(EndpointError),
    /// The sandbox.
    #[error("a command could not be run")]
    Commands(E),
    /// The trajectory.
    #[error("the trajectory cannot be written: {0}")]
    Trajectory(#[from] io::Error),
    /// A template.
    #[error(transparent)]
    Prompt(#[from] PromptError),
}

/// What the work came to.
#[derive(Debug)]
pub struct Worked<E> {
    /// How it ended.
    pub end: Result<End, Broken<E>>,
    /// What the model used.
    pub totals: Totals,
}

/// Works until the conversation ends, the time is over or something breaks. Everything up to then is in the trajectory.
pub async fn work<C: Commands>(
    session: &Session<'_>,
    conversation: &mut Conversation,
    commands: &C,
    trajectory: &mut Trajectory,
) -> Worked<C::Error> {
    let mut totals = Totals::default();
    let tools = conversation.rules().protocol.tools();
    let end = turns(session, conversation, &tools, commands, trajectory, &mut totals).await;
    Worked { end, totals }
}

async fn turns<C: Commands>(
    session: &Session<'_>,
    conversation: &mut Conversation,
    tools: &[Value],
    commands: &C,
    trajectory: &mut Trajectory,
    totals: &mut Totals,
) -> Result<End, Broken<C::Error>> {
    let mut next = conversation.begin();
    loop {
        next = match next {
            Next::End(end) => return Ok(end),
            Next::Ask => {
                let Some(answer) = ask(session, conversation, tools).await? else { return Ok(End::Timeout) };
                let answer = match answer {
                    Ok(answer) => answer,
                    Err(end) => return Ok(end),
                };
                totals.add(&answer);
                trajectory.answered(AgentStep { answer: &answer, at: Timestamp::now(), totals })?;
                let next = conversation.answered(&answer)?;
                if !matches!(next, Next::Run(_)) {
                    trajectory.heard(conversation.heard())?;
                }
                next
            }
            Next::Run(command) => {
                let (script, spec) = prepare(session, conversation, command);
                if spec.timeout.is_some_and(|left| left.is_zero()) {
                    return Ok(End::Timeout);
                }
                let ran = commands.run(&script, spec).await.map_err(Broken::Commands)?;
                let next = conversation.observed(&ran)?;
                trajectory.heard(conversation.heard())?;
                next
            }
        };
    }
}

/// An answer, or the end that the endpoint's word means; `None` when the time is over first.
async fn ask<E>(
    session: &Session<'_>,
    conversation: &Conversation,
    tools: &[Value],
) -> Result<Option<Result<Answer, End>>, Broken<E>> {
    let ask = Ask {
        session: session.name,
        turn: conversation.steps() as usize + 1,
        messages: conversation.messages(),
        tools,
        seed: session.seed,
        wire: session.wire.as_ref(),
    };
    let answer = session.client.complete(ask, session.stop);
    let answer = match session.deadline {
        None => answer.await,
        Some(deadline) => match tokio::time::timeout_at(deadline.into(), answer).await {
            Ok(answer) => answer,
            Err(_) => return Ok(None),
        },
    };
    match answer {
        Ok(answer) => Ok(Some(Ok(answer))),
        Err(EndpointError::Overflow(_)) => Ok(Some(Err(End::ContextOverflow))),
        Err(EndpointError::Declined(_)) => Ok(Some(Err(End::Declined))),
        Err(error) => Err(Broken::Endpoint(error)),
    }
}

/// What is handed to a shell for a command.
fn prepare(session: &Session<'_>, conversation: &Conversation, command: Command) -> (String, ExecSpec) {
    let limits = &conversation.rules().limits;
    let left = session.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let mut spec = ExecSpec {
        user: session.user.clone(),
        timeout: Some(left.map_or(limits.command, |left| left.min(limits.command))),
        capture: Capture { limit: limits.output, merge: true },
        ..ExecSpec::default()
    };
    if !conversation.rules().persistent {
        return (command.script, spec);
    }
    spec.env.insert(VARIABLE.into(), command.script);
    (PERSISTENT.to_owned(), spec)
}
