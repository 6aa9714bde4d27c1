//! What a source is: where its data lies and what its rows are.

use std::path::PathBuf;

use record::{SourceKind, SourceRole};

/// One source of a recipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSpec {
    /// The name under which the recipe speaks of it.
    pub name: String,
    /// Where the data lies.
    pub place: SourcePlace,
    /// What the rows are: the recipe's `as`.
    pub role: SourceRole,
    /// How many rows there must be, where the recipe says so.
    pub expect_rows: Option<u64>,
    /// The columns that the recipe believes are read.
    pub columns: Option<Vec<String>>,
}

/// Where the data of a source lies. Local paths are relative to the recipe or absolute, and the lock repeats them as
/// written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourcePlace {
    /// Local files, one after the other.
    File(Vec<PathBuf>),
    /// A local directory of Harbor task directories.
    Dir(PathBuf),
    /// Files of a dataset repository on the hub.
    HubFiles {
        /// Repository and revision.
        at: RepoSpec,
        /// Patterns of the files; none for every Parquet file.
        patterns: Vec<String>,
    },
    /// Harbor task directories in a dataset repository on the hub.
    HubTasks {
        /// Repository and revision.
        at: RepoSpec,
        /// The directory that holds them; empty for the repository's root.
        below: String,
    },
    /// Files of a repository on the code host, one after the other.
    CodeFiles {
        /// Repository and revision.
        at: RepoSpec,
        /// Paths in the repository.
        paths: Vec<String>,
    },
    /// A Harbor manifest: `registry.json` or `dataset.toml`.
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// Which of its data sets, where it lists several: `name` or `name@version`.
        dataset: Option<String>,
    },
}

/// A repository at a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepoSpec {
    /// `owner/name`.
    pub repo: String,
    /// A commit, a branch or a tag.
    pub revision: String,
}

/// Why a specification cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Columns that are not those that are read.
    #[error(
        "source `{name}`: `columns` names others than are read `as = \"{role}\"`: those are `{read}`; \
         leave `columns` out, or name these"
    )]
    Columns {
        /// The source.
        name: String,
        /// Its role.
        role: SourceRole,
        /// The columns that are read.
        read: String,
    },
    /// Rows that this kind of place cannot hold.
    #[error("source `{name}`: kind `{kind}` cannot be read as `{role}`; {remedy}")]
    Mismatch {
        /// The source.
        name: String,
        /// Its kind.
        kind: SourceKind,
        /// Its role.
        role: SourceRole,
        /// What would fit.
        remedy: &'static str,
    },
}

impl SourcePlace {
    /// The kind of the place.
    pub fn kind(&self) -> SourceKind {
        match self {
            Self::File(_) => SourceKind::File,
            Self::Dir(_) => SourceKind::Dir,
            Self::HubFiles { .. } => SourceKind::HfDataset,
            Self::HubTasks { .. } => SourceKind::HfTaskDirs,
            Self::CodeFiles { .. } => SourceKind::GithubFile,
            Self::Manifest { .. } => SourceKind::Registry,
        }
    }

    /// The place as the lock names it: another text means that the recipe has changed.
    pub fn origin(&self) -> String {
        let kind = self.kind();
        let repo = |at: &RepoSpec, rest: &[String]| {
            let rest: String = rest.iter().flat_map(|part| [" ", part.as_str()]).collect();
            format!("{kind} {}@{}{rest}", at.repo, at.revision)
        };
        match self {
            Self::File(_) | Self::Dir(_) | Self::Manifest { dataset: None, .. } => kind.to_string(),
            Self::HubFiles { at, patterns } => repo(at, patterns),
            Self::HubTasks { at, below } if below.is_empty() => repo(at, &[]),
            Self::HubTasks { at, below } => repo(at, std::slice::from_ref(below)),
            Self::CodeFiles { at, paths } => repo(at, paths),
            Self::Manifest { dataset: Some(dataset), .. } => format!("{kind} {dataset}"),
        }
    }
}

impl SourceSpec {
    /// A source whose number of rows and columns are not stated.
    pub fn new(name: impl Into<String>, place: SourcePlace, role: SourceRole) -> Self {
        Self { name: name.into(), place, role, expect_rows: None, columns: None }
    }

    /// A local file.
    pub fn file(name: impl Into<String>, path: impl Into<PathBuf>, role: SourceRole) -> Self {
        Self::new(name, SourcePlace::File(vec![path.into()]), role)
    }

    /// A local directory of task directories.
    pub fn dir(name: impl Into<String>, path: impl Into<PathBuf>, role: SourceRole) -> Self {
        Self::new(name, SourcePlace::Dir(path.into()), role)
    }

    /// Whether the data lies on this machine. The task directories of a manifest may lie in git repositories.
    pub fn is_local(&self) -> bool {
        match &self.place {
            SourcePlace::Manifest { .. } => self.role != SourceRole::Tasks,
            SourcePlace::File(_) | SourcePlace::Dir(_) => true,
            SourcePlace::HubFiles { .. } | SourcePlace::HubTasks { .. } | SourcePlace::CodeFiles { .. } => {
                false
            }
        }
    }

    /// Refuses a role that the kind cannot give, and columns that are not the role's.
    pub fn check(&self) -> Result<(), SpecError> {
        let kind = self.place.kind();
        let directories = matches!(kind, SourceKind::Dir | SourceKind::HfTaskDirs | SourceKind::Registry);
        let remedy = match (directories, self.role) {
            (false, SourceRole::Tasks) => "task directories need kind `dir`, `hf-task-dirs` or `registry`",
            (true, role) if !matches!(role, SourceRole::Ids | SourceRole::Tasks) => {
                "this kind gives `ids` or `tasks`"
            }
            _ => return self.check_columns(),
        };
        Err(SpecError::Mismatch { name: self.name.clone(), kind, role: self.role, remedy })
    }

    fn check_columns(&self) -> Result<(), SpecError> {
        let Some(columns) = &self.columns else { return Ok(()) };
        let known = crate::load::columns(self.role);
        let mut stated: Vec<_> = columns.iter().map(String::as_str).collect();
        stated.sort_unstable();
        let mut read = known.to_vec();
        read.sort_unstable();
        if stated == read {
            return Ok(());
        }
        Err(SpecError::Columns { name: self.name.clone(), role: self.role, read: known.join("`, `") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_give_what_they_hold() {
        let at = RepoSpec { repo: "o/n".into(), revision: "main".into() };
        let dir = |role| SourceSpec::dir("x", "x", role).check();
        assert!(dir(SourceRole::Instances).is_err());
        assert!(dir(SourceRole::Ids).is_ok());
        assert!(SourceSpec::file("x", "x", SourceRole::Tasks).check().is_err());
        let hub = SourcePlace::HubTasks { at: at.clone(), below: "tasks".into() };
        assert_eq!(hub.origin(), "hf-task-dirs o/n@main tasks");
        assert!(SourceSpec::new("x", hub, SourceRole::Trajectories).check().is_err());
        let files = SourcePlace::HubFiles { at, patterns: vec!["a/*".into(), "b".into()] };
        assert_eq!(files.origin(), "hf-dataset o/n@main a/* b");
        assert!(SourceSpec::new("x", files, SourceRole::Trajectories).check().is_ok());
    }

    #[test]
    fn stated_columns_are_those_that_are_read() {
        let mut spec = SourceSpec::file("x", "x.parquet", SourceRole::Trajectories);
        let columns = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
        spec.columns = columns(&["instance_id", "model", "resolved", "traj_id"]);
        assert_eq!(spec.check(), Ok(()));
        spec.columns = columns(&["instance_id", "messages"]);
        assert!(spec.check().unwrap_err().to_string().contains("`traj_id`"));
    }
}
