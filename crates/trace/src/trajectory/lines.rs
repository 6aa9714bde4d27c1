//! Trajectories that programs write as lines of JSON while they work.
//!
//! | form | what is read | written by |
//! |---|---|---|
//! | `claude-code` | messages with blocks of content, `type` of the line `assistant`, `user` or `result` | Claude Code and Qwen Code with `--output-format stream-json` |
//! | `codex` | `item.completed` and `turn.completed` | `codex exec --json` |
//! | `gemini-cli` | `message`, `tool_use`, `tool_result`, `result` | Gemini CLI with `--output-format stream-json` |
//!
//! None of them says which tokens a single turn used, only what all did together.

use std::collections::BTreeMap;

use super::atif::content;
use super::{Content, Observed, Speaker, Step, StepUsage, ToolCall, Totals, Trajectory};
use crate::json::{Json, JsonError, Mended, compact, parse};

/// A form of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lines {
    ClaudeCode,
    Codex,
    GeminiCli,
}

/// Reads a text of lines. Lines that are no objects are what the program printed besides; a last one that is cut is left out.
pub(super) fn read(text: &str, form: Lines, mended: &mut Mended) -> Result<Trajectory, String> {
    let mut out = Trajectory::default();
    let mut helpers = BTreeMap::new();
    let mut lines =
        text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with('{')).peekable();
    while let Some((number, line)) = lines.next() {
        let line = match parse(line, mended) {
            Ok(line) => line,
            Err(JsonError::Cut(_)) if lines.peek().is_none() => {
                mended.cut += 1;
                break;
            }
            Err(error) => return Err(format!("has a line {} that {error}", number + 1)),
        };
        match form {
            Lines::ClaudeCode => claude_code(line, &mut out, &mut helpers),
            Lines::Codex => codex(line, &mut out),
            Lines::GeminiCli => gemini_cli(line, &mut out),
        }
    }
    out.subagents = helpers.into_values().collect();
    if out.steps.is_empty() { Err("has no step".into()) } else { Ok(out) }
}

/// The turn of the agent that goes on: its last one, as long as it has seen no result of it.
fn turn(out: &mut Trajectory) -> &mut Step {
    let goes_on =
        out.steps.last().is_some_and(|last| last.source == Speaker::Agent && last.results.is_empty());
    if !goes_on {
        out.steps.push(Step::new(Speaker::Agent, Content::Text(String::new())));
    }
    out.steps.last_mut().expect("it was added if there was none")
}

fn say(turn: &mut Step, said: &str) {
    if let Content::Text(text) = &mut turn.message {
        if !text.is_empty() && !said.is_empty() {
            text.push('\n');
        }
        text.push_str(said);
    }
}

fn written(value: &Json<'_>) -> String {
    let mut text = String::new();
    compact(value, &mut text);
    text
}

/// Adds what a call gave to the turn that made it, else to the last one.
fn observe(out: &mut Trajectory, call: Option<String>, content: Content) {
    let result = Observed { call, content: Some(content), helpers: Vec::new() };
    let made = |step: &Step| {
        step.source == Speaker::Agent
            && (result.call.is_none() || step.calls.iter().any(|call| call.id == result.call))
    };
    match out.steps.iter().rposition(made) {
        Some(at) => out.steps[at].results.push(result),
        None => out.steps.push(Step::new(Speaker::User, result.content.unwrap_or(Content::Nothing))),
    }
}

/// Messages of the form that Anthropic's interface has. Those of helpers name the call that began them.
fn claude_code(mut line: Json<'_>, whole: &mut Trajectory, helpers: &mut BTreeMap<String, Trajectory>) {
    let out = match line.take_text("parent_tool_use_id") {
        Some(helper) => helpers
            .entry(helper.clone())
            .or_insert_with(|| Trajectory { id: Some(helper), ..Trajectory::default() }),
        None => whole,
    };
    let mut message = line.take("message").unwrap_or(Json::Null);
    match line.text("type") {
        Some("system") if line.text("subtype") == Some("init") => {
            out.model = line.text("model").map(str::to_owned);
            let known = [("claude_code_version", "claude-code"), ("qwen_code_version", "qwen-code")];
            if let Some((key, name)) = known.into_iter().find(|(key, _)| line.get(key).is_some()) {
                out.agent = Some(name.to_owned());
                out.agent_version = line.text(key).map(str::to_owned);
            }
        }
        Some("assistant") => {
            let Some(blocks) = message.take_list("content") else { return };
            let turn = turn(out);
            for mut block in blocks {
                match block.text("type") {
                    Some("text") => say(turn, block.text("text").unwrap_or_default()),
                    Some("thinking") => {
                        let thought = block.text("thinking").unwrap_or_default();
                        turn.reasoning.get_or_insert_default().push_str(thought);
                    }
                    Some("tool_use") => turn.calls.push(ToolCall {
                        arguments: written(block.get("input").unwrap_or(&Json::Object(Vec::new()))),
                        id: block.take_text("id"),
                        name: block.take_text("name").unwrap_or_default(),
                    }),
                    _ => {}
                }
            }
        }
        Some("user") => match message.take("content") {
            Some(Json::List(blocks)) => {
                for mut block in blocks {
                    let found = content(block.take("content"), &mut out.media);
                    match block.text("type") {
                        Some("tool_result") => observe(out, block.take_text("tool_use_id"), found),
                        Some("text") => {
                            let text = block.take_text("text").unwrap_or_default();
                            out.steps.push(Step::new(Speaker::User, Content::Text(text)));
                        }
                        _ => out.media += 1,
                    }
                }
            }
            Some(Json::Text(text)) => {
                out.steps.push(Step::new(Speaker::User, Content::Text(text.into_owned())));
            }
            _ => {}
        },
        Some("result") => {
            let usage = line.get("usage");
            let count = |key: &str| usage.and_then(|usage| usage.count(key));
            let cached = count("cache_read_input_tokens");
            // What came from a cache and what went into it is counted apart.
            let others = cached.unwrap_or(0) + count("cache_creation_input_tokens").unwrap_or(0);
            out.totals.usage = StepUsage {
                prompt: count("input_tokens").map(|fresh| fresh + others),
                completion: count("output_tokens"),
                cached,
                cost_usd: line.number("total_cost_usd"),
            };
        }
        _ => {}
    }
}

/// Items that are finished. A command without words before it is a turn of its own.
fn codex(mut line: Json<'_>, out: &mut Trajectory) {
    out.agent = Some("codex".into());
    match line.text("type") {
        Some("item.completed") => {}
        Some("turn.completed") => {
            let count = |key: &str| line.get("usage").and_then(|usage| usage.count(key));
            let known = out.totals.usage;
            // Several turns of a user add up.
            let sum = |known: Option<u64>, more: Option<u64>| more.map(|more| known.unwrap_or(0) + more);
            out.totals.usage = StepUsage {
                prompt: sum(known.prompt, count("input_tokens")),
                completion: sum(known.completion, count("output_tokens")),
                cached: sum(known.cached, count("cached_input_tokens")),
                cost_usd: None,
            };
            return;
        }
        _ => return,
    }
    let Some(mut item) = line.take("item") else { return };
    let Some(kind) = item.take_text("type") else { return };
    let id = item.take_text("id");
    match kind.as_str() {
        "agent_message" => {
            let text = item.take_text("text").unwrap_or_default();
            say(turn(out), &text);
        }
        "reasoning" => {
            let text = item.take_text("text").unwrap_or_default();
            turn(out).reasoning.get_or_insert_default().push_str(&text);
        }
        "command_execution" => {
            let command = Json::Text(item.take_text("command").unwrap_or_default().into());
            let arguments = written(&Json::Object(vec![("command".into(), command)]));
            turn(out).calls.push(ToolCall { id: id.clone(), name: kind, arguments });
            let seen = content(item.take("aggregated_output"), &mut out.media);
            observe(out, id, seen);
        }
        // Notes of the program itself.
        "error" | "todo_list" => {}
        _ => {
            let arguments = written(&item);
            turn(out).calls.push(ToolCall { id, name: kind, arguments });
        }
    }
}

fn gemini_cli(mut line: Json<'_>, out: &mut Trajectory) {
    out.agent = Some("gemini-cli".into());
    match line.text("type") {
        Some("init") => out.model = line.take_text("model"),
        Some("message") => {
            let text = line.take_text("content").unwrap_or_default();
            match (line.text("role"), line.get("delta")) {
                (Some("user"), _) => out.steps.push(Step::new(Speaker::User, Content::Text(text))),
                // A piece goes on where the one before it ended.
                (_, Some(Json::Bool(true))) => {
                    if let Content::Text(said) = &mut turn(out).message {
                        said.push_str(&text);
                    }
                }
                _ => say(turn(out), &text),
            }
        }
        Some("tool_use") => {
            let call = ToolCall {
                arguments: written(line.get("parameters").unwrap_or(&Json::Object(Vec::new()))),
                id: line.take_text("tool_id"),
                name: line.take_text("tool_name").unwrap_or_default(),
            };
            turn(out).calls.push(call);
        }
        Some("tool_result") => {
            let seen = line.take("output").or_else(|| line.take("error")?.take("message"));
            let seen = content(seen, &mut out.media);
            observe(out, line.take_text("tool_id"), seen);
        }
        Some("result") => {
            let count = |key: &str| line.get("stats").and_then(|stats| stats.count(key));
            let usage = StepUsage {
                prompt: count("input_tokens"),
                completion: count("output_tokens"),
                cached: count("cached"),
                cost_usd: None,
            };
            out.totals = Totals { usage, steps: None };
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Speaker, text, calls and results of every step.
    fn told(text: &str, form: Lines) -> (Vec<String>, Trajectory) {
        let read = read(text, form, &mut Mended::default()).unwrap();
        let all = read.steps.iter().map(|step| {
            let calls: Vec<_> =
                step.calls.iter().map(|call| format!(" {}{}", call.name, call.arguments)).collect();
            let results: Vec<_> = step
                .results
                .iter()
                .map(|seen| format!(" = {}", seen.content.as_ref().unwrap().text()))
                .collect();
            format!("{:?}: {}{}{}", step.source, step.message.text(), calls.concat(), results.concat())
        });
        (all.collect(), read)
    }

    #[test]
    fn messages_of_one_answer_are_one_turn_and_helpers_stand_apart() {
        let (steps, read) = told(
            r#"{"type":"system","subtype":"init","model":"m","claude_code_version":"2.1"}
{"type":"assistant","message":{"content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"I look."}]},"parent_tool_use_id":null}
{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}]}}
{"type":"assistant","message":{"content":[{"type":"text","text":"aside"}]},"parent_tool_use_id":"t1"}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"a"}]}]}}
{"type":"assistant","message":{"content":[{"type":"text","text":"Done."}]}}
{"type":"result","usage":{"input_tokens":10,"cache_read_input_tokens":5,"output_tokens":3},"total_cost_usd":0.5}
{"type":"assist"#,
            Lines::ClaudeCode,
        );
        assert_eq!(steps, ["Agent: I look. Bash{\"command\": \"ls\"} = a", "Agent: Done."]);
        assert_eq!(read.steps[0].reasoning.as_deref(), Some("hm"));
        assert_eq!(
            (read.agent.as_deref(), read.agent_version.as_deref()),
            (Some("claude-code"), Some("2.1"))
        );
        let usage = StepUsage { prompt: Some(15), completion: Some(3), cached: Some(5), cost_usd: Some(0.5) };
        assert_eq!(read.totals.usage, usage);
        assert_eq!((read.subagents.len(), read.subagents[0].turns()), (1, 1));
    }

    #[test]
    fn items_of_codex_become_turns() {
        let (steps, read) = told(
            r#"{"type":"thread.started","thread_id":"t"}
Something that was printed.
{"type":"item.completed","item":{"id":"item_0","type":"error","message":"no metadata"}}
{"type":"item.completed","item":{"id":"i1","type":"reasoning","text":"hm"}}
{"type":"item.completed","item":{"id":"i2","type":"agent_message","text":"I look."}}
{"type":"item.started","item":{"id":"i3","type":"command_execution","command":"ls","aggregated_output":""}}
{"type":"item.completed","item":{"id":"i3","type":"command_execution","command":"ls","aggregated_output":"a\n","exit_code":0}}
{"type":"item.completed","item":{"id":"i4","type":"command_execution","command":"pwd","aggregated_output":"/\n","exit_code":0}}
{"type":"item.completed","item":{"id":"i5","type":"file_change","changes":[{"path":"a","kind":"update"}]}}
{"type":"turn.completed","usage":{"input_tokens":9,"cached_input_tokens":1,"output_tokens":2}}"#,
            Lines::Codex,
        );
        let first = "Agent: I look. command_execution{\"command\": \"ls\"} = a\n";
        let second = "Agent:  command_execution{\"command\": \"pwd\"} = /\n";
        assert_eq!((steps[0].as_str(), steps[1].as_str(), steps.len()), (first, second, 3));
        assert!(steps[2].contains("file_change{") && steps[2].contains("\"update\""), "{}", steps[2]);
        assert_eq!(read.totals.usage.prompt, Some(9));
    }

    #[test]
    fn pieces_of_gemini_cli_are_put_together() {
        let (steps, read) = told(
            r#"{"type":"init","model":"m"}
{"type":"message","role":"user","content":"Fix it"}
{"type":"message","role":"assistant","content":"I lo","delta":true}
{"type":"message","role":"assistant","content":"ok.","delta":true}
{"type":"tool_use","tool_name":"sh","tool_id":"1","parameters":{"c":1}}
{"type":"tool_use","tool_name":"sh","tool_id":"2","parameters":{}}
{"type":"tool_result","tool_id":"1","status":"success","output":"a"}
{"type":"tool_result","tool_id":"2","status":"error","error":{"type":"x","message":"no"}}
{"type":"message","role":"assistant","content":"Done.","delta":true}
{"type":"result","status":"success","stats":{"input_tokens":200,"output_tokens":20,"cached":0}}"#,
            Lines::GeminiCli,
        );
        assert_eq!(steps, ["User: Fix it", "Agent: I look. sh{\"c\": 1} sh{} = a = no", "Agent: Done."]);
        assert_eq!((read.model.as_deref(), read.totals.usage.completion), (Some("m"), Some(20)));
    }

    #[test]
    fn a_line_that_is_broken_is_named_and_a_last_one_that_is_cut_is_counted() {
        let good = "{\"type\":\"message\",\"role\":\"user\",\"content\":\"x\"}";
        let mut mended = Mended::default();
        let error = read(&format!("{good}\n{{\"a\": nope}}\n{good}"), Lines::GeminiCli, &mut mended);
        assert!(error.unwrap_err().starts_with("has a line 2 that is no JSON"));
        assert!(read(&format!("{good}\n{{\"type\":\"mess"), Lines::GeminiCli, &mut mended).is_ok());
        assert_eq!(mended.cut, 1);
        assert_eq!(read("", Lines::Codex, &mut mended).unwrap_err(), "has no step");
    }
}
