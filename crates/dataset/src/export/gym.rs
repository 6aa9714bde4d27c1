//! Rows for NeMo-Gym's agent for Harbor tasks.
//!
//! Shape as NeMo-Gym's `responses_api_agents/harbor_agent` reads it: `instance_id` is an alias of a directory of tasks and the name of
//! one, and the input is empty, since the task's own instruction is used.

use std::path::Path;

use serde_json::json;

use super::splits;
use crate::{DatasetError, Manifest};

/// Writes `<split>.jsonl` for every split. The alias is the set's name and the split.
pub(super) fn write(manifest: &Manifest, root: &Path) -> Result<(), DatasetError> {
    for (split, tasks) in splits(manifest) {
        let alias = format!("{}-{split}", manifest.name);
        let row = |task: &&crate::FrozenTask| {
            let row = json!({
                "instance_id": format!("{alias}::{}", task.task_id),
                "responses_create_params": { "input": [] },
                "agent_ref": { "name": "harbor_agent" },
            });
            format!("{row}\n")
        };
        let text: String = tasks.iter().map(row).collect();
        artifact::write_atomic(&root.join(format!("{split}.jsonl")), text.as_bytes())?;
    }
    Ok(())
}
