//! `seatrial materialize`: instances and clean trees to Harbor task directories.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use ident::{AliasTable, Digest, TaskId, to_canonical_json};
use rayon::prelude::*;
use recipe::{Recipe, Workspace};
use record::{Instance, MaterializeDocument, MaterializedTask, PlannedTask, Profile, RefusedTask};
use serde_json::json;
use source::{Keep, Pulled, Records, SeatrialLock};
use task::materialize::{BaseTree, MaterializeInput, Settings, TaskFiles, materialize};

use crate::cli::Jobs;
use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::Output;
use crate::profiles::Chosen;
use crate::project::{Project, section_digest};
use crate::sources;
use crate::stage::images::{REWRITE, Rewrite};
use crate::stage::plan::{self, PLAN, RESERVES};
use crate::stage::quarantine::{QUARANTINE, Quarantine};
use crate::trees::{self, CleanTree, NoTree};
use crate::verifier::{self, SuiteVerifier};
use crate::workbench::{Workbench, run_alone};

/// Name of the document.
pub const MATERIALIZE: &str = "materialize.json";
/// Directory of the task directories.
pub const TASKS: &str = "tasks";
/// What the verifier itself may need beside the suite, in seconds.
const VERIFIER_GRACE_SEC: u64 = 60;

/// The command.
pub fn run(output: Output, project: &Project) -> Result {
    let document = write(output, project)?;
    output.json(&json!({
        "tasks": document.tasks.len(),
        "refused": document.refused,
        "document": MATERIALIZE,
    }))
}

/// Writes every task directory and the document. Of the sources only the rows of planned tasks stay in memory.
pub fn write(output: Output, project: &Project) -> Result<MaterializeDocument> {
    let (plan, reserves) = plan::load(project)?;
    if project.path(TASKS).is_symlink() {
        let message =
            format!("{} is a link, and no task is written through one", project.path(TASKS).display());
        return Err(
            Failure::new(Exit::Conflict, message).hint("remove the link; materialize makes the directory")
        );
    }
    let planned: Vec<PlannedTask> = plan.tasks.into_iter().chain(reserves.tasks).collect();
    let wanted: BTreeSet<TaskId> = planned.iter().map(|task| task.task_id.clone()).collect();
    let wanted = Arc::new(wanted);
    let pulled = run_alone(sources::read(project, Keep::Tasks(Arc::clone(&wanted)), true))?;
    let (quarantine, _) = Quarantine::load(project)?;
    let materializer = Materializer::new(project, &pulled, &wanted, quarantine)?;
    let trees = materializer.trees(&planned)?;
    let results = planned
        .par_iter()
        .map(|planned| match materializer.one(planned, &trees) {
            Ok(made) => Ok(Ok(made)),
            Err(Stop::Refused(reason, detail)) => Ok(Err(RefusedTask {
                task_id: planned.task_id.clone(),
                stage: planned.stage.clone(),
                reason: reason.into(),
                detail,
            })),
            Err(Stop::Failed(failure)) => Err(failure),
        })
        .collect::<Result<Vec<_>>>()?;
    let (mut tasks, mut refused) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok((task, notes)) => {
                for note in notes {
                    output.warn(format_args!("{}: {note}", task.task_id));
                }
                tasks.push(task);
            }
            Err(task) => refused.push(task),
        }
    }
    let document = MaterializeDocument {
        schema: <MaterializeDocument as artifact::Document>::SCHEMA.into(),
        inputs: inputs(project, &pulled.lock)?,
        tasks,
        refused,
    };
    sweep(project, &document)?;
    artifact::store(&project.path(MATERIALIZE), &document)?;
    output.stage(
        "materialize",
        format_args!("{} task directories, {} refused", document.tasks.len(), document.refused.len()),
    );
    for task in &document.refused {
        output.stage("", format_args!("{}: {} ({})", task.task_id, task.reason, task.detail));
    }
    Ok(document)
}

/// The document and its digest; refused when the plan, the lock or the recipe has moved on, or a directory was changed.
pub fn load(project: &Project) -> Result<(MaterializeDocument, Digest)> {
    plan::load(project)?;
    let (document, digest) = artifact::load::<MaterializeDocument>(&project.path(MATERIALIZE))?;
    let again = |message: String| {
        Failure::new(Exit::Conflict, message).hint("run `seatrial materialize`, or `seatrial up`")
    };
    if document.inputs != inputs(project, &sources::lock(project)?)? {
        return Err(again(format!(
            "{MATERIALIZE} was made from another plan or recipe, or by another version"
        )));
    }
    let changed = document.tasks.par_iter().find_first(|task| {
        let directory = project.path(TASKS).join(task.task_id.as_str());
        task::digest_task(&directory).map_or(true, |digests| digests.tree_digest != task.tree_digest)
    });
    match changed {
        None => Ok((document, digest)),
        Some(task) => Err(again(format!("{TASKS}/{} is not what was materialized", task.task_id))),
    }
}

/// The digest of a file as it stands.
pub fn file_digest(path: &Path) -> Result<Digest> {
    let file = std::fs::File::open(path)
        .map_err(|source| artifact::ArtifactError::Io { path: path.into(), source })?;
    Digest::of_reader(file).or_exit(Exit::Failed)
}

fn inputs(project: &Project, lock: &SeatrialLock) -> Result<artifact::Inputs> {
    let mut inputs = BTreeMap::from([
        (PLAN.to_owned(), file_digest(&project.path(PLAN))?),
        (RESERVES.to_owned(), file_digest(&project.path(RESERVES))?),
        (sources::LOCK.to_owned(), section_digest(&lock)?),
        ("seatrial.toml".to_owned(), recipe_digest(&project.recipe)?),
        ("verifier".to_owned(), verifier::digest()),
        ("profiles".to_owned(), Digest::of(grade::PROFILES_JSON)),
    ]);
    inputs.extend(Quarantine::load(project)?.1.map(|digest| (QUARANTINE.to_owned(), digest)));
    inputs.extend(Rewrite::load(project)?.1.map(|digest| (REWRITE.to_owned(), digest)));
    Ok(inputs)
}

fn recipe_digest(recipe: &Recipe) -> Result<Digest> {
    section_digest(&(&recipe.materialize, &recipe.bases, recipe.prove.timeout_sec))
}

/// Removes directories of tasks that an earlier run wrote and this one did not.
fn sweep(project: &Project, now: &MaterializeDocument) -> Result {
    let Some((before, _)) =
        artifact::load_optional::<MaterializeDocument>(&project.path(MATERIALIZE)).ok().flatten()
    else {
        return Ok(());
    };
    let kept: std::collections::BTreeSet<&TaskId> = now.tasks.iter().map(|task| &task.task_id).collect();
    for task in before.tasks.iter().filter(|task| !kept.contains(&task.task_id)) {
        let directory = project.path(TASKS).join(task.task_id.as_str());
        if directory.exists() {
            fs_err::remove_dir_all(&directory).or_exit(Exit::Failed)?;
        }
    }
    Ok(())
}

type Trees = BTreeMap<String, Result<CleanTree, NoTree>>;

struct Materializer<'a> {
    project: &'a Project,
    pulled: &'a Pulled,
    instances: BTreeMap<&'a TaskId, Cow<'a, Instance>>,
    profiles: BTreeMap<&'a str, &'a Profile>,
    aliases: AliasTable,
    quarantine: Quarantine,
    rewrite: Rewrite,
}

impl<'a> Materializer<'a> {
    fn new(
        project: &'a Project,
        pulled: &'a Pulled,
        wanted: &BTreeSet<TaskId>,
        quarantine: Quarantine,
    ) -> Result<Self> {
        let mut instances = BTreeMap::new();
        let mut profiles = BTreeMap::new();
        for records in pulled.records.values() {
            match records {
                Records::Instances(loaded) => {
                    instances.extend(loaded.rows.iter().map(|row| (&row.instance_id, Cow::Borrowed(row))));
                }
                Records::Tasks(loaded) => {
                    for directory in loaded.rows.iter().filter(|directory| wanted.contains(&directory.id)) {
                        let imported = sources::import(directory)?;
                        let instance =
                            Instance { problem_statement: imported.instruction, ..imported.instance };
                        instances.insert(&directory.id, Cow::Owned(instance));
                    }
                }
                Records::Profiles(loaded) => {
                    profiles.extend(loaded.rows.iter().map(|row| (row.repo.as_str(), row)));
                }
                _ => {}
            }
        }
        let (rewrite, _) = Rewrite::load(project)?;
        Ok(Self { project, pulled, instances, profiles, aliases: project.aliases()?, quarantine, rewrite })
    }

    fn profile(&self, repo: &str) -> Result<Chosen, NoTree> {
        Chosen::of(self.profiles.get(repo).copied(), repo, &self.aliases)
    }

    /// The clean tree of every repository that a planned task needs, by the collection's name of the repository.
    fn trees(&self, planned: &[PlannedTask]) -> Result<Trees> {
        let mut wanted: BTreeMap<&str, (Chosen, &str)> = BTreeMap::new();
        for task in planned {
            let Some(instance) = self.instances.get(&task.task_id) else { continue };
            if let Ok(chosen) = self.profile(&instance.repo) {
                wanted.insert(&instance.repo, (chosen, &instance.image_name));
            }
        }
        let read = async |bench: Option<&Workbench>| {
            let mut trees = Trees::new();
            for (repo, (chosen, image)) in wanted {
                let tree = trees::clean(self.project, self.pulled, bench, &chosen.profile, image).await;
                trees.insert(repo.to_owned(), tree);
            }
            Ok(trees)
        };
        match self.project.recipe.materialize.workspace {
            Workspace::Image(_) => {
                let bench = self.project.local_workbench(&Jobs::default())?;
                bench.run(read(Some(&bench)))
            }
            Workspace::Sdist | Workspace::Git => run_alone(read(None)),
        }
    }

    fn one(&self, planned: &PlannedTask, trees: &Trees) -> Result<(MaterializedTask, Vec<String>), Stop> {
        let recipe = &self.project.recipe.materialize;
        let instance = self
            .instances
            .get(&planned.task_id)
            .ok_or_else(|| ("instance_missing", "no source gives its instance row".to_owned()))?;
        let row = to_canonical_json(instance).map_err(|error| ("instance_invalid", error.to_string()))?;
        let instance_digest = Digest::of(row);
        let (instance, quarantined) = self.quarantine.apply(instance_digest, instance);
        let instance = instance.as_ref();
        let chosen = self.profile(&instance.repo)?;
        let profile = &chosen.profile;
        let clean = match trees.get(&instance.repo) {
            Some(Ok(clean)) => clean,
            Some(Err((reason, detail))) => return Err(Stop::Refused(reason, detail.clone())),
            None => {
                return Err(Stop::Refused("workspace_missing", format!("no tree of `{}`", instance.repo)));
            }
        };
        let original = recipe.base.clone().unwrap_or_else(|| instance.image_name.clone());
        let copy = self.rewrite.copy_of(&original);
        let base_image = copy.clone().unwrap_or_else(|| original.clone());
        let timeout_sec = chosen.timeout_sec(self.project.recipe.prove.timeout_sec);
        // A base of one's own has its own interpreter.
        let interpreter = chosen.interpreter().filter(|_| recipe.base.is_none());
        let settings = Settings {
            organization: recipe.organisation.clone(),
            base_image: base_image.clone(),
            base_tree: match recipe.workspace {
                Workspace::Image(_) => BaseTree::Present,
                Workspace::Sdist | Workspace::Git => BaseTree::Absent,
            },
            workdir: recipe.workdir.clone(),
            agent_timeout_sec: Some(recipe.agent_timeout_sec),
            verifier_timeout_sec: timeout_sec + VERIFIER_GRACE_SEC,
            cpus: recipe.cpus,
            memory_mb: recipe.memory_mb,
            ..Settings::default()
        };
        let verifier = SuiteVerifier::new(instance, profile, &recipe.workdir, timeout_sec)
            .map_err(|why| ("verifier_config", why))?
            .with_interpreter(interpreter);
        let input = MaterializeInput {
            instance,
            profile,
            clean: &clean.tree,
            settings: &settings,
            verifier: &verifier,
        };
        let files = materialize(&input)
            .map_err(|refusal| (refusal.reason.name(), format!("{}: {}", refusal.field, refusal.reason)))?;

        // What keeps a finished task from being written is this machine's, and says nothing about the task.
        let failed = |error: task::TaskError| Stop::Failed(Failure::from_error(Exit::Failed, &error));
        let directory = self.project.path(TASKS).join(planned.task_id.as_str());
        task::write_task(&directory, &files).map_err(failed)?;
        let digests = task::digest_task(&directory).map_err(failed)?;
        let task = MaterializedTask {
            task_id: planned.task_id.clone(),
            stage: planned.stage.clone(),
            repo: planned.repo.clone(),
            content_hash: digests.content_hash,
            task_checksum: digests.task_checksum,
            tree_digest: digests.tree_digest,
            verifier_digest: digests.verifier_digest,
            base_image,
            copy_of: copy.map(|_| original),
            workspace_source: clean.source.clone(),
            instance_digest,
            quarantined,
        };
        Ok((task, notes_on(&files)))
    }
}

/// Why there is no task directory.
enum Stop {
    /// The candidate is to blame: a stable reason and what happened.
    Refused(&'static str, String),
    /// The machine is to blame, and the stage ends.
    Failed(Failure),
}

impl From<NoTree> for Stop {
    fn from((reason, detail): NoTree) -> Self {
        Self::Refused(reason, detail)
    }
}

/// What a person should know about a task that was written all the same.
fn notes_on(files: &TaskFiles) -> Vec<String> {
    let missing =
        files.missing_tests.iter().map(|file| format!("FAIL_TO_PASS names {file}, which the tree lacks"));
    missing.chain(files.notes.iter().map(ToString::to_string)).collect()
}
