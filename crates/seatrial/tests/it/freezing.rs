//! The set that is chosen and frozen: why it is what it is, and whether it is still there.

use std::process::Command;

use dataset::{FrozenImage, ImageForm, Manifest};
use ident::Digest;
use serde_json::Value;

use crate::images::Registry;
use crate::project::{Project, sandboxes_run};

#[test]
fn every_planned_task_is_explained() {
    if !sandboxes_run() {
        return;
    }
    let project = Project::quick();
    project.up();
    let selection = project.json("selection.json");
    let chosen: Vec<&str> =
        selection["tasks"].as_array().unwrap().iter().map(|task| task["task_id"].as_str().unwrap()).collect();
    let materialized = project.json("materialize.json");
    for task in materialized["tasks"].as_array().unwrap() {
        let id = task["task_id"].as_str().unwrap();
        let explained = project.run(&["resolve", "explain", id, "--json"]).with_code(0).json();
        let kind = if chosen.contains(&id) { "chosen" } else { "left_over" };
        assert_eq!(explained["outcome"]["kind"], kind, "{explained}");
        let about = |about: &str| {
            let steps = explained["steps"].as_array().unwrap().iter();
            steps.filter(|step| step["about"] == about).count()
        };
        for step in ["plan", "task", "checks", "proof", "set", "otherwise"] {
            assert!(about(step) > 0, "{step}: {explained}");
        }
    }
    let text = project.run(&["resolve", "explain", chosen[0]]).with_code(0).stdout;
    assert!(text.contains("outcome") && text.contains("chosen for"), "{text}");
    let unknown = project.run(&["resolve", "explain", "nobody__knows.0123abcd.it"]).with_code(2);
    assert!(unknown.stderr.contains("seatrial plan explain"), "{unknown:?}");
}

#[test]
fn what_took_the_place_of_what_is_told() {
    if !sandboxes_run() {
        return;
    }
    let project = Project::quick();
    let mut rows = project.rows("instances.jsonl");
    let ids: Vec<String> = rows.iter().map(|row| row["instance_id"].as_str().unwrap().to_owned()).collect();
    project.up();
    let primary = |id: &str| {
        let plan = project.json("plan.json");
        plan["tasks"].as_array().unwrap().iter().any(|task| task["task_id"] == id)
    };
    // A primary whose fix brings about nothing.
    let lost = ids.iter().position(|id| primary(id)).unwrap();
    let test = rows[lost]["FAIL_TO_PASS"][0].as_str().unwrap();
    let file = test.split("::").next().unwrap();
    rows[lost]["FAIL_TO_PASS"] = serde_json::json!([format!("{file}::test_that_nobody_wrote")]);
    project.write_rows("instances.jsonl", &rows);
    project.run(&["source", "pull", "--update"]).with_code(0);
    for stage in ["plan", "materialize", "check"] {
        project.run(&[stage]).with_code(0);
    }
    project.run(&["prove"]).with_code(1);
    let resolved = project.run(&["resolve", "--json"]).with_code(0).json();
    let replaced = resolved["replaced"].as_array().unwrap();
    let of_lost = replaced.iter().find(|replaced| replaced["lost"] == ids[lost].as_str());
    let of_lost = of_lost.unwrap_or_else(|| panic!("{resolved}"));
    assert_eq!(
        (&of_lost["why"]["cause"], &of_lost["why"]["reason"]),
        (&"rejected".into(), &"oracle_failed".into())
    );
    let text = project.run(&["resolve"]).with_code(0).stdout;
    assert!(
        text.contains("not in the set") && text.contains("is rejected by its trials (oracle_failed)"),
        "{text}"
    );
    let explained = project.run(&["resolve", "explain", &ids[lost]]).with_code(0).stdout;
    assert!(explained.contains("as a candidate it would"), "{explained}");
}

#[test]
fn a_registry_is_asked_for_the_images_of_a_frozen_set() {
    if !sandboxes_run() {
        return;
    }
    let Some(registry) = Registry::start() else { return };
    let project = Project::quick();
    project.edit(
        "seatrial.toml",
        "[prove]",
        &format!("[images]\nregistry = \"{}\"\nshards = 1\ntag_limit = 9\n\n[prove]", registry.host),
    );
    // On the machine's own system no task has an image that could be missing.
    project.up();
    let frozen = project.frozen();
    let path = frozen.join("manifest.json");
    let (mut manifest, before) = artifact::load::<Manifest>(&path).unwrap();
    assert!(manifest.tasks.iter().all(|task| task.image.form == ImageForm::Host && !task.image.verified));
    let check = || project.run(&["freeze", "--check", "--online", "--json"]);
    assert_eq!(check().with_code(0).json()["images"], 0);

    // As if one of them had been frozen with an image of its own, and nobody had attested it.
    std::fs::remove_file(dataset::attestation_path(&frozen)).unwrap();
    let digest = registry.push("sets/task-00", "t1", "a task");
    let reference = format!("{}/sets/task-00:t1@{digest}", registry.host);
    let image = FrozenImage { form: ImageForm::Task, reference: Some(reference.clone()), verified: true };
    manifest.tasks[0].image = image;
    manifest.semantic_digest = manifest.semantics().unwrap();
    let after = artifact::store(&path, &manifest).unwrap();
    let sums = frozen.join("SHA256SUMS");
    let text = std::fs::read_to_string(&sums).unwrap();
    std::fs::write(&sums, text.replace(&before.hex(), &after.hex())).unwrap();
    let asked = check().with_code(0).json();
    assert_eq!((&asked["images"], &asked["problems"]), (&1.into(), &serde_json::json!([])));
    let text = project.run(&["freeze", "--check", "--online"]).with_code(0).stdout;
    assert!(text.contains("files and 1 image verified"), "{text}");

    let other = reference.replace(&digest, &Digest::of("something else").prefixed());
    manifest.tasks[0].image.reference = Some(other.clone());
    manifest.semantic_digest = manifest.semantics().unwrap();
    let last = artifact::store(&path, &manifest).unwrap();
    let text = std::fs::read_to_string(&sums).unwrap();
    std::fs::write(&sums, text.replace(&after.hex(), &last.hex())).unwrap();
    let missing = check().with_code(5).json()["problems"].clone();
    assert_eq!(missing, serde_json::json!([{"file": other, "message": "is not there"}]));
    // Offline, nothing is asked.
    assert_eq!(project.run(&["freeze", "--check", "--json"]).with_code(0).json()["images"], Value::Null);
    drop(registry);
    check().with_code(4);
}

#[test]
fn a_report_and_a_signed_attestation_lie_beside_the_set() {
    if !sandboxes_run() {
        return;
    }
    let project = Project::quick();
    let key = project.path("key");
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status();
    if !made.as_ref().is_ok_and(std::process::ExitStatus::success) {
        eprintln!("skipped: ssh-keygen does not make keys: {made:?}");
        return;
    }
    project.edit("seatrial.toml", "version = \"v1\"", "version = \"v1\"\nsigning_key = \"nowhere\"");
    project.run(&["up"]).with_code(1);
    assert_eq!(crate::project::children(&project.path("frozen")), Vec::<std::path::PathBuf>::new());
    project.edit("seatrial.toml", "signing_key = \"nowhere\"", "signing_key = \"key\"");
    project.up();
    let set = project.frozen();
    let check = |key: &str| project.run(&["freeze", "--check", "--pubkey", key]);
    assert!(check("key.pub").with_code(0).stdout.contains("signed by that key"));
    let page = std::fs::read_to_string(dataset::report_path(&set)).unwrap();
    let id = project.json("selection.json")["tasks"][0]["task_id"].as_str().unwrap().to_owned();
    assert!(page.contains(&id) && page.contains("What is in it"), "{page}");
    let statement: Value =
        serde_json::from_slice(&std::fs::read(dataset::attestation_path(&set)).unwrap()).unwrap();
    let (proofs, trials) = (&statement["predicate"]["seatrial_proofs"], project.trials().len());
    assert!(proofs["trials"].as_u64().is_some_and(|seen| seen > 0 && seen <= trials as u64), "{proofs}");

    // What is there stays as it is; what is missing comes back.
    let before = crate::project::tree(&project.path("frozen"));
    project.up();
    assert_eq!(crate::project::tree(&project.path("frozen")), before);
    std::fs::remove_file(dataset::signature_path(&set)).unwrap();
    assert!(check("key.pub").with_code(5).stdout.contains("attestation.json.sig: is missing"));
    let frozen = project.run(&["freeze", "--json"]).with_code(0).json();
    assert!(frozen["signature"].is_string() && frozen["existed"] == true, "{frozen}");
    check("key.pub").with_code(0);
    check("key").with_code(2);

    // A statement about another set is found without any key, and written anew.
    let statement = dataset::attestation_path(&set);
    let text = std::fs::read_to_string(&statement).unwrap();
    let sums = Digest::of(std::fs::read(set.join("SHA256SUMS")).unwrap()).hex();
    std::fs::write(&statement, text.replace(&sums, &Digest::of("").hex())).unwrap();
    let found = project.run(&["freeze", "--check"]).with_code(5);
    assert!(found.stdout.contains("speaks of another SHA256SUMS"), "{found:?}");
    project.run(&["freeze"]).with_code(0);
    check("key.pub").with_code(0);
}
