//! How a command is found in an answer.

use serde_json::{Value, json};

use crate::Answer;

/// How the model gives its command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocol {
    /// It calls the tool `bash`.
    #[default]
    ToolCalls,
    /// It writes one fenced block, for servers and models without tools.
    Fenced,
}

/// The name of the tool.
const TOOL: &str = "bash";
/// A longer text cannot be handed to a shell as one argument.
const MOST_BYTES: usize = 96 << 10;
/// Marks that may stand behind the fence of a command.
const LANGUAGES: [&str; 4] = ["bash", "sh", "shell", "console"];

/// A command in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// The call that it came in.
    pub(super) call: Option<String>,
    pub(super) script: String,
}

/// No command that can be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    /// The call that is wrong, if it is one.
    pub(super) call: Option<String>,
    /// What is wrong, in words for the model.
    pub(super) what: String,
}

impl Protocol {
    /// Its name on the command line and in templates.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ToolCalls => "tool-calls",
            Self::Fenced => "fenced",
        }
    }

    /// The tools that the model is offered.
    pub fn tools(self) -> Vec<Value> {
        match self {
            Self::Fenced => Vec::new(),
            Self::ToolCalls => vec![json!({
                "type": "function",
                "function": {
                    "name": TOOL,
                    "description": "Runs one shell command in the sandbox and shows its exit status and output.",
                    "parameters": {
                        "type": "object",
                        "properties": {"command": {"type": "string", "description": "The command."}},
                        "required": ["command"],
                    },
                },
            })],
        }
    }

    /// The command of an answer.
    pub(super) fn find(self, answer: &Answer) -> Result<Found, Problem> {
        let found = match self {
            Self::ToolCalls => called(answer),
            Self::Fenced => fenced(&answer.text),
        }?;
        let what = if found.script.len() > MOST_BYTES {
            format!("the command has {} bytes, and {MOST_BYTES} is the most", found.script.len())
        } else if found.script.contains('\0') {
            "the command has a NUL character".to_owned()
        } else {
            return Ok(found);
        };
        Err(Problem { call: found.call, what })
    }
}

/// The command of the first call; the others are not run.
fn called(answer: &Answer) -> Result<Found, Problem> {
    let Some(call) = answer.calls.first() else {
        return Err(Problem { call: None, what: "the answer calls no tool".into() });
    };
    let problem = |what: String| Problem { call: Some(call.id.clone()), what };
    if call.name != TOOL {
        let name: String = call.name.chars().take(40).collect();
        return Err(problem(format!("there is no tool `{name}`")));
    }
    let arguments: Value = serde_json::from_str(&call.arguments)
        .map_err(|error| problem(format!("the arguments of the call are no JSON ({error})")))?;
    match arguments.get("command").and_then(Value::as_str) {
        Some(script) if !script.trim().is_empty() => {
            Ok(Found { call: Some(call.id.clone()), script: script.to_owned() })
        }
        Some(_) => Err(problem("the command is empty".into())),
        None => Err(problem("the call has no argument `command` that is a text".into())),
    }
}

/// The text of the only fenced block of a shell. Blocks of another language are part of what the model says.
fn fenced(text: &str) -> Result<Found, Problem> {
    let problem = |what: &str| Problem { call: None, what: what.to_owned() };
    let mut blocks = Vec::new();
    let mut open: Option<(String, bool, String)> = None;
    for line in text.lines() {
        let mark = line.trim_end();
        match &mut open {
            None => {
                let ticks = mark.chars().take_while(|c| *c == '`').count();
                if ticks >= 3 {
                    let language = mark[ticks..].trim();
                    open = Some((mark[..ticks].to_owned(), LANGUAGES.contains(&language), String::new()));
                }
            }
            Some((fence, is_shell, body)) => {
                if mark == fence {
                    if *is_shell {
                        blocks.push(std::mem::take(body));
                    }
                    open = None;
                } else {
                    body.push_str(line);
                    body.push('\n');
                }
            }
        }
    }
    match (blocks.len(), open) {
        (_, Some((_, true, _))) => Err(problem("the fenced block has no end")),
        (0, _) => Err(problem("the answer has no fenced block of a shell")),
        (1, _) if blocks[0].trim().is_empty() => Err(problem("the fenced block is empty")),
        (1, _) => Ok(Found { call: None, script: blocks.remove(0) }),
        (many, _) => Err(problem(&format!("the answer has {many} fenced blocks of a shell"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ToolCall;

    fn call(name: &str, arguments: &str) -> Result<Found, Problem> {
        let call = ToolCall { id: "c1".into(), name: name.into(), arguments: arguments.into() };
        Protocol::ToolCalls.find(&Answer { calls: vec![call], ..Answer::default() })
    }

    #[test]
    fn a_call_brings_its_command_or_says_what_is_wrong() {
        assert_eq!(call("bash", r#"{"command":"ls"}"#).unwrap().script, "ls");
        for (name, arguments, what) in [
            ("python", "{}", "no tool `python`"),
            ("bash", r#"{"command":"ls"#, "no JSON"),
            ("bash", r#"{"cmd":"ls"}"#, "no argument `command`"),
            ("bash", r#"{"command":["ls"]}"#, "no argument `command`"),
            ("bash", r#"{"command":" "}"#, "empty"),
            ("bash", r#"{"command":"a\u0000b"}"#, "NUL"),
        ] {
            let problem = call(name, arguments).unwrap_err();
            assert!(problem.what.contains(what) && problem.call.as_deref() == Some("c1"), "{problem:?}");
        }
        let long = format!(r#"{{"command":"{}"}}"#, "x".repeat(MOST_BYTES + 1));
        assert!(call("bash", &long).unwrap_err().what.contains("is the most"));
        assert_eq!(Protocol::ToolCalls.find(&Answer::default()).unwrap_err().call, None);
    }

    #[test]
    fn exactly_one_block_of_a_shell_is_a_command() {
        let found = |text: &str| Protocol::Fenced.find(&Answer { text: text.into(), ..Answer::default() });
        let script = |text| found(text).unwrap().script;
        assert_eq!(script("I look.\n```bash\nls\n\npwd\n```\nDone."), "ls\n\npwd\n");
        assert_eq!(script("```python\nprint(1)\n```\n```sh\nls\n```"), "ls\n");
        assert_eq!(script("````bash\ncat <<'E'\n```\nE\n````"), "cat <<'E'\n```\nE\n");
        for (text, what) in [
            ("ls", "no fenced block"),
            ("```\nls\n```", "no fenced block"),
            ("```bash\nls", "no end"),
            ("```bash\n\n```", "empty"),
            ("```bash\nls\n```\n```bash\npwd\n```", "2 fenced blocks"),
        ] {
            assert!(found(text).unwrap_err().what.contains(what), "{text}");
        }
    }
}
