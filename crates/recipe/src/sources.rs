//! Which keys each kind of source has, needs and does not have.

use record::SourceKind;

use crate::model::SourceRecipe;

/// Something wrong with a source.
pub(crate) struct Complaint {
    /// The key that it is about.
    pub key: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: Option<&'static str>,
}

/// How many values a key takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Number {
    /// None: the key does not belong here.
    None,
    /// One or none.
    Optional,
    /// Exactly one.
    One,
    /// One or more.
    Some,
    /// Any number.
    Any,
}

/// What a kind wants of each of the keys that tell a place.
fn wanted(kind: SourceKind) -> [(&'static str, Number); 5] {
    use Number::{Any, None, One, Optional, Some};
    let [path, repo, revision, files, dataset] = match kind {
        SourceKind::File => [Some, None, None, None, None],
        SourceKind::Dir => [One, None, None, None, None],
        SourceKind::HfDataset => [None, One, One, Any, None],
        SourceKind::HfTaskDirs => [Optional, One, One, None, None],
        SourceKind::GithubFile => [Some, One, One, None, None],
        SourceKind::Registry => [One, None, None, None, Optional],
    };
    [("path", path), ("repo", repo), ("revision", revision), ("files", files), ("dataset", dataset)]
}

/// Everything that is wrong with one source.
pub(crate) fn complaints(source: &SourceRecipe) -> Vec<Complaint> {
    let kind = source.kind;
    let given = |key| match key {
        "path" => source.path.0.len(),
        "files" => source.files.0.len(),
        "repo" => usize::from(source.repo.is_some()),
        "revision" => usize::from(source.revision.is_some()),
        _ => usize::from(source.dataset.is_some()),
    };
    let mut complaints = Vec::new();
    let mut complain = |key, message, help| complaints.push(Complaint { key, message, help });
    for (key, number) in wanted(source.kind) {
        match (number, given(key)) {
            (Number::None, 1..) => {
                complain(
                    key,
                    format!("kind `{kind}` has no `{key}`"),
                    Some("remove it, or choose another kind"),
                );
            }
            (Number::One | Number::Some, 0) => {
                complain(key, format!("kind `{kind}` needs `{key}`"), Some(example(key)));
            }
            (Number::One | Number::Optional, 2..) => {
                complain(key, format!("kind `{kind}` takes one `{key}`"), Some("add a source for each"));
            }
            _ => {}
        }
    }
    if let Some(repo) = source.repo.as_deref().filter(|repo| !is_repository(repo)) {
        complain("repo", format!("`{repo}` is no repository"), Some("write it as \"owner/name\""));
    }
    if let Some(revision) = source.revision.as_deref().filter(|revision| !is_revision(revision)) {
        let help = "write a commit of 40 hexadecimal digits, or a branch or tag that the lock pins";
        complain("revision", format!("`{revision}` is no revision"), Some(help));
    }
    complaints
}

fn example(key: &str) -> &'static str {
    match key {
        "repo" => "such as repo = \"owner/name\"",
        "revision" => "a commit of 40 hexadecimal digits, or a branch or tag that the lock pins",
        _ => "such as path = \"data/tasks.jsonl\"",
    }
}

/// `owner/name`: letters, digits, `-`, `_` and `.`, no part of dots only.
fn is_repository(text: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && part.len() <= 100
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
            && part.chars().any(|c| c != '.')
    };
    text.split_once('/').is_some_and(|(owner, name)| part(owner) && part(name))
}

/// What git allows as a name, roughly: nothing that could be a direction, an option or a pattern.
fn is_revision(text: &str) -> bool {
    let fine = |c: char| !c.is_whitespace() && !c.is_control() && !"~^:?*[\\".contains(c);
    !text.is_empty()
        && text.len() <= 255
        && text.chars().all(fine)
        && !text.starts_with(['-', '/'])
        && !text.ends_with(['/', '.'])
        && !text.contains("..")
        && !text.contains("//")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        let source: SourceRecipe = toml::from_str(text).unwrap();
        complaints(&source).into_iter().map(|complaint| complaint.message).collect()
    }

    #[test]
    fn every_kind_has_its_keys() {
        let commit = "ea6d7173829c7ec8fa16c22055699ff2e9188091";
        for fine in [
            "kind = \"file\"\nas = \"ids\"\npath = [\"a.txt\", \"b.txt.gz\"]",
            "kind = \"dir\"\nas = \"tasks\"\npath = \"tasks\"",
            &format!("kind = \"hf-dataset\"\nas = \"instances\"\nrepo = \"A/b.c\"\nrevision = \"{commit}\""),
            "kind = \"hf-dataset\"\nas = \"ids\"\nrepo = \"a/b\"\nrevision = \"refs/convert/parquet\"\nfiles = \"x/*\"",
            "kind = \"hf-task-dirs\"\nas = \"ids\"\nrepo = \"a/b\"\nrevision = \"main\"",
            "kind = \"github-file\"\nas = \"reward_means\"\nrepo = \"a/b\"\nrevision = \"v1\"\npath = \"x.jsonl\"\nexpect_rows = 7423",
            "kind = \"registry\"\nas = \"ids\"\npath = \"registry.json\"\ndataset = \"a@1.0\"",
        ] {
            assert_eq!(of(fine), [""; 0], "{fine}");
        }
        assert_eq!(
            of("kind = \"hf-dataset\"\nas = \"ids\"\npath = \"x\""),
            [
                "kind `hf-dataset` has no `path`",
                "kind `hf-dataset` needs `repo`",
                "kind `hf-dataset` needs `revision`"
            ]
        );
        assert_eq!(of("kind = \"file\"\nas = \"ids\"\npath = []"), ["kind `file` needs `path`"]);
        assert_eq!(
            of("kind = \"dir\"\nas = \"ids\"\npath = [\"a\", \"b\"]"),
            ["kind `dir` takes one `path`"]
        );
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for repo in ["a", "a/b/c", "../b", "a/..", "a b/c", "a/b?x", "/b", "a/", "https://x.invalid/a/b"] {
            assert!(!is_repository(repo), "{repo}");
        }
        for revision in ["", "a..b", "-x", "/x", "x/", "a b", "a?b", "x:y", "a//b", "..", "é\n"] {
            assert!(!is_revision(revision), "{revision:?}");
        }
        assert!(is_revision("refs/pr/1") && is_revision("v1.0") && is_revision("feature/ä"));
    }
}
