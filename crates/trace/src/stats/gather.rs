//! The facts of all trials that a user names, from jobs and from sets of rows.

use std::collections::BTreeMap;
use std::path::PathBuf;

use job::What;
use serde::Serialize;

use super::TrialFacts;
use crate::TraceError;
use crate::export::LeftOut;
use crate::input::Input;
use crate::json::Mended;
use crate::read::{ReadReport, Wanted, read_rows};
use crate::row::Text;
use crate::trial::{Fault, Found, Head, Root, find, lone, run_above, sources, steps_of};

/// The facts of trials, and what stood in the way.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Gathered {
    /// One entry a trial, sorted by run and name.
    #[serde(skip)]
    pub trials: Vec<TrialFacts>,
    /// Trials that are equal to others of the same run and name.
    pub copies: u64,
    /// Trials of the same run and name that say something else; the first one counts.
    pub contradictions: Vec<LeftOut>,
    /// Trajectories that were malformed; their trials count all the same.
    pub malformed: Vec<LeftOut>,
    /// What could not be looked into.
    pub odd: Vec<LeftOut>,
    /// Rows of helpers and of earlier turns, which are no trials of their own.
    pub other_rows: u64,
    /// What was found while sets were read.
    pub read: ReadReport,
}

/// Gathers the facts of everything below `paths`.
pub fn gather(paths: &[PathBuf]) -> Result<Gathered, TraceError> {
    let mut gathered = Gathered::default();
    let mut known: BTreeMap<(Text, Text), Entry> = BTreeMap::new();
    for path in paths {
        match Input::of(path)? {
            Input::Jobs(path) => jobs(&path, &mut known, &mut gathered)?,
            Input::Set(set) => {
                gathered.odd.extend(set.odd);
                rows(&set.files, &mut known, &mut gathered)?;
            }
        }
    }
    gathered.trials = known.into_values().map(|entry| entry.facts).collect();
    gathered.contradictions.sort();
    gathered.malformed.sort();
    gathered.odd.sort();
    Ok(gathered)
}

struct Entry {
    facts: TrialFacts,
    place: String,
    /// The turn of the row that it is from; of a trial on disk the last.
    episode: u64,
}

fn add(known: &mut BTreeMap<(Text, Text), Entry>, gathered: &mut Gathered, entry: Entry) {
    use std::collections::btree_map::Entry as Slot;
    match known.entry((entry.facts.run_id.clone(), entry.facts.trial.clone())) {
        Slot::Vacant(slot) => drop(slot.insert(entry)),
        Slot::Occupied(mut slot) => {
            let first = slot.get_mut();
            if first.episode != entry.episode {
                gathered.other_rows += 1;
                if entry.episode > first.episode {
                    *first = entry;
                }
            } else if first.facts == entry.facts {
                gathered.copies += 1;
            } else {
                let why = format!("says something else than {} of the same run and name", first.place);
                gathered.contradictions.push(LeftOut { path: entry.place, why });
            }
        }
    }
}

fn jobs(
    path: &std::path::Path,
    known: &mut BTreeMap<(Text, Text), Entry>,
    gathered: &mut Gathered,
) -> Result<(), TraceError> {
    let root = Root::open(path).map_err(TraceError::io(path))?;
    let mut found = Vec::new();
    find(0, &root, &mut found);
    for found in found {
        let (place, head) = match found {
            Found::Trial(place, head, _) => (place, head),
            Found::File(place) => {
                let path = place.path(&root);
                let read =
                    root.below(&place.names).map_err(|error| error.to_string()).and_then(|directory| {
                        lone(&directory, place.file.as_deref().unwrap_or_default(), &mut Mended::default())
                            .map_err(|fault| fault.detail)
                    });
                match read {
                    Ok(source) => {
                        let head = Head::of_file(&path);
                        let facts = TrialFacts::of_file(&head, &source.chain);
                        add(
                            known,
                            gathered,
                            Entry { facts, place: path.display().to_string(), episode: u64::MAX },
                        );
                    }
                    Err(why) => gathered.malformed.push(LeftOut { path: path.display().to_string(), why }),
                }
                continue;
            }
            Found::Odd(path, why) => {
                gathered.odd.push(LeftOut { path: path.display().to_string(), why });
                continue;
            }
        };
        let directory = root.path_of(&place.names);
        let shown = directory.display().to_string();
        let view = match job::read_trial(&directory) {
            Ok(view) => view,
            Err(error) => {
                gathered.odd.push(LeftOut { path: shown, why: error.to_string() });
                continue;
            }
        };
        let (mut sources, mut faults) = (Vec::new(), Vec::new());
        if let Ok(directory) = root.below(&place.names) {
            let mut read = |directory: &job::Directory, faults: &mut Vec<Fault>| match self::sources(
                directory,
                false,
                &mut Mended::default(),
                faults,
            ) {
                Ok(read) => sources.extend(read.into_iter().flat_map(|source| source.chain)),
                Err(fault) => {
                    gathered.malformed.push(LeftOut { path: shown.clone(), why: fault.to_string() });
                }
            };
            read(&directory, &mut faults);
            for (_, step) in steps_of(&directory, &mut faults) {
                read(&step, &mut faults);
            }
        }
        // Why a trial that has numbers has no reward that counts, or fewer numbers than it seems.
        let unread = view.oddities.iter().filter(|oddity| {
            matches!(oddity.what, What::NonFinite { .. } | What::WrongType { .. } | What::NoRewardKey(_))
        });
        let odd = faults.iter().map(ToString::to_string).chain(unread.map(ToString::to_string));
        gathered.odd.extend(odd.map(|why| LeftOut { path: shown.clone(), why }));
        let run = head.and_then(|head| head.run_id).unwrap_or_else(|| run_above(&directory, view.generation));
        let facts = TrialFacts::of_trial(&view, &run, &sources);
        add(known, gathered, Entry { facts, place: shown, episode: u64::MAX });
    }
    Ok(())
}

fn rows(
    files: &[PathBuf],
    known: &mut BTreeMap<(Text, Text), Entry>,
    gathered: &mut Gathered,
) -> Result<(), TraceError> {
    let report = read_rows(files, Wanted::Turns, &mut |place, row| {
        if crate::convert::is_helper(&row) {
            gathered.other_rows += 1;
            return Ok(());
        }
        let mut facts = TrialFacts::of_row(&row);
        // A set without names of trials has a trial a row.
        if row.trial_name.is_none() {
            facts.trial = place.to_string().into();
        }
        add(known, gathered, Entry { facts, place: place.to_string(), episode: row.key().episode });
        Ok(())
    })?;
    gathered.read.add(report);
    Ok(())
}
