use proptest::prelude::*;
use record::{Overflow, Placement};

use super::super::config::tests::config;
use super::super::desired::tests::{digest, task};
use super::super::diff;
use super::*;

fn make(config: &ShardConfig, images: &[Wanted], snapshot: &Snapshot, placed: &[PlacedImage]) -> ShardPlan {
    try_make(config, images, snapshot, placed, false).unwrap()
}

fn try_make(
    config: &ShardConfig,
    images: &[Wanted],
    snapshot: &Snapshot,
    placed: &[PlacedImage],
    rehome: bool,
) -> Result<ShardPlan, PlanError> {
    let desired = Desired::new(images.to_vec()).unwrap();
    let inputs = BTreeMap::new();
    let shards = Shards::new(config.clone()).unwrap();
    plan(&PlanRequest {
        shards: &shards,
        desired: &desired,
        snapshot,
        placed,
        inputs: &inputs,
        missing: &[],
        rehome,
    })
}

fn tasks(count: usize) -> Vec<Wanted> {
    (0..count).map(|number| task(&format!("task-{number}"))).collect()
}

/// The rows of a plan that was carried out, and the registry afterwards.
fn carried_out(plan: &ShardPlan, mut snapshot: Snapshot) -> (Vec<PlacedImage>, Snapshot) {
    let shards = Shards::new(plan.config.clone()).unwrap();
    let placed = plan.items.iter().map(|item| {
        let number = shards.numbers().find(|number| shards.repository(*number) == item.repository).unwrap();
        snapshot.insert(number, item.tag.clone(), Some(item.digest.clone()));
        PlacedImage {
            kind: item.kind,
            key: item.key.clone(),
            repository: item.repository.clone(),
            tag: item.tag.clone(),
            digest: item.digest.clone(),
        }
    });
    let placed = placed.collect();
    (placed, snapshot)
}

fn repository(config: &ShardConfig, number: u32) -> String {
    Shards::new(config.clone()).unwrap().repository(number)
}

/// A snapshot in which tags of others fill a shard.
fn filled(shards: u32, shard: u32, count: u64) -> Snapshot {
    let mut snapshot = Snapshot::empty(shards);
    for number in 0..count {
        snapshot.insert(shard, format!("foreign-{number}"), None);
    }
    snapshot
}

#[test]
fn the_limit_may_be_reached_and_not_passed() {
    let (config, images) = (config(1, 100), tasks(40));
    let reached = make(&config, &images, &filled(1, 0, 60), &[]);
    assert!(reached.gate.ok);
    assert_eq!(
        (reached.shards[0].live, reached.shards[0].foreign, reached.shards[0].projected),
        (60, 60, 100)
    );

    let passed = make(&config, &images, &filled(1, 0, 61), &[]);
    assert!(!passed.gate.ok);
    let over = &passed.gate.over[0];
    assert_eq!((over.projected, over.over, over.first.len()), (101, 1, 5));
    assert_eq!(over.shard, "task-00");
}

#[test]
fn what_is_there_is_left_where_it_is() {
    let config = config(8, 100);
    let image = task("a");
    let home =
        make(&config, std::slice::from_ref(&image), &Snapshot::empty(8), &[]).items[0].repository.clone();
    let elsewhere = (0..8).find(|shard| repository(&config, *shard) != home).unwrap();
    let mut snapshot = Snapshot::empty(8);
    snapshot.insert(elsewhere, "a", Some(image.digest.clone()));
    let plan = make(&config, std::slice::from_ref(&image), &snapshot, &[]);
    assert_eq!((plan.items[0].action, plan.items[0].reason), (Action::Skip, Reason::Adopted));
    assert_eq!(plan.items[0].repository, repository(&config, elsewhere));
    assert_eq!(plan.shards[elsewhere as usize].foreign, 0);

    // At home too: the home counts, and the other one is named.
    let at_home = (0..8).find(|shard| repository(&config, *shard) == home).unwrap();
    snapshot.insert(at_home, "a", Some(image.digest.clone()));
    let plan = make(&config, std::slice::from_ref(&image), &snapshot, &[]);
    assert_eq!(plan.items[0].repository, home);
    assert_eq!(plan.duplicates[0].others, [repository(&config, elsewhere)]);
    // All of them count.
    assert_eq!(plan.shards.iter().map(|shard| shard.projected).sum::<u64>(), 2);
}

#[test]
fn an_accepted_place_is_kept_and_restored() {
    let config = config(8, 100);
    let image = task("a");
    let row = PlacedImage {
        kind: ImageKind::Task,
        key: "a".into(),
        repository: repository(&config, 5),
        tag: "name-of-before".into(),
        digest: image.digest.clone(),
    };
    let rows = std::slice::from_ref(&row);
    let gone = make(&config, std::slice::from_ref(&image), &Snapshot::empty(8), rows);
    assert_eq!((gone.items[0].action, gone.items[0].tag.as_str()), (Action::Restore, "name-of-before"));
    assert_eq!(gone.items[0].repository, repository(&config, 5));

    let mut snapshot = Snapshot::empty(8);
    snapshot.insert(5, "name-of-before", Some(image.digest.clone()));
    let there = make(&config, std::slice::from_ref(&image), &snapshot, rows);
    assert_eq!((there.items[0].action, there.items[0].reason), (Action::Skip, Reason::Accepted));
    assert_eq!(there.shards[5].foreign, 0);

    let fewer = ShardConfig { shards: 4, ..config.clone() };
    let lost = try_make(&fewer, std::slice::from_ref(&image), &Snapshot::empty(4), rows, false).unwrap_err();
    assert!(lost.to_string().contains("--rehome"), "{lost}");
    let home = try_make(&fewer, std::slice::from_ref(&image), &Snapshot::empty(4), rows, true).unwrap();
    assert_eq!(home.items[0].reason, Reason::Home);
}

#[test]
fn a_tag_of_another_image_is_a_conflict() {
    let config = config(1, 100);
    let image = task("a");
    let mut snapshot = Snapshot::empty(1);
    snapshot.insert(0, "a", Some(digest("another")));
    let refused = make(&config, std::slice::from_ref(&image), &snapshot, &[]);
    assert_eq!(refused.conflicts().count(), 1);
    // Moving a tag adds none.
    let moved = ShardConfig { overwrite: true, ..config };
    let allowed = make(&moved, std::slice::from_ref(&image), &snapshot, &[]);
    assert_eq!(allowed.items[0].action, Action::Retag);
    assert_eq!(allowed.shards[0].projected, 1);
}

#[test]
fn tags_that_differ_in_case_only_are_refused() {
    let error = try_make(&config(1, 100), &[task("Alpha"), task("alpha")], &Snapshot::empty(1), &[], false);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("`Alpha` and `alpha`"), "{error}");
}

#[test]
fn a_full_home_sends_images_on_when_that_is_allowed() {
    let strict = config(4, 3);
    let images = tasks(12);
    assert!(!make(&strict, &images, &Snapshot::empty(4), &[]).gate.ok);
    let probing = ShardConfig { overflow: Overflow::Probe, ..strict };
    let plan = make(&probing, &images, &Snapshot::empty(4), &[]);
    assert!(plan.gate.ok, "{:?}", plan.gate);
    assert_eq!(plan.gate.worst, 3);
    assert!(plan.items.iter().any(|item| item.reason == Reason::Probed));
    // One more than there is room for stays at home, and the gate says so.
    assert!(!make(&probing, &tasks(13), &Snapshot::empty(4), &[]).gate.ok);
}

#[test]
fn a_group_starts_in_one_shard() {
    let grouped = ShardConfig { placement: Placement::Group, ..config(16, 100) };
    let base = Wanted { kind: ImageKind::Baseanchor, group: "base".into(), ..task("base") };
    let mut images = tasks(9);
    images.push(base);
    let plan = make(&grouped, &images, &Snapshot::empty(16), &[]);
    let places: BTreeSet<&str> = plan.items.iter().map(|item| item.repository.as_str()).collect();
    assert_eq!(places.len(), 1);
}

#[test]
fn a_refusal_says_what_a_new_start_would_move() {
    let config = config(2, 20);
    let images = tasks(30);
    // All in one shard, from other settings.
    let placed: Vec<PlacedImage> = images
        .iter()
        .map(|image| PlacedImage {
            kind: image.kind,
            key: image.key.clone(),
            repository: repository(&config, 0),
            tag: image.tag(),
            digest: image.digest.clone(),
        })
        .collect();
    let plan = make(&config, &images, &Snapshot::empty(2), &placed);
    assert!(!plan.gate.ok);
    let moves = plan.gate.rehome_moves.unwrap();
    assert!((10..=20).contains(&moves), "{moves}");
}

#[test]
fn pulls_from_the_counting_registry_are_counted() {
    let from = |key: &str, source: &str| Wanted { source: source.into(), ..task(key) };
    let images = [
        from("a", "docker.io/library/debian:bookworm"),
        from("b", "debian:trixie"),
        from("c", "registry.invalid/x/y:z"),
    ];
    let plan = make(&config(1, 9), &images, &Snapshot::empty(1), &[]);
    assert_eq!(plan.hub_budget, HubBudget { counted_gets: 2, window_sec: 21_600 });
}

#[test]
fn a_snapshot_of_other_shards_is_refused() {
    assert!(try_make(&config(2, 9), &[], &Snapshot::empty(3), &[], false).is_err());
}

/// How far hashing and probing go over 80 shards of 100 tags.
#[test]
fn hashing_holds_what_it_is_known_to_hold() {
    for (count, worst) in [(267, 8..=12), (1_300, 24..=34), (3_748, 55..=80)] {
        let hashed = make(&config(80, 100), &tasks(count), &Snapshot::empty(80), &[]);
        assert!(hashed.gate.ok && worst.contains(&hashed.gate.worst), "{count}: {}", hashed.gate.worst);
    }
    let probing = ShardConfig { overflow: Overflow::Probe, ..config(80, 100) };
    let full = make(&probing, &tasks(8_000), &Snapshot::empty(80), &[]);
    assert!(full.gate.ok && full.gate.worst == 100);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn order_changes_nothing_and_more_images_move_none(
        count in 1_usize..60, more in 0_usize..40, probe in any::<bool>(), seed in any::<u64>(),
    ) {
        let overflow = if probe { Overflow::Probe } else { Overflow::Fail };
        let config = ShardConfig { overflow, ..config(7, 20) };
        let images = tasks(count);
        let mut shuffled = images.clone();
        shuffled.rotate_left(usize::try_from(seed % count as u64).unwrap());
        shuffled.reverse();
        let first = make(&config, &images, &Snapshot::empty(7), &[]);
        prop_assert_eq!(&first, &make(&config, &shuffled, &Snapshot::empty(7), &[]));

        let (placed, live) = carried_out(&first, Snapshot::empty(7));
        let second = make(&config, &tasks(count + more), &live, &placed);
        let difference = diff(&first, &second);
        prop_assert!(difference.moved.is_empty() && difference.removed.is_empty());
        prop_assert_eq!(difference.added.len(), more);
        for item in second.items.iter().filter(|item| first.items.iter().any(|old| old.key == item.key)) {
            prop_assert_eq!(item.action, Action::Skip);
        }
        // Sums: every tag is live, or pending once.
        let projected: u64 = second.shards.iter().map(|shard| shard.projected).sum();
        prop_assert_eq!(projected, (count + more) as u64);
        if probe {
            prop_assert_eq!(second.gate.ok, count + more <= 140);
        }
    }
}
