//! Endpoints that speak OpenAI's chat completions.

mod answer;
mod client;
mod events;
mod key;
mod refusal;
mod request;
mod retry;
mod settings;
mod wire;

pub use client::{Ask, Client, EndpointError};
pub use key::{Key, KeyError};
pub use refusal::is_overflow;
pub use retry::RetryRules;
pub use settings::{Prices, Sampling, Settings, TokenFormat};
pub use wire::Wire;
