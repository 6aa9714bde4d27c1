//! What a proof is asked for beside the recipe: single tasks, batches, more runs.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::project::{Project, sandboxes_run};

/// A project whose tasks wait for their proof.
fn prepared(change: impl Fn(&Project)) -> Project {
    let project = Project::quick();
    change(&project);
    for stage in [&["source", "pull"][..], &["plan"], &["materialize"], &["check"]] {
        project.run(stage).with_code(0);
    }
    project
}

/// The planned tasks, primaries before reserves.
fn planned(project: &Project) -> Vec<String> {
    let documents = ["plan.json", "reserves.json"].map(|name| project.json(name));
    let tasks = documents.iter().flat_map(|document| document["tasks"].as_array().unwrap());
    tasks.map(|task| task["task_id"].as_str().unwrap().to_owned()).collect()
}

/// The entry of each task in `proofs.json`.
fn proved(project: &Project) -> BTreeMap<String, Value> {
    let proofs = project.json("proofs.json");
    let tasks = proofs["tasks"].as_array().unwrap().iter();
    tasks.map(|task| (task["task_id"].as_str().unwrap().to_owned(), task.clone())).collect()
}

/// The status of tasks in the order of `tasks`.
fn statuses(project: &Project, tasks: &[String]) -> Vec<String> {
    let proved = proved(project);
    tasks.iter().map(|task| proved[task]["verdict"]["status"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_single_task_is_proved_and_the_others_stay_as_they_were() {
    if !sandboxes_run() {
        return;
    }
    let project = prepared(|_| {});
    let tasks = planned(&project);
    let unknown = project.run(&["prove", "--task", "example__none.1.x"]).with_code(2);
    assert!(unknown.stderr.contains("example__none.1.x"), "{unknown:?}");
    assert!(project.trials().is_empty());

    // Not accepted are those that were not asked for, too.
    let ended = project.run(&["prove", "--task", &tasks[1], "--json"]).with_code(1).json();
    assert_eq!((&ended["accepted"], &ended["pending"]), (&1.into(), &2.into()), "{ended}");
    assert_eq!(statuses(&project, &tasks), ["pending", "accepted", "pending"]);
    assert_eq!(project.trials().len(), 2);
    let first = proved(&project);

    project.run(&["prove", "--task", &tasks[0], "--task", &tasks[2]]).with_code(0);
    assert_eq!(statuses(&project, &tasks), ["accepted"; 3]);
    assert_eq!(project.trials().len(), 6);
    assert_eq!(proved(&project)[&tasks[1]], first[&tasks[1]]);
}

#[test]
fn batches_end_when_the_set_can_be_made_and_go_on_when_they_are_asked_to() {
    if !sandboxes_run() {
        return;
    }
    let project = prepared(|_| {});
    let tasks = planned(&project);
    // The second of three completes the set: one repository for each split.
    let ended = project.run(&["prove", "--batch", "1"]).with_code(1);
    assert!(ended.stderr.contains("the set can be made of what is accepted"), "{ended:?}");
    assert_eq!(statuses(&project, &tasks), ["accepted", "accepted", "pending"]);
    assert_eq!(project.trials().len(), 4);

    // Asked again it ends before the first batch, and the set is really made of that.
    project.run(&["prove", "--batch", "1"]).with_code(1);
    assert_eq!(project.trials().len(), 4);
    project.run(&["resolve"]).with_code(0);
    let selection = project.json("selection.json");
    assert_eq!(selection["tasks"].as_array().map(Vec::len), Some(2), "{selection}");

    project.run(&["prove"]).with_code(0);
    assert_eq!(statuses(&project, &tasks), ["accepted"; 3]);
    assert_eq!(project.trials().len(), 6);
}

#[test]
fn batches_end_when_the_set_cannot_be_made_any_more() {
    if !sandboxes_run() {
        return;
    }
    // Three of three are wanted, and the first turns out to be broken.
    let project = prepared(|project| {
        project.edit("seatrial.toml", "\ntarget = 2", "\ntarget = 3");
        project.edit("seatrial.toml", "train = 1,", "train = 2,");
        project.edit("seatrial.toml", "allow_shortfall = true", "allow_shortfall = false");
        let mut rows = project.rows("instances.jsonl");
        for row in &mut rows {
            let passes = row["PASS_TO_PASS"].as_array_mut().unwrap().remove(0);
            row["FAIL_TO_PASS"] = vec![passes].into();
        }
        project.write_rows("instances.jsonl", &rows);
    });
    let tasks = planned(&project);
    let ended = project.run(&["prove", "--batch", "1"]).with_code(1);
    assert!(ended.stderr.contains("the set cannot be made any more"), "{ended:?}");
    assert_eq!(statuses(&project, &tasks), ["rejected", "pending", "pending"]);
}

#[test]
fn confirmed_are_also_those_in_which_nothing_differed() {
    if !sandboxes_run() {
        return;
    }
    let project = prepared(|project| project.edit("seatrial.toml", "confirm_runs = 10", "confirm_runs = 4"));
    let tasks = planned(&project);
    project.run(&["prove"]).with_code(0);
    assert_eq!(project.trials().len(), 2 * tasks.len());

    // What was run before counts, and the same question asked again is answered.
    for _ in 0..2 {
        project.run(&["prove", "--confirm", "-j", "2"]).with_code(0);
        assert_eq!(project.trials().len(), 2 * 4 * tasks.len());
        for (task, proved) in proved(&project) {
            assert_eq!((&proved["nop_runs"], &proved["oracle_runs"]), (&4.into(), &4.into()), "{task}");
            assert_eq!(proved["verdict"]["status"], "accepted", "{proved}");
        }
    }
}
