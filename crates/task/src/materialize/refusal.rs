//! Why a candidate becomes no task.

use ident::TaskId;

use crate::patch::PatchProblem;

/// Why a candidate becomes no task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{task_id}` is refused for its {field}: {reason}")]
pub struct Refusal {
    /// The candidate.
    pub task_id: TaskId,
    /// The field of the instance, the profile or the settings that is to blame.
    pub field: &'static str,
    /// What is wrong with it.
    pub reason: RefusalReason,
}

/// What is wrong with a candidate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusalReason {
    /// The patch cannot be read or does not fit the clean tree.
    #[error(transparent)]
    Patch(#[from] PatchProblem),
    /// The patch applies and the tree is the same as before.
    #[error("the patch changes nothing")]
    PatchChangesNothing,
    /// The patch changes files that the verifier restores, so the bug would be gone or the tests would be other ones.
    #[error("the patch changes files that belong to the tests: {}", .0.join(", "))]
    PatchTouchesTests(Vec<String>),
    /// Nothing to prove.
    #[error("no test is named that the fix must turn")]
    NoFailToPass,
    /// There is no clean tree.
    #[error("the clean source tree is empty")]
    WorkspaceMissing,
    /// More than one repository can hold.
    #[error("the workspace cannot be committed: {0}")]
    WorkspaceTooLarge(String),
    /// A path that no Dockerfile can name.
    #[error("the path `{0}` is not UTF-8 and has to be removed by name")]
    PathNotText(String),
    /// The profile is about another repository.
    #[error("the profile is about `{profile}` and the instance about `{instance}`")]
    ProfileMismatch {
        /// The profile's repository.
        profile: String,
        /// The instance's.
        instance: String,
    },
    /// An environment variable that cannot be written down.
    #[error("the environment variable {0:?} has a name or a value that a Dockerfile cannot hold")]
    EnvironmentVariable(String),
    /// A setting that cannot be written into a task.
    #[error("{what} is {value:?}; {wanted}")]
    Setting {
        /// Which setting.
        what: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        wanted: &'static str,
    },
    /// The verifier has no files for this instance.
    #[error("the verifier cannot be set up: {0}")]
    Verifier(String),
    /// The computed fix does not lead back to the clean tree: a fault of this program, caught before it does harm.
    #[error("the reference fix does not lead back to the clean tree")]
    FixDiverges,
}

impl RefusalReason {
    /// A stable name, for documents and tables.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Patch(problem) => problem.name(),
            Self::PatchChangesNothing => "patch_changes_nothing",
            Self::PatchTouchesTests(_) => "patch_touches_tests",
            Self::NoFailToPass => "no_fail_to_pass",
            Self::WorkspaceMissing => "workspace_missing",
            Self::WorkspaceTooLarge(_) => "workspace_too_large",
            Self::PathNotText(_) => "path_not_text",
            Self::ProfileMismatch { .. } => "profile_mismatch",
            Self::EnvironmentVariable(_) => "environment_variable",
            Self::Setting { .. } => "setting_invalid",
            Self::Verifier(_) => "verifier_config",
            Self::FixDiverges => "fix_diverges",
        }
    }
}
