//! Steps turned into the messages of a row.
//!
//! | step | messages |
//! |---|---|
//! | `system` | `user`; the first one is led by the tools, in `<tools>` marks |
//! | `user` | `user` |
//! | `agent` | `assistant`: thoughts in `<think>` marks, the text, every call in `<tool_call>` marks, a line each |
//! | what the agent's calls gave | `user`, a line each; left out behind the last turn of a row |
//!
//! These are the rules of Harbor 0.26, whose rows the field's sets consist of.

use std::sync::Arc;

use crate::row::{Message, Role, Text};
use crate::trajectory::{Content, Observed, Part, Speaker, Step, ToolCall, Trajectory};

/// Whose rules hold where Harbor loses something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rules {
    /// Of an observation of several parts only the first is kept.
    Harbor,
    /// All parts are kept.
    Whole,
}

/// The conversations of one document, one an episode, each with its messages.
#[derive(Debug)]
pub(crate) struct Conversation {
    messages: Vec<Message>,
    /// For every turn, how many messages its row has.
    ends: Vec<usize>,
}

impl Conversation {
    /// Turns all steps of a document into messages.
    pub(crate) fn new(trajectory: &Trajectory, rules: Rules, with_tools: bool, system_role: bool) -> Self {
        let mut tools = trajectory.tools.as_ref().filter(|_| with_tools);
        let mut conversation = Self { messages: Vec::new(), ends: Vec::new() };
        for step in &trajectory.steps {
            match step.source {
                Speaker::System => {
                    let text = step.message.text();
                    let text = match tools.take() {
                        Some(tools) => format!("<tools>\n{}\n</tools>\n\n{text}", tools.indented).into(),
                        None => text,
                    };
                    let role = if system_role { Role::named("system") } else { Role::User };
                    conversation.push(role, text);
                }
                Speaker::User => conversation.push(Role::User, step.message.text()),
                Speaker::Agent => {
                    conversation.push(Role::Assistant, assistant(step));
                    if !step.copied {
                        conversation.ends.push(conversation.messages.len());
                    }
                    if !step.results.is_empty() {
                        conversation.push(Role::User, observation(&step.results, rules));
                    }
                }
            }
        }
        conversation
    }

    fn push(&mut self, role: Role, content: impl Into<Text>) {
        self.messages.push(Message { role, content: content.into() });
    }

    /// How many episodes there are.
    pub(crate) fn episodes(&self) -> usize {
        self.ends.len()
    }

    /// The messages up to the turn with this number.
    pub(crate) fn up_to(&self, episode: usize) -> &[Message] {
        &self.messages[..self.ends[episode]]
    }

    /// All messages, with what the last turn's calls gave.
    pub(crate) fn whole(&self) -> &[Message] {
        &self.messages
    }
}

/// What the agent said in one step.
pub(crate) fn assistant(step: &Step) -> Text {
    let mut parts: Vec<std::borrow::Cow<'_, str>> = Vec::new();
    if let Some(reasoning) = step.reasoning.as_deref().filter(|reasoning| !reasoning.is_empty()) {
        parts.push(format!("<think>{reasoning}</think>").into());
    }
    let message = step.message.text();
    if !message.is_empty() {
        parts.push(message);
    }
    parts.extend(step.calls.iter().map(|call| tool_call(call).into()));
    let text = parts.join("\n");
    // Some models leave out the mark that a template puts in front for them.
    if text.contains("</think>") && !text.contains("<think>") {
        return format!("<think>{text}").into();
    }
    text.into()
}

/// A call as text.
pub(crate) fn tool_call(call: &ToolCall) -> String {
    let mut name = String::new();
    crate::json::compact(&crate::json::Json::Text(call.name.as_str().into()), &mut name);
    format!("<tool_call>\n{{\"name\": {name}, \"arguments\": {}}}\n</tool_call>", call.arguments)
}

/// What came back, a line each.
pub(crate) fn observation(results: &[Observed], rules: Rules) -> Text {
    let texts: Vec<_> = results
        .iter()
        .filter_map(|result| result.content.as_ref())
        .map(|content| match (content, rules) {
            (Content::Parts(parts), Rules::Harbor) => {
                parts.first().and_then(Part::text).unwrap_or_default().into()
            }
            _ => content.text(),
        })
        .collect();
    Arc::from(texts.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Mended, parse};
    use crate::trajectory::from_json;

    fn conversation(steps: &str, rules: Rules) -> Conversation {
        let text = format!("{{\"agent\": {{\"tool_definitions\": [1]}}, \"steps\": [{steps}]}}");
        let trajectory = from_json(parse(&text, &mut Mended::default()).unwrap()).unwrap();
        Conversation::new(&trajectory, rules, true, false)
    }

    const STEPS: &str = r#"{"source": "system", "message": "s"}, {"source": "user", "message": "u"},
        {"source": "agent", "message": "half</think>x", "observation": {"results": [{"content":
        [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}, {}]}},
        {"source": "agent", "message": "copied", "is_copied_context": true},
        {"source": "agent", "message": "", "reasoning_content": "r", "tool_calls":
        [{"function_name": "b\"", "arguments": {}}]}"#;

    #[test]
    fn a_row_ends_with_its_turn() {
        let conversation = conversation(STEPS, Rules::Whole);
        assert_eq!(conversation.episodes(), 2);
        let first = conversation.up_to(0);
        let texts: Vec<_> = first.iter().map(|message| &*message.content).collect();
        assert_eq!(texts, ["<tools>\n[\n  1\n]\n</tools>\n\ns", "u", "<think>half</think>x"]);
        let last = conversation.up_to(1);
        assert_eq!(&*last[3].content, "one\ntwo");
        assert_eq!(
            &*last.last().unwrap().content,
            "<think>r</think>\n<tool_call>\n{\"name\": \"b\\\"\", \"arguments\": {}}\n</tool_call>"
        );
        assert!(Arc::ptr_eq(&first[0].content, &last[0].content), "what rows share is stored once");
    }

    #[test]
    fn harbor_keeps_the_first_part_only() {
        let conversation = conversation(STEPS, Rules::Harbor);
        assert_eq!(&*conversation.up_to(1)[3].content, "one");
    }
}
