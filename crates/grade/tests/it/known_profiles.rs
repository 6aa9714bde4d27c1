//! The built-in profiles against a local corpus, when there is one.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use grade::{Language, profile_for};
use ident::AliasTable;
use serde_json::Value;

#[test]
fn every_known_instance_has_a_profile_whose_suite_is_run() {
    let Some(path) = corpus::find("data/swesmith/all_known_instance_ids.txt") else { return };
    let ids = fs::read_to_string(path).unwrap();
    let aliases = AliasTable::default();
    let mut names = BTreeSet::new();
    let mut counts: BTreeMap<(&str, String), usize> = BTreeMap::new();
    let mut runs: BTreeMap<&str, (&str, String)> = BTreeMap::new();
    for id in ids.lines() {
        let name = id.rsplit_once('.').unwrap().0;
        names.insert(name);
        let run = runs.entry(name).or_insert_with(|| {
            let profile = profile_for(name, &aliases).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(profile.name(), name);
            // An instance's id leads to the same profile as its repository.
            assert_eq!(profile_for(id, &aliases).unwrap(), profile);
            let made = profile.to_profile(name).unwrap_or_else(|error| panic!("{id}: {error}"));
            (profile.language.as_str(), made.framework.unwrap())
        });
        *counts.entry(run.clone()).or_default() += 1;
    }
    for ((language, framework), count) in &counts {
        eprintln!("{count:>6} {language} instances are run by {framework}");
    }
    let of =
        |language: &str| counts.iter().filter(|((of, _), _)| *of == language).map(|(_, n)| n).sum::<usize>();
    assert_eq!((names.len(), of("python"), of("go"), of("javascript")), (134, 14_030, 330, 236));
    assert_eq!(counts.values().sum::<usize>(), ids.lines().count());
}

#[test]
fn the_facts_are_those_of_the_collection() {
    let Some(path) = corpus::find("data/swesmith/profiles_0.0.9.json") else { return };
    let rows: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let aliases = AliasTable::default();
    let mut compared = 0;
    for row in rows.as_array().unwrap() {
        let text = |field: &str| row[field].as_str().unwrap_or_default();
        let language = match text("language") {
            "golang" => Language::Go,
            "java" => Language::Java,
            "javascript" => Language::Javascript,
            "python" => Language::Python,
            "rust" => Language::Rust,
            _ => continue,
        };
        for name in ["repo_name", "mirror_name", "image_name"] {
            let profile = profile_for(text(name), &aliases).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(profile.mirror(), text("mirror_name"));
            assert_eq!((profile.language, profile.commit.as_str()), (language, text("commit")));
            assert!(text("test_cmd").contains(&profile.command), "{}", profile.command);
            assert_eq!(Some(profile.timeout_sec), row["timeout"].as_u64());
            assert_eq!(Some(profile.reference_timeout_sec), row["timeout_ref"].as_u64());
            assert_eq!(Some(profile.narrow), row["min_testing"].as_bool());
            assert_eq!(Some(profile.reference_per_task), row["min_pregold"].as_bool());
            let install: Vec<&str> =
                row["install_cmds"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            assert_eq!(profile.install, install, "{}", profile.name());
        }
        compared += 1;
    }
    assert_eq!(compared, 460);
}
