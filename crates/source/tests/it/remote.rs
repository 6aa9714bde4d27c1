//! Sources on public servers: pinned, fetched, resumed, verified, refused.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ident::Digest;
use record::SourceRole;
use source::{
    DriftCause, Environment, Network, PullMode, PullRequest, Pulled, Reading, Records, Remote, RemoteError,
    RemoteSettings, RepoSpec, RetryRules, SeatrialLock, SourceError, SourcePlace, SourceSpec, pull,
};

use crate::hub::{COMMIT, Hub, NEXT, git_id};
use crate::wire::{Reply, Request, Server};

const SECRET: &str = "hf_verysecrettoken";

/// A place to work in: its cache, and who is asked.
struct Bench {
    base: tempfile::TempDir,
    variables: Vec<(String, String)>,
    offline: bool,
}

impl Bench {
    fn new() -> Self {
        Self { base: tempfile::tempdir().unwrap(), variables: Vec::new(), offline: false }
    }

    fn of_hub(hub: &Hub) -> Self {
        Self::new().with("HF_ENDPOINT", &hub.server.address)
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    fn downloads(&self) -> std::path::PathBuf {
        self.base.path().join("downloads")
    }

    async fn pull_as(
        &self,
        spec: &SourceSpec,
        lock: Option<&SeatrialLock>,
        mode: PullMode,
        network: Network,
    ) -> Result<Pulled, SourceError> {
        let variables = self.variables.iter().cloned().collect();
        let environment = Environment { variables, ..Environment::default() };
        let mut settings = RemoteSettings::of_environment(&environment, self.downloads()).unwrap();
        settings.retry = RetryRules {
            attempts: 3,
            first_pause: Duration::from_millis(1),
            longest_pause: Duration::from_secs(2),
        };
        if self.offline {
            settings.offline = Some("--offline");
        }
        pull(PullRequest {
            specs: std::slice::from_ref(spec),
            base: self.base.path(),
            lock,
            mode,
            reading: Reading::default(),
            remote: &Remote::new(settings),
            network,
            index: None,
        })
        .await
    }

    async fn pull(&self, spec: &SourceSpec) -> Result<Pulled, SourceError> {
        self.pull_as(spec, None, PullMode::Lock, Network::Ask).await
    }

    async fn pull_locked(&self, spec: &SourceSpec, lock: &SeatrialLock) -> Result<Pulled, SourceError> {
        self.pull_as(spec, Some(lock), PullMode::Locked, Network::Ask).await
    }

    async fn fails(&self, spec: &SourceSpec) -> String {
        self.pull(spec).await.expect_err("the source was pulled").to_string()
    }
}

fn at(revision: &str) -> RepoSpec {
    RepoSpec { repo: "o/n".into(), revision: revision.into() }
}

fn ids_at(revision: &str, patterns: &[&str]) -> SourceSpec {
    let patterns = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
    SourceSpec::new("s", SourcePlace::HubFiles { at: at(revision), patterns }, SourceRole::Ids)
}

fn ids() -> SourceSpec {
    ids_at("main", &["data/*.txt"])
}

fn rows(pulled: &Pulled) -> Vec<String> {
    match &pulled.records["s"] {
        Records::Ids(ids) => ids.rows.iter().map(ToString::to_string).collect(),
        _ => panic!("another role came back"),
    }
}

fn cause(result: Result<Pulled, SourceError>) -> DriftCause {
    match result {
        Err(SourceError::Drift(drift)) => drift.cause,
        Err(other) => panic!("another refusal: {other}"),
        Ok(_) => panic!("the drift was not seen"),
    }
}

const LARGE: &[u8] = b"a.1\na.2\n";
const SMALL: &[u8] = b"b.1\n";

fn hub() -> Hub {
    Hub::start(&[("README.md", b"x", false), ("data/1.txt", LARGE, true), ("data/2.txt", SMALL, false)])
}

#[tokio::test]
async fn a_dataset_is_pinned_to_a_commit_and_every_file_to_its_content() {
    let hub = hub();
    hub.change(|content| content.page = 2);
    let bench = Bench::of_hub(&hub);
    let pulled = bench.pull(&ids()).await.unwrap();
    assert_eq!(rows(&pulled), ["a.1", "a.2", "b.1"]);
    let locked = &pulled.lock.sources["s"];
    assert_eq!(locked.origin, "hf-dataset o/n@main data/*.txt");
    assert_eq!((locked.revision.as_deref(), locked.rows, locked.left_out), (Some(COMMIT), 3, 0));
    let files: Vec<_> =
        locked.files.iter().map(|(path, file)| (path.as_str(), file.sha256, file.size, file.rows)).collect();
    assert_eq!(files, [("data/1.txt", Digest::of(LARGE), 8, 2), ("data/2.txt", Digest::of(SMALL), 4, 1)]);
    // The revision, two pages of the tree, two files; the large one comes from the other host.
    assert_eq!(hub.server.targets().len(), 5, "{:?}", hub.server.targets());
    assert_eq!(hub.storage.targets().len(), 1);

    // Once more: both files are here, only the revision and the tree are asked for.
    hub.behave();
    let again = bench.pull_locked(&ids(), &pulled.lock).await.unwrap();
    assert_eq!((again.lock, again.changes), (pulled.lock.clone(), vec![]));
    assert!(hub.server.targets().iter().all(|target| target.starts_with("/api/")));

    // What the lock knows needs no network at all, even where the hub is gone.
    hub.server.answer(|_, _| Reply::new(500, ""));
    let kept = bench.pull_as(&ids(), Some(&pulled.lock), PullMode::Locked, Network::Missing).await.unwrap();
    assert_eq!(rows(&kept), rows(&pulled));
    assert_eq!(hub.server.targets(), [""; 0]);
    // A deleted cache is filled from the locked commit, though the branch has moved.
    fs::remove_dir_all(bench.downloads()).unwrap();
    hub.behave();
    let refilled =
        bench.pull_as(&ids(), Some(&pulled.lock), PullMode::Locked, Network::Missing).await.unwrap();
    assert_eq!(refilled.lock, pulled.lock);
    assert!(hub.server.targets().iter().all(|target| target.contains(&format!("/resolve/{COMMIT}/"))));
}

#[tokio::test]
async fn what_has_changed_is_refused_by_name_before_it_is_fetched() {
    let hub = hub();
    let bench = Bench::of_hub(&hub);
    let lock = bench.pull(&ids()).await.unwrap().lock;

    hub.change(|content| content.commit = NEXT.into());
    for mode in [PullMode::Lock, PullMode::Locked] {
        let moved = cause(bench.pull_as(&ids(), Some(&lock), mode, Network::Ask).await);
        assert_eq!(moved, DriftCause::Revision { locked: Some(COMMIT.into()), found: Some(NEXT.into()) });
    }
    let accepted = bench.pull_as(&ids(), Some(&lock), PullMode::Update, Network::Ask).await.unwrap();
    assert_eq!(accepted.lock.sources["s"].revision.as_deref(), Some(NEXT));
    assert_eq!(
        accepted.changes.iter().map(|change| change.what.as_str()).collect::<Vec<_>>(),
        ["source s: revision"]
    );

    // Other content under the same commit: a history that was rewritten.
    hub.change(|content| {
        content.commit = COMMIT.into();
        content.files.insert("data/1.txt".into(), (b"a.1\na.3\n".to_vec(), true));
    });
    hub.behave();
    let changed = cause(bench.pull_locked(&ids(), &lock).await);
    assert!(matches!(&changed, DriftCause::Files(changes) if changes[0].what == "data/1.txt"), "{changed:?}");
    assert!(hub.server.targets().iter().all(|target| target.starts_with("/api/")), "it was fetched");
    hub.change(|content| {
        content.files.insert("data/1.txt".into(), (LARGE.to_vec(), true));
        content.files.insert("data/2.txt".into(), (b"b.2\n".to_vec(), false));
    });
    let changed = cause(bench.pull_locked(&ids(), &lock).await);
    assert!(matches!(&changed, DriftCause::Files(changes) if changes[0].what == "data/2.txt"), "{changed:?}");
    hub.change(|content| {
        content.files.remove("data/2.txt");
        content.files.insert("data/3.txt".into(), (b"c.1\n".to_vec(), false));
    });
    let changed = cause(bench.pull_locked(&ids(), &lock).await);
    assert!(matches!(&changed, DriftCause::Files(changes) if changes.len() == 2), "{changed:?}");

    let elsewhere = ids_at("dev", &["data/*.txt"]);
    assert!(matches!(cause(bench.pull_locked(&elsewhere, &lock).await), DriftCause::Origin { .. }));
    let unknown = SeatrialLock::default();
    assert_eq!(cause(bench.pull_locked(&ids(), &unknown).await), DriftCause::NotLocked);
}

#[tokio::test]
async fn the_number_of_rows_is_the_recipes() {
    let hub = hub();
    let bench = Bench::of_hub(&hub);
    let mut spec = ids();
    spec.expect_rows = Some(3);
    let lock = bench.pull(&spec).await.unwrap().lock;
    spec.expect_rows = Some(4);
    for lock in [None, Some(&lock)] {
        let refused = bench.pull_as(&spec, lock, PullMode::Lock, Network::Ask).await.unwrap_err();
        assert!(matches!(refused, SourceError::RowCount { expected: 4, found: 3, left_out: 0, .. }));
    }
}

#[tokio::test]
async fn cut_transfers_go_on_where_they_stopped() {
    let content: Vec<u8> = (0..4000).flat_map(|number| format!("task.{number}\n").into_bytes()).collect();
    let hub = Hub::start(&[("ids.txt", &content, true)]);
    let bench = Bench::of_hub(&hub);
    let spec = ids_at(COMMIT, &["ids.txt"]);
    let body = content.clone();
    // Every answer breaks off after 10,000 bytes of its own.
    hub.storage.answer(move |request, _| {
        let reply = Reply::file(request, &body);
        let after = reply.body.len().min(10_000);
        reply.cut(after)
    });
    let pulled = bench.pull(&spec).await.unwrap();
    assert_eq!(pulled.lock.sources["s"].files["ids.txt"].sha256, Digest::of(&content));
    let ranges: Vec<_> =
        hub.storage.seen().into_iter().map(|request| request.headers.get("range").cloned()).collect();
    assert_eq!(ranges.len(), content.len().div_ceil(10_000), "{ranges:?}");
    assert_eq!((&ranges[0], ranges[1].as_deref()), (&None, Some("bytes=10000-")));
}

#[tokio::test]
async fn another_run_goes_on_with_what_came() {
    let content: Vec<u8> = (0..4000).flat_map(|number| format!("task.{number}\n").into_bytes()).collect();
    let hub = Hub::start(&[("ids.txt", &content, true)]);
    let bench = Bench::of_hub(&hub);
    let spec = ids_at(COMMIT, &["ids.txt"]);
    let body = content.clone();
    hub.storage.answer(move |_, before| match before {
        0 => Reply::new(200, body.clone()).cut(20_000),
        _ => Reply::new(503, ""),
    });
    let message = bench.fails(&spec).await;
    assert!(message.contains("could not be fetched in") && message.contains("503"), "{message}");
    let body = content.clone();
    hub.storage.answer(move |request, _| Reply::file(request, &body));
    assert_eq!(rows(&bench.pull(&spec).await.unwrap()).len(), 4000);
    assert_eq!(hub.storage.seen()[0].headers["range"], "bytes=20000-");
    // A server without ranges sends all of it again, and one that answers another range is not believed.
    for strange in [false, true] {
        fs::remove_dir_all(bench.downloads()).unwrap();
        let body = content.clone();
        hub.storage.answer(move |_, before| match before {
            0 => Reply::new(200, body.clone()).cut(20_000),
            1 if strange => Reply::new(206, &body[7..]).with("content-range", "bytes 7-8/9"),
            _ => Reply::new(200, body.clone()),
        });
        assert_eq!(rows(&bench.pull(&spec).await.unwrap()).len(), 4000);
    }
    // A part that does not fit what follows is thrown away, and the file begins anew.
    fs::remove_dir_all(bench.downloads()).unwrap();
    let body = content.clone();
    hub.storage.answer(move |request, before| match before {
        0 => Reply::new(200, vec![b'x'; body.len()]).cut(20_000),
        _ => Reply::file(request, &body),
    });
    assert_eq!(rows(&bench.pull(&spec).await.unwrap()).len(), 4000);
}

#[tokio::test]
async fn wrong_content_is_refused_and_not_kept() {
    let hub = hub();
    let bench = Bench::of_hub(&hub);
    let spec = ids_at(COMMIT, &["data/1.txt"]);
    for (body, expected) in
        [(&b"a.1\na.X\n"[..], "its sha256 is"), (b"a.1\na.2\nand more", "its size is more than 8 bytes")]
    {
        hub.storage.answer(move |_, _| Reply::new(200, body));
        let message = bench.fails(&spec).await;
        assert!(message.contains("`data/1.txt` of dataset `o/n`") && message.contains(expected), "{message}");
        assert!(!bench.downloads().join(Digest::of(LARGE).hex()).exists());
    }
    // Too little is a transfer that was cut, as far as anybody can tell.
    hub.storage.answer(|_, _| Reply::new(200, "a.1\n"));
    assert!(bench.fails(&spec).await.contains("in 3 attempts: the answer broke off after 4 of 8 bytes"));
    assert_eq!(hub.storage.targets().len(), 3);
    let small = ids_at(COMMIT, &["data/2.txt"]);
    let usual = hub.usual();
    hub.server.answer(move |request, before| {
        if request.target.contains("/resolve/") { Reply::new(200, "b.X\n") } else { usual(request, before) }
    });
    let message = bench.fails(&small).await;
    assert!(message.contains("git blob id") && message.contains(&git_id(SMALL)), "{message}");
    // Another commit than the one that was asked for, and a file that is announced as another one.
    for (header, value, expected) in [
        ("x-repo-commit", NEXT, "its commit is 08e109b"),
        ("x-linked-size", "9", "its size is 9"),
        (
            "x-linked-etag",
            "\"0000000000000000000000000000000000000000000000000000000000000000\"",
            "its sha256 is 0000",
        ),
    ] {
        let usual = hub.usual();
        hub.server.answer(move |request, before| match request.target.contains("/resolve/") {
            true => Reply::redirect("/elsewhere").with(header, value),
            false if request.target == "/elsewhere" => Reply::new(200, LARGE),
            false => usual(request, before),
        });
        let message = bench.fails(&spec).await;
        assert!(message.contains(expected), "{header}: {message}");
    }
}

#[tokio::test]
async fn damaged_downloads_are_fetched_again() {
    let hub = hub();
    let bench = Bench::of_hub(&hub);
    let lock = bench.pull(&ids()).await.unwrap().lock;
    for content in [LARGE, SMALL] {
        fs::write(bench.downloads().join(Digest::of(content).hex()), "damaged").unwrap();
    }
    let again = bench.pull_as(&ids(), Some(&lock), PullMode::Locked, Network::Missing).await.unwrap();
    assert_eq!(again.lock, lock);
}

#[tokio::test]
async fn refusals_name_what_to_do() {
    let hub = hub();
    let bench = Bench::of_hub(&hub);
    let with_token = Bench::of_hub(&hub).with("HF_TOKEN", SECRET);
    let refusal = |status: u16, code: &'static str| {
        hub.server.answer(move |_, _| {
            Reply::new(status, "").with("x-error-code", code).with("x-error-message", format!("no: {SECRET}"))
        });
    };
    for (status, code, without, with) in [
        (401, "RepoNotFound", "set HF_TOKEN to a token", "the token in HF_TOKEN is not accepted"),
        (403, "", "set HF_TOKEN to a token", "the token in HF_TOKEN may not read it"),
        (403, "GatedRepo", "its owner asks for consent", "its owner asks for consent"),
        (404, "RepoNotFound", "there is no such repository", "there is no such repository"),
        (404, "RevisionNotFound", "there is no such revision", "there is no such revision"),
        (404, "EntryNotFound", "there is no such file", "there is no such file"),
        (404, "", "does not exist (no: ", "does not exist (no: [token])"),
        (400, "", "answers 400 (no: ", "answers 400 (no: [token])"),
    ] {
        refusal(status, code);
        let message = bench.fails(&ids()).await;
        assert!(message.contains(without), "{status} {code}: {message}");
        refusal(status, code);
        let message = with_token.fails(&ids()).await;
        assert!(message.contains(with), "{status} {code}: {message}");
        assert!(!message.contains(SECRET), "{message}");
        assert_eq!(hub.server.targets().len(), 1, "{status} was tried again");
    }
}

#[tokio::test]
async fn busy_servers_are_waited_for_and_impatient_ones_left_alone() {
    let hub = hub();
    let bench = Bench::of_hub(&hub);
    let now = || {
        jiff::fmt::rfc2822::DateTimePrinter::new()
            .timestamp_to_rfc9110_string(&jiff::Timestamp::now())
            .unwrap()
    };
    let answers: [fn(String) -> Reply; 6] = [
        |_| Reply::new(429, "").with("retry-after", 0),
        |date| Reply::new(429, "").with("retry-after", date),
        |_| Reply::new(429, "").with("ratelimit", "\"api\";r=0;t=0"),
        |_| Reply::new(429, ""),
        |_| Reply::new(503, "").with("retry-after", 0),
        |_| Reply::new(500, ""),
    ];
    for busy in answers {
        fs::remove_dir_all(bench.downloads()).unwrap_or_default();
        let usual = hub.usual();
        hub.server.answer(move |request, before| match before {
            0 => busy(now()),
            _ => usual(request, before),
        });
        assert_eq!(rows(&bench.pull(&ids()).await.unwrap()).len(), 3);
        // Every address was asked twice.
        assert_eq!(hub.server.targets().len(), 8, "{:?}", hub.server.targets());
    }
    hub.server.answer(|_, _| Reply::new(429, "").with("retry-after", 3600));
    let SourceError::Remote { source, .. } = bench.pull(&ids()).await.unwrap_err() else {
        panic!("another refusal");
    };
    let message = source.to_string();
    assert!(matches!(*source, RemoteError::RateLimited { wait: Some(wait), .. } if wait.as_secs() == 3600));
    assert!(message.contains("for 3600 seconds") && message.contains("HF_TOKEN"), "{message}");
    assert_eq!(hub.server.targets().len(), 1);
    hub.server.answer(|_, _| Reply::new(502, ""));
    assert!(bench.fails(&ids()).await.contains("could not be fetched in 3 attempts: it answers 502"));
}

#[tokio::test]
async fn the_token_goes_to_its_server_and_to_no_other() {
    let hub = hub();
    let bench = Bench::of_hub(&hub).with("HF_TOKEN", SECRET).with("GITHUB_TOKEN", "ghp_othersecret");
    let pulled = bench.pull(&ids()).await.unwrap();
    let authorised = format!("Bearer {SECRET}");
    assert!(hub.server.seen().iter().all(|request| request.headers["authorization"] == authorised));
    assert!(hub.storage.seen().iter().all(|request| !request.headers.contains_key("authorization")));
    let lock = pulled.lock.to_text().unwrap();
    assert!(!lock.contains(SECRET) && !lock.contains("127.0.0.1"), "{lock}");

    // Redirects on the same server keep it, and what cannot be reached does not show where the redirect led.
    fs::remove_dir_all(bench.downloads()).unwrap();
    let usual = hub.usual();
    hub.server.answer(move |request, before| match request.target.as_str() {
        target if target.contains("/resolve/") => Reply::redirect("/api/resolve-cache/x"),
        "/api/resolve-cache/x" => Reply::redirect("http://127.0.0.1:1/?X-Amz-Signature=signed"),
        _ => usual(request, before),
    });
    let message = bench.fails(&ids()).await;
    assert!(message.contains("no connection") && !message.contains("signed"), "{message}");
    let kept =
        hub.server.seen().into_iter().find(|request| request.target.ends_with("resolve-cache/x")).unwrap();
    assert_eq!(kept.headers["authorization"], authorised);
}

#[tokio::test]
async fn strange_answers_are_no_answers() {
    let hub = hub();
    let bench = Bench::of_hub(&hub);
    let listing = |entries: &'static str| {
        let usual = hub.usual();
        hub.server.answer(move |request, before| {
            if request.target.contains("/tree/") { Reply::new(200, entries) } else { usual(request, before) }
        });
    };
    for (entries, expected) in [
        ("<html>", "cannot be used"),
        (r#"[{"type": "file", "path": "../../etc/passwd", "oid": "", "size": 1}]"#, "is no plain path"),
        (r#"[{"type": "file", "path": "/etc/passwd", "oid": "", "size": 1}]"#, "is no plain path"),
        (r#"[{"type": "file", "path": "data/1.txt", "oid": "x", "size": 1}]"#, "no content id"),
        (
            r#"[{"type": "file", "path": "a", "oid": "ce013625030ba8dba906f756967f9e9ca394464a", "size": 1},
                {"type": "file", "path": "a", "oid": "ce013625030ba8dba906f756967f9e9ca394464a", "size": 2}]"#,
            "lists \"a\" twice",
        ),
        ("[]", "no file of the repository fits"),
    ] {
        listing(entries);
        let message = bench.fails(&ids()).await;
        assert!(message.contains(expected), "{entries}: {message}");
    }
    hub.server.answer(|_, _| Reply::new(200, r#"{"sha": "main"}"#));
    assert!(bench.fails(&ids()).await.contains("it names no commit"));
    let usual = hub.usual();
    hub.server.answer(move |request, before| {
        let reply = usual(request, before);
        if request.target.contains("/tree/") {
            reply.with("link", "<?recursive=true&expand=false>; rel=next")
        } else {
            reply
        }
    });
    assert!(bench.fails(&ids()).await.contains("its next page is itself"));
    hub.server.answer(|_, _| Reply::redirect("/again"));
    assert!(bench.fails(&ids()).await.contains("redirects more than"));
    hub.server.answer(|_, _| Reply::redirect("file:///etc/passwd"));
    assert!(bench.fails(&ids()).await.contains("redirects to something else than http"));
}

#[tokio::test]
async fn without_network_there_is_what_is_here() {
    let hub = hub();
    let mut bench = Bench::of_hub(&hub);
    bench.offline = true;
    let message = bench.fails(&ids()).await;
    assert!(
        message.contains("--offline forbids the network") && message.contains("the commit of"),
        "{message}"
    );
    bench.offline = false;
    let lock = bench.pull(&ids()).await.unwrap().lock;
    hub.behave();
    bench.offline = true;
    let kept = bench.pull_locked(&ids(), &lock).await.unwrap();
    assert_eq!((rows(&kept).len(), hub.server.targets().len()), (3, 0));
    fs::remove_file(bench.downloads().join(Digest::of(SMALL).hex())).unwrap();
    let message = bench.pull_locked(&ids(), &lock).await.unwrap_err().to_string();
    assert!(
        message.contains("`data/2.txt` of dataset `o/n`") && message.contains("is not here"),
        "{message}"
    );
    assert_eq!(hub.server.targets().len(), 0);
}

/// Fills a cache as the hub's own tools do.
fn hub_cache(home: &Path, commit: &str) {
    let root = home.join("hub/datasets--o--n");
    let data = root.join("snapshots").join(commit).join("data");
    for directory in [&data, &root.join("blobs"), &root.join("refs")] {
        fs::create_dir_all(directory).unwrap();
    }
    fs::write(root.join("refs/main"), commit).unwrap();
    for (path, blob, content) in [("1.txt", Digest::of(LARGE).hex(), LARGE), ("2.txt", git_id(SMALL), SMALL)]
    {
        fs::write(root.join("blobs").join(&blob), content).unwrap();
        std::os::unix::fs::symlink(format!("../../../blobs/{blob}"), data.join(path)).unwrap();
    }
}

#[tokio::test]
async fn the_hubs_own_cache_is_read_and_not_believed() {
    let hub = hub();
    let bench = Bench::of_hub(&hub);
    let home = bench.base.path().join("home");
    hub_cache(&home, COMMIT);
    let bench = bench.with("HF_HOME", home.to_str().unwrap());
    let pulled = bench.pull(&ids()).await.unwrap();
    assert_eq!(rows(&pulled).len(), 3);
    assert!(hub.server.targets().iter().all(|target| target.starts_with("/api/")), "files were fetched");
    // Without network, branch and list of files come from there too.
    let bench = bench.with("HF_HUB_OFFLINE", "1");
    hub.behave();
    let offline = bench.pull(&ids()).await.unwrap();
    assert_eq!((offline.lock, hub.server.targets().len()), (pulled.lock.clone(), 0));
    assert!(
        offline.records["s"].report().notes[0].contains("the local copy"),
        "{:?}",
        offline.records["s"].report()
    );
    // A damaged blob is fetched.
    let bench = bench.with("HF_HUB_OFFLINE", "0");
    fs::write(home.join("hub/datasets--o--n/blobs").join(Digest::of(LARGE).hex()), "a.1\na.X\n").unwrap();
    assert_eq!(bench.pull_locked(&ids(), &pulled.lock).await.unwrap().lock, pulled.lock);
    assert_eq!(hub.storage.targets().len(), 1);
}

#[tokio::test]
async fn task_directories_are_names_or_whole() {
    let hub = Hub::start(&[
        ("README.md", b"x", false),
        ("tasks/b.1/task.toml", b"version = \"1.0\"\n", false),
        ("tasks/a.1/task.toml", b"version = \"1.0\"\n", false),
        ("tasks/a.1/tests/test.sh", b"true\n", true),
        ("tasks/notes/x.txt", b"x", false),
    ]);
    let bench = Bench::of_hub(&hub);
    let spec =
        |role| SourceSpec::new("s", SourcePlace::HubTasks { at: at("main"), below: "tasks".into() }, role);
    let named = bench.pull(&spec(SourceRole::Ids)).await.unwrap();
    assert_eq!(rows(&named), ["a.1", "b.1"]);
    assert_eq!(hub.server.targets().len(), 2, "only the names are asked for");
    let locked = &named.lock.sources["s"];
    assert_eq!(locked.files["names"].sha256, Digest::of("a.1\nb.1\n"));
    hub.behave();
    let again =
        bench.pull_as(&spec(SourceRole::Ids), Some(&named.lock), PullMode::Locked, Network::Missing).await;
    assert_eq!((again.unwrap().lock, hub.server.targets().len()), (named.lock, 0));

    let whole = bench.pull(&spec(SourceRole::Tasks)).await.unwrap();
    let Records::Tasks(tasks) = &whole.records["s"] else { panic!("another role came back") };
    assert_eq!(tasks.rows.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["a.1", "b.1"]);
    assert_eq!(fs::read(tasks.rows[0].path.join("tests/test.sh")).unwrap(), b"true\n");
    assert!(!tasks.rows[0].path.parent().unwrap().join("notes").exists());
    assert_eq!(whole.lock.sources["s"].files["a.1"].rows, 1);
    hub.behave();
    let again =
        bench.pull_as(&spec(SourceRole::Tasks), Some(&whole.lock), PullMode::Locked, Network::Missing).await;
    assert_eq!((again.unwrap().lock, hub.server.targets().len()), (whole.lock.clone(), 0));
    // What somebody has written to is put together again, from files that are here.
    let script = tasks.rows[0].path.join("tests/test.sh");
    let extra = tasks.rows[0].path.parent().unwrap().join("c.1");
    for network in [Network::Missing, Network::Ask] {
        fs::write(&script, "edited").unwrap();
        fs::create_dir(&extra).unwrap();
        fs::write(extra.join("task.toml"), "").unwrap();
        let mended = bench
            .pull_as(&spec(SourceRole::Tasks), Some(&whole.lock), PullMode::Locked, network)
            .await
            .unwrap();
        assert_eq!(mended.lock, whole.lock);
        assert_eq!(fs::read(&script).unwrap(), b"true\n");
        assert!(!extra.exists());
        assert!(hub.server.targets().iter().all(|target| target.starts_with("/api/")));
        let told = mended.records["s"].report().notes.iter().any(|note| note.contains("fetched anew"));
        assert_eq!(told, network == Network::Missing, "a pull that asks puts everything together anyway");
    }
    fs::write(&script, "edited").unwrap();
    let offline = Bench { offline: true, ..bench };
    let refused = offline
        .pull_as(&spec(SourceRole::Tasks), Some(&whole.lock), PullMode::Locked, Network::Missing)
        .await;
    assert!(refused.unwrap_err().to_string().contains("--offline"));
    let bench = Bench { offline: false, ..offline };

    let nowhere = SourcePlace::HubTasks { at: at("main"), below: "task".into() };
    assert!(
        bench
            .fails(&SourceSpec::new("s", nowhere, SourceRole::Ids))
            .await
            .contains("no directory with a task.toml")
    );
}

const POINTER: &str = "version https://git-lfs.invalid/spec/v1\noid sha256:0\nsize 5\n";

/// The code host's answers for `lists/ids.txt` and its neighbours.
fn code_host(content: &'static [u8]) -> Server {
    Server::start(move |request, _| {
        let accept = request.headers["accept"].as_str();
        let query = format!("?ref={COMMIT}");
        match (request.target.as_str(), accept) {
            ("/repos/o/n/commits/v1", "application/vnd.github.sha") => Reply::new(200, COMMIT),
            (target, "application/vnd.github.object+json") if target.ends_with(&query) => {
                let kind = match target {
                    "/repos/o/n/contents/lists" => "dir",
                    _ if target.contains("/link") => "symlink",
                    _ if target.contains("/lists?") => "dir",
                    _ => "file",
                };
                let sha =
                    if target.contains("pointer") { git_id(POINTER.as_bytes()) } else { git_id(content) };
                let size = if target.contains("pointer") { POINTER.len() } else { content.len() };
                Reply::new(
                    200,
                    serde_json::json!({"type": kind, "sha": sha, "size": size, "encoding": "none", "content": ""})
                        .to_string(),
                )
            }
            (target, "application/vnd.github.raw+json") if target.contains("pointer") => {
                Reply::new(200, POINTER)
            }
            (target, "application/vnd.github.raw+json") if target.ends_with(&query) => {
                Reply::file(request, content)
            }
            _ => Reply::new(404, ""),
        }
    })
}

fn code_files(revision: &str, paths: &[&str]) -> SourceSpec {
    let paths = paths.iter().map(|path| (*path).to_owned()).collect();
    SourceSpec::new("s", SourcePlace::CodeFiles { at: at(revision), paths }, SourceRole::Ids)
}

#[tokio::test]
async fn files_of_the_code_host_are_pinned_too() {
    let host = code_host(b"a.1\na.2\n");
    let bench = Bench::new().with("GITHUB_API_URL", &host.address).with("GITHUB_TOKEN", "ghp_secret");
    let spec = code_files("v1", &["lists/ids.txt"]);
    let pulled = bench.pull(&spec).await.unwrap();
    assert_eq!(rows(&pulled), ["a.1", "a.2"]);
    let locked = &pulled.lock.sources["s"];
    assert_eq!(
        (locked.origin.as_str(), locked.revision.as_deref()),
        ("github-file o/n@v1 lists/ids.txt", Some(COMMIT))
    );
    assert!(host.seen().iter().all(|request| request.headers["authorization"] == "Bearer ghp_secret"));
    assert_eq!(bench.pull_locked(&spec, &pulled.lock).await.unwrap().lock, pulled.lock);
    for (path, expected) in [
        ("lists", "is a directory; name a regular file"),
        ("link.txt", "is a link; name a regular file"),
        ("pointer.txt", "is a pointer of Git LFS"),
    ] {
        let message = bench.fails(&code_files(COMMIT, &[path])).await;
        assert!(message.contains(expected), "{path}: {message}");
    }
    assert!(bench.fails(&code_files("v2", &["lists/ids.txt"])).await.contains("does not exist"));
    // The host's way to say that there were too many requests.
    let reset = jiff::Timestamp::now().as_second() + 3600;
    host.answer(move |_, _| {
        Reply::new(403, "").with("x-ratelimit-remaining", 0).with("x-ratelimit-reset", reset)
    });
    let message = bench.fails(&spec).await;
    assert!(message.contains("takes no more requests") && message.contains("GITHUB_TOKEN"), "{message}");
    assert!(!message.contains("ghp_secret"));
}

fn code_host_with_tasks() -> Server {
    Server::start(with_tasks())
}

/// A repository `o/n` with two tasks side by side, and what is listed of it.
fn with_tasks() -> impl Fn(&Request, usize) -> Reply + Send + Sync + 'static {
    let files: [(&str, &str, &[u8]); 4] = [
        ("sets/a/t1/task.toml", "100644", b"version = \"1.0\"\n"),
        ("sets/a/t1/tests/test.sh", "100755", b"exit 1\n"),
        ("sets/a/t2/task.toml", "100644", b""),
        ("sets/a/linked/task.toml", "120000", b"../t1/task.toml"),
    ];
    // A directory's id is made of its path, which is as good as any for who only passes it on.
    let id = |path: &str| if path.is_empty() { COMMIT.to_owned() } else { git_id(path.as_bytes()) };
    move |request: &Request, _| {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        if let Some(wanted) = path.strip_prefix("/repos/o/n/git/trees/") {
            let mut entries = std::collections::BTreeMap::new();
            for directory in ["", "sets", "sets/a", "sets/a/t1", "sets/a/t2", "sets/a/linked"] {
                let below = |file: &'static str| {
                    if directory.is_empty() {
                        Some(file)
                    } else {
                        file.strip_prefix(directory)?.strip_prefix('/')
                    }
                };
                for (file, mode, content) in files.iter().filter(|_| id(directory) == wanted) {
                    let Some(rest) = below(file) else { continue };
                    let (name, entry) = match rest.split_once('/') {
                        Some((name, _)) if query.is_empty() => {
                            let sub = format!("{directory}/{name}");
                            let sha = id(sub.trim_start_matches('/'));
                            (name, serde_json::json!({"path": name, "mode": "040000", "sha": sha}))
                        }
                        _ => {
                            let (sha, size) = (git_id(content), content.len());
                            (rest, serde_json::json!({"path": rest, "mode": mode, "sha": sha, "size": size}))
                        }
                    };
                    entries.insert(name.to_owned(), entry);
                }
            }
            let tree: Vec<_> = entries.into_values().collect();
            return Reply::new(200, serde_json::json!({"tree": tree, "truncated": false}).to_string());
        }
        let file = path.strip_prefix("/repos/o/n/contents/").filter(|_| query == format!("ref={COMMIT}"));
        let found = files.iter().find(|(path, ..)| Some(*path) == file);
        found.map_or_else(|| Reply::new(404, ""), |(_, _, content)| Reply::file(request, content))
    }
}

#[tokio::test]
async fn tasks_that_a_manifest_places_in_a_repository_are_fetched() {
    let host = code_host_with_tasks();
    let bench = Bench::new().with("GITHUB_API_URL", &host.address);
    let place = SourcePlace::Manifest { path: "registry.json".into(), dataset: None };
    let spec = SourceSpec::new("s", place, SourceRole::Tasks);
    let write = |tasks: serde_json::Value| {
        let registry = serde_json::json!([{"name": "a", "version": "1", "tasks": tasks}]);
        fs::write(bench.base.path().join("registry.json"), registry.to_string()).unwrap();
    };
    let url = format!("{}/o/n.git", host.address);
    let listed = |name: &str, path: &str| serde_json::json!({"name": name, "git_url": url, "git_commit_id": COMMIT, "path": path});
    write(serde_json::json!([listed("t1", "sets/a/t1"), listed("t2", "sets/a/t2")]));
    let pulled = bench.pull(&spec).await.unwrap();
    let Records::Tasks(tasks) = &pulled.records["s"] else { panic!("another role came back") };
    let ids: Vec<_> = tasks.rows.iter().map(|task| task.id.as_str()).collect();
    assert_eq!(ids, ["t1", "t2"]);
    let script = tasks.rows[0].path.join("tests/test.sh");
    assert_eq!(fs::read(&script).unwrap(), b"exit 1\n");
    let mode =
        |path: &Path| std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).unwrap().permissions());
    assert_eq!((mode(&script) & 0o111, mode(&tasks.rows[0].path.join("task.toml")) & 0o111), (0o111, 0));
    assert_eq!(pulled.lock.sources["s"].files.keys().collect::<Vec<_>>(), ["registry.json", "t1", "t2"]);
    // The directories above are listed once.
    let listings = host.targets().iter().filter(|target| target.contains("/git/trees/")).count();
    assert_eq!(listings, 3 + 2);

    // What is locked and here needs no network, and is held against the lock all the same.
    host.answer(|_, _| Reply::new(500, ""));
    assert_eq!(bench.pull_locked(&spec, &pulled.lock).await.unwrap().lock, pulled.lock);
    assert_eq!(host.targets(), [""; 0]);
    // What somebody has written to is fetched anew.
    fs::write(&script, "exit 0\n").unwrap();
    assert!(matches!(bench.pull_locked(&spec, &pulled.lock).await, Err(SourceError::Remote { .. })));

    for network in [Network::Missing, Network::Ask] {
        host.answer(with_tasks());
        fs::write(&script, "exit 0\n").unwrap();
        let mended = bench.pull_as(&spec, Some(&pulled.lock), PullMode::Locked, network).await.unwrap();
        assert_eq!((mended.lock, fs::read(&script).unwrap()), (pulled.lock.clone(), b"exit 1\n".to_vec()));
        let notes = &mended.records["s"].report().notes;
        assert!(notes.iter().any(|note| note.ends_with("fetched anew: 1 (`t1` first)")), "{notes:?}");
        assert!(host.targets().iter().all(|target| target.contains("/git/trees/")), "{:?}", host.targets());
    }

    let host = code_host_with_tasks();
    let bench = Bench { base: bench.base, ..Bench::new().with("GITHUB_API_URL", &host.address) };
    let write = |task: serde_json::Value| {
        let registry = serde_json::json!([{"name": "a", "version": "1", "tasks": [task]}]);
        fs::write(bench.base.path().join("registry.json"), registry.to_string()).unwrap();
    };
    let task = |url: &str, commit: &str, path: &str| serde_json::json!({"name": "t1", "git_url": url, "git_commit_id": commit, "path": path});
    let own = format!("{}/o/n.git", host.address);
    for (listed, expected) in [
        (
            task("https://code.invalid/o/n.git", COMMIT, "sets/a/t1"),
            "clone it and read its directory with kind `dir`",
        ),
        (task(&own, "head", "sets/a/t1"), "names no commit"),
        (task(&own, COMMIT, "sets/b"), "\"sets/b\", which is no directory"),
        (task(&own, COMMIT, "../a"), "\"../a\", which is no directory"),
        (task(&own, COMMIT, "sets/a/linked"), "a link or another repository"),
        (task(&own, COMMIT, "sets"), "has \"a/linked/task.toml\", a link"),
        (task(&own, NEXT, "sets/a/t1"), "is no directory at"),
    ] {
        write(listed);
        let message = bench.fails(&spec).await;
        assert!(message.contains("task `t1`") && message.contains(expected), "{expected}: {message}");
    }
}
