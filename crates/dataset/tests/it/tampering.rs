//! Every change to a frozen set is found, and the file is named.

use std::path::{Path, PathBuf};

use artifact::Document;
use dataset::{Frozen, Manifest, verify};
use ident::{AliasTable, RepoKey};
use record::Split;

use crate::project::{Project, contents, set_mode, write};

fn problems(path: &Path) -> Vec<(String, String)> {
    let verified = verify(path, &AliasTable::default()).unwrap();
    verified.problems.into_iter().map(|problem| (problem.file, problem.message)).collect()
}

fn frozen() -> (Project, Frozen) {
    let project = Project::sample();
    let frozen = project.freeze().unwrap();
    (project, frozen)
}

/// Asserts that exactly one problem is found, about `file`.
fn only(path: &Path, file: &str, message: &str) {
    let found = problems(path);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].0 == file && found[0].1.contains(message), "{found:?}");
}

#[test]
fn a_flipped_byte_in_any_file_is_found() {
    let (_project, frozen) = frozen();
    let files: Vec<PathBuf> = contents(&frozen.path)
        .into_iter()
        .filter(|(path, (mode, _))| mode & 0o170_000 == 0o100_000 && !path.ends_with("SHA256SUMS"))
        .map(|(path, _)| path)
        .collect();
    assert!(files.len() > 20);
    for file in files {
        let path = frozen.path.join(&file);
        let before = std::fs::read(&path).unwrap();
        let mut after = before.clone();
        let middle = after.len() / 2;
        after[middle] ^= 1;
        std::fs::write(&path, after).unwrap();
        let name = file.to_str().unwrap().replace('\n', "\\n");
        let found = problems(&frozen.path);
        assert!(found.contains(&(name, "was changed".into())), "{found:?}");
        std::fs::write(&path, before).unwrap();
    }
    assert_eq!(problems(&frozen.path), []);
}

#[test]
fn changed_sums_are_found() {
    let (_project, frozen) = frozen();
    let path = frozen.path.join("SHA256SUMS");
    let before = std::fs::read(&path).unwrap();
    for at in (0..before.len()).step_by(61) {
        let mut after = before.clone();
        after[at] ^= 1;
        std::fs::write(&path, after).unwrap();
        assert!(!problems(&frozen.path).is_empty(), "byte {at}");
    }
    std::fs::remove_file(&path).unwrap();
    assert!(problems(&frozen.path).contains(&("SHA256SUMS".into(), "is missing".into())));
}

#[test]
fn added_removed_and_moved_entries_are_found() {
    let (_project, frozen) = frozen();
    let task = format!("tasks/{}", frozen.manifest.tasks[0].task_id);
    let root = &frozen.path;
    let at = |name: &str| root.join(&task).join(name);
    let named = |name: &str| format!("{task}/{name}");

    write(&at("tests/more.sh"), "x");
    only(root, &named("tests/more.sh"), "was added");
    std::fs::remove_file(at("tests/more.sh")).unwrap();

    write(&at("tests/.DS_Store"), "x");
    only(root, &named("tests/.DS_Store"), "was added");
    std::fs::remove_file(at("tests/.DS_Store")).unwrap();

    std::fs::rename(at("instruction.md"), at("moved.md")).unwrap();
    let found = problems(root);
    assert_eq!(found.len(), 2, "{found:?}");
    std::fs::rename(at("moved.md"), at("instruction.md")).unwrap();

    set_mode(&at("tests/test.sh"), 0o644);
    only(root, &named("tests/test.sh"), "no longer executable");
    set_mode(&at("tests/test.sh"), 0o755);
    set_mode(&at("instruction.md"), 0o755);
    only(root, &named("instruction.md"), "became executable");
    set_mode(&at("instruction.md"), 0o644);

    std::fs::remove_file(at("tests/again.sh")).unwrap();
    only(root, &named("tests/again.sh"), "is missing");
    std::os::unix::fs::symlink("./test.sh", at("tests/again.sh")).unwrap();
    only(root, &named("tests/again.sh"), "pointed at `test.sh`");
    std::fs::remove_file(at("tests/again.sh")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", at("tests/again.sh")).unwrap();
    assert!(problems(root).iter().any(|(_, message)| message.contains("leads out of the task")));
    std::fs::remove_file(at("tests/again.sh")).unwrap();
    std::os::unix::fs::symlink("test.sh", at("tests/again.sh")).unwrap();

    std::fs::create_dir(root.join("tasks/other")).unwrap();
    only(root, "tasks/other", "not a task");
    std::fs::remove_dir(root.join("tasks/other")).unwrap();
    std::os::unix::fs::symlink("/etc", root.join("etc")).unwrap();
    only(root, "etc", "was not frozen");
    std::fs::remove_file(root.join("etc")).unwrap();

    assert_eq!(problems(root), []);
}

#[test]
fn a_file_and_its_sum_changed_together_are_found_by_the_tree() {
    let (_project, frozen) = frozen();
    let task = format!("tasks/{}", frozen.manifest.tasks[0].task_id);
    let file = frozen.path.join(&task).join("tests/test.sh");
    let before = ident::Digest::of(std::fs::read(&file).unwrap()).hex();
    std::fs::write(&file, "exit 0\n").unwrap();
    let sums = frozen.path.join("SHA256SUMS");
    let text = std::fs::read_to_string(&sums).unwrap();
    let line = format!("{before}  {task}/tests/test.sh");
    assert!(text.contains(&line));
    let after = ident::Digest::of("exit 0\n").hex();
    std::fs::write(&sums, text.replace(&line, &line.replace(&before, &after))).unwrap();
    let found = problems(&frozen.path);
    assert!(found.iter().all(|(file, _)| *file == task), "{found:?}");
    assert!(found.iter().any(|(_, message)| message.contains("verifier digest")), "{found:?}");
}

/// Changes the manifest and everything that must change with it.
fn with_manifest(frozen: &Frozen, change: impl FnOnce(&mut Manifest)) -> Vec<(String, String)> {
    let mut manifest = frozen.manifest.clone();
    change(&mut manifest);
    manifest.counts = dataset::Counts::of(&manifest.tasks);
    manifest.semantic_digest = manifest.semantics().unwrap();
    let path = frozen.path.join("manifest.json");
    let before = ident::Digest::of(std::fs::read(&path).unwrap()).hex();
    let after = artifact::store(&path, &manifest).unwrap().hex();
    let sums = frozen.path.join("SHA256SUMS");
    let text = std::fs::read_to_string(&sums).unwrap();
    std::fs::write(&sums, text.replace(&before, &after)).unwrap();
    problems(&frozen.path)
}

#[test]
fn leaks_between_splits_are_found() {
    let (_project, frozen) = frozen();
    let found = with_manifest(&frozen, |manifest| {
        let task = manifest.tasks.iter_mut().find(|task| task.split == Split::Train).unwrap();
        task.split = Split::Test;
    });
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].1.contains("`acme/widgets`") && found[0].1.contains("train"), "{found:?}");

    let (_project, frozen) = self::frozen();
    let found = with_manifest(&frozen, |manifest| {
        let last = manifest.tasks.len() - 1;
        manifest.tasks[last].repo = RepoKey::parse("Acme/Widgets.git").unwrap();
    });
    assert!(found.iter().any(|(_, message)| message.contains("`acme/widgets`")), "{found:?}");

    let (_project, frozen) = self::frozen();
    let found = with_manifest(&frozen, |manifest| {
        let mut twice = manifest.tasks[0].clone();
        twice.split = Split::Validation;
        manifest.tasks.insert(1, twice);
    });
    assert!(found.iter().any(|(_, message)| message.contains("and again in validation")), "{found:?}");
}

#[test]
fn a_rename_that_became_known_later_counts() {
    let (_project, frozen) = frozen();
    let aliases = AliasTable::new([("other/x", "acme/gears")]).unwrap();
    let verified = verify(&frozen.path, &aliases).unwrap();
    assert!(verified.problems[0].message.contains("`acme/gears`"), "{:?}", verified.problems);
}

#[test]
fn paths_that_lead_elsewhere_are_refused_before_they_are_used() {
    let (_project, frozen) = frozen();
    let path = frozen.path.join("manifest.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let id = frozen.manifest.tasks[0].task_id.as_str();
    for trick in ["../x", "/abs", "a//b", "./a", "a\\\\b"] {
        std::fs::write(
            &path,
            text.replacen(&format!("\"task_id\":\"{id}\""), &format!("\"task_id\":\"{trick}\""), 1),
        )
        .unwrap();
        let found = problems(&frozen.path);
        assert!(
            found.iter().any(|(file, message)| file == "manifest.json" && message.contains("is no manifest")),
            "{trick}: {found:?}"
        );
    }
    std::fs::write(&path, &text).unwrap();

    for trick in ["../x", "/abs", "a//b", "./a", "a\\b"] {
        let (_project, frozen) = self::frozen();
        let found = with_manifest(&frozen, |manifest| manifest.tasks[0].executable.push(trick.into()));
        assert!(
            found.iter().any(|(file, message)| file == "manifest.json" && message.contains("names the path")),
            "{found:?}"
        );
        let sums = frozen.path.join("SHA256SUMS");
        let line = format!("{}  {trick}\n", ident::Digest::of(""));
        std::fs::write(&sums, std::fs::read_to_string(&sums).unwrap() + &line).unwrap();
        let found = problems(&frozen.path);
        assert!(
            found.iter().any(|(file, message)| file == "SHA256SUMS" && message.contains("the path")),
            "{found:?}"
        );
    }
}

#[test]
fn another_schema_is_no_manifest() {
    let (_project, frozen) = frozen();
    let path = frozen.path.join("manifest.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace(Manifest::SCHEMA, "seatrial.manifest/9")).unwrap();
    assert!(problems(&frozen.path).iter().any(|(_, message)| message.contains("seatrial.manifest/9")));
}
