//! `seatrial init`: a small recipe that works, with two tiny projects of its own, so that nothing has to be fetched.

use std::path::Path;

use ident::Digest;
use serde_json::json;

use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::Output;

/// A file by its path: the text.
type File = (&'static str, &'static str);

/// The tiny projects: name, instance repository, files.
const PROJECTS: [(&str, &str, &[File]); 2] = [
    (
        "slugs",
        "swesmith/example__slugs.00000002",
        &[
            ("slugs.py", include_str!("../../template/slugs/slugs.py")),
            ("tests/test_slugs.py", include_str!("../../template/slugs/tests/test_slugs.py")),
        ],
    ),
    (
        "tally",
        "swesmith/example__tally.00000001",
        &[
            ("tally.py", include_str!("../../template/tally/tally.py")),
            ("tests/test_mean.py", include_str!("../../template/tally/tests/test_mean.py")),
            ("tests/test_running.py", include_str!("../../template/tally/tests/test_running.py")),
        ],
    ),
];

/// Evidence and instances as they are.
const FILES: [File; 4] = [
    ("seatrial.toml", recipe::TEMPLATE),
    ("instances.jsonl", include_str!("../../template/instances.jsonl")),
    ("trajectories.jsonl", include_str!("../../template/trajectories.jsonl")),
    ("reward-means.jsonl", include_str!("../../template/reward-means.jsonl")),
];

/// Writes the recipe into a new or empty directory.
pub fn run(output: Output, directory: &Path) -> Result {
    if let Ok(mut entries) = std::fs::read_dir(directory)
        && entries.next().is_some()
    {
        let message = format!("{} is not empty", directory.display());
        return Err(Failure::new(Exit::Usage, message).hint("name a new directory; nothing is overwritten"));
    }
    // Everything is written under another name first, so that a full disk leaves nothing half done.
    let is_there = directory.is_dir();
    let above = match directory.parent() {
        _ if is_there => directory,
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs_err::create_dir_all(above).or_exit(Exit::Failed)?;
    let builder = artifact::unfinished().permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
    let part = builder.tempdir_in(above).or_exit(Exit::Failed)?;
    write(part.path())?;
    if is_there {
        // Somebody may stand in it, so it stays the same directory. The recipe comes last: without it there is no project.
        let entries = fs_err::read_dir(part.path()).or_exit(Exit::Failed)?;
        let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
        let mut names: Vec<_> = names.collect::<Result<_, _>>().or_exit(Exit::Failed)?;
        names.sort_by_key(|name| name == "seatrial.toml");
        for name in names {
            fs_err::rename(part.path().join(&name), directory.join(&name)).or_exit(Exit::Failed)?;
        }
    } else {
        fs_err::rename(part.path(), directory).or_exit(Exit::Failed)?;
    }
    output.say(format_args!("wrote a recipe and three task candidates to {}", directory.display()));
    output.say(format_args!("next: seatrial -C {} up", directory.display()));
    output.say("its tests run on this machine's own system, with its python3 and pytest");
    output.json(&json!({"directory": directory.display().to_string()}))
}

fn write(directory: &Path) -> Result {
    let mut profiles = Vec::new();
    for (name, repo, files) in PROJECTS {
        let archive = source_distribution(name, files).or_exit(Exit::Failed)?;
        let file = format!("{name}-1.0.tar.gz");
        artifact::write_atomic(&directory.join("sdists").join(&file), &archive)?;
        profiles.push(json!({
            "repo": repo,
            "sdist": file,
            "sha256": Digest::of(&archive),
            "test_cmd": "python3 -m pytest -p no:cacheprovider -q",
            "env": {"PYTHONPATH": "."},
        }));
    }
    let profiles = serde_json::to_string_pretty(&profiles).or_exit(Exit::Failed)?;
    artifact::write_atomic(&directory.join("profiles.json"), format!("{profiles}\n").as_bytes())?;
    for (name, text) in FILES {
        artifact::write_atomic(&directory.join(name), text.as_bytes())?;
    }
    Ok(())
}

/// Packs files as a source distribution: one directory at the top, nothing that varies.
fn source_distribution(name: &str, files: &[File]) -> std::io::Result<Vec<u8>> {
    let encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let mut archive = tar::Builder::new(encoder);
    for (path, text) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        archive.append_data(&mut header, format!("{name}-1.0/{path}"), text.as_bytes())?;
    }
    archive.into_inner()?.finish()
}
