//! The files of one task.

use std::collections::BTreeSet;

use ident::Digest;
use record::{Instance, Profile};

use super::config_file::config_file;
use super::dockerfile::{WORKSPACE_ARCHIVE, dockerfile};
use super::hidden::hidden_tests;
use super::refusal::{Refusal, RefusalReason};
use super::settings::{SURFACE_ARCHIVE, Settings, SurfaceArchive, Verifier};
use crate::commit::Repository;
use crate::config::is_package_name;
use crate::patch::{Note, Patch};
use crate::printable;
use crate::tree::{Tree, check_path};

/// Everything that decides the files of one task.
#[derive(Clone, Copy)]
pub struct MaterializeInput<'a> {
    /// The candidate.
    pub instance: &'a Instance,
    /// How its tests are run.
    pub profile: &'a Profile,
    /// The source tree without the bug.
    pub clean: &'a Tree,
    /// What holds for the whole run.
    pub settings: &'a Settings,
    /// The files of `tests/`.
    pub verifier: &'a dyn Verifier,
}

/// One file of a task directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskFile {
    /// Path relative to the task, or to `tests/` where it comes from a verifier.
    pub path: String,
    /// Permission bits, 0644 or 0755.
    pub mode: u32,
    /// The content.
    pub content: Vec<u8>,
}

/// The files of a task directory, and what was decided on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskFiles {
    /// The files in ascending order of path.
    pub files: Vec<TaskFile>,
    /// Test files that were taken out of the workspace.
    pub hidden_tests: BTreeSet<String>,
    /// Files that FAIL_TO_PASS names and the clean tree lacks.
    pub missing_tests: BTreeSet<String>,
    /// Files in the archive of the test surface.
    pub surface_files: BTreeSet<String>,
    /// The SHA-1 name of the workspace's one commit.
    pub commit: String,
    /// Digest of the clean tree.
    pub clean_digest: Digest,
    /// Repairs and offsets of the bug's patch.
    pub notes: Vec<Note>,
}

/// Works out the files of a task.
///
/// - The workspace is the clean tree with the bug and without the hidden tests, as one fresh commit.
/// - The instruction is the problem statement as it is, with a final newline where it has none; the agent starts in the
///   workspace, so nothing is added. An empty statement is written as an empty file and left to the checks.
/// - The solution is computed from workspace and clean tree, so it applies to exactly what the agent sees.
/// - `tests/` holds the verifier's files and the archive of the test surface from the clean tree.
pub fn materialize(input: &MaterializeInput<'_>) -> Result<TaskFiles, Refusal> {
    let refuse = |field: &'static str| {
        move |reason: RefusalReason| Refusal { task_id: input.instance.instance_id.clone(), field, reason }
    };
    let MaterializeInput { instance, profile, clean, settings, verifier } = *input;
    check_settings(settings).map_err(refuse("settings"))?;
    if profile.repo != instance.repo {
        let (profile, instance) = (profile.repo.clone(), instance.repo.clone());
        return Err(refuse("profile")(RefusalReason::ProfileMismatch { profile, instance }));
    }
    if instance.fail_to_pass.is_empty() {
        return Err(refuse("FAIL_TO_PASS")(RefusalReason::NoFailToPass));
    }
    if clean.is_empty() {
        return Err(refuse("workspace")(RefusalReason::WorkspaceMissing));
    }

    let patch_refused = |problem| refuse("patch")(RefusalReason::Patch(problem));
    let bug = Patch::parse(instance.patch.as_bytes()).map_err(patch_refused)?;
    let owns = |path: &[u8]| verifier.owns(&String::from_utf8_lossy(path));
    let touched: Vec<_> = bug.paths().iter().filter(|path| owns(path)).map(|path| printable(path)).collect();
    if !touched.is_empty() {
        return Err(refuse("patch")(RefusalReason::PatchTouchesTests(touched)));
    }
    let mut workspace = clean.clone();
    let applied = bug.apply_to_tree(&mut workspace).map_err(patch_refused)?;
    if workspace == *clean {
        return Err(refuse("patch")(RefusalReason::PatchChangesNothing));
    }

    let tests = hidden_tests(instance, clean, verifier, &settings.workdir);
    let mut fixed = clean.clone();
    for path in &tests.hidden {
        workspace.remove(path.as_bytes());
        fixed.remove(path.as_bytes());
    }
    let fix = Patch::between(&workspace, &fixed).map_err(patch_refused)?.to_bytes();
    let mut mended = workspace.clone();
    let leads_back =
        Patch::parse(&fix).and_then(|fix| fix.apply_to_tree(&mut mended)).is_ok() && mended == fixed;
    if !leads_back {
        return Err(refuse("patch")(RefusalReason::FixDiverges));
    }

    let repository = Repository::of(&workspace)
        .map_err(|error| refuse("workspace")(RefusalReason::WorkspaceTooLarge(error.to_string())))?;
    let gone: Vec<&[u8]> =
        clean.iter().map(|(path, _)| path).filter(|path| workspace.get(path).is_none()).collect();
    let dockerfile = dockerfile(settings, &profile.env, &gone).map_err(refuse("environment"))?;

    let mut surface = Tree::new();
    for (path, entry) in clean.iter().filter(|(path, _)| owns(path)) {
        surface.insert(path, entry.clone()).expect("a part of a tree is a tree");
    }
    let archive = surface.to_tar();
    let given = verifier
        .files(&SurfaceArchive { bytes: &archive, digest: Digest::of(&archive) })
        .map_err(|reason| refuse("verifier")(RefusalReason::Verifier(reason)))?;

    let plain = |path: &str, content: Vec<u8>| TaskFile { path: path.to_owned(), mode: 0o644, content };
    let mut files = vec![
        plain("task.toml", config_file(instance, settings).into_bytes()),
        plain("instruction.md", instruction(&instance.problem_statement)),
        plain("environment/Dockerfile", dockerfile.into_bytes()),
        plain(&format!("environment/{WORKSPACE_ARCHIVE}"), repository.to_tar(&workspace)),
        plain("solution/fix.patch", fix),
        TaskFile {
            path: "solution/solve.sh".to_owned(),
            mode: 0o755,
            content: solve_script(&settings.workdir),
        },
        plain(&format!("tests/{SURFACE_ARCHIVE}"), archive),
    ];
    for file in given {
        let path = format!("tests/{}", file.path);
        if check_path(path.as_bytes()).is_err() || files.iter().any(|known| known.path == path) {
            let reason = format!("it wants to write `{path}`, which is refused or taken");
            return Err(refuse("verifier")(RefusalReason::Verifier(reason)));
        }
        files.push(TaskFile { path, ..file });
    }
    files.sort();
    Ok(TaskFiles {
        files,
        hidden_tests: tests.hidden,
        missing_tests: tests.missing,
        surface_files: surface.iter().map(|(path, _)| printable(path)).collect(),
        commit: repository.commit,
        clean_digest: clean.digest(),
        notes: applied.notes,
    })
}

fn instruction(statement: &str) -> Vec<u8> {
    let mut text = statement.to_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.into_bytes()
}

/// The oracle's script: one `git apply`, which changes everything or nothing. `workdir` is checked to be plain.
fn solve_script(workdir: &str) -> Vec<u8> {
    format!(
        "#!/bin/bash\n\
         # Applies the reference fix as a whole; a part that does not apply fails the script and changes nothing.\n\
         set -euo pipefail\n\
         here=$(cd -- \"$(dirname -- \"${{BASH_SOURCE[0]}}\")\" && pwd)\n\
         cd -- {workdir}\n\
         git apply --whitespace=nowarn -- \"$here/fix.patch\"\n"
    )
    .into_bytes()
}

fn check_settings(settings: &Settings) -> Result<(), RefusalReason> {
    let wrong =
        |what, value: &str, wanted| Err(RefusalReason::Setting { what, value: value.to_owned(), wanted });
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    let workdir = settings.workdir.strip_prefix('/').unwrap_or_default();
    if check_path(workdir.as_bytes()).is_err() || !workdir.chars().all(plain) {
        return wrong("the workdir", &settings.workdir, "it must be an absolute path of plain names");
    }
    if !is_package_name(&format!("{}/x", settings.organization)) {
        return wrong("the organization", &settings.organization, "it must be one plain name");
    }
    for image in [Some(&settings.base_image), settings.docker_image.as_ref()].into_iter().flatten() {
        let fine = |c: char| c.is_ascii_graphic() && !matches!(c, '$' | '"' | '\'' | '\\' | '`' | '#');
        if image.is_empty() || image.starts_with('-') || !image.chars().all(fine) {
            return wrong("the image", image, "it must be an image reference");
        }
    }
    if settings.verifier_timeout_sec == 0
        || settings.build_timeout_sec == 0
        || settings.agent_timeout_sec == Some(0)
    {
        return wrong("a time limit", "0", "it must be above 0");
    }
    if settings.cpus == Some(0) || settings.memory_mb == Some(0) || settings.storage_mb == Some(0) {
        return wrong("a resource", "0", "it must be above 0, or left out");
    }
    Ok(())
}
