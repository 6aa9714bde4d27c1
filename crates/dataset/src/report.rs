//! The report for people: a page beside a frozen set that says what the set is, what was left on the way, and how long its
//! proofs took.

use std::collections::{BTreeMap, BTreeSet};

use ident::{RepoKey, TaskId};
use page::{Part, Series, Width, escape, facts, histogram, key, page, ranking, short, skyline, table};
use record::Split;

use crate::resolve::Replacement;
use crate::{FrozenTask, Manifest};

/// As many repositories are named.
const REPOSITORIES: usize = 20;
/// As many of the tasks whose proofs take longest are named.
const SLOWEST: usize = 10;
/// As many replacements are listed.
const REPLACED: usize = 200;
/// Bars of a histogram.
const BARS: usize = 24;

const SPLITS: [(Split, Series, &str); 3] = [
    (Split::Train, Series::One, "train"),
    (Split::Validation, Series::Two, "validation"),
    (Split::Test, Series::Three, "test"),
];

/// What a report tells beside the manifest. None of it is part of the set.
#[derive(Debug, Clone, Default)]
pub struct Story {
    /// How many tasks came through each stage, in order; the first is how many there were.
    pub stages: Vec<(String, u64)>,
    /// How many tasks were left out, by stage and reason.
    pub left_out: BTreeMap<(String, String), u64>,
    /// What replaced what.
    pub replaced: Vec<Replacement>,
    /// Wall-clock times of the oracle trials of each task, in milliseconds.
    pub oracle_ms: BTreeMap<TaskId, Vec<u64>>,
    /// Trials of all kinds that were run for the tasks of the set, and their wall-clock times together.
    pub trials: u64,
    /// See `trials`.
    pub trials_ms: u64,
    /// When the set was frozen, RFC 3339 in UTC.
    pub frozen_at: String,
    /// What it was made with and on: pairs of a name and a text.
    pub made_by: Vec<(String, String)>,
}

/// Writes the page. It is one file, without scripts, and reads well on a screen, on paper and on a wall.
pub fn report(manifest: &Manifest, story: &Story) -> String {
    let title = format!("{} {}", manifest.name, manifest.version);
    let mut body = format!(
        "<h1>{}</h1>\n<p class=\"soft\">A frozen set of proved tasks. Semantic digest {}</p>\n",
        escape(&title),
        manifest.semantic_digest
    );
    body.push_str(&numbers(manifest, story));
    body.push_str("<h2>What is in it</h2>\n");
    body.push_str(&contents(manifest));
    body.push_str("<h2>How it came about</h2>\n");
    body.push_str(&way(story));
    body.push_str("<h2>How it was proved</h2>\n");
    body.push_str(&proofs(manifest, story));
    body.push_str(&shortages(manifest));
    body.push_str(&replaced(&story.replaced));
    body.push_str(&origin(manifest, story));
    page(&title, &body)
}

fn numbers(manifest: &Manifest, story: &Story) -> String {
    let counts = &manifest.counts;
    let split = |split| counts.splits.get(&split).copied().unwrap_or(0).to_string();
    let rule = &manifest.proof_rule;
    facts(&[
        ("tasks", counts.tasks.to_string()),
        ("repositories", counts.repositories.to_string()),
        ("train", split(Split::Train)),
        ("validation", split(Split::Validation)),
        ("test", split(Split::Test)),
        ("nop + oracle runs", format!("{} + {}", rule.nop_runs, rule.oracle_runs)),
        ("trials", story.trials.to_string()),
        ("hours of trials", short(story.trials_ms as f64 / 3_600_000.0)),
    ])
}

/// The parts of a bar that stands for some tasks, by split.
fn by_split(tasks: &[&FrozenTask]) -> Vec<Part> {
    let count = |split| tasks.iter().filter(|task| task.split == split).count() as f64;
    SPLITS.iter().map(|(split, series, _)| Part { series: *series, length: count(*split) }).collect()
}

fn contents(manifest: &Manifest) -> String {
    let those = |fits: &dyn Fn(&FrozenTask) -> bool| {
        let tasks: Vec<&FrozenTask> = manifest.tasks.iter().filter(|task| fits(task)).collect();
        by_split(&tasks)
    };
    let pools = manifest.counts.pools.keys().map(|pool| (pool.clone(), those(&|task| task.stage == *pool)));
    let tiers: BTreeSet<_> = manifest.tasks.iter().map(|task| task.evidence_tier).collect();
    // No evidence comes last.
    let (without, with): (Vec<_>, Vec<_>) = tiers.into_iter().partition(Option::is_none);
    let tiers = with.into_iter().chain(without);
    let tiers = tiers.into_iter().map(|tier| {
        let name = match tier {
            Some(1) => "1, solved in two sources".to_owned(),
            Some(2) => "2, solved in published runs".to_owned(),
            Some(3) => "3, every rollout solved it".to_owned(),
            Some(4) => "4, some rollouts solved it".to_owned(),
            Some(other) => other.to_string(),
            None => "no evidence".to_owned(),
        };
        (name, those(&|task| task.evidence_tier == tier))
    });
    let mut out = key(&SPLITS.map(|(_, series, name)| (series, name)));
    out.push_str("<div class=\"pairs\">\n");
    out.push_str(&ranking("tasks by pool", Width::Half, &pools.collect::<Vec<_>>()));
    out.push_str(&ranking("tasks by evidence tier", Width::Half, &tiers.collect::<Vec<_>>()));
    out.push_str("</div>\n");

    let mut repos: BTreeMap<&RepoKey, Vec<&FrozenTask>> = BTreeMap::new();
    for task in &manifest.tasks {
        repos.entry(&task.repo).or_default().push(task);
    }
    let mut ranked: Vec<_> = repos.into_iter().collect();
    ranked.sort_by_key(|(repo, tasks)| (std::cmp::Reverse(tasks.len()), *repo));
    let rows: Vec<_> = ranked.iter().map(|(repo, tasks)| (repo.to_string(), by_split(tasks))).collect();
    if rows.len() > REPOSITORIES {
        out.push_str(&skyline("tasks of every repository; each lies in one split", &rows));
        let caption = format!("the {REPOSITORIES} largest repositories");
        out.push_str(&ranking(&caption, Width::Full, &rows[..REPOSITORIES]));
    } else {
        out.push_str(&ranking("tasks by repository; each lies in one split", Width::Full, &rows));
    }
    if !manifest.together.is_empty() {
        let rows: Vec<_> = manifest
            .together
            .iter()
            .map(|group| vec![group.iter().map(RepoKey::as_str).collect::<Vec<_>>().join(", ")])
            .collect();
        out.push_str(&table(&["in one split because tasks of theirs are nearly the same"], &rows, false));
    }
    out
}

fn way(story: &Story) -> String {
    let first = story.stages.first().map_or(0, |(_, count)| *count);
    let rows = story.stages.iter().map(|(stage, count)| {
        let lost = first.saturating_sub(*count) as f64;
        let parts = [(Series::One, *count as f64), (Series::None, lost)];
        (stage.clone(), parts.map(|(series, length)| Part { series, length }).to_vec())
    });
    let mut out = "<div class=\"pairs\">\n".to_owned();
    out.push_str(&ranking("tasks that came through", Width::Half, &rows.collect::<Vec<_>>()));
    let mut left: Vec<_> = story.left_out.iter().collect();
    left.sort_by_key(|(reason, count)| (std::cmp::Reverse(**count), *reason));
    let rows: Vec<_> = left
        .into_iter()
        .map(|((stage, reason), count)| {
            let part = Part { series: Series::Two, length: *count as f64 };
            (format!("{stage}: {}", reason.replace('_', " ")), vec![part])
        })
        .collect();
    if !rows.is_empty() {
        out.push_str(&ranking("tasks that were left out, by stage and reason", Width::Half, &rows));
    }
    out.push_str("</div>\n");
    out
}

/// How often each thing occurs.
fn counts<T: Ord>(things: impl Iterator<Item = T>) -> Vec<f64> {
    let mut counts: BTreeMap<T, f64> = BTreeMap::new();
    for thing in things {
        *counts.entry(thing).or_default() += 1.0;
    }
    counts.into_values().collect()
}

fn proofs(manifest: &Manifest, story: &Story) -> String {
    let rule = &manifest.proof_rule;
    let engines: BTreeSet<&str> = manifest.tasks.iter().map(|task| task.proof.engine.as_str()).collect();
    let engines: Vec<String> = engines.into_iter().map(escape).collect();
    let mut out = format!(
        "<p>Doing nothing failed {0} of {0} times and the solution passed {1} of {1} times for every task, each in a fresh \
         sandbox ({2}). A task that varies in more than {3}.{4} % of its runs would have shown it with a probability of 95 %.</p>\n",
        rule.nop_runs,
        rule.oracle_runs,
        engines.join(", "),
        rule.flake_bound_permille / 10,
        rule.flake_bound_permille % 10
    );
    let mut medians: Vec<(f64, &TaskId)> = story
        .oracle_ms
        .iter()
        .filter_map(|(task, times)| {
            let mut times = times.clone();
            times.sort_unstable();
            // Tenths of a second are as much as a machine repeats.
            Some(((*times.get(times.len() / 2)? as f64 / 100.0).round() / 10.0, task))
        })
        .collect();
    medians.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(b.1)));
    let seconds: Vec<f64> = medians.iter().map(|(seconds, _)| *seconds).collect();
    let mut sizes: Vec<f64> = counts(manifest.tasks.iter().map(|task| &task.repo));
    let mut limits: Vec<f64> = manifest.tasks.iter().map(|task| task.proof.verifier_sec as f64).collect();
    sizes.sort_by(f64::total_cmp);
    limits.sort_by(f64::total_cmp);
    out.push_str("<div class=\"plots\">\n");
    if !seconds.is_empty() {
        let at = |share: f64| short(seconds[((seconds.len() - 1) as f64 * share) as usize]);
        let caption = format!(
            "tasks by the seconds of a trial with the solution: half take at most {}, 90 % at most {}",
            at(0.5),
            at(0.9)
        );
        out.push_str(&histogram(&caption, &seconds, BARS));
    }
    out.push_str(&histogram("tasks by the time limit of their verifier in seconds", &limits, BARS));
    out.push_str(&histogram("repositories by their number of tasks", &sizes, BARS));
    out.push_str("</div>\n");
    if medians.is_empty() {
        return out;
    }
    let rows: Vec<_> = medians
        .iter()
        .rev()
        .take(SLOWEST)
        .map(|(seconds, task)| vec![task.to_string(), format!("{seconds:.1}")])
        .collect();
    out.push_str(&table(&["slowest tasks", "seconds"], &rows, true));
    out
}

fn shortages(manifest: &Manifest) -> String {
    if manifest.shortages.is_empty() {
        return String::new();
    }
    let rows: Vec<_> = manifest
        .shortages
        .iter()
        .map(|short| vec![short.what.clone(), short.wanted.to_string(), short.have.to_string()])
        .collect();
    format!("<h2>What is short of the recipe</h2>\n{}", table(&["", "wanted", "there are"], &rows, true))
}

fn replaced(replaced: &[Replacement]) -> String {
    if replaced.is_empty() {
        return String::new();
    }
    let id = |id: &Option<TaskId>| id.as_ref().map_or("-".to_owned(), ToString::to_string);
    let rows: Vec<_> = replaced
        .iter()
        .take(REPLACED)
        .map(|replaced| {
            let why = replaced.why.as_ref().map_or("was not planned".to_owned(), ToString::to_string);
            vec![replaced.stage.clone(), id(&replaced.lost), why, id(&replaced.by)]
        })
        .collect();
    let more = match replaced.len().saturating_sub(REPLACED) {
        0 => String::new(),
        more => format!("<p class=\"soft\">and {more} more</p>\n"),
    };
    let header = ["pool", "not in the set", "because it", "in its place"];
    format!(
        "<h2>What replaced what</h2>\n<details><summary>{} primaries are not in the set</summary>\n{}{more}</details>\n",
        replaced.iter().filter(|replaced| replaced.lost.is_some()).count(),
        table(&header, &rows, false)
    )
}

fn origin(manifest: &Manifest, story: &Story) -> String {
    let mut forms: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for task in &manifest.tasks {
        let [all, verified] = forms.entry(task.image.form.to_string()).or_default();
        *all += 1;
        *verified += u64::from(task.image.verified);
    }
    let forms: Vec<_> = forms
        .into_iter()
        .map(|(form, [all, verified])| vec![form, all.to_string(), verified.to_string()])
        .collect();
    let sources: Vec<_> = manifest
        .sources
        .iter()
        .map(|(name, source)| {
            vec![name.clone(), source.revision.clone().unwrap_or_else(|| "-".into()), source.rows.to_string()]
        })
        .collect();
    let mut made: Vec<_> = vec![vec!["frozen at".to_owned(), story.frozen_at.clone()]];
    made.extend(story.made_by.iter().map(|(name, text)| vec![name.clone(), text.clone()]));
    made.push(vec!["rules".into(), manifest.rules.join(", ")]);
    format!(
        "<h2>Where it comes from</h2>\n{}{}{}<p class=\"soft\">This page lies beside the set and is not part of it: \
         times and machines differ from run to run, the set does not. <code>seatrial freeze --check</code> verifies the set.</p>\n",
        table(&["images", "tasks", "seen in a registry"], &forms, true),
        table(&["source", "revision", "rows"], &sources, false),
        table(&["", ""], &made, false),
    )
}
