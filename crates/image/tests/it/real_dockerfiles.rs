//! Every Dockerfile of the corpus, where it is present.

use std::collections::BTreeMap;

use image::dockerfile::{Builder, Instruction, parse, survey};
use image::{ImageError, ImageRef};

use crate::support::{Recorder, Workshop};

fn dockerfiles() -> Option<Vec<std::path::PathBuf>> {
    let walk = walkdir::WalkDir::new(corpus::find("data/tasks")?).sort_by_file_name();
    let files = walk.into_iter().map(Result::unwrap).filter(|e| e.file_name() == "Dockerfile");
    Some(files.filter(|entry| entry.file_type().is_file()).map(walkdir::DirEntry::into_path).collect())
}

#[test]
fn every_dockerfile_is_read_or_refused_by_name() {
    let Some(files) = dockerfiles() else { return };
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    let (mut good, mut runs) = (0, 0);
    for path in &files {
        let text = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
        let found = survey(&text);
        if found.is_empty() {
            good += 1;
            let parsed = parse(&text).expect("a file without findings parses");
            assert!(parsed.steps.iter().any(|step| step.name == "FROM"));
            runs += parsed.steps.iter().filter(|s| matches!(s.instruction, Instruction::Run { .. })).count();
        }
        for unsupported in found {
            assert!(unsupported.line >= 1);
            *refused.entry(unsupported.what).or_default() += 1;
        }
    }
    eprintln!("{} Dockerfiles, {good} without findings, {runs} RUN instructions in them", files.len());
    for (what, count) in &refused {
        eprintln!("{count:4}  {what}");
    }
    assert!(good > 0);
}

#[test]
fn every_context_is_copied_or_refused_by_line() {
    let Some(files) = dockerfiles() else { return };
    let (shop, run) = (Workshop::new(), Recorder::default());
    let base = |_: &ImageRef| Ok(shop.base());
    let mut good = 0;
    for path in &files {
        let context = path.parent().unwrap();
        match Builder::new(&shop.store, &run, &base).build(context, path) {
            Ok(image) => {
                good += 1;
                let again = Builder::new(&shop.store, &run, &base).build(context, path).unwrap();
                assert_eq!(image, again, "{}", path.display());
            }
            Err(ImageError::Dockerfile { line, instruction, what, .. }) => {
                let name = context.display();
                eprintln!("{name}: line {line}: {instruction}: {what}");
            }
            Err(other) => panic!("{}: {other}", path.display()),
        }
    }
    eprintln!("{good} of {} Dockerfiles have everything they copy", files.len());
    assert!(good > 0);
}
