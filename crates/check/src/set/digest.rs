//! What is kept of a task for the questions about its set.

use ident::{Digest, RepoKey, TaskId};
use image::dockerfile::{Command, Instruction};
use task::patch::{LineKind, Patch};

use super::prompt::Prompt;
use crate::facts::Facts;
use crate::gold::GoldPatch;
use crate::instance::Direction;
use crate::lines::squeezed;
use crate::shell::read_script;
use crate::view::TaskView;

/// A solution with fewer characters than this that are not white space is too common to compare.
const MIN_SOLUTION: usize = 32;

/// What is kept of a task: a few kilobytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskDigest {
    /// The id: the name of the directory.
    pub id: String,
    /// The repository that the task is about, as far as it is known.
    pub repo: Option<RepoKey>,
    /// Whether the task is rejected by a rule that looks at it alone; then it is the last to be kept of a group.
    pub(super) rejected: bool,
    /// Repositories that the Dockerfile fetches, with the line.
    pub(super) fetched: Vec<(u32, RepoKey)>,
    /// What the solution changes, and the file that says so.
    pub(super) solution: Option<(Digest, String)>,
    /// What the agent is told.
    pub(super) prompt: Prompt,
}

impl TaskDigest {
    /// What is kept of a task whose facts are at hand.
    pub(crate) fn of(facts: &Facts<'_>) -> Self {
        let view = facts.view;
        let id = String::from_utf8_lossy(&view.name).into_owned();
        let written = facts.instance().and_then(|instance| instance.repo.as_deref());
        let repo = written.and_then(|repo| RepoKey::parse(repo).ok()).or_else(|| repo_of_id(&id));
        let prompts: Vec<_> = view
            .roots()
            .iter()
            .filter_map(|root| view.text(&[root, &b"instruction.md"[..]].concat()))
            .collect();
        Self {
            id,
            repo,
            rejected: false,
            fetched: fetched(facts),
            solution: solution(facts),
            prompt: Prompt::of(&prompts.join("\n")),
        }
    }
}

/// The repository in an id of SWE-smith, `owner__name.commit.kind`, or of SWE-bench, `owner__name-number`.
fn repo_of_id(id: &str) -> Option<RepoKey> {
    if let Some(repo) = TaskId::new(id).ok().and_then(|id| RepoKey::of_task(&id).ok()) {
        return Some(repo);
    }
    let (repo, number) = id.rsplit_once('-')?;
    let (owner, name) = repo.split_once("__")?;
    let counts = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    counts.then(|| RepoKey::parse(&format!("{owner}/{name}")).ok()).flatten()
}

/// The repositories that `RUN` clones.
fn fetched(facts: &Facts<'_>) -> Vec<(u32, RepoKey)> {
    let Some(Ok(dockerfile)) = &facts.dockerfile else { return Vec::new() };
    let mut found = Vec::new();
    for step in &dockerfile.steps {
        let Instruction::Run { command: Command::Shell(text), .. } = &step.instruction else { continue };
        for command in read_script(text).commands.iter().filter(|command| command.name() == "git") {
            let words = command.program();
            if words.iter().any(|word| matches!(&*word.text, "clone" | "fetch" | "submodule")) {
                let named =
                    words.iter().filter(|word| word.text.contains("://") || word.text.starts_with("git@"));
                found.extend(named.filter_map(|word| Some((step.line, RepoKey::parse(&word.text).ok()?))));
            }
        }
    }
    found
}

/// What the solution changes: its patches where it has any, and else the text of its files.
fn solution(facts: &Facts<'_>) -> Option<(Digest, String)> {
    let readable = |patch: &'_ GoldPatch| patch.parsed.is_ok();
    if let Some(first) = facts.gold.patches.iter().find(|patch| readable(patch)) {
        // A row in `tests/config.json` repeats the patch of the solution, or the other way round: one of them counts.
        let same_file = facts.gold.patches.iter().filter(|patch| patch.file == first.file);
        let mut changes: Vec<String> = same_file
            .filter_map(|patch| Some(changes(patch.parsed.as_ref().ok()?, patch.direction)))
            .flatten()
            .collect();
        changes.sort();
        return (!changes.is_empty()).then(|| (Digest::of(changes.concat()), task::printable(&first.file)));
    }
    let text = solution_text(facts.view);
    let long = text.bytes().filter(|b| !b.is_ascii_whitespace()).count() >= MIN_SOLUTION;
    long.then(|| (Digest::of(text), "solution".to_owned()))
}

/// What a patch does to each file, in the direction of the fix, without white space, line numbers, context and modes.
fn changes(patch: &Patch, direction: Direction) -> Vec<String> {
    let one = |file: &task::patch::FileChange| {
        let (old, new) = match direction {
            Direction::Repairs => (&file.old, &file.new),
            Direction::Breaks => (&file.new, &file.old),
        };
        let name = |path: &Option<Vec<u8>>| path.as_deref().map(task::printable).unwrap_or_default();
        let mut text = String::new();
        for line in file.hunks.iter().flat_map(|hunk| &hunk.lines) {
            let comes = match (line.kind, direction) {
                (LineKind::Context, _) => continue,
                (LineKind::Add, Direction::Repairs) | (LineKind::Remove, Direction::Breaks) => '+',
                _ => '-',
            };
            let plain: String =
                String::from_utf8_lossy(&line.text).chars().filter(|c| !c.is_whitespace()).collect();
            if !plain.is_empty() {
                text.push(comes);
                text.push_str(&plain);
                text.push('\n');
            }
        }
        let moved = old != new;
        (moved || !text.is_empty()).then(|| format!("{}\0{}\n{}", name(old), name(new), in_order(&text)))
    };
    patch.files.iter().filter_map(one).collect()
}

/// The lines of a change, those that go before those that come: tools differ in how they mix them.
fn in_order(text: &str) -> String {
    let (goes, comes): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with('-'));
    goes.into_iter().chain(comes).flat_map(|line| [line, "\n"]).collect()
}

/// The texts of the solution's files with white space normalised.
fn solution_text(view: &TaskView) -> String {
    let mut text = String::new();
    for root in view.roots() {
        let folder = [root.as_slice(), b"solution"].concat();
        for (_, file) in view.files_below(&folder) {
            let members = file.archive.iter().flat_map(|archive| &archive.members);
            let members = members.map(|member| (member.content.as_deref(), member.digest));
            for content in members.chain([(file.content.as_deref(), file.digest)]) {
                match content {
                    (Some(content), _) => add_lines(&mut text, &crate::lines::text(content)),
                    (None, Some(digest)) => add_lines(&mut text, &digest.hex()),
                    (None, None) => {}
                }
            }
        }
    }
    text
}

fn add_lines(text: &mut String, lines: &str) {
    for line in lines.lines().map(squeezed).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        text.push_str(&line);
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::{changed_task, tar_of, task_with, view_of};

    fn digest(view: &TaskView) -> TaskDigest {
        TaskDigest::of(&Facts::of(view))
    }

    fn of_patch(patch: &str) -> Option<Digest> {
        let view =
            task_with(&[("solution/fix.patch", patch), ("solution/solve.sh", "#!/bin/sh\ngit apply x\n")]);
        digest(&view).solution.map(|(digest, _)| digest)
    }

    const FIX: &str = "diff --git a/x.sh b/x.sh\n--- a/x.sh\n+++ b/x.sh\n@@ -1,2 +1,2 @@\n #!/bin/sh\n-echo $(( $1 - $2 ))\n+echo $(( $1 + $2 ))\n";

    #[test]
    fn form_of_a_patch_does_not_count() {
        let modes = FIX.replace("--- a/x.sh", "old mode 100644\nnew mode 100755\n--- a/x.sh");
        let blanks = FIX.replace("echo $(( $1 +", "echo  $((  $1 +");
        let moved = FIX.replace("@@ -1,2 +1,2 @@\n #!/bin/sh\n", "@@ -7 +7 @@\n");
        for other in [&modes, &blanks, &moved] {
            assert_eq!(of_patch(other), of_patch(FIX), "{other}");
        }
        for other in [FIX.replace("x.sh", "y.sh"), FIX.replace("$1 +", "$1 *")] {
            assert_ne!(of_patch(&other), of_patch(FIX), "{other}");
        }
        let only_modes = "diff --git a/x.sh b/x.sh\nold mode 100644\nnew mode 100755\n";
        assert_eq!(of_patch(only_modes), None);
        let rename = "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n";
        assert!(of_patch(rename).is_some());
    }

    #[test]
    fn a_bug_and_its_fix_are_one_change() {
        let bug = FIX.replace("\n-", "\n~").replace("\n+echo", "\n-echo").replace("\n~echo", "\n+echo");
        let bug = bug.replace("~-- a/x.sh", "--- a/x.sh");
        let row = serde_json::json!({ "repo": "swesmith/a__b.0123abcd", "patch": bug, "FAIL_TO_PASS": ["a"], "PASS_TO_PASS": ["b"] });
        let view = task_with(&[("tests/config.json", &row.to_string())]);
        let found = digest(&view);
        assert_eq!(found.solution.unwrap().0, of_patch(FIX).unwrap());
        assert_eq!(found.repo.unwrap().as_str(), "a/b");
    }

    #[test]
    fn solutions_without_a_patch_are_compared_by_their_text() {
        let of = |script: &str| digest(&view_of("x", &[("solution/solve.sh", script)])).solution;
        let long = "#!/bin/sh\nsed -i s/one/two/ /app/some/file.txt\n";
        assert_eq!(of(long), of(&long.replace("sed -i", "# why\n\nsed   -i")));
        assert_ne!(of(long), of(&long.replace("two", "three")));
        assert_eq!(of("#!/bin/sh\ntrue\n"), None);
    }

    #[test]
    fn archives_of_a_solution_count_by_their_members() {
        let of = |name: &str, content: &[u8]| {
            let view = changed_task(|task| {
                let script = "#!/bin/sh\ntar -xf /solution/fix.tar -C /app\n";
                std::fs::write(task.join("solution/solve.sh"), script).unwrap();
                std::fs::write(task.join("solution/fix.tar"), tar_of(&[(name, content)])).unwrap();
            });
            digest(&view).solution.unwrap()
        };
        let first = of("sum.sh", b"#!/bin/sh\necho $(( $1 + $2 ))\n");
        assert_eq!(of("sum.sh", b"#!/bin/sh\n\necho  $(( $1 + $2 ))\n"), first);
        assert_ne!(of("sum.sh", b"#!/bin/sh\necho $(( $2 + $1 ))\n"), first);
        let large = |byte: u8| of("table.bin", &vec![byte; 1 << 20]);
        assert_ne!(large(1), large(2));
    }

    #[test]
    fn ids_and_dockerfiles_tell_repositories() {
        for (id, expected) in [
            ("acme__widgets.0123abcd.lm_modify__x", Some("acme/widgets")),
            ("django__django-11099", Some("django/django")),
            ("hello-world", None),
            ("a__b-", None),
        ] {
            assert_eq!(repo_of_id(id).as_ref().map(RepoKey::as_str), expected, "{id}");
        }
        let text = "FROM a:1\nRUN apt-get update && \\\n  git clone --depth 1 https://code.invalid/Acme/Widgets.git /app\nRUN git status\n";
        let found = digest(&task_with(&[("environment/Dockerfile", text)])).fetched;
        assert_eq!(found, [(2, RepoKey::parse("acme/widgets").unwrap())]);
    }
}
