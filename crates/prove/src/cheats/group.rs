//! Which tasks a cheat's outcome speaks for.

use std::path::Path;

use grade::{VerifierConfig, vendored};
use ident::{Digest, to_canonical_json};
use record::Limits;
use serde_json::{Value, json};

/// No settings of a verifier come near this size.
const CONFIG_LIMIT: u64 = 256 << 20;
/// What is read of the verifier's settings about one task alone.
const OF_ONE_TASK: [&str; 3] = ["instance_id", "fail_to_pass", "pass_to_pass"];

/// What makes tasks equal in the eyes of a cheat, beside the program of their verifier.
#[derive(Debug, Clone, Copy)]
pub struct Grouping<'a> {
    /// The canonical repository.
    pub repo: &'a str,
    /// Identity of the image that the environment starts from. Its name would not do: what it stands for may change.
    pub base_digest: &'a str,
    /// Digest of the verifier as a whole.
    pub verifier_digest: Digest,
    /// The limits of trials.
    pub limits: &'a Limits,
    /// The engine.
    pub engine: &'a str,
}

/// The group of the task whose tests lie at `tests`: the digest of its verifier program with the repository's settings, of its
/// repository, the image that it starts from, the limits and the engine.
///
/// The program of Seatrial's own verifier is its vendored files and `config.json` without what is about one task: the id, the
/// lists of tests and the digest of the archive of tests. Of any other verifier nothing is known to be about one task, so that
/// the whole of `tests/` counts.
pub fn cheat_group(tests: &Path, of: Grouping<'_>) -> Option<Digest> {
    let program = own_program(tests).unwrap_or_else(|| Value::from(of.verifier_digest.to_string()));
    let identity = json!({
        "schema": "seatrial.cheat-group/2",
        "verifier": program,
        "repo": of.repo,
        "base_digest": of.base_digest,
        "limits": of.limits,
        "engine": of.engine,
    });
    to_canonical_json(&identity).ok().map(Digest::of)
}

/// Files and settings of a verifier that is Seatrial's own as it stands in this program; nothing where anything else is there.
fn own_program(tests: &Path) -> Option<Value> {
    let mut files = Vec::new();
    for entry in fs_err::read_dir(tests).ok()? {
        let entry = entry.ok()?;
        let name = entry.file_name().into_string().ok()?;
        match vendored::FILES.iter().find(|file| file.name == name) {
            Some(file) => {
                let found = artifact::read_bounded(&entry.path(), file.text.len() as u64).ok()?;
                if found != file.text.as_bytes() {
                    return None;
                }
                files.push(file.sha256());
            }
            None if name == "config.json" || name == task::materialize::SURFACE_ARCHIVE => {}
            None => return None,
        }
    }
    if files.len() != vendored::FILES.len() {
        return None;
    }
    files.sort();
    let text = artifact::read_bounded(&tests.join("config.json"), CONFIG_LIMIT).ok()?;
    let config = VerifierConfig::from_json(std::str::from_utf8(&text).ok()?).ok()?;
    let mut settings = serde_json::to_value(config).ok()?;
    let object = settings.as_object_mut()?;
    for key in OF_ONE_TASK {
        object.remove(key);
    }
    object.get_mut("surface")?.as_object_mut()?.remove("sha256");
    Some(json!({ "files": files, "settings": settings }))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    type Files = Vec<(&'static str, String)>;

    fn config(id: &str, test: &str, command: &str) -> String {
        let config = VerifierConfig {
            schema: grade::CONFIG_SCHEMA.into(),
            instance_id: id.into(),
            workdir: "/testbed".into(),
            framework: grade::Framework::Pytest,
            command: vec![command.into()],
            env: std::collections::BTreeMap::new(),
            python: None,
            timeout_sec: 60,
            p2p_only: false,
            fail_to_pass: vec![test.into()],
            pass_to_pass: vec![],
            surface: grade::Surface { sha256: Some("0".repeat(64)), ..grade::Surface::pytest() },
        };
        config.to_json().unwrap()
    }

    fn own(config: String) -> Files {
        let mut files: Vec<_> =
            vendored::FILES.iter().map(|file| (file.name, file.text.to_owned())).collect();
        files.push(("config.json", config));
        files.push(("surface.tar", "anything".into()));
        files
    }

    fn group(tests: &[(&str, String)], repo: &str, verifier_sec: u64) -> Digest {
        group_on("sha256:x", tests, repo, verifier_sec)
    }

    fn group_on(base_digest: &str, tests: &[(&str, String)], repo: &str, verifier_sec: u64) -> Digest {
        let directory = tempfile::tempdir().unwrap();
        for (file, text) in tests {
            fs::write(directory.path().join(file), text).unwrap();
        }
        let limits = Limits { verifier_sec, memory_mb: None, millicpus: None };
        let verifier_digest = task::tree_digest_of(directory.path()).unwrap();
        let of = Grouping { repo, base_digest, verifier_digest, limits: &limits, engine: "native" };
        cheat_group(directory.path(), of).unwrap()
    }

    #[test]
    fn what_is_about_one_task_does_not_part_tasks_of_one_verifier() {
        let one = group(&own(config("a", "t::one", "pytest")), "o/r", 60);
        assert_eq!(one, group(&own(config("b", "t::two", "pytest")), "o/r", 60));
        let others = [
            group(&own(config("a", "t::one", "py.test")), "o/r", 60),
            group(&own(config("a", "t::one", "pytest")), "o/other", 60),
            group(&own(config("a", "t::one", "pytest")), "o/r", 90),
            group_on("sha256:y", &own(config("a", "t::one", "pytest")), "o/r", 60),
        ];
        for other in others {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn a_verifier_that_is_not_quite_seatrials_own_counts_whole() {
        let with = |change: fn(&mut Files), id: &str| {
            let mut files = own(config(id, "t::one", "pytest"));
            change(&mut files);
            group(&files, "o/r", 60)
        };
        let changes: [fn(&mut Files); 3] = [
            |files| files[0].1.push('#'),
            |files| files.push(("extra.py", String::new())),
            |files| {
                files.remove(0);
            },
        ];
        for change in changes {
            assert_ne!(with(change, "a"), with(change, "b"));
        }
        assert_eq!(with(|_| {}, "a"), with(|_| {}, "b"));
    }
}
