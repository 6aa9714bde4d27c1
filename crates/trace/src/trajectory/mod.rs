//! Trajectories: what an agent was told, said, did and saw, step after step.
//!
//! The model is that of ATIF; whatever else agents write is turned into it.

mod atif;
mod cut;
mod foreign;
mod form;
mod lines;
mod model;

pub use atif::AtifError;
pub(crate) use atif::{content, from_json, numbers};
pub use form::TRAJECTORY_FORMS;
pub(crate) use form::read;
pub use model::{
    Content, Observed, Part, Speaker, Step, StepUsage, TokenRecord, ToolCall, ToolDefinitions, Totals,
    Trajectory,
};
