//! Step 1, the set: as many tasks as repository cap and pool targets allow, and of those sets the one that comes first
//! by rank.
//!
//! A task is a unit edge from its pool to its repository, a choice is a flow, and a largest choice is a maximum flow.
//! The tasks are then visited by rank; each is taken when some maximum flow contains it together with everything taken
//! before, which is to say when the residual network leads from its repository back to its pool. Tasks of one pool and
//! repository differ in rank only, so the network has one edge with a capacity for all of them.

use std::collections::{BTreeMap, VecDeque};

/// Chooses among tasks given by rank as pairs of a pool's number and a repository's number.
///
/// `targets` holds the most tasks of each pool, `repo_cap` the most of one repository over all pools. Returns for each
/// task whether it is chosen.
pub fn choose(tasks: &[(usize, usize)], targets: &[u64], repo_cap: u64) -> Vec<bool> {
    let mut network = Network::new(tasks, targets, repo_cap);
    for (pool, repo) in tasks {
        network.take_if_free(*pool, *repo);
    }
    while network.augment() {}
    tasks.iter().map(|(pool, repo)| network.decide(*pool, *repo)).collect()
}

/// Everything between one pool and one repository.
#[derive(Debug, Default, Clone, Copy)]
struct Edge {
    /// Tasks that may still be chosen, taken ones included.
    capacity: u64,
    /// Tasks that the current flow chooses.
    flow: u64,
    /// Tasks that are taken for good.
    fixed: u64,
}

/// A node of the residual network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    Source,
    Pool(usize),
    Repo(usize),
    Sink,
}

struct Network {
    edges: Vec<Edge>,
    /// The edge between a pool and a repository.
    numbers: BTreeMap<(usize, usize), usize>,
    /// Repositories and edges of each pool.
    of_pool: Vec<Vec<(usize, usize)>>,
    /// Pools and edges of each repository.
    of_repo: Vec<Vec<(usize, usize)>>,
    pool_flow: Vec<u64>,
    targets: Vec<u64>,
    repo_flow: Vec<u64>,
    repo_cap: u64,
}

impl Network {
    fn new(tasks: &[(usize, usize)], targets: &[u64], repo_cap: u64) -> Self {
        let repos = tasks.iter().map(|(_, repo)| repo + 1).max().unwrap_or(0);
        let pools = tasks.iter().map(|(pool, _)| pool + 1).max().unwrap_or(0);
        let mut targets = targets.to_vec();
        // A pool without a target gets no task.
        targets.resize(targets.len().max(pools), 0);
        let mut network = Self {
            edges: Vec::new(),
            numbers: BTreeMap::new(),
            of_pool: vec![Vec::new(); targets.len()],
            of_repo: vec![Vec::new(); repos],
            pool_flow: vec![0; targets.len()],
            targets,
            repo_flow: vec![0; repos],
            repo_cap,
        };
        for &(pool, repo) in tasks {
            let next = network.edges.len();
            let number = *network.numbers.entry((pool, repo)).or_insert(next);
            if number == next {
                network.edges.push(Edge::default());
                network.of_pool[pool].push((repo, number));
                network.of_repo[repo].push((pool, number));
            }
            network.edges[number].capacity += 1;
        }
        network
    }

    fn edge(&mut self, pool: usize, repo: usize) -> &mut Edge {
        &mut self.edges[self.numbers[&(pool, repo)]]
    }

    /// Takes a task into the first flow when nothing else must move.
    fn take_if_free(&mut self, pool: usize, repo: usize) {
        if self.pool_flow[pool] < self.targets[pool] && self.repo_flow[repo] < self.repo_cap {
            self.edge(pool, repo).flow += 1;
            self.pool_flow[pool] += 1;
            self.repo_flow[repo] += 1;
        }
    }

    /// Makes the flow larger by one, if that is possible.
    fn augment(&mut self) -> bool {
        match self.path(Node::Source, Node::Sink) {
            Some(path) => {
                self.push(&path);
                true
            }
            None => false,
        }
    }

    /// Decides the next task by rank: takes it for good when a maximum flow contains it and all that were taken before.
    fn decide(&mut self, pool: usize, repo: usize) -> bool {
        let edge = *self.edge(pool, repo);
        if edge.fixed == edge.capacity {
            // A task of this edge was left out before, and this one comes later.
            return false;
        }
        if edge.flow == edge.fixed {
            let Some(mut path) = self.path(Node::Repo(repo), Node::Pool(pool)) else {
                self.edge(pool, repo).capacity = edge.fixed;
                return false;
            };
            path.push(Node::Repo(repo));
            self.push(&path);
        }
        self.edge(pool, repo).fixed += 1;
        true
    }

    /// A shortest path in the residual network, both ends included. What is taken for good cannot be pushed back.
    fn path(&self, from: Node, to: Node) -> Option<Vec<Node>> {
        let pools = self.targets.len();
        let index = |node: Node| match node {
            Node::Source => 0,
            Node::Sink => 1,
            Node::Pool(pool) => 2 + pool,
            Node::Repo(repo) => 2 + pools + repo,
        };
        let mut before: Vec<Option<Node>> = vec![None; 2 + pools + self.repo_flow.len()];
        before[index(from)] = Some(from);
        let mut open = VecDeque::from([from]);
        while let Some(node) = open.pop_front() {
            if node == to {
                let mut path = vec![node];
                let mut node = node;
                while node != from {
                    node = before[index(node)]?;
                    path.push(node);
                }
                path.reverse();
                return Some(path);
            }
            let mut visit = |next: Node| {
                let known = &mut before[index(next)];
                if known.is_none() {
                    *known = Some(node);
                    open.push_back(next);
                }
            };
            match node {
                Node::Source => (0..pools)
                    .filter(|pool| self.pool_flow[*pool] < self.targets[*pool])
                    .for_each(|pool| visit(Node::Pool(pool))),
                Node::Sink => (0..self.repo_flow.len())
                    .filter(|repo| self.repo_flow[*repo] > 0)
                    .for_each(|repo| visit(Node::Repo(repo))),
                Node::Pool(pool) => {
                    if self.pool_flow[pool] > 0 {
                        visit(Node::Source);
                    }
                    for (repo, number) in &self.of_pool[pool] {
                        if self.edges[*number].flow < self.edges[*number].capacity {
                            visit(Node::Repo(*repo));
                        }
                    }
                }
                Node::Repo(repo) => {
                    if self.repo_flow[repo] < self.repo_cap {
                        visit(Node::Sink);
                    }
                    for (pool, number) in &self.of_repo[repo] {
                        if self.edges[*number].flow > self.edges[*number].fixed {
                            visit(Node::Pool(*pool));
                        }
                    }
                }
            }
        }
        None
    }

    /// Sends one unit along a path.
    fn push(&mut self, path: &[Node]) {
        for pair in path.windows(2) {
            match (pair[0], pair[1]) {
                (Node::Source, Node::Pool(pool)) => self.pool_flow[pool] += 1,
                (Node::Pool(pool), Node::Source) => self.pool_flow[pool] -= 1,
                (Node::Repo(repo), Node::Sink) => self.repo_flow[repo] += 1,
                (Node::Sink, Node::Repo(repo)) => self.repo_flow[repo] -= 1,
                (Node::Pool(pool), Node::Repo(repo)) => self.edge(pool, repo).flow += 1,
                (Node::Repo(repo), Node::Pool(pool)) => self.edge(pool, repo).flow -= 1,
                // The network has no other edges, so no path has.
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_greedy_choice_that_misses_a_task_is_repaired() {
        // Taking the first task of pool 0 from repository 0 would leave pool 1 without its only task.
        let tasks = [(0, 0), (0, 1), (1, 0)];
        assert_eq!(choose(&tasks, &[1, 1], 1), [false, true, true]);
        // With another place in the repository the first by rank is taken.
        assert_eq!(choose(&tasks, &[1, 1], 2), [true, false, true]);
    }

    #[test]
    fn nothing_is_chosen_from_nothing() {
        assert_eq!(choose(&[], &[3], 1), [] as [bool; 0]);
        assert_eq!(choose(&[(0, 0)], &[], 1), [false]);
        assert_eq!(choose(&[(0, 0)], &[1], 0), [false]);
    }

    /// The first by rank of all largest sets, by trying every set.
    fn slowly(tasks: &[(usize, usize)], targets: &[u64], repo_cap: u64) -> Vec<bool> {
        let mut best: Option<(usize, Vec<bool>)> = None;
        for mask in 0u32..1 << tasks.len() {
            let set: Vec<bool> = (0..tasks.len()).map(|n| mask >> n & 1 == 1).collect();
            let count = |fits: &dyn Fn(&(usize, usize)) -> bool| {
                tasks.iter().zip(&set).filter(|(task, chosen)| **chosen && fits(task)).count() as u64
            };
            let fits = targets.iter().enumerate().all(|(n, target)| count(&|task| task.0 == n) <= *target)
                && tasks.iter().all(|(_, repo)| count(&|task| task.1 == *repo) <= repo_cap);
            let size = set.iter().filter(|chosen| **chosen).count();
            // Of equal sizes the one that takes the earlier task comes first, and true is above false.
            if fits && best.as_ref().is_none_or(|best| (size, &set) > (best.0, &best.1)) {
                best = Some((size, set));
            }
        }
        best.map(|(_, set)| set).unwrap_or_default()
    }

    proptest! {
        #[test]
        fn the_choice_is_the_first_of_all_largest(
            tasks in prop::collection::vec((0..3usize, 0..4usize), 0..11),
            targets in prop::collection::vec(0..5u64, 3),
            repo_cap in 0..4u64,
        ) {
            prop_assert_eq!(choose(&tasks, &targets, repo_cap), slowly(&tasks, &targets, repo_cap));
        }
    }
}
