//! The recipe's sources and id lists, read and held against the lock.

use std::path::Path;

use recipe::{Recipe, SourceKind, SourceRole, Workspace};
use source::{
    Environment, Index, IndexError, IndexSettings, PullMode, PullRequest, Pulled, Reading, Role,
    SeatrialLock, SourceError, SourceSpec,
};

use crate::failure::{Exit, Failure, Result};
use crate::project::Project;

/// Name of the lock file.
pub const LOCK: &str = "seatrial.lock";

/// Reads every source; with `fetch` also the source distributions that profiles name, where the recipe works with such.
pub async fn read(project: &Project, mode: PullMode, reading: Reading, fetch: bool) -> Result<Pulled> {
    let lock = SeatrialLock::load(&project.path(LOCK))?;
    if lock.is_none() && mode == PullMode::Locked {
        return Err(Failure::new(
            Exit::Usage,
            format!("{LOCK} is missing; run `seatrial source pull` first"),
        ));
    }
    let wanted = fetch && project.recipe.materialize.workspace == Workspace::Sdist;
    let index = if wanted { Some(index(project)?) } else { None };
    let specs = specs(&project.recipe);
    let request = PullRequest {
        specs: &specs,
        base: &project.root,
        lock: lock.as_ref(),
        mode,
        reading,
        index: index.as_ref(),
    };
    source::pull(request).await.map_err(|error| failure(&error))
}

/// The lock as it stands.
pub fn lock(project: &Project) -> Result<SeatrialLock> {
    SeatrialLock::load(&project.path(LOCK))?.ok_or_else(|| {
        Failure::new(Exit::Usage, format!("{LOCK} is missing; run `seatrial source pull` first"))
    })
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
        kind: match source.kind {
            SourceKind::File => source::SourceKind::File,
            SourceKind::Dir => source::SourceKind::Dir,
        },
        path: Path::new(&source.path).to_owned(),
        role: match source.role {
            SourceRole::Instances => Role::Instances,
            SourceRole::Ids => Role::Ids,
            SourceRole::Tasks => Role::Tasks,
            SourceRole::Trajectories => Role::Trajectories,
            SourceRole::RewardMeans => Role::RewardMeans,
            SourceRole::ImageStates => Role::ImageStates,
            SourceRole::Profiles => Role::Profiles,
        },
    });
    let sets = recipe.sets.iter().map(|(name, path)| SourceSpec {
        name: name.clone(),
        kind: source::SourceKind::File,
        path: Path::new(path).to_owned(),
        role: Role::Ids,
    });
    sources.chain(sets).collect()
}

fn failure(error: &SourceError) -> Failure {
    match error {
        SourceError::Drift(_) => Failure::from_error(Exit::Conflict, error),
        SourceError::Index(IndexError::Location(_)) => Failure::from_error(Exit::Usage, error),
        SourceError::Index(_) | SourceError::Worker { .. } => Failure::from_error(Exit::Failed, error),
        _ => Failure::from_error(Exit::Usage, error),
    }
}
