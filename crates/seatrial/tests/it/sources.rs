//! `seatrial source pull` with every kind of source, and what it refuses.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use ident::Digest;
use serde_json::json;

use crate::project::{Ended, Project, binary, ended};

const COMMIT: &str = "bc8904f44d62f10b5eb16189b22eca31e20cd48e";

/// Serves the file `means.jsonl` of the data set `o/n`, whose branch `main` means `commit`.
fn hub(commit: &'static str, means: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let first = lines.next().unwrap_or_default();
            for _ in lines.by_ref().take_while(|line| !line.is_empty()) {}
            let target = first.split(' ').nth(1).unwrap_or_default();
            let body = match target.split('?').next().unwrap_or_default() {
                "/api/datasets/o/n/revision/main" => json!({"sha": commit}).to_string().into_bytes(),
                path if path.starts_with("/api/datasets/o/n/tree/") => {
                    let lfs = json!({"oid": Digest::of(means), "size": means.len()});
                    json!([{"type": "file", "path": "means.jsonl", "oid": "", "size": 1, "lfs": lfs}])
                        .to_string()
                        .into_bytes()
                }
                _ => means.to_vec(),
            };
            let head =
                format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            // A client may have heard enough.
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        }
    });
    address
}

/// A project whose reward means come from the hub.
fn project_with_hub() -> Project {
    let project = Project::new();
    project.edit(
        "seatrial.toml",
        "kind = \"file\"\npath = \"reward-means.jsonl\"\nas = \"reward_means\"",
        "kind = \"hf-dataset\"\nrepo = \"o/n\"\nrevision = \"main\"\nfiles = \"*.jsonl\"\nas = \"reward_means\"",
    );
    project
}

const MEANS: &[u8] = b"{\"instance_id_or_commit_hash\": \"x\", \"reward_mean\": 0.5}\n";

fn with_hub(project: &Project, hub: &str, arguments: &[&str]) -> Ended {
    let home = project.path(".seatrial/home");
    ended(
        project.command(arguments).env("HF_ENDPOINT", hub).env("HF_HOME", home).env("HF_TOKEN", "hf_secret"),
    )
}

#[test]
fn a_data_set_of_the_hub_is_locked_and_later_stages_need_no_network() {
    let project = project_with_hub();
    let first = hub(COMMIT, MEANS);
    let ended = with_hub(&project, &first, &["source", "pull", "--json", "--log", "trace"]).with_code(0);
    assert!(ended.stderr.contains("TRACE"), "nothing was logged");
    assert!(!ended.all().contains("hf_secret"), "a token stands in the log");
    let pulled = ended.json();
    let rewards =
        pulled["sources"].as_array().unwrap().iter().find(|source| source["name"] == "rewards").unwrap();
    assert_eq!(rewards["revision"], COMMIT);
    assert_eq!(rewards["origin"], "hf-dataset o/n@main *.jsonl");
    let lock = project.json("seatrial.lock");
    let locked = &lock["sources"]["rewards"];
    assert_eq!(locked["files"]["means.jsonl"]["sha256"], Digest::of(MEANS).hex());
    assert_eq!((&locked["files"]["means.jsonl"]["rows"], &locked["rows"]), (&json!(1), &json!(1)));
    assert_eq!(locked["files"]["means.jsonl"]["size"], MEANS.len());
    assert!(!lock.to_string().contains("hf_secret") && !lock.to_string().contains("127.0.0.1"), "{lock}");

    // Nobody listens there.
    let nobody = "http://127.0.0.1:9";
    with_hub(&project, nobody, &["plan"]).with_code(0);
    assert_eq!(project.json("plan.json")["inputs"]["rewards"]["revision"], COMMIT);
    with_hub(&project, nobody, &["source", "pull", "--locked", "--offline"]).with_code(0);
    with_hub(&project, nobody, &["source", "pull", "--locked"]).with_code(1);
    std::fs::remove_dir_all(project.path(".seatrial/downloads")).unwrap();
    let said = with_hub(&project, nobody, &["source", "pull", "--offline"]).with_code(1).stderr;
    assert!(said.contains("`means.jsonl` of dataset `o/n`") && said.contains("--offline forbids"), "{said}");

    // The branch moves.
    let moved = hub("08e109b4a59eaeebf80e4675cd125d42e7ac99a4", MEANS);
    let before = project.read("seatrial.lock");
    for arguments in [&["source", "pull"][..], &["source", "pull", "--locked"]] {
        let said = with_hub(&project, &moved, arguments).with_code(5).stderr;
        assert!(said.contains(COMMIT) && said.contains("08e109b4") && said.contains("--update"), "{said}");
    }
    assert_eq!(project.read("seatrial.lock"), before);
    with_hub(&project, &moved, &["source", "pull", "--update"]).with_code(0);
    assert_ne!(project.read("seatrial.lock"), before);
}

#[test]
fn settings_for_servers_matter_where_servers_are_asked() {
    let wrong = "hf_secret@nowhere";
    let local = Project::new();
    ended(local.command(&["source", "pull"]).env("HF_ENDPOINT", wrong)).with_code(0);
    let said = ended(project_with_hub().command(&["source", "pull"]).env("HF_ENDPOINT", wrong)).with_code(2);
    assert!(said.stderr.contains("HF_ENDPOINT") && !said.all().contains("hf_secret"), "{}", said.all());
}

#[test]
fn a_locked_pull_never_writes() {
    let project = Project::new();
    let said = project.run(&["source", "pull", "--locked"]).with_code(2).stderr;
    assert!(said.contains("seatrial.lock is missing"), "{said}");
    assert!(!project.path("seatrial.lock").exists());
    project.run(&["source", "pull"]).with_code(0);
    let lock = project.read("seatrial.lock");
    project.run(&["source", "pull", "--locked"]).with_code(0);
    std::fs::write(project.path("extra.txt"), "a.1\n").unwrap();
    project.edit("seatrial.toml", "[[pool]]", "[sets]\nextra = \"extra.txt\"\n\n[[pool]]");
    let said = project.run(&["source", "pull", "--locked"]).with_code(5).stderr;
    assert!(said.contains("`extra`") && said.contains("not locked"), "{said}");
    assert_eq!(project.read("seatrial.lock"), lock);
    project.run(&["source", "pull", "--locked", "--update"]).with_code(2);
}

#[test]
fn a_damaged_lock_is_replaced_only_when_everything_is_accepted() {
    let project = Project::new();
    project.run(&["source", "pull"]).with_code(0);
    let lock = project.read("seatrial.lock");
    for damaged in [&lock[..lock.len() / 2], b"", b"{\"schema\": \"seatrial.lock/1\"}"] {
        std::fs::write(project.path("seatrial.lock"), damaged).unwrap();
        for arguments in [&["source", "pull"][..], &["source", "pull", "--locked"], &["plan"]] {
            let said = project.run(arguments).with_code(5).stderr;
            assert!(said.contains("seatrial.lock"), "{said}");
        }
        assert_eq!(project.read("seatrial.lock"), damaged);
        let said = project.run(&["source", "pull", "--update"]).with_code(0).stderr;
        assert!(said.contains("it is written anew"), "{said}");
        assert_eq!(project.read("seatrial.lock"), lock);
    }
}

#[test]
fn the_recipe_can_say_how_many_rows_there_are() {
    let project = Project::new();
    let rows = project.rows("instances.jsonl").len();
    let path = "path = \"instances.jsonl\"";
    project.edit("seatrial.toml", path, &format!("{path}\nexpect_rows = {}", rows + 1));
    let said = project.run(&["source", "pull"]).with_code(2).stderr;
    assert!(said.contains("`candidates`") && said.contains(&format!("expects {}", rows + 1)), "{said}");
    assert!(!project.path("seatrial.lock").exists());
    project.edit("seatrial.toml", &format!("expect_rows = {}", rows + 1), &format!("expect_rows = {rows}"));
    project.run(&["source", "pull"]).with_code(0);
}

#[test]
fn bad_rows_are_left_out_and_counted_or_refused() {
    let project = Project::new();
    let mut rows = project.rows("trajectories.jsonl");
    rows[0]["resolved"] = json!("yes");
    project.write_rows("trajectories.jsonl", &rows);
    let said = project.run(&["source", "pull", "--strict"]).with_code(2).stderr;
    assert!(said.contains("trajectories.jsonl, line 1") && said.contains("`resolved`"), "{said}");
    let ended = project.run(&["source", "pull", "--json"]).with_code(0);
    assert!(ended.stderr.contains("trajectories.jsonl, line 1"), "{}", ended.stderr);
    let locked = &project.json("seatrial.lock")["sources"]["trajectories"];
    assert_eq!((&locked["left_out"], &locked["rows"]), (&json!(1), &json!(rows.len() - 1)));
}

fn gzipped(path: &Path) {
    let status = Command::new("gzip").arg(path).status().unwrap();
    assert!(status.success());
}

#[test]
fn files_may_be_several_and_compressed() {
    let project = Project::new();
    let rows = project.rows("trajectories.jsonl");
    let (first, second) = rows.split_at(1);
    project.write_rows("trajectories.jsonl", first);
    project.write_rows("more.jsonl", second);
    gzipped(&project.path("more.jsonl"));
    let path = "path = \"trajectories.jsonl\"";
    project.edit("seatrial.toml", path, "path = [\"trajectories.jsonl\", \"more.jsonl.gz\"]");
    project.run(&["source", "pull"]).with_code(0);
    let locked = &project.json("seatrial.lock")["sources"]["trajectories"];
    assert_eq!(locked["rows"], rows.len());
    let packed = Digest::of(project.read("more.jsonl.gz"));
    assert_eq!(
        locked["files"]["more.jsonl.gz"]["sha256"],
        packed.hex(),
        "the digest is that of the file as it lies there"
    );
    project.run(&["plan"]).with_code(0);
}

#[test]
fn a_manifest_gives_ids() {
    let project = Project::new();
    let ids: Vec<_> = project.rows("instances.jsonl").iter().map(|row| row["instance_id"].clone()).collect();
    let tasks: Vec<_> = ids.iter().map(|id| json!({"name": id, "path": "x"})).collect();
    let registry =
        json!([{"name": "a", "version": "1", "tasks": tasks}, {"name": "b", "version": "1", "tasks": []}]);
    std::fs::write(project.path("registry.json"), registry.to_string()).unwrap();
    let source = "[sources.listed]\nkind = \"registry\"\npath = \"registry.json\"\nas = \"ids\"\n";
    project.edit("seatrial.toml", "[[pool]]", &format!("{source}\n[[pool]]"));
    let said = project.run(&["source", "pull"]).with_code(2).stderr;
    assert!(said.contains("lists 2 data sets") && said.contains("a@1, b@1"), "{said}");
    project.edit("seatrial.toml", "path = \"registry.json\"", "path = \"registry.json\"\ndataset = \"a\"");
    project.run(&["source", "pull"]).with_code(0);
    let locked = &project.json("seatrial.lock")["sources"]["listed"];
    assert_eq!((&locked["rows"], &locked["origin"]), (&json!(ids.len()), &json!("registry a")));
}

#[test]
fn keys_that_a_kind_does_not_have_are_named() {
    let project = project_with_hub();
    project.edit("seatrial.toml", "revision = \"main\"\n", "");
    project.edit(
        "seatrial.toml",
        "kind = \"file\"\npath = \"profiles.json\"",
        "kind = \"file\"\nrepo = \"x\"",
    );
    let said = ended(binary().arg("-C").arg(project.root()).args(["source", "pull", "--json"])).with_code(2);
    for part in ["needs `revision`", "has no `repo`", "needs `path`", "`x` is no repository"] {
        assert!(said.all().contains(part), "{part}: {}", said.all());
    }
}
