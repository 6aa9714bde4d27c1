//! Candidates: instance rows reduced to what a plan asks for, and the check that every id means one task.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use ident::{Digest, RepoKey, TaskId};

use crate::{InputError, Note, PlanInput};

/// One row of an instance collection, without its patch and tests.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// The task's id as given.
    pub id: String,
    /// The collection's name for the repository; read only when the id names none.
    pub repo: String,
    /// The collection's image, as given.
    pub image: String,
    /// Digest of the whole row, to tell repeated rows from contradicting ones. It is needed only where an id has several
    /// rows; a row of such an id without a digest counts as a contradiction, as nobody has compared it.
    pub row: Option<Digest>,
}

impl Candidate {
    /// The repository that the id names, or else the one of the row, before any alias.
    pub(crate) fn repo_key(&self, id: &TaskId) -> Result<RepoKey, InputError> {
        RepoKey::of_task(id)
            .or_else(|_| RepoKey::parse(&self.repo))
            .map_err(|_| InputError::NoRepository { id: self.id.clone(), repo: self.repo.clone() })
    }
}

/// The candidates by id, one row each.
pub(crate) type Catalog<'a> = HashMap<&'a str, &'a Candidate>;

/// Collapses repeated rows and refuses contradicting ones and ids that cannot be told apart safely.
pub(crate) fn catalog<'a>(
    input: &'a PlanInput,
    errors: &mut Vec<InputError>,
    notes: &mut Vec<Note>,
) -> Catalog<'a> {
    let mut catalog = Catalog::with_capacity(input.instances.len());
    let mut several: BTreeSet<&str> = BTreeSet::new();
    let mut hostile: BTreeMap<&str, InputError> = BTreeMap::new();
    for row in &input.instances {
        if catalog.insert(&row.id, row).is_some() {
            several.insert(&row.id);
        }
        if let Err(error) = TaskId::new(row.id.as_str()) {
            hostile.insert(&row.id, InputError::TaskId(error));
        }
    }
    errors.extend(hostile.into_values());
    let mut repeated: BTreeMap<String, u64> = BTreeMap::new();
    for id in several {
        let rows: Vec<&Candidate> = input.instances.iter().filter(|row| row.id == id).collect();
        let (first, count) = (rows[0], rows.len() as u64);
        if first.row.is_none() || rows.iter().any(|row| *row != first) {
            errors.push(InputError::InstanceConflict { id: id.to_owned(), rows: count });
        } else {
            repeated.insert(id.to_owned(), count);
        }
    }
    if !repeated.is_empty() {
        notes.push(Note::RepeatedInstances { rows: repeated });
    }
    near_ids(input, errors);
    catalog
}

/// Names every pair of ids, over the instances and all id lists, that differ only in case or outer white space: on
/// some file systems they would be one directory.
fn near_ids(input: &PlanInput, errors: &mut Vec<InputError>) {
    let instances = input.instances.iter().map(|candidate| (candidate.id.as_str(), "instances"));
    let listed = input.sets.iter().flat_map(|(name, ids)| ids.iter().map(|id| (id.as_str(), name.as_str())));
    let fold = |id: &str| id.trim().to_lowercase();
    // Almost always there is no such pair, so that one pass over all ids is enough.
    let mut first: HashMap<String, &str> = HashMap::with_capacity(input.instances.len());
    let mut meeting: HashSet<String> = HashSet::new();
    for (id, _) in instances.clone().chain(listed.clone()) {
        let folded = fold(id);
        match first.get(folded.as_str()) {
            Some(other) if *other != id => drop(meeting.insert(folded)),
            Some(_) => {}
            None => drop(first.insert(folded, id)),
        }
    }
    let mut places: BTreeMap<&str, &str> = BTreeMap::new();
    for (id, place) in
        instances.chain(listed).filter(|(id, _)| !meeting.is_empty() && meeting.contains(&fold(id)))
    {
        places.entry(id).or_insert(place);
    }
    let mut folded: Vec<(String, &str, &str)> =
        places.into_iter().map(|(id, place)| (id.trim().to_lowercase(), id, place)).collect();
    folded.sort_unstable();
    for run in folded.chunk_by(|a, b| a.0 == b.0) {
        let (_, first, first_place) = &run[0];
        for (_, second, second_place) in &run[1..] {
            errors.push(InputError::NearIds {
                first: (*first).to_owned(),
                first_place: (*first_place).to_owned(),
                second: (*second).to_owned(),
                second_place: (*second_place).to_owned(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, content: &str) -> Candidate {
        Candidate { id: id.into(), repo: "o/a".into(), image: String::new(), row: Some(Digest::of(content)) }
    }

    fn read(rows: Vec<Candidate>) -> (usize, Vec<InputError>, Vec<Note>) {
        let input = PlanInput { instances: rows, ..PlanInput::default() };
        let (mut errors, mut notes) = (Vec::new(), Vec::new());
        let size = catalog(&input, &mut errors, &mut notes).len();
        (size, errors, notes)
    }

    #[test]
    fn identical_rows_collapse_with_a_count() {
        let (size, errors, notes) = read(vec![row("a.1", "x"), row("b.1", "x"), row("a.1", "x")]);
        assert_eq!((size, errors), (2, vec![]));
        assert_eq!(notes, [Note::RepeatedInstances { rows: [("a.1".to_owned(), 2)].into() }]);
    }

    #[test]
    fn rows_that_nobody_compared_are_no_repetition() {
        let unread = Candidate { row: None, ..row("a.1", "x") };
        let (_, errors, _) = read(vec![unread.clone(), unread]);
        assert_eq!(errors, [InputError::InstanceConflict { id: "a.1".into(), rows: 2 }]);
    }

    #[test]
    fn contradicting_rows_and_lookalikes_are_named() {
        let (_, errors, _) = read(vec![row("a.1", "x"), row("a.1", "y"), row("A.1", "x"), row("a.1 ", "x")]);
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert!(texts.iter().any(|text| text.contains("2 rows") && text.contains("`a.1`")), "{texts:?}");
        for other in ["`a.1`", "`a.1 `"] {
            assert!(texts.iter().any(|text| text.contains("`A.1`") && text.contains(other)), "{texts:?}");
        }
    }

    #[test]
    fn lookalikes_between_a_list_and_the_instances_are_named() {
        let input = PlanInput {
            instances: vec![row("a.1", "x")],
            sets: [("keep".to_owned(), vec!["a.1".to_owned(), "A.1".to_owned()])].into(),
            ..PlanInput::default()
        };
        let mut errors = Vec::new();
        catalog(&input, &mut errors, &mut Vec::new());
        assert!(matches!(&errors[..], [InputError::NearIds { first, first_place, second, second_place }]
            if first == "A.1" && first_place == "keep" && second == "a.1" && second_place == "instances"));
    }

    #[test]
    fn the_id_names_the_repository_before_the_row_does() {
        let key = |id: &str| row(id, "x").repo_key(&TaskId::new(id).unwrap()).unwrap();
        assert_eq!(key("Own__Na.me.01234567.pr_1").as_str(), "own/na.me");
        assert_eq!(key("tiny-add").as_str(), "o/a");
    }
}
