//! Patches of real projects, compared with what git makes of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use task::patch::{Note, Patch, PatchProblem};
use task::tree::{Entry, Tree, TreeLimits};

/// Runs `git apply` on the entries of a tree that a patch names, in a directory of its own, and reads the result.
fn git_apply(tree: &Tree, patch: &[u8]) -> Option<Tree> {
    let directory = tempfile::tempdir().unwrap();
    for (path, entry) in tree.iter() {
        let path = directory.path().join(std::str::from_utf8(path).unwrap());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, entry.bytes()).unwrap();
    }
    let mut git = Command::new("git")
        .args(["apply", "-"])
        .env("GIT_CEILING_DIRECTORIES", directory.path().parent().unwrap())
        .current_dir(directory.path())
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut git.stdin.take().unwrap(), patch).unwrap();
    git.wait()
        .unwrap()
        .success()
        .then(|| Tree::from_directory(directory.path(), TreeLimits::default()).unwrap())
}

fn only(tree: &Tree, patch: &Patch) -> Tree {
    let mut small = Tree::new();
    for path in patch.paths() {
        if let Some(entry) = tree.get(&path) {
            // The comparison is about bytes; modes are git's business only where a patch names them.
            small.insert(path, Entry::file(entry.bytes())).unwrap();
        }
    }
    small
}

#[test]
fn bugs_of_real_projects_apply_as_git_applies_them_and_come_off_again() {
    let Some(root) = corpus::find("data/minismith") else { return };
    let repositories: Vec<serde_json::Value> =
        serde_json::from_slice(&std::fs::read(root.join("repositories.json")).unwrap()).unwrap();
    let sdists: BTreeMap<_, _> =
        repositories.iter().map(|r| (r["repo"].as_str().unwrap(), r["sdist"].as_str().unwrap())).collect();
    let mut trees: BTreeMap<&str, Tree> = BTreeMap::new();
    let mut count = 0;
    for line in std::fs::read_to_string(root.join("instances.jsonl")).unwrap().lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let id = row["instance_id"].as_str().unwrap();
        let sdist = sdists[row["repo"].as_str().unwrap()];
        let clean = trees.entry(sdist).or_insert_with(|| {
            Tree::from_sdist(&root.join("sdist").join(sdist), TreeLimits::default()).unwrap()
        });
        let bytes = row["patch"].as_str().unwrap().as_bytes();
        let patch = Patch::parse(bytes).unwrap_or_else(|problem| panic!("{id}: {problem}"));
        let mut buggy = clean.clone();
        let applied = patch.apply_to_tree(&mut buggy).unwrap_or_else(|problem| panic!("{id}: {problem}"));
        assert!(!applied.changed.is_empty());
        assert_ne!(buggy, *clean, "{id}");
        let by_git = git_apply(&only(clean, &patch), bytes).unwrap_or_else(|| panic!("{id}: git refuses"));
        assert_eq!(only(&buggy, &patch), by_git, "{id}");
        let fix = Patch::between(&buggy, clean).unwrap();
        assert_eq!(git_apply(&only(&buggy, &patch), &fix.to_bytes()).unwrap(), only(clean, &patch), "{id}");
        patch.reversed().apply_to_tree(&mut buggy).unwrap();
        assert_eq!(buggy, *clean, "{id}");
        count += 1;
    }
    assert_eq!(count, 142);
}

/// Every patch text in the JSON lines below the corpus, whatever its field is called.
fn known_patches(path: &Path, into: &mut Vec<String>) {
    for entry in std::fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            known_patches(&path, into);
        } else if path.extension().is_some_and(|kind| kind == "jsonl") {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            for line in text.lines() {
                let Ok(serde_json::Value::Object(row)) = serde_json::from_str(line) else { continue };
                let named = row.iter().filter(|(key, _)| key.ends_with("patch"));
                into.extend(named.filter_map(|(_, value)| value.as_str().map(str::to_owned)));
            }
        }
    }
}

#[test]
fn published_patches_are_read_or_refused_with_a_name() {
    let Some(data) = corpus::find("data") else { return };
    let mut texts = Vec::new();
    known_patches(&data.join("instances"), &mut texts);
    known_patches(&data.join("swesmith"), &mut texts);
    let mut outcomes: BTreeMap<&str, u32> = BTreeMap::new();
    for text in &texts {
        let outcome = match Patch::parse(text.as_bytes()) {
            Ok(patch) => {
                let again = Patch::parse(&patch.to_bytes()).unwrap();
                let hunks =
                    |patch: &Patch| patch.files.iter().map(|file| file.hunks.clone()).collect::<Vec<_>>();
                assert_eq!((again.paths(), hunks(&again)), (patch.paths(), hunks(&patch)));
                "read"
            }
            Err(problem) => problem.name(),
        };
        *outcomes.entry(outcome).or_default() += 1;
    }
    eprintln!("{outcomes:?}");
    assert!(outcomes["read"] > 100);
    assert!(!outcomes.contains_key("patch_escapes"));
}

#[test]
fn patches_with_a_history_of_trouble() {
    let Some(cases) = corpus::find("cases") else { return };
    let directories: Vec<_> = std::fs::read_dir(cases).unwrap().map(|entry| entry.unwrap().path()).collect();
    let run = |case: &str, target: &str| {
        let is_case = |path: &&std::path::PathBuf| path.to_str().is_some_and(|name| name.ends_with(case));
        let directory = directories.iter().find(is_case).unwrap();
        let mut tree = Tree::new();
        tree.insert(target, Entry::file(std::fs::read(directory.join(target)).unwrap())).unwrap();
        let patch = Patch::parse(&std::fs::read(directory.join("model.patch")).unwrap())?;
        let applied = patch.apply_to_tree(&mut tree)?;
        Ok::<_, PatchProblem>((tree, applied))
    };
    let (tree, applied) = run("patch-no-trailing-newline", "calc.sh").unwrap();
    assert_eq!(applied.notes, [Note::FinalNewlineRepaired]);
    assert_eq!(tree.get(b"calc.sh").unwrap().bytes(), b"#!/bin/sh\necho $(( $1 + $2 ))\n");
    let (tree, applied) = run("patch-crlf-target", "calc.sh").unwrap();
    assert!(applied.notes.is_empty());
    assert_eq!(tree.get(b"calc.sh").unwrap().bytes(), b"#!/bin/sh\r\necho $(( $1 + $2 ))\r\n");
    let (tree, applied) = run("patch-all-crlf-on-lf-target", "calc.sh").unwrap();
    assert_eq!(applied.notes, [Note::LineEndsRepaired]);
    assert_eq!(tree.get(b"calc.sh").unwrap().bytes(), b"#!/bin/sh\necho $(( $1 + $2 ))\n");
    let (tree, _) = run("patch-rename-only", "calc.sh").unwrap();
    assert!(tree.get(b"sum.sh").is_some() && tree.get(b"calc.sh").is_none());
    assert_eq!(run("patch-empty", "calc.sh").unwrap_err(), PatchProblem::Empty);
    assert_eq!(run("patch-path-escape", "calc.sh").unwrap_err().name(), "patch_escapes");
    let (tree, _) = run("patch-no-newline-marker", "n.txt").unwrap();
    assert_eq!(tree.get(b"n.txt").unwrap().bytes(), b"b\n");
    let (tree, _) = run("patch-latin1-bytes", "l.txt").unwrap();
    assert_eq!(tree.get(b"l.txt").unwrap().bytes(), b"caf\xe9s\n");
}
