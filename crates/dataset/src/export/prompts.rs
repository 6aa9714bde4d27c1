//! Prompts with what leads back to the task, in Parquet.
//!
//! One row a task: a chat of one message, its instruction. verl reads `prompt`, `data_source`, `ability`, `reward_model` and
//! `extra_info` (`RLHFDataset`), SkyRL `prompt` and `env_class` and keeps the rest (`PromptDataset`). verl drops prompts that are
//! longer than its limit, 1,024 tokens unless it is told otherwise, so the length of each is stated.

use std::path::Path;

use parquet::data_type::ByteArray;
use record::Split;
use task::TaskDir;

use super::table::{Column, Table};
use super::{ExportFormat, ExportInput, splits};
use crate::{DatasetError, FrozenTask, Manifest};

/// What SkyRL and verl call the kind of a task.
const ABILITY: &str = "code";
/// The name under which environments of Harbor tasks are known.
const ENVIRONMENT: &str = "harbor";

/// Who reads the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    Verl,
    SkyRl,
}

impl Reader {
    fn schema(self) -> String {
        let text = |name: &str| format!("required binary {name} (STRING);");
        let environment = match self {
            Self::Verl => String::new(),
            Self::SkyRl => text("env_class"),
        };
        let [source, ability, role, content] = ["data_source", "ability", "role", "content"].map(text);
        let [style, truth] = ["style", "ground_truth"].map(text);
        let [split, id, repo, image] = ["split", "task_id", "repo", "image"].map(text);
        let task: String = ["name", "path", "digest"].map(text).concat();
        format!(
            "message prompts {{ {source}
             required group prompt (LIST) {{ repeated group list {{ required group element {{ {role} {content} }} }} }}
             {ability} {environment}
             required group reward_model {{ {style} {truth} }}
             required group extra_info {{
               required int64 index; {split} {id} {repo} {image} required int64 prompt_chars;
               required group tools_kwargs {{ required group task {{ {task} }} }}
             }} }}"
        )
    }
}

/// Writes `<split>.parquet` for every split.
pub(super) fn write(
    input: &ExportInput<'_>,
    manifest: &Manifest,
    root: &Path,
    reader: Reader,
) -> Result<(), DatasetError> {
    for (split, tasks) in splits(manifest) {
        let rows: Vec<Row<'_>> =
            tasks.iter().map(|task| Row::of(input, task, split)).collect::<Result<_, _>>()?;
        let mut table = Table::create(&root.join(format!("{split}.parquet")), &reader.schema(), &[])?;
        table.group(&columns(manifest, split, &rows, reader))?;
        table.finish()?;
    }
    Ok(())
}

struct Row<'a> {
    task: &'a FrozenTask,
    instruction: String,
    /// Where the task lies, seen from the directory of all exports of the set.
    path: String,
}

impl<'a> Row<'a> {
    fn of(input: &ExportInput<'_>, task: &'a FrozenTask, split: Split) -> Result<Self, DatasetError> {
        let wrap = |source| DatasetError::Task { task_id: task.task_id.clone(), source };
        let opened = TaskDir::open(&input.task(task)).map_err(wrap)?;
        let instruction = opened.instruction().map_err(wrap)?;
        let path = format!("{}/{split}/{}", ExportFormat::Harbor.name(), task.task_id);
        Ok(Self { task, instruction, path })
    }
}

/// The columns in the order of the schema.
fn columns(manifest: &Manifest, split: Split, rows: &[Row<'_>], reader: Reader) -> Vec<Column> {
    let same = |text: &str| Column::Bytes(vec![ByteArray::from(text); rows.len()]);
    let each = |of: &dyn Fn(&Row<'_>) -> String| {
        Column::Bytes(rows.iter().map(|row| ByteArray::from(of(row).as_str())).collect())
    };
    let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let mut columns = vec![
        same(&manifest.name),
        Column::Only(vec![ByteArray::from("user"); rows.len()]),
        Column::Only(rows.iter().map(|row| ByteArray::from(row.instruction.as_str())).collect()),
        same(ABILITY),
    ];
    if reader == Reader::SkyRl {
        columns.push(same(ENVIRONMENT));
    }
    columns.extend([
        same("rule"),
        each(&|row| row.task.task_id.to_string()),
        Column::Numbers((0..rows.len()).map(number).collect()),
        same(&split.to_string()),
        each(&|row| row.task.task_id.to_string()),
        each(&|row| row.task.repo.to_string()),
        each(&|row| row.task.base_image.clone()),
        Column::Numbers(rows.iter().map(|row| number(row.instruction.chars().count())).collect()),
        same(ENVIRONMENT),
        each(&|row| row.path.clone()),
        each(&|row| row.task.content_hash.prefixed()),
    ]);
    columns
}
