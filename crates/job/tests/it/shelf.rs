//! Directories of jobs made by hand.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A directory that is removed with the value.
pub struct Shelf {
    directory: TempDir,
}

impl Shelf {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn root(&self) -> &Path {
        self.directory.path()
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub fn json(&self, name: &str, value: &Value) {
        self.write(name, serde_json::to_string_pretty(value).unwrap());
    }

    /// A trial of the present generation with a reward.
    pub fn rewarded(&self, path: &str, task: &str, reward: f64) {
        let mut result = result(path, task);
        result["verifier_result"] = json!({"rewards": {"reward": reward}});
        result["reward_valid"] = json!(true);
        self.json(&format!("{path}/result.json"), &result);
    }

    /// A trial of the present generation with an exception and no reward.
    pub fn errored(&self, path: &str, task: &str, exception: &str) {
        let mut result = result(path, task);
        result["exception_info"] = exception_info(exception);
        self.json(&format!("{path}/result.json"), &result);
    }

    /// A job's result with the given statistics.
    pub fn job(&self, path: &str, total: usize, finished: bool, stats: &Value) {
        let result = json!({
            "schema_version": 1,
            "id": "6ae4b548-39dd-4861-994f-d3f0bbb76f53",
            "started_at": "2026-11-29T14:47:23.702368",
            "updated_at": "2026-11-29T14:47:53",
            "finished_at": finished.then_some("2026-11-29T14:47:53"),
            "n_total_trials": total,
            "stats": stats,
        });
        self.json(&format!("{path}/result.json"), &result);
    }
}

pub fn exception_info(exception: &str) -> Value {
    json!({
        "exception_type": exception,
        "exception_message": format!("{exception} happened"),
        "exception_traceback": "",
        "occurred_at": "2026-11-29T14:47:35.799125Z",
    })
}

/// A trial's result without rewards and exceptions.
pub fn result(path: &str, task: &str) -> Value {
    json!({
        "schema_version": 1,
        "id": "32bf0b69-3477-497c-81b5-bc06f0d2b0a1",
        "task_name": task,
        "trial_name": path.rsplit('/').next(),
        "source": "tasks",
        "task_checksum": "45bf",
        "config": {
            "task": {"path": format!("tasks/{task}")},
            "agent": {"name": "oracle", "model_name": null},
            "environment": {"type": null, "import_path": "seatrial:native"},
        },
        "agent_info": {"name": "oracle", "version": "1.0.0", "model_info": null},
        "agent_result": {"n_input_tokens": null, "n_output_tokens": 7, "cost_usd": 0},
        "verifier_result": null,
        "exception_info": null,
        "started_at": "2026-11-29T14:47:24Z",
        "finished_at": "2026-11-29T14:47:46.5Z",
        "environment_setup": {"started_at": "2026-11-29T14:47:24Z", "finished_at": "2026-11-29T14:47:28Z"},
        "agent_execution": {"started_at": "2026-11-29T14:47:28Z", "finished_at": "2026-11-29T14:47:30Z"},
        "step_results": null,
    })
}

/// The kinds of what is odd, in order.
pub fn kinds(oddities: &[job::Oddity]) -> Vec<&'static str> {
    oddities.iter().map(|oddity| oddity.what.kind()).collect()
}

/// What is odd, as people read it.
pub fn said(oddities: &[job::Oddity]) -> Vec<String> {
    oddities.iter().map(ToString::to_string).collect()
}
