//! Plans carried out at real registries: at rest, killed at any point, and looked at afterwards.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use ident::Digest;
use image::shards::{Action, Desired, Item, PlanRequest, ShardPlan, Shards, Snapshot, Wanted};
use record::{ImageKind, Overflow, Placement, ShardConfig};
use serde_json::{Value, json};

use crate::images::{MANIFEST, Registry};
use crate::project::{Project, tree};

/// Requests at once in these tests.
const JOBS: usize = 3;

/// A project that knows a registry and nothing of tasks.
fn project(to: &Registry) -> Project {
    let project = Project::new();
    let images = format!(
        "[images]\nregistry = \"{}\"\nnamespace = \"team\"\nshard_template = \"shard-{{}}\"\nshards = 3\ntag_limit = 50\n\
         create_repositories = true\n\n[prove]",
        to.host
    );
    project.edit("seatrial.toml", "[prove]", &images);
    project
}

fn config(to: &Registry) -> ShardConfig {
    ShardConfig {
        registry: to.host.clone(),
        namespace: "team".into(),
        shard_template: "shard-{}".into(),
        shards: 3,
        tag_limit: 50,
        placement: Placement::Hash,
        overflow: Overflow::Fail,
        create_repositories: true,
        overwrite: false,
        hash_version: "v1".into(),
        platform: None,
        sources: Vec::new(),
    }
}

/// Bytes that nothing else holds and that do not compress.
fn bytes(name: &str, length: usize) -> Vec<u8> {
    let mut all = Vec::new();
    let mut digest = Digest::of(name);
    while all.len() < length {
        all.extend_from_slice(digest.as_bytes());
        digest = Digest::of(digest.as_bytes());
    }
    all.truncate(length);
    all
}

/// Puts images that share layers into a registry.
fn fill(from: &Registry, images: usize) -> Vec<Wanted> {
    let image = |number: usize| {
        let key = format!("task-{number}");
        let middle = bytes(&format!("middle-{}", number % 3), 400_000);
        let layers = [bytes("base", 1_500_000), middle, bytes(&key, 90_000)];
        Wanted {
            kind: ImageKind::Task,
            source: format!("{}/src/{key}:1", from.host),
            digest: from.push_layers(&format!("src/{key}"), "1", &key, &layers),
            media_type: MANIFEST.into(),
            group: "base".into(),
            key,
        }
    };
    (0..images).map(image).collect()
}

/// The plan that copies images to an empty registry.
fn plan(images: &[Wanted], to: &Registry) -> ShardPlan {
    let shards = Shards::new(config(to)).unwrap();
    let request = PlanRequest {
        shards: &shards,
        desired: &Desired::new(images.to_vec()).unwrap(),
        snapshot: &Snapshot::new(vec![BTreeMap::new(); 3]),
        placed: &[],
        inputs: &BTreeMap::new(),
        missing: &[],
        rehome: false,
    };
    image::shards::plan(&request).unwrap()
}

fn write(project: &Project, plan: &ShardPlan) {
    artifact::store(&project.path("images.json"), plan).unwrap();
}

fn mirror(project: &Project) -> crate::project::Ended {
    project.run(&["images", "mirror", "--json", "-j", &JOBS.to_string()])
}

fn path_of(item: &Item) -> &str {
    item.repository.split_once('/').unwrap().1
}

/// Digests of all that a registry keeps, by path; without sessions that were cut off, which it clears away by itself some day.
fn state(registry: &Registry) -> BTreeMap<String, Digest> {
    let mut files = tree(&registry.root());
    files.retain(|path, _| !path.contains("/_uploads/"));
    files
}

#[test]
fn a_plan_is_carried_out_verified_and_remembered() {
    let (Some(from), Some(to)) = (Registry::start(), Registry::start()) else { return };
    let project = project(&to);
    project.run(&["images", "mirror"]).with_code(2);
    let plan = plan(&fill(&from, 8), &to);
    write(&project, &plan);

    // Not there yet, and nothing is remembered.
    let absent = project.run(&["images", "verify", "--within", "0", "--json"]).with_code(1);
    assert_eq!(absent.json()["images"][0]["problem"], "is not there");

    let report = mirror(&project).with_code(0).json();
    assert!(
        report["images"].as_array().unwrap().iter().all(|image| image["outcome"] == "copied"),
        "{report}"
    );
    // A base, three middles, and a layer and a configuration of each image.
    assert_eq!(report["sent"], 1 + 3 + 2 * 8);
    let again = mirror(&project).with_code(0).json();
    assert_eq!((&again["sent"], &again["mounted"], &again["found"]), (&json!(0), &json!(0), &json!(0)));
    let seen = project.run(&["images", "verify", "--deep", "--json"]).with_code(0).json();
    assert_eq!((&seen["blobs"], &seen["bytes"]), (&report["sent"], &report["sent_bytes"]));
    let ledger = ledger::Ledger::open(&project.path("ledger.db")).unwrap();
    let placed = ledger.placements().unwrap();
    let places: Vec<_> = placed.iter().map(|image| (&image.repository, &image.tag, &image.digest)).collect();
    let expected: Vec<_> =
        plan.items.iter().map(|item| (&item.repository, &item.tag, &item.digest)).collect();
    assert_eq!(places, expected);

    // What the plan knows as there and is not is drift, which has to be accepted.
    let mut gone = plan.clone();
    gone.items[0].action = Action::Skip;
    write(&project, &gone);
    assert!(to.remove(path_of(&gone.items[0]), &gone.items[0].tag));
    let drift = mirror(&project).with_code(5);
    assert!(drift.stderr.contains("planned to skip, now to restore"), "{drift:?}");
    project.run(&["images", "mirror", "--accept-drift"]).with_code(0);

    // Others have filled a shard meanwhile.
    write(&project, &plan);
    assert!(to.remove(path_of(&plan.items[0]), &plan.items[0].tag));
    for number in 0..50 {
        to.push(path_of(&plan.items[0]), &format!("foreign-{number}"), "foreign");
    }
    let before = state(&to);
    let full = mirror(&project).with_code(3);
    assert!(full.stderr.contains("too many"), "{full:?}");
    assert_eq!(state(&to), before, "nothing was written");
    project.run(&["images", "verify", "--within", "0"]).with_code(3);

    project.edit("seatrial.toml", "tag_limit = 50", "tag_limit = 90");
    let other = mirror(&project).with_code(5);
    assert!(other.stderr.contains("other settings"), "{other:?}");
    drop(to);
    project.edit("seatrial.toml", "tag_limit = 90", "tag_limit = 50");
    mirror(&project).with_code(4);
}

/// How many mirrors are killed, each twice. `SEATRIAL_KILLS` sets another number for a long run.
fn kills() -> u64 {
    std::env::var("SEATRIAL_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(5)
}

#[test]
fn killed_at_any_point_a_mirror_ends_as_if_nothing_had_happened() {
    let (Some(from), Some(undisturbed)) = (Registry::start(), Registry::start()) else { return };
    let whole = project(&undisturbed);
    let images = fill(&from, 12);
    write(&whole, &plan(&images, &undisturbed));
    let begun = std::time::Instant::now();
    mirror(&whole).with_code(0);
    let whole_run = begun.elapsed();
    let expected = state(&undisturbed);
    let mut given = from.blobs_given();
    assert!(given.values().all(|times| *times == 1));
    let mut ended_early = 0;
    for kill in 0..kills() {
        let Some(to) = Registry::start() else { return };
        let project = project(&to);
        write(&project, &plan(&images, &to));
        // Two kills in each run, at other points every time.
        for part in [kill, kill * 7 % kills()] {
            let mut child = project
                .command(&["images", "mirror", "-j", &JOBS.to_string()])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(whole_run.mul_f64((part as f64 + 0.5) / kills() as f64));
            ended_early += u64::from(child.try_wait().unwrap().is_none());
            child.kill().unwrap();
            child.wait().unwrap();
        }
        mirror(&project).with_code(0);
        assert_eq!(state(&to), expected, "after kill {kill}");
        project.run(&["images", "verify", "--deep", "--within", "0"]).with_code(0);
        // Every blob once, and at most one for each worker and kill again.
        let now = from.blobs_given();
        let again: u64 = now.iter().map(|(digest, times)| times - given[digest] - 1).sum();
        assert!(again <= 2 * JOBS as u64, "{again} blobs were sent again");
        given = now;
    }
    assert!(ended_early > 0, "every kill came too late");
}

#[test]
fn passwords_come_from_a_credential_helper_and_are_told_to_nobody() {
    let (Some(from), Some(to)) = (Registry::start(), Registry::with_password()) else { return };
    let project = project(&to);
    write(&project, &plan(&fill(&from, 2), &to));
    let anonymous = mirror(&project).with_code(4);
    assert!(anonymous.stderr.contains("log in"), "{anonymous:?}");
    let settings = project.path("docker");
    let helper = format!(
        "#!/bin/sh\nread server\necho \"$server\" >> {}\necho '{{\"ServerURL\":\"x\",\"Username\":\"sailor\",\"Secret\":\"open sesame\"}}'\n",
        settings.join("asked").display()
    );
    std::fs::create_dir(&settings).unwrap();
    executable(&settings.join("docker-credential-crate"), &helper);
    let helpers = json!({"credHelpers": {(to.host.clone()): "crate"}});
    std::fs::write(settings.join("config.json"), helpers.to_string()).unwrap();
    let path = format!("{}:{}", settings.display(), std::env::var("PATH").unwrap());
    let mut command = project.command(&["--log", "trace", "images", "mirror"]);
    let ended = crate::project::ended(command.env("DOCKER_CONFIG", &settings).env("PATH", path)).with_code(0);
    assert_eq!(std::fs::read_to_string(settings.join("asked")).unwrap(), format!("{}\n", to.host));
    let basic = "c2FpbG9yOm9wZW4gc2VzYW1l";
    assert!(!ended.all().contains("open sesame") && !ended.all().contains(basic), "a secret was told");
    let journal =
        std::fs::read_to_string(project.path(format!(".seatrial/mirror/{}+team/journal.jsonl", to.host)))
            .unwrap();
    assert!(!journal.contains("sesame") && !journal.contains(basic));
    let events: Vec<Value> = journal.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.iter().filter(|event| event["event"] == "tag_ok").count(), 2);
}

fn executable(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
