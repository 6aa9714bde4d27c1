//! The command line, defined once: help, completions and the man page come from it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

/// Turns public code-agent tasks into a proved, frozen reinforcement-learning set.
#[derive(Debug, Parser)]
#[command(
    name = "seatrial",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Cli {
    /// Works in DIR instead of the current directory.
    #[arg(short = 'C', long = "directory", value_name = "DIR", global = true, value_hint = ValueHint::DirPath)]
    pub directory: Option<PathBuf>,
    /// Prints JSON on standard output and nothing else there.
    #[arg(long, global = true)]
    pub json: bool,
    /// Prints results only.
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Shows log messages, such as `debug` or `sandbox=trace` (also RUST_LOG).
    #[arg(long, value_name = "FILTER", global = true)]
    pub log: Option<String>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands, in the order of the work.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Writes a small recipe that works into a new directory.
    Init(Init),
    /// Tells which engines can run on this machine, and what is in the way.
    Doctor,
    /// Runs every stage that is stale, in order.
    Up(Jobs),
    /// Pins public data.
    #[command(subcommand)]
    Source(Source),
    /// Ranks candidates by evidence and picks primaries and reserves.
    #[command(args_conflicts_with_subcommands = true)]
    Plan(Plan),
    /// Writes Harbor task directories.
    Materialize,
    /// Applies the static rules, to the recipe's tasks or to any task directories.
    Check(Check),
    /// Proves tasks: doing nothing must fail, the solution must pass, every time, and cheats must get nothing.
    Prove(Prove),
    /// Builds images and puts them into the shards of a registry: planned, mirrored, verified.
    #[command(subcommand)]
    Images(Images),
    /// Shows where every task stands.
    Status(Status),
    /// Chooses the final set and its splits.
    #[command(args_conflicts_with_subcommands = true)]
    Resolve(Resolve),
    /// Writes the frozen set, or checks one.
    Freeze(Freeze),
    /// Writes the frozen set in the formats of trainers.
    Export(Export),
    /// Checks a package of a frozen set in every way and puts it where trainers read it.
    Register(Register),
    /// Shows the registered sets.
    #[command(subcommand)]
    Datasets(Datasets),
    /// Runs an agent on task directories.
    Run(Run),
    /// Measures a model on a few tasks that are always the same, and compares it with an earlier one.
    Canary(crate::command::canary::Canary),
    /// Shows jobs, Seatrial's and Harbor's own.
    #[command(subcommand)]
    Jobs(JobsCommand),
    /// Turns jobs into training rows, and tells what is in them.
    #[command(subcommand)]
    Traces(crate::command::traces::Traces),
    /// Removes what killed runs left behind: containers, directories, control groups.
    Gc(Gc),
    /// Prints the digests of task directories.
    Digest(Digest),
    /// Tells what a recorded log of tests is worth.
    Grade(Grade),
    /// Prints the completions of a shell.
    Completions(Completions),
    /// Prints the man page.
    Man,
}

/// `seatrial images`.
#[derive(Debug, Subcommand)]
pub enum Images {
    /// Counts the live tags of every shard.
    Tags,
    /// Builds the images of tasks and packs them as an OCI layout.
    Build(ImagesBuild),
    /// Decides which image goes to which shard, and whether all shards stay within their limit.
    Plan(ImagesPlan),
    /// Tells what one plan does otherwise than another.
    Diff(ImagesDiff),
    /// Carries out the plan: sends to the registry what it does not have yet.
    Mirror(ImagesMirror),
    /// Looks whether the registry has what the plan says, and remembers where it was seen.
    Verify(ImagesVerify),
    /// Puts verified copies in the place of base images.
    Rewrite,
}

/// `seatrial images build`.
#[derive(Debug, Args)]
pub struct ImagesBuild {
    /// How much runs at once.
    #[command(flatten)]
    pub jobs: Jobs,
}

/// `seatrial images plan`.
#[derive(Debug, Args)]
pub struct ImagesPlan {
    /// Gives every image the place that the settings give it, wherever it was before.
    #[arg(long)]
    pub rehome: bool,
}

/// `seatrial images diff`.
#[derive(Debug, Args)]
pub struct ImagesDiff {
    /// The earlier plan.
    #[arg(value_name = "A", value_hint = ValueHint::FilePath)]
    pub before: PathBuf,
    /// The later plan.
    #[arg(value_name = "B", value_hint = ValueHint::FilePath)]
    pub after: PathBuf,
}

/// `seatrial images mirror`.
#[derive(Debug, Args)]
pub struct ImagesMirror {
    /// Requests at once.
    #[arg(short = 'j', long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub jobs: u16,
    /// Carries the plan out although the registry is not what it was when the plan was made.
    #[arg(long)]
    pub accept_drift: bool,
    /// Leaves so many counted pulls to others, where a registry counts them.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub reserve: u64,
    /// Waits until a registry allows more, instead of stopping.
    #[arg(long)]
    pub wait: bool,
}

/// `seatrial images verify`.
#[derive(Debug, Args)]
pub struct ImagesVerify {
    /// Requests at once.
    #[arg(short = 'j', long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub jobs: u16,
    /// Reads and hashes every blob.
    #[arg(long)]
    pub deep: bool,
    /// Waits so long for tags that cannot be seen yet.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub within: u32,
}

/// `seatrial plan`.
#[derive(Debug, Args, Default)]
pub struct Plan {
    /// Something else than planning.
    #[command(subcommand)]
    pub command: Option<PlanCommand>,
}

/// `seatrial plan explain` and `seatrial plan diff`.
#[derive(Debug, Subcommand)]
pub enum PlanCommand {
    /// Tells step by step why a task is in the plan, or is not. Writes nothing.
    Explain(PlanExplain),
    /// Tells what one plan does otherwise than another.
    Diff(PlanDiff),
}

/// `seatrial plan explain`.
#[derive(Debug, Args)]
pub struct PlanExplain {
    /// The task.
    #[arg(value_name = "TASK_ID")]
    pub task: String,
}

/// `seatrial plan diff`.
#[derive(Debug, Args)]
pub struct PlanDiff {
    /// The earlier plan: a document, or a directory with `plan.json` and `reserves.json`.
    #[arg(value_name = "A", value_hint = ValueHint::AnyPath)]
    pub before: PathBuf,
    /// The later one.
    #[arg(value_name = "B", value_hint = ValueHint::AnyPath)]
    pub after: PathBuf,
}

/// `seatrial source`.
#[derive(Debug, Subcommand)]
pub enum Source {
    /// Reads every source and writes `seatrial.lock`.
    Pull(Pull),
}

/// `seatrial source pull`.
#[derive(Debug, Args, Default)]
pub struct Pull {
    /// Accepts changed sources and writes the lock anew, a damaged one included.
    #[arg(long)]
    pub update: bool,
    /// Refuses everything that the lock does not say, and writes nothing.
    #[arg(long, conflicts_with = "update")]
    pub locked: bool,
    /// Uses no network: what is not here is refused.
    #[arg(long)]
    pub offline: bool,
    /// Refuses a source with rows that cannot be read, instead of leaving them out.
    #[arg(long)]
    pub strict: bool,
}

/// `seatrial init`.
#[derive(Debug, Args)]
pub struct Init {
    /// A new or empty directory.
    // Not called `directory`: arguments of one name share their value, and that name is the global `-C`.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub path: PathBuf,
}

/// How much runs at once.
#[derive(Debug, Args, Default)]
pub struct Jobs {
    /// Trials at once; by default what processors and memory allow.
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
}

/// `seatrial check`.
#[derive(Debug, Args, Default)]
pub struct Check {
    /// Task directories, directories of them, or patches; the recipe's tasks when none is given.
    #[arg(value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// Prints the findings as a SARIF 2.1.0 log, for code review.
    #[arg(long, conflicts_with_all = ["json", "list", "explain"])]
    pub sarif: bool,
    /// Lists all rules.
    #[arg(long, conflicts_with = "paths")]
    pub list: bool,
    /// Explains one rule.
    #[arg(long, value_name = "RULE", conflicts_with_all = ["paths", "list"])]
    pub explain: Option<String>,
}

/// `seatrial prove`.
#[derive(Debug, Args)]
pub struct Prove {
    /// Task directories, or directories of them, to prove by themselves; the recipe's tasks when none is given.
    #[arg(value_hint = ValueHint::DirPath, conflicts_with_all = ["batch", "tasks"])]
    pub paths: Vec<PathBuf>,
    /// How much runs at once.
    #[command(flatten)]
    pub jobs: Jobs,
    /// Runs nop and oracle as often as after a disagreement, even where there was none.
    #[arg(long)]
    pub confirm: bool,
    /// Proves N tasks at a time, in plan order and then reserves, and ends when the set can be made, or cannot any more.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub batch: Option<u32>,
    /// Proves this task alone. May be given several times.
    #[arg(long = "task", value_name = "TASK_ID")]
    pub tasks: Vec<String>,
    /// Takes earlier results over: ledgers, directories of jobs, files of JSON lines.
    #[arg(long, value_name = "HISTORY", num_args = 1.., value_hint = ValueHint::AnyPath)]
    pub reconcile: Vec<PathBuf>,
    /// Shows what would be reused, retried and ignored, and why. Runs and writes nothing.
    #[arg(long, requires = "reconcile")]
    pub dry_run: bool,
    /// The engine, for task directories; a recipe names its own.
    #[arg(short = 'e', long, value_enum, requires = "paths")]
    pub engine: Option<Engine>,
    /// The ledger, for task directories.
    #[arg(long, value_name = "FILE", default_value = "ledger.db", requires = "paths", value_hint = ValueHint::FilePath)]
    pub ledger: PathBuf,
}

/// `seatrial status`.
#[derive(Debug, Args, Default)]
pub struct Status {
    /// Shows the life of one task.
    pub task: Option<String>,
}

/// `seatrial resolve`.
#[derive(Debug, Args, Default)]
pub struct Resolve {
    /// Something else than choosing.
    #[command(subcommand)]
    pub command: Option<ResolveCommand>,
}

/// `seatrial resolve explain`.
#[derive(Debug, Subcommand)]
pub enum ResolveCommand {
    /// Tells step by step why a task is in the set and in its split, or is not, and what would have changed that. Writes nothing.
    Explain(ResolveExplain),
}

/// `seatrial resolve explain`.
#[derive(Debug, Args)]
pub struct ResolveExplain {
    /// The task.
    #[arg(value_name = "TASK_ID")]
    pub task: String,
}

/// `seatrial freeze`.
#[derive(Debug, Args, Default)]
pub struct Freeze {
    /// Checks a frozen set instead of writing one: the recipe's own, or the one in DIR.
    #[arg(long, value_name = "DIR", num_args = 0..=1, value_hint = ValueHint::DirPath)]
    #[expect(clippy::option_option, reason = "the flag alone and the flag with a directory differ")]
    pub check: Option<Option<PathBuf>>,
    /// Also asks the registries whether they have every image.
    #[arg(long, requires = "check")]
    pub online: bool,
    /// Also verifies who signed the attestation: a public key of OpenSSH.
    #[arg(long, value_name = "FILE", requires = "check", value_hint = ValueHint::FilePath)]
    pub pubkey: Option<PathBuf>,
    /// Signs the attestation with this key of OpenSSH, an Ed25519 one without a passphrase; by default the file that
    /// SEATRIAL_SIGNING_KEY names, or `signing_key` of the recipe.
    #[arg(long, value_name = "FILE", conflicts_with = "check", value_hint = ValueHint::FilePath)]
    pub key: Option<PathBuf>,
}

/// `seatrial export`.
#[derive(Debug, Args, Default)]
pub struct Export {
    /// A format, in place of those of the recipe. May be given several times.
    #[arg(long = "format", value_name = "FORMAT")]
    pub formats: Vec<dataset::ExportFormat>,
    /// Also brings the frozen set to a dataset repository of the hub, in one commit. Needs a token.
    #[arg(long, value_name = "hf:OWNER/NAME[@BRANCH]")]
    pub push: Option<HubRepo>,
    /// Opens a repository that --push makes to everybody; otherwise it is private.
    #[arg(long, requires = "push")]
    pub public: bool,
}

/// A dataset repository of the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubRepo {
    /// `owner/name`.
    pub repo: String,
    /// A branch, a tag or a commit.
    pub revision: Option<String>,
}

impl std::str::FromStr for HubRepo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong =
            || format!("`{text}` is no repository of the hub; write hf:OWNER/NAME or hf:OWNER/NAME@REVISION");
        let repo = text.strip_prefix("hf:").ok_or_else(wrong)?;
        let (repo, revision) = match repo.split_once('@') {
            Some((repo, revision)) => (repo, Some(revision)),
            None => (repo, None),
        };
        let plain = |part: &str| {
            part.starts_with(|c: char| c.is_ascii_alphanumeric())
                && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        };
        let fits = repo.split_once('/').is_some_and(|(owner, name)| plain(owner) && plain(name));
        if !fits || revision.is_some_and(str::is_empty) {
            return Err(wrong());
        }
        Ok(Self { repo: repo.to_owned(), revision: revision.map(str::to_owned) })
    }
}

/// Where registered sets are.
#[derive(Debug, Args, Default)]
pub struct RegistryPlace {
    /// The directory of registered sets; by default that of SEATRIAL_DATASETS, else `seatrial/datasets` among the user's data.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub registry: Option<PathBuf>,
}

/// `seatrial register`.
#[derive(Debug, Args)]
pub struct Register {
    /// The package: `<set>.tar.zst`, with `<set>.tar.zst.sha256` beside it; or a dataset repository of the hub, as
    /// `hf:OWNER/NAME[@REVISION]`.
    #[arg(value_name = "PACKAGE", value_hint = ValueHint::FilePath)]
    pub package: PathBuf,
    /// The SHA-256 that the package must have, in place of the file beside it.
    #[arg(long, value_name = "DIGEST", value_parser = digest)]
    pub sha256: Option<ident::Digest>,
    /// The public key of OpenSSH that must have signed the set's attestation, which then has to come along.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub pubkey: Option<PathBuf>,
    /// Where it is put.
    #[command(flatten)]
    pub place: RegistryPlace,
}

/// A SHA-256 in hexadecimal digits.
fn digest(text: &str) -> Result<ident::Digest, String> {
    ident::Digest::parse(text).map_err(|error| error.to_string())
}

/// `seatrial datasets`.
#[derive(Debug, Subcommand)]
pub enum Datasets {
    /// Lists the registered sets.
    List(RegistryPlace),
    /// Shows a registered set and its tasks.
    Show(DatasetsOne),
    /// Prints the directory of a registered set.
    Path(DatasetsOne),
}

/// `seatrial datasets show` and `seatrial datasets path`.
#[derive(Debug, Args)]
pub struct DatasetsOne {
    /// The set: its name, or name@version where there are several.
    #[arg(value_name = "NAME[@VERSION]")]
    pub set: String,
    /// Where it is.
    #[command(flatten)]
    pub place: RegistryPlace,
}

/// `seatrial run`.
#[derive(Debug, Args)]
pub struct Run {
    /// A task directory, or a directory of them.
    #[arg(short = 'p', long = "path", value_name = "TASKS", required = true, value_hint = ValueHint::DirPath)]
    pub paths: Vec<PathBuf>,
    /// The agent: oracle, nop, one of the cheat set as cheat:NAME, shell, which lets a model give shell commands, or a program of
    /// the image that asks a model, such as mini-swe-agent. May be given several times.
    #[arg(short = 'a', long = "agent", value_name = "AGENT", value_parser = agent)]
    pub agents: Vec<trial::Agent>,
    /// A TOML file that tells how a program of the image is started as an agent; it works besides the other agents.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub agent_spec: Vec<PathBuf>,
    /// Attempts at each task.
    #[arg(short = 'n', long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub attempts: u32,
    /// How much runs at once.
    #[command(flatten)]
    pub jobs: Jobs,
    /// The directory of jobs.
    #[arg(short = 'o', long, value_name = "DIR", default_value = "jobs", value_hint = ValueHint::DirPath)]
    pub output: PathBuf,
    /// Name of the job. The same job of that name goes on where it stopped. Without a name the last stopped job of the same
    /// tasks and settings goes on, or a new one is called after the local time.
    #[arg(long, value_name = "NAME")]
    pub job_name: Option<String>,
    /// Begins a new job even where the same one was stopped.
    #[arg(long, conflicts_with = "job_name")]
    pub new: bool,
    /// Which ended trials of a job that goes on are run again.
    #[arg(long, value_enum, value_name = "WHICH", default_value_t)]
    pub rerun: Rerun,
    /// How often a trial that failed for a passing reason is tried again.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub max_retries: u32,
    /// The engine.
    #[arg(short = 'e', long, value_enum, default_value_t)]
    pub engine: Engine,
    /// Gives tasks the public network that they ask for; otherwise trials have none.
    #[arg(long)]
    pub network: bool,
    /// What is laid over the limits of tasks.
    #[command(flatten)]
    pub limits: Limits,
    /// The model of agents that ask one.
    #[command(flatten)]
    pub model: crate::model::Options,
}

/// Engines.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub enum Engine {
    /// The embedded Linux sandbox.
    #[default]
    Native,
    /// Containers of a daemon that speaks the Docker Engine API, Podman's included.
    Docker,
    /// Pods of the Kubernetes cluster that KUBECONFIG names.
    Kubernetes,
}

impl From<Engine> for recipe::EngineName {
    fn from(engine: Engine) -> Self {
        match engine {
            Engine::Native => Self::Native,
            Engine::Docker => Self::Docker,
            Engine::Kubernetes => Self::Kubernetes,
        }
    }
}

/// What a run lays over the limits of its tasks.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Limits")]
pub struct Limits {
    /// Multiplies every limit that has no multiplier of its own.
    #[arg(long, value_name = "X", value_parser = factor)]
    pub timeout_multiplier: Option<f64>,
    /// Multiplies the limits of image and sandbox.
    #[arg(long, value_name = "X", value_parser = factor)]
    pub build_timeout_multiplier: Option<f64>,
    /// Multiplies the limit of agents' setup.
    #[arg(long, value_name = "X", value_parser = factor)]
    pub setup_timeout_multiplier: Option<f64>,
    /// Multiplies the limits of agents.
    #[arg(long, value_name = "X", value_parser = factor)]
    pub agent_timeout_multiplier: Option<f64>,
    /// Multiplies the limits of verifiers.
    #[arg(long, value_name = "X", value_parser = factor)]
    pub verifier_timeout_multiplier: Option<f64>,
    /// Replaces the limits of agents.
    #[arg(long, value_name = "SECONDS", value_parser = factor)]
    pub agent_timeout: Option<f64>,
    /// Replaces the limits of verifiers.
    #[arg(long, value_name = "SECONDS", value_parser = factor)]
    pub verifier_timeout: Option<f64>,
    /// The longest that a whole trial may take.
    #[arg(long, value_name = "SECONDS", value_parser = factor)]
    pub trial_timeout: Option<f64>,
}

impl Limits {
    /// As trials take them.
    pub fn budgets(&self) -> trial::Budgets {
        let budget = |multiplier, override_sec| trial::Budget { multiplier, override_sec, max_sec: None };
        trial::Budgets {
            timeout_multiplier: self.timeout_multiplier.unwrap_or(1.0),
            build: budget(self.build_timeout_multiplier, None),
            start: budget(self.build_timeout_multiplier, None),
            setup: budget(self.setup_timeout_multiplier, None),
            agent: budget(self.agent_timeout_multiplier, self.agent_timeout),
            verifier: budget(self.verifier_timeout_multiplier, self.verifier_timeout),
            trial_sec: self.trial_timeout,
        }
    }

    /// All of them by name.
    pub fn named(&self) -> [(&'static str, Option<f64>); 8] {
        [
            ("timeout multiplier", self.timeout_multiplier),
            ("build timeout multiplier", self.build_timeout_multiplier),
            ("setup timeout multiplier", self.setup_timeout_multiplier),
            ("agent timeout multiplier", self.agent_timeout_multiplier),
            ("verifier timeout multiplier", self.verifier_timeout_multiplier),
            ("agent timeout", self.agent_timeout),
            ("verifier timeout", self.verifier_timeout),
            ("trial timeout", self.trial_timeout),
        ]
    }
}

/// The limits that were set, as a job's settings name them.
pub fn named_limits(limits: &Limits) -> BTreeMap<String, String> {
    limits
        .named()
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_string())))
        .collect()
}

/// An agent by its name.
fn agent(text: &str) -> Result<trial::Agent, String> {
    let Some(name) = text.strip_prefix("cheat:") else {
        return text.parse().map_err(|error| format!("{error}, and cheat:NAME"));
    };
    prove::cheats::Cheat::named(name).map(prove::cheats::Cheat::agent).ok_or_else(|| {
        let names: Vec<_> = prove::cheats::CHEATS.iter().map(|cheat| cheat.name()).collect();
        format!("no cheat is called `{name}`; there are {}", names.join(", "))
    })
}

/// A number above zero.
fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err("a number above 0 is wanted".into()),
    }
}

/// Which ended trials are run again.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub enum Rerun {
    /// None.
    #[default]
    Nothing,
    /// Those that failed for a passing reason.
    Passing,
    /// All without a reward.
    Errored,
}

impl From<Rerun> for trial::Rerun {
    fn from(rerun: Rerun) -> Self {
        match rerun {
            Rerun::Nothing => Self::Nothing,
            Rerun::Passing => Self::Passing,
            Rerun::Errored => Self::Errored,
        }
    }
}

/// `seatrial jobs`.
#[derive(Debug, Subcommand)]
pub enum JobsCommand {
    /// Lists the jobs in a directory.
    List(JobsList),
    /// Shows what came out of a job, trial by trial.
    Show(JobsOne),
    /// Follows a job until it ends.
    Watch(JobsOne),
}

/// `seatrial jobs list`.
#[derive(Debug, Args)]
pub struct JobsList {
    /// The directory of jobs.
    #[arg(value_name = "DIR", default_value = "jobs", value_hint = ValueHint::DirPath)]
    pub jobs: PathBuf,
}

/// `seatrial jobs show` and `seatrial jobs watch`.
#[derive(Debug, Args)]
pub struct JobsOne {
    /// The directory of a job, or the name of one in `jobs`.
    #[arg(value_hint = ValueHint::DirPath)]
    pub job: PathBuf,
}

/// `seatrial gc`.
#[derive(Debug, Args, Default)]
pub struct Gc {
    /// Removes all containers of one job instead, even while it runs: its directory, its name in jobs/, or its id. On a cluster,
    /// everything of one run.
    #[arg(long = "run", value_name = "JOB")]
    pub job: Option<String>,
    /// Where to look: `kubernetes` removes what dead runs left on the cluster that KUBECONFIG names, and nothing here. Otherwise this
    /// machine and its container daemon.
    #[arg(short = 'e', long, value_enum, conflicts_with = "images")]
    pub engine: Option<Engine>,
    /// Also removes images that were built for tasks and that no container uses, and layers that no task in `tasks` needs; the next
    /// run makes them again.
    #[arg(long, conflicts_with = "job")]
    pub images: bool,
}

/// `seatrial digest`.
#[derive(Debug, Args)]
pub struct Digest {
    /// Task directories.
    #[arg(required = true, value_hint = ValueHint::DirPath)]
    pub paths: Vec<PathBuf>,
}

/// `seatrial grade`.
#[derive(Debug, Args)]
pub struct Grade {
    /// The log, or `-` for standard input.
    // Not called `log`: arguments of one name share their value, and that name is the global `--log`.
    #[arg(value_name = "LOG", value_hint = ValueHint::FilePath)]
    pub recorded: PathBuf,
    /// What ran the tests: pytest, unittest, lines, go, cargo, nextest, jest, mocha, vitest, node, tap, surefire, junit or ctrf.
    #[arg(short = 'f', long, value_name = "NAME")]
    pub framework: Option<grade::LogFormat>,
    /// Tests that must pass, one or more; may be given several times.
    #[arg(long, value_name = "ID", num_args = 1..)]
    pub f2p: Vec<String>,
    /// Tests that must not regress.
    #[arg(long, value_name = "ID", num_args = 1..)]
    pub p2p: Vec<String>,
    /// Allows that no test is to be fixed: only regressions count then.
    #[arg(long)]
    pub p2p_only: bool,
    /// Takes the required tests and the framework from a verifier's `tests/config.json`.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Takes the required tests from a row of an instance: a JSON object with FAIL_TO_PASS and PASS_TO_PASS.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "config")]
    pub instance: Option<PathBuf>,
    /// Exit status of the runner, negative for a signal; without it, results and exit status are not compared.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub exit_status: Option<i32>,
    /// Names tests in full, `package > suite > title`, where the runner's lines do not.
    #[arg(long)]
    pub full_names: bool,
    /// Reads only what stands between two lines, of which each must be there once.
    #[arg(long, value_names = ["BEGIN", "END"], num_args = 2)]
    pub marks: Vec<String>,
    /// Reads a `test_output.txt` of SWE-smith's harness: its marks, and its line about the time limit.
    #[arg(long, conflicts_with = "marks")]
    pub harness: bool,
}

/// `seatrial completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell.
    pub shell: clap_complete::Shell,
}
