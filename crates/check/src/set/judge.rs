//! The rules about a set of tasks.

use std::collections::{BTreeMap, BTreeSet};

use ident::{AliasTable, RepoKey};
use record::{Severity, SimilarBy, SimilarTasks};

use super::digest::TaskDigest;
use super::known::evaluated;
use super::similar::{Pair, pairs};
use crate::check::{Checked, accepted};
use crate::facts::DOCKERFILE;
use crate::options::CheckOptions;
use crate::report::{Place, Report, quoted};
use crate::rule::{Family, Rule};

/// Every rule about a set.
pub(crate) const RULES: &[&Rule] = &[
    &DUPLICATE_TASK,
    &SIMILAR_INSTRUCTION,
    &HELD_OUT_REPOSITORY,
    &HELD_OUT_BY_RECIPE,
    &TASK_ID_TWICE,
    &TASK_IDS_COLLIDE,
];

const DUPLICATE_TASK: Rule = Rule {
    name: "duplicate-task",
    family: Family::Set,
    severity: Severity::Warning,
    materialized: Severity::Error,
    summary: "The solution makes the same change as that of another task of the set.",
    explanation: "Two tasks with one solution count one skill twice, and a set that was split between them is no test. \
                  Compared are the lines that patches add and remove in each file; white space, line numbers, \
                  context, modes and the order of files do not count, and a patch that brings a bug in is turned \
                  around. Solutions without a patch are compared by the text of their files. One of such tasks is \
                  kept: the first in the order of the set, tasks rejected by other rules behind all others. Between \
                  different repositories, which may be forks of one another, this is a warning.",
    fix: "leave one of the two out; where the repositories are one project, add an alias",
};

const SIMILAR_INSTRUCTION: Rule = Rule {
    name: "similar-instruction",
    family: Family::Set,
    severity: Severity::Warning,
    materialized: Severity::Warning,
    summary: "The instruction says nearly the same as that of another task of the set.",
    explanation: "Either the tasks are the same, or the instruction fits several bugs and says too little. A prompt is \
                  the set of its runs of three words, canary lines, case and punctuation left out. Two are nearly the \
                  same when four fifths of all runs are common to both (Jaccard 0.8), or when both have fewer than 30 \
                  words, as many of them, and differ in one. The names in both, which are words in backticks or with \
                  an underscore, a digit or an inner capital, have to agree to nine tenths: a template with another \
                  function in it is another task. Short prompts are compared within a repository only. \
                  Pairs come from MinHash with 64 fixed hash functions in 16 groups of 4 and are then compared \
                  exactly; the first task in the order of the set is the one to keep. The pairs stand under `similar` \
                  in `checks.json`, for whoever chooses the set.",
    fix: "keep one of the two, or write what sets them apart",
};

const HELD_OUT_REPOSITORY: Rule = Rule {
    name: "held-out-repository",
    family: Family::Set,
    severity: Severity::Warning,
    materialized: Severity::Warning,
    summary: "The task is about a repository on which agents are evaluated in public.",
    explanation: "Training on it makes results on SWE-bench meaningless. The twelve repositories of SWE-bench are known \
                  by their names of today and former ones, and through the recipe's aliases. The repository is the \
                  one of the recipe's data; else what `repo` in `tests/config.json` says, or the id, \
                  `owner__name.commit.kind` or `owner__name-number`; and what `git clone` in the agent's Dockerfile \
                  fetches. To make this an error, list the repository under `held_out` in the recipe.",
    fix: "leave the task out of sets that are trained on",
};

const HELD_OUT_BY_RECIPE: Rule = Rule {
    name: "held-out-by-recipe",
    family: Family::Set,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "The task is about a repository that the recipe holds out.",
    explanation: "`held_out` in `[check]` lists repositories that must not be in the set, whatever spelling, former name \
                  or fork a task uses: both sides are compared after the recipe's aliases.",
    fix: "take the repository out of the pools, or out of `held_out`",
};

const TASK_ID_TWICE: Rule = Rule {
    name: "task-id-twice",
    family: Family::Set,
    severity: Severity::Warning,
    materialized: Severity::Error,
    summary: "Two tasks of one set have the same id.",
    explanation: "Verdicts, trials and splits are told apart by the id, which is the name of the directory; of two tasks \
                  with one id nobody can say which of them a result is about.",
    fix: "rename one of the directories, or leave it out",
};

const TASK_IDS_COLLIDE: Rule = Rule {
    name: "task-ids-collide",
    family: Family::Set,
    severity: Severity::Warning,
    materialized: Severity::Warning,
    summary: "Two tasks of one set have ids that differ only in case or in white space.",
    explanation: "On file systems that fold case one would overwrite the other, and people take them for the same. \
                  Derived names stay apart, because each is made one to one.",
    fix: "rename one of them",
};

/// What a set is judged by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetOptions {
    /// Renames, forks and mirrors.
    pub aliases: AliasTable,
    /// Repositories that must not be in the set.
    pub held_out: BTreeSet<RepoKey>,
}

/// Judges tasks as a set and adds what is found to the findings of each; the order in which they are given decides
/// which of several is kept.
///
/// What comes back are the tasks that are nearly the same, in order of the one that is not to be kept.
pub fn check_set(tasks: &mut [Checked], set: &SetOptions, options: &CheckOptions) -> Vec<SimilarTasks> {
    let today = |repo: &RepoKey| set.aliases.canonical(repo.clone());
    for task in &mut *tasks {
        task.digest.repo = task.digest.repo.as_ref().map(today);
        task.digest.rejected = !accepted(&task.findings);
    }
    let digests: Vec<&TaskDigest> = tasks.iter().map(|task| &task.digest).collect();
    let held_out: BTreeSet<RepoKey> = set.held_out.iter().map(today).collect();
    let mut reports: Vec<Report<'_>> = digests.iter().map(|_| Report::new(options)).collect();
    ids(&digests, &mut reports);
    for (task, report) in digests.iter().zip(&mut reports) {
        contamination(task, &held_out, &today, report);
    }
    let pairs = pairs(&digests);
    for pair in &pairs {
        similar(pair, &digests, &mut reports[pair.other]);
    }
    let similar = pairs.iter().filter_map(|pair| pair.record(&digests)).collect();
    for (task, report) in tasks.iter_mut().zip(reports) {
        task.findings.extend(report.finish());
        task.findings.sort();
    }
    similar
}

fn ids(tasks: &[&TaskDigest], reports: &mut [Report<'_>]) {
    let mut alike: BTreeMap<String, Vec<(&str, usize)>> = BTreeMap::new();
    for (at, task) in tasks.iter().enumerate() {
        alike.entry(task.id.trim().to_lowercase()).or_default().push((&task.id, at));
    }
    for same in alike.values_mut() {
        same.sort_unstable();
        for pair in same.windows(2) {
            let [(before, _), (id, at)] = pair else { continue };
            let report = &mut reports[*at];
            if before == id {
                report.add(&TASK_ID_TWICE, Place::file(""), format!("the id {} occurs twice", quoted(id)));
            } else {
                let message = format!("the id differs from {before:?} only in case or white space");
                report.add(&TASK_IDS_COLLIDE, Place::file(""), message);
            }
        }
    }
}

fn contamination(
    task: &TaskDigest,
    held_out: &BTreeSet<RepoKey>,
    today: &dyn Fn(&RepoKey) -> RepoKey,
    report: &mut Report<'_>,
) {
    let own = task.repo.iter().map(|repo| (Place::file(""), repo.clone()));
    let fetched = task.fetched.iter().map(|(line, repo)| (Place::line(DOCKERFILE, *line), today(repo)));
    for (place, repo) in own.chain(fetched) {
        if held_out.contains(&repo) {
            let message = format!("the task is about `{repo}`, which the recipe holds out");
            report.add(&HELD_OUT_BY_RECIPE, place, message);
        } else if let Some(name) = evaluated(&repo) {
            let message = format!("the task is about `{name}`, one of the repositories of SWE-bench");
            report.add(&HELD_OUT_REPOSITORY, place, message);
        }
    }
}

fn similar(pair: &Pair, tasks: &[&TaskDigest], report: &mut Report<'_>) {
    let (kept, other) = (tasks[pair.kept], tasks[pair.other]);
    let from = match &kept.repo {
        Some(repo) if !pair.one_repo => format!(", which is about `{repo}`"),
        _ => String::new(),
    };
    match pair.by {
        SimilarBy::Solution => {
            let file = other.solution.as_ref().map_or("", |(_, file)| file);
            let message = format!("the solution makes the same change as that of {}{from}", quoted(&kept.id));
            if pair.one_repo {
                report.add(&DUPLICATE_TASK, Place::file(file), message);
            } else {
                report.add_doubtful(&DUPLICATE_TASK, Place::file(file), message);
            }
        }
        SimilarBy::Instruction => {
            let likeness = f64::from(pair.permille) / 1000.0;
            let message = if pair.permille < 800 {
                format!("it differs in one word from that of {}{from}", quoted(&kept.id))
            } else {
                format!("it is like that of {}{from} (similarity {likeness:.2})", quoted(&kept.id))
            };
            report.add(&SIMILAR_INSTRUCTION, Place::file("instruction.md"), message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check_task;
    use crate::options::Profile;
    use crate::rules::testing::{places, task_with};

    fn patch(from: &str, to: &str) -> String {
        format!("--- a/x.sh\n+++ b/x.sh\n@@ -1 +1 @@\n-{from}\n+{to}\n")
    }

    fn task(id: &str, repo: &str, patch: &str, instruction: &str) -> Checked {
        let row = serde_json::json!({
            "repo": repo, "patch": patch, "test_patch": "", "FAIL_TO_PASS": ["a"], "PASS_TO_PASS": ["b"],
        });
        let files = [("tests/config.json", row.to_string()), ("instruction.md", instruction.to_owned())];
        let view = task_with(&files.each_ref().map(|(path, text)| (*path, text.as_str()))).named(id);
        let mut checked = check_task(&view, &CheckOptions::default());
        checked.findings.clear();
        checked
    }

    fn judged(tasks: &mut [Checked], set: &SetOptions) -> (Vec<String>, Vec<String>) {
        let similar = check_set(tasks, set, &CheckOptions::of(Profile::Materialized));
        let found = tasks.iter().flat_map(|task| {
            let id = &task.digest.id;
            places(&task.findings).into_iter().map(move |place| format!("{id}: {place}"))
        });
        let similar = similar
            .iter()
            .map(|pair| format!("{} {} {:?} {}", pair.kept, pair.other, pair.by, pair.permille));
        (found.collect(), similar.collect())
    }

    #[test]
    fn near_duplicates_are_named_and_the_first_is_kept() {
        let (minus, plus) = ("echo $(( $1 - $2 ))", "echo $(( $1 + $2 ))");
        let mut tasks = [
            task("one", "o/a", &patch(minus, plus), "Repair the sum."),
            task("two", "o/a", &patch(&minus.replace(' ', "  "), plus), "The output is wrong."),
            task("three", "o/a", &patch("x", "y"), "Repair this sum."),
            task("four", "o/a", &patch("x", "z"), "Something else is asked for here."),
        ];
        let (found, similar) = judged(&mut tasks, &SetOptions::default());
        assert_eq!(
            found,
            ["two: duplicate-task tests/config.json", "three: similar-instruction instruction.md"]
        );
        assert_eq!(similar, ["one two Solution 1000", "one three Instruction 0"]);
        assert!(
            tasks[0].findings.is_empty() && !accepted(&tasks[1].findings) && accepted(&tasks[2].findings)
        );
        assert!(tasks[1].findings[0].message.contains("`one`"));
    }

    #[test]
    fn a_task_that_is_rejected_anyway_is_not_the_one_to_keep() {
        let same = patch("a", "b");
        let mut tasks = [task("one", "o/a", &same, "x y z"), task("two", "o/a", &same, "quite another text")];
        tasks[0].findings = crate::check_patch("p", b"../x", &CheckOptions::of(Profile::Materialized));
        assert!(!accepted(&tasks[0].findings));
        let (_, similar) = judged(&mut tasks, &SetOptions::default());
        assert_eq!(similar, ["two one Solution 1000"]);
        assert!(accepted(&tasks[1].findings));
    }

    #[test]
    fn between_repositories_duplicates_are_warnings_unless_an_alias_makes_them_one() {
        let same = patch("a", "b");
        let tasks =
            || [task("one", "o/a", &same, "one two three"), task("two", "fork/a", &same, "one two four")];
        let mut apart = tasks();
        let (found, _) = judged(&mut apart, &SetOptions::default());
        assert_eq!(found, ["two: duplicate-task tests/config.json"]);
        assert!(accepted(&apart[1].findings) && apart[1].findings[0].message.contains("`o/a`"));
        let aliases = AliasTable::new([("fork/a", "o/a")]).unwrap();
        let mut one = tasks();
        let (found, _) = judged(&mut one, &SetOptions { aliases, held_out: BTreeSet::new() });
        assert_eq!(
            found,
            ["two: similar-instruction instruction.md", "two: duplicate-task tests/config.json"]
        );
        assert!(!accepted(&one[1].findings));
    }

    #[test]
    fn long_prompts_are_compared_over_all_repositories() {
        let words = |last: &str| {
            let letters = |n: u8| [char::from(b'a' + n / 8), char::from(b'a' + n % 8), ' '];
            (0..60u8).flat_map(letters).collect::<String>() + last
        };
        let mut tasks = [
            task("one", "o/a", &patch("a", "b"), &words("x")),
            task("two", "o/b", &patch("c", "d"), &words("y")),
        ];
        let (_, similar) = judged(&mut tasks, &SetOptions::default());
        assert_eq!(similar, ["one two Instruction 966"]);
    }

    #[test]
    fn held_out_repositories_are_found_by_every_name() {
        let text = |n: usize| format!("text number{n} of{n} this{n} task{n}");
        let mut tasks = [
            task("one", "Django/django.git", "x", &text(1)),
            task("two", "acme/widgets", "x", &text(2)),
            task("three", "someuser/widgets", "x", &text(3)),
            task("four", "other/x", "x", &text(4)),
        ];
        let aliases = AliasTable::new([("someuser/widgets", "acme/widgets")]).unwrap();
        let held_out = BTreeSet::from([RepoKey::parse("Acme/Widgets").unwrap()]);
        let (found, similar) = judged(&mut tasks, &SetOptions { aliases, held_out });
        assert_eq!(
            found,
            ["one: held-out-repository ", "two: held-out-by-recipe ", "three: held-out-by-recipe "]
        );
        assert_eq!(similar, [""; 0]);
        assert!(accepted(&tasks[0].findings) && !accepted(&tasks[1].findings));
    }

    #[test]
    fn ids_that_are_or_look_alike_are_named() {
        let id = |n: usize, id: &str| task(id, "o/a", "x", &format!("text number{n} of{n} this{n} task{n}"));
        let mut tasks = [id(1, "Calc.AB12"), id(2, "other"), id(3, "calc.ab12"), id(4, "other")];
        let (found, _) = judged(&mut tasks, &SetOptions::default());
        assert_eq!(found, ["calc.ab12: task-ids-collide ", "other: task-id-twice "]);
        assert!(tasks[2].findings[0].message.contains("\"Calc.AB12\""));
    }

    #[test]
    fn thousands_of_tasks_with_one_prompt_are_judged_at_once() {
        let prompt = "Repair what the failing tests of this repository show. ".repeat(8);
        let first = task("t", "o/a", "x", &prompt);
        let mut tasks: Vec<Checked> = (0..3000)
            .map(|n| {
                let mut one = first.clone();
                one.digest.id = format!("t{n:04}");
                one
            })
            .collect();
        let similar = check_set(&mut tasks, &SetOptions::default(), &CheckOptions::default());
        assert_eq!(similar.len(), 2999);
        assert!(similar.iter().all(|pair| pair.kept.as_str() == "t0000" && pair.permille == 1000));
    }
}
