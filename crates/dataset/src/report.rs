//! The report for people: a page beside a frozen set that says what the set is, what was left on the way, and how long its
//! proofs took.

use std::collections::{BTreeMap, BTreeSet};

use ident::{RepoKey, TaskId};
use page::{Part, Series, escape, facts, histogram, page, ranking, short, table};
use record::Split;

use crate::resolve::Replacement;
use crate::{FrozenTask, Manifest};

/// As many repositories have a bar of their own.
const REPOSITORIES: usize = 40;
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
        ("runs without and with the solution", format!("{} + {}", rule.nop_runs, rule.oracle_runs)),
        ("trials behind it", story.trials.to_string()),
        ("hours of trials", short(story.trials_ms as f64 / 3_600_000.0)),
    ])
}

/// The parts of a bar that stands for some tasks, by split.
fn by_split(tasks: &[&FrozenTask]) -> Vec<Part> {
    let count = |split| tasks.iter().filter(|task| task.split == split).count() as f64;
    SPLITS.iter().map(|(split, series, _)| Part { series: *series, length: count(*split) }).collect()
}

fn contents(manifest: &Manifest) -> String {
    let key = SPLITS.map(|(_, series, name)| (series, name));
    let those = |fits: &dyn Fn(&FrozenTask) -> bool| {
        let tasks: Vec<&FrozenTask> = manifest.tasks.iter().filter(|task| fits(task)).collect();
        by_split(&tasks)
    };
    let pools = manifest.counts.pools.keys().map(|pool| (pool.clone(), those(&|task| task.stage == *pool)));
    let mut out = ranking("tasks by pool", &key, &pools.collect::<Vec<_>>());
    let tiers: BTreeSet<Option<u8>> = manifest.tasks.iter().map(|task| task.evidence_tier).collect();
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
    out.push_str(&ranking("tasks by evidence tier", &key, &tiers.collect::<Vec<_>>()));

    let mut repos: BTreeMap<&RepoKey, Vec<&FrozenTask>> = BTreeMap::new();
    for task in &manifest.tasks {
        repos.entry(&task.repo).or_default().push(task);
    }
    let mut ranked: Vec<_> = repos.into_iter().collect();
    ranked.sort_by_key(|(repo, tasks)| (std::cmp::Reverse(tasks.len()), *repo));
    let sizes: Vec<f64> = ranked.iter().rev().map(|(_, tasks)| tasks.len() as f64).collect();
    let rows = ranked.iter().take(REPOSITORIES).map(|(repo, tasks)| (repo.to_string(), by_split(tasks)));
    let caption = match ranked.len().saturating_sub(REPOSITORIES) {
        0 => "tasks by repository; each lies in one split".to_owned(),
        more => format!("tasks by repository; each lies in one split; {more} smaller ones are not shown"),
    };
    out.push_str(&ranking(&caption, &key, &rows.collect::<Vec<_>>()));
    out.push_str("<div class=\"plots full\">\n");
    out.push_str(&histogram("repositories by their number of tasks", &sizes, BARS));
    out.push_str("</div>\n");
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
    let mut out = ranking("tasks that came through", &[], &rows.collect::<Vec<_>>());
    let mut left: Vec<_> = story.left_out.iter().collect();
    left.sort_by_key(|(reason, count)| (std::cmp::Reverse(**count), *reason));
    let rows = left.into_iter().map(|((stage, reason), count)| {
        (
            format!("{stage}: {}", reason.replace('_', " ")),
            vec![Part { series: Series::Two, length: *count as f64 }],
        )
    });
    let rows: Vec<_> = rows.collect();
    if !rows.is_empty() {
        out.push_str(&ranking("tasks that were left out, by reason", &[], &rows));
    }
    out
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
            Some((*times.get(times.len() / 2)? as f64 / 1000.0, task))
        })
        .collect();
    medians.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(b.1)));
    let seconds: Vec<f64> = medians.iter().map(|(seconds, _)| *seconds).collect();
    if seconds.is_empty() {
        return out;
    }
    let at = |share: f64| short(seconds[((seconds.len() - 1) as f64 * share) as usize]);
    out.push_str("<div class=\"plots\">\n");
    out.push_str(&histogram(
        &format!(
            "seconds of a trial with the solution: half are at most {}, 90 % at most {}",
            at(0.5),
            at(0.9)
        ),
        &seconds,
        BARS,
    ));
    let limits: Vec<f64> = manifest.tasks.iter().map(|task| task.proof.verifier_sec as f64).collect();
    let mut limits = limits;
    limits.sort_by(f64::total_cmp);
    out.push_str(&histogram("time limit of the verifier in seconds", &limits, BARS));
    out.push_str("</div>\n");
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
    format!("<h2>What replaced what</h2>\n{}{more}", table(&header, &rows, false))
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
