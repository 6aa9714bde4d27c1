//! Every Dockerfile of the corpus, where it is present.

use std::collections::BTreeMap;

use image::dockerfile::{Instruction, parse, survey};

use crate::support::corpus;

#[test]
fn every_dockerfile_is_read_or_refused_by_name() {
    let Some(corpus) = corpus() else {
        eprintln!("skipped: no corpus of task directories");
        return;
    };
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    let (mut files, mut good, mut runs) = (0, 0, 0);
    for entry in walkdir::WalkDir::new(corpus.join("data/tasks")).sort_by_file_name() {
        let entry = entry.unwrap();
        if entry.file_name() != "Dockerfile" || !entry.file_type().is_file() {
            continue;
        }
        let text = String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()).into_owned();
        files += 1;
        let found = survey(&text);
        if found.is_empty() {
            good += 1;
            let parsed = parse(&text).expect("a file without findings parses");
            assert!(parsed.steps.iter().find(|s| s.name == "FROM").is_some());
            runs += parsed.steps.iter().filter(|s| matches!(s.instruction, Instruction::Run { .. })).count();
        }
        for unsupported in found {
            assert!(unsupported.line >= 1);
            *refused.entry(unsupported.what).or_default() += 1;
        }
    }
    eprintln!("{files} Dockerfiles, {good} without findings, {runs} RUN instructions in them");
    for (what, count) in &refused {
        eprintln!("{count:4}  {what}");
    }
    assert!(files > 0 && good > 0);
}
