//! Estimates and their intervals. Resampling draws from a generator with a fixed beginning, so that the same trials always give
//! the same interval.

use serde::Serialize;

/// Half the width of a 95 % interval of the normal distribution, in standard deviations.
const Z: f64 = 1.959_963_984_540_054;

/// An interval that holds the true value in 95 of 100 cases.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// How it was found.
    pub method: Method,
}

/// How an interval was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Wilson's score interval, for values of 0 and 1 that do not depend on each other.
    Wilson,
    /// Resampling of whole tasks, since trials of one task depend on each other.
    BootstrapOverTasks,
}

/// pass@k: how likely one of k trials of a task solves it, and pass^k: how likely all do.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PassAt {
    /// The number of trials.
    pub k: u64,
    /// Mean over tasks of the unbiased estimate 1 - C(n-c, k) / C(n, k).
    pub any: f64,
    /// Mean over tasks of C(c, k) / C(n, k).
    pub all: f64,
    /// The tasks with at least k graded trials, over which the means are.
    pub tasks: u64,
}

/// The chance that one of `k` out of `n` trials, of which `solved` solve the task, is a solving one.
pub(crate) fn pass_any(n: u64, solved: u64, k: u64) -> f64 {
    1.0 - choose_ratio(n - solved, n, k)
}

/// The chance that all `k` are.
pub(crate) fn pass_all(n: u64, solved: u64, k: u64) -> f64 {
    choose_ratio(solved, n, k)
}

/// C(part, k) / C(n, k), without factorials.
fn choose_ratio(part: u64, n: u64, k: u64) -> f64 {
    if part < k {
        return 0.0;
    }
    (0..k).map(|index| (part - index) as f64 / (n - index) as f64).product()
}

/// pass@k and pass^k for every k up to the most trials that a task has. `groups` are the graded trials of each task and how many
/// of them solve it.
pub(crate) fn pass_at(groups: &[(u64, u64)]) -> Vec<PassAt> {
    let most = groups.iter().map(|(n, _)| *n).max().unwrap_or(0);
    (1..=most)
        .map(|k| {
            let enough: Vec<_> = groups.iter().filter(|(n, _)| *n >= k).collect();
            let mean = |of: fn(u64, u64, u64) -> f64| {
                enough.iter().map(|(n, solved)| of(*n, *solved, k)).sum::<f64>() / enough.len() as f64
            };
            PassAt { k, any: mean(pass_any), all: mean(pass_all), tasks: enough.len() as u64 }
        })
        .collect()
}

/// Wilson's score interval.
pub(crate) fn wilson(solved: u64, n: u64) -> Option<Interval> {
    if n == 0 {
        return None;
    }
    let (n, p) = (n as f64, solved as f64 / n as f64);
    let centre = (p + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    let (low, high) = ((centre - half).max(0.0), (centre + half).min(1.0));
    Some(Interval { low, high, method: Method::Wilson })
}

/// The 2.5th and 97.5th percentile of a mean over resampled clusters; each cluster is the sum of its values and their number.
/// `None` with fewer than two clusters, and where the ends are no finite numbers.
pub(crate) fn bootstrap(clusters: &[(f64, u64)], rounds: usize) -> Option<Interval> {
    if clusters.len() < 2 {
        return None;
    }
    let mut random = SplitMix(0x5ea7_0000_2026_0001);
    let mut means: Vec<f64> = (0..rounds)
        .map(|_| {
            let (mut sum, mut number) = (0.0, 0);
            for _ in 0..clusters.len() {
                let (own, count) = clusters[random.below(clusters.len())];
                sum += own;
                number += count;
            }
            sum / number as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let at = |share: f64| means[((rounds - 1) as f64 * share).round() as usize];
    let (low, high) = (at(0.025), at(0.975));
    let is_finite = low.is_finite() && high.is_finite();
    is_finite.then_some(Interval { low, high, method: Method::BootstrapOverTasks })
}

/// A small generator of numbers that look random.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    #[test]
    fn pass_at_k_is_unbiased() {
        // Ten trials, three of which solve the task.
        near(pass_any(10, 3, 1), 0.3);
        near(pass_any(10, 3, 2), 1.0 - 21.0 / 45.0);
        near(pass_any(10, 3, 8), 1.0);
        near(pass_all(10, 3, 2), 3.0 / 45.0);
        near(pass_all(10, 3, 4), 0.0);
        let at = pass_at(&[(4, 2), (2, 0)]);
        assert_eq!(
            at.iter().map(|at| (at.k, at.tasks)).collect::<Vec<_>>(),
            [(1, 2), (2, 2), (3, 1), (4, 1)]
        );
        near(at[0].any, 0.25);
        near(at[3].any, 1.0);
    }

    #[test]
    fn intervals_hold_the_mean() {
        let interval = wilson(12, 30).unwrap();
        near((interval.low * 1e4).round(), 2459.0);
        near((interval.high * 1e4).round(), 5768.0);
        assert_eq!(wilson(0, 0), None);
        near(wilson(0, 5).unwrap().low, 0.0);
        let clusters: Vec<_> = (0..50).map(|task| (f64::from(task % 2), 1)).collect();
        let interval = bootstrap(&clusters, 1000).unwrap();
        assert!(interval.low < 0.5 && interval.high > 0.5 && interval.high - interval.low < 0.35);
        assert_eq!(bootstrap(&clusters, 1000), Some(interval));
        assert_eq!(bootstrap(&clusters[..1], 1000), None);
    }
}
