//! The recipe's sources and id lists, read and held against the lock.

use std::path::PathBuf;

use artifact::ArtifactError;
use recipe::{Recipe, SourceRecipe, Workspace};
use record::{SourceKind, SourceRole};
use source::{
    Environment, Index, IndexError, IndexSettings, Keep, Network, PullMode, PullRequest, Pulled, Reading,
    Remote, RemoteError, RemoteSettings, RepoSpec, SeatrialLock, SourceError, SourcePlace, SourceSpec,
    TaskDirectory,
};
use task::ImportedTask;

use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::Output;
use crate::project::Project;
use crate::transfers;

/// Name of the lock file.
pub const LOCK: &str = "seatrial.lock";

/// How sources are brought here and read.
#[derive(Debug, Clone)]
pub struct Wish {
    /// What becomes of differences from the lock.
    pub mode: PullMode,
    /// How rows are read.
    pub reading: Reading,
    /// What public repositories are asked.
    pub network: Network,
    /// Whether the network is left alone altogether.
    pub offline: bool,
    /// Where progress is shown, if anywhere.
    pub output: Option<Output>,
    /// Whether the source distributions that profiles name are fetched, where the recipe works with such.
    pub fetch: bool,
}

/// Reads every source as it is locked, for a stage; with `fetch` also source distributions.
pub async fn read(project: &Project, keep: Keep, fetch: bool) -> Result<Pulled> {
    let lock = SeatrialLock::load(&project.path(LOCK))?;
    let wish = Wish {
        mode: PullMode::Locked,
        reading: Reading { keep, ..Reading::default() },
        network: Network::Missing,
        offline: false,
        output: None,
        fetch,
    };
    pull(project, lock.as_ref(), wish).await
}

/// The lock that a pull goes by. A damaged one may be replaced when everything is accepted anyway.
pub fn old_lock(output: Output, project: &Project, mode: PullMode) -> Result<Option<SeatrialLock>> {
    match SeatrialLock::load(&project.path(LOCK)) {
        Err(error @ ArtifactError::Invalid { .. }) if mode == PullMode::Update => {
            output.warn(format_args!("{error}; it is written anew"));
            Ok(None)
        }
        Err(error @ ArtifactError::Invalid { .. }) => Err(Failure::from(error)
            .hint("put the file back, or write it anew with `seatrial source pull --update`")),
        loaded => Ok(loaded?),
    }
}

/// Brings sources here, reads them and holds them against the lock.
pub async fn pull(project: &Project, lock: Option<&SeatrialLock>, wish: Wish) -> Result<Pulled> {
    if lock.is_none() && wish.mode == PullMode::Locked {
        return Err(no_lock());
    }
    let wanted = wish.fetch && project.recipe.materialize.workspace == Workspace::Sdist;
    let index = if wanted { Some(index(project)?) } else { None };
    let index = if wish.offline { index.map(Index::without_network) } else { index };
    let specs = specs(&project.recipe);
    let elsewhere = specs.iter().any(|spec| !spec.is_local());
    let remote = remote(project, elsewhere, &wish)?;
    let request = PullRequest {
        specs: &specs,
        base: &project.root,
        lock,
        mode: wish.mode,
        reading: wish.reading,
        remote: &remote,
        network: wish.network,
        index: index.as_ref(),
    };
    let pulling = source::pull(request);
    let pulled = match wish.output {
        Some(output) => {
            let look = || (remote.transfers().received(), remote.transfers().wanted());
            transfers::shown(output, "source pull", look, pulling).await
        }
        None => pulling.await,
    };
    pulled.map_err(|error| failure(&error))
}

/// The lock as it stands.
pub fn lock(project: &Project) -> Result<SeatrialLock> {
    SeatrialLock::load(&project.path(LOCK))?.ok_or_else(no_lock)
}

fn no_lock() -> Failure {
    Failure::new(Exit::Usage, format!("{LOCK} is missing; run `seatrial source pull` first"))
}

/// What a ready-made task directory says. Its name is the id that sets and plans know it by, so its row must have the
/// same one.
pub fn import(directory: &TaskDirectory) -> Result<ImportedTask> {
    let imported = task::import_task(&directory.path).or_exit(Exit::Usage)?;
    let id = &imported.instance.instance_id;
    if *id == directory.id {
        return Ok(imported);
    }
    let message = format!("the task directory {} holds the instance `{id}`", directory.path.display());
    Err(Failure::new(Exit::Usage, message)
        .hint("rename the directory, or correct instance_id in its tests/config.json"))
}

/// Public repositories, with this project's cache. Settings for them trouble nobody whose sources are all here.
fn remote(project: &Project, elsewhere: bool, wish: &Wish) -> Result<Remote> {
    let environment = if elsewhere { Environment::of_process() } else { Environment::default() };
    let settings = RemoteSettings::of_environment(&environment, project.state("downloads")?);
    let mut settings = settings.map_err(|error| Failure::from_error(exit(&error), &error))?;
    if wish.offline {
        settings.offline = Some("--offline");
    }
    // Who asks what is there now does not go by notes on what was there before.
    settings.hash_anew = wish.network == Network::Ask;
    Ok(Remote::new(settings))
}

/// The package index with this project's cache; a local directory of the recipe comes first.
fn index(project: &Project) -> Result<Index> {
    let settings = IndexSettings {
        url: None,
        downloads: project.state("downloads")?,
        sdist_dir: project.recipe.materialize.from.as_ref().map(|directory| project.path(directory)),
        client: None,
    };
    Ok(Index::new(settings, Environment::of_process()))
}

fn specs(recipe: &Recipe) -> Vec<SourceSpec> {
    let sources = recipe.sources.iter().map(|(name, source)| SourceSpec {
        name: name.clone(),
        place: place(source),
        role: source.role,
        expect_rows: source.expect_rows,
        columns: source.columns.clone(),
    });
    let sets = recipe.sets.iter().map(|(name, path)| SourceSpec::file(name, path, SourceRole::Ids));
    sources.chain(sets).collect()
}

/// The place of a source. The recipe has been checked: keys that a kind needs are there.
fn place(source: &SourceRecipe) -> SourcePlace {
    let first = || source.path.0.first().cloned().unwrap_or_default();
    let at = || RepoSpec {
        repo: source.repo.clone().unwrap_or_default(),
        revision: source.revision.clone().unwrap_or_default(),
    };
    match source.kind {
        SourceKind::File => SourcePlace::File(source.path.0.iter().map(PathBuf::from).collect()),
        SourceKind::Dir => SourcePlace::Dir(first().into()),
        SourceKind::HfDataset => SourcePlace::HubFiles { at: at(), patterns: source.files.0.clone() },
        SourceKind::HfTaskDirs => {
            SourcePlace::HubTasks { at: at(), below: first().trim_matches('/').to_owned() }
        }
        SourceKind::GithubFile => SourcePlace::CodeFiles { at: at(), paths: source.path.0.clone() },
        SourceKind::Registry => {
            SourcePlace::Manifest { path: first().into(), dataset: source.dataset.clone() }
        }
    }
}

fn failure(error: &SourceError) -> Failure {
    let exit = match error {
        SourceError::Drift(_) => Exit::Conflict,
        SourceError::Index(IndexError::Location(_)) => Exit::Usage,
        SourceError::Index(_) | SourceError::Worker { .. } => Exit::Failed,
        SourceError::Remote { source, .. } => exit(source),
        _ => Exit::Usage,
    };
    Failure::from_error(exit, error)
}

/// What a public repository's refusal means for the command.
pub fn exit(error: &RemoteError) -> Exit {
    match error {
        RemoteError::Setting { .. }
        | RemoteError::NoToken { .. }
        | RemoteError::Denied { .. }
        | RemoteError::Missing { .. }
        | RemoteError::NotAFile { .. } => Exit::Usage,
        RemoteError::WrongContent { by: "lock", .. } | RemoteError::Moved { .. } => Exit::Conflict,
        RemoteError::RateLimited { .. } => Exit::Budget,
        RemoteError::Io { source, .. } if artifact::is_disk_full(source) => Exit::Budget,
        _ => Exit::Failed,
    }
}
