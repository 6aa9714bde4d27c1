//! Harbor's lists of tasks: `registry.json`, which knows many data sets, and `dataset.toml`, which is one.

use std::collections::BTreeMap;
use std::path::Path;

use ident::TaskId;
use serde::Deserialize;

use crate::read::{RowProblem, strict_value};

/// The largest manifest in bytes.
pub(crate) const MANIFEST_LIMIT: u64 = 256 << 20;

/// One task of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedTask {
    /// The last part of its name.
    pub id: TaskId,
    /// Its directory, relative to the manifest or to the repository.
    pub path: Option<String>,
    /// The repository that holds it; none when it lies beside the manifest.
    pub repository: Option<GitPlace>,
}

/// A git repository at a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GitPlace {
    /// Its address.
    pub url: String,
    /// The commit, as the manifest names it.
    pub commit: Option<String>,
}

/// The tasks of one data set.
#[derive(Debug, Default)]
pub(crate) struct ManifestTasks {
    /// Tasks in the order of their ids.
    pub tasks: Vec<ListedTask>,
    /// What is worth telling.
    pub notes: Vec<String>,
}

#[derive(Deserialize)]
struct RegistrySet {
    name: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    tasks: Vec<RegistryTask>,
}

#[derive(Deserialize)]
struct RegistryTask {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    git_url: Option<String>,
    #[serde(default)]
    git_commit_id: Option<String>,
    #[serde(default)]
    path: Option<String>,
}

#[derive(Deserialize)]
struct DatasetFile {
    dataset: DatasetTable,
    #[serde(default)]
    tasks: Vec<RegistryTask>,
}

#[derive(Deserialize)]
struct DatasetTable {
    name: String,
    #[serde(default)]
    version: Option<String>,
    #[serde(default)]
    tasks: Vec<RegistryTask>,
}

/// Reads a manifest. `wanted` chooses among several data sets: `name` or `name@version`.
pub(crate) fn read_manifest(
    path: &Path,
    bytes: &[u8],
    wanted: Option<&str>,
) -> Result<ManifestTasks, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| format!("is not valid UTF-8: {error}"))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_toml = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
    let (sets, note) = if is_toml { (dataset_toml(text)?, None) } else { registry_json(text)? };
    let mut found = tasks_of(choose(sets, wanted)?)?;
    found.notes.splice(0..0, note);
    Ok(found)
}

/// Reads a registry. A key that stands twice in one object is no fault, as published ones have such: the last one
/// counts, as it does for Harbor, and it is told.
fn registry_json(text: &str) -> Result<(Vec<RegistrySet>, Option<String>), String> {
    let wrong = |error: serde_json::Error| format!("is no registry: {error}");
    let note = match strict_value(text) {
        Err((offset, RowProblem::DuplicateKey(key))) => Some(format!(
            "the key `{}` stands twice in one object before byte {offset}; the last one counts",
            key.escape_debug()
        )),
        _ => None,
    };
    let value: serde_json::Value = serde_json::from_str(text).map_err(wrong)?;
    Ok((serde_json::from_value(value).map_err(wrong)?, note))
}

fn dataset_toml(text: &str) -> Result<Vec<RegistrySet>, String> {
    let file: DatasetFile =
        toml::from_str(text).map_err(|error| format!("is no data set: {}", error.message()))?;
    // Written by hand, the list of tasks ends up in `[dataset]` now and then.
    let tasks = file.tasks.into_iter().chain(file.dataset.tasks).collect();
    Ok(vec![RegistrySet {
        name: file.dataset.name,
        version: file.dataset.version.unwrap_or_default(),
        tasks,
    }])
}

/// The data set that is meant. One that is listed several times must have a version that is wanted, or be the same.
fn choose(sets: Vec<RegistrySet>, wanted: Option<&str>) -> Result<Vec<RegistrySet>, String> {
    let names = |sets: &[RegistrySet]| {
        let mut names: Vec<_> = sets.iter().map(|set| format!("{}@{}", set.name, set.version)).collect();
        names.sort();
        names.dedup();
        names
    };
    let known = names(&sets);
    let fits = |set: &RegistrySet| match wanted {
        None => true,
        Some(wanted) => wanted == set.name || wanted == format!("{}@{}", set.name, set.version),
    };
    let chosen: Vec<_> = sets.into_iter().filter(fits).collect();
    let remedy = || {
        const SHOWN: usize = 30;
        let more = if known.len() > SHOWN { ", …" } else { "" };
        let first: Vec<_> = known.iter().take(SHOWN).map(String::as_str).collect();
        format!("name one of them with `dataset`: {}{more}", first.join(", "))
    };
    match (names(&chosen).len(), wanted) {
        (0, Some(wanted)) => Err(format!("lists no data set `{wanted}`; {}", remedy())),
        (0, None) => Err("lists no data set".to_owned()),
        (1, _) => Ok(chosen),
        (_, Some(wanted)) => Err(format!("lists several versions of `{wanted}`; {}", remedy())),
        (several, None) => Err(format!("lists {several} data sets; {}", remedy())),
    }
}

fn tasks_of(sets: Vec<RegistrySet>) -> Result<ManifestTasks, String> {
    let mut tasks: BTreeMap<TaskId, ListedTask> = BTreeMap::new();
    let mut repeated = 0_u64;
    for (at, task) in sets.into_iter().flat_map(|set| set.tasks).enumerate() {
        let number = at + 1;
        let name = task.name.as_deref().or(task.path.as_deref());
        let name = name.ok_or_else(|| format!("task {number} has neither name nor path"))?;
        // A package name is `organisation/name`; a path ends with the name of the directory.
        let last = name.trim_end_matches('/').rsplit('/').next().unwrap_or(name);
        let id = TaskId::new(last).map_err(|error| format!("task {number}: {error}"))?;
        let commit = task.git_commit_id;
        let repository = task.git_url.map(|url| GitPlace { url, commit });
        let listed = ListedTask { id: id.clone(), path: task.path, repository };
        match tasks.get(&id) {
            Some(earlier) if *earlier != listed => {
                return Err(format!("task {number}, `{id}`, differs from an earlier task of the same id"));
            }
            Some(_) => repeated += 1,
            None => {
                tasks.insert(id, listed);
            }
        }
    }
    let mut notes = Vec::new();
    if repeated > 0 {
        notes.push(format!("tasks that are listed more than once: {repeated}"));
    }
    if tasks.is_empty() {
        notes.push("the data set lists no task".to_owned());
    }
    Ok(ManifestTasks { tasks: tasks.into_values().collect(), notes })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(file: &str, text: &str, wanted: Option<&str>) -> Result<Vec<String>, String> {
        let found = read_manifest(Path::new(file), text.as_bytes(), wanted)?;
        Ok(found.tasks.iter().map(|task| task.id.to_string()).collect())
    }

    const REGISTRY: &str = r#"[
        {"name": "a", "version": "1.0", "description": "", "tasks": [
            {"name": "t2", "git_url": "https://code.invalid/x.git", "git_commit_id": "c", "path": "d/t2"},
            {"name": "t1", "path": "d/t1"}, {"name": "t1", "path": "d/t1"}]},
        {"name": "a", "version": "2.0", "description": "", "tasks": [{"name": "t3", "path": "t3"}]},
        {"name": "b", "version": "head", "description": "", "tasks": []}]"#;

    #[test]
    fn a_registry_gives_the_tasks_of_one_data_set() {
        assert_eq!(read("r.json", REGISTRY, Some("a@1.0")).unwrap(), ["t1", "t2"]);
        assert_eq!(read("r.json", REGISTRY, Some("b")).unwrap(), [""; 0]);
        for (wanted, expected) in [
            (None, "lists 3 data sets; name one of them with `dataset`: a@1.0, a@2.0, b@head"),
            (Some("a"), "lists several versions of `a`"),
            (Some("c"), "lists no data set `c`"),
        ] {
            let message = read("r.json", REGISTRY, wanted).unwrap_err();
            assert!(message.starts_with(expected), "{message}");
        }
        let found = read_manifest(Path::new("r.json"), REGISTRY.as_bytes(), Some("a@1.0")).unwrap();
        assert_eq!(found.notes, ["tasks that are listed more than once: 1"]);
        let place = GitPlace { url: "https://code.invalid/x.git".into(), commit: Some("c".into()) };
        assert_eq!(found.tasks[1].repository, Some(place));
    }

    #[test]
    fn the_last_of_two_equal_keys_counts_and_is_told() {
        let twice = r#"[{"name": "a", "name": "b", "tasks": [{"name": "t1"}]}]"#;
        let found = read_manifest(Path::new("r.json"), twice.as_bytes(), Some("b")).unwrap();
        assert_eq!(found.tasks.len(), 1);
        assert!(found.notes[0].starts_with("the key `name` stands twice in one object"), "{:?}", found.notes);
    }

    #[test]
    fn both_places_of_tasks_in_a_dataset_toml_are_read() {
        let usual = "[dataset]\nname = \"o/n\"\n[[tasks]]\nname = \"o/t1\"\ndigest = \"sha256:00\"\n[[tasks]]\nname = \"o/t2\"\n";
        assert_eq!(read("dataset.toml", usual, None).unwrap(), ["t1", "t2"]);
        let inner =
            "[dataset]\nname = \"o/n\"\ntasks = [{ path = \"tasks/t1\" }, { path = \"tasks/t2/\" }]\n";
        assert_eq!(read("dataset.toml", inner, Some("o/n")).unwrap(), ["t1", "t2"]);
    }

    #[test]
    fn what_cannot_be_a_task_is_refused_by_its_number() {
        let of = |tasks: &str| {
            read("r.json", &format!(r#"[{{"name": "a", "tasks": {tasks}}}]"#), None).unwrap_err()
        };
        assert!(of(r#"[{"name": "t1"}, {"name": ".."}]"#).starts_with("task 2: task id"));
        assert!(of("[{}]").starts_with("task 1 has neither"));
        let differing = r#"[{"name": "t1", "path": "a"}, {"name": "t1", "path": "b"}]"#;
        assert!(of(differing).contains("differs from an earlier task"));
        assert!(read("r.json", "{}", None).unwrap_err().starts_with("is no registry"));
        assert!(read("dataset.toml", "[[datasets]]\n", None).unwrap_err().starts_with("is no data set"));
        assert!(read_manifest(Path::new("r.json"), b"\xff", None).unwrap_err().contains("UTF-8"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_harm(text in r#"(\[|\]|\{|\}|"name":|"tasks":|"a"|,|[a-z =\n]){0,40}"#) {
            let _ = read("r.json", &text, None);
            let _ = read("dataset.toml", &text, None);
        }
    }
}
