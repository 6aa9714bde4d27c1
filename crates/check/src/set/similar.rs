//! Which tasks of a set are nearly the same, and which of them is to be kept.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap, HashSet};

use rayon::slice::ParallelSliceMut as _;
use record::{SimilarBy, SimilarTasks};

use super::digest::TaskDigest;
use super::prompt::Prompt;

/// Prompts of one group of keys that are compared with a new one, at most. A template that thousands of prompts share
/// must not make the work grow with the square of their number.
const MAX_CANDIDATES: usize = 64;

/// Two tasks of a set that are nearly the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    /// Place of the task that is to be kept.
    pub(super) kept: usize,
    /// Place of the other one.
    pub(super) other: usize,
    /// By what they are alike.
    pub(super) by: SimilarBy,
    /// How much, in thousandths.
    pub(super) permille: u16,
    /// Whether both are about one repository, or about none that is known.
    pub(super) one_repo: bool,
}

impl Pair {
    /// The pair as it is written down; `None` when an id is none.
    pub(super) fn record(&self, tasks: &[&TaskDigest]) -> Option<SimilarTasks> {
        Some(SimilarTasks {
            kept: tasks[self.kept].id.parse().ok()?,
            other: tasks[self.other].id.parse().ok()?,
            by: self.by,
            permille: self.permille,
        })
    }
}

/// All pairs, in order of the later task.
///
/// The tasks are gone through in their order, those that are rejected anyway last. A task that is like one of those
/// before it, and that one has not been found to be like another, makes a pair with the first such; every other task is
/// one that is kept. First tasks of one repository are compared, then what is left over all repositories.
pub(super) fn pairs(tasks: &[&TaskDigest]) -> Vec<Pair> {
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|&at| (tasks[at].rejected, at));
    let solutions = within_and_across(tasks, &order, &|index, at| index.by_solution(at));
    // What repeats the solution of another task is not a measure for the prompts of the others.
    order.sort_by_key(|&at| (tasks[at].rejected || solutions.iter().any(|pair| pair.other == at), at));
    let prompts = within_and_across(tasks, &order, &|index, at| index.by_prompt(at));
    let mut pairs: Vec<Pair> = solutions.into_iter().chain(prompts).collect();
    pairs.sort_by_key(|pair| (pair.other, pair.kept, pair.by));
    pairs
}

type Find<'a> = dyn Fn(&mut Index<'_>, usize) -> Option<Pair> + 'a;

fn within_and_across(tasks: &[&TaskDigest], order: &[usize], find: &Find<'_>) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let mut left: Vec<usize> = order.to_vec();
    for one_repo in [true, false] {
        let scopes = if one_repo { scopes(tasks) } else { vec![0; tasks.len()] };
        let mut index = Index {
            tasks,
            one_repo,
            scopes,
            solutions: HashMap::new(),
            shared: OnceCell::new(),
            prompts: HashMap::new(),
        };
        left.retain(|&at| {
            let pair = find(&mut index, at);
            pairs.extend(pair);
            pair.is_none()
        });
    }
    pairs
}

/// For each task the place of the first task of its repository.
fn scopes(tasks: &[&TaskDigest]) -> Vec<usize> {
    let mut first = BTreeMap::new();
    tasks.iter().enumerate().map(|(at, task)| *first.entry(task.repo.as_ref()).or_insert(at)).collect()
}

/// The tasks that are kept so far, by what they may be alike in.
struct Index<'a> {
    tasks: &'a [&'a TaskDigest],
    one_repo: bool,
    /// For each task the place of the first of its repository; comparisons stay within that.
    scopes: Vec<usize>,
    solutions: HashMap<(usize, ident::Digest), usize>,
    /// The keys that several prompts have, when they have been asked for: most have none of these.
    shared: OnceCell<HashSet<Key>>,
    /// The tasks under each of these.
    prompts: HashMap<Key, Vec<usize>>,
}

/// A key of a prompt within a scope.
type Key = (usize, u64);

impl Index<'_> {
    fn pair(&self, kept: usize, other: usize, by: SimilarBy, permille: u16) -> Pair {
        let one_repo = self.tasks[kept].repo == self.tasks[other].repo;
        Pair { kept, other, by, permille, one_repo }
    }

    fn by_solution(&mut self, at: usize) -> Option<Pair> {
        let (digest, _) = self.tasks[at].solution.as_ref()?;
        let kept = *self.solutions.entry((self.scopes[at], *digest)).or_insert(at);
        (kept != at).then(|| self.pair(kept, at, SimilarBy::Solution, 1000))
    }

    fn by_prompt(&mut self, at: usize) -> Option<Pair> {
        let prompt: &Prompt = &self.tasks[at].prompt;
        // Over all repositories short prompts are alike by their form: "Repair the function."
        if prompt.is_empty() || (!self.one_repo && prompt.is_short()) {
            return None;
        }
        let shared = self.shared.get_or_init(|| self.shared_keys());
        let keys: Vec<Key> = self.keys(at).filter(|key| shared.contains(key)).collect();
        let groups = keys.iter().filter_map(|key| self.prompts.get(key));
        let mut candidates: Vec<usize> = groups.flatten().copied().collect();
        candidates.sort_unstable();
        candidates.dedup();
        let alike = |&kept: &usize| Some((kept, prompt.likeness(&self.tasks[kept].prompt)?));
        if let Some((kept, permille)) = candidates.iter().find_map(alike) {
            return Some(self.pair(kept, at, SimilarBy::Instruction, permille));
        }
        for key in keys {
            let group = self.prompts.entry(key).or_default();
            if group.len() < MAX_CANDIDATES {
                group.push(at);
            }
        }
        None
    }

    fn keys(&self, at: usize) -> impl Iterator<Item = Key> {
        let scope = self.scopes[at];
        self.tasks[at].prompt.keys().iter().map(move |key| (scope, *key))
    }

    fn shared_keys(&self) -> HashSet<Key> {
        let mut all: Vec<Key> = (0..self.tasks.len()).flat_map(|at| self.keys(at)).collect();
        all.par_sort_unstable();
        all.chunk_by(|a, b| a == b).filter(|same| same.len() > 1).map(|same| same[0]).collect()
    }
}
