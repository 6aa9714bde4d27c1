//! What a client goes by.

use std::time::Duration;

use super::RetryRules;

/// What a client goes by.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The address below which `chat/completions` lies, such as `http://127.0.0.1:8000/v1`.
    pub url: String,
    /// The model, as the server calls it.
    pub model: String,
    /// How the model chooses its words.
    pub sampling: Sampling,
    /// Whether answers are asked for in pieces. A server that has gone silent is then noticed sooner.
    pub stream: bool,
    /// Whether tokens are asked for by number, and how.
    pub tokens: Option<TokenFormat>,
    /// What tokens cost.
    pub prices: Prices,
    /// When a request is tried again.
    pub retry: RetryRules,
    /// The longest that an answer may take, from the request to its last byte.
    pub answer_limit: Duration,
    /// The longest that a server may stay silent.
    pub silence_limit: Duration,
}

impl Settings {
    /// The settings for a model at an address, everything else as usual.
    pub fn new(url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            model: model.into(),
            sampling: Sampling::default(),
            stream: false,
            tokens: None,
            prices: Prices::default(),
            retry: RetryRules::default(),
            answer_limit: Duration::from_secs(600),
            silence_limit: Duration::from_secs(300),
        }
    }
}

/// How the model chooses its words. What is `None` is left to the server.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sampling {
    /// Temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    pub top_p: Option<f64>,
    /// The most tokens of one answer.
    pub max_tokens: Option<u64>,
    /// Seed of an attempt.
    pub seed: Option<u64>,
}

/// How token numbers are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenFormat {
    /// vLLM, from 0.10.2: `return_token_ids`.
    Vllm,
    /// SGLang, from 0.5.13: `return_prompt_token_ids` and `return_meta_info`, which it gives only for whole answers.
    Sglang,
}

/// Dollars for a million tokens. What is `None` is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Prices {
    /// Of the prompt.
    pub prompt: Option<f64>,
    /// Of the prompt and from a cache; otherwise they cost what others do.
    pub cached: Option<f64>,
    /// Written by the model.
    pub completion: Option<f64>,
}

impl Prices {
    /// What an answer costs; unknown without the prices of prompt and completion.
    pub(super) fn cost(&self, usage: crate::Usage) -> Option<f64> {
        const MILLION: f64 = 1e6;
        let (prompt, completion) = (self.prompt?, self.completion?);
        let cached = usage.cached.unwrap_or(0).min(usage.prompt);
        let fresh = usage.prompt - cached;
        let dear = fresh as f64 * prompt + cached as f64 * self.cached.unwrap_or(prompt);
        Some((dear + usage.completion as f64 * completion) / MILLION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Usage;

    #[test]
    fn costs_are_known_where_prices_are() {
        let usage = Usage { prompt: 1000, completion: 100, cached: Some(400) };
        let prices = Prices { prompt: Some(2.0), cached: Some(0.5), completion: Some(10.0) };
        assert!((prices.cost(usage).unwrap() - 0.0024).abs() < 1e-12);
        assert!((Prices { cached: None, ..prices }.cost(usage).unwrap() - 0.003).abs() < 1e-12);
        assert_eq!(Prices { prompt: None, ..prices }.cost(usage), None);
        let odd = Usage { cached: Some(5000), ..usage };
        assert!(prices.cost(odd).unwrap() > 0.0, "more cached than there are");
    }
}
