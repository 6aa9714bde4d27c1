//! The rooms know each other as `docs/architecture.md` says, and in no other way.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

/// The floors from the bottom up. A room may know rooms on floors below its own.
const FLOORS: [&[&str]; 11] = [
    &["ident", "page", "column", "corpus", "rehearsal", "scripted"],
    &["artifact"],
    &["record"],
    &["job"],
    &["recipe", "source", "plan", "task", "grade", "ledger", "trace"],
    &["image"],
    &["sandbox", "check", "dataset"],
    &["agent"],
    &["trial"],
    &["prove"],
    &["seatrial"],
];

/// Crates that cost a lot to build, and the one room that may use each.
const HEAVY: [(&str, &[&str]); 9] = [
    ("bollard", &["sandbox"]),
    ("kube", &["sandbox"]),
    ("rusqlite", &["ledger"]),
    ("reqwest", &["source", "image", "agent"]),
    ("hyper", &["scripted"]),
    ("minijinja", &["agent"]),
    ("clap", &["seatrial"]),
    ("parquet", &["column", "source", "dataset", "trace", "rehearsal"]),
    ("seccompiler", &["sandbox"]),
];

fn dependencies() -> BTreeMap<String, Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let packages = metadata["packages"].as_array().expect("a list of packages");
    packages
        .iter()
        .map(|package| {
            let ordinary = |dependency: &&Value| dependency["kind"].is_null();
            let names = package["dependencies"].as_array().expect("a list of dependencies");
            let names =
                names.iter().filter(ordinary).filter_map(|name| name["name"].as_str()).map(str::to_owned);
            (package["name"].as_str().expect("a name").to_owned(), names.collect())
        })
        .collect()
}

fn floor(room: &str) -> Option<usize> {
    FLOORS.iter().position(|rooms| rooms.contains(&room))
}

#[test]
fn every_room_knows_only_rooms_below() {
    let mut wrong = Vec::new();
    for (room, dependencies) in dependencies() {
        let Some(own) = floor(&room) else {
            wrong.push(format!("{room} stands on no floor"));
            continue;
        };
        for dependency in dependencies {
            if floor(&dependency).is_some_and(|below| below >= own) {
                wrong.push(format!("{room} knows {dependency}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn heavy_crates_stay_in_their_rooms() {
    for (room, dependencies) in dependencies() {
        for (heavy, rooms) in HEAVY {
            if dependencies.iter().any(|dependency| dependency == heavy) {
                assert!(rooms.contains(&room.as_str()), "{room} uses {heavy}");
            }
        }
    }
}
