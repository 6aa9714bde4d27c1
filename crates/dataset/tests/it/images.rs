//! Images of frozen tasks.

use std::collections::BTreeMap;

use dataset::{DatasetError, ImageForm, RegistryImages, frozen_images};
use image::shards::{Desired, PlanRequest, ShardPlan, Shards, Snapshot, Wanted, plan};
use record::{
    ImageKind, MaterializedTask, Overflow, PlacedImage, Placement, ShardConfig, Split, UnbuiltImage,
};

use crate::project::Project;

const BASE: &str = "registry.invalid/base:1";

/// A plan of one shard for the images of these kinds and keys.
fn planned(images: &[(ImageKind, &str)]) -> ShardPlan {
    let config = ShardConfig {
        registry: "own.invalid".into(),
        namespace: "set".into(),
        shard_template: "task-{:02}".into(),
        shards: 1,
        tag_limit: 100,
        placement: Placement::Hash,
        overflow: Overflow::Fail,
        create_repositories: true,
        overwrite: false,
        hash_version: "v1".into(),
        platform: None,
        sources: Vec::new(),
    };
    let wanted = images.iter().map(|(kind, key)| Wanted {
        kind: *kind,
        key: (*key).into(),
        source: "somewhere".into(),
        digest: ident::Digest::of(key).prefixed(),
        media_type: "application/vnd.oci.image.manifest.v1+json".into(),
        group: BASE.into(),
    });
    plan(&PlanRequest {
        shards: &Shards::new(config).unwrap(),
        desired: &Desired::new(wanted).unwrap(),
        snapshot: &Snapshot::new(vec![BTreeMap::new()]),
        placed: &[],
        inputs: &BTreeMap::new(),
        missing: &[],
        rehome: false,
    })
    .unwrap()
}

fn seen(plan: &ShardPlan) -> Vec<PlacedImage> {
    let items = plan.items.iter();
    items
        .map(|item| PlacedImage {
            kind: item.kind,
            key: item.key.clone(),
            repository: item.repository.clone(),
            tag: item.tag.clone(),
            digest: item.digest.clone(),
        })
        .collect()
}

fn registry<'a>(plan: &'a ShardPlan, placed: &'a [PlacedImage]) -> RegistryImages<'a> {
    RegistryImages { planned: &plan.items, placed, unbuilt: &[] }
}

fn tasks() -> Vec<MaterializedTask> {
    Project::new(&[("o/a", Split::Train), ("o/b", Split::Test)]).materialized.tasks
}

#[test]
fn an_image_of_the_task_comes_before_that_of_its_base() {
    let tasks = tasks();
    let [own, other] = [0, 1].map(|n| tasks[n].task_id.clone());
    let plan = planned(&[(ImageKind::Task, own.as_str()), (ImageKind::Baseanchor, BASE)]);
    let images = frozen_images(&tasks, Some(registry(&plan, &seen(&plan)))).unwrap();
    assert_eq!((images[&own].form, images[&other].form), (ImageForm::Task, ImageForm::Base));
    let digest = ident::Digest::of(own.as_str()).prefixed();
    let reference = images[&own].reference.clone().unwrap();
    assert!(reference.starts_with("own.invalid/set/task-00:") && reference.ends_with(&format!("@{digest}")));
    assert!(images.values().all(|image| image.verified));
}

#[test]
fn every_task_whose_image_was_not_seen_is_named() {
    let tasks = tasks();
    let plan = planned(&[(ImageKind::Task, tasks[0].task_id.as_str())]);
    let mut elsewhere = seen(&plan);
    elsewhere[0].digest = ident::Digest::of("an older build").prefixed();
    for placed in [&[][..], &elsewhere] {
        let error = frozen_images(&tasks, Some(registry(&plan, placed))).unwrap_err();
        let DatasetError::Images(gaps) = &error else { panic!("{error}") };
        assert_eq!(gaps.len(), 2);
        let text = error.to_string();
        assert!(
            text.contains("was not seen with") && text.contains("plans neither its image nor its base"),
            "{text}"
        );
        assert!(tasks.iter().all(|task| text.contains(task.task_id.as_str())), "{text}");
    }
}

#[test]
fn without_a_registry_the_form_says_what_there_is() {
    let mut tasks = tasks();
    let mut form = |base: &str| {
        tasks[0].base_image = base.into();
        let image = frozen_images(&tasks[..1], None).unwrap().remove(&tasks[0].task_id).unwrap();
        assert!(!image.verified);
        (image.form, image.reference)
    };
    assert_eq!(form("seatrial.local/host"), (ImageForm::Host, None));
    assert_eq!(form("seatrial.local/tools"), (ImageForm::Project, None));
    assert_eq!(form("scratch"), (ImageForm::Empty, None));
    assert_eq!(form("debian:12"), (ImageForm::Base, Some("docker.io/library/debian:12".into())));
}

#[test]
fn what_no_registry_can_have_needs_none() {
    let mut tasks = tasks();
    tasks[0].base_image = "seatrial.local/host".into();
    let plan = planned(&[(ImageKind::Baseanchor, BASE)]);
    let images = frozen_images(&tasks, Some(registry(&plan, &seen(&plan)))).unwrap();
    assert_eq!(images[&tasks[0].task_id].form, ImageForm::Host);
    // A base that the project builds can be had by others only when its registry has it.
    tasks[0].base_image = "seatrial.local/tools".into();
    assert!(frozen_images(&tasks, Some(registry(&plan, &seen(&plan)))).is_err());
    // On the machine's own system even that cannot be.
    let unbuilt = [UnbuiltImage {
        kind: ImageKind::Task,
        key: tasks[0].task_id.to_string(),
        reason: "it stands on the host".into(),
        intended: true,
    }];
    let seen = seen(&plan);
    let without = RegistryImages { unbuilt: &unbuilt, ..registry(&plan, &seen) };
    let images = frozen_images(&tasks, Some(without)).unwrap();
    assert_eq!(images[&tasks[0].task_id].form, ImageForm::Project);
}
