//! Real collections, where they are at hand.

use std::path::Path;

use record::SourceRole;
use source::{
    DistributionSpec, Environment, FetchOrigin, Index, IndexSettings, Reading, Records, RowProblem,
    SourceError, SourcePlace, SourceSpec, load,
};

fn read(root: &Path, path: &str, role: SourceRole) -> Result<Records, SourceError> {
    let spec = SourceSpec::file("corpus", path, role);
    load(&spec, root, &Reading::default())
}

#[tokio::test]
async fn the_working_set_loads_with_its_profiles_and_distributions() {
    let Some(root) = corpus::find("") else { return };
    let Records::Instances(instances) =
        read(&root, "data/minismith/instances.jsonl", SourceRole::Instances).unwrap()
    else {
        panic!("another role came back");
    };
    let Records::Profiles(profiles) =
        read(&root, "data/minismith/repositories.json", SourceRole::Profiles).unwrap()
    else {
        panic!("another role came back");
    };
    assert_eq!((instances.rows.len(), profiles.rows.len()), (142, 35));
    for instance in &instances.rows {
        assert!(!instance.fail_to_pass.is_empty(), "{}", instance.instance_id);
        assert!(profiles.rows.iter().any(|profile| profile.repo == instance.repo), "{}", instance.repo);
    }
    let cache = tempfile::tempdir().unwrap();
    let settings = IndexSettings {
        url: None,
        downloads: cache.path().into(),
        sdist_dir: Some(root.join("data/minismith/sdist")),
        client: None,
    };
    let index = Index::new(settings, Environment::default());
    let specs: Vec<_> = profiles
        .rows
        .iter()
        .map(|profile| DistributionSpec::of_profile(profile).unwrap().expect("the profile names a file"))
        .collect();
    for (spec, fetched) in specs.iter().zip(index.fetch_all(&specs).await) {
        let fetched = fetched.unwrap();
        assert_eq!((fetched.origin, Some(fetched.sha256)), (FetchOrigin::Directory, spec.sha256));
    }
}

#[test]
fn public_evidence_loads_exactly() {
    let Some(root) = corpus::find("") else { return };
    let count = |path: &str| {
        let Records::RewardMeans(loaded) = read(&root, path, SourceRole::RewardMeans).unwrap() else {
            panic!("another role came back");
        };
        let full = loaded.rows.iter().filter(|row| row.reward_mean.to_bits() == 1.0_f64.to_bits()).count();
        let zero = loaded.rows.iter().filter(|row| row.reward_mean.to_bits() == 0).count();
        (loaded.rows.len(), full, zero)
    };
    assert_eq!(count("data/swesmith/swe-master/bon_stats_oss_smith.jsonl"), (7423, 4780, 1070));
    assert_eq!(count("data/swesmith/swe-master/bon_stats_oss_others.jsonl"), (12623, 4452, 4053));
    let ids = read(&root, "data/swesmith/all_known_instance_ids.txt", SourceRole::Ids).unwrap();
    assert_eq!(ids.report().rows, 14596);
    let runs = read(&root, "data/swesmith/swesmith-repo/run_evaluation.xml.jsonl", SourceRole::Trajectories)
        .unwrap();
    assert_eq!(runs.report().rows, 4);
}

#[test]
fn instances_that_lack_columns_are_refused_by_name() {
    let Some(root) = corpus::find("") else { return };
    let path = "data/swesmith/mirror-branches/encode__starlette.db5063c2.jsonl";
    let records = read(&root, path, SourceRole::Instances).unwrap();
    let faults = &records.report().faults;
    assert_eq!(records.report().rows, 0);
    assert_eq!(faults.shown[0].field.as_deref(), Some("FAIL_TO_PASS"));
    assert_eq!(faults.shown[0].problem, RowProblem::Missing);
    assert!(faults.shown[0].id.as_deref().is_some_and(|id| id.starts_with("encode__starlette.")));
}

#[test]
fn line_ends_blanks_and_cuts_are_seen() {
    let Some(root) = corpus::find("") else { return };
    // The rows are traces, not instances: what counts is where each one is found to begin and to end.
    let lines = |path: &str| read(&root, path, SourceRole::RewardMeans).unwrap().report().faults.clone();
    let tolerated = lines("cases/84-jsonl-bom-crlf-blank/traces.jsonl");
    assert_eq!(tolerated.total, 3);
    assert!(tolerated.shown.iter().all(|fault| fault.problem == RowProblem::Missing));
    let cut = lines("cases/85-jsonl-cut-last-line/traces.jsonl");
    assert_eq!((cut.total, &cut.shown[2].problem), (3, &RowProblem::Cut));
    let length = std::fs::metadata(root.join("cases/85-jsonl-cut-last-line/traces.jsonl")).unwrap().len();
    assert!(cut.shown[2].offset < length && cut.shown[2].offset + 2 >= length);
}

#[test]
fn task_directories_are_found_by_name() {
    let Some(root) = corpus::find("") else { return };
    let spec = |path: &str| SourceSpec::dir("tasks", path, SourceRole::Tasks);
    let Records::Tasks(tasks) =
        load(&spec("cases/26-uppercase-task-id"), &root, &Reading::default()).unwrap()
    else {
        panic!("another role came back");
    };
    assert_eq!(tasks.rows.len(), 2, "{:?}", tasks.rows);
    assert!(tasks.report.notes.iter().any(|note| note.contains("in case only")), "{:?}", tasks.report);
}

#[test]
fn manifests_of_the_wild_give_their_tasks_or_say_why_not() {
    let Some(root) = corpus::find("data/registries") else { return };
    let ids = |path: &str, dataset: Option<&str>| {
        let place = SourcePlace::Manifest { path: path.into(), dataset: dataset.map(str::to_owned) };
        match load(&SourceSpec::new("m", place, SourceRole::Ids), &root, &Reading::default()) {
            Ok(Records::Ids(ids)) => Ok(ids.rows.len()),
            Ok(_) => panic!("another role came back"),
            Err(error) => Err(error.to_string()),
        }
    };
    let registry = "sjarmak__CodeContextBench_Dashboard/configs/harbor/registry.json";
    assert_eq!(ids(registry, Some("terminal-bench")), Ok(89));
    assert_eq!(ids(registry, Some("swesmith@1.0")), Ok(100));
    // Listed five times, always the same.
    assert_eq!(ids(registry, Some("replicationbench")), Ok(90));
    assert!(ids(registry, None).unwrap_err().contains("name one of them with `dataset`: aider-polyglot@1.0"));
    for (path, tasks) in [
        ("nuprl__plbench/dataset.toml", 8),
        ("langchain-ai__deepagents/libs/evals/datasets/context-retrieval-evals/dataset.toml", 0),
        ("shikharsehgal1__dist-eval-shikhar/dataset.toml", 6),
    ] {
        assert_eq!(ids(path, None), Ok(tasks), "{path}");
    }
    assert!(ids("Vinnstah__cairn/dataset.toml", None).unwrap_err().contains("is no data set"));
}

#[test]
fn parquet_files_of_other_programs_are_understood() {
    let Some(root) = corpus::find("cases") else { return };
    // The rows are traces, which have no column that a plan asks for: what counts is that their schema is read.
    for path in [
        "99-parquet-large-string/string.parquet",
        "99-parquet-large-string/large_string.parquet",
        "99-parquet-large-string/string_view.parquet",
        "99-parquet-large-string/dictionary.parquet",
        "100-parquet-nested-row-groups/groups.parquet",
        "102-parquet-timestamps/naive.parquet",
        "102-parquet-timestamps/date32.parquet",
        "104-parquet-extra-and-missing-columns/train-00000-of-00002.parquet",
        "104-parquet-extra-and-missing-columns/train-00001-of-00002.parquet",
    ] {
        let message = read(&root, path, SourceRole::RewardMeans).unwrap_err().to_string();
        assert!(message.contains("has none of the columns that are read"), "{message}");
    }
}
