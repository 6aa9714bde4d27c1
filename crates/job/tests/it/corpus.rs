//! Every real job and trial there is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use job::{Generation, JobState, JobView, TrialState, TrialView, What, list_jobs, read_job, read_trial};

/// All jobs below a directory, however deep.
fn jobs(directory: &Path) -> Vec<JobView> {
    let listing = list_jobs(directory).unwrap();
    let mut found: Vec<_> = listing.jobs.iter().map(|job| read_job(job).unwrap()).collect();
    for oddity in listing.oddities {
        assert_eq!(oddity.what, What::NotAJob, "{}", directory.join(&oddity.path).display());
        found.extend(jobs(&directory.join(oddity.path)));
    }
    found
}

/// The directories of all files with a name, however deep.
fn files(directory: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, name));
        } else if path.file_name() == Some(name.as_ref()) {
            found.push(directory.to_owned());
        }
    }
    found
}

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Checks what must hold for any trial, against its result as it stands.
fn check(trial: &TrialView) {
    let result = ["result.json", "results.json"].map(|name| trial.directory.join(name));
    let Some(path) = result.iter().find(|path| path.exists()) else {
        assert!(!trial.state.has_ended(), "{}", trial.directory.display());
        return;
    };
    let result = json(path);
    let place = path.display();
    assert!(trial.state.has_ended(), "{place}: {:?}", trial.state);
    assert_eq!(trial.name, result["trial_name"], "{place}");
    assert!(trial.task.is_some() && trial.id.is_some(), "{place}");
    if trial.generation == Generation::TerminalBench {
        let reward = result["is_resolved"].as_bool().map(f64::from);
        assert_eq!(trial.state.reward(), reward, "{place}");
        return;
    }
    let reward = result["verifier_result"]["rewards"]["reward"].as_f64();
    assert_eq!(trial.rewards.get("reward").copied(), reward, "{place}");
    let exception = result["exception_info"]["exception_type"].as_str();
    assert_eq!(trial.state.failure().map(|failure| failure.exception.as_str()), exception, "{place}");
    for (name, moment) in [("started_at", trial.started_at), ("finished_at", trial.finished_at)] {
        assert_eq!(moment.is_some(), result[name].is_string(), "{place}: {name}");
        let naive = result[name].as_str().is_some_and(|text| !text.ends_with('Z'));
        assert_eq!(moment.is_some_and(|moment| moment.assumed_utc), naive, "{place}: {name}");
    }
}

/// Checks what must hold for any job.
fn check_job(job: &JobView) {
    let place = job.head.directory.display();
    if let (Some(planned), Some(pending)) = (job.head.planned, job.pending) {
        assert_eq!(job.tally.seen() + job.lost.len() + pending, planned, "{place}");
    }
    let groups: usize = job.tasks.iter().map(|group| group.tally.seen()).sum();
    assert_eq!(groups, job.trials.len(), "{place}");
    serde_json::to_string(job).unwrap();
}

#[test]
fn jobs_of_the_present_version_have_nothing_odd() {
    let Some(directory) = corpus::find("data/harbor-0.26-jobs") else { return };
    let mut means = BTreeMap::new();
    for job in jobs(&directory) {
        check_job(&job);
        job.trials.iter().for_each(check);
        assert_eq!(job.oddities, [], "{}", job.head.directory.display());
        assert_eq!((job.head.generation, job.head.state), (Generation::Present, JobState::Finished));
        let mean = |mean: Option<job::Mean>| mean.map(|mean| (mean.mean, mean.over));
        means.insert(job.head.name.clone(), (mean(job.tally.graded()), mean(job.tally.errors_as_zero())));
    }
    assert_eq!(means.len(), 5);
    assert_eq!(means["odd"], (Some((1.0, 1)), Some((0.5, 2))));
    assert_eq!(means["eight-n4"], (Some((1.0, 8)), Some((1.0, 8))));
    assert_eq!(means["nop"], (Some((0.0, 3)), Some((0.0, 3))));
}

#[test]
fn every_published_trial_is_read() {
    let Some(directory) = corpus::find("data/trials") else { return };
    let mut counts: BTreeMap<(Generation, &str), usize> = BTreeMap::new();
    for place in files(&directory, "result.json") {
        if json(&place.join("result.json")).get("trial_name").is_some() {
            let trial = read_trial(&place).unwrap();
            check(&trial);
            *counts.entry((trial.generation, trial.state.name())).or_default() += 1;
        }
    }
    for place in files(&directory, "results.json") {
        if json(&place.join("results.json")).get("trial_name").is_some() {
            let trial = read_trial(&place).unwrap();
            check(&trial);
            *counts.entry((trial.generation, trial.state.name())).or_default() += 1;
        }
    }
    let expected = [
        ((Generation::Older, "errored"), 26),
        ((Generation::Older, "rewarded"), 122),
        ((Generation::TerminalBench, "errored"), 9),
        ((Generation::TerminalBench, "rewarded"), 21),
    ];
    assert_eq!(counts, BTreeMap::from(expected));
    // Where there is a reward and nothing that counts it, there is no result.
    for place in files(&directory, "reward.json") {
        let trial = read_trial(&place).unwrap();
        assert!(matches!(trial.state, TrialState::Incomplete { .. }), "{}", place.display());
        assert!(trial.oddities.iter().any(|oddity| oddity.what == What::StrayReward), "{}", place.display());
    }
}

#[test]
fn every_published_job_is_read_and_bears_out_its_result() {
    let Some(directory) = corpus::find("data/trials") else { return };
    let jobs = jobs(&directory);
    let mut with_result = 0;
    for job in &jobs {
        check_job(job);
        job.trials.iter().for_each(check);
        let result = job.head.directory.join("result.json");
        if result.exists() {
            with_result += 1;
            let result = json(&result);
            assert_eq!(job.head.planned.map(|planned| planned as u64), result["n_total_trials"].as_u64());
            assert_eq!(job.head.state == JobState::Finished, result["finished_at"].is_string());
        }
        // Directories were left out when the jobs were published, and nothing else is odd about them.
        for oddity in &job.oddities {
            let expected = matches!(oddity.what, What::Lost { .. } | What::Absent(_) | What::OtherName(_));
            let stray = matches!(oddity.what, What::StrayReward | What::NothingOfATrial);
            assert!(expected || stray, "{}: {oddity}", job.head.directory.display());
        }
    }
    assert_eq!(with_result, 22);
    assert!(jobs.iter().filter(|job| job.head.generation == Generation::TerminalBench).count() > 30);
}

#[test]
fn inputs_of_the_trace_vectors_are_read() {
    let Some(directory) = corpus::find("data/harbor-0.26-golden/traces/input") else { return };
    let jobs = jobs(&directory);
    jobs.iter().for_each(check_job);
    let kinds = |name: &str| {
        let job = jobs.iter().find(|job| job.head.directory.ends_with(name)).unwrap();
        let mut kinds: Vec<_> = job.oddities.iter().map(|oddity| oddity.what.kind()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    };
    assert_eq!(jobs.len(), 8);
    assert_eq!(kinds("job-stats"), ["exception_differs", "reward_differs"]);
    assert_eq!(kinds("openclaw-job"), ["absent", "count_differs"]);
    assert!(kinds("t2").is_empty());
    // Made envelopes: `true` is a reward to Python, and none of them misses a result.
    assert!(jobs.iter().flat_map(|job| &job.trials).all(|trial| trial.state.has_ended()));
    let rewards = |name: &str| {
        let job = jobs.iter().find(|job| job.head.directory.ends_with(name)).unwrap();
        job.trials.iter().map(|trial| trial.state.reward()).collect::<Vec<_>>()
    };
    assert_eq!(rewards("edge-notools"), [Some(-1.0), Some(1.0)]);
    assert_eq!(rewards("edge-tools"), [Some(1.0)]);
}
