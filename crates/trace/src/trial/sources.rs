//! The trajectories of one trial: its own with whatever it was continued in, and those of its helpers.

use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;

use job::Directory;

use super::{Fault, load, load_text};
use crate::json::Mended;
use crate::row::MAIN;
use crate::trajectory::{Content, Speaker, Step, Trajectory, read};

/// A chain of documents longer than this is cut off as a fault.
const CHAIN: usize = 1000;

/// Where a trial's own trajectory may lie.
const MAIN_FILES: [(&str, &str); 3] = [
    ("agent", "trajectory.json"),
    ("artifacts", "trajectory.json"),
    ("agent", "mini-swe-agent.trajectory.json"),
];

/// Where a trial says how the program that worked in it was started, with the file and the form of its trajectory.
const SPEC: &str = "spec.json";

/// What that program was told.
const INSTRUCTION: &str = "instruction.md";

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
        let Some(directory) = folder_of(trial, folder, faults) else { continue };
        if let Some(chain) = chain(&directory, folder, file, mended)? {
            found.push(Source { name: MAIN.into(), chain });
            if with_helpers && folder == "agent" {
                helpers(&directory, mended, faults, &mut found);
            }
            return Ok(found);
        }
    }
    let Some(directory) = folder_of(trial, "agent", faults) else { return Ok(found) };
    found.extend(native(&directory, mended)?);
    if with_helpers && let Some(source) = found.first_mut() {
        let mut helpers = Vec::new();
        source.chain.iter_mut().for_each(|document| embedded(document, "", &mut helpers));
        found.extend(helpers);
    }
    Ok(found)
}

/// Reads the trajectory that a program of the image wrote in its own form, where the trial says which file that is.
fn native(directory: &Directory, mended: &mut Mended) -> Result<Option<Source>, Fault> {
    let in_folder = |fault: Fault| Fault { file: format!("agent/{}", fault.file), ..fault };
    let told = load(directory, SPEC, mended, |mut spec| {
        Ok((spec.take_text("name"), spec.take_text("trajectory"), spec.take_text("form")))
    });
    let Some((name, Some(file), form)) = told.map_err(in_folder)? else { return Ok(None) };
    if file.contains(['/', '\0']) || file == ".." || file == "." {
        let detail = "names a trajectory that does not lie beside it".into();
        return Err(in_folder(Fault { file: SPEC.into(), detail }));
    }
    let document = load_text(directory, &file, mended, |text, mended| read(text, form.as_deref(), mended));
    let Some(mut document) = document.map_err(in_folder)? else { return Ok(None) };
    document.agent = name.or(document.agent);
    // Some programs do not write down what they were told.
    if document.steps.first().is_some_and(|step| step.source == Speaker::Agent) {
        let told =
            load_text(directory, INSTRUCTION, mended, |text, _| Ok(text.to_owned())).map_err(in_folder)?;
        if let Some(told) = told {
            document.steps.insert(0, Step::new(Speaker::User, Content::Text(told)));
        }
    }
    Ok(Some(Source { name: MAIN.into(), chain: vec![document] }))
}

/// Opens a folder of a trial. Whatever stands in its place and is no directory, such as a link, is a fault.
pub(crate) fn folder_of(trial: &Directory, name: &str, faults: &mut Vec<Fault>) -> Option<Directory> {
    match trial.child(OsStr::new(name)) {
        Ok(directory) => Some(directory),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            let detail = match error.kind() {
                io::ErrorKind::NotADirectory => {
                    "is a link or no directory, and was not looked into".to_owned()
                }
                _ => format!("cannot be opened: {error}"),
            };
            let fault = Fault { file: name.to_owned(), detail };
            // Two kinds of trajectories may lie in one folder.
            if !faults.contains(&fault) {
                faults.push(fault);
            }
            None
        }
    }
}

/// Opens the steps of a trial, by name. Links among them are faults.
pub(crate) fn steps_of(trial: &Directory, faults: &mut Vec<Fault>) -> Vec<(OsString, Directory)> {
    let Some(steps) = folder_of(trial, "steps", faults) else { return Vec::new() };
    let entries = steps.entries().unwrap_or_default();
    for name in entries.others {
        let file = format!("steps/{}", name.to_string_lossy());
        faults.push(Fault { file, detail: "is a link or a special file, and was not read".into() });
    }
    let open = |name: OsString| steps.child(&name).ok().map(|step| (name, step));
    entries.directories.into_iter().filter_map(open).collect()
}

/// Reads the trajectory in a file that no trial is around.
pub(crate) fn lone(directory: &Directory, file: &OsStr, mended: &mut Mended) -> Result<Source, Fault> {
    let name = file.to_string_lossy();
    match load_text(directory, &name, mended, |text, mended| read(text, None, mended))? {
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
    load_text(directory, name, mended, |text, mended| read(text, None, mended))
        .map_err(|fault| Fault { file: format!("{folder}/{}", fault.file), ..fault })
}

/// Every `trajectory.NAME.json` that is no continuation, and what documents hold inside. One that a document names and that is
/// not among them is a fault.
fn helpers(directory: &Directory, mended: &mut Mended, faults: &mut Vec<Fault>, found: &mut Vec<Source>) {
    let mut helpers = Vec::new();
    let entries = directory.entries().unwrap_or_default();
    for name in &entries.files {
        let Some((name, middle)) = helper_name(name) else { continue };
        match trajectory(directory, "agent", name, mended) {
            Ok(Some(trajectory)) => {
                helpers.push(Source { name: middle.to_owned(), chain: vec![trajectory] });
            }
            Ok(None) => {}
            Err(fault) => faults.push(fault),
        }
    }
    let odd = entries.others.iter().filter_map(|name| helper_name(name)).map(|(name, _)| name);
    faults.extend(odd.map(|name| Fault {
        file: format!("agent/{name}"),
        detail: "is a link or a special file, and was not read".into(),
    }));
    let named: BTreeSet<&str> = found
        .iter()
        .flat_map(|source| &source.chain)
        .chain(helpers.iter().flat_map(|helper| &helper.chain))
        .flat_map(|document| &document.steps)
        .flat_map(|step| &step.results)
        .flat_map(|result| result.helpers.iter().map(String::as_str))
        .collect();
    for name in named {
        let is = |names: &[OsString]| names.iter().any(|other| other == name);
        let detail = if name.is_empty() || name.contains(['/', '\0']) || name == "." || name == ".." {
            "is named as a helper's trajectory, and does not lie beside the agent's own"
        } else if is(&entries.others) && helper_name(OsStr::new(name)).is_none() {
            "is a link or a special file, and was not read"
        } else if is(&entries.others) || (is(&entries.files) && helper_name(OsStr::new(name)).is_some()) {
            continue;
        } else if is(&entries.files) {
            "is named as a helper's trajectory; only those called trajectory.NAME.json are read"
        } else {
            "is missing; a step says that a helper left it"
        };
        faults.push(Fault { file: format!("agent/{name}"), detail: detail.into() });
    }
    for source in found.iter_mut() {
        for document in &mut source.chain {
            embedded(document, "", &mut helpers);
        }
    }
    helpers.sort_by(|a, b| a.name.cmp(&b.name));
    found.extend(helpers);
}

/// The name of a helper's file, and that of the helper in it.
fn helper_name(name: &OsStr) -> Option<(&str, &str)> {
    let name = name.to_str()?;
    let middle = name.strip_prefix("trajectory.")?.strip_suffix(".json")?;
    (!name.contains(".cont-")).then_some((name, middle))
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
    let directory = folder_of(trial, "verifier", faults)?;
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
