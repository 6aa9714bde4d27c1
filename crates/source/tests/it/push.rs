//! Pushing to a hub on this machine, the one that `scripts/consumers` holds against the hub's own client.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use source::{Environment, Push, Pushed, Remote, RemoteError, RemoteSettings, RetryRules};

const TOKEN: &str = "hf_a-token-for-tests";

/// The program of the hub, ended with the test.
struct Hub {
    child: Child,
    address: String,
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Hub {
    fn start(options: &[&str]) -> Self {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/consumers/hub_server.py");
        let mut child = Command::new("python3")
            .arg(program)
            .args(options)
            .env("HUB_TOKEN", TOKEN)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Self { child, address: address.trim().to_owned() }
    }

    fn remote(&self, base: &Path, token: Option<&str>) -> Remote {
        let mut variables = BTreeMap::from([("HF_ENDPOINT".to_owned(), self.address.clone())]);
        variables.extend(token.map(|token| ("HF_TOKEN".to_owned(), token.to_owned())));
        let environment = Environment { variables, ..Environment::default() };
        let mut settings = RemoteSettings::of_environment(&environment, base.join("downloads")).unwrap();
        settings.retry = RetryRules { first_pause: Duration::from_millis(1), ..RetryRules::default() };
        Remote::new(settings)
    }

    /// What the hub says of itself.
    async fn counts(&self) -> Value {
        let url = format!("{}/counts", self.address);
        serde_json::from_slice(&reqwest::get(url).await.unwrap().bytes().await.unwrap()).unwrap()
    }
}

/// Files of a set: small, empty, large, and twice the same large content.
struct Files {
    directory: tempfile::TempDir,
    files: BTreeMap<String, PathBuf>,
}

impl Files {
    fn new() -> Self {
        let mut files = Self { directory: tempfile::tempdir().unwrap(), files: BTreeMap::new() };
        let large: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
        files.write("README.md", b"---\nlicense: mit\n---\n");
        files.write("tasks/a/empty", b"");
        files.write("tasks/a/caf\u{e9} #1.txt", "na\u{ef}ve\n".as_bytes());
        files.write("tasks/a/large.tar", &large);
        files.write("tasks/b/large.tar", &large);
        files.write("tasks/b/other.tar", &large[..70_000]);
        for n in 0..300 {
            files.write(&format!("tasks/c/{n}"), format!("{n}\n").as_bytes());
        }
        files
    }

    fn write(&mut self, name: &str, content: &[u8]) {
        let path = self.directory.path().join("set").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        self.files.insert(name.to_owned(), path);
    }

    async fn push(&self, remote: &Remote, repo: &str) -> Result<Pushed, RemoteError> {
        remote.push(Push { repo, branch: "main", public: false, message: "A set", files: &self.files }).await
    }

    /// Fetches the repository again and holds it against what is here.
    async fn assert_there(&self, remote: &Remote, repo: &str, commit: &str) {
        let tree = remote.tree(repo, "main").await.unwrap();
        assert_eq!(tree.commit, commit);
        let into = tempfile::tempdir().unwrap();
        let paths: Vec<String> = self.files.keys().cloned().collect();
        tree.fetch(&paths, into.path()).await.unwrap();
        for (name, path) in &self.files {
            assert_eq!(
                std::fs::read(into.path().join(name)).unwrap(),
                std::fs::read(path).unwrap(),
                "{name}"
            );
        }
        let error = tree.fetch(&["../x".to_owned()], into.path()).await.unwrap_err();
        assert!(matches!(error, RemoteError::Path { .. }), "{error}");
        assert!(tree.fetch(&["nothing".to_owned()], into.path()).await.is_err());
    }
}

#[tokio::test]
async fn a_set_arrives_whole_in_one_commit_and_only_changes_follow() {
    let (hub, mut files) = (Hub::start(&[]), Files::new());
    let remote = hub.remote(files.directory.path(), Some(TOKEN));
    let pushed = files.push(&remote, "lab/set").await.unwrap();
    assert_eq!((pushed.changed, pushed.removed, pushed.stored), (306, 0, 2), "equal content goes once");
    files.assert_there(&remote, "lab/set", &pushed.commit).await;
    let counts = hub.counts().await;
    assert_eq!((&counts["commits"], &counts["private"]["lab/set"]), (&Value::from(1), &Value::from(true)));

    let again = files.push(&remote, "lab/set").await.unwrap();
    assert_eq!((again.commit, again.changed, again.removed), (pushed.commit, 0, 0));
    assert_eq!(hub.counts().await["commits"], 1);

    files.write("README.md", b"other\n");
    files.files.remove("tasks/c/7");
    files.write("tasks/b/other.tar", b"short\n");
    let changed = files.push(&remote, "lab/set").await.unwrap();
    assert_eq!((changed.changed, changed.removed, changed.stored), (2, 1, 0));
    files.assert_there(&remote, "lab/set", &changed.commit).await;
    assert!(
        remote
            .tree("lab/set", "main")
            .await
            .unwrap()
            .fetch(&["tasks/c/7".into()], Path::new("/"))
            .await
            .is_err()
    );

    // What the store has is not sent again, whichever repository it was for: a push that was cut goes on so.
    let other = files.push(&remote, "lab/other").await.unwrap();
    assert_eq!((other.changed, other.stored), (305, 0));
}

#[tokio::test]
async fn large_files_go_in_parts_and_a_busy_hub_is_asked_again() {
    let (hub, files) = (Hub::start(&["--parts", "30000", "--fail", "2"]), Files::new());
    let remote = hub.remote(files.directory.path(), Some(TOKEN));
    let pushed = files.push(&remote, "lab/set").await.unwrap();
    assert_eq!(pushed.stored, 2);
    files.assert_there(&remote, "lab/set", &pushed.commit).await;
    assert_eq!(hub.counts().await["commits"], 1);
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_is_not_made_twice() {
    let (hub, files) = (Hub::start(&["--lose-commit"]), Files::new());
    let remote = hub.remote(files.directory.path(), Some(TOKEN));
    let pushed = files.push(&remote, "lab/set").await.unwrap();
    files.assert_there(&remote, "lab/set", &pushed.commit).await;
    assert_eq!(hub.counts().await["commits"], 1);
}

#[tokio::test]
async fn nothing_is_sent_without_a_token_and_a_token_is_never_shown() {
    let (hub, files) = (Hub::start(&[]), Files::new());
    let error = files.push(&hub.remote(files.directory.path(), None), "lab/set").await.unwrap_err();
    assert!(matches!(error, RemoteError::NoToken { name: "HF_TOKEN", .. }), "{error}");
    let wrong = hub.remote(files.directory.path(), Some("hf_another"));
    let error = files.push(&wrong, "lab/set").await.unwrap_err();
    assert!(matches!(error, RemoteError::Denied { status: 401, .. }), "{error}");
    let shown = format!("{error} {error:?} {wrong:?}");
    assert!(shown.contains("may not write") && !shown.contains("hf_another"), "{shown}");
    assert_eq!(hub.counts().await["private"], Value::Object(serde_json::Map::default()));
}
