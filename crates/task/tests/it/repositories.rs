//! Repositories written here, judged by git itself.

use std::path::Path;
use std::process::Command;

use task::commit::Repository;
use task::tree::{Entry, Tree, TreeLimits};

fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "core.quotepath=off"])
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", directory)
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*")
        .output()
        .unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {text}");
    text
}

/// Unpacks the archive with its repository and holds git's view of it against the tree.
fn judge(tree: &Tree) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let repository = Repository::of(tree).unwrap();
    let archive = repository.to_tar(tree);
    assert_eq!(Repository::of(tree).unwrap().to_tar(tree), archive, "the same tree gives the same bytes");
    tar::Archive::new(archive.as_slice()).unpack(root).unwrap();

    assert_eq!(git(root, &["fsck", "--full", "--strict", "--lost-found"]), "");
    assert_eq!(git(root, &["status", "--porcelain", "--ignored"]), "");
    assert_eq!(
        git(root, &["log", "--all", "--format=%H %s"]),
        format!("{} Initial commit\n", repository.commit)
    );
    assert_eq!(git(root, &["rev-parse", "HEAD^{tree}"]).trim(), repository.tree);
    assert_eq!(git(root, &["reflog", "--all"]), "");
    assert_eq!(git(root, &["remote"]), "");
    assert_eq!(git(root, &["for-each-ref", "--format=%(refname)"]), "refs/heads/main\n");
    let counts = git(root, &["count-objects", "-v"]);
    assert!(
        counts.contains("count: 0\n") && counts.contains("packs: 1\n") && counts.contains("garbage: 0"),
        "{counts}"
    );
    let packed = git(root, &["cat-file", "--batch-all-objects", "--batch-check"]).lines().count();
    assert!(counts.contains(&format!("in-pack: {packed}\n")), "{counts}");
    assert_eq!(
        git(root, &["rev-list", "--all", "--objects"]).lines().count(),
        packed,
        "every object is reachable"
    );

    let listing = git(root, &["ls-tree", "-r", "-z", "--format=%(objectmode) %(path)", "HEAD"]);
    let listed: Vec<_> = listing.split('\0').filter(|line| !line.is_empty()).map(str::to_owned).collect();
    let expected = |(path, entry): (&[u8], &Entry)| {
        format!("{:06o} {}", entry.git_mode(), String::from_utf8_lossy(path))
    };
    let mut expected: Vec<_> = tree.iter().map(expected).collect();
    expected.sort_by(|a, b| a[7..].cmp(&b[7..]));
    assert_eq!(listed, expected);
}

#[test]
fn git_finds_exactly_one_clean_commit() {
    let mut tree = Tree::new();
    let mut put = |path: &str, content: &str| tree.insert(path, Entry::file(content.as_bytes())).unwrap();
    put("a-b", "1\n");
    put("a.txt", "2\n");
    put("a/x", "3\n");
    put("name with blanks/ä 日本.txt", "4\n");
    put("empty", "");
    put(".gitignore", "*.log\n");
    put("ignored.log", "tracked all the same\n");
    put(".gitattributes", "*.dos text eol=crlf\n*.id ident\n");
    put("file.dos", "one\ntwo\r\n");
    put("file.id", "$Id$\n");
    put(".gitmodules", "[submodule \"x\"]\n\tpath = x\n\turl = https://git.invalid/x\n");
    put(&format!("deep/{}/{}", "d".repeat(120), "f".repeat(200)), "5\n");
    tree.insert("run.sh", Entry::File { content: b"#!/bin/sh\n"[..].into(), executable: true }).unwrap();
    tree.insert("link", Entry::Link { target: b"a/x".to_vec() }).unwrap();
    judge(&tree);
}

#[test]
fn an_empty_tree_is_a_commit_too() {
    judge(&Tree::new());
}

#[test]
fn real_projects_become_one_commit() {
    let Some(sdists) = corpus::find("data/minismith/sdist") else { return };
    let mut paths: Vec<_> = std::fs::read_dir(sdists).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in &paths {
        judge(&Tree::from_sdist(path, TreeLimits::default()).unwrap());
    }
    assert_eq!(paths.len(), 35);
}
