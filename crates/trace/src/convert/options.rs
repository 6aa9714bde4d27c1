//! What is converted, and into which form.

use super::CleanStep;
use crate::export::Filter;

/// A form of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `messages` with `role` and `content`: chat templates take it as it is.
    Sft,
    /// `conversations` with `from` and `value`.
    Sharegpt,
    /// `conversations` with `role` and `content` whose roles alternate strictly, from user to assistant: LLaMA-Factory keeps
    /// every one.
    LlamaFactory,
    /// `prompt`, `response` and a `loss_mask` of one number a message of the response: 1 where the agent speaks.
    Masked,
    /// `prompt`, `response`, `reward` and `advantage`, with the group and the sample's place in it.
    Rl,
    /// `prompt`, `chosen` and `rejected`, from trials of one group.
    Preference,
    /// One row a turn: tokens of the prompt and of the answer, and log probabilities.
    Tokens,
    /// One row a task: the mean reward, how many trials, the interval of the solve rate, whether rewards differ.
    Difficulty,
}

/// How the advantage of a sample is computed. In a group of one it is the reward itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Advantage {
    /// Distance from the group's mean in standard deviations of the sample, as GRPO does.
    #[default]
    Std,
    /// Distance from the group's mean.
    Mean,
}

/// What is converted, and into which form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConvertOptions {
    /// The form.
    pub form: Form,
    /// Steps of cleaning; they are done in their own order.
    pub clean: Vec<CleanStep>,
    /// Which trials.
    pub filter: Option<Filter>,
    /// How advantages are computed.
    pub advantage: Advantage,
    /// Leaves out groups whose rewards are all equal.
    pub drop_constant_groups: bool,
}
