//! Rows for slime's coding agents.
//!
//! Shape as slime's `examples/coding_agent_rl` reads it: `prompt`, `label`, and `metadata` with `image`, `workdir`,
//! `problem_statement`, `pre_commands`, and one way of grading that ends with 0 when the task is solved. slime grades in a second, clean
//! sandbox, without the task's directory and as an ordinary user, so each row brings its verifier along.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fs_err as fs;
use image::dockerfile::{Command, CopySource, Instruction, parse};
use serde_json::{Map, Value, json};
use task::TaskDir;

use super::archive::archive;
use super::{ExportInput, splits};
use crate::{DatasetError, FrozenTask, ImageForm, Manifest};

/// Linux takes arguments of 128 KiB, and slime runs a command as one argument behind a change of directory.
const LONGEST_COMMAND: usize = 120_000;
/// No Dockerfile and no configuration of a verifier comes near this size.
const TEXT_LIMIT: u64 = 16 << 20;
/// The schema of `tests/config.json` of the verifier that Seatrial gives to tasks.
const VERIFIER: &str = "seatrial.verifier/1";
/// Unpacks the tests beside a link to the workspace, and grades: `verify.py --root` needs no right to write to `/`.
const GRADE: &str = include_str!("slime/grade.sh");
/// The same in Python, for verifiers that are too large for a command; slime writes it to a file.
const GRADE_PYTHON: &str = include_str!("slime/grade.py");

/// Writes `<split>.jsonl` for every split.
pub(super) fn write(input: &ExportInput<'_>, manifest: &Manifest, root: &Path) -> Result<(), DatasetError> {
    for (split, tasks) in splits(manifest) {
        let path = root.join(format!("{split}.jsonl"));
        let failed = || DatasetError::io(&path);
        let mut file = BufWriter::new(File::create(&path).map_err(failed())?);
        for task in tasks {
            let row = row(task, &input.task(task))?;
            writeln!(file, "{row}").map_err(failed())?;
        }
        file.flush().map_err(failed())?;
    }
    Ok(())
}

fn row(task: &FrozenTask, directory: &Path) -> Result<Value, DatasetError> {
    let wrap = |source| DatasetError::Task { task_id: task.task_id.clone(), source };
    let opened = TaskDir::open(directory).map_err(wrap)?;
    let instruction = opened.instruction().map_err(wrap)?;
    let workdir = workdir(task, directory)?;
    let mut metadata = Map::new();
    let mut set = |key: &str, value: Value| metadata.insert(key.to_owned(), value);
    set("instance_id", json!(task.task_id));
    let own = opened.config().environment.docker_image.as_ref();
    let built = task.image.reference.as_ref().filter(|_| task.image.form == ImageForm::Task);
    match own.or(built) {
        Some(image) => set("image", json!(image)),
        None => {
            set("image", json!(task.image.reference.as_ref().unwrap_or(&task.base_image)));
            set("pre_commands", json!(pre_commands(task, directory)?))
        }
    };
    set("workdir", json!(workdir));
    set("problem_statement", json!(instruction));
    let tests = STANDARD.encode(archive(task, &directory.join("tests"))?);
    let command = filled(GRADE, &workdir, &tests);
    if command.len() <= LONGEST_COMMAND {
        set("eval_cmd", json!(command));
    } else {
        set("remote_env_info", json!({ "f2p_script": filled(GRADE_PYTHON, &workdir, &tests) }));
    }
    set("repo", json!(task.repo));
    set("split", json!(task.split));
    set("digest", json!(task.content_hash.prefixed()));
    Ok(json!({ "prompt": instruction, "label": task.task_id, "metadata": metadata }))
}

/// Puts the workspace and the archive, neither of which holds a quote, into a template.
fn filled(template: &str, workdir: &str, tests: &str) -> String {
    template.replace("@WORKDIR@", workdir).replace("@TESTS@", tests)
}

fn unfit(task: &FrozenTask, problem: impl Into<String>) -> DatasetError {
    DatasetError::Unfit { task_id: task.task_id.clone(), format: "slime", problem: problem.into() }
}

/// Where the suite runs, of the configuration of the verifier.
fn workdir(task: &FrozenTask, directory: &Path) -> Result<String, DatasetError> {
    let foreign =
        || unfit(task, "its verifier is not Seatrial's, and slime lets no other write where Harbor's do");
    let text = artifact::read_bounded(&directory.join("tests/config.json"), TEXT_LIMIT);
    let config: Value = text.ok().and_then(|text| serde_json::from_slice(&text).ok()).ok_or_else(foreign)?;
    if config["schema"] != VERIFIER {
        return Err(foreign());
    }
    let plain = |text: &&str| {
        text.starts_with('/')
            && text.split('/').all(|part| part != "..")
            && text.bytes().all(|c| c.is_ascii_alphanumeric() || b"/._-".contains(&c))
    };
    let workdir = config["workdir"].as_str().filter(plain);
    let workdir = workdir.ok_or_else(|| unfit(task, "its workspace has a name that shells could misread"))?;
    Ok(workdir.to_owned())
}

/// What a Dockerfile of Seatrial's adds to its base image, as commands of the user who owns the workspace.
fn pre_commands(task: &FrozenTask, directory: &Path) -> Result<Vec<String>, DatasetError> {
    let environment = directory.join("environment");
    let text = artifact::read_bounded(&environment.join("Dockerfile"), TEXT_LIMIT)?;
    let built = |line: u32| {
        let problem = format!(
            "line {line} of its Dockerfile has to be built; push the image and name it as `environment.docker_image`"
        );
        unfit(task, problem)
    };
    let parsed = parse(&String::from_utf8_lossy(&text))
        .map_err(|error| unfit(task, format!("its Dockerfile cannot be read: {error}")))?;
    let mut commands = Vec::new();
    for (n, step) in parsed.steps.iter().enumerate() {
        match &step.instruction {
            Instruction::From { .. } if n == 0 => {}
            // Every command of the sandbox says where it runs, and the verifier brings the variables of its suite.
            Instruction::Workdir(_) | Instruction::Env(_) | Instruction::NoEffect => {}
            Instruction::Run { command: Command::Exec(words), .. }
                if words.first().is_some_and(|program| program == "rm" || program == "find") =>
            {
                let words = words.iter().map(String::as_str);
                commands.push(shlex::try_join(words).map_err(|_| built(step.line))?);
            }
            Instruction::Add(transfer) => {
                let [CopySource::Path(source)] = transfer.sources.as_slice() else {
                    return Err(built(step.line));
                };
                let is_tar = Path::new(source).extension().is_some_and(|ending| ending == "tar");
                let is_plain = is_tar && !source.contains('/');
                let path = environment.join(source);
                if !is_plain || !fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
                    return Err(built(step.line));
                }
                let to = shlex::try_quote(&transfer.destination).map_err(|_| built(step.line))?;
                commands.push(format!("printf %s '{}' | base64 -d | tar -xzf - -C {to}", packed(&path)?));
            }
            _ => return Err(built(step.line)),
        }
    }
    Ok(commands)
}

/// A file in gzip and base64.
fn packed(path: &Path) -> Result<String, DatasetError> {
    let mut gzip = super::archive::gzip(Vec::new());
    let mut file = File::open(path).map_err(DatasetError::io(path))?;
    std::io::copy(&mut file, &mut gzip).map_err(DatasetError::io(path))?;
    Ok(STANDARD.encode(gzip.finish().map_err(DatasetError::io(path))?))
}
