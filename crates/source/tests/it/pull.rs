//! Sources, their lock, and what happens when one of the two changes.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use ident::{Digest, TaskId};
use record::SourceRole;
use source::{
    DriftCause, Environment, Index, IndexSettings, Keep, Network, PullMode, PullRequest, Pulled, Reading,
    Records, Remote, RemoteSettings, SeatrialLock, SourceError, SourceSpec, pull,
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
    let read = async |lock: Option<&SeatrialLock>, keep| {
        let (mode, reading) = (PullMode::Lock, Reading { keep, ..Reading::default() });
        let base = base.path();
        let network = Network::Ask;
        let request =
            PullRequest { specs: &specs, base, lock, mode, reading, remote: &remote, network, index: None };
        pull(request).await.unwrap()
    };
    for (patch, whole) in [("\"\"", false), ("null", true)] {
        fs::write(base.path().join("rows.jsonl"), row("a.1", "\"\"") + &row("a.2", patch)).unwrap();
        let lock = read(None, Keep::Counts).await.lock;
        let pulled = read(Some(&lock), Keep::Keys { whole: false }).await;
        let Records::InstanceKeys(loaded) = &pulled.records["rows"] else { panic!("another role came back") };
        assert!(loaded.rows.iter().all(|row| row.row.is_some() == whole));
        assert_eq!((loaded.rows.len(), &pulled.lock), (if whole { 1 } else { 2 }, &lock));
    }
}

#[tokio::test]
async fn whatever_is_kept_of_the_rows_the_lock_is_the_same() {
    let base = tempfile::tempdir().unwrap();
    let row = |id: &str, patch: &str| {
        format!(
            "{{\"instance_id\": \"{id}\", \"patch\": {patch}, \"FAIL_TO_PASS\": [], \"PASS_TO_PASS\": [], \
             \"image_name\": \"i\", \"repo\": \"r\", \"problem_statement\": \"\"}}\n"
        )
    };
    let run = "{\"instance_id\": \"a.1\", \"model\": \"m\", \"resolved\": true, \"traj_id\": \"t\"}\n";
    let rows = [row("a.1", "\"x\""), row("a.2", "null"), row("a.3", "\"z\""), row("a.1", "\"x\"")].concat();
    fs::write(base.path().join("rows.jsonl"), rows).unwrap();
    fs::write(base.path().join("runs.jsonl"), run).unwrap();
    let specs = [
        SourceSpec::file("rows", "rows.jsonl", SourceRole::Instances),
        SourceSpec::file("runs", "runs.jsonl", SourceRole::Trajectories),
    ];
    let remote = remote(base.path());
    let read = async |keep| {
        let request = PullRequest {
            specs: &specs,
            base: base.path(),
            lock: None,
            mode: PullMode::Lock,
            reading: Reading { strict: false, keep },
            remote: &remote,
            network: Network::Missing,
            index: None,
        };
        let pulled = pull(request).await.unwrap();
        let rows: Vec<_> = match &pulled.records["rows"] {
            Records::Instances(loaded) => loaded.rows.iter().map(|row| row.instance_id.to_string()).collect(),
            Records::InstanceKeys(loaded) => {
                loaded.rows.iter().map(|row| row.instance_id.to_string()).collect()
            }
            other => panic!("another role came back: {other:?}"),
        };
        let Records::Trajectories(runs) = &pulled.records["runs"] else { panic!("another role came back") };
        assert_eq!(pulled.records["rows"].report().rows, 3);
        assert_eq!(pulled.records["rows"].report().notes.len(), 2, "the repeated row is told");
        (rows, runs.rows.len(), pulled.lock)
    };
    let wanted =
        |ids: &[&str]| Keep::Tasks(Arc::new(ids.iter().map(|id| TaskId::new(*id).unwrap()).collect()));
    let (_, _, lock) = read(Keep::Records).await;
    assert_eq!((lock.sources["rows"].rows, lock.sources["rows"].left_out), (3, 1));
    for (keep, rows, runs) in [
        (Keep::Records, vec!["a.1", "a.3", "a.1"], 1),
        (Keep::Keys { whole: true }, vec!["a.1", "a.3", "a.1"], 1),
        (wanted(&["a.3", "a.2", "b.1"]), vec!["a.3"], 0),
        (Keep::Counts, vec![], 0),
    ] {
        let kept = read(keep).await;
        assert_eq!(kept, (rows.into_iter().map(str::to_owned).collect(), runs, lock.clone()));
    }
}

/// A pull of one list of ids that has not changed for long.
async fn pulled_list(
    base: &Path,
    lock: &SeatrialLock,
    hash_anew: bool,
    network: Network,
) -> Result<Pulled, SourceError> {
    let mut settings =
        RemoteSettings::of_environment(&Environment::default(), base.join("downloads")).unwrap();
    settings.hash_anew = hash_anew;
    let request = PullRequest {
        specs: &[SourceSpec::file("ids", "ids.txt", SourceRole::Ids)],
        base,
        lock: Some(lock),
        mode: PullMode::Locked,
        reading: Reading::default(),
        remote: &Remote::new(settings),
        network,
        index: None,
    };
    pull(request).await
}

#[tokio::test]
async fn a_file_is_hashed_once_until_it_changes_or_somebody_asks_what_is_there() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("ids.txt");
    fs::write(&path, "a.1\na.2\n").unwrap();
    let specs = [SourceSpec::file("ids", "ids.txt", SourceRole::Ids)];
    let request = PullRequest {
        specs: &specs,
        base: base.path(),
        lock: None,
        mode: PullMode::Lock,
        reading: Reading::default(),
        remote: &remote(base.path()),
        network: Network::Ask,
        index: None,
    };
    let lock = pull(request).await.unwrap().lock;
    let measured = base.path().join("downloads/measured");
    assert!(!measured.exists(), "a file that has only just been written was noted");
    tokio::time::sleep(std::time::Duration::from_millis(3100)).await;
    pulled_list(base.path(), &lock, false, Network::Missing).await.unwrap();
    let notes: Vec<_> = fs::read_dir(&measured).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [note] = &notes[..] else { panic!("{notes:?}") };
    // A note that says otherwise than the file shows who goes by it.
    let text = fs::read_to_string(note).unwrap();
    fs::write(note, text.replace(&Digest::of("a.1\na.2\n").hex(), &Digest::of("other").hex())).unwrap();
    let drift = pulled_list(base.path(), &lock, false, Network::Missing).await.unwrap_err();
    assert!(matches!(drift, SourceError::Drift(_)), "the file was hashed again: {drift}");
    pulled_list(base.path(), &lock, true, Network::Ask).await.unwrap();
    // A changed file of the same size, with the time of writing that it had.
    let written = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, "a.1\na.3\n").unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(written).unwrap();
    let drift = pulled_list(base.path(), &lock, false, Network::Missing).await.unwrap_err();
    assert!(drift.to_string().contains(&Digest::of("a.1\na.3\n").hex()), "{drift}");
}
