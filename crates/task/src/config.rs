//! x
/// Why.
#[derive(Debug, thiserror::Error)]
#[error("x")]
pub struct ConfigError;
