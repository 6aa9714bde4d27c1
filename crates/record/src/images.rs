//! Where images are kept.

use serde::{Deserialize, Serialize};

/// The shards of a registry, and how images are spread over them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardConfig {
    /// Host and port of the registry.
    pub registry: String,
    /// What stands before the names of all shards; may be empty.
    #[serde(default)]
    pub namespace: String,
    /// Name of a shard; `{}` stands for its number, `{:02}` for at least two digits of it.
    #[serde(default = "template")]
    pub shard_template: String,
    /// How many shards there are.
    pub shards: u32,
    /// Most tags in one shard, those of others included.
    pub tag_limit: u64,
    /// Where an image belongs.
    #[serde(default)]
    pub placement: Placement,
    /// What happens when it does not fit there.
    #[serde(default)]
    pub overflow: Overflow,
    /// Whether a shard that the registry does not know counts as empty.
    #[serde(default)]
    pub create_repositories: bool,
    /// Whether a tag that names another image is moved.
    #[serde(default)]
    pub overwrite: bool,
    /// Part of every hash; another version spreads images anew.
    #[serde(default = "hash_version")]
    pub hash_version: String,
}

/// Where an image belongs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Each image by its own key.
    #[default]
    Hash,
    /// A base and everything that is built on it in one shard.
    Group,
}

/// What happens to an image whose shard is full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    /// The plan is refused.
    #[default]
    Fail,
    /// It goes to the next shard of its own order that has room.
    Probe,
}

fn template() -> String {
    "task-{:02}".into()
}

fn hash_version() -> String {
    "v1".into()
}
