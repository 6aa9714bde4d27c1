//! Frozen sets on the hub: pushed in one commit, and registered from there.

use std::path::{Path, PathBuf};

use dataset::{Attested, Registered, Registry, attestation_path, signature_path};
use source::{Environment, Push, Pushed, Remote, RemoteError, RemoteSettings};
use tokio::runtime::Runtime;

use crate::cli::HubRepo;
use crate::failure::{Exit, Failure, OrExit, Result};
use crate::interruption;
use crate::output::Output;
use crate::project::Project;
use crate::sources;
use crate::stage::freeze;
use crate::transfers;

/// The branch that a repository has from the beginning.
const BRANCH: &str = "main";
/// The name of a set's attestation in a repository.
const ATTESTATION: &str = "attestation.json";
/// The name of its signature.
const SIGNATURE: &str = "attestation.json.sig";

/// Brings a frozen set, verified before, to a repository of the hub.
pub fn push(
    output: Output,
    project: &Project,
    frozen: &Path,
    place: &HubRepo,
    public: bool,
) -> Result<Pushed> {
    let mut files = dataset::plain_files(frozen).map_err(|error| freeze::failure(&error))?;
    let beside = [(ATTESTATION, attestation_path(frozen)), (SIGNATURE, signature_path(frozen))];
    files.extend(
        beside.into_iter().filter(|(_, path)| path.exists()).map(|(name, path)| (name.to_owned(), path)),
    );
    let name = frozen.file_name().unwrap_or_default().to_string_lossy();
    let push = Push {
        repo: &place.repo,
        branch: place.revision.as_deref().unwrap_or(BRANCH),
        public,
        message: &format!("{name}, frozen"),
        files: &files,
    };
    let remote = remote(project.state("downloads")?)?;
    let runtime = Runtime::new().or_exit(Exit::Failed)?;
    let look = || (remote.transfers().received(), remote.transfers().wanted());
    let pushed = waited(&runtime, transfers::shown(output, "push", look, remote.push(push)))?;
    let commit = pushed.commit.get(..12).unwrap_or(&pushed.commit);
    let line = match (pushed.changed, pushed.removed) {
        (0, 0) => format!("hf:{} has all of it, at {commit}", place.repo),
        (changed, removed) => {
            format!("hf:{}: {changed} files written, {removed} removed, in commit {commit}", place.repo)
        }
    };
    output.stage("push", line);
    Ok(pushed)
}

/// Registers the frozen set in a repository of the hub, with its attestation, which `key` must have signed when it is given.
pub fn register(
    output: Output,
    registry: &Registry,
    place: &HubRepo,
    key: Option<&Path>,
) -> Result<Registered> {
    let remote = remote(registry.downloads())?;
    let runtime = Runtime::new().or_exit(Exit::Failed)?;
    let revision = place.revision.as_deref().unwrap_or(BRANCH);
    let tree = waited(&runtime, remote.tree(&place.repo, revision))?;
    let origin = format!("hf:{}@{}", place.repo, tree.commit);
    let beside = tempfile::tempdir().or_exit(Exit::Failed)?;
    let attested = Attested { attestation: beside.path().join(ATTESTATION), key };
    let names: Vec<String> =
        [ATTESTATION, SIGNATURE].into_iter().filter(|name| tree.has(name)).map(str::to_owned).collect();
    waited(&runtime, tree.fetch(&names, beside.path()))?;
    let registered = registry.adopt(&origin, None, &attested, |into| {
        let look = || (remote.transfers().received(), remote.transfers().wanted());
        waited(&runtime, tree.fetch(&["SHA256SUMS".to_owned()], into))?;
        let files = dataset::plain_files(into).map_err(|error| freeze::failure(&error))?;
        let paths: Vec<String> = files.into_keys().filter(|path| path != "SHA256SUMS").collect();
        waited(&runtime, transfers::shown(output, "register", look, tree.fetch(&paths, into)))?;
        dataset::restore(into).map_err(|error| freeze::failure(&error))
    })?;
    // All of it is registered now; what a failed attempt left stays for the next one.
    let _ = fs_err::remove_dir_all(registry.downloads());
    Ok(registered)
}

fn remote(downloads: PathBuf) -> Result<Remote> {
    let settings = RemoteSettings::of_environment(&Environment::of_process(), downloads);
    settings.map(Remote::new).map_err(|error| failure(&error))
}

/// Waits for something of the hub, until it ends or the user ends it. Connections live as long as their runtime.
fn waited<T>(runtime: &Runtime, work: impl Future<Output = Result<T, RemoteError>>) -> Result<T> {
    interruption::block_on(runtime, async { work.await.map_err(|error| failure(&error)) })
}

fn failure(error: &RemoteError) -> Failure {
    Failure::from_error(sources::exit(error), error)
}
