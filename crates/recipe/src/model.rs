//! The recipe as checked values. The book's page `recipe.md` explains every key to its users.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;

use record::{ClusterConfig, ShardConfig, SourceKind, SourceRole};
use serde::{Deserialize, Serialize};

/// A whole recipe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Name and version of the set.
    pub dataset: DatasetRecipe,
    /// Where candidates and evidence come from, by name.
    pub sources: BTreeMap<String, SourceRecipe>,
    /// Id lists by name: paths of files with one id a line.
    #[serde(default)]
    pub sets: BTreeMap<String, String>,
    /// How evidence is read.
    #[serde(default)]
    pub evidence: EvidenceRecipe,
    /// Old repository names and today's.
    #[serde(default)]
    pub aliases: Aliases,
    /// Images that the project builds for itself: directory with a `Dockerfile` by NAME; each is `seatrial.local/NAME`.
    #[serde(default)]
    pub bases: BTreeMap<String, String>,
    /// The pools in the order in which they are filled.
    #[serde(rename = "pool")]
    pub pools: Vec<PoolRecipe>,
    /// How task directories are written.
    pub materialize: MaterializeRecipe,
    /// What the static rules are told.
    #[serde(default)]
    pub check: CheckRecipe,
    /// Where images are kept; none where no registry is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<ShardConfig>,
    /// How tasks are proved.
    #[serde(default)]
    pub prove: ProveRecipe,
    /// How a cluster is used, where the engine is `kubernetes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<ClusterConfig>,
    /// How the final set is chosen.
    pub resolve: ResolveRecipe,
    /// What is written for trainers.
    #[serde(default, rename = "export")]
    pub exports: Vec<ExportRecipe>,
    /// How agents that ask a model work.
    #[serde(default)]
    pub agents: AgentsRecipe,
    /// What a canary runs.
    #[serde(default)]
    pub canary: CanaryRecipe,
}

/// `[dataset]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetRecipe {
    /// Lower-case letters, digits and dashes.
    pub name: String,
    /// Such as `v1`.
    pub version: String,
    /// File of the Ed25519 key of OpenSSH that attestations are signed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing_key: Option<PathBuf>,
}

/// `[sources.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceRecipe {
    /// Where the data lies.
    pub kind: SourceKind,
    /// What the rows are.
    #[serde(rename = "as")]
    pub role: SourceRole,
    /// Paths: relative to the recipe for local kinds, inside the repository for `github-file` and `hf-task-dirs`.
    #[serde(default, skip_serializing_if = "Texts::is_empty")]
    pub path: Texts,
    /// `owner/name` of a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// A commit; or a branch or tag, which the lock pins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Which files of a repository are read: patterns such as `data/train-*.parquet`.
    #[serde(default, skip_serializing_if = "Texts::is_empty")]
    pub files: Texts,
    /// Which data set of a manifest that lists several: `name` or `name@version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// The columns that are read. They follow from `as`; written down, they are checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<String>>,
    /// How many rows there must be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_rows: Option<u64>,
}

/// A text or a list of texts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "toml::Value", into = "Vec<String>")]
pub struct Texts(pub Vec<String>);

impl Texts {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<toml::Value> for Texts {
    type Error = String;

    fn try_from(value: toml::Value) -> Result<Self, Self::Error> {
        let wrong = |other: &toml::Value| format!("`{other}` is no text; write a text, or a list of texts");
        match value {
            toml::Value::String(text) => Ok(Self(vec![text])),
            toml::Value::Array(items) => {
                let texts =
                    items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(|| wrong(item)));
                texts.collect::<Result<_, _>>().map(Self)
            }
            other => Err(wrong(&other)),
        }
    }
}

impl From<Texts> for Vec<String> {
    fn from(texts: Texts) -> Self {
        texts.0
    }
}

/// `[aliases]`, or `aliases = "FILE"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "toml::Value", untagged)]
pub enum Aliases {
    /// Old names and today's.
    Table(BTreeMap<String, String>),
    /// Path of a file that holds such a table; see [`crate::parse_aliases`].
    File(String),
}

impl Aliases {
    /// The names; none while they still lie in their file.
    pub fn names(&self) -> Option<&BTreeMap<String, String>> {
        match self {
            Self::Table(names) => Some(names),
            Self::File(_) => None,
        }
    }
}

impl Default for Aliases {
    fn default() -> Self {
        Self::Table(BTreeMap::new())
    }
}

impl TryFrom<toml::Value> for Aliases {
    type Error = String;

    fn try_from(value: toml::Value) -> Result<Self, Self::Error> {
        match value {
            toml::Value::String(path) => Ok(Self::File(path)),
            toml::Value::Table(names) => {
                let name = |(old, new): (String, toml::Value)| match new {
                    toml::Value::String(new) => Ok((old, new)),
                    other => Err(format!(
                        "alias `{old}` points at `{other}`: write the repository's name of today"
                    )),
                };
                names.into_iter().map(name).collect::<Result<_, _>>().map(Self::Table)
            }
            other => Err(format!("`{other}` is no alias table: write [aliases], or aliases = \"FILE\"")),
        }
    }
}

/// `[evidence]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvidenceRecipe {
    /// What counts as success in both kinds of evidence.
    pub cross_source: CrossSource,
    /// Prefixes of model names and their family, or `ignore`.
    pub models: BTreeMap<String, String>,
}

impl Default for EvidenceRecipe {
    fn default() -> Self {
        let defaults = [
            ("gpt-4o", "gpt-4o"),
            ("claude-3-5", "claude-3.5"),
            ("claude-3.5", "claude-3.5"),
            ("claude-3-7", "claude-3.7"),
            ("claude-3.7", "claude-3.7"),
        ];
        Self {
            cross_source: CrossSource::Any,
            models: defaults.into_iter().map(|(prefix, family)| (prefix.into(), family.into())).collect(),
        }
    }
}

/// When a task counts as solved in both kinds of evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrossSource {
    /// A reward mean above 0 is enough.
    Any,
    /// The reward mean must be exactly 1.
    Full,
}

/// `[[pool]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolRecipe {
    /// The pool's name.
    pub stage: String,
    /// Set expression over sources and sets: `a & (b | c) - d`.
    pub members: String,
    /// How many tasks are wanted.
    pub target: u64,
    /// Most tasks of one repository.
    pub cap: Cap,
    /// Set expression of tasks that must be kept.
    #[serde(default)]
    pub retain: Option<String>,
    /// Set expression of tasks that must be taken.
    #[serde(default)]
    pub force: Option<String>,
    /// Whether new picks need an image that is there.
    #[serde(default)]
    pub require_image: bool,
    /// Whether the cap may be raised when the target is not reached.
    #[serde(default)]
    pub relax: bool,
    /// How many replacements are kept ready.
    #[serde(default)]
    pub reserve: Reserve,
}

/// Most tasks of one repository: a number, or a share of the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "toml::Value", into = "String")]
pub enum Cap {
    /// That many.
    Count(u64),
    /// `"P%"` of the target, rounded up in exact decimal arithmetic; kept as the digits before the sign.
    Percent(String),
}

impl TryFrom<toml::Value> for Cap {
    type Error = String;

    fn try_from(value: toml::Value) -> Result<Self, Self::Error> {
        match value {
            toml::Value::Integer(count) if count > 0 => Ok(Self::Count(count.unsigned_abs())),
            toml::Value::String(text) => {
                let digits = text.strip_suffix('%').map(str::trim).unwrap_or_default();
                let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
                let plain = |part: &str| {
                    !part.is_empty() && part.len() <= 9 && part.bytes().all(|c| c.is_ascii_digit())
                };
                if plain(whole) && plain(fraction) && digits.bytes().any(|c| matches!(c, b'1'..=b'9')) {
                    Ok(Self::Percent(digits.to_owned()))
                } else {
                    Err(format!(
                        "`{text}` is no cap: write a whole number above 0, or a share such as \"5%\""
                    ))
                }
            }
            other => {
                Err(format!("`{other}` is no cap: write a whole number above 0, or a share such as \"5%\""))
            }
        }
    }
}

impl From<Cap> for String {
    fn from(cap: Cap) -> Self {
        match cap {
            Cap::Count(count) => count.to_string(),
            Cap::Percent(digits) => format!("{digits}%"),
        }
    }
}

/// How many replacements a pool keeps ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "toml::Value", into = "String")]
pub enum Reserve {
    /// At most that many, by the rules of the pool.
    Count(u64),
    /// Everything that is left, in order of evidence.
    Rest,
}

impl Default for Reserve {
    fn default() -> Self {
        Self::Count(0)
    }
}

impl TryFrom<toml::Value> for Reserve {
    type Error = String;

    fn try_from(value: toml::Value) -> Result<Self, Self::Error> {
        match value {
            toml::Value::Integer(count) if count >= 0 => Ok(Self::Count(count.unsigned_abs())),
            toml::Value::String(text) if text == "rest" => Ok(Self::Rest),
            other => Err(format!("`{other}` is no reserve: write a whole number, or \"rest\"")),
        }
    }
}

impl From<Reserve> for String {
    fn from(reserve: Reserve) -> Self {
        match reserve {
            Reserve::Count(count) => count.to_string(),
            Reserve::Rest => "rest".into(),
        }
    }
}

/// `[materialize]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaterializeRecipe {
    /// Where the clean tree comes from.
    pub workspace: Workspace,
    /// The image that environments start from; the instance's own image when absent.
    #[serde(default)]
    pub base: Option<String>,
    /// Where the tree lies inside the sandbox.
    #[serde(default = "default_workdir")]
    pub workdir: String,
    /// Organisation in front of the task's package name.
    #[serde(default = "default_organisation")]
    pub organisation: String,
    /// A local directory that is looked into before anything is fetched: source distributions, or git mirrors.
    #[serde(default)]
    pub from: Option<String>,
    /// OCI image layout directory that holds the images; a registry is asked when absent.
    #[serde(default)]
    pub layout: Option<String>,
    /// Time limit of an agent, in seconds.
    #[serde(default = "default_agent_timeout")]
    pub agent_timeout_sec: u64,
    /// Processors of a sandbox.
    #[serde(default)]
    pub cpus: Option<u32>,
    /// Memory of a sandbox in MiB.
    #[serde(default)]
    pub memory_mb: Option<u64>,
}

fn default_workdir() -> String {
    "/testbed".into()
}

fn default_organisation() -> String {
    "seatrial".into()
}

fn default_agent_timeout() -> u64 {
    1800
}

/// Where the clean tree of a repository comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Workspace {
    /// A source distribution named by the repository's profile.
    Sdist,
    /// A git mirror: a directory of bare repositories.
    Git,
    /// A directory inside the instance's image.
    Image(String),
}

impl TryFrom<String> for Workspace {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match text.as_str() {
            "sdist" => Ok(Self::Sdist),
            "git" => Ok(Self::Git),
            _ => match text.strip_prefix("image:") {
                Some(path) if path.starts_with('/') && path.len() > 1 => Ok(Self::Image(path.to_owned())),
                _ => Err(format!("`{text}` is no workspace: write \"sdist\", \"git\" or \"image:/path\"")),
            },
        }
    }
}

impl From<Workspace> for String {
    fn from(workspace: Workspace) -> Self {
        match workspace {
            Workspace::Sdist => "sdist".into(),
            Workspace::Git => "git".into(),
            Workspace::Image(path) => format!("image:{path}"),
        }
    }
}

/// `[check]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CheckRecipe {
    /// Repositories that must not be in the set.
    pub held_out: HeldOut,
}

/// Repositories by name, or a file that holds them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "toml::Value", untagged)]
pub enum HeldOut {
    /// In any spelling of a repository.
    Names(Vec<String>),
    /// Path of a file with one a line; empty lines and those that begin with `#` do not count.
    File(String),
}

impl Default for HeldOut {
    fn default() -> Self {
        Self::Names(Vec::new())
    }
}

impl TryFrom<toml::Value> for HeldOut {
    type Error = String;

    fn try_from(value: toml::Value) -> Result<Self, Self::Error> {
        match value {
            toml::Value::String(path) => Ok(Self::File(path)),
            value @ toml::Value::Array(_) => Texts::try_from(value).map(|texts| Self::Names(texts.0)),
            other => Err(format!("`{other}` is no list of repositories: write [\"owner/name\"], or a FILE")),
        }
    }
}

/// `[prove]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProveRecipe {
    /// Oracle trials that must all give 1.
    pub oracle_runs: u32,
    /// Nop trials that must all give less than 1.
    pub nop_runs: u32,
    /// Runs of each kind after any disagreement.
    pub confirm_runs: u32,
    /// Time limit of one suite run in seconds, where the repository's profile names none.
    pub timeout_sec: u64,
    /// The engine.
    pub engine: EngineName,
    /// Which tasks the cheat set is tried on.
    pub cheats: CheatPolicy,
    /// What becomes of tasks with tests that vary.
    pub flaky_tests: FlakyPolicy,
}

impl Default for ProveRecipe {
    fn default() -> Self {
        Self {
            oracle_runs: 3,
            nop_runs: 3,
            confirm_runs: 10,
            timeout_sec: 180,
            engine: EngineName::Native,
            cheats: CheatPolicy::default(),
            flaky_tests: FlakyPolicy::default(),
        }
    }
}

/// Which tasks the cheat set is tried on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheatPolicy {
    /// Every task.
    PerTask,
    /// What attacks a verifier once for all tasks with that verifier, profile and repository; what attacks the environment
    /// every task.
    #[default]
    PerVerifier,
    /// None.
    Off,
}

/// What becomes of tasks with tests that had more than one status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlakyPolicy {
    /// They are rejected.
    #[default]
    Reject,
    /// Varying tests of PASS_TO_PASS are taken out, and the task is proved again.
    Quarantine,
}

/// Engines by name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineName {
    /// The embedded Linux sandbox.
    #[default]
    Native,
    /// Containers of a daemon that speaks the Docker Engine API.
    Docker,
    /// Pods of a Kubernetes cluster.
    Kubernetes,
}

impl EngineName {
    /// The name that observations carry.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Docker => "docker",
            Self::Kubernetes => "kubernetes",
        }
    }
}

/// `[resolve]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolveRecipe {
    /// Most tasks of one repository over all pools.
    pub repo_cap: u64,
    /// Wanted sizes of the splits.
    pub split: SplitSizes,
    /// Whether a smaller set is written, with every shortage recorded.
    #[serde(default)]
    pub allow_shortfall: bool,
}

/// Wanted sizes of the splits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitSizes {
    /// Training.
    pub train: u64,
    /// Validation.
    #[serde(default)]
    pub validation: u64,
    /// Test.
    #[serde(default)]
    pub test: u64,
}

/// `[agents]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentsRecipe {
    /// File of templates of what a model is told, relative to the recipe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<PathBuf>,
}

/// `[canary]`. What is absent is as the command has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CanaryRecipe {
    /// The split that tasks are drawn from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<CanarySplit>,
    /// How many tasks are drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<NonZeroU32>,
    /// The most tokens of a conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<NonZeroU64>,
}

/// Where a canary's tasks come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CanarySplit {
    /// Training.
    Train,
    /// Validation.
    Validation,
    /// Test.
    Test,
    /// All splits.
    All,
}

/// `[[export]]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportRecipe {
    /// The format.
    pub format: ExportFormat,
}

/// What trainers read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExportFormat {
    /// Harbor task directories and dataset manifests, one per split.
    Harbor,
    /// Task directories as archives in Parquet.
    TaskParquet,
    /// Prompts for verl.
    Verl,
    /// Prompts for SkyRL.
    #[serde(rename = "skyrl")]
    SkyRl,
    /// Rows for NeMo-Gym.
    NemoGym,
    /// Rows for slime.
    Slime,
    /// One archive of the whole set.
    Package,
}
