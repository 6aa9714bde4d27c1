//! Takes ready-made task directories apart that carry the instance they were made from.

use std::path::Path;

use artifact::read_bounded;
use record::Instance;
use serde_json::Value;

use crate::TaskError;

/// An instance has a patch and two lists of tests.
const MAX_INSTANCE_BYTES: u64 = 64 << 20;
const MAX_INSTRUCTION_BYTES: u64 = 16 << 20;

/// What a ready-made task says.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedTask {
    /// The instance in `tests/config.json`.
    pub instance: Instance,
    /// The text of `instruction.md`.
    pub instruction: String,
}

/// Reads the instance and the instruction of the SWE-smith style task at `directory`; nothing else of it is looked at,
/// so that a new task can be made with a verifier and a history of its own.
///
/// Both files have to be regular files that are reached through directories, not links. Lists of tests may be JSON
/// lists or, as in SWE-bench rows, texts that hold one. A row without a problem statement gets the instruction.
pub fn import_task(directory: &Path) -> Result<ImportedTask, TaskError> {
    let tests = directory.join("tests");
    for path in [directory, &tests] {
        let io = |source| TaskError::Io { path: path.to_owned(), source };
        if !std::fs::symlink_metadata(path).map_err(io)?.is_dir() {
            return Err(TaskError::NotADirectory { path: path.to_owned() });
        }
    }
    let path = tests.join("config.json");
    let invalid = |detail: String| TaskError::Import { path: path.clone(), detail };
    let instruction = read_bounded(&directory.join("instruction.md"), MAX_INSTRUCTION_BYTES)?;
    let instruction = String::from_utf8(instruction).map_err(|_| TaskError::Import {
        path: directory.join("instruction.md"),
        detail: "it is not UTF-8".to_owned(),
    })?;
    let bytes = read_bounded(&path, MAX_INSTANCE_BYTES)?;
    let mut row: Value = serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
    let Value::Object(fields) = &mut row else {
        return Err(invalid("it is no JSON object".to_owned()));
    };
    for key in ["FAIL_TO_PASS", "PASS_TO_PASS"] {
        if let Some(Value::String(text)) = fields.get(key) {
            let list: Value = serde_json::from_str(text)
                .map_err(|error| invalid(format!("`{key}` holds no list: {error}")))?;
            fields.insert(key.to_owned(), list);
        }
    }
    fields.entry("problem_statement").or_insert_with(|| Value::String(instruction.clone()));
    let instance =
        serde_json::from_value(row).map_err(|error| invalid(format!("it is no instance: {error}")))?;
    Ok(ImportedTask { instance, instruction })
}

#[cfg(test)]
mod tests {
    use fs_err as fs;

    use super::*;

    fn task(config: &str) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("tests")).unwrap();
        fs::write(directory.path().join("tests/config.json"), config).unwrap();
        fs::write(directory.path().join("instruction.md"), "Mend it.\n").unwrap();
        directory
    }

    const ROW: &str = r#"{"instance_id":"a__b.0123abcd.pr_1","patch":"p","FAIL_TO_PASS":"[\"t.py::a\"]",
        "PASS_TO_PASS":[],"image_name":"i","repo":"swesmith/a__b.0123abcd","base_commit":"x"}"#;

    #[test]
    fn rows_of_either_kind_are_read() {
        let imported = import_task(task(ROW).path()).unwrap();
        assert_eq!(imported.instance.fail_to_pass, ["t.py::a"]);
        assert_eq!(imported.instance.problem_statement, "Mend it.\n");
        assert_eq!(imported.instruction, "Mend it.\n");
    }

    #[test]
    fn broken_rows_and_links_are_refused() {
        for config in ["", "[]", "{}", &ROW.replace("a__b.0123abcd.pr_1", "../x")] {
            assert!(matches!(import_task(task(config).path()), Err(TaskError::Import { .. })), "{config}");
        }
        let linked = task(ROW);
        let path = linked.path().join("tests/config.json");
        fs::rename(&path, linked.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("../elsewhere", &path).unwrap();
        assert!(import_task(linked.path()).is_err());
    }
}
