//! Everything in a git directory that is no object: references, reflogs, heads of interrupted work, settings.

use std::collections::BTreeMap;

use task::git::ObjectId;

use super::gather::GitDirectory;

/// What a file of a git directory is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// One that says nothing of other commits, or only repeats names of objects.
    Plain,
    /// A reference.
    Reference,
    /// A reflog.
    Reflog,
    /// A head of interrupted work, or what was there before.
    Head,
    /// A loose object.
    Loose(ObjectId),
    /// A pack.
    Pack,
    /// A way to objects that lie elsewhere, or to other working directories; with what it is.
    Elsewhere(&'static str),
    /// History that was cut off or laid over.
    Altered(&'static str),
    /// Another file, which may hold anything.
    Unknown,
}

/// Files at the top that tell nothing.
const PLAIN: [&str; 13] = [
    "HEAD",
    "config",
    "description",
    "index",
    "COMMIT_EDITMSG",
    "packed-refs",
    "info/exclude",
    "info/attributes",
    "info/refs",
    "info/sparse-checkout",
    "objects/info/packs",
    "objects/info/commit-graph",
    "objects/pack/multi-pack-index",
];

/// Says what a file is by its path.
pub(super) fn part(path: &[u8]) -> Part {
    let Ok(path) = str::from_utf8(path) else { return Part::Unknown };
    if PLAIN.contains(&path) || path.starts_with("hooks/") {
        return Part::Plain;
    }
    if path.starts_with("refs/") {
        return Part::Reference;
    }
    if path.starts_with("logs/") {
        return Part::Reflog;
    }
    if let Some(pack) = path.strip_prefix("objects/pack/") {
        return match pack.rsplit_once('.') {
            Some((_, "pack")) => Part::Pack,
            Some((_, "idx" | "rev" | "bitmap" | "mtimes")) => Part::Plain,
            Some((_, "promisor")) => {
                Part::Elsewhere("objects are fetched from a remote when they are asked for")
            }
            _ => Part::Unknown,
        };
    }
    if let Some(object) = path.strip_prefix("objects/") {
        return match object {
            "info/alternates" | "info/http-alternates" => {
                Part::Elsewhere("objects are borrowed from another repository")
            }
            _ if object.starts_with("info/commit-graphs/") => Part::Plain,
            _ => match object.split_once('/').and_then(|(one, two)| ObjectId::parse(&[one, two].concat())) {
                Some(id) => Part::Loose(id),
                None => Part::Unknown,
            },
        };
    }
    match path {
        "shallow" => Part::Altered("the history was cut off"),
        "info/grafts" => Part::Altered("other parents are laid over commits"),
        _ if path.starts_with("worktrees/") => Part::Elsewhere("another working directory belongs to it"),
        _ if path.starts_with("modules/") => Part::Elsewhere("it holds the repository of a submodule"),
        _ if !path.contains('/') && path.ends_with("_HEAD")
            || path.starts_with("BISECT_")
            || path == "AUTO_MERGE" =>
        {
            Part::Head
        }
        _ => Part::Unknown,
    }
}

/// What is checked out.
pub(super) struct Head {
    /// The branch, by its full name; none where a commit is checked out by its name.
    pub(super) branch: Option<String>,
    /// The commit.
    pub(super) commit: Option<ObjectId>,
}

fn text(git: &GitDirectory, path: &str) -> Option<String> {
    git.files.get(path.as_bytes()).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// Reads `HEAD` through one symbolic reference.
pub(super) fn head(git: &GitDirectory) -> Head {
    let Some(head) = text(git, "HEAD") else { return Head { branch: None, commit: None } };
    let head = head.trim();
    match head.strip_prefix("ref:").map(str::trim) {
        None => Head { branch: None, commit: ObjectId::parse(head) },
        Some(branch) => {
            let packed = || packed(git).remove(branch);
            let commit = text(git, branch).and_then(|id| ObjectId::parse(id.trim())).or_else(packed);
            Head { branch: Some(branch.to_owned()), commit }
        }
    }
}

/// References that lie in one file for all.
fn packed(git: &GitDirectory) -> BTreeMap<String, ObjectId> {
    let text = text(git, "packed-refs").unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.filter_map(|(id, name)| Some((name.trim().to_owned(), ObjectId::parse(id)?))).collect()
}

/// All references with what they name; none for symbolic and unreadable ones.
pub(super) fn references(git: &GitDirectory) -> BTreeMap<String, Option<ObjectId>> {
    let mut references: BTreeMap<_, _> = packed(git).into_iter().map(|(name, id)| (name, Some(id))).collect();
    for (path, content) in git.files.iter().filter(|(path, _)| part(path) == Part::Reference) {
        let id = ObjectId::parse(String::from_utf8_lossy(content).trim());
        references.insert(task::printable(path), id);
    }
    references
}

/// The names of objects at the beginning of the lines of a reflog or a head, without nulls.
pub(super) fn named(content: &[u8], is_reflog: bool) -> Vec<ObjectId> {
    let text = String::from_utf8_lossy(content);
    let words = text.lines().flat_map(|line| line.split_whitespace().take(if is_reflog { 2 } else { 1 }));
    words.filter_map(ObjectId::parse).filter(|id| !id.is_null()).collect()
}

/// The remotes of the settings, and whether objects have names of another kind.
pub(super) fn settings(git: &GitDirectory) -> (Vec<String>, bool) {
    let text = text(git, "config").unwrap_or_default();
    let mut remotes = Vec::new();
    let mut is_other_format = false;
    for line in text.lines().map(str::trim) {
        let lower = line.to_ascii_lowercase();
        if lower.starts_with("[remote") {
            let name = line.split('"').nth(1).unwrap_or(line);
            remotes.push(task::printable(name.as_bytes()));
        } else if let Some((key, value)) = lower.split_once('=') {
            is_other_format |= key.trim() == "objectformat" && value.trim() != "sha1";
        }
    }
    (remotes, is_other_format)
}
