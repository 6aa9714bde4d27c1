//! Mirroring: between registries in memory that misbehave, and between real ones.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use image::mirror::{
    IN_LAYOUT, MirrorError, MirrorOptions, MirrorOutcome, MirrorReport, Progress, VerifyOptions,
    VerifyReport, mirror, verify,
};
use image::shards::{Action, Desired, PlanRequest, ShardPlan, Shards, Snapshot, Wanted, plan};
use image::{Layout, Registry, RegistryOptions};
use record::{ImageKind, Overflow, Placement, ShardConfig};
use serde_json::{Value, json};

use crate::fake::{Content, Fake, Fault, Request};
use crate::registry::{RealRegistry, header, log_in, options};
use crate::sample::{INDEX, MANIFEST, digest, write_layout};
use crate::support::Workshop;

const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+zstd";

/// An image of some layers, whatever those hold.
pub struct Picture {
    pub manifest: Vec<u8>,
    pub blobs: Vec<Vec<u8>>,
}

impl Picture {
    pub fn new(name: &str, layers: &[&[u8]]) -> Self {
        let config = json!({"os": "linux", "architecture": "amd64", "config": {"Labels": {"is": name}}});
        let config = config.to_string().into_bytes();
        let describe = |kind: &str, bytes: &[u8]| json!({"mediaType": kind, "digest": digest(bytes), "size": bytes.len()});
        let layers_named: Vec<Value> = layers.iter().map(|layer| describe(LAYER, layer)).collect();
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": describe(CONFIG, &config),
            "layers": layers_named});
        let blobs = layers.iter().map(|layer| layer.to_vec()).chain([config]).collect();
        Self { manifest: manifest.to_string().into_bytes(), blobs }
    }
}

/// Ten images in two families, with a layer that all share and one for each family.
fn pictures() -> BTreeMap<String, Picture> {
    let base = vec![7_u8; 200_000];
    let middle = [vec![1_u8; 50_000], vec![2_u8; 40_000]];
    (0..10)
        .map(|number| {
            let name = format!("task-{number}");
            let own = vec![number as u8; 1000 + number];
            let picture = Picture::new(&name, &[&base, &middle[number % 2], &own]);
            (name, picture)
        })
        .collect()
}

/// The bytes of all distinct blobs.
fn unique(pictures: &BTreeMap<String, Picture>) -> BTreeMap<String, usize> {
    pictures.values().flat_map(|picture| &picture.blobs).map(|blob| (digest(blob), blob.len())).collect()
}

pub fn config(host: &str) -> ShardConfig {
    ShardConfig {
        registry: host.into(),
        namespace: "team".into(),
        shard_template: "shard-{}".into(),
        shards: 3,
        tag_limit: 100,
        placement: Placement::Hash,
        overflow: Overflow::Fail,
        create_repositories: true,
        overwrite: false,
        hash_version: "v1".into(),
        platform: None,
        sources: Vec::new(),
    }
}

fn wanted(key: &str, source: String, manifest: &[u8], kind: &str) -> Wanted {
    Wanted {
        kind: ImageKind::Task,
        key: key.into(),
        source,
        digest: digest(manifest),
        media_type: kind.into(),
        group: "base".into(),
    }
}

fn planned(config: ShardConfig, images: Vec<Wanted>) -> (ShardPlan, Shards) {
    let shards = Shards::new(config).unwrap();
    let empty = Snapshot::new(vec![BTreeMap::new(); shards.config().shards as usize]);
    let request = PlanRequest {
        shards: &shards,
        desired: &Desired::new(images).unwrap(),
        snapshot: &empty,
        placed: &[],
        inputs: &BTreeMap::new(),
        missing: &[],
        rehome: false,
    };
    (plan(&request).unwrap(), shards)
}

/// A plan for pictures that `from` has, and that are put there.
fn plan_from(from: &Fake, to: &str, pictures: &BTreeMap<String, Picture>) -> (ShardPlan, Shards) {
    let images = pictures.iter().map(|(name, picture)| {
        from.hold(&format!("src/{name}"), "1", MANIFEST, &picture.manifest, &picture.blobs);
        wanted(name, format!("{}/src/{name}:1", from.host), &picture.manifest, MANIFEST)
    });
    planned(config(to), images.collect())
}

fn how(shop: &Workshop) -> MirrorOptions {
    MirrorOptions {
        layouts: Layout::open(&shop.root.path().join("layout")).into_iter().collect(),
        journal: shop.root.path().join("journal"),
        parallel: 4,
        reserve: 2,
        wait: false,
        accept_drift: false,
    }
}

fn run(
    registry: RegistryOptions,
    (plan, shards): &(ShardPlan, Shards),
    options: &MirrorOptions,
) -> Result<MirrorReport, MirrorError> {
    let registry = Registry::new(registry).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(mirror(&registry, plan, shards, "plan", options, &Arc::new(Progress::default())))
}

fn mirrored(shop: &Workshop, plan: &(ShardPlan, Shards)) -> MirrorReport {
    run(options(shop), plan, &how(shop)).unwrap()
}

fn all_copied(report: &MirrorReport) {
    let others: Vec<_> =
        report.images.iter().filter(|image| image.outcome != MirrorOutcome::Copied).collect();
    assert!(others.is_empty(), "{others:#?}");
}

fn failures(report: &MirrorReport) -> BTreeMap<String, String> {
    let failed = report.images.iter().filter_map(|image| match &image.outcome {
        MirrorOutcome::Failed { reason } => Some((image.key.clone(), reason.clone())),
        _ => None,
    });
    failed.collect()
}

/// Whether a registry has exactly what a plan says, and every blob of it.
fn check_content(content: &Content, (plan, _): &(ShardPlan, Shards), pictures: &BTreeMap<String, Picture>) {
    let tags: BTreeMap<(String, String), String> = plan
        .items
        .iter()
        .map(|item| {
            let repository = item.repository.split_once('/').unwrap().1.to_owned();
            ((repository, item.tag.clone()), item.digest.clone())
        })
        .collect();
    assert_eq!(content.tags, tags);
    for item in &plan.items {
        let repository = item.repository.split_once('/').unwrap().1;
        let links = &content.links[repository];
        for blob in &pictures[&item.key].blobs {
            assert!(links.contains(&digest(blob)) && content.blobs[&digest(blob)] == *blob);
        }
    }
}

#[test]
fn every_blob_crosses_once_at_any_parallelism_and_a_second_run_sends_nothing() {
    for parallel in [1, 4, 16] {
        let (shop, from, to) = (Workshop::new(), Fake::start(), Fake::start());
        let pictures = pictures();
        let plan = plan_from(&from, &to.host, &pictures);
        let report = run(options(&shop), &plan, &MirrorOptions { parallel, ..how(&shop) }).unwrap();
        all_copied(&report);
        check_content(&to.content(), &plan, &pictures);
        let blobs = unique(&pictures);
        assert_eq!(from.count("GET", "/blobs/"), blobs.len(), "at {parallel}");
        assert_eq!(to.count("PUT", "digest="), blobs.len());
        assert_eq!(report.sent as usize, blobs.len());
        assert_eq!(report.sent_bytes as usize, blobs.values().sum::<usize>());
        assert_eq!(to.count("POST", "mount="), report.mounted as usize);
        assert_eq!(to.count("HEAD", "/blobs/"), blobs.len(), "what is mounted is not asked for");
        // A question and an upload for a blob, a mount for each other shard, a question for a shard and a manifest for an image.
        let most = 3 * blobs.len() + report.mounted as usize + 3 + plan.0.items.len();
        assert_eq!(to.requests().len(), most);

        let (before, pulled) = (to.requests().len(), from.requests().len());
        let again = mirrored(&shop, &plan);
        assert!(again.images.iter().all(|image| image.outcome == MirrorOutcome::Present));
        assert_eq!(from.requests().len(), pulled, "nothing is asked of the source");
        let asked = &to.requests()[before..];
        assert_eq!(asked.len(), plan.0.items.len() + 3);
        assert!(!asked.iter().any(Request::writes));
    }
}

#[test]
fn manifests_are_pulled_once_even_when_nothing_arrived() {
    let (shop, from) = (Workshop::new(), Fake::start());
    let to =
        Fake::misbehaving(|request, _| request.is("POST", "uploads").then(|| Fault::Answer(405, vec![])));
    let pictures = pictures();
    let plan = plan_from(&from, &to.host, &pictures);
    let report = mirrored(&shop, &plan);
    assert_eq!(failures(&report).len(), 10);
    let pulled = from.count("GET", "/manifests/");
    assert_eq!(pulled, 10);
    mirrored(&shop, &plan);
    assert_eq!(from.count("GET", "/manifests/"), pulled);
}

#[test]
fn nothing_is_written_when_a_plan_does_not_fit() {
    let (shop, from, to) = (Workshop::new(), Fake::start(), Fake::start());
    let pictures = pictures();
    let (plan, shards) = plan_from(&from, &to.host, &pictures);
    let refused = |plan: &ShardPlan, to: &Fake, options: &MirrorOptions| {
        let settings = ShardConfig { registry: to.host.clone(), ..plan.config.clone() };
        let shards = Shards::new(settings).unwrap();
        let error = run(crate::registry::options(&shop), &(plan.clone(), shards), options).unwrap_err();
        assert!(!to.requests().iter().any(Request::writes), "{error}");
        error
    };
    let first = plan.items[0].clone();
    let repository = first.repository.split_once('/').unwrap().1;
    let in_shard = plan.items.iter().filter(|item| item.repository == first.repository).count() as u64;

    // One tag too many, by one of others.
    to.hold(repository, "foreign", MANIFEST, &Picture::new("foreign", &[]).manifest, &[]);
    let mut full = plan.clone();
    full.config.tag_limit = in_shard;
    let error = refused(&full, &to, &how(&shop));
    assert!(matches!(&error, MirrorError::Gate { over, .. } if over[0].over == 1), "{error}");
    full.config.tag_limit = in_shard + 1;

    // Something that the plan knows as there is gone.
    let mut gone = plan.clone();
    gone.items[0].action = Action::Skip;
    let error = refused(&gone, &to, &how(&shop));
    assert!(matches!(&error, MirrorError::Drift(drift) if drift[0].now == Action::Restore), "{error}");

    // A tag of the plan names something else.
    to.hold(repository, &first.tag, MANIFEST, &Picture::new("other", &[]).manifest, &[]);
    let error = refused(&plan, &to, &how(&shop));
    assert!(matches!(&error, MirrorError::Conflicts(tags) if tags.len() == 1), "{error}");

    // Nobody knows what is there.
    let silent = Fake::misbehaving(|request, _| {
        request.is("GET", "/tags/list").then(|| Fault::Answer(500, vec![header("retry-after", "0")]))
    });
    let unknown = plan_from(&from, &silent.host, &pictures).0;
    assert!(matches!(refused(&unknown, &silent, &how(&shop)), MirrorError::Unknown(_)));

    // Accepted, the image is put back.
    to.content.lock().unwrap().tags.remove(&(repository.to_owned(), first.tag.clone()));
    let accept = MirrorOptions { accept_drift: true, ..how(&shop) };
    all_copied(&run(options(&shop), &(gone, shards), &accept).unwrap());
}

#[test]
fn a_registry_without_mounts_gets_what_it_needs() {
    // Declined with a session that has to be ended, or not known at all.
    for status in [202, 405, 401] {
        let (shop, from) = (Workshop::new(), Fake::start());
        let to = Fake::misbehaving(move |request, _| {
            let location = header("location", "/v2/x/blobs/uploads/left?_state=y");
            request.is("POST", "mount=").then(|| Fault::Answer(status, vec![location]))
        });
        let pictures = pictures();
        let plan = plan_from(&from, &to.host, &pictures);
        let report = mirrored(&shop, &plan);
        all_copied(&report);
        check_content(&to.content(), &plan, &pictures);
        let mounts = to.count("POST", "mount=");
        assert_eq!(to.count("DELETE", "/blobs/uploads/left"), if status == 202 { mounts } else { 0 });
        if status != 202 {
            assert!(mounts <= 4, "{mounts} mounts were tried after the first was refused");
        }
    }
}

#[test]
fn what_passes_is_tried_again() {
    let (shop, from) = (
        Workshop::new(),
        Fake::misbehaving(|request, before| match before {
            0 if request.is("GET", "/blobs/") => Some(Fault::Cut(500)),
            1 if request.is("GET", "/blobs/") => Some(Fault::Gone),
            0 if request.is("GET", "/manifests/") => {
                Some(Fault::Answer(503, vec![header("retry-after", "0")]))
            }
            _ => None,
        }),
    );
    let to = Fake::misbehaving(|request, before| match before {
        0 if request.writes() => Some(Fault::Answer(429, vec![header("retry-after", "0")])),
        1 if request.is("PUT", "uploads") => Some(Fault::Gone),
        2 if request.is("PUT", "uploads") => {
            Some(Fault::Answer(503, vec![header("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")]))
        }
        1 if request.is("PUT", "manifests") => Some(Fault::Gone),
        _ => None,
    });
    let pictures: BTreeMap<String, Picture> = pictures().into_iter().take(2).collect();
    let plan = plan_from(&from, &to.host, &pictures);
    all_copied(&mirrored(&shop, &plan));
    check_content(&to.content(), &plan, &pictures);
}

/// One picture of 90,000 bytes, and the digest of its layer.
fn large_picture() -> (BTreeMap<String, Picture>, String) {
    let layer: Vec<u8> = (0..90_000_u32).map(|number| (number % 251) as u8).collect();
    let pictures = BTreeMap::from([("large".to_owned(), Picture::new("large", &[&layer]))]);
    (pictures, digest(&layer))
}

#[test]
fn an_upload_that_breaks_off_goes_on_where_it_stopped() {
    let (pictures, layer) = large_picture();
    let encoded = layer.replace(':', "%3A");
    let (shop, from) = (Workshop::new(), Fake::start());
    let to = Fake::misbehaving(move |request, before| match before {
        0 if request.is("PUT", &encoded) => Some(Fault::Keep(50_000)),
        1 if request.is("PUT", &encoded) => Some(Fault::Keep(20_000)),
        _ => None,
    });
    let plan = plan_from(&from, &to.host, &pictures);
    all_copied(&mirrored(&shop, &plan));
    check_content(&to.content(), &plan, &pictures);
    let ranges: Vec<_> = to.requests().into_iter().filter_map(|request| request.content_range).collect();
    assert_eq!(ranges, ["50000-89999", "70000-89999"]);
    // One for the layer and one for the configuration.
    assert_eq!((to.content().begun, to.count("DELETE", "uploads")), (2, 0));
}

#[test]
fn an_upload_begins_anew_where_a_registry_does_not_know_or_lies() {
    let (pictures, layer) = large_picture();
    let encoded = layer.replace(':', "%3A");
    let answers = [
        (404, None),
        (204, None),
        (204, Some("0-69999")),
        (204, Some("0-18446744073709551615")),
        (204, Some("bytes 7-9")),
    ];
    for (number, (status, range)) in answers.into_iter().enumerate() {
        let (shop, from, encoded) = (Workshop::new(), Fake::start(), encoded.clone());
        let to = Fake::misbehaving(move |request, before| match before {
            0 if request.is("PUT", &encoded) => Some(Fault::Keep(50_000)),
            _ if request.is("GET", "/uploads/") => {
                let headers = range.map(|range| header("range", range)).into_iter().collect();
                Some(Fault::Answer(status, headers))
            }
            _ => None,
        });
        let plan = plan_from(&from, &to.host, &pictures);
        all_copied(&mirrored(&shop, &plan));
        check_content(&to.content(), &plan, &pictures);
        assert_eq!((to.content().begun, to.count("DELETE", "uploads")), (3, 1), "{number}");
        assert!(to.content().uploads.is_empty(), "{number}: nothing unfinished stays");
    }
}

#[test]
fn what_another_source_gave_is_not_mixed_in() {
    let (pictures, layer) = large_picture();
    let picture = &pictures["large"];
    let (shop, to) = (Workshop::new(), Fake::start());
    let wrong = layer.clone();
    let from = Fake::misbehaving(move |request, _| {
        request.is("GET", &format!("/one/blobs/{wrong}")).then_some(Fault::Changed)
    });
    let images = ["one", "two"].map(|name| {
        from.hold(name, "1", MANIFEST, &picture.manifest, &picture.blobs);
        wanted(name, format!("{}/{name}:1", from.host), &picture.manifest, MANIFEST)
    });
    let plan = planned(config(&to.host), images.to_vec());
    all_copied(&mirrored(&shop, &plan));
    assert_eq!(to.content().blobs[&layer], picture.blobs[0]);
    assert!(to.content().uploads.is_empty());
}

#[test]
fn one_host_is_asked_no_more_than_it_may_be() {
    let at_once = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let most = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let (shop, from) = (Workshop::new(), Fake::start());
    let (now, seen) = (Arc::clone(&at_once), Arc::clone(&most));
    let to = Fake::misbehaving(move |_, _| {
        use std::sync::atomic::Ordering::SeqCst;
        seen.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
        std::thread::sleep(Duration::from_millis(5));
        now.fetch_sub(1, SeqCst);
        None
    });
    let pictures = pictures();
    let plan = plan_from(&from, &to.host, &pictures);
    let options = MirrorOptions { parallel: 12, ..how(&shop) };
    all_copied(&run(RegistryOptions { per_host: 3, ..self::options(&shop) }, &plan, &options).unwrap());
    assert_eq!(most.load(std::sync::atomic::Ordering::SeqCst), 3);
}

#[test]
fn a_slow_registry_is_waited_for() {
    let (shop, from) = (Workshop::new(), Fake::start());
    let to =
        Fake::misbehaving(|request, _| (request.writes()).then(|| Fault::Late(Duration::from_millis(60))));
    let pictures = pictures();
    let plan = plan_from(&from, &to.host, &pictures);
    all_copied(&mirrored(&shop, &plan));
}

#[test]
fn an_image_that_fails_leaves_the_others_alone() {
    let pictures = pictures();
    let own = digest(&pictures["task-3"].blobs[2]);
    let gone = digest(&pictures["task-4"].blobs[2]);
    let moved = "/src/task-5/manifests/1";
    let (wrong, missing) = (own.clone(), gone.clone());
    let (shop, to) = (Workshop::new(), Fake::start());
    let from = Fake::misbehaving(move |request, _| {
        if request.is("GET", &format!("/blobs/{wrong}")) {
            return Some(Fault::Changed);
        }
        if request.is("GET", &format!("/blobs/{missing}")) {
            return Some(Fault::Answer(404, vec![]));
        }
        let elsewhere = header("docker-content-digest", &digest(b"x"));
        let answer = || Fault::Answer(200, vec![elsewhere, header("content-type", MANIFEST)]);
        request.is("HEAD", moved).then(answer)
    });
    let plan = plan_from(&from, &to.host, &pictures);
    let report = mirrored(&shop, &plan);
    let failed = failures(&report);
    assert_eq!(failed.keys().collect::<Vec<_>>(), ["task-3", "task-4", "task-5"]);
    assert!(failed["task-3"].contains("content has digest"), "{failed:?}");
    assert!(failed["task-4"].contains("404"), "{failed:?}");
    assert!(failed["task-5"].contains("plan again"), "{failed:?}");
    let content = to.content();
    assert_eq!(content.tags.len(), 7);
    assert!(!content.blobs.contains_key(&own), "content of another digest never gets there");
    let journal = std::fs::read_to_string(shop.root.path().join("journal/journal.jsonl")).unwrap();
    let events = |name: &str| journal.matches(&format!("\"event\":\"{name}\"")).count();
    assert_eq!((events("begin"), events("fail"), events("tag_ok")), (1, 3, 7));
    assert_eq!(events("blob_ok"), report.sent as usize);
}

#[test]
fn a_shard_that_takes_no_more_is_left_alone() {
    let (shop, from) = (Workshop::new(), Fake::start());
    let to = Fake::misbehaving(|request, _| {
        request.is("PUT", "/team/shard-1/manifests/").then(|| Fault::Answer(403, vec![]))
    });
    let pictures = pictures();
    let plan = plan_from(&from, &to.host, &pictures);
    let report = run(options(&shop), &plan, &MirrorOptions { parallel: 1, ..how(&shop) }).unwrap();
    let there = |shard: &str| plan.0.items.iter().filter(|item| item.repository.ends_with(shard)).count();
    assert!(there("shard-1") > 1);
    assert_eq!(failures(&report).len(), there("shard-1"));
    assert_eq!(to.count("PUT", "/team/shard-1/manifests/"), 1);
    assert_eq!(to.content().tags.len(), 10 - there("shard-1"));
}

#[test]
fn counted_pulls_are_a_budget() {
    let pictures = pictures();
    let from = Arc::new(std::sync::atomic::AtomicI64::new(6));
    let left = Arc::clone(&from);
    let counting = Fake::misbehaving(move |request, _| {
        use std::sync::atomic::Ordering;
        if !request.target.contains("/manifests/") {
            return None;
        }
        let left = match request.method.as_str() {
            "GET" => left.fetch_sub(1, Ordering::SeqCst) - 1,
            _ => left.load(Ordering::SeqCst),
        };
        assert!(left >= 0, "a pull more than is allowed");
        Some(Fault::Headers(vec![header("ratelimit-remaining", &format!("{left};w=21600"))]))
    });
    let (shop, to) = (Workshop::new(), Fake::start());
    let plan = plan_from(&counting, &to.host, &pictures);
    let deferred = |report: &MirrorReport| {
        let deferred = report.images.iter();
        deferred.filter(|image| matches!(image.outcome, MirrorOutcome::Deferred { .. })).count()
    };
    // Two of six are kept back.
    let report = mirrored(&shop, &plan);
    assert_eq!((deferred(&report), to.content().tags.len()), (6, 4));
    assert_eq!(failures(&report).len(), 0);
    let report = mirrored(&shop, &plan);
    assert_eq!((deferred(&report), counting.count("GET", "/manifests/")), (6, 4));
    from.store(100, std::sync::atomic::Ordering::SeqCst);
    let report = mirrored(&shop, &plan);
    assert_eq!((deferred(&report), to.content().tags.len()), (0, 10));
    assert_eq!(counting.count("GET", "/manifests/"), 10);
}

#[test]
fn a_registry_that_has_had_enough_is_asked_later() {
    let (shop, to) = (Workshop::new(), Fake::start());
    let from = Fake::misbehaving(|request, _| {
        request.is("GET", "/manifests/").then(|| Fault::Answer(429, vec![header("retry-after", "7200")]))
    });
    let plan = plan_from(&from, &to.host, &pictures());
    let report = mirrored(&shop, &plan);
    assert!(report.images.iter().all(
        |image| matches!(&image.outcome, MirrorOutcome::Deferred { reason } if reason.contains("7200 s"))
    ));
    assert_eq!(from.count("GET", "/manifests/"), 10, "nobody insists");
}

#[test]
fn indexes_arrive_whole_with_attestations_and_older_types() {
    let (shop, from, to) = (Workshop::new(), Fake::start(), Fake::start());
    let image = Picture::new("image", &[b"layer"]);
    let statement = b"statement".to_vec();
    let mut attestation: Value = serde_json::from_slice(&Picture::new("attestation", &[]).manifest).unwrap();
    attestation["layers"] = json!([{"mediaType": "application/vnd.in-toto+json",
        "digest": digest(&statement), "size": statement.len()}]);
    let attestation = attestation.to_string().into_bytes();
    let docker = "application/vnd.docker.distribution.manifest.list.v2+json";
    let describe = |bytes: &[u8], platform: Value| {
        json!({"mediaType": MANIFEST, "digest": digest(bytes),
        "size": bytes.len(), "platform": platform})
    };
    let index = json!({"schemaVersion": 2, "mediaType": docker, "manifests": [
        describe(&image.manifest, json!({"os": "linux", "architecture": "amd64", "variant": "v1"})),
        describe(&attestation, json!({"os": "unknown", "architecture": "unknown"})),
    ]})
    .to_string()
    .into_bytes();
    let mut blobs = image.blobs.clone();
    blobs.extend([statement, Picture::new("attestation", &[]).blobs[0].clone()]);
    from.hold("src/multi", "", MANIFEST, &image.manifest, &blobs);
    from.hold("src/multi", "", MANIFEST, &attestation, &[]);
    from.hold("src/multi", "1", docker, &index, &[]);
    let plan = planned(
        config(&to.host),
        vec![wanted("multi", format!("{}/src/multi:1", from.host), &index, docker)],
    );
    all_copied(&mirrored(&shop, &plan));
    let (found, source) = (to.content(), from.content());
    assert_eq!(found.blobs, source.blobs);
    let kinds = |content: &Content| -> BTreeMap<String, (String, Vec<u8>)> {
        content.manifests.iter().map(|((_, name), found)| (name.clone(), found.clone())).collect()
    };
    assert_eq!(kinds(&found), kinds(&source), "types and bytes stay");
    assert_eq!(found.tags.len(), 1, "children have no tags");

    // One platform of it alone, which is found in the index as long as the tag names that.
    let (shop, to) = (Workshop::new(), Fake::start());
    let registry = Registry::new(options(&shop)).unwrap();
    let source = format!("{}/src/multi:1", from.host);
    let reference: image::ImageRef = source.parse().unwrap();
    let look = |platform| {
        crate::registry::runtime().block_on(registry.look_up_platform(reference.remote().unwrap(), platform))
    };
    let one = look("linux/amd64").unwrap().unwrap();
    assert_eq!((one.digest.as_str(), one.media_type.as_str()), (&*digest(&image.manifest), MANIFEST));
    assert!(look("linux/arm64").unwrap_err().to_string().contains("offers linux/amd64"));
    let settings = ShardConfig { platform: Some("linux/amd64".into()), ..config(&to.host) };
    let plan = planned(settings, vec![wanted("multi", source, &image.manifest, MANIFEST)]);
    let pulled = from.count("GET", "/manifests/");
    all_copied(&mirrored(&shop, &plan));
    assert_eq!(from.count("GET", "/manifests/"), pulled + 1, "the index is known from planning");
    assert_eq!(to.content().blobs.len(), image.blobs.len());
    let (elsewhere, to) = (Workshop::new(), Fake::start());
    from.hold("src/multi", "1", MANIFEST, &Picture::new("other", &[]).manifest, &[]);
    let plan = planned(
        ShardConfig { registry: to.host.clone(), ..plan.0.config.clone() },
        vec![wanted("multi", plan.0.items[0].source.clone(), &image.manifest, MANIFEST)],
    );
    assert!(failures(&mirrored(&elsewhere, &plan))["multi"].contains("plan again"));
}

/// Names an image in the layout of a workshop.
fn write_index(shop: &Workshop, name: &str, kind: &str, manifest: &[u8]) {
    let root = shop.root.path().join("layout");
    let named = json!({ "mediaType": kind, "digest": digest(manifest), "size": manifest.len(),
        "annotations": { "org.opencontainers.image.ref.name": name } });
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [named] });
    std::fs::write(root.join("index.json"), index.to_string()).unwrap();
    std::fs::write(root.join("oci-layout"), "{\"imageLayoutVersion\":\"1.0.0\"}").unwrap();
}

#[test]
fn an_image_of_a_layout_takes_its_base_from_the_registry_that_has_it() {
    let (shop, from, to) = (Workshop::new(), Fake::start(), Fake::start());
    let base = Picture::new("base", &[b"base layer"]);
    from.hold("src/base", "1", MANIFEST, &base.manifest, &base.blobs);
    let own = Picture::new("task", &[b"base layer", b"own layer"]);
    let mut manifest: Value = serde_json::from_slice(&own.manifest).unwrap();
    manifest["annotations"] =
        json!({"org.opencontainers.image.base.name": format!("{}/src/base:1", from.host)});
    let manifest = manifest.to_string().into_bytes();
    let blobs = shop.root.path().join("layout/blobs/sha256");
    std::fs::create_dir_all(&blobs).unwrap();
    for bytes in own.blobs[1..].iter().chain([&manifest]) {
        std::fs::write(blobs.join(&digest(bytes)[7..]), bytes).unwrap();
    }
    write_index(&shop, "task", MANIFEST, &manifest);
    let plan =
        planned(config(&to.host), vec![wanted("task", format!("{IN_LAYOUT}task"), &manifest, MANIFEST)]);
    all_copied(&mirrored(&shop, &plan));
    assert_eq!(to.content().blobs.len(), 3);
    assert_eq!(from.count("GET", "/blobs/"), 1);

    // Nothing follows a link out of a layout.
    let (other, shop) = (Fake::start(), Workshop::new());
    let blobs = shop.root.path().join("layout/blobs/sha256");
    std::fs::create_dir_all(&blobs).unwrap();
    let outside = shop.write("manifest", &manifest);
    std::os::unix::fs::symlink(outside, blobs.join(&digest(&manifest)[7..])).unwrap();
    write_index(&shop, "task", MANIFEST, &manifest);
    let plan =
        planned(config(&other.host), vec![wanted("task", format!("{IN_LAYOUT}task"), &manifest, MANIFEST)]);
    assert!(failures(&mirrored(&shop, &plan))["task"].contains("no layout"));
}

#[test]
fn a_source_at_the_same_registry_is_mounted_from() {
    let (shop, both) = (Workshop::new(), Fake::start());
    let pictures = pictures();
    let plan = plan_from(&both, &both.host, &pictures);
    let report = mirrored(&shop, &plan);
    all_copied(&report);
    assert_eq!((report.sent, both.count("PUT", "digest=")), (0, 0));
}

#[test]
fn new_images_take_what_older_ones_brought_even_without_a_journal() {
    let (shop, from, to) = (Workshop::new(), Fake::start(), Fake::start());
    let mut pictures = pictures();
    let last = pictures.remove("task-9").unwrap();
    all_copied(&mirrored(&shop, &plan_from(&from, &to.host, &pictures)));
    pictures.insert("task-9".into(), last);
    let (mut plan, shards) = plan_from(&from, &to.host, &pictures);
    for item in plan.items.iter_mut().filter(|item| item.key != "task-9") {
        item.action = Action::Skip;
    }
    // Another machine, where nothing is known of what was done.
    let elsewhere = Workshop::new();
    let report = mirrored(&elsewhere, &(plan, shards));
    assert_eq!(report.sent, 2, "its own layer and configuration are sent");
    assert_eq!(report.mounted + report.found, 2);
}

#[test]
fn one_mirror_of_a_namespace_at_a_time() {
    let (shop, from, to) = (Workshop::new(), Fake::start(), Fake::start());
    let plan = plan_from(&from, &to.host, &pictures());
    let journal = shop.root.path().join("journal");
    std::fs::create_dir_all(&journal).unwrap();
    let lock = std::fs::File::create(journal.join("lock")).unwrap();
    lock.lock().unwrap();
    assert!(matches!(run(options(&shop), &plan, &how(&shop)), Err(MirrorError::Locked(_))));
    assert_eq!(to.requests(), []);
    drop(lock);
    all_copied(&mirrored(&shop, &plan));
}

/// A registry that wants tokens, and gives each for the first of the scopes that it is asked for, or for all.
fn with_tokens(single_scope: bool) -> (Fake, crate::registry::Server) {
    let tokens = crate::registry::Server::start(move |asked, _| {
        let scopes: Vec<&str> =
            asked.path.split(['?', '&']).filter_map(|part| part.strip_prefix("scope=")).collect();
        let granted = if single_scope { &scopes[..1] } else { &scopes[..] };
        let token = granted.join("+").replace("%3A", ":").replace("%2F", "/").replace("%2C", ",");
        (
            200,
            vec![],
            format!("{{\"token\":\"{token}\",\"access_token\":\"{token}\",\"expires_in\":300}}").into_bytes(),
        )
    });
    let realm = tokens.host.clone();
    let fake = Fake::misbehaving(move |request, _| {
        let repository = request.target.strip_prefix("/v2/")?.split(['?']).next()?;
        let end = ["/tags/", "/blobs/", "/manifests/"].iter().find_map(|part| repository.find(part))?;
        let action = if request.writes() || request.method == "DELETE" { "pull,push" } else { "pull" };
        let mut needed = vec![format!("repository:{}:{action}", &repository[..end])];
        if let Some((_, from)) = request.target.split_once("from=") {
            needed.push(format!("repository:{}:pull", from.replace("%2F", "/")));
        }
        let has = request.authorization.as_deref().unwrap_or_default();
        let allows = |scope: &String| {
            let (name, wanted) = scope.rsplit_once(':').unwrap();
            let granted = has.trim_start_matches("Bearer ").split('+');
            granted
                .filter_map(|grant| grant.rsplit_once(':'))
                .any(|(other, actions)| other == name && (actions == wanted || actions == "pull,push"))
        };
        if needed.iter().all(allows) {
            return None;
        }
        let challenge = format!("Bearer realm=\"http://{realm}/token\",service=\"me\"");
        Some(Fault::Answer(401, vec![header("www-authenticate", &challenge)]))
    });
    (fake, tokens)
}

#[test]
fn mounts_ask_for_both_scopes_in_one_token() {
    for single_scope in [false, true] {
        let (shop, from, (to, tokens)) = (Workshop::new(), Fake::start(), with_tokens(single_scope));
        let pictures = pictures();
        let plan = plan_from(&from, &to.host, &pictures);
        let report = mirrored(&shop, &plan);
        all_copied(&report);
        check_content(&to.content(), &plan, &pictures);
        assert_eq!(report.mounted == 0, single_scope);
        let asked: Vec<String> = tokens.asked().into_iter().map(|asked| asked.path).collect();
        let distinct: BTreeSet<&String> = asked.iter().collect();
        if !single_scope {
            assert_eq!(distinct.len(), asked.len(), "a token is asked for once: {asked:#?}");
            assert!(asked.iter().any(|path| path.matches("scope=").count() == 2));
        }
    }
}

#[test]
fn a_token_that_runs_out_is_renewed_once() {
    let renewed = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = Arc::clone(&renewed);
    let tokens = crate::registry::Server::start(move |_, _| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        (200, vec![], format!("{{\"token\":\"t{number}\"}}").into_bytes())
    });
    let (realm, latest) = (tokens.host.clone(), Arc::clone(&renewed));
    let uses = std::sync::atomic::AtomicUsize::new(0);
    let to = Fake::misbehaving(move |request, _| {
        use std::sync::atomic::Ordering::SeqCst;
        let number = latest.load(SeqCst);
        let good = number > 0 && request.authorization.is_some();
        // Now and then a token is not accepted any more, in the middle of uploads too.
        if good && uses.fetch_add(1, SeqCst) % 7 != 6 {
            return None;
        }
        let challenge = format!("Bearer realm=\"http://{realm}/token\"");
        Some(Fault::Answer(401, vec![header("www-authenticate", &challenge)]))
    });
    let (shop, from) = (Workshop::new(), Fake::start());
    let plan = plan_from(&from, &to.host, &pictures());
    let report = run(options(&shop), &plan, &MirrorOptions { parallel: 1, ..how(&shop) }).unwrap();
    all_copied(&report);
}

fn seen(
    registry: RegistryOptions,
    (plan, shards): &(ShardPlan, Shards),
    deep: bool,
    patience: Duration,
) -> VerifyReport {
    let registry = Registry::new(registry).unwrap();
    let options = VerifyOptions { deep, patience, parallel: 4 };
    let progress = Progress::default();
    let work = verify(&registry, plan, shards, &options, &progress);
    crate::registry::runtime().block_on(work).unwrap()
}

fn problems(report: &VerifyReport) -> BTreeMap<&str, &str> {
    let images = report.images.iter();
    images.filter_map(|image| Some((image.key.as_str(), image.problem.as_deref()?))).collect()
}

#[test]
fn what_is_wrong_at_a_registry_is_seen() {
    let (shop, from, to) = (Workshop::new(), Fake::start(), Fake::start());
    let pictures = pictures();
    let plan = plan_from(&from, &to.host, &pictures);
    all_copied(&mirrored(&shop, &plan));
    let look = |deep| seen(options(&shop), &plan, deep, Duration::ZERO);
    let good = look(true);
    assert_eq!((problems(&good), good.over.len()), (BTreeMap::new(), 0));
    assert_eq!(good.placed().len(), 10);
    assert_eq!(good.blobs as usize, unique(&pictures).len());
    assert_eq!(good.bytes as usize, unique(&pictures).values().sum::<usize>());
    {
        let mut content = to.content.lock().unwrap();
        let place = |key: &str| {
            let item = plan.0.items.iter().find(|item| item.key == key).unwrap();
            (item.repository.split_once('/').unwrap().1.to_owned(), item.tag.clone())
        };
        content.tags.remove(&place("task-1"));
        let (repository, tag) = place("task-2");
        let other = Picture::new("other", &[]).manifest;
        content.tags.insert((repository.clone(), tag), digest(&other));
        content.manifests.insert((repository, digest(&other)), (MANIFEST.into(), other));
        let of = |key: &str, number: usize| digest(&pictures[key].blobs[number]);
        content.blobs.get_mut(&of("task-4", 2)).unwrap()[0] ^= 1;
        content.links.get_mut(&place("task-5").0).unwrap().remove(&of("task-5", 2));
    }
    assert_eq!(problems(&look(false)).keys().collect::<Vec<_>>(), [&"task-1", &"task-2"]);
    let found = look(true);
    let problems = problems(&found);
    assert_eq!(problems["task-1"], "is not there");
    assert!(problems["task-2"].contains("instead"), "{problems:?}");
    assert!(problems["task-4"].contains("content has digest"), "{problems:?}");
    assert!(problems["task-5"].contains("404"), "{problems:?}");
    assert_eq!((problems.len(), found.placed().len()), (4, 6));
}

#[test]
fn tags_that_are_seen_late_are_waited_for() {
    let (shop, from) = (Workshop::new(), Fake::start());
    let to = Fake::misbehaving(|request, before| {
        (request.is("HEAD", "/manifests/") && before < 2).then(|| Fault::Answer(404, vec![]))
    });
    let pictures = pictures();
    let plan = plan_from(&from, &to.host, &pictures);
    all_copied(&mirrored(&shop, &plan));
    let report = seen(options(&shop), &plan, false, Duration::from_secs(60));
    assert_eq!(problems(&report), BTreeMap::new());
    let foreign = Picture::new("foreign", &[]);
    to.hold("team/shard-0", "foreign", MANIFEST, &foreign.manifest, &[]);
    let mut full = plan.clone();
    full.0.config.tag_limit = 1;
    assert!(seen(options(&shop), &full, false, Duration::ZERO).over["shard-0"] > 1);
}

#[test]
fn between_real_registries_the_second_one_with_a_password() {
    let (Some(from), Some(to)) = (RealRegistry::start(false), RealRegistry::start(true)) else { return };
    let shop = Workshop::new();
    let sample = crate::sample::sample();
    let credentials = log_in(&shop, &to.host, "c2FpbG9yOm9wZW4gc2VzYW1l");
    let settings = || RegistryOptions { credentials: credentials.clone(), ..options(&shop) };
    let registry = Registry::new(settings()).unwrap();
    from.push("team/sample", &sample, None);
    write_layout(&shop.root.path().join("layout"), &sample);
    let source = format!("{}/team/sample", from.host);
    let images = vec![
        wanted("one", format!("{source}:1"), &sample.index, INDEX),
        wanted("two", format!("{source}:1"), &sample.index, INDEX),
        wanted("three", format!("{source}:plain"), &sample.manifest, MANIFEST),
        wanted("four", format!("{IN_LAYOUT}sample:1"), &sample.index, INDEX),
        wanted("five", format!("{source}:1"), &sample.index, INDEX),
    ];
    let plan = planned(config(&to.host), images);
    let shards: BTreeSet<&String> = plan.0.items.iter().map(|item| &item.repository).collect();
    assert!(shards.len() > 1);
    let report = run(settings(), &plan, &how(&shop)).unwrap();
    all_copied(&report);
    assert_eq!((report.sent, report.found), (sample.blobs.len() as u64, 0));
    assert_eq!(report.mounted as usize, sample.blobs.len() * (shards.len() - 1));
    let tags = plan.0.items.iter().map(|item| item.tag.clone()).collect();
    let runtime = crate::registry::runtime();
    let live = runtime.block_on(registry.snapshot(&plan.1, &tags)).unwrap();
    let now = image::shards::recheck(&plan.0, &plan.1, &live).unwrap();
    assert!(now.actions.iter().all(|action| *action == Action::Skip));
    let again = run(settings(), &plan, &how(&shop)).unwrap();
    assert_eq!((again.sent, again.mounted, again.found), (0, 0, 0));
    let report = seen(settings(), &plan, true, Duration::ZERO);
    assert_eq!((problems(&report), report.blobs as usize), (BTreeMap::new(), sample.blobs.len()));
    let anonymous = run(options(&shop), &plan, &how(&shop)).unwrap_err();
    assert!(matches!(anonymous, MirrorError::Unknown(_)), "{anonymous}");
    assert!(is_text(&shop.root.path().join("journal/journal.jsonl"), "open sesame").is_none());
}

/// A text in a file, if it is there.
fn is_text(path: &Path, text: &str) -> Option<usize> {
    std::fs::read_to_string(path).unwrap().find(text)
}
