//! Who solved what: the tasks, their evidence, and the lists they stand on.
//!
//! The numbers are laid out so that the outcome of a plan does not depend on which of several like tasks it picks:
//! where a cap or a target cuts a queue, everything in reach of the cut has the same evidence.

use crate::mix::{choice, mixed, shuffled, suffix};
use crate::names::{REPOSITORIES, task_id};

/// One official task and everything that is known of it.
#[derive(Debug, Clone, Default)]
pub struct Task {
    /// Its id.
    pub id: String,
    /// Number of its repository.
    pub repository: usize,
    /// Which of gpt-4o, claude-3.5 and claude-3.7 solved it in published runs.
    pub solved_by: [bool; 3],
    /// Its mean reward.
    pub reward: Option<f64>,
    /// The state of its image.
    pub image: Option<&'static str>,
    /// Whether it belongs to the filtered set.
    pub filtered: bool,
    /// Whether it belongs to the stricter filter.
    pub pro: bool,
    /// Whether an earlier set holds it, so that it must be kept.
    pub retained: bool,
    /// Whether it belongs to the canary.
    pub canary: bool,
}

/// One published run.
#[derive(Debug, Clone)]
pub struct Run {
    /// The task it was run on.
    pub task: String,
    /// Number of the model.
    pub model: usize,
    /// Whether it solved the task.
    pub resolved: bool,
    /// Its identity.
    pub id: String,
}

/// All of it.
#[derive(Debug)]
pub struct Universe {
    /// The official tasks in the order of their file.
    pub tasks: Vec<Task>,
    /// Mean rewards of tasks that are not official.
    pub strange_rewards: Vec<(String, f64)>,
    /// The distinct runs.
    pub runs: Vec<Run>,
}

/// Names of the models, in order of preference.
pub const MODELS: [&str; 3] =
    ["gpt-4o-2024-08-06", "claude-3-5-sonnet-20241022", "claude-3-7-sonnet-20250219"];

const OFFICIAL: usize = 59_136;
const FILTERED: usize = 3_748;
const FILTERED_REPOSITORIES: usize = 105;
const RUNS: usize = 26_800;

/// Repositories that primaries of both pools come from; the next ones serve the first pool only, then the second only.
const SHARED: usize = 62;
const FIRST_ONLY: usize = 5;
const SECOND_ONLY: usize = 40;

/// Most primaries of one repository in one pool.
const CAP: usize = 18;

const GPT: [bool; 3] = [true, false, false];
const C35: [bool; 3] = [false, true, false];
const C37: [bool; 3] = [false, false, true];
const NOBODY: [bool; 3] = [false; 3];

fn both(a: [bool; 3], b: [bool; 3]) -> [bool; 3] {
    std::array::from_fn(|at| a[at] || b[at])
}

impl Universe {
    /// Makes the universe; there is only one.
    pub fn new() -> Self {
        let mut making = Making { tasks: Vec::with_capacity(OFFICIAL) };
        making.first_pool();
        making.filtered();
        making.second_pool();
        let mut tasks = making.tasks;
        let runs = runs(&tasks);
        tasks.sort_by(|a, b| a.id.cmp(&b.id));
        let strange = |n: usize| {
            let reward = [1.0, 0.5, 0.0][usize::from(n >= 15) + usize::from(n >= 20)];
            (format!("gone__project.0123abcd.lm_rewrite__{}", suffix(n)), reward)
        };
        Self { tasks, strange_rewards: (0..23).map(strange).collect(), runs }
    }
}

impl Default for Universe {
    fn default() -> Self {
        Self::new()
    }
}

struct Making {
    tasks: Vec<Task>,
}

impl Making {
    fn add(&mut self, repository: usize, mut task: Task) {
        task.id = task_id(self.tasks.len(), repository);
        task.repository = repository;
        self.tasks.push(task);
    }

    /// 487 tasks: 350 that will be primaries, and 137 that will be reserves.
    fn first_pool(&mut self) {
        let slots = first_pool_slots();
        let pro = Task { filtered: true, pro: true, image: Some("completed"), ..Task::default() };
        // Three repositories are full, so only the strongest two tiers may stand in them. The first task of each of the
        // others is of tier 2 as well: a repository must not hang on a task that a cut may miss.
        let mut open: Vec<usize> = Vec::new();
        let mut seen = [false; REPOSITORIES];
        for (slot, repository) in slots.iter().enumerate() {
            let first = !std::mem::replace(&mut seen[*repository], true);
            if *repository >= 3 && !first {
                open.push(slot);
            }
        }
        let mut tiers = vec![2_u8; slots.len()];
        let order = shuffled(open.len(), 10);
        for (tier, at) in [(1, 0..32), (3, 32..43), (4, 43..73)] {
            for &n in &order[at] {
                tiers[open[n]] = tier;
            }
        }
        let mut official = 0;
        let mut zeros = 0;
        let mut of_tier = [0_usize; 5];
        let mut canary_left = [10, 20];
        for (slot, &repository) in slots.iter().enumerate() {
            let tier = tiers[slot];
            let place = of_tier[usize::from(tier)];
            of_tier[usize::from(tier)] += 1;
            let reward = match tier {
                1 => Some(if place < 20 { 1.0 } else { partial(slot) }),
                2 if zeros < 40 && mixed(slot, 11).is_multiple_of(5) => {
                    zeros += 1;
                    Some(0.0)
                }
                2 => None,
                3 => Some(1.0),
                _ => Some(partial(slot)),
            };
            let solved_by = if tier <= 2 {
                official += 1;
                // Of the 309 solved ones 7 were solved by both and 29 by the older one alone.
                match official * 37 % 309 {
                    0..7 => both(C35, C37),
                    7..36 => C35,
                    _ => C37,
                }
            } else {
                NOBODY
            };
            // Of every tier some are kept from an earlier set: 12 + 100 + 4 + 9, spread over the repositories.
            let (kept, of) = [(0, 1), (12, 32), (100, 277), (4, 11), (9, 30)][usize::from(tier)];
            let retained = place * kept % of < kept;
            // Twenty of the canary are kept anyway, ten are forced for its sake.
            let left = &mut canary_left[usize::from(retained)];
            let canary = tier == 2 && slot % 9 < 4 && *left > 0;
            *left -= usize::from(canary);
            let about = Task { solved_by, reward, retained, canary, ..pro.clone() };
            self.add(repository, about);
        }
        // Reserves with an image: over the cap, beyond the target, and without evidence.
        for n in 0..8 {
            self.add(n % 3, Task { solved_by: C37, ..pro.clone() });
        }
        for n in 0..11 {
            self.add(10 + n * 4, Task { reward: Some(partial(n + 500)), ..pro.clone() });
        }
        for n in 0..101 {
            let reward = (n < 10).then_some(0.0);
            self.add(choice(n, 12, FILTERED_REPOSITORIES), Task { reward, ..pro.clone() });
        }
        // And without one: no image is ready, whatever the evidence says.
        for n in 0..17 {
            let about = Task {
                image: [Some("pending"), Some("skipped"), None][n % 3],
                solved_by: if n < 6 { C37 } else { NOBODY },
                reward: (6..8).contains(&n).then_some(1.0),
                ..pro.clone()
            };
            self.add(5 + n, about);
        }
    }

    /// The rest of the filtered set, which belongs to no pool.
    fn filtered(&mut self) {
        let begun = self.tasks.len();
        while self.tasks.len() < FILTERED {
            let n = self.tasks.len() - begun;
            let repository = if n < FILTERED_REPOSITORIES { n } else { skewed(n, 20, FILTERED_REPOSITORIES) };
            let about = Task {
                filtered: true,
                reward: match n {
                    0..640 => Some(1.0),
                    640..840 => Some(partial(n)),
                    840..990 => Some(0.0),
                    _ => None,
                },
                solved_by: if n % 4 == 1 { solver(n) } else { NOBODY },
                image: mixed(n, 21).is_multiple_of(3).then_some("completed"),
                ..Task::default()
            };
            self.add(repository, about);
        }
    }

    /// Everything outside the filtered set: 11,014 tasks with evidence, of which 350 will be primaries and 350 reserves.
    fn second_pool(&mut self) {
        let primary = |n: usize| if n < SHARED { n } else { n + FIRST_ONLY };
        // 56 + 18 * 2 + 10 * 3 + 8 * 6 + 10 * 18 are 350, and the largest ones have six more each.
        let mut sizes = Vec::new();
        for (count, size) in [(56, 1), (18, 2), (10, 3), (8, 6), (10, CAP + 6)] {
            sizes.extend(std::iter::repeat_n(size, count));
        }
        let order = shuffled(SHARED + SECOND_ONLY, 30);
        let mut special = specials().into_iter();
        let mut cross = 0;
        for (size, place) in sizes.into_iter().zip(order) {
            for at in 0..size {
                // What older models solved comes first in every queue, and no cut reaches it.
                let solved_by = if at % 3 == 0 { special.next().unwrap_or(C37) } else { C37 };
                let reward = Some(if cross < 300 { 1.0 } else { partial(cross) });
                cross += 1;
                self.add(primary(place), Task { solved_by, reward, ..Task::default() });
            }
        }
        for n in 0..OFFICIAL - self.tasks.len() {
            let about = match n {
                0..5_607 => {
                    Task { solved_by: solver(n), reward: (n < 500).then_some(0.0), ..Task::default() }
                }
                5_607..9_399 => Task { reward: Some(1.0), ..Task::default() },
                9_399..10_604 => Task { reward: Some(partial(n)), ..Task::default() },
                10_604..10_971 => Task { reward: Some(0.0), ..Task::default() },
                _ => Task::default(),
            };
            self.add(skewed(n, 31, REPOSITORIES), about);
        }
    }
}

/// The repositories of the first pool's 350 primaries: three are full, the others have some each.
fn first_pool_slots() -> Vec<usize> {
    let others = SHARED + FIRST_ONLY - 3;
    let mut sizes = vec![1; others];
    let mut left = 350 - 3 * CAP - others;
    let mut at = 0;
    while left > 0 {
        let repository = (at * at * 7 + at * 3) % others;
        // Small ones are filled up by turns when the larger ones have reached their bound.
        let repository = if sizes[repository] < 12 { repository } else { at % others };
        if sizes[repository] < 12 {
            sizes[repository] += 1;
            left -= 1;
        }
        at += 1;
    }
    let full = (0..3).flat_map(|repository| std::iter::repeat_n(repository, CAP));
    full.chain(sizes.iter().enumerate().flat_map(|(at, size)| std::iter::repeat_n(at + 3, *size))).collect()
}

/// Primaries of the second pool that claude-3.7 was not the only one to solve: 13 by gpt-4o and 41 by claude-3.5.
fn specials() -> Vec<[bool; 3]> {
    let mut all = Vec::new();
    for (count, families) in [
        (2, GPT),
        (12, C35),
        (1, both(GPT, C35)),
        (6, both(GPT, C37)),
        (4, both(both(GPT, C35), C37)),
        (24, both(C35, C37)),
    ] {
        all.extend(std::iter::repeat_n(families, count));
    }
    all
}

/// Families of a task of which it does not matter who solved it.
fn solver(n: usize) -> [bool; 3] {
    match mixed(n, 40) % 20 {
        0 => GPT,
        1 | 2 => C35,
        3 => both(C35, C37),
        _ => C37,
    }
}

/// A mean between 0 and 1 as a few rollouts give it.
fn partial(n: usize) -> f64 {
    const MEANS: [f64; 8] = [0.5, 0.25, 1.0 / 3.0, 2.0 / 3.0, 0.75, 1.0 / 7.0, 0.8, 11.0 / 12.0];
    MEANS[choice(n, 41, MEANS.len())]
}

/// One of `count` repositories, early ones more often.
fn skewed(n: usize, question: u64, count: usize) -> usize {
    choice(n, question, count).min(choice(n, question + 500, count))
}

/// The runs behind the evidence, and as many failed ones as there were.
fn runs(tasks: &[Task]) -> Vec<Run> {
    let mut runs = Vec::with_capacity(RUNS);
    let mut add = |task: &str, model: usize, resolved: bool| {
        let id = format!("{task}.{}", suffix(runs.len() + 1_000_000));
        runs.push(Run { task: task.to_owned(), model, resolved, id });
        runs.len()
    };
    for (n, task) in tasks.iter().enumerate() {
        for model in (0..MODELS.len()).filter(|model| task.solved_by[*model]) {
            let times = 1 + choice(n, 50, 2);
            (0..times).for_each(|_| {
                add(&task.id, model, true);
            });
        }
    }
    for n in 0..12 {
        add(&format!("gone__project.0123abcd.lm_rewrite__{}", suffix(n)), 2, n % 2 == 0);
    }
    let mut n = 0;
    loop {
        let task = &tasks[choice(n, 52, tasks.len())];
        let model = choice(n, 53, 10).min(2);
        if add(&task.id, model, false) == RUNS {
            return runs;
        }
        n += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_universe_has_its_sizes() {
        let universe = Universe::new();
        let count = |fits: fn(&Task) -> bool| universe.tasks.iter().filter(|task| fits(task)).count();
        let ids: HashSet<&str> = universe.tasks.iter().map(|task| task.id.as_str()).collect();
        assert_eq!((universe.tasks.len(), ids.len()), (OFFICIAL, OFFICIAL));
        assert_eq!((count(|task| task.filtered), count(|task| task.pro)), (FILTERED, 487));
        assert_eq!((count(|task| task.retained), count(|task| task.canary)), (125, 30));
        assert_eq!(count(|task| task.canary && task.retained), 20);
        let rewards = |fits: fn(f64) -> bool| {
            let own = universe.tasks.iter().filter_map(|task| task.reward);
            own.chain(universe.strange_rewards.iter().map(|row| row.1)).filter(|mean| fits(*mean)).count()
        };
        assert_eq!(rewards(|mean| mean >= 1.0), 4_780);
        assert_eq!(rewards(|mean| mean > 0.0 && mean < 1.0), 1_573);
        assert_eq!(rewards(|mean| mean <= 0.0), 1_070);
        let runs: HashSet<&str> = universe.runs.iter().map(|run| run.id.as_str()).collect();
        assert_eq!(runs.len(), RUNS);
        let resolved = universe.runs.iter().filter(|run| run.resolved).count();
        assert!((10_500..13_000).contains(&resolved), "{resolved} runs are resolved");
        let repositories: HashSet<usize> =
            universe.tasks.iter().filter(|task| task.filtered).map(|task| task.repository).collect();
        assert_eq!(repositories.len(), FILTERED_REPOSITORIES);
    }
}
