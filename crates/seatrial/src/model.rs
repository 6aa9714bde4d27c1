//! The options that name a model and bound what an agent does with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent::endpoint::{Client, EndpointError, Key, Prices, Sampling, Settings, TokenFormat};
use agent::shell::{Limits, Prompts, Protocol, Rules};
use clap::{Args, ValueEnum, ValueHint};
use trial::Model;

use crate::failure::{Exit, Failure, OrExit, Result};

/// Where an endpoint is looked for when nothing else is said.
const ENDPOINT: &str = "OPENAI_BASE_URL";
/// Where its key is looked for.
const KEY: &str = "OPENAI_API_KEY";
/// No file of prompts is larger.
const MOST_PROMPTS: u64 = 1 << 20;

/// The model of agents that ask one.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Model")]
pub struct Options {
    /// The model, as its endpoint calls it.
    #[arg(short = 'm', long, value_name = "MODEL")]
    pub model: Option<String>,
    /// The endpoint's address, below which `chat/completions` lies; else OPENAI_BASE_URL.
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub endpoint: Option<String>,
    /// The environment variable that holds the endpoint's key; else OPENAI_API_KEY where it is set.
    #[arg(long, value_name = "VARIABLE")]
    pub api_key_env: Option<String>,
    /// How the model gives its commands.
    #[arg(long, value_enum, value_name = "PROTOCOL", default_value_t)]
    pub protocol: ProtocolName,
    /// A TOML file with templates of what the model is told: system, task, observation, format_error; else that of the recipe.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub prompts: Option<PathBuf>,
    /// Keeps the working directory and the environment from command to command.
    #[arg(long)]
    pub persistent_shell: bool,
    /// Asks for answers in pieces.
    #[arg(long)]
    pub stream: bool,
    /// Records the tokens of every turn by number, as this server gives them.
    #[arg(long, value_enum, value_name = "SERVER")]
    pub tokens: Option<TokensName>,
    /// Keeps the bytes of requests and answers in the trials' directories.
    #[arg(long)]
    pub keep_wire: bool,
    /// Temperature.
    #[arg(long, value_name = "T", value_parser = not_negative)]
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    #[arg(long, value_name = "P", value_parser = not_negative)]
    pub top_p: Option<f64>,
    /// Seed of the first attempt at each task; every further one has the next number.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// The most tokens of one answer.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_answer_tokens: Option<u64>,
    /// The most answers; what was done until then is graded.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_turns: u32,
    /// The most tokens of the conversation, as the endpoint counts them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub context: Option<u64>,
    /// The most tokens of all prompts and answers together; what was done until then is graded.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_tokens: Option<u64>,
    /// The most dollars, as far as costs are known; what was done until then is graded.
    #[arg(long, value_name = "DOLLARS", value_parser = not_negative)]
    pub max_cost: Option<f64>,
    /// Seconds that one command may run.
    #[arg(long, value_name = "SECONDS", default_value_t = 300.0, value_parser = seconds)]
    pub command_timeout: f64,
    /// Bytes of a command's output that the model sees, half from its beginning and half from its end.
    #[arg(long, value_name = "N", default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(256..=1_048_576))]
    pub output_bytes: u32,
    /// Seconds within which an answer must have come.
    #[arg(long, value_name = "SECONDS", default_value_t = 600.0, value_parser = seconds)]
    pub answer_timeout: f64,
    /// Dollars for a million tokens of prompts, of prompts from a cache, and of answers, as in `3,0.3,15`.
    #[arg(long, value_name = "PROMPT,CACHED,ANSWER", value_parser = prices)]
    pub prices: Option<Prices>,
}

/// How the model gives its commands.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub enum ProtocolName {
    /// It calls a tool.
    #[default]
    ToolCalls,
    /// It writes a fenced block, for servers and models without tools.
    Fenced,
}

/// Servers that give token numbers.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum TokensName {
    /// From 0.10.2.
    Vllm,
    /// From 0.5.13; answers are asked for whole.
    Sglang,
}

impl Options {
    /// The model with everything that was said about it. Nothing is sent.
    pub fn open(&self, directory: &Path) -> Result<Arc<Model>> {
        let usage = |message: String| Failure::new(Exit::Usage, message);
        let name = self
            .model
            .as_ref()
            .ok_or_else(|| usage("the agent asks a model, and none is named".into()).hint("add -m MODEL"))?;
        let url = self.endpoint.clone().or_else(|| std::env::var(ENDPOINT).ok()).ok_or_else(|| {
            usage("there is no endpoint to ask".into()).hint(format!("add --endpoint URL, or set {ENDPOINT}"))
        })?;
        let settings = Settings {
            sampling: Sampling {
                temperature: self.temperature,
                top_p: self.top_p,
                max_tokens: self.max_answer_tokens,
                seed: None,
            },
            stream: self.stream,
            tokens: self.tokens.map(|server| match server {
                TokensName::Vllm => TokenFormat::Vllm,
                TokensName::Sglang => TokenFormat::Sglang,
            }),
            prices: self.prices.unwrap_or_default(),
            answer_limit: Duration::from_secs_f64(self.answer_timeout),
            silence_limit: Duration::from_secs_f64(self.answer_timeout),
            ..Settings::new(url, name)
        };
        let client = Client::new(settings, self.key()?, rand::random).map_err(|error| {
            let exit =
                if matches!(error, EndpointError::Address { .. }) { Exit::Usage } else { Exit::Failed };
            Failure::from_error(exit, &error)
        })?;
        Ok(Arc::new(Model {
            client,
            rules: self.rules(directory)?,
            seed: self.seed,
            keep_wire: self.keep_wire,
        }))
    }

    /// The key: that of the variable that was named, else that of the usual one, if it is set.
    fn key(&self) -> Result<Option<Key>> {
        let value = |variable: &str| std::env::var(variable).ok().filter(|value| !value.is_empty());
        let (variable, value) = match &self.api_key_env {
            Some(variable) => (variable.as_str(), value(variable)),
            None => match value(KEY) {
                Some(value) => (KEY, Some(value)),
                None => return Ok(None),
            },
        };
        Key::new(variable, value.as_deref()).map(Some).or_exit(Exit::Usage)
    }

    fn rules(&self, directory: &Path) -> Result<Rules> {
        let path = match &self.prompts {
            Some(path) => Some(path.clone()),
            None => crate::project::recipe_in(directory)?.and_then(|recipe| recipe.agents.prompts),
        };
        let prompts = match path {
            None => Prompts::default(),
            Some(path) => {
                let path = directory.join(path);
                let wrong = |what: &dyn std::fmt::Display| {
                    Failure::new(Exit::Usage, format!("{}: {what}", path.display()))
                };
                let bytes = artifact::read_bounded(&path, MOST_PROMPTS).map_err(|error| wrong(&error))?;
                let text = String::from_utf8(bytes).map_err(|error| wrong(&error))?;
                let prompts: Prompts = toml::from_str(&text).map_err(|error| wrong(&error))?;
                prompts.check().map_err(|error| wrong(&error))?;
                prompts
            }
        };
        Ok(Rules {
            protocol: match self.protocol {
                ProtocolName::ToolCalls => Protocol::ToolCalls,
                ProtocolName::Fenced => Protocol::Fenced,
            },
            prompts,
            limits: Limits {
                steps: Some(self.max_turns),
                cost_usd: self.max_cost,
                context: self.context,
                tokens: self.max_tokens,
                command: Duration::from_secs_f64(self.command_timeout),
                output: self.output_bytes as usize,
                ..Limits::default()
            },
            persistent: self.persistent_shell,
        })
    }
}

/// What changes the outcome of a model's trials, by name. Where the endpoint lies, what it costs and how long it may take are no
/// part of it.
pub fn settings(model: &Model) -> BTreeMap<String, String> {
    let (client, rules) = (model.client.settings(), &model.rules);
    let mut found = BTreeMap::from([
        ("model".to_owned(), client.model.clone()),
        ("protocol".to_owned(), rules.protocol.name().to_owned()),
        ("command timeout".to_owned(), rules.limits.command.as_secs_f64().to_string()),
        ("output bytes".to_owned(), rules.limits.output.to_string()),
    ]);
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            found.insert(name.to_owned(), value);
        }
    };
    add("max turns", rules.limits.steps.map(|steps| steps.to_string()));
    add("context", rules.limits.context.map(|tokens| tokens.to_string()));
    add("max tokens", rules.limits.tokens.map(|tokens| tokens.to_string()));
    add("max cost", rules.limits.cost_usd.map(|dollars| dollars.to_string()));
    add("temperature", client.sampling.temperature.map(|number| number.to_string()));
    add("top p", client.sampling.top_p.map(|number| number.to_string()));
    add("max answer tokens", client.sampling.max_tokens.map(|tokens| tokens.to_string()));
    add("seed", model.seed.map(|seed| seed.to_string()));
    add("persistent shell", rules.persistent.then(|| "yes".to_owned()));
    add("recorded tokens", client.tokens.map(|_| "yes".to_owned()));
    if rules.prompts != Prompts::default() {
        let Prompts { system, task, observation, format_error } = &rules.prompts;
        let all = [system, task, observation, format_error].map(String::as_str).join("\0");
        add("prompts", Some(ident::Digest::of(all).hex()));
    }
    found
}

/// A number that is not below zero.
fn not_negative(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err("a number that is not below 0 is wanted".into()),
    }
}

/// Three prices.
fn prices(text: &str) -> Result<Prices, String> {
    let numbers: Vec<f64> =
        text.split(',').map(|part| not_negative(part.trim())).collect::<Result<_, _>>()?;
    match numbers.as_slice() {
        [prompt, cached, completion] => {
            Ok(Prices { prompt: Some(*prompt), cached: Some(*cached), completion: Some(*completion) })
        }
        _ => Err("three prices are wanted, such as 3,0.3,15".into()),
    }
}

/// A time in seconds, up to a week.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number <= 604_800.0 => Ok(number),
        _ => Err("a number of seconds above 0 is wanted, up to a week".into()),
    }
}
