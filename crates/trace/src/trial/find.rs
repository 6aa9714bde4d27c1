//! Where trials lie below the directories that a user names.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use job::Directory;

use super::{Head, LONE, load};
use crate::json::Mended;

/// Trials are looked for so many levels below the directory that was named.
const DEPTH: usize = 10;

/// What only the directory of a trial holds.
const MARKS: [&str; 2] = ["trial.log", "exception.txt"];

/// Beside one of these, the configuration of a trial is one's too.
const PARTS: [&str; 3] = ["agent", "verifier", "steps"];

/// A directory that the user named.
#[derive(Debug)]
pub(crate) struct Root {
    /// As it was named.
    pub(crate) path: PathBuf,
    directory: Directory,
    /// The file of one trajectory, where that was named.
    file: Option<OsString>,
}

/// The directory of a trial.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Which of the roots it lies below.
    pub(crate) root: usize,
    /// The names that lead to it; none for the root itself.
    pub(crate) names: Vec<OsString>,
    /// The file of a trajectory without a trial around it.
    pub(crate) file: Option<OsString>,
}

impl Root {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if path.is_file() {
            let above = match path.parent() {
                Some(above) if !above.as_os_str().is_empty() => above,
                _ => Path::new("."),
            };
            let file = path.file_name().map(OsStr::to_owned);
            return Ok(Self { path: above.to_owned(), directory: Directory::open(above)?, file });
        }
        Ok(Self { path: path.to_owned(), directory: Directory::open(path)?, file: None })
    }

    /// Opens a directory below, name by name, so that no link leads out.
    pub(crate) fn below(&self, names: &[OsString]) -> io::Result<Directory> {
        let mut directory = self.directory.child(OsStr::new("."))?;
        for name in names {
            directory = directory.child(name)?;
        }
        Ok(directory)
    }

    /// The path of a place below, for messages and for readers that take one.
    pub(crate) fn path_of(&self, names: &[OsString]) -> PathBuf {
        names.iter().fold(self.path.clone(), |path, name| path.join(name))
    }
}

impl Place {
    /// The path of the place, for messages and for readers that take one.
    pub(crate) fn path(&self, root: &Root) -> PathBuf {
        let directory = root.path_of(&self.names);
        match &self.file {
            Some(file) => directory.join(file),
            None => directory,
        }
    }
}

/// What a directory turned out to be.
#[derive(Debug)]
pub(crate) enum Found {
    /// A trial, with what its result says where it has one.
    Trial(Place, Option<Box<Head>>, Mended),
    /// The file of a trajectory without a trial around it.
    File(Place),
    /// Something that could not be looked into.
    Odd(PathBuf, String),
}

/// Finds all trials below a root: every directory that holds a trial's result or what only a trial leaves, and beside one every
/// directory in which nothing else was found, where a trial ended before it wrote anything. Directories of jobs are gone through,
/// whatever their depth.
pub(crate) fn find(index: usize, root: &Root, found: &mut Vec<Found>) {
    if root.file.is_some() {
        let place = Place { root: index, names: Vec::new(), file: root.file.clone() };
        return found.push(Found::File(place));
    }
    let mut names = Vec::new();
    visit(index, root, &mut names, found);
}

fn visit(index: usize, root: &Root, names: &mut Vec<OsString>, found: &mut Vec<Found>) {
    let odd = |names: &[OsString], error: String| Found::Odd(root.path_of(names), error);
    let directory = match root.below(names) {
        Ok(directory) => directory,
        Err(error) => return found.push(odd(names, error.to_string())),
    };
    let entries = match directory.entries() {
        Ok(entries) => entries,
        Err(error) => return found.push(odd(names, error.to_string())),
    };
    let place = || Place { root: index, names: names.clone(), file: None };
    let has = |name: &str| entries.files.iter().chain(&entries.directories).any(|entry| entry == name);
    let has_parts = PARTS.iter().any(|part| has(part));
    let is_configured =
        || ["config.json", "lock.json"].iter().any(|file| has(file)) || left_trajectory(&directory);
    let is_marked = MARKS.iter().any(|mark| has(mark)) || (has_parts && is_configured());
    let mut mended = Mended::default();
    let head = load(&directory, "result.json", &mut mended, |value| Ok(Head::read(&value)));
    match head {
        Ok(Some(Some(head))) => return found.push(Found::Trial(place(), Some(Box::new(head)), mended)),
        Err(_) if is_marked || has_parts || entries.directories.is_empty() => {
            return found.push(Found::Trial(place(), None, mended));
        }
        Ok(None) if is_marked || is_terminal_bench(&directory) => {
            return found.push(Found::Trial(place(), None, mended));
        }
        // The result of a job or none, or a file of another kind.
        _ => {}
    }
    for file in entries.files.iter().filter(|file| is_trajectory(file)) {
        found.push(Found::File(Place { root: index, names: names.clone(), file: Some(file.clone()) }));
    }
    if names.len() == DEPTH {
        if !entries.directories.is_empty() {
            found.push(odd(names, format!("lies {DEPTH} levels deep, and was not gone through")));
        }
        return;
    }
    let begin = found.len();
    let mut silent = Vec::new();
    for name in entries.directories {
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        names.push(name);
        let before = found.len();
        visit(index, root, names, found);
        if found.len() == before {
            silent.push(Place { root: index, names: names.clone(), file: None });
        }
        names.pop();
    }
    let is_beside =
        |found: &Found| matches!(found, Found::Trial(place, ..) if place.names.len() == names.len() + 1);
    if found[begin..].iter().any(is_beside) {
        found.extend(silent.into_iter().map(|place| Found::Trial(place, None, Mended::default())));
    }
    for name in entries.others {
        names.push(name);
        found.push(odd(names, "is a link or a special file, and was not read".into()));
        names.pop();
    }
}

/// Whether an agent left a trajectory where trials keep it.
fn left_trajectory(directory: &Directory) -> bool {
    directory.child(OsStr::new("agent")).is_ok_and(|agent| agent.has("trajectory.json"))
}

/// Whether a file is named as agents outside of trials name their trajectories.
fn is_trajectory(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    let ends = [&b".traj"[..], b".traj.json", b".trajectory.json"];
    name == LONE.as_bytes() || ends.iter().any(|end| name.ends_with(end))
}

/// The results of a single trial of Terminal-Bench, and not those of a run.
fn is_terminal_bench(directory: &Directory) -> bool {
    let is_trial = load(directory, "results.json", &mut Mended::default(), |value| {
        Ok(value.get("results").is_none()
            && (value.get("trial_name").is_some() || value.get("task_id").is_some()))
    });
    matches!(is_trial, Ok(Some(true)))
}

/// Finds the directories that Harbor's exporter takes for trials: those with a child `agent`, at any depth.
pub(crate) fn find_agents(index: usize, root: &Root) -> Vec<Place> {
    let mut places = Vec::new();
    let mut names = Vec::new();
    visit_agents(index, root, &mut names, &mut places);
    places
}

fn visit_agents(index: usize, root: &Root, names: &mut Vec<OsString>, places: &mut Vec<Place>) {
    let Ok(entries) = root.below(names).and_then(|directory| directory.entries()) else { return };
    if entries.directories.iter().any(|name| name == "agent") {
        places.push(Place { root: index, names: names.clone(), file: None });
        // A root that is a trial itself stands alone.
        if names.is_empty() {
            return;
        }
    }
    if names.len() == DEPTH {
        return;
    }
    for name in entries.directories {
        names.push(name);
        visit_agents(index, root, names, places);
        names.pop();
    }
}
