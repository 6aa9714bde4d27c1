//! Agents that are programs of the image: how they are started, told by a specification.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use minijinja::{Environment, UndefinedBehavior, context};
use serde::{Deserialize, Serialize};

/// The port of the sandbox's loopback at which such an agent finds the model.
pub const DOOR: u16 = 8417;
/// Nothing longer can be handed over in a variable.
const MOST_INSTRUCTION: usize = 96 << 10;

/// How an agent that is a program of the image is started. Its scripts find what they need in `SEATRIAL_MODEL`,
/// `SEATRIAL_BASE_URL` and `SEATRIAL_INSTRUCTION`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The agent's name in results.
    pub name: String,
    /// Its version in results.
    pub version: String,
    /// A script that makes it ready, or says that it is not there.
    pub setup: Option<String>,
    /// The script that lets it work.
    pub command: String,
    /// Variables of both; values are templates that know `model`, `base_url`, and `root_url`, which is the same without `/v1` at
    /// its end.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The file in `/logs/agent` to which it writes its trajectory.
    pub trajectory: Option<String>,
    /// The form of the trajectory, by the name that readers of trajectories have for it; it shows itself where this is absent.
    pub form: Option<String>,
}

/// Why a specification cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// It does not parse.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// Its name cannot be one.
    #[error(
        "`{0}` cannot name an agent: small letters, digits and hyphens can, and no other agent may be called so"
    )]
    Name(String),
    /// Its trajectory cannot lie there.
    #[error("`{0}` cannot name a trajectory: a file in /logs/agent can, without any directory")]
    Trajectory(String),
    /// A form without anything that could have it.
    #[error("it names the form `{0}` and no `trajectory` that has it")]
    Form(String),
    /// A value cannot be filled in.
    #[error("the variable `{name}` cannot be filled in: {detail}")]
    Env {
        /// Which.
        name: String,
        /// What is wrong.
        detail: String,
    },
    /// The task says too much.
    #[error("the instruction has {0} bytes, more than can be handed to a program of the image")]
    Instruction(usize),
}

/// Agents of Seatrial itself; no other may bear their names.
const TAKEN: [&str; 3] = ["oracle", "nop", super::shell::NAME];

static BUILT_IN: LazyLock<Vec<Spec>> = LazyLock::new(|| {
    let texts = [
        include_str!("../agents/aider.toml"),
        include_str!("../agents/claude-code.toml"),
        include_str!("../agents/codex.toml"),
        include_str!("../agents/gemini-cli.toml"),
        include_str!("../agents/goose.toml"),
        include_str!("../agents/mini-swe-agent.toml"),
        include_str!("../agents/openhands.toml"),
        include_str!("../agents/qwen-code.toml"),
        include_str!("../agents/swe-agent.toml"),
    ];
    texts.into_iter().map(|text| Spec::parse(text).expect("a test reads them all")).collect()
});

impl Spec {
    /// Reads a specification.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let spec: Self = toml::from_str(text)?;
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if spec.name.is_empty() || !spec.name.chars().all(plain) || TAKEN.contains(&spec.name.as_str()) {
            return Err(SpecError::Name(spec.name));
        }
        match (&spec.trajectory, &spec.form) {
            (Some(file), _) if file.is_empty() || file.contains(['/', '\0']) || file.starts_with('.') => {
                return Err(SpecError::Trajectory(file.clone()));
            }
            (None, Some(form)) => return Err(SpecError::Form(form.clone())),
            _ => {}
        }
        spec.variables("x", "http://x", "x")?;
        Ok(spec)
    }

    /// The ones that are known without a file.
    pub fn built_in() -> &'static [Self] {
        &BUILT_IN
    }

    /// The variables of its scripts.
    pub fn variables(
        &self,
        model: &str,
        base_url: &str,
        instruction: &str,
    ) -> Result<BTreeMap<String, String>, SpecError> {
        if instruction.len() > MOST_INSTRUCTION {
            return Err(SpecError::Instruction(instruction.len()));
        }
        let mut environment = Environment::empty();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        let root_url = base_url.strip_suffix("/v1").unwrap_or(base_url);
        let filled = self.env.iter().map(|(name, template)| {
            let value = environment.render_named_str(name, template, context! { model, base_url, root_url });
            match value {
                Ok(value) => Ok((name.clone(), value)),
                Err(error) => Err(SpecError::Env { name: name.clone(), detail: format!("{error:#}") }),
            }
        });
        let mut variables: BTreeMap<String, String> = filled.collect::<Result<_, _>>()?;
        for (name, value) in [("MODEL", model), ("BASE_URL", base_url), ("INSTRUCTION", instruction)] {
            variables.insert(format!("SEATRIAL_{name}"), value.to_owned());
        }
        Ok(variables)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_ones_can_be_read() {
        let names: Vec<_> = Spec::built_in().iter().map(|spec| spec.name.as_str()).collect();
        assert!(names.is_sorted(), "{names:?}");
        let named = |name: &str| Spec::built_in().iter().find(|spec| spec.name == name).unwrap();
        let variables =
            named("mini-swe-agent").variables("m", "http://127.0.0.1:8417/v1", "Fix {{ it }}.").unwrap();
        assert_eq!(variables["OPENAI_API_BASE"], "http://127.0.0.1:8417/v1");
        assert_eq!(variables["SEATRIAL_INSTRUCTION"], "Fix {{ it }}.");
        let variables = named("claude-code").variables("m", "http://127.0.0.1:8417/v1", "x").unwrap();
        assert_eq!(variables["ANTHROPIC_BASE_URL"], "http://127.0.0.1:8417");
        assert!(named("goose").variables("m", "u", &"x".repeat(MOST_INSTRUCTION + 1)).is_err());
    }

    #[test]
    fn mistakes_are_named() {
        let spec = |name: &str, env: &str| {
            Spec::parse(&format!(
                "name = \"{name}\"\nversion = \"1\"\ncommand = \"x\"\n[env]\nA = \"{env}\"\n"
            ))
        };
        assert!(spec("my-agent", "{{ model }}").is_ok());
        assert!(spec("my-agent", "{{ modle }}").unwrap_err().to_string().contains("`A`"));
        for name in ["oracle", "shell", "My", "a/b", ""] {
            assert!(matches!(spec(name, ""), Err(SpecError::Name(_))), "{name}");
        }
        let told =
            |more: &str| Spec::parse(&format!("name = \"a\"\nversion = \"1\"\ncommand = \"x\"\n{more}"));
        for file in ["a/b", "../x", "", ".hidden"] {
            assert!(
                matches!(told(&format!("trajectory = \"{file}\"")), Err(SpecError::Trajectory(_))),
                "{file}"
            );
        }
        assert!(matches!(told("form = \"codex\""), Err(SpecError::Form(_))));
    }
}
