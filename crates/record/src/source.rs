//! Where a source's data lies and what its rows are, by the names that recipes use.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Kinds of places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    /// Local files.
    File,
    /// A local directory of Harbor task directories.
    Dir,
    /// Files of a dataset repository on the hub.
    HfDataset,
    /// Harbor task directories in a dataset repository on the hub.
    HfTaskDirs,
    /// Files of a repository on the code host.
    GithubFile,
    /// A Harbor manifest: `registry.json` or `dataset.toml`.
    Registry,
}

/// What the rows of a source are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceRole {
    /// Task candidates with their patches.
    Instances,
    /// Task ids.
    Ids,
    /// Ready-made task directories, to be written anew.
    Tasks,
    /// Published agent runs.
    Trajectories,
    /// Mean rewards of rollouts.
    RewardMeans,
    /// States of images.
    ImageStates,
    /// Per repository: test command, environment, where its sources are.
    Profiles,
}

impl fmt::Display for SourceKind {
    /// The name that recipes use.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl fmt::Display for SourceRole {
    /// The name that recipes use.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_and_kinds_have_names() {
        assert_eq!(serde_json::from_str::<SourceRole>("\"reward_means\"").unwrap(), SourceRole::RewardMeans);
        let wrong = serde_json::from_str::<SourceRole>("\"rewards\"").unwrap_err();
        assert!(wrong.to_string().contains("image_states"), "{wrong}");
        assert_eq!(SourceRole::RewardMeans.to_string(), "reward_means");
        assert_eq!(SourceKind::HfTaskDirs.to_string(), "hf-task-dirs");
    }
}
