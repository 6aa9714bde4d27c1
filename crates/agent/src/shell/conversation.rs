//! What to do next: a function from what was said so far.

use std::time::Duration;

use sandbox::{ExecOutcome, ExitStatus};

use super::prompts::Seen;
use super::protocol::Problem;
use super::{PromptError, Prompts, Protocol, SUBMIT};
use crate::{Answer, Message, Role};

/// How the agent works.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rules {
    /// How the model gives its command.
    pub protocol: Protocol,
    /// What it is told.
    pub prompts: Prompts,
    /// How far it may go.
    pub limits: Limits,
    /// Whether a command begins in the working directory and with the environment in which the one before it ended.
    pub persistent: bool,
}

/// How far the agent may go. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Answers of the model.
    pub steps: Option<u32>,
    /// Dollars, as far as costs are known.
    pub cost_usd: Option<f64>,
    /// Tokens of the conversation, as the endpoint counts them: the context budget.
    pub context: Option<u64>,
    /// Tokens of all prompts and answers together.
    pub tokens: Option<u64>,
    /// How long one command may run.
    pub command: Duration,
    /// Bytes of a command's output that the model sees: one half from the beginning, one from the end.
    pub output: usize,
    /// So many answers in a row without a command that can be run end the work.
    pub format_errors: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps: None,
            cost_usd: None,
            context: None,
            tokens: None,
            command: Duration::from_secs(300),
            output: 16 << 10,
            format_errors: 4,
        }
    }
}

/// How the work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The model said that it is done.
    Submitted,
    /// It had as many answers as it may have.
    StepLimit,
    /// It cost as much as it may.
    CostLimit,
    /// It used as many tokens as it may.
    TokenLimit,
    /// The conversation grew to its budget, or out of the model's context.
    ContextOverflow,
    /// It gave no command that can be run, too often in a row.
    FormatErrors,
    /// The same, and the last answer was cut at its length limit.
    OutputOverflow,
    /// The model or its server declined to go on.
    Declined,
    /// The time was over.
    Timeout,
}

impl End {
    /// The name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::StepLimit => "step_limit",
            Self::CostLimit => "cost_limit",
            Self::TokenLimit => "token_limit",
            Self::ContextOverflow => "context_overflow",
            Self::FormatErrors => "format_errors",
            Self::OutputOverflow => "output_overflow",
            Self::Declined => "declined",
            Self::Timeout => "timeout",
        }
    }
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Ask the model.
    Ask,
    /// Run a command and tell what came of it.
    Run(Command),
    /// Nothing: the work has ended.
    End(End),
}

/// A command of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The call that it came in.
    pub call: Option<String>,
    /// The text for the shell.
    pub script: String,
}

/// The conversation with the model, and what follows from it.
#[derive(Debug, Clone)]
pub struct Conversation {
    rules: Rules,
    messages: Vec<Message>,
    steps: u32,
    /// Tokens of the last prompt and its answer.
    context: u64,
    tokens: u64,
    cost_usd: f64,
    format_errors: u32,
    /// The call that waits for what its command gives, where the command came in one.
    open: Option<String>,
    /// What the surroundings said in reply to the last answer.
    heard: Vec<Heard>,
}

/// Something that the surroundings said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// The call that it replies to.
    pub call: Option<String>,
    /// Its text.
    pub text: String,
}

impl Conversation {
    /// Begins with a task.
    pub fn new(rules: Rules, instruction: &str) -> Result<Self, PromptError> {
        let messages = vec![
            Message::text(Role::System, rules.prompts.system(rules.protocol, rules.persistent)?),
            Message::text(Role::User, rules.prompts.task(rules.protocol, instruction)?),
        ];
        Ok(Self {
            rules,
            messages,
            steps: 0,
            context: 0,
            tokens: 0,
            cost_usd: 0.0,
            format_errors: 0,
            open: None,
            heard: Vec::new(),
        })
    }

    /// What was said so far.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Answers of the model so far.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// What the surroundings said in reply to the last answer.
    pub fn heard(&self) -> &[Heard] {
        &self.heard
    }

    /// What to do before the first answer.
    pub fn begin(&self) -> Next {
        self.ask()
    }

    /// Takes an answer.
    ///
    /// An answer with which the conversation outgrows its budget is no longer acted on: a model with a context of that size
    /// would not have come to its end.
    pub fn answered(&mut self, answer: &Answer) -> Result<Next, PromptError> {
        self.steps += 1;
        self.heard.clear();
        self.messages.push(answer.message());
        self.cost_usd += answer.cost_usd.unwrap_or(0.0);
        // Without the server's own count its token numbers are as good; without both nothing is known of this turn.
        let counted = answer.usage.map(|usage| usage.prompt + usage.completion);
        let recorded =
            || answer.tokens.as_ref().map(|tokens| (tokens.prompt.len() + tokens.completion.len()) as u64);
        if let Some(both) = counted.or_else(recorded) {
            self.context = both;
            self.tokens += both;
        }
        if answer.finish.as_deref() == Some("content_filter") {
            return Ok(Next::End(End::Declined));
        }
        if self.rules.limits.context.is_some_and(|most| self.context > most) {
            return Ok(Next::End(End::ContextOverflow));
        }
        match self.rules.protocol.find(answer) {
            Ok(found) if found.script.trim() == SUBMIT => Ok(Next::End(End::Submitted)),
            Ok(found) => {
                self.format_errors = 0;
                self.open.clone_from(&found.call);
                self.leave_out(answer, found.call.as_deref());
                Ok(Next::Run(Command { call: found.call, script: found.script }))
            }
            Err(problem) => self.correct(answer, problem),
        }
    }

    /// Takes what a command gave.
    pub fn observed(&mut self, ran: &ExecOutcome) -> Result<Next, PromptError> {
        let limit = self.rules.limits.command.as_secs_f64();
        let status = match ran.status {
            ExitStatus::Code(code) => format!("exit status {code}"),
            ExitStatus::Signal(signal) => format!("ended by signal {signal}"),
            ExitStatus::Timeout => {
                format!("stopped after its limit of {limit} s, with everything that it had started")
            }
        };
        let output = String::from_utf8_lossy(&ran.stdout.bytes);
        let text = self.rules.prompts.observation(Seen { status: &status, output: &output })?;
        let call = self.open.take();
        self.say(call, text, true);
        Ok(self.ask())
    }

    /// Whether the model may be asked once more.
    fn ask(&self) -> Next {
        let limits = &self.rules.limits;
        if limits.steps.is_some_and(|most| self.steps >= most) {
            Next::End(End::StepLimit)
        } else if limits.cost_usd.is_some_and(|most| self.cost_usd >= most) {
            Next::End(End::CostLimit)
        } else if limits.tokens.is_some_and(|most| self.tokens >= most) {
            Next::End(End::TokenLimit)
        } else if limits.context.is_some_and(|most| self.context >= most) {
            Next::End(End::ContextOverflow)
        } else {
            Next::Ask
        }
    }

    /// Tells the model what is wrong with its answer.
    fn correct(&mut self, answer: &Answer, problem: Problem) -> Result<Next, PromptError> {
        self.format_errors += 1;
        let is_cut = answer.finish.as_deref() == Some("length");
        if self.format_errors >= self.rules.limits.format_errors {
            return Ok(Next::End(if is_cut { End::OutputOverflow } else { End::FormatErrors }));
        }
        let Problem { call, mut what } = problem;
        if is_cut {
            what.push_str(", and it was cut at its length limit; say less");
        }
        let text = self.rules.prompts.format_error(self.rules.protocol, &what)?;
        self.leave_out(answer, call.as_deref());
        self.say(call, text, true);
        Ok(self.ask())
    }

    /// Replies to the calls that are not run: a server refuses conversations with calls that nobody replied to.
    fn leave_out(&mut self, answer: &Answer, acted_on: Option<&str>) {
        let mut acted_on = acted_on;
        for call in &answer.calls {
            if acted_on == Some(call.id.as_str()) {
                acted_on = None;
                continue;
            }
            let text = "Not run: one command a turn is.".to_owned();
            self.say(Some(call.id.clone()), text, false);
        }
    }

    /// Adds what the surroundings say; what a command gave stands before what was said while it ran.
    fn say(&mut self, call: Option<String>, text: String, first: bool) {
        let message = match &call {
            Some(id) => Message::result(id.clone(), text.clone()),
            None => Message::text(Role::User, text.clone()),
        };
        let behind = if first { self.heard.len() } else { 0 };
        self.messages.insert(self.messages.len() - behind, message);
        self.heard.insert(self.heard.len() - behind, Heard { call, text });
    }
}

#[cfg(test)]
mod tests {
    use sandbox::Output;

    use super::*;
    use crate::{ToolCall, Usage};

    fn rules(limits: Limits) -> Rules {
        Rules { protocol: Protocol::Fenced, limits, ..Rules::default() }
    }

    fn says(text: &str, tokens: u64) -> Answer {
        let usage = Some(Usage { prompt: tokens, completion: 0, cached: None });
        Answer { text: text.into(), usage, ..Answer::default() }
    }

    fn gives(output: &str) -> ExecOutcome {
        let stdout = Output { bytes: output.into(), total: output.len() as u64 };
        let (status, wall) = (ExitStatus::Code(0), Duration::ZERO);
        ExecOutcome { status, stdout, stderr: Output::default(), wall }
    }

    const LS: &str = "```bash\nls\n```";

    #[test]
    fn commands_run_until_the_model_submits() {
        let mut talk = Conversation::new(rules(Limits::default()), "do it").unwrap();
        assert_eq!(talk.begin(), Next::Ask);
        let run = Command { call: None, script: "ls\n".into() };
        assert_eq!(talk.answered(&says(LS, 10)).unwrap(), Next::Run(run));
        assert_eq!(talk.observed(&gives("a\n")).unwrap(), Next::Ask);
        assert!(talk.messages().last().unwrap().content.contains("exit status 0"));
        assert_eq!(talk.answered(&says("```bash\n submit \n```", 20)).unwrap(), Next::End(End::Submitted));
        let roles: Vec<_> = talk.messages().iter().map(|message| message.role).collect();
        assert_eq!(roles, [Role::System, Role::User, Role::Assistant, Role::User, Role::Assistant]);
    }

    #[test]
    fn each_limit_ends_the_work_by_its_own_name() {
        let end = |limits: Limits, answer: Answer| {
            let mut talk = Conversation::new(rules(limits), "x").unwrap();
            match talk.answered(&answer).unwrap() {
                Next::Run(_) => talk.observed(&gives("")).unwrap(),
                other => other,
            }
        };
        let none = Limits::default();
        assert_eq!(end(none, says(LS, 10)), Next::Ask);
        assert_eq!(end(Limits { steps: Some(1), ..none }, says(LS, 10)), Next::End(End::StepLimit));
        let dear = Answer { cost_usd: Some(0.5), ..says(LS, 10) };
        assert_eq!(end(Limits { cost_usd: Some(0.5), ..none }, dear), Next::End(End::CostLimit));
        assert_eq!(end(Limits { tokens: Some(10), ..none }, says(LS, 10)), Next::End(End::TokenLimit));
        for tokens in [10, 11] {
            let limits = Limits { context: Some(10), ..none };
            assert_eq!(end(limits, says(LS, tokens)), Next::End(End::ContextOverflow));
        }
        let filtered = Answer { finish: Some("content_filter".into()), ..says("", 1) };
        assert_eq!(end(none, filtered), Next::End(End::Declined));
    }

    #[test]
    fn a_submission_within_the_budget_counts_and_one_beyond_it_does_not() {
        let limits = Limits { context: Some(10), ..Limits::default() };
        let submit = |tokens| {
            let mut talk = Conversation::new(rules(limits), "x").unwrap();
            talk.answered(&says("```bash\nsubmit\n```", tokens)).unwrap()
        };
        assert_eq!(submit(10), Next::End(End::Submitted));
        assert_eq!(submit(11), Next::End(End::ContextOverflow));
    }

    #[test]
    fn answers_without_a_command_are_corrected_until_there_are_too_many() {
        let mut talk =
            Conversation::new(rules(Limits { format_errors: 2, ..Limits::default() }), "x").unwrap();
        assert_eq!(talk.answered(&says("hm", 1)).unwrap(), Next::Ask);
        assert!(talk.heard()[0].text.starts_with("Nothing was run: the answer has no fenced block"));
        assert!(matches!(talk.answered(&says(LS, 1)).unwrap(), Next::Run(_)));
        talk.observed(&gives("")).unwrap();
        assert_eq!(talk.answered(&says("hm", 1)).unwrap(), Next::Ask, "in a row");
        let cut = Answer { finish: Some("length".into()), ..says("hm", 1) };
        assert_eq!(talk.clone().answered(&cut).unwrap(), Next::End(End::OutputOverflow));
        assert_eq!(talk.answered(&says("hm", 1)).unwrap(), Next::End(End::FormatErrors));
    }

    #[test]
    fn every_call_gets_a_reply_and_only_the_first_is_run() {
        let mut talk = Conversation::new(Rules::default(), "x").unwrap();
        let call = |id: &str| ToolCall {
            id: id.into(),
            name: "bash".into(),
            arguments: r#"{"command":"ls"}"#.into(),
        };
        let answer = Answer { calls: vec![call("a"), call("b")], ..Answer::default() };
        assert!(
            matches!(talk.answered(&answer).unwrap(), Next::Run(Command { call: Some(id), .. }) if id == "a")
        );
        talk.observed(&gives("x")).unwrap();
        let replies: Vec<_> =
            talk.messages()[3..].iter().map(|message| message.tool_call_id.as_deref()).collect();
        assert_eq!(replies, [Some("a"), Some("b")]);
        assert_eq!(talk.heard().len(), 2);
        let wrong = ToolCall { arguments: "{".into(), ..call("c") };
        assert_eq!(
            talk.answered(&Answer { calls: vec![wrong, call("d")], ..Answer::default() }).unwrap(),
            Next::Ask
        );
        let last: Vec<_> = talk.heard().iter().map(|heard| heard.call.as_deref()).collect();
        assert_eq!(last, [Some("c"), Some("d")]);
    }
}
