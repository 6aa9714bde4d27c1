//! Harbor 0.26's job and trial documents, as written to disk.
//!
//! Field order, nulls and number forms follow Harbor's own writer, so that its readers and people's scripts find what
//! they know. Engines that Harbor does not have are named through `import_path`, as Harbor does for foreign ones.

mod config;
mod lock;
mod result;
mod time;

pub use config::{
    AgentConfig, EnvironmentConfig, JobConfig, RetryConfig, TaskConfig, TrialConfig, VerifierConfig,
};
pub use lock::trial_lock;
pub use result::{
    AgentContext, AgentInfo, EvalStats, ExceptionInfo, ExceptionPolicy, JobResult, JobStats, Rewards, Span,
    TaskPath, TrialResult, VerifierResult, python_float,
};
pub use time::{local, utc};

use serde::Serialize;
use serde::ser::Error as _;
use serde_json::ser::{PrettyFormatter, Serializer};

/// Serialises a document as Harbor does: four spaces of indent, no final newline.
pub fn to_text<T: Serialize>(document: &T) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::new();
    document.serialize(&mut Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(b"    ")))?;
    String::from_utf8(bytes).map_err(serde_json::Error::custom)
}
