//! `quarantine.json`: varying tests that the next `materialize` leaves out, where the recipe wants that.

use std::borrow::Cow;
use std::collections::BTreeMap;

use artifact::Document;
use grade::VerifierConfig;
use ident::{Digest, TaskId};
use prove::quarantined;
use recipe::FlakyPolicy;
use record::{
    Instance, MaterializeDocument, MaterializedTask, ProofDocument, ProvedTask, QuarantineDocument,
    QuarantinedTask,
};

use crate::failure::{Exit, OrExit, Result};
use crate::output::{Output, count};
use crate::project::Project;
use crate::stage::materialize::TASKS;

/// Name of the document.
pub const QUARANTINE: &str = "quarantine.json";
/// No settings of a verifier come near this size.
const CONFIG_LIMIT: u64 = 256 << 20;

/// What is left out of tasks now; nothing where the recipe does not want that.
#[derive(Debug, Default)]
pub struct Quarantine(BTreeMap<TaskId, QuarantinedTask>);

impl Quarantine {
    /// Reads the document, where there is one, with its digest.
    pub fn load(project: &Project) -> Result<(Self, Option<Digest>)> {
        if project.recipe.prove.flaky_tests == FlakyPolicy::Reject {
            return Ok((Self::default(), None));
        }
        let found = artifact::load_optional::<QuarantineDocument>(&project.path(QUARANTINE))?;
        Ok(match found {
            Some((document, digest)) => (Self(document.tasks), Some(digest)),
            None => (Self::default(), None),
        })
    }

    /// The row that a task is made from, without the tests that are left out, and their names.
    pub fn apply<'i>(&self, row_digest: Digest, instance: &'i Instance) -> (Cow<'i, Instance>, Vec<String>) {
        match self.0.get(&instance.instance_id) {
            Some(task) if task.instance_digest == row_digest => {
                let mut instance = instance.clone();
                instance.pass_to_pass.retain(|test| !task.tests.contains_key(test));
                (Cow::Owned(instance), task.tests.keys().cloned().collect())
            }
            _ => (Cow::Borrowed(instance), Vec::new()),
        }
    }
}

/// Adds what the proofs saw vary and what may go, where the recipe wants that; returns for how many tasks.
pub fn write(
    output: Output,
    project: &Project,
    materialized: &MaterializeDocument,
    proofs: &ProofDocument,
) -> Result<usize> {
    if project.recipe.prove.flaky_tests == FlakyPolicy::Reject {
        return Ok(0);
    }
    let (Quarantine(mut tasks), _) = Quarantine::load(project)?;
    let made: BTreeMap<&TaskId, &MaterializedTask> =
        materialized.tasks.iter().map(|task| (&task.task_id, task)).collect();
    let (mut changed, mut tests) = (0, 0);
    for proved in &proofs.tasks {
        let Some(made) = made.get(&proved.task_id) else { continue };
        let Some(varied) = varied(project, proved)? else { continue };
        let entry = tasks.entry(proved.task_id.clone()).or_insert_with(|| QuarantinedTask {
            instance_digest: made.instance_digest,
            tests: BTreeMap::new(),
        });
        if entry.instance_digest != made.instance_digest {
            entry.instance_digest = made.instance_digest;
            entry.tests.clear();
        }
        changed += 1;
        tests += varied.len();
        entry.tests.extend(varied);
    }
    if changed > 0 {
        let document = QuarantineDocument { schema: QuarantineDocument::SCHEMA.into(), tasks };
        artifact::store(&project.path(QUARANTINE), &document)?;
        output.stage(
            "prove",
            format_args!(
                "{} of {} put into {QUARANTINE}; the tasks are written without them and proved again by `seatrial up`, \
                 or by `materialize`, `check` and `prove`",
                count(tests, "varying test"),
                count(changed, "task"),
            ),
        );
    }
    Ok(changed)
}

/// The tests of a rejected task that may go.
fn varied(project: &Project, proved: &ProvedTask) -> Result<Option<BTreeMap<String, record::FlakyTest>>> {
    if proved.flaky_tests.is_empty() {
        return Ok(None);
    }
    let path = project.path(TASKS).join(proved.task_id.as_str()).join("tests/config.json");
    let text = artifact::read_bounded(&path, CONFIG_LIMIT)?;
    let config = VerifierConfig::from_json(&String::from_utf8_lossy(&text)).or_exit(Exit::Failed)?;
    Ok(quarantined(proved, &config.fail_to_pass, &config.pass_to_pass))
}
