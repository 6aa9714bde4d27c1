//! Planning at full scale: a synthetic universe whose plan has every number of the full-scale run that public inputs
//! can confirm.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use ident::Digest;
use image::shards::{Desired, PlanRequest, ShardPlan, Shards, Snapshot, Wanted, plan};
use record::{ImageKind, Overflow, Placement, ShardConfig};
use rehearsal::{Options, Universe, write_project};
use serde_json::Value;

use crate::project::{binary, ended, seatrial};

/// The universe in a directory of its own, pulled and planned.
fn planned() -> (tempfile::TempDir, Value) {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { message_words: 8, tests: 3 };
    write_project(directory.path(), &Universe::new(), options).unwrap();
    let pulled = seatrial(directory.path(), &["source", "pull", "--json"]).with_code(0).json();
    let rows = |name: &str| {
        let sources = pulled["sources"].as_array().unwrap();
        sources.iter().find(|source| source["name"] == name).unwrap()["rows"].as_u64().unwrap()
    };
    assert_eq!((rows("swesmith"), rows("trajectories")), (59_136, 76_000));
    assert_eq!((rows("filtered"), rows("swe_master")), (3_748, 7_423));
    assert_eq!((rows("filter_pro"), rows("freeze_pro"), rows("canary")), (487, 125, 30));
    let plan = seatrial(directory.path(), &["plan", "--json"]).with_code(0).json();
    (directory, plan)
}

fn document(directory: &Path, name: &str) -> Value {
    serde_json::from_slice(&fs::read(directory.join(name)).unwrap()).unwrap()
}

/// The tasks of a document that belong to a pool, or to any pool.
fn tasks<'d>(document: &'d Value, stage: &str) -> Vec<&'d Value> {
    let tasks = document["tasks"].as_array().unwrap().iter();
    tasks.filter(|task| stage.is_empty() || task["stage"] == stage).collect()
}

fn repositories(tasks: &[&Value]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for task in tasks {
        *counts.entry(task["repo"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    counts
}

fn ids<'d>(tasks: &[&'d Value]) -> BTreeSet<&'d str> {
    tasks.iter().map(|task| task["task_id"].as_str().unwrap()).collect()
}

// The universe takes a while to make, so everything is asked of one.
#[test]
fn a_plan_at_full_scale_has_every_published_number() {
    let (directory, printed) = planned();
    numbers(directory.path(), &printed);
    threads(directory.path());
    explanations(directory.path());
    comparison(directory.path());
    shards(directory.path());
}

fn numbers(directory: &Path, printed: &Value) {
    let (plan, reserves) = (document(directory, "plan.json"), document(directory, "reserves.json"));
    let (first, second) = (tasks(&plan, "filter_pro"), tasks(&plan, "outside_filtered"));
    assert_eq!((first.len(), second.len()), (350, 350));
    for pool in plan["pools"].as_array().unwrap() {
        let number = |key: &str| pool[key].as_u64().unwrap();
        assert_eq!((number("target"), number("cap"), number("relaxed")), (350, 18, 0));
        assert_eq!((number("selected"), number("shortage")), (350, 0));
    }

    let count =
        |tasks: &[&Value], fits: &dyn Fn(&Value) -> bool| tasks.iter().filter(|task| fits(task)).count();
    let tiers =
        |tasks: &[&Value]| [1, 2, 3, 4].map(|tier| count(tasks, &|task| task["evidence_tier"] == tier));
    assert_eq!((tiers(&first), tiers(&second)), ([32, 277, 11, 30], [350, 0, 0, 0]));
    let models = |tasks: &[&Value]| {
        ["gpt-4o", "claude-3.5", "claude-3.7"].map(|family| {
            count(tasks, &|task| {
                task["official_models"].as_array().unwrap().iter().any(|name| name == family)
            })
        })
    };
    assert_eq!((models(&first), models(&second)), ([0, 36, 280], [13, 41, 335]));

    let (here, there) = (repositories(&first), repositories(&second));
    assert_eq!((here.len(), there.len(), repositories(&tasks(&plan, "")).len()), (67, 102, 107));
    assert_eq!((here.values().max(), there.values().max()), (Some(&18), Some(&18)));

    let (kept, canary) = (&|task: &Value| task["retained"] == true, &|task: &Value| task["canary"] == true);
    assert_eq!((count(&first, kept), count(&second, kept)), (125, 0));
    assert_eq!(count(&tasks(&plan, ""), canary), 30);
    assert_eq!(count(&tasks(&reserves, ""), canary), 0);

    let (first_reserves, second_reserves) =
        (tasks(&reserves, "filter_pro"), tasks(&reserves, "outside_filtered"));
    assert_eq!((first_reserves.len(), second_reserves.len()), (137, 350));
    let present = |task: &Value| task["image_status"] == "completed";
    assert_eq!(count(&first_reserves, &present), 120);
    assert!(first_reserves[..120].iter().all(|task| present(task)), "images come first");
    let (primaries, spare) = (tasks(&plan, ""), tasks(&reserves, ""));
    assert_eq!(ids(&primaries).union(&ids(&spare)).count(), 700 + 487);

    let left = |row: &str, at: usize| printed["stats"][row][at]["eligible_left"].as_u64().unwrap();
    assert_eq!((left("primaries", 0), left("primaries", 1)), (0, 10_314));
    assert_eq!(printed["stats"]["primaries_total"]["eligible_left"], 10_314);
    assert_eq!(printed["stats"]["primaries_total"]["repositories"], 107);

    // Both halves of a renamed repository count as one.
    let former = |task: &Value| task["task_id"].as_str().unwrap().starts_with("former-");
    assert!(primaries.iter().any(|task| former(task)), "no task bears a former name");
    assert!(!repositories(&primaries).keys().any(|repo| repo.starts_with("former-")));
}

/// The bytes do not depend on the number of threads.
fn threads(directory: &Path) {
    let bytes = || ["plan.json", "reserves.json"].map(|name| fs::read(directory.join(name)).unwrap());
    let before = bytes();
    for threads in ["1"] {
        for name in ["plan.json", "reserves.json"] {
            fs::remove_file(directory.join(name)).unwrap();
        }
        let mut command = binary();
        command.env("TOKIO_WORKER_THREADS", threads).env("RAYON_NUM_THREADS", threads);
        ended(command.current_dir(directory).arg("plan")).with_code(0);
        assert!(bytes() == before, "another plan with {threads} threads");
    }
}

/// Every kind of task is explained.
fn explanations(directory: &Path) {
    let (plan, reserves) = (document(directory, "plan.json"), document(directory, "reserves.json"));
    let explained = |id: &str| {
        let explained = seatrial(directory, &["plan", "explain", id, "--json"]).with_code(0).json();
        let steps = explained["steps"].as_array().unwrap().iter();
        let steps: Vec<_> = steps.map(|step| step["finding"].as_str().unwrap().to_owned()).collect();
        (explained["outcome"].clone(), steps.join("\n"))
    };
    let find = |document: &Value, stage: &str, fits: &dyn Fn(&Value) -> bool| {
        let tasks = tasks(document, stage);
        let at = tasks.iter().position(|task| fits(task)).unwrap();
        (tasks[at]["task_id"].as_str().unwrap().to_owned(), at as u64 + 1)
    };
    let (id, place) = find(&plan, "filter_pro", &|task| task["retained"] == true);
    let (outcome, steps) = explained(&id);
    assert_eq!((&outcome["kind"], &outcome["place"]), (&"primary".into(), &place.into()));
    assert!(steps.contains("forced by retain = `freeze_pro`"), "{steps}");

    let (id, place) = find(&reserves, "filter_pro", &|task| {
        task["evidence_tier"] == 2 && task["image_status"] == "completed"
    });
    let (outcome, steps) = explained(&id);
    assert_eq!((&outcome["kind"], &outcome["place"]), (&"reserve".into(), &place.into()));
    assert!(steps.contains("has 18 selected tasks, and the cap is 18"), "{steps}");

    let (id, _) = find(&reserves, "filter_pro", &|task| task["evidence_tier"] == 4);
    let (_, steps) = explained(&id);
    assert!(steps.contains("the target was reached before its turn"), "{steps}");

    let (id, _) = find(&reserves, "filter_pro", &|task| task["image_status"] == "skipped");
    let (_, steps) = explained(&id);
    assert!(steps.contains("left out on purpose"), "{steps}");

    let unknown = seatrial(directory, &["plan", "explain", &id.to_uppercase()]).with_code(2);
    assert!(unknown.stderr.contains(&format!("did you mean `{id}`?")), "{}", unknown.stderr);
}

/// A plan under another cap is compared with the first one.
fn comparison(directory: &Path) {
    fs::create_dir(directory.join("before")).unwrap();
    for name in ["plan.json", "reserves.json"] {
        fs::copy(directory.join(name), directory.join("before").join(name)).unwrap();
    }
    let same = seatrial(directory, &["plan", "diff", "before", "."]).with_code(0);
    assert_eq!(same.stdout, "the plans are the same\n");

    let recipe = fs::read_to_string(directory.join("seatrial.toml")).unwrap();
    fs::write(directory.join("seatrial.toml"), recipe.replacen("cap = \"5%\"", "cap = 17", 1)).unwrap();
    seatrial(directory, &["plan"]).with_code(0);
    let diff = seatrial(directory, &["plan", "diff", "before", ".", "--json"]).with_code(0).json();
    let plan = &diff["documents"]["plan.json"];
    // Each of the three full repositories gives one place away.
    let count = |key: &str| plan[key].as_array().unwrap().len();
    assert_eq!((count("added"), count("removed"), count("changed")), (3, 3, 0));
    assert_eq!(
        (&plan["pools"][0]["before"]["cap"], &plan["pools"][0]["after"]["cap"]),
        (&18.into(), &17.into())
    );
    let text = seatrial(directory, &["plan", "diff", "before/plan.json", "plan.json"]).with_code(0).stdout;
    assert!(text.contains("3 added, 3 removed"), "{text}");
    for (other, said) in
        [("plan.json", "one is a directory"), ("nowhere", "there is no "), ("data", "there is no ")]
    {
        let refused = seatrial(directory, &["plan", "diff", "before", other]).with_code(2);
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
    }
    let lock = seatrial(directory, &["plan", "diff", "seatrial.lock", "plan.json"]).with_code(2).stderr;
    assert!(lock.contains("seatrial.lock is no plan") && !lock.contains("delete"), "{lock}");
}

/// The images of all planned tasks and their bases fit into 80 shards of 100 tags, and a shard that others have filled is noticed.
fn shards(directory: &Path) {
    let documents = ["plan.json", "reserves.json"].map(|name| document(directory, name));
    let tasks: Vec<&Value> = documents.iter().flat_map(|document| tasks(document, "")).collect();
    assert_eq!(tasks.len(), 1_187);
    let wanted = |kind, key: &str, group: &str| Wanted {
        kind,
        key: key.into(),
        source: format!("oci:{key}"),
        digest: Digest::of(key).prefixed(),
        media_type: "application/vnd.oci.image.manifest.v1+json".into(),
        group: group.into(),
    };
    let images = tasks.iter().flat_map(|task| {
        let [id, base] = ["task_id", "base_image"].map(|key| task[key].as_str().unwrap());
        [wanted(ImageKind::Task, id, base), wanted(ImageKind::Baseanchor, base, base)]
    });
    let desired = Desired::new(images).unwrap();
    let bases = desired.images().len() - tasks.len();
    assert!((100..=1_187).contains(&bases), "{bases} bases");
    let config = ShardConfig {
        registry: "registry.invalid".into(),
        namespace: "swe".into(),
        shard_template: "task-{:02}".into(),
        shards: 80,
        tag_limit: 100,
        placement: Placement::Hash,
        overflow: Overflow::Fail,
        create_repositories: false,
        overwrite: false,
        hash_version: "v1".into(),
        platform: None,
        sources: Vec::new(),
    };
    let made = |live: &Snapshot| -> ShardPlan {
        let request = PlanRequest {
            shards: &Shards::new(config.clone()).unwrap(),
            desired: &desired,
            snapshot: live,
            placed: &[],
            inputs: &BTreeMap::new(),
            missing: &[],
            rehome: false,
        };
        plan(&request).unwrap()
    };
    let with_foreign = |shard: usize, tags: u64| {
        let mut live = vec![BTreeMap::new(); 80];
        live[shard] = (0..tags).map(|number| (format!("foreign-{number}"), None)).collect();
        made(&Snapshot::new(live))
    };
    let empty = with_foreign(0, 0);
    assert!(empty.gate.ok && empty.gate.worst < 100, "{:?}", empty.gate);
    let (shard, room) = (17, 100 - empty.shards[17].pending);
    let full = with_foreign(shard, room);
    assert!(full.gate.ok && full.gate.worst == 100 && full.shards[shard].foreign == room);
    let over = with_foreign(shard, room + 1);
    assert!(!over.gate.ok, "one tag too many");
    let [worst] = &over.gate.over[..] else { panic!("one shard is over: {:?}", over.gate.over) };
    assert_eq!((worst.shard.as_str(), worst.over), ("task-17", 1));
}
