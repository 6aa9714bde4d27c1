//! Images that a project builds for itself.

use std::collections::BTreeSet;

use prove::cheats::CHEATS;

use crate::project::{Project, sandboxes_run};

/// A module that the interpreter finds by itself in the image and nowhere else, and a clean tree that needs it.
fn project_with_base() -> Project {
    let project = Project::quick();
    project.edit("seatrial.toml", "seatrial.local/host", "seatrial.local/site");
    let recipe = String::from_utf8(project.read("seatrial.toml")).unwrap();
    std::fs::write(project.path("seatrial.toml"), format!("{recipe}\n[bases]\nsite = \"bases/site\"\n"))
        .unwrap();
    std::fs::create_dir_all(project.path("bases/site")).unwrap();
    std::fs::write(project.path("bases/site/note"), "1").unwrap();
    let dockerfile = "FROM seatrial.local/host\nCOPY note /opt/seatrial-note\nRUN [\"test\", \"-s\", \"/opt/seatrial-note\"]\n";
    std::fs::write(project.path("bases/site/Dockerfile"), dockerfile).unwrap();
    project
}

fn image_digests(project: &Project) -> BTreeSet<String> {
    let proofs = project.json("proofs.json");
    let tasks = proofs["tasks"].as_array().unwrap();
    tasks.iter().map(|task| task["image_digest"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn tasks_start_from_an_image_of_the_project() {
    if !sandboxes_run() {
        return;
    }
    let project = project_with_base();
    project.up();
    let manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(project.frozen().join("manifest.json")).unwrap()).unwrap();
    let tasks = manifest["tasks"].as_array().unwrap();
    assert!(!tasks.is_empty());
    assert!(tasks.iter().all(|task| task["portable"] == false), "{manifest}");

    // As it was: nothing runs. With another content: other images, so everything is proved again.
    let (trials, before) = (project.trials().len(), image_digests(&project));
    project.run(&["prove"]);
    assert_eq!(project.trials().len(), trials);
    std::fs::write(project.path("bases/site/note"), "2").unwrap();
    project.run(&["prove"]);
    assert_eq!(project.trials().len(), 2 * trials);
    assert!(image_digests(&project).is_disjoint(&before), "{before:?}");

    // A command that needs no recipe knows the bases all the same.
    let ran = project.run(&["run", "--json", "-p", "tasks", "-a", "nop", "--job-name", "again"]).json_lines();
    assert!(ran.iter().all(|line| line["outcome"]["failed"].is_null()), "{ran:?}");
}

/// What was seen of cheats on one base says nothing about another one under the same name.
#[test]
fn cheats_are_tried_again_on_a_base_that_changed() {
    if !sandboxes_run() {
        return;
    }
    let project = project_with_base();
    project.edit("seatrial.toml", "cheats = \"off\"", "cheats = \"per-verifier\"");
    for stage in [&["source", "pull"][..], &["plan"], &["materialize"], &["check"]] {
        project.run(stage).with_code(0);
    }
    let task = project.json("plan.json")["tasks"][0]["task_id"].as_str().unwrap().to_owned();
    let prove = |note: &str| {
        std::fs::write(project.path("bases/site/note"), note).unwrap();
        project.run(&["prove", "--task", &task, "-j", "2"]);
        let proofs = project.json("proofs.json");
        let proved = proofs["tasks"].as_array().unwrap().iter().find(|proved| proved["task_id"] == *task);
        let proved = proved.unwrap();
        assert_eq!(proved["verdict"]["status"], "accepted", "{proved}");
        (project.trials().len(), proved["cheat_group"].clone())
    };
    let (first, group) = prove("1");
    assert_eq!(first, 1 + 1 + CHEATS.len());
    assert_eq!(prove("1"), (first, group.clone()));
    let (second, other_group) = prove("2");
    assert_eq!(second, 2 * first);
    assert_ne!(group, other_group);
    // As it was before, everything is known.
    assert_eq!(prove("1"), (second, group));
}

#[test]
fn a_base_that_cannot_be_built_is_said_to_be_why() {
    if !sandboxes_run() {
        return;
    }
    let project = project_with_base();
    std::fs::write(project.path("bases/site/note"), "").unwrap();
    for stage in [&["source", "pull"][..], &["plan"], &["materialize"], &["check"]] {
        project.run(stage).with_code(0);
    }
    project.run(&["prove", "-j", "2"]).with_code(1);
    let proofs = project.json("proofs.json");
    for task in proofs["tasks"].as_array().unwrap() {
        let (reason, detail) = (&task["verdict"]["reason"], task["verdict"]["detail"].as_str().unwrap());
        assert_eq!(reason, "environment_build_failed", "{task}");
        assert!(detail.contains("bases/site/Dockerfile") && detail.contains("RUN"), "{detail}");
    }
}
