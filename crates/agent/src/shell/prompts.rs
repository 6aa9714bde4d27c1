//! What the model is told: templates that a file can replace one by one.

use minijinja::{Environment, UndefinedBehavior, context};
use serde::Deserialize;

use super::{Protocol, SUBMIT};

/// The templates, in the language of Jinja. Each knows the names that its description lists; any other name is an error.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Prompts {
    /// The first message: `protocol` (`tool-calls` or `fenced`), `submit`, and `persistent`, whether a command begins where the one
    /// before it ended.
    pub system: String,
    /// The task: `instruction`, `protocol`, `submit`.
    pub task: String,
    /// What a command gave: `status` in words, `output` with a line in the place of what was left out.
    pub observation: String,
    /// An answer without a command that can be run: `problem` in words, `protocol`, `submit`.
    pub format_error: String,
}

/// Why templates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// One does not parse, or asks for a name that it does not know.
    #[error("the prompt `{name}` cannot be filled in: {detail}")]
    Template {
        /// Which.
        name: &'static str,
        /// What is wrong, with its line.
        detail: String,
    },
}

const SYSTEM: &str = "\
You work on a task in a Linux sandbox, through its shell. In every answer, think about what to do next and then give exactly one \
command.
{%- if protocol == 'tool-calls' %} Give it by calling the tool `bash` once.
{%- else %} Give it as one fenced block:

```bash
your command
```
{%- endif %}

{% if persistent %}The command begins in the directory and with the environment variables in which the one before it ended. {% else %}\
The command runs in a new shell of its own. {% endif %}You see its exit status and its output; the middle of a long output is left out. \
No command can ask you anything, and none may run for ever: edit files with commands such as `sed`, or with here-documents, and \
bound whatever you start.
";

const TASK: &str = "\
{{ instruction }}

When you are done and have checked your work, give the command `{{ submit }}`, alone. It ends your work: nothing can be changed \
after it.
";

const OBSERVATION: &str = "\
{{ status }}
{% if output %}output:
{{ output }}
{%- else %}no output
{%- endif %}";

const FORMAT_ERROR: &str = "\
Nothing was run: {{ problem }}.
{%- if protocol == 'tool-calls' %} Call the tool `bash` exactly once, with one argument `command`.
{%- else %} Give exactly one fenced block that begins with ```bash.
{%- endif %} If you are done, the command is `{{ submit }}`.";

impl Default for Prompts {
    fn default() -> Self {
        Self {
            system: SYSTEM.into(),
            task: TASK.into(),
            observation: OBSERVATION.into(),
            format_error: FORMAT_ERROR.into(),
        }
    }
}

/// What a command gave, for its template.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) status: &'a str,
    pub(super) output: &'a str,
}

impl Prompts {
    /// Fills every template in once with made-up values, so that a mistake shows before anything runs.
    pub fn check(&self) -> Result<(), PromptError> {
        for protocol in [Protocol::ToolCalls, Protocol::Fenced] {
            self.system(protocol, false)?;
            self.system(protocol, true)?;
            self.task(protocol, "x")?;
            for output in ["x", ""] {
                self.observation(Seen { status: "exit status 0", output })?;
            }
            self.format_error(protocol, "x")?;
        }
        Ok(())
    }

    pub(super) fn system(&self, protocol: Protocol, persistent: bool) -> Result<String, PromptError> {
        let context = context! { protocol => protocol.name(), submit => SUBMIT, persistent };
        fill("system", &self.system, context)
    }

    pub(super) fn task(&self, protocol: Protocol, instruction: &str) -> Result<String, PromptError> {
        let instruction = instruction.trim();
        fill("task", &self.task, context! { instruction, protocol => protocol.name(), submit => SUBMIT })
    }

    pub(super) fn observation(&self, seen: Seen<'_>) -> Result<String, PromptError> {
        let Seen { status, output } = seen;
        fill("observation", &self.observation, context! { status, output })
    }

    pub(super) fn format_error(&self, protocol: Protocol, problem: &str) -> Result<String, PromptError> {
        let context = context! { problem, protocol => protocol.name(), submit => SUBMIT };
        fill("format_error", &self.format_error, context)
    }
}

/// Fills a template in. What is put in is never read as a template, and nothing is escaped: the text is for no browser.
fn fill(name: &'static str, template: &str, values: minijinja::Value) -> Result<String, PromptError> {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let filled = environment.render_named_str(name, template, values);
    filled.map_err(|error| PromptError::Template { name, detail: format!("{error:#}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_templates_can_be_filled_in() {
        let prompts = Prompts::default();
        prompts.check().unwrap();
        let system = prompts.system(Protocol::Fenced, false).unwrap();
        assert!(system.contains("```bash") && !system.contains("tool"), "{system}");
        assert!(system.contains("The command runs in a new shell of its own. You see"), "{system}");
        let system = prompts.system(Protocol::Fenced, true).unwrap();
        assert!(
            system.contains("the one before it ended. You see") && !system.contains("new shell"),
            "{system}"
        );
        let task = prompts.task(Protocol::ToolCalls, " {{ fix }} it\n").unwrap();
        assert!(task.starts_with("{{ fix }} it\n\nWhen you are done") && task.contains("`submit`"), "{task}");
        let seen = prompts.observation(Seen { status: "exit status 1", output: "a\n" }).unwrap();
        assert_eq!(seen, "exit status 1\noutput:\na\n");
        let nothing = prompts.observation(Seen { status: "exit status 0", output: "" }).unwrap();
        assert_eq!(nothing, "exit status 0\nno output");
    }

    #[test]
    fn a_template_with_a_mistake_is_named() {
        let unknown = Prompts { task: "{{ instruktion }}".into(), ..Prompts::default() };
        let error = unknown.check().unwrap_err().to_string();
        assert!(error.contains("`task`") && error.contains("undefined"), "{error}");
        let broken = Prompts { system: "{% if %}".into(), ..Prompts::default() };
        assert!(broken.check().unwrap_err().to_string().contains("`system`"));
    }
}
