//! What a source is: where its data lies and what its rows are.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// One source of a recipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSpec {
    /// The name under which the recipe speaks of it.
    pub name: String,
    /// What kind of place the data lies in.
    pub kind: SourceKind,
    /// The place, relative to the recipe or absolute. The lock repeats it as written.
    pub path: PathBuf,
    /// What the rows are: the recipe's `as`.
    pub role: Role,
}

/// Kinds of places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    /// A local file: JSON lines, a JSON array, or one id a line.
    File,
    /// A local directory of Harbor task directories.
    Dir,
}

/// What the rows of a source are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Task candidates with their patches.
    Instances,
    /// Task ids.
    Ids,
    /// Task directories.
    Tasks,
    /// Published agent runs.
    Trajectories,
    /// Mean rewards of rollouts.
    RewardMeans,
    /// States of images.
    ImageStates,
    /// How the tests of each repository are run.
    Profiles,
}

/// Why a specification cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// A kind that is planned.
    #[error("kind `{kind}` is not supported yet; supported are: {}", names(&SourceKind::ALL))]
    UnsupportedKind {
        /// The kind as written.
        kind: String,
    },
    /// A kind that nobody knows.
    #[error("there is no source kind `{kind}`; supported are: {}", names(&SourceKind::ALL))]
    UnknownKind {
        /// The kind as written.
        kind: String,
    },
    /// A role that nobody knows.
    #[error("sources cannot be read as `{role}`; known are: {}", names(&Role::ALL))]
    UnknownRole {
        /// The role as written.
        role: String,
    },
    /// Rows that this kind of place cannot hold.
    #[error("source `{name}`: kind `{kind}` cannot be read as `{role}`; {remedy}")]
    Mismatch {
        /// The source.
        name: String,
        /// Its kind.
        kind: SourceKind,
        /// Its role.
        role: Role,
        /// What would fit.
        remedy: &'static str,
    },
}

impl SourceKind {
    /// Every supported kind.
    pub const ALL: [Self; 2] = [Self::File, Self::Dir];
    /// Kinds that recipes may come to name later.
    const PLANNED: [&str; 3] = ["hf-dataset", "hf-task-dirs", "github-file"];

    /// The name that recipes use.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Dir => "dir",
        }
    }
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 7] = [
        Self::Instances,
        Self::Ids,
        Self::Tasks,
        Self::Trajectories,
        Self::RewardMeans,
        Self::ImageStates,
        Self::Profiles,
    ];

    /// The name that recipes use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Instances => "instances",
            Self::Ids => "ids",
            Self::Tasks => "tasks",
            Self::Trajectories => "trajectories",
            Self::RewardMeans => "reward_means",
            Self::ImageStates => "image_states",
            Self::Profiles => "profiles",
        }
    }
}

impl SourceSpec {
    /// Refuses a role that the kind cannot give.
    pub fn check(&self) -> Result<(), SpecError> {
        let remedy = match (self.kind, self.role) {
            (SourceKind::File, Role::Tasks) => "task directories need kind `dir`",
            (SourceKind::Dir, Role::Ids | Role::Tasks) | (SourceKind::File, _) => return Ok(()),
            (SourceKind::Dir, _) => "a directory gives `ids` or `tasks`",
        };
        Err(SpecError::Mismatch { name: self.name.clone(), kind: self.kind, role: self.role, remedy })
    }
}

impl FromStr for SourceKind {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let kind = text.to_owned();
        match Self::ALL.into_iter().find(|kind| kind.name() == text) {
            Some(kind) => Ok(kind),
            None if Self::PLANNED.contains(&text) => Err(SpecError::UnsupportedKind { kind }),
            None => Err(SpecError::UnknownKind { kind }),
        }
    }
}

impl FromStr for Role {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|role| role.name() == text)
            .ok_or_else(|| SpecError::UnknownRole { role: text.to_owned() })
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn names<T: fmt::Display>(all: &[T]) -> String {
    all.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_a_later_day_are_told_from_misspelt_ones() {
        assert_eq!("file".parse(), Ok(SourceKind::File));
        assert_eq!(
            "hf-dataset".parse::<SourceKind>().unwrap_err().to_string(),
            "kind `hf-dataset` is not supported yet; supported are: file, dir"
        );
        assert!(matches!("fil".parse::<SourceKind>(), Err(SpecError::UnknownKind { .. })));
        assert_eq!("reward_means".parse(), Ok(Role::RewardMeans));
        assert!("rewards".parse::<Role>().unwrap_err().to_string().contains("image_states"));
    }

    #[test]
    fn a_directory_holds_no_rows() {
        let spec = |kind, role| SourceSpec { name: "x".into(), kind, path: "x".into(), role };
        assert!(spec(SourceKind::Dir, Role::Instances).check().is_err());
        assert!(spec(SourceKind::File, Role::Tasks).check().is_err());
        assert!(spec(SourceKind::Dir, Role::Ids).check().is_ok());
    }
}
