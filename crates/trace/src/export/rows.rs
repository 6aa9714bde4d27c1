//! The rows of one trial.

use std::sync::Arc;

use job::Directory;

use super::index::{Index, Indexed};
use super::{Episodes, ExportOptions};
use crate::TraceError;
use crate::conversation::{Conversation, Rules};
use crate::json::Mended;
use crate::row::{MAIN, Message, Row, Text};
use crate::trajectory::{Content, Speaker, Trajectory};
use crate::trial::{Fault, Source, lone, sources, steps_of, verifier_output};

/// The agents of Harbor 0.26 that leave trajectories in ATIF. At all others its exporter stops.
const WITH_TRAJECTORY: [&str; 38] = [
    "acp",
    "antigravity-cli",
    "antigravity-sdk",
    "claude-code",
    "cline-cli",
    "codex",
    "computer-1",
    "copilot-cli",
    "cortex-code",
    "cursor-cli",
    "devin",
    "eve",
    "fx",
    "fx-dev",
    "gemini-cli",
    "goose",
    "grok-build",
    "hermes",
    "junie",
    "kimi-cli",
    "kimi-code",
    "mimo",
    "mini-swe-agent",
    "muse-code",
    "nemo-agent",
    "openclaw",
    "opencode",
    "opencode-v2",
    "openhands",
    "openhands-sdk",
    "pi",
    "qwen-coder",
    "rovodev-cli",
    "strands",
    "swe-agent",
    "terminus-2",
    "trae-agent",
    "vibe",
];
/// The agents of Harbor 0.26 that leave none.
const WITHOUT_TRAJECTORY: [&str; 11] = [
    "aider",
    "code-puppy",
    "deerflow",
    "dspy-rlm",
    "fabric",
    "langgraph",
    "mcode",
    "nop",
    "oracle",
    "terminus",
    "terminus-1",
];

/// What became of one trial.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub(super) rows: Vec<Draft>,
    /// Why there are none.
    pub(super) none: Option<NoRows>,
    pub(super) faults: Vec<Fault>,
    pub(super) mended: Mended,
    pub(super) media: u64,
}

/// A row that shares its conversation with others: the texts of a trial grow with its turns, those of its rows with their square.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    /// Everything but the messages.
    row: Row,
    conversation: Arc<Conversation>,
    /// Which turn it ends with; `None` for the whole conversation.
    turn: Option<usize>,
}

impl Draft {
    fn messages(&self) -> &[Message] {
        self.turn.map_or_else(|| self.conversation.whole(), |turn| self.conversation.up_to(turn))
    }

    /// The row with its messages, whose texts are shared.
    pub(super) fn row(&self) -> Row {
        Row { conversations: self.messages().to_vec(), ..self.row.clone() }
    }

    pub(super) fn is_main(&self) -> bool {
        self.row.is_main()
    }
}

impl PartialEq for Draft {
    fn eq(&self, other: &Self) -> bool {
        self.row == other.row && self.messages() == other.messages()
    }
}

/// Why a trial has no rows.
#[derive(Debug)]
pub(super) enum NoRows {
    /// There is no trajectory.
    NoTrajectory,
    /// The agent had no turn.
    NoTurn,
    /// It is malformed.
    Malformed(String),
}

/// Makes the rows of a trial.
pub(super) fn rows(index: &Index, trial: &Indexed, options: ExportOptions) -> Result<Made, TraceError> {
    let mut out = Made::default();
    let directory = match index.roots[trial.place.root].below(&trial.place.names) {
        Ok(directory) => directory,
        Err(error) => {
            out.none = Some(NoRows::Malformed(format!("cannot be opened any more: {error}")));
            return Ok(out);
        }
    };
    if options.harbor {
        as_harbor(&directory, trial, options, &mut out)?;
        return Ok(out);
    }
    if let Some(file) = &trial.place.file {
        match lone(&directory, file, &mut out.mended) {
            Ok(source) => conversations(&[source], None, trial, options, None, &mut out),
            Err(fault) => out.none = Some(NoRows::Malformed(fault.detail)),
        }
        if out.rows.is_empty() && out.none.is_none() {
            out.none = Some(NoRows::NoTurn);
        }
        return Ok(out);
    }
    let verifier = verifier_text(&directory, options, &mut out.faults);
    let mut found = 0;
    let mut add =
        |directory: &Directory, step: Option<&str>, verifier: Option<Text>, out: &mut Made| match sources(
            directory,
            options.helpers,
            &mut out.mended,
            &mut out.faults,
        ) {
            Ok(sources) => {
                found += sources.len();
                conversations(&sources, step, trial, options, verifier.as_ref(), out);
                true
            }
            Err(fault) => {
                out.rows.clear();
                out.none = Some(NoRows::Malformed(fault.to_string()));
                false
            }
        };
    if !add(&directory, None, verifier.clone(), &mut out) {
        return Ok(out);
    }
    for (name, step) in steps_of(&directory, &mut out.faults) {
        let own = verifier_text(&step, options, &mut out.faults).or_else(|| verifier.clone());
        if !add(&step, Some(&name.to_string_lossy()), own, &mut out) {
            return Ok(out);
        }
    }
    if out.rows.is_empty() {
        out.none = Some(if found == 0 { NoRows::NoTrajectory } else { NoRows::NoTurn });
    }
    out.rows.sort_by_cached_key(|draft| draft.row.key());
    Ok(out)
}

fn verifier_text(directory: &Directory, options: ExportOptions, faults: &mut Vec<Fault>) -> Option<Text> {
    options.verifier_output.then(|| verifier_output(directory, faults)).flatten().map(Text::from)
}

/// Makes rows of every conversation in one directory.
fn conversations(
    sources: &[Source],
    step: Option<&str>,
    trial: &Indexed,
    options: ExportOptions,
    verifier: Option<&Text>,
    out: &mut Made,
) {
    let rules = if options.harbor { Rules::Harbor } else { Rules::Whole };
    let first = sources.first().filter(|source| source.is_main()).and_then(|source| source.chain.first());
    let instruction = first.filter(|_| options.instruction).and_then(|first| instruction(first, rules));
    for source in sources {
        let name: Text = match step {
            Some(step) if source.is_main() => step.into(),
            Some(step) => format!("{step}/{}", source.name).into(),
            None => source.name.as_str().into(),
        };
        let mut episode = 0;
        let begin = out.rows.len();
        for document in &source.chain {
            out.media += document.media;
            let conversation =
                Arc::new(Conversation::new(document, rules, source.is_main(), options.system_role));
            let row = Row {
                trace_source: Some(name.clone()),
                ..self::row(document, trial, options, source.is_main())
            };
            let row = Row { instruction: instruction.clone(), verifier_output: verifier.cloned(), ..row };
            let draft = |turn: Option<usize>, episode: usize| Draft {
                row: Row { episode: Some(format!("episode-{episode}").into()), ..row.clone() },
                conversation: Arc::clone(&conversation),
                turn,
            };
            if !source.is_main() {
                if conversation.episodes() > 0 {
                    out.rows.push(draft(None, 0));
                }
                continue;
            }
            match options.episodes {
                Episodes::All => {
                    for at in 0..conversation.episodes() {
                        out.rows.push(draft(Some(at), episode + at));
                    }
                }
                Episodes::Last => {
                    if let Some(last) = conversation.episodes().checked_sub(1) {
                        out.rows.truncate(begin);
                        out.rows.push(draft(Some(last), episode + last));
                    }
                }
            }
            episode += conversation.episodes();
        }
    }
}

/// What all rows of a document have in common.
fn row(document: &Trajectory, trial: &Indexed, options: ExportOptions, is_main: bool) -> Row {
    let text = |text: &Option<String>| text.as_deref().map(Text::from);
    let head = &trial.head;
    let agent = if is_main { text(&document.agent).or_else(|| text(&head.agent)) } else { text(&head.agent) };
    let fallback = |value: Option<Text>, name: &str| match value {
        None if options.harbor => Some(name.into()),
        value => value,
    };
    Row {
        agent: agent.or_else(|| text(&document.agent)),
        model: fallback(text(&document.model).or_else(|| text(&head.model)), "unknown-model"),
        model_provider: fallback(text(&head.provider), "unknown-provider"),
        date: fallback(text(&head.started_at), ""),
        task: text(&head.task),
        run_id: Some(trial.run_id.clone()),
        trial_name: Some(trial.trial_name.clone()),
        result: trial.result.clone(),
        reward: trial.head.counted_reward().map(|reward| job::python_float(reward).into()),
        tool_definitions: document
            .tools
            .as_ref()
            .filter(|_| options.tools || options.harbor)
            .map(|tools| tools.compact.as_str().into()),
        ..Row::default()
    }
}

/// What the agent was asked to do: the first text of a user, trimmed; to Harbor the first text of anybody.
fn instruction(first: &Trajectory, rules: Rules) -> Option<Text> {
    let texts = |of: Option<Speaker>| {
        let steps = first.steps.iter().filter(move |step| of.is_none_or(|of| step.source == of));
        steps
            .filter_map(|step| match (&step.message, rules) {
                (Content::Text(text), _) => Some(std::borrow::Cow::Borrowed(text.as_str())),
                (content, Rules::Whole) => Some(content.text()),
                (_, Rules::Harbor) => None,
            })
            .map(|text| text.trim().to_owned())
            .find(|text| !text.is_empty())
    };
    let asked = match rules {
        Rules::Whole => texts(Some(Speaker::User)),
        Rules::Harbor => None,
    };
    asked.or_else(|| texts(None)).map(Text::from)
}

/// Makes the rows that Harbor's exporter makes, or stops where it stops.
fn as_harbor(
    directory: &Directory,
    trial: &Indexed,
    options: ExportOptions,
    out: &mut Made,
) -> Result<(), TraceError> {
    let stop = |detail: String| TraceError::Harbor { trial: trial.trial_name.to_string(), detail };
    match trial.head.agent.as_deref() {
        Some(agent) if WITHOUT_TRAJECTORY.contains(&agent) => {
            return Err(stop(format!("its agent {agent} leaves no trajectory")));
        }
        Some(agent) if !WITH_TRAJECTORY.contains(&agent) => {
            return Err(stop(format!("Harbor has no agent {agent}")));
        }
        _ => {}
    }
    let sources = match sources(directory, options.helpers, &mut out.mended, &mut out.faults) {
        Ok(sources) => sources,
        // Without an instruction to look for, the broken file is passed over.
        Err(fault) if options.instruction => return Err(stop(fault.to_string())),
        Err(fault) => {
            out.none = Some(NoRows::Malformed(fault.to_string()));
            return Ok(());
        }
    };
    let embedded = |source: &Source| source.name.starts_with("subagent-");
    if sources.iter().flat_map(|source| &source.chain).any(|document| document.media > 0) {
        return Err(stop("it holds an image or a sound".into()));
    }
    let sources: Vec<_> = sources.into_iter().filter(|source| !embedded(source)).collect();
    let verifier = verifier_text(directory, options, &mut out.faults);
    conversations(&sources, None, trial, options, verifier.as_ref(), out);
    if out.rows.is_empty() {
        out.none = Some(if sources.is_empty() { NoRows::NoTrajectory } else { NoRows::NoTurn });
    }
    out.rows.sort_by_cached_key(|draft| draft.row.key());
    debug_assert!(out.rows.iter().all(|draft| draft.row.trace_source.is_some()), "{MAIN} at least");
    Ok(())
}
