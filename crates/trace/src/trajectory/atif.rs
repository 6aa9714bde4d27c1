//! ATIF, versions 1.0 to 1.8.
//!
//! The version does not change how a document is read: real documents of an early version hold later fields. What a row is
//! made of must be there; anything else may be missing or of another type and is then left out.

use super::{
    Content, Observed, Part, Speaker, Step, StepUsage, TokenRecord, ToolCall, ToolDefinitions, Totals,
    Trajectory,
};
use crate::json::{Json, compact, indented};

/// Documents within documents are read down to this depth.
const SUBAGENT_DEPTH: usize = 8;

/// Why a document is no trajectory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AtifError {
    /// Something else than an object.
    #[error("holds {0} instead of a trajectory")]
    NotAnObject(&'static str),
    /// No list of steps.
    #[error("has no list `steps`")]
    NoSteps,
    /// An empty list of steps.
    #[error("has no step")]
    Empty,
    /// A version that nobody has published.
    #[error("has the schema version `{0}`; ATIF-v1.0 to ATIF-v1.8 are read")]
    Version(String),
    /// A step that is none.
    #[error("`steps[{index}]` {what}")]
    Step {
        /// Which, from 0.
        index: usize,
        /// What is wrong.
        what: String,
    },
}

/// Turns a document into a trajectory.
pub(crate) fn from_json(document: Json<'_>) -> Result<Trajectory, AtifError> {
    read(document, 0)
}

fn read(mut document: Json<'_>, depth: usize) -> Result<Trajectory, AtifError> {
    if !document.is_object() {
        return Err(AtifError::NotAnObject(document.kind()));
    }
    let version = document.take_text("schema_version");
    if let Some(version) = &version {
        let minor = version.strip_prefix("ATIF-v1.").and_then(|minor| minor.parse::<u32>().ok());
        if minor.is_none_or(|minor| minor > 8) {
            return Err(AtifError::Version(version.chars().take(80).collect()));
        }
    }
    let steps = document.take_list("steps").ok_or(AtifError::NoSteps)?;
    if steps.is_empty() {
        return Err(AtifError::Empty);
    }
    let mut media = 0;
    let steps: Result<Vec<_>, _> = steps
        .into_iter()
        .enumerate()
        .map(|(index, value)| step(value, &mut media).map_err(|what| AtifError::Step { index, what }))
        .collect();
    let mut agent = document.take("agent").unwrap_or(Json::Null);
    let tools = agent.take("tool_definitions").filter(|tools| !tools.items().is_empty());
    let mut subagents = Vec::new();
    for value in document.take_list("subagent_trajectories").into_iter().flatten() {
        if depth < SUBAGENT_DEPTH {
            subagents.push(read(value, depth + 1)?);
        }
    }
    Ok(Trajectory {
        version,
        id: document.take_text("trajectory_id"),
        agent: agent.take_text("name"),
        agent_version: agent.take_text("version"),
        model: agent.take_text("model_name"),
        tools: tools.map(|tools| definitions(&tools)),
        steps: steps?,
        continued: document.take_text("continued_trajectory_ref"),
        totals: document.get("final_metrics").map(totals).unwrap_or_default(),
        subagents,
        media,
    })
}

/// The texts of a list of tools.
pub(crate) fn definitions(tools: &Json<'_>) -> ToolDefinitions {
    let mut texts = ToolDefinitions { compact: String::new(), indented: String::new() };
    compact(tools, &mut texts.compact);
    indented(tools, &mut texts.indented);
    texts
}

fn totals(metrics: &Json<'_>) -> Totals {
    let usage = StepUsage {
        prompt: metrics.count("total_prompt_tokens"),
        completion: metrics.count("total_completion_tokens"),
        cached: metrics.count("total_cached_tokens"),
        cost_usd: metrics.number("total_cost_usd"),
    };
    Totals { usage, steps: metrics.count("total_steps") }
}

fn step(mut value: Json<'_>, media: &mut u64) -> Result<Step, String> {
    if !value.is_object() {
        return Err(format!("is {} instead of a step", value.kind()));
    }
    let source = match value.text("source") {
        Some("system") => Speaker::System,
        Some("user") => Speaker::User,
        Some("agent") => Speaker::Agent,
        Some(other) => {
            let other: String = other.chars().take(40).collect();
            return Err(format!("has the source `{other}`; it is one of system, user and agent"));
        }
        None => return Err("has no `source`".into()),
    };
    let calls = value.take_list("tool_calls").unwrap_or_default().into_iter().map(call).collect();
    let results = value
        .take("observation")
        .and_then(|mut observation| observation.take_list("results"))
        .unwrap_or_default()
        .into_iter()
        .map(|result| observed(result, media))
        .collect();
    let metrics = value.take("metrics");
    let finish_reason = [Some(&value), metrics.as_ref()].into_iter().flatten().find_map(|holder| {
        let place = holder.get("extra").unwrap_or(holder);
        place.text("finish_reason").or_else(|| holder.text("finish_reason")).map(str::to_owned)
    });
    Ok(Step {
        source,
        message: content(value.take("message"), media),
        reasoning: value.take_text("reasoning_content"),
        calls,
        results,
        copied: matches!(value.get("is_copied_context"), Some(Json::Bool(true))),
        timestamp: value.take_text("timestamp"),
        usage: metrics.as_ref().map(usage).unwrap_or_default(),
        finish_reason,
        tokens: metrics.as_ref().and_then(tokens),
    })
}

fn call(mut value: Json<'_>) -> ToolCall {
    let mut arguments = String::new();
    compact(&value.take("arguments").unwrap_or(Json::Object(Vec::new())), &mut arguments);
    let name = value.take_text("function_name").unwrap_or_default();
    ToolCall { id: value.take_text("tool_call_id"), name, arguments }
}

fn observed(mut value: Json<'_>, media: &mut u64) -> Observed {
    let there = value.get("content").is_some();
    let found = value.take("content");
    let content = there.then(|| content(found, media));
    let helpers = value.list("subagent_trajectory_ref").unwrap_or_default();
    let helpers =
        helpers.iter().filter_map(|helper| helper.text("trajectory_path").map(str::to_owned)).collect();
    Observed { call: value.take_text("source_call_id"), content, helpers }
}

/// Reads a text or the parts of one. Any other value is kept as its JSON.
pub(crate) fn content(value: Option<Json<'_>>, media: &mut u64) -> Content {
    match value {
        None => Content::Nothing,
        Some(Json::Text(text)) => Content::Text(text.into_owned()),
        Some(Json::List(parts)) => Content::Parts(
            parts
                .into_iter()
                .map(|mut part| match part {
                    Json::Text(text) => Part::Text(text.into_owned()),
                    _ => part.take_text("text").map_or_else(
                        || {
                            *media += 1;
                            Part::Media
                        },
                        Part::Text,
                    ),
                })
                .collect(),
        ),
        Some(other) => {
            let mut text = String::new();
            compact(&other, &mut text);
            Content::Text(text)
        }
    }
}

fn usage(metrics: &Json<'_>) -> StepUsage {
    StepUsage {
        prompt: metrics.count("prompt_tokens"),
        completion: metrics.count("completion_tokens"),
        cached: metrics.count("cached_tokens"),
        cost_usd: metrics.number("cost_usd"),
    }
}

fn tokens(metrics: &Json<'_>) -> Option<Box<TokenRecord>> {
    let record = TokenRecord {
        prompt: metrics.list("prompt_token_ids").and_then(numbers),
        completion: metrics.list("completion_token_ids").and_then(numbers),
        logprobs: metrics.list("logprobs").and_then(|items| {
            items.iter().map(|item| item.as_number().map(|number| number as f32)).collect()
        }),
    };
    (record != TokenRecord::default()).then(|| Box::new(record))
}

/// A list of whole numbers; `None` when one is none.
pub(crate) fn numbers(items: &[Json<'_>]) -> Option<Vec<u32>> {
    items
        .iter()
        .map(|item| match item {
            Json::Number(text) => text.parse().ok(),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Mended, parse};

    fn read_text(text: &str) -> Result<Trajectory, AtifError> {
        from_json(parse(text, &mut Mended::default()).unwrap())
    }

    #[test]
    fn every_part_is_read() {
        let trajectory = read_text(
            r#"{"schema_version": "ATIF-v1.8", "trajectory_id": "t", "agent": {"name": "a", "version": "1",
            "model_name": "m", "tool_definitions": [{"x": 1}]}, "steps": [
            {"step_id": 1, "source": "user", "message": [{"type": "text", "text": "hi"}, {"type": "image"}]},
            {"step_id": 2, "source": "agent", "message": "", "reasoning_content": "r", "tool_calls":
            [{"tool_call_id": "c", "function_name": "f", "arguments": {"n": 1.0}}, {"function_name": "g",
            "arguments": "raw"}], "observation": {"results": [{"source_call_id": "c", "content": null}, {}]},
            "metrics": {"prompt_tokens": 3, "completion_token_ids": [1, 2], "logprobs": [-0.5, -1],
            "extra": {"finish_reason": "length"}}, "is_copied_context": true}],
            "continued_trajectory_ref": "next.json", "final_metrics": {"total_cost_usd": 0.5}}"#,
        )
        .unwrap();
        assert_eq!(trajectory.agent.as_deref(), Some("a"));
        assert_eq!(trajectory.tools.unwrap().compact, "[{\"x\": 1}]");
        assert_eq!(trajectory.media, 1);
        assert_eq!(trajectory.totals.usage.cost_usd, Some(0.5));
        assert_eq!(trajectory.totals.usage.prompt, None);
        let step = &trajectory.steps[1];
        assert_eq!(step.calls[0].arguments, "{\"n\": 1.0}");
        assert_eq!(step.calls[1].arguments, "\"raw\"");
        assert_eq!(step.results[0].content, Some(Content::Nothing));
        assert_eq!(step.results[1].content, None);
        assert_eq!(step.finish_reason.as_deref(), Some("length"));
        assert_eq!(step.tokens.as_ref().unwrap().completion, Some(vec![1, 2]));
        assert!(!step.is_turn());
    }

    #[test]
    fn what_is_no_trajectory_is_named() {
        for (text, message) in [
            ("[]", "holds a list instead of a trajectory"),
            ("{}", "has no list `steps`"),
            (r#"{"steps": []}"#, "has no step"),
            (r#"{"steps": [1]}"#, "`steps[0]` is a number instead of a step"),
            (r#"{"steps": [{}]}"#, "`steps[0]` has no `source`"),
            (
                r#"{"steps": [{"source": "tool"}]}"#,
                "`steps[0]` has the source `tool`; it is one of system, user and agent",
            ),
            (
                r#"{"schema_version": "ATIF-v2.0", "steps": []}"#,
                "has the schema version `ATIF-v2.0`; ATIF-v1.0 to ATIF-v1.8 are read",
            ),
        ] {
            assert_eq!(read_text(text).unwrap_err().to_string(), message);
        }
    }
}
