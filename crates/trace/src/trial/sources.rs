//! The trajectories of one trial: its own with whatever it was continued in, and those of its helpers.

use std::collections::HashSet;
use std::ffi::OsStr;

use job::Directory;

use super::{Fault, load};
use crate::json::Mended;
use crate::row::MAIN;
use crate::trajectory::{Trajectory, any};

/// A chain of documents longer than this is cut off as a fault.
const CHAIN: usize = 1000;

/// Where a trial's own trajectory may lie.
const MAIN_FILES: [(&str, &str); 3] = [
    ("agent", "trajectory.json"),
    ("artifacts", "trajectory.json"),
    ("agent", "mini-swe-agent.trajectory.json"),
];

/// Logs of the verifier that are read, in their order.
const VERIFIER_LOGS: [&str; 2] = ["test-stdout.txt", "test-stderr.txt"];

/// One conversation of a trial.
#[derive(Debug)]
pub(crate) struct Source {
    /// `main`, or which helper it belongs to.
    pub(crate) name: String,
    /// The documents, one after the other.
    pub(crate) chain: Vec<Trajectory>,
}

impl Source {
    pub(crate) fn is_main(&self) -> bool {
        self.name == MAIN
    }
}

/// Reads the trajectories in the directory of a trial or of one of its steps; the main one first, then by name.
///
/// A file of a helper that is malformed is a fault of its own; one of the main chain is a fault of the whole.
pub(crate) fn sources(
    trial: &Directory,
    with_helpers: bool,
    mended: &mut Mended,
    faults: &mut Vec<Fault>,
) -> Result<Vec<Source>, Fault> {
    let mut found = Vec::new();
    for (folder, file) in MAIN_FILES {
        let Ok(directory) = trial.child(OsStr::new(folder)) else { continue };
        if let Some(chain) = chain(&directory, folder, file, mended)? {
            found.push(Source { name: MAIN.into(), chain });
            if with_helpers && folder == "agent" {
                helpers(&directory, mended, faults, &mut found);
            }
            break;
        }
    }
    Ok(found)
}

/// Reads the trajectory in a file that no trial is around.
pub(crate) fn lone(directory: &Directory, file: &OsStr, mended: &mut Mended) -> Result<Source, Fault> {
    let name = file.to_string_lossy();
    match load(directory, &name, mended, any)? {
        Some(trajectory) => Ok(Source { name: MAIN.into(), chain: vec![trajectory] }),
        None => Err(Fault { file: name.into_owned(), detail: "is missing".into() }),
    }
}

/// Reads a document and those that continue it.
fn chain(
    directory: &Directory,
    folder: &str,
    first: &str,
    mended: &mut Mended,
) -> Result<Option<Vec<Trajectory>>, Fault> {
    let mut chain: Vec<Trajectory> = Vec::new();
    let mut read = HashSet::new();
    let mut next = Some(first.to_owned());
    while let Some(name) = next.take() {
        let fault = |detail: &str| Fault { file: format!("{folder}/{name}"), detail: detail.to_owned() };
        if name.contains(['/', '\0']) || name == ".." || name == "." {
            return Err(fault("is no name of a file beside the trajectory that it continues"));
        }
        if !read.insert(name.clone()) || chain.len() == CHAIN {
            return Err(fault("continues itself"));
        }
        let Some(trajectory) = trajectory(directory, folder, &name, mended)? else {
            if chain.is_empty() {
                return Ok(None);
            }
            return Err(fault("is missing; the trajectory before it says that it goes on there"));
        };
        next.clone_from(&trajectory.continued);
        chain.push(trajectory);
    }
    Ok(Some(chain))
}

fn trajectory(
    directory: &Directory,
    folder: &str,
    name: &str,
    mended: &mut Mended,
) -> Result<Option<Trajectory>, Fault> {
    load(directory, name, mended, any)
        .map_err(|fault| Fault { file: format!("{folder}/{}", fault.file), ..fault })
}

/// Every `trajectory.NAME.json` that is no continuation, and what documents hold inside.
fn helpers(directory: &Directory, mended: &mut Mended, faults: &mut Vec<Fault>, found: &mut Vec<Source>) {
    let mut helpers = Vec::new();
    for name in directory.entries().map(|entries| entries.files).unwrap_or_default() {
        let Some(name) = name.to_str() else { continue };
        let Some(middle) = name.strip_prefix("trajectory.").and_then(|name| name.strip_suffix(".json"))
        else {
            continue;
        };
        if name.contains(".cont-") {
            continue;
        }
        match trajectory(directory, "agent", name, mended) {
            Ok(Some(trajectory)) => {
                helpers.push(Source { name: middle.to_owned(), chain: vec![trajectory] });
            }
            Ok(None) => {}
            Err(fault) => faults.push(fault),
        }
    }
    for source in found.iter_mut() {
        for document in &mut source.chain {
            embedded(document, "", &mut helpers);
        }
    }
    helpers.sort_by(|a, b| a.name.cmp(&b.name));
    found.extend(helpers);
}

/// Takes the trajectories out that a document holds inside.
fn embedded(document: &mut Trajectory, above: &str, helpers: &mut Vec<Source>) {
    for (index, mut inner) in std::mem::take(&mut document.subagents).into_iter().enumerate() {
        let id = inner.id.clone().unwrap_or_else(|| index.to_string());
        let name = if above.is_empty() { format!("subagent-{id}") } else { format!("{above}/{id}") };
        embedded(&mut inner, &name, helpers);
        helpers.push(Source { name, chain: vec![inner] });
    }
}

/// What the verifier printed; `None` when it left no log. Bytes that are not UTF-8 become U+FFFD, and every end of a line a
/// line feed.
pub(crate) fn verifier_output(trial: &Directory, faults: &mut Vec<Fault>) -> Option<String> {
    let directory = trial.child(OsStr::new("verifier")).ok()?;
    let mut output = None;
    let mut bytes = Vec::new();
    for name in VERIFIER_LOGS {
        match directory.read(name, &mut bytes) {
            Ok(true) => {
                let text = String::from_utf8_lossy(&bytes);
                output.get_or_insert_with(String::new).push_str(&line_feeds(&text));
            }
            Ok(false) => {}
            Err(what) => faults.push(Fault { file: format!("verifier/{name}"), detail: what.to_string() }),
        }
    }
    output
}

fn line_feeds(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n").into() } else { text.into() }
}
