//! Links are reported and not followed.

use std::os::unix::fs::symlink;

use trace::{Episodes, ExportOptions, Input, convert, export_set, gather, merge, scan, set_files};

use crate::sets::{TRAJECTORY, forms, reward, trial};

const ROW: &str = r#"{"conversations": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}],
    "task": "t", "trial_name": "n", "result": "1.0"}"#;

fn row() -> String {
    format!("{}\n", ROW.replace('\n', ""))
}

#[test]
fn a_link_among_the_files_of_a_set_is_reported_by_every_reader() {
    let temporary = tempfile::tempdir().unwrap();
    let set = temporary.path().join("set");
    std::fs::create_dir(&set).unwrap();
    std::fs::write(set.join("a.jsonl"), row()).unwrap();
    std::fs::write(temporary.path().join("other.jsonl"), row()).unwrap();
    symlink("../other.jsonl", set.join("b.jsonl")).unwrap();
    symlink("..", set.join("data")).unwrap();
    let odd = set_files(&set).unwrap().unwrap().odd;
    let paths: Vec<_> = odd.iter().map(|odd| odd.path.rsplit('/').next().unwrap()).collect();
    assert_eq!(paths, ["b.jsonl", "data"]);
    let paths = std::slice::from_ref(&set);
    let gathered = gather(paths).unwrap();
    assert_eq!((gathered.trials.len(), gathered.odd), (1, odd.clone()));
    let out = temporary.path().join("out.jsonl");
    assert_eq!(convert(paths, &forms(), &out).unwrap().read.odd, odd);
    assert_eq!(merge(paths, 1, &out).unwrap().0.read.odd, odd);
    assert_eq!(scan(paths).unwrap().reading.read.odd, odd);
}

#[test]
fn a_set_of_nothing_but_links_is_named() {
    let temporary = tempfile::tempdir().unwrap();
    let set = temporary.path().join("snapshot");
    std::fs::create_dir_all(set.join("data")).unwrap();
    std::fs::write(temporary.path().join("blob"), row()).unwrap();
    symlink("../../blob", set.join("data/train.jsonl")).unwrap();
    let out = temporary.path().join("out.jsonl");
    for error in [
        Input::of(&set).unwrap_err(),
        merge(std::slice::from_ref(&set), 1, &out).unwrap_err(),
        convert(std::slice::from_ref(&set), &forms(), &out).unwrap_err(),
    ] {
        let error = error.to_string();
        assert!(error.contains("data/train.jsonl") && error.contains("links followed"), "{error}");
    }
    // A link that is named itself is meant.
    assert_eq!(gather(&[set.join("data/train.jsonl")]).unwrap().trials.len(), 1);
}

#[test]
fn a_link_inside_of_a_trial_is_reported() {
    let temporary = tempfile::tempdir().unwrap();
    let job = temporary.path().join("job");
    trial(&job, "tiny", "tiny__a", &reward("1"), None);
    std::fs::rename(job.join("tiny__a/agent"), temporary.path().join("agent")).unwrap();
    std::fs::write(temporary.path().join("agent/trajectory.json"), TRAJECTORY).unwrap();
    symlink("../../agent", job.join("tiny__a/agent")).unwrap();
    let jobs = std::slice::from_ref(&job);
    let out = temporary.path().join("out.jsonl");
    let (report, _) = export_set(jobs, ExportOptions::default(), false, 1, &out).unwrap();
    assert_eq!((report.without_trajectory, report.odd.len()), (1, 1), "{report:?}");
    assert!(report.odd[0].why.contains("agent is a link"), "{:?}", report.odd);
    assert_eq!(gather(jobs).unwrap().odd, report.odd);
    assert_eq!(convert(jobs, &forms(), &out).unwrap().odd, report.odd);
}

#[test]
fn a_helper_that_is_named_and_not_read_is_reported() {
    let temporary = tempfile::tempdir().unwrap();
    let job = temporary.path().join("job");
    let names =
        ["trajectory.good.json", "trajectory.link.json", "trajectory.gone.json", "/abs.json", "../up"];
    let named: Vec<_> = names.iter().map(|name| format!(r#"{{"trajectory_path": "{name}"}}"#)).collect();
    let named = format!(r#""content": "calc.py", "subagent_trajectory_ref": [{}]"#, named.join(", "));
    let trajectory = TRAJECTORY.replace(r#""content": "calc.py""#, &named);
    trial(&job, "tiny", "tiny__a", &reward("1"), Some(&trajectory));
    let agent = job.join("tiny__a/agent");
    std::fs::write(agent.join("trajectory.good.json"), TRAJECTORY).unwrap();
    symlink("trajectory.good.json", agent.join("trajectory.link.json")).unwrap();
    let options = ExportOptions { episodes: Episodes::Last, helpers: true, ..ExportOptions::default() };
    let (report, _) = export_set(&[job], options, false, 1, &temporary.path().join("out.jsonl")).unwrap();
    assert_eq!(report.helper_rows, 1);
    let odd: Vec<_> = report.odd.iter().map(|odd| odd.why.split(" is ").collect::<Vec<_>>()).collect();
    let files: Vec<_> = odd.iter().map(|parts| parts[0]).collect();
    assert_eq!(
        files,
        ["agent/../up", "agent//abs.json", "agent/trajectory.gone.json", "agent/trajectory.link.json"]
    );
    assert!(odd[2][1].starts_with("missing") && odd[3][1].starts_with("a link"), "{odd:?}");
}
