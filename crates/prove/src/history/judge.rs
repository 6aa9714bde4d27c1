//! Walks from the commit that is checked out, and names everything that the walk does not meet.

use std::collections::HashSet;
use std::fmt;

use task::git::{Budget, Kind, Links, ObjectId, Objects};
use task::printable;

use super::gather::{Gathered, GitDirectory};
use super::names::{self, Head, Part};

/// So many objects are named one by one.
const NAMED: usize = 5;
/// Most bytes that are inflated for one environment.
const MAX_INFLATED: u64 = 8 << 30;

/// What may be there beside the commit that is checked out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Allowed {
    /// Nothing: the one commit, without parents, and one branch that names it.
    OneCommit,
    /// What the commit came from: its ancestors, and names for them. Nothing that came after it, or beside it.
    Ancestors,
}

/// Something that must not be there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trace {
    /// The repository, by its path in the working directory.
    pub place: String,
    /// What it is, in words.
    pub what: String,
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// Names everything in a working directory that is not allowed, in a fixed order. Nothing is named where there is no
/// repository.
pub fn judge(gathered: &Gathered, allowed: Allowed) -> Vec<Trace> {
    let mut traces = Vec::new();
    if gathered.is_cut {
        traces.push(Trace { place: ".".into(), what: "there is more than can be walked".into() });
    }
    for (path, target) in &gathered.pointers {
        let what = format!("it leads to a repository elsewhere (`{}`)", printable(target.as_bytes()));
        traces.push(Trace { place: printable(path), what });
    }
    let mut budget = Budget::new(MAX_INFLATED);
    let mut own = None;
    for (owner, git) in &gathered.repositories {
        let place = match &owner[..] {
            [] => ".git".to_owned(),
            owner => format!("{}/.git", printable(owner)),
        };
        let mut walk = Walk { git, allowed, objects: Objects::default(), found: Vec::new() };
        walk.read(&mut budget);
        walk.judge();
        if !owner.is_empty() {
            walk.found.insert(0, "a repository within the working directory".into());
        }
        traces.extend(walk.found.drain(..).map(|what| Trace { place: place.clone(), what }));
        if owner.is_empty() {
            own = Some(walk);
        }
    }
    for path in &gathered.bare {
        // Test data may look like a repository; then it is part of the commit.
        let head = [path, &b"/HEAD"[..]].concat();
        if own.as_ref().is_none_or(|own| !own.holds(&head)) {
            let what = "a repository without a working directory, which the commit does not hold".into();
            traces.push(Trace { place: printable(path), what });
        }
    }
    traces
}

struct Walk<'g> {
    git: &'g GitDirectory,
    allowed: Allowed,
    objects: Objects,
    found: Vec<String>,
}

impl Walk<'_> {
    fn is_strict(&self) -> bool {
        self.allowed == Allowed::OneCommit
    }

    /// Reads every object, and names the files that lead elsewhere.
    fn read(&mut self, budget: &mut Budget) {
        for path in &self.git.links {
            self.found.push(format!("`{}` is a link", printable(path)));
        }
        for (path, content) in &self.git.files {
            let read = match names::part(path) {
                Part::Loose(id) => self.objects.add_loose(id, content, budget),
                Part::Pack => self.objects.add_pack(content, budget),
                Part::Elsewhere(what) => {
                    self.found.push(format!("`{}`: {what}", printable(path)));
                    Ok(())
                }
                Part::Altered(what) if self.is_strict() => {
                    self.found.push(format!("`{}`: {what}", printable(path)));
                    Ok(())
                }
                Part::Unknown if self.is_strict() => {
                    self.found.push(format!(
                        "`{}` is no file that a repository of one commit has",
                        printable(path)
                    ));
                    Ok(())
                }
                _ => Ok(()),
            };
            if let Err(unread) = read {
                self.found.push(format!("`{}` cannot be read: {unread}", printable(path)));
            }
        }
    }

    fn judge(&mut self) {
        let (remotes, is_other_format) = names::settings(self.git);
        if is_other_format {
            self.found.push("its objects have names of a kind that is not read".into());
            return;
        }
        let Head { branch, commit } = names::head(self.git);
        let Some(commit) = commit else {
            if !self.objects.all.is_empty() || !names::references(self.git).is_empty() {
                self.found.push("no commit is checked out".into());
                self.strays(&HashSet::new());
            }
            return;
        };
        if self.is_strict() {
            for remote in remotes {
                self.found.push(format!("the remote `{remote}` is known"));
            }
            if let Some(Links::Commit { parents, .. }) = self.objects.all.get(&commit)
                && let Some(parent) = parents.first()
            {
                self.found.push(format!("commit {commit} is not the first: {parent} stands before it"));
            }
        }
        let met = self.reach(commit);
        self.names(branch.as_deref(), commit, &met);
        self.strays(&met);
    }

    /// Everything that the commit leads to, itself included. What it leads to and is not there is named.
    fn reach(&mut self, commit: ObjectId) -> HashSet<ObjectId> {
        let is_cut = self.git.files.contains_key(&b"shallow"[..]);
        let mut met = HashSet::from([commit]);
        let mut open = vec![(commit, Kind::Commit)];
        let mut missing = None;
        while let Some((id, kind)) = open.pop() {
            let mut add = |id: ObjectId, kind| {
                if met.insert(id) {
                    open.push((id, kind));
                }
            };
            match self.objects.all.get(&id) {
                Some(Links::Commit { tree, parents }) => {
                    add(*tree, Kind::Tree);
                    if self.allowed == Allowed::Ancestors {
                        for parent in parents {
                            add(*parent, Kind::Commit);
                        }
                    }
                }
                // The kind of an entry does not matter: what is missing is.
                Some(Links::Tree(entries)) => entries.iter().for_each(|(_, id)| add(*id, Kind::Blob)),
                Some(Links::Tag(id)) => add(*id, Kind::Commit),
                Some(Links::Blob) => {}
                None if kind == Kind::Commit && is_cut && id != commit => {}
                // The first by name, so that the same repository is always told of in the same words.
                None => missing = Some(missing.map_or(id, |other: ObjectId| other.min(id))),
            }
        }
        if let Some(id) = missing {
            self.found.push(format!("object {id} of the checked-out commit is not there"));
        }
        met
    }

    /// Names references, reflogs and heads that lead elsewhere.
    fn names(&mut self, branch: Option<&str>, commit: ObjectId, met: &HashSet<ObjectId>) {
        let mut found = Vec::new();
        let is_met = |id: ObjectId| match self.allowed {
            Allowed::OneCommit => id == commit,
            Allowed::Ancestors => met.contains(&self.peeled(id)),
        };
        for (name, id) in names::references(self.git) {
            let shown = printable(name.as_bytes());
            match id {
                Some(id) if self.is_strict() && branch != Some(&*name) => {
                    found.push(format!("the reference `{shown}` names {id}"));
                }
                Some(id) if !is_met(id) => found.push(format!("the reference `{shown}` names {id}")),
                None if self.is_strict() => found.push(format!("the reference `{shown}` names another one")),
                _ => {}
            }
        }
        for (path, content) in &self.git.files {
            let (is_reflog, what) = match names::part(path) {
                Part::Reflog => (true, "the reflog"),
                Part::Head => (false, "the head"),
                _ => continue,
            };
            let shown = printable(path);
            match names::named(content, is_reflog).into_iter().find(|id| !is_met(*id)) {
                Some(id) => found.push(format!("{what} `{shown}` names {id}")),
                None if !is_reflog && self.is_strict() => found.push(format!("{what} `{shown}` was left")),
                None => {}
            }
        }
        self.found.extend(found);
    }

    /// What a tag is about, through tags of tags.
    fn peeled(&self, id: ObjectId) -> ObjectId {
        let mut id = id;
        // A chain cannot close, since names are sums of contents; the bound is for its length.
        for _ in 0..64 {
            match self.objects.all.get(&id) {
                Some(Links::Tag(next)) => id = *next,
                _ => break,
            }
        }
        id
    }

    /// Names objects that were not met, commits first.
    fn strays(&mut self, met: &HashSet<ObjectId>) {
        let is_stray = |id: &ObjectId, kind: Kind| {
            let tag_of_met =
                || kind == Kind::Tag && self.allowed == Allowed::Ancestors && met.contains(&self.peeled(*id));
            !met.contains(id) && !tag_of_met()
        };
        let mut strays: Vec<(Kind, ObjectId)> = self
            .objects
            .all
            .iter()
            .map(|(id, links)| (links.kind(), *id))
            .filter(|(kind, id)| is_stray(id, *kind))
            .collect();
        strays.sort_unstable();
        let left = strays.len().saturating_sub(NAMED);
        for (kind, id) in strays.into_iter().take(NAMED) {
            self.found.push(format!(
                "{} {id} is stored, and the checked-out commit does not lead to it",
                kind.name()
            ));
        }
        if left > 0 {
            self.found.push(format!("{left} more such objects are stored"));
        }
    }

    /// Whether the tree of the checked-out commit holds a file of this path.
    fn holds(&self, path: &[u8]) -> bool {
        let commit = names::head(self.git).commit;
        let Some(Links::Commit { tree, .. }) = commit.and_then(|id| self.objects.all.get(&id)) else {
            return false;
        };
        let mut at = *tree;
        for part in path.split(|&byte| byte == b'/') {
            let Some(Links::Tree(entries)) = self.objects.all.get(&at) else { return false };
            let Some((_, id)) = entries.iter().find(|(name, _)| **name == *part) else { return false };
            at = *id;
        }
        true
    }
}
