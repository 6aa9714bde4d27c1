//! Trajectories in other forms than ATIF, turned into its steps.
//!
//! | form | told by |
//! |---|---|
//! | mini-swe-agent, and chat logs | `messages`, or a list of objects with `role` |
//! | SWE-agent | `trajectory`, with `history` beside it or without |
//! | OpenHands | a list of events with `action` or `observation`, also under `history` |

use super::atif::content;
use super::{Content, Observed, Speaker, Step, StepUsage, ToolCall, Totals, Trajectory, from_json};
use crate::json::{Json, compact};
use crate::read::call;

/// Reads a document of any form that is known.
pub(super) fn any(mut document: Json<'_>) -> Result<Trajectory, String> {
    if document.get("steps").is_some() {
        return from_json(document).map_err(|error| error.to_string());
    }
    let mut out = Trajectory::default();
    if let Some(info) = document.take("info") {
        about(&info, &mut out);
    }
    let is_events = |items: &[Json<'_>]| {
        items.first().is_some_and(|item| item.get("action").is_some() || item.get("observation").is_some())
    };
    let history = document.take_list("history").filter(|items| !items.is_empty());
    match (document, history) {
        (Json::List(items), _) if is_events(&items) => events(items, &mut out),
        (Json::List(items), _) => messages(items, "chat", &mut out)?,
        (_, Some(items)) if is_events(&items) && items[0].get("role").is_none() => events(items, &mut out),
        (document, Some(items)) if document.get("trajectory").is_some() => {
            messages(items, "swe-agent", &mut out)?;
        }
        (mut document, _) => {
            if let Some(items) = document.take_list("messages") {
                messages(items, "mini-swe-agent", &mut out)?;
            } else if let Some(items) = document.take_list("trajectory") {
                turns(items, &mut out);
            } else {
                return Err("is no trajectory of a form that is known".into());
            }
        }
    }
    if out.steps.is_empty() { Err("has no step".into()) } else { Ok(out) }
}

/// What the run cost, and which model it was.
fn about(info: &Json<'_>, out: &mut Trajectory) {
    let stats = info.get("model_stats");
    let count = |key: &str| stats.and_then(|stats| stats.count(key));
    out.totals = Totals {
        usage: StepUsage {
            prompt: count("tokens_sent"),
            completion: count("tokens_received"),
            cached: None,
            cost_usd: stats.and_then(|stats| stats.number("instance_cost")),
        },
        steps: None,
    };
    let model = info.get("config").and_then(|config| config.get("model"));
    out.model = model.and_then(|model| model.text("model_name").map(str::to_owned));
    out.agent_version =
        info.text("mini_version").or_else(|| info.text("swe_agent_version")).map(str::to_owned);
}

/// Messages of a chat. What a tool gave belongs to the step that called it.
fn messages(items: Vec<Json<'_>>, agent: &str, out: &mut Trajectory) -> Result<(), String> {
    out.agent = Some(agent.to_owned());
    for (index, mut item) in items.into_iter().enumerate() {
        let said = content(item.take("content"), &mut out.media);
        let role = item.take_text("role").ok_or_else(|| format!("message {index} has no role"))?;
        match role.as_str() {
            "tool" | "function" => {
                let result = Observed {
                    call: item.take_text("tool_call_id"),
                    content: Some(said),
                    helpers: Vec::new(),
                };
                match out.steps.last_mut().filter(|step| step.source == Speaker::Agent) {
                    Some(step) => step.results.push(result),
                    None => {
                        out.steps.push(Step::new(Speaker::User, result.content.unwrap_or(Content::Nothing)));
                    }
                }
            }
            "assistant" => {
                let usage = StepUsage {
                    prompt: item.count("prompt_tokens"),
                    completion: item.count("completion_tokens"),
                    ..StepUsage::default()
                };
                out.steps.push(Step {
                    reasoning: item.take_text("reasoning_content").or_else(|| item.take_text("thought")),
                    finish_reason: item.take_text("finish_reason"),
                    calls: item.take_list("tool_calls").unwrap_or_default().into_iter().map(call).collect(),
                    // A demonstration was played to the model and is none of its own turns.
                    copied: matches!(item.get("is_demo"), Some(Json::Bool(true))),
                    usage,
                    ..Step::new(Speaker::Agent, said)
                });
            }
            "system" | "developer" => out.steps.push(Step::new(Speaker::System, said)),
            _ => out.steps.push(Step::new(Speaker::User, said)),
        }
    }
    // SWE-agent says the thought once more in the content.
    for step in &mut out.steps {
        if let (Some(thought), Content::Text(text)) = (&step.reasoning, &step.message)
            && text.contains(thought.trim())
        {
            step.reasoning = None;
        }
    }
    Ok(())
}

/// Turns of SWE-agent where no history is beside them.
fn turns(items: Vec<Json<'_>>, out: &mut Trajectory) {
    out.agent = Some("swe-agent".into());
    for mut item in items {
        let response = item.take_text("response").or_else(|| item.take_text("action")).unwrap_or_default();
        let seen = item.take("observation").map(|seen| content(Some(seen), &mut out.media));
        out.steps.push(Step {
            results: seen
                .into_iter()
                .map(|seen| Observed { call: None, content: Some(seen), helpers: Vec::new() })
                .collect(),
            ..Step::new(Speaker::Agent, Content::Text(response))
        });
    }
}

/// Events of OpenHands: actions, and what they gave.
fn events(items: Vec<Json<'_>>, out: &mut Trajectory) {
    out.agent = Some("openhands".into());
    for mut item in items {
        let timestamp = item.take_text("timestamp");
        if item.get("observation").is_some() {
            let seen = content(item.take("content"), &mut out.media);
            // Notes about the state of the agent are nothing that it saw.
            if matches!(item.text("observation"), Some("null" | "agent_state_changed")) {
                continue;
            }
            match out.steps.last_mut().filter(|step| step.source == Speaker::Agent) {
                Some(step) => {
                    step.results.push(Observed { call: None, content: Some(seen), helpers: Vec::new() });
                }
                None => out.steps.push(Step::new(Speaker::User, seen)),
            }
            continue;
        }
        let Some(action) = item.take_text("action") else { continue };
        let mut arguments = item.take("args").unwrap_or(Json::Null);
        let from_agent = item.text("source") == Some("agent");
        let mut made = match action.as_str() {
            "change_agent_state" | "recall" | "null" => continue,
            "system" => Step::new(Speaker::System, content(arguments.take("content"), &mut out.media)),
            "message" => {
                let speaker = if from_agent { Speaker::Agent } else { Speaker::User };
                Step::new(speaker, content(arguments.take("content"), &mut out.media))
            }
            _ if !from_agent => continue,
            _ => {
                let thought = arguments.take_text("thought").unwrap_or_default();
                let mut text = String::new();
                compact(&arguments, &mut text);
                let call = ToolCall { id: None, name: action, arguments: text };
                Step { calls: vec![call], ..Step::new(Speaker::Agent, Content::Text(thought)) }
            }
        };
        made.timestamp = timestamp;
        out.steps.push(made);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Mended, parse};

    fn read(text: &str) -> Result<Trajectory, String> {
        any(parse(text, &mut Mended::default()).unwrap())
    }

    fn speakers(trajectory: &Trajectory) -> Vec<Speaker> {
        trajectory.steps.iter().map(|step| step.source).collect()
    }

    #[test]
    fn every_form_becomes_steps() {
        let mini = read(
            r#"{"info": {"model_stats": {"instance_cost": 0.5}, "config": {"model": {"model_name": "m"}}}, "messages": [
            {"role": "system", "content": "s"}, {"role": "user", "content": "u"}, {"role": "assistant", "content": "",
            "tool_calls": [{"id": "1", "function": {"name": "bash", "arguments": "{\"command\": \"ls\"}"}}]},
            {"role": "tool", "tool_call_id": "1", "content": "out"}]}"#,
        )
        .unwrap();
        assert_eq!(speakers(&mini), [Speaker::System, Speaker::User, Speaker::Agent]);
        assert_eq!((mini.model.as_deref(), mini.totals.usage.cost_usd), (Some("m"), Some(0.5)));
        assert_eq!(mini.steps[2].calls[0].arguments, "{\"command\": \"ls\"}");
        assert_eq!(mini.steps[2].results.len(), 1);
        let swe = read(
            r#"{"trajectory": [{"action": "ls"}], "history": [{"role": "system", "content": "s"}, {"role": "assistant",
            "content": "demo", "is_demo": true}, {"role": "assistant", "content": "so: ls", "thought": "so"}], "info": {}}"#,
        )
        .unwrap();
        assert_eq!((swe.turns(), swe.steps[2].reasoning.as_deref()), (1, None));
        let bare = read(r#"{"trajectory": [{"response": "ls", "observation": "out"}]}"#).unwrap();
        assert_eq!((bare.turns(), bare.steps[0].results.len()), (1, 1));
        let hands = read(
            r#"[{"source": "user", "action": "message", "args": {"content": "go"}}, {"source": "agent", "action": "run",
            "args": {"command": "ls", "thought": "look"}}, {"source": "environment", "observation": "run", "content": "out"},
            {"source": "environment", "observation": "agent_state_changed", "content": ""}]"#,
        )
        .unwrap();
        assert_eq!(speakers(&hands), [Speaker::User, Speaker::Agent]);
        assert_eq!(hands.steps[1].calls[0].name, "run");
        assert_eq!(hands.steps[1].results.len(), 1);
        for text in ["{}", "[]", "[1]", "{\"messages\": []}", "{\"messages\": [{}]}"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
