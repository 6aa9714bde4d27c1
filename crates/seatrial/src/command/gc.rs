//! `seatrial gc`: removes what killed runs left behind, and says what that was.
//!
//! Nothing is touched that does not carry the marks of this program, and nothing whose process is alive.

use std::path::{Path, PathBuf};

use indicatif::HumanBytes;
use recipe::EngineName;
use sandbox::SandboxError;
use sandbox::docker::{Docker, DockerConfig, Kept, Removed, Sweep};
use sandbox::kubernetes::{Found, Swept};
use serde_json::json;
use trial::{LocalImages, TrialTask};

use crate::cli;
use crate::command::run::task_directories;
use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::{Output, count};
use crate::project::cluster_of;
use crate::stage::materialize::TASKS;
use crate::workbench::{SANDBOXES, Scratch, kubernetes, run_alone};

/// What was removed, and what was not.
#[derive(Debug, Default)]
struct Collected {
    directories: Vec<PathBuf>,
    groups: Vec<PathBuf>,
    containers: Vec<Removed>,
    /// Containers that were left because somebody uses them.
    kept: Vec<Kept>,
    images: Vec<String>,
    /// Layers of images made on this machine, and their bytes.
    layers: image::Collected,
    /// Whether layers were left because a run uses them.
    layers_in_use: bool,
    /// Why no containers were looked at.
    no_daemon: Option<String>,
}

/// Removes, and reports; exits with 1 when something could not be removed.
pub fn run(output: Output, directory: &Path, arguments: &cli::Gc) -> Result {
    if let Some(cli::Engine::Kubernetes) = arguments.engine {
        return run_alone(cluster(output, directory, arguments.job.as_deref()));
    }
    let mut collected = Collected::default();
    let state = directory.join(".seatrial");
    for path in [&state, &state.join(SANDBOXES)] {
        // What lies behind a link belongs to somebody else.
        if path.is_symlink() {
            let message = format!("{} is a link, and nothing is removed behind one", path.display());
            return Err(Failure::new(Exit::Conflict, message)
                .hint("name the directory it belongs to with -C, or remove the link"));
        }
    }
    if arguments.job.is_none() {
        collected.directories = Scratch::sweep(&state.join(SANDBOXES)).or_exit(Exit::Failed)?;
        collected.groups = sandbox::native::sweep_groups();
    }
    if arguments.images {
        layers(directory, &mut collected)?;
    }
    let job = arguments.job.as_deref().map(|job| job_id(directory, job)).transpose()?;
    run_alone(containers(arguments.images, job, &mut collected))?;
    report(output, &collected)
}

/// The id of a job: itself, or the id of the job in the directory that it names.
fn job_id(directory: &Path, job: &str) -> Result<String> {
    let places = [directory.join("jobs").join(job), directory.join(job)];
    for place in places {
        if let Some(id) = trial::job_id(&place)? {
            return Ok(id);
        }
    }
    if uuid::Uuid::try_parse(job).is_ok() {
        return Ok(job.to_owned());
    }
    let message =
        format!("`{job}` is no job: neither an id, nor a job's directory, nor the name of one in jobs/");
    Err(Failure::new(Exit::Usage, message).hint("`seatrial jobs list` names jobs"))
}

/// Removes layers that no task of the project needs.
fn layers(directory: &Path, collected: &mut Collected) -> Result {
    let state = directory.join(".seatrial");
    // Without tasks nothing is needed; a directory that is no task has no image.
    let directories = task_directories(&directory.join(TASKS)).unwrap_or_default();
    let environments: Vec<_> = directories
        .iter()
        .filter_map(|(path, _)| TrialTask::open(path, None).ok())
        .map(|task| task.environment())
        .collect();
    let done = Scratch::alone(&state.join(SANDBOXES), || LocalImages::collect(&state, &environments));
    match done.or_exit(Exit::Failed)? {
        Some(done) => collected.layers = done.or_exit(Exit::Failed)?,
        None => collected.layers_in_use = true,
    }
    Ok(())
}

async fn containers(images: bool, job: Option<String>, collected: &mut Collected) -> Result {
    let failed = |error: SandboxError| Failure::from_error(Exit::Failed, &error);
    let docker = match Docker::connect(&DockerConfig::default()).await {
        Ok(docker) => docker,
        // Without a daemon there are no containers, but then a job by name was not what is there.
        Err(SandboxError::Unavailable { reason, .. }) if job.is_none() => {
            collected.no_daemon = Some(reason);
            return Ok(());
        }
        Err(error) => return Err(failed(error)),
    };
    let sweep = job.map_or(Sweep::Orphans, Sweep::Job);
    (collected.containers, collected.kept) = docker.sweep(&sweep).await.map_err(failed)?;
    if images {
        collected.images = docker.sweep_images().await.map_err(failed)?;
    }
    Ok(())
}

/// Removes what dead runs left on a cluster, or everything of one run, and waits until it is gone.
async fn cluster(output: Output, directory: &Path, run: Option<&str>) -> Result {
    let config = cluster_of(EngineName::Kubernetes, directory)?;
    let cluster = kubernetes(config).await?;
    let failed = |error: SandboxError| Failure::from_error(Exit::Failed, &error);
    let Swept { removed, kept } = cluster.sweep(run).await.map_err(failed)?;
    if let (Some(run), true) = (run, removed.is_empty()) {
        let message =
            format!("the cluster has nothing of a run `{run}` in namespace {}", cluster.namespace());
        return Err(Failure::new(Exit::Usage, message));
    }
    let runs = |found: &[Found]| -> Vec<serde_json::Value> {
        found
            .iter()
            .map(|found| json!({ "run": found.run, "pods": found.pods, "kept": found.kept }))
            .collect()
    };
    output
        .json(&json!({ "namespace": cluster.namespace(), "removed": runs(&removed), "kept": runs(&kept) }))?;
    for Found { run, pods, leaving, .. } in &removed {
        output.print(format_args!("removed run {run} with {}", count(pods.len() + leaving.len(), "pod")))?;
    }
    for Found { run, pods, kept, .. } in &kept {
        let reason = kept.unwrap_or_default();
        output.print(format_args!("left run {run} with {}: {reason}", count(pods.len(), "pod")))?;
    }
    if removed.is_empty() {
        output.print("nothing to remove on the cluster")?;
    }
    Ok(())
}

fn report(output: Output, collected: &Collected) -> Result {
    let Collected { directories, groups, containers, kept, images, layers, layers_in_use, no_daemon } =
        collected;
    output.json(&json!({
        "containers": containers.iter().map(|removed| json!({ "sandbox": removed.sandbox, "id": removed.id })).collect::<Vec<_>>(),
        "kept": kept.iter().map(|kept| json!({ "sandbox": kept.sandbox, "id": kept.id, "reason": kept.reason })).collect::<Vec<_>>(),
        "images": images,
        "layers": layers.layers,
        "layer_bytes": layers.bytes,
        "layers_in_use": layers_in_use,
        "directories": directories,
        "control_groups": groups,
        "no_daemon": no_daemon,
    }))?;
    for removed in containers {
        output.print(format_args!(
            "removed container {} of sandbox {}",
            short(&removed.id),
            removed.sandbox
        ))?;
    }
    for image in images {
        output.print(format_args!("removed image {image}"))?;
    }
    if layers.layers > 0 {
        let bytes = HumanBytes(layers.bytes);
        output
            .print(format_args!("removed {} of images, {bytes}", count(layers.layers as usize, "layer")))?;
    }
    if *layers_in_use {
        output.say("layers of images stay: a run uses them");
    }
    for path in directories {
        output.print(format_args!("removed directory {}", path.display()))?;
    }
    for path in groups {
        output.print(format_args!("removed control group {}", path.display()))?;
    }
    for kept in kept {
        output.print(format_args!(
            "kept container {} of sandbox {}: {}",
            short(&kept.id),
            kept.sandbox,
            kept.reason
        ))?;
    }
    // Who never named a daemon has no containers.
    if let (Some(reason), true) = (no_daemon, std::env::var_os("DOCKER_HOST").is_some()) {
        output.say(format_args!("containers were not looked at: {reason}"));
    }
    let nothing = containers.is_empty() && images.is_empty() && directories.is_empty() && groups.is_empty();
    if nothing && layers.layers == 0 {
        output.print("nothing to remove")?;
    }
    Ok(())
}

/// As much of a container's id as its daemon's own tools show.
fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}
