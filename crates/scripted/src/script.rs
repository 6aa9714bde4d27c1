//! Scripts: what is said when.

use serde::Deserialize;

use crate::Fault;
use crate::request::Request;

/// Everything a server knows.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The only model there is; any other is unknown.
    pub model: String,
    /// Tokens that fit into a conversation with its answer.
    #[serde(default = "default_context")]
    pub context: u64,
    /// The server whose wire format and wordings are spoken.
    #[serde(default)]
    pub engine: Engine,
    /// The key that requests must bear, if any.
    #[serde(default)]
    pub key: Option<String>,
    /// What is said; the first scene that fits a conversation is played.
    pub scenes: Vec<Scene>,
}

fn default_context() -> u64 {
    65_536
}

/// Servers that are imitated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// vLLM: token numbers for `return_token_ids`.
    #[default]
    Vllm,
    /// SGLang: token numbers for `return_prompt_token_ids` and `return_meta_info`, not in streams.
    Sglang,
    /// OpenAI: no token numbers.
    Openai,
    /// The server of llama.cpp: no token numbers.
    LlamaCpp,
    /// Text Generation Inference: no token numbers.
    Tgi,
}

/// A conversation: the turns of the model in order. The last one is said again for as long as anybody asks.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scene {
    /// Texts that all occur in what the model is told; none fit every conversation.
    #[serde(default)]
    pub when: Vec<String>,
    /// The seed of the request, where only one fits.
    #[serde(default)]
    pub seed: Option<u64>,
    /// Answers that the client itself puts into the model's mouth, before its first turn.
    #[serde(default)]
    pub said_before: usize,
    /// What the model says, one a turn.
    pub turns: Vec<Turn>,
}

/// One answer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Text.
    #[serde(default)]
    pub text: String,
    /// Reasoning before it.
    #[serde(default)]
    pub reasoning: Option<String>,
    /// Shell commands: calls of the tool that the request offers for them, or fenced blocks where it offers none.
    #[serde(default)]
    pub commands: Vec<String>,
    /// Arguments of one tool call as they are, well formed or not.
    #[serde(default)]
    pub arguments: Option<String>,
    /// Why the answer ends; otherwise `stop`, `tool_calls`, or `length` where it was cut.
    #[serde(default)]
    pub finish: Option<String>,
    /// What is said about usage.
    #[serde(default)]
    pub usage: Usage,
    /// What goes wrong the first times the turn is asked for, one fault a time.
    #[serde(default)]
    pub faults: Vec<Fault>,
}

/// What an answer says about usage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Usage {
    /// The truth.
    #[default]
    Right,
    /// Nothing.
    Missing,
    /// These numbers.
    Wrong {
        /// Tokens of the prompt.
        prompt: u64,
        /// Tokens of the answer.
        completion: u64,
    },
}

/// Why a script cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// It does not parse.
    #[error("the script cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// A scene says nothing.
    #[error("scene {0} of the script has no turns; give it one")]
    NoTurns(usize),
}

impl Script {
    /// Reads a script from JSON.
    pub fn from_json(text: &str) -> Result<Self, ScriptError> {
        let script: Self = serde_json::from_str(text)?;
        match script.scenes.iter().position(|scene| scene.turns.is_empty()) {
            Some(empty) => Err(ScriptError::NoTurns(empty)),
            None => Ok(script),
        }
    }

    /// The turn that a conversation has come to.
    pub(crate) fn turn(&self, request: &Request) -> Option<&Turn> {
        let scene = self.scenes.iter().find(|scene| scene.fits(request))?;
        let turn = request.turn().saturating_sub(scene.said_before);
        scene.turns.get(turn).or(scene.turns.last())
    }
}

impl Scene {
    fn fits(&self, request: &Request) -> bool {
        self.seed.is_none_or(|seed| request.seed == Some(seed))
            && self.when.iter().all(|text| request.is_told(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scene_without_turns_is_refused_by_number() {
        let script = r#"{"model": "m", "scenes": [{"turns": [{"text": "a"}]}, {"turns": []}]}"#;
        let error = Script::from_json(script).unwrap_err();
        assert!(error.to_string().contains("scene 1"), "{error}");
        assert!(Script::from_json(r#"{"model": "m", "scenes": [], "colour": 1}"#).is_err());
    }
}
