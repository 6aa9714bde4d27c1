//! Sources, their lock, and what happens when one of the two changes.

use std::fs;
use std::path::Path;

use ident::Digest;
use record::SourceRole;
use source::{
    DriftCause, Environment, Index, IndexSettings, Network, PullMode, PullRequest, Pulled, Reading, Records,
    Remote, RemoteSettings, SeatrialLock, SourceError, SourceSpec, pull,
};

const SDIST: &str = "some_package-1.0.tar.gz";

/// A project with an id list, a profile, and the source distribution that the profile names.
fn project(sha256: Option<Digest>) -> tempfile::TempDir {
    let base = tempfile::tempdir().unwrap();
    fs::write(base.path().join("ids.txt"), "a.1\na.2\n").unwrap();
    let profile = serde_json::json!([{"repo": "r", "test_cmd": "pytest", "sdist": SDIST, "sha256": sha256}]);
    fs::write(base.path().join("profiles.json"), profile.to_string()).unwrap();
    fs::create_dir(base.path().join("sdist")).unwrap();
    fs::write(base.path().join("sdist").join(SDIST), "content").unwrap();
    base
}

fn specs() -> Vec<SourceSpec> {
    vec![
        SourceSpec::file("profiles", "profiles.json", SourceRole::Profiles),
        SourceSpec::file("ids", "ids.txt", SourceRole::Ids),
    ]
}

fn index(base: &Path) -> Index {
    let settings = IndexSettings {
        url: None,
        downloads: base.join("downloads"),
        sdist_dir: Some(base.join("sdist")),
        client: None,
    };
    Index::new(settings, Environment::default())
}

/// No source of these tests lies elsewhere.
fn remote(base: &Path) -> Remote {
    Remote::new(RemoteSettings::of_environment(&Environment::default(), base.join("downloads")).unwrap())
}

async fn pulled(base: &Path, lock: Option<&SeatrialLock>, mode: PullMode) -> Result<Pulled, SourceError> {
    let index = index(base);
    let remote = remote(base);
    pull(PullRequest {
        specs: &specs(),
        base,
        lock,
        mode,
        reading: Reading::default(),
        remote: &remote,
        network: Network::Ask,
        index: Some(&index),
    })
    .await
}

#[tokio::test]
async fn a_first_pull_locks_everything_and_a_second_one_agrees() {
    let base = project(Some(Digest::of("content")));
    let first = pulled(base.path(), None, PullMode::Lock).await.unwrap();
    assert!(matches!(&first.records["ids"], Records::Ids(ids) if ids.rows.len() == 2));
    assert_eq!(first.lock.sources["ids"].files["ids.txt"].sha256, Digest::of("a.1\na.2\n"));
    assert_eq!(first.lock.distributions[SDIST].sha256, Digest::of("content"));
    assert_eq!(first.lock.distributions[SDIST].package, "some-package");
    assert_eq!(first.changes.len(), 3);
    assert_eq!(fs::read(&first.distributions[SDIST].path).unwrap(), b"content");

    let second = pulled(base.path(), Some(&first.lock), PullMode::Locked).await.unwrap();
    assert_eq!((second.lock, second.changes), (first.lock, vec![]));
}

#[tokio::test]
async fn a_changed_file_is_drift_until_it_is_accepted() {
    let base = project(None);
    let lock = pulled(base.path(), None, PullMode::Lock).await.unwrap().lock;
    fs::write(base.path().join("ids.txt"), "a.1\n").unwrap();
    for mode in [PullMode::Lock, PullMode::Locked] {
        let Err(SourceError::Drift(drift)) = pulled(base.path(), Some(&lock), mode).await else {
            panic!("the drift was not seen");
        };
        assert_eq!(drift.name, "ids");
        assert!(matches!(drift.cause, DriftCause::Files(_)));
    }
    let updated = pulled(base.path(), Some(&lock), PullMode::Update).await.unwrap();
    let changed: Vec<_> = updated.changes.iter().map(|change| change.what.as_str()).collect();
    assert_eq!(changed, ["source ids: ids.txt"]);
}

#[tokio::test]
async fn a_distribution_without_a_digest_is_held_to_the_locked_one() {
    let base = project(None);
    let lock = pulled(base.path(), None, PullMode::Lock).await.unwrap().lock;
    fs::write(base.path().join("sdist").join(SDIST), "changed").unwrap();
    // The cache still has what is locked.
    pulled(base.path(), Some(&lock), PullMode::Locked).await.unwrap();
    fs::remove_dir_all(base.path().join("downloads")).unwrap();
    let message = pulled(base.path(), Some(&lock), PullMode::Locked).await.unwrap_err().to_string();
    assert!(message.contains(&Digest::of("changed").hex()), "{message}");
    let updated = pulled(base.path(), Some(&lock), PullMode::Update).await.unwrap();
    assert_eq!(updated.lock.distributions[SDIST].sha256, Digest::of("changed"));
}

#[tokio::test]
async fn new_sources_are_locked_unless_the_lock_is_binding() {
    let base = project(None);
    let empty = SeatrialLock::default();
    assert!(matches!(
        pulled(base.path(), Some(&empty), PullMode::Locked).await,
        Err(SourceError::Drift(drift)) if drift.cause == DriftCause::NotLocked
    ));
    let locked = pulled(base.path(), Some(&empty), PullMode::Lock).await.unwrap().lock;
    let remote = remote(base.path());
    let twice: Vec<_> = specs().into_iter().chain(specs()).collect();
    let request = PullRequest {
        specs: &twice,
        base: base.path(),
        lock: None,
        mode: PullMode::Lock,
        reading: Reading::default(),
        remote: &remote,
        network: Network::Ask,
        index: None,
    };
    assert!(matches!(pull(request).await, Err(SourceError::DuplicateName(_))));
    let request = PullRequest {
        specs: &specs(),
        base: base.path(),
        lock: Some(&locked),
        mode: PullMode::Locked,
        reading: Reading::default(),
        remote: &remote,
        network: Network::Ask,
        index: None,
    };
    assert_eq!(
        pull(request).await.unwrap().lock,
        locked,
        "entries of distributions were lost without an index"
    );
}

#[tokio::test]
async fn keys_alone_are_read_only_where_the_lock_says_that_every_row_is_whole() {
    let base = tempfile::tempdir().unwrap();
    let row = |id: &str, patch: &str| {
        format!(
            "{{\"instance_id\": \"{id}\", \"patch\": {patch}, \"FAIL_TO_PASS\": [], \"PASS_TO_PASS\": [], \
             \"image_name\": \"i\", \"repo\": \"r\", \"problem_statement\": \"\"}}\n"
        )
    };
    let specs = [SourceSpec::file("rows", "rows.jsonl", SourceRole::Instances)];
    let remote = remote(base.path());
    let read = async |lock: Option<&SeatrialLock>, keys_only| {
        let (mode, reading) = (PullMode::Lock, Reading { keys_only, ..Reading::default() });
        let base = base.path();
        let network = Network::Ask;
        let request =
            PullRequest { specs: &specs, base, lock, mode, reading, remote: &remote, network, index: None };
        pull(request).await.unwrap()
    };
    for (patch, whole) in [("\"\"", false), ("null", true)] {
        fs::write(base.path().join("rows.jsonl"), row("a.1", "\"\"") + &row("a.2", patch)).unwrap();
        let lock = read(None, false).await.lock;
        let pulled = read(Some(&lock), true).await;
        let rows = match &pulled.records["rows"] {
            Records::Instances(loaded) if whole => loaded.rows.len(),
            Records::InstanceKeys(loaded) if !whole => loaded.rows.len(),
            other => panic!("another role came back: {other:?}"),
        };
        assert_eq!((rows, pulled.lock), (if whole { 1 } else { 2 }, lock));
    }
}
