//! Repositories that git itself made.

use std::path::Path;
use std::process::Command;

use super::{Allowed, gather, judge};

/// Whether git is there; says what is skipped when it is not.
fn has_git() -> bool {
    let there = Command::new("git").arg("--version").output().is_ok();
    if !there {
        eprintln!("skipped: no git on PATH");
    }
    there
}

/// A working directory.
struct Workspace(tempfile::TempDir);

impl Workspace {
    /// One commit of two files, one of them in a folder.
    fn new() -> Self {
        let own = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(own.path().join("src")).unwrap();
        own.write("src/till.py", "def open():\n    return False\n");
        own.write("README", &"a till\n".repeat(200));
        own.git(&["init", "-q", "-b", "main"]);
        own.commit("one");
        own
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    fn git(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(self.path());
        for (key, value) in [("NAME", "a"), ("EMAIL", "a@b.invalid"), ("DATE", "1000000000 +0000")] {
            command.env(format!("GIT_AUTHOR_{key}"), value).env(format!("GIT_COMMITTER_{key}"), value);
        }
        let settings = [("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1")];
        let output = command.envs(settings).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn commit(&self, message: &str) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// A later commit, after which the first one is checked out again.
    fn future(&self) -> String {
        self.write("src/till.py", "def open():\n    return True\n");
        let later = self.commit("two");
        self.git(&["reset", "-q", "--hard", "HEAD~1"]);
        later
    }

    fn traces(&self, allowed: Allowed) -> Vec<String> {
        let mut builder = tar::Builder::new(Vec::new());
        builder.follow_symlinks(false);
        builder.append_dir_all(".", self.path()).unwrap();
        let gathered = gather(&builder.into_inner().unwrap()[..], "").unwrap();
        judge(&gathered, allowed).iter().map(ToString::to_string).collect()
    }

    /// Fails unless some trace holds each of the words, in either way of judging.
    #[track_caller]
    fn is_refused(&self, words: &[&str]) {
        for allowed in [Allowed::OneCommit, Allowed::Ancestors] {
            let traces = self.traces(allowed);
            for word in words {
                assert!(
                    traces.iter().any(|trace| trace.contains(word)),
                    "{word} under {allowed:?}: {traces:#?}"
                );
            }
        }
    }

    #[track_caller]
    fn is_clean(&self, allowed: Allowed) {
        assert_eq!(self.traces(allowed), [""; 0]);
    }

    /// Forgets every name of other commits, but none of the objects.
    fn forget(&self) {
        let _ = std::fs::remove_dir_all(self.path().join(".git/logs"));
        let _ = std::fs::remove_file(self.path().join(".git/ORIG_HEAD"));
    }
}

#[test]
fn one_commit_is_clean_in_every_form() {
    if !has_git() {
        return;
    }
    let workspace = Workspace::new();
    workspace.is_clean(Allowed::OneCommit);
    let head = workspace.git(&["rev-parse", "HEAD"]);
    workspace.git(&["gc", "-q"]);
    assert!(workspace.path().join(".git/packed-refs").is_file());
    workspace.is_clean(Allowed::OneCommit);
    std::fs::remove_file(workspace.path().join(".git/packed-refs")).unwrap();
    workspace.is_refused(&["no commit is checked out"]);
    workspace.write(".git/HEAD", &head);
    workspace.is_clean(Allowed::OneCommit);
    // What is not a repository has no history.
    std::fs::remove_dir_all(workspace.path().join(".git")).unwrap();
    workspace.is_clean(Allowed::OneCommit);
}

#[test]
fn later_commits_are_found_by_name_and_without_any() {
    if !has_git() {
        return;
    }
    // By the reflog and ORIG_HEAD, which reset leaves.
    let workspace = Workspace::new();
    let later = workspace.future();
    workspace.is_refused(&[
        &format!("the reflog `logs/HEAD` names {later}"),
        &format!("the head `ORIG_HEAD` names {later}"),
        &format!("commit {later} is stored"),
    ]);
    // Loose, and not named by anything.
    workspace.forget();
    workspace.is_refused(&[&format!("commit {later} is stored"), "tree ", "blob "]);
    // Packed, with differences, and still not named by anything.
    let names = workspace.git(&["rev-list", "--objects", "--no-object-names", &later]);
    let list = workspace.path().join("list");
    std::fs::write(&list, names + "\n").unwrap();
    let packed = Command::new("sh")
        .args([
            "-c",
            "git pack-objects -q --depth=50 .git/objects/pack/pack < list && git prune-packed -q && rm list",
        ])
        .current_dir(workspace.path())
        .output()
        .unwrap();
    assert!(packed.status.success());
    workspace.is_refused(&[&format!("commit {later} is stored"), "blob "]);
    // A pack without its index is read all the same.
    for entry in std::fs::read_dir(workspace.path().join(".git/objects/pack")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension != "pack") {
            std::fs::remove_file(path).unwrap();
        }
    }
    workspace.is_refused(&[&format!("commit {later} is stored")]);
}

#[test]
fn names_of_every_kind_are_found() {
    if !has_git() {
        return;
    }
    for (arguments, word) in [
        (&["tag", "v2", "LATER"][..], "the reference `refs/tags/v2` names LATER"),
        (&["tag", "-m", "x", "v2", "LATER"], "the reference `refs/tags/v2` names "),
        (&["branch", "dev", "LATER"], "the reference `refs/heads/dev` names LATER"),
        (&["update-ref", "refs/remotes/origin/main", "LATER"], "`refs/remotes/origin/main` names LATER"),
        (&["update-ref", "refs/stash", "LATER"], "the reference `refs/stash` names LATER"),
        (&["update-ref", "refs/notes/x", "LATER"], "the reference `refs/notes/x` names LATER"),
    ] {
        let workspace = Workspace::new();
        let later = workspace.future();
        workspace.forget();
        let arguments: Vec<_> = arguments.iter().map(|part| part.replace("LATER", &later)).collect();
        workspace.git(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let word = word.replace("LATER", &later);
        workspace.is_refused(&[&word]);
        workspace.git(&["pack-refs", "--all"]);
        workspace.is_refused(&[&word]);
    }
    // A stash is a commit beside the branch.
    let workspace = Workspace::new();
    workspace.write("README", "changed\n");
    workspace.git(&["stash", "-q"]);
    workspace.is_refused(&["the reference `refs/stash` names ", "the reflog `logs/refs/stash` names "]);
}

#[test]
fn other_repositories_are_found() {
    if !has_git() {
        return;
    }
    let other = Workspace::new();
    let workspace = Workspace::new();
    workspace.git(&["worktree", "add", "-q", "--detach", "beside"]);
    workspace
        .is_refused(&["`worktrees/beside/", "beside/.git: it leads to a repository elsewhere (`gitdir: "]);

    let workspace = Workspace::new();
    let url = other.path().display().to_string();
    workspace.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, "part"]);
    workspace.is_refused(&["`modules/part/", "part/.git: it leads to a repository elsewhere"]);

    let workspace = Workspace::new();
    let objects = other.path().join(".git/objects");
    std::fs::create_dir_all(workspace.path().join(".git/objects/info")).unwrap();
    workspace.write(".git/objects/info/alternates", &objects.display().to_string());
    workspace.is_refused(&["`objects/info/alternates`: objects are borrowed"]);

    let workspace = Workspace::new();
    workspace.git(&["clone", "-q", &url, "nested"]);
    workspace.is_refused(&["nested/.git: a repository within the working directory"]);

    // A repository without a working directory is found, unless its files are part of the commit.
    let workspace = Workspace::new();
    workspace.git(&["clone", "-q", "--bare", &url, "bare"]);
    workspace.is_refused(&["bare: a repository without a working directory"]);
    workspace.commit("test data");
    workspace.is_clean(Allowed::Ancestors);

    let workspace = Workspace::new();
    std::fs::rename(workspace.path().join(".git"), workspace.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("elsewhere", workspace.path().join(".git")).unwrap();
    workspace.is_refused(&[".git: it leads to a repository elsewhere (`elsewhere`)"]);
}

#[test]
fn past_history_is_told_from_later_history() {
    if !has_git() {
        return;
    }
    let workspace = Workspace::new();
    let first = workspace.git(&["rev-parse", "HEAD"]);
    for number in 0..20 {
        workspace.write("README", &format!("{}{number}\n", "a till\n".repeat(200)));
        workspace.commit("more");
    }
    workspace.git(&["tag", "-m", "first", "v1", &first]);
    workspace.git(&["remote", "add", "origin", "https://example.invalid/till.git"]);
    workspace.git(&["gc", "-q", "--aggressive"]);
    workspace.is_clean(Allowed::Ancestors);
    let strict = workspace.traces(Allowed::OneCommit);
    for word in
        ["is not the first", "the remote `origin` is known", "`refs/tags/v1`", "more such objects are stored"]
    {
        assert!(strict.iter().any(|trace| trace.contains(word)), "{word}: {strict:#?}");
    }
    // The head of an older commit makes the same objects later ones, whatever their dates are.
    workspace.git(&["checkout", "-q", "--detach", &first]);
    workspace
        .is_refused(&["the reference `refs/heads/main` names ", "is stored, and the checked-out commit"]);
}

#[test]
fn cut_history_and_damage_are_found() {
    if !has_git() {
        return;
    }
    let other = Workspace::new();
    other.write("README", "two\n");
    other.commit("two");
    let workspace = Workspace(tempfile::tempdir().unwrap());
    let url = format!("file://{}", other.path().display());
    workspace.git(&["clone", "-q", "--depth=1", &url, "."]);
    workspace.is_clean(Allowed::Ancestors);
    let strict = workspace.traces(Allowed::OneCommit);
    assert!(strict.iter().any(|trace| trace.contains("`shallow`: the history was cut off")), "{strict:#?}");

    for pack in std::fs::read_dir(workspace.path().join(".git/objects/pack")).unwrap() {
        let path = pack.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "pack") {
            let mut permissions = std::fs::metadata(&path).unwrap().permissions();
            #[expect(clippy::permissions_set_readonly_false, reason = "git makes packs read-only")]
            permissions.set_readonly(false);
            std::fs::set_permissions(&path, permissions).unwrap();
            let mut bytes = std::fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x55;
            std::fs::write(&path, bytes).unwrap();
        }
    }
    workspace.is_refused(&[".pack` cannot be read: it is damaged"]);

    // An object under another object's name is damage as well.
    let workspace = Workspace::new();
    let fake = workspace.path().join(".git/objects/00");
    std::fs::create_dir_all(&fake).unwrap();
    let head = workspace.git(&["rev-parse", "HEAD"]);
    std::fs::copy(
        workspace.path().join(format!(".git/objects/{}/{}", &head[..2], &head[2..])),
        fake.join("0".repeat(38)),
    )
    .unwrap();
    workspace.is_refused(&["cannot be read: it is damaged"]);
    let strict = Workspace::new();
    strict.write(".git/lost", "x");
    assert_eq!(
        strict.traces(Allowed::OneCommit),
        [".git: `lost` is no file that a repository of one commit has"]
    );
}

/// The recorded repository of a public report, where the corpus is at hand.
#[test]
fn the_reported_leak_is_named_in_all_its_ways() {
    let Some(folder) = corpus::find("cases") else { return };
    let archive = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).find_map(|path| {
        path.file_name()?.to_str()?.ends_with("git-future-commit-leak").then(|| path.join("repo.tar"))
    });
    let Some(archive) = archive.filter(|archive| archive.is_file()) else {
        eprintln!("skipped: the corpus has no repository with a leak");
        return;
    };
    let gathered = gather(std::fs::File::open(archive).unwrap(), "").unwrap();
    let traces: Vec<String> = judge(&gathered, Allowed::Ancestors).iter().map(ToString::to_string).collect();
    for word in ["`refs/tags/", "`refs/remotes/", "the reflog", "commit "] {
        assert!(traces.iter().any(|trace| trace.contains(word)), "{word}: {traces:#?}");
    }
}
