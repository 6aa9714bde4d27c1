//! Step 2, the splits: whole repositories go to train, validation or test so that the sizes come as near as possible to
//! the wanted ones.
//!
//! Of all assignments with the least total absolute deviation the lexicographically least is taken, over repositories
//! in ascending key order with train < validation < test. Which pairs of sizes the repositories from some point on can
//! make is a table of bits, filled from the last repository backwards. Once a pair of best sizes appears in the table,
//! all repositories before that point belong to train.

use std::fmt;

use record::Split;
use serde::{Deserialize, Serialize};

use crate::resolve::ResolveError;

/// Sizes of the three splits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitSizes {
    /// Training.
    pub train: u64,
    /// Validation.
    pub validation: u64,
    /// Test.
    pub test: u64,
}

impl SplitSizes {
    /// The size of one split.
    pub fn of(&self, split: Split) -> u64 {
        match split {
            Split::Train => self.train,
            Split::Validation => self.validation,
            Split::Test => self.test,
        }
    }

    /// The sum of the three.
    pub fn total(&self) -> u64 {
        self.train.saturating_add(self.validation).saturating_add(self.test)
    }

    /// The sum of the absolute differences.
    pub fn deviation(&self, other: &Self) -> u64 {
        self.train
            .abs_diff(other.train)
            .saturating_add(self.validation.abs_diff(other.validation))
            .saturating_add(self.test.abs_diff(other.test))
    }

    /// Divides `total` in these proportions by largest remainder; of equal remainders the earlier split gains.
    pub fn scaled_to(&self, total: u64) -> Result<Self, ResolveError> {
        let parts = [self.train, self.validation, self.test].map(u128::from);
        let whole: u128 = parts.iter().sum();
        if whole == 0 {
            return if total == 0 { Ok(Self::default()) } else { Err(ResolveError::NoSplits) };
        }
        let mut sizes = parts.map(|part| u128::from(total) * part / whole);
        let mut order = [0, 1, 2];
        order.sort_by_key(|n| std::cmp::Reverse(u128::from(total) * parts[*n] % whole));
        let missing = u128::from(total) - sizes.iter().sum::<u128>();
        for (n, _) in order.into_iter().zip(0..missing) {
            sizes[n] += 1;
        }
        // No part is above the total, which fits.
        let [train, validation, test] = sizes.map(|size| u64::try_from(size).unwrap_or(u64::MAX));
        Ok(Self { train, validation, test })
    }
}

impl fmt::Display for SplitSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "train {}, validation {}, test {}", self.train, self.validation, self.test)
    }
}

/// A split for every repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The splits in the order of the repositories.
    pub splits: Vec<Split>,
    /// The sizes that come out.
    pub sizes: SplitSizes,
    /// Sum of the absolute differences from the wanted sizes.
    pub deviation: u64,
}

/// Assigns repositories of the given sizes, in ascending key order.
pub fn assign(repositories: &[u64], wanted: &SplitSizes) -> Assignment {
    let sizes: Vec<usize> =
        repositories.iter().map(|size| usize::try_from(*size).unwrap_or(usize::MAX)).collect();
    let total: usize = sizes.iter().sum();
    let search = Search { sizes: &sizes, total, wanted };
    let splits = search.assign();
    let mut got = SplitSizes::default();
    for (size, split) in repositories.iter().zip(&splits) {
        match split {
            Split::Train => got.train += size,
            Split::Validation => got.validation += size,
            Split::Test => got.test += size,
        }
    }
    Assignment { splits, sizes: got, deviation: got.deviation(wanted) }
}

/// The least deviation when one of the repositories goes to `split`, wherever the others go.
pub(super) fn deviation_with(repositories: &[u64], at: usize, split: Split, wanted: &SplitSizes) -> u64 {
    let mut others = repositories.to_vec();
    let size = others.remove(at);
    let mut left = *wanted;
    let left_of_split = match split {
        Split::Train => &mut left.train,
        Split::Validation => &mut left.validation,
        Split::Test => &mut left.test,
    };
    // What goes beyond the wanted size deviates whatever the others do.
    let beyond = size.saturating_sub(*left_of_split);
    *left_of_split = left_of_split.saturating_sub(size);
    assign(&others, &left).deviation.saturating_add(beyond)
}

/// Sizes of two splits; validation and test where nothing else is said.
type Pair = (usize, usize);

struct Search<'a> {
    sizes: &'a [usize],
    total: usize,
    wanted: &'a SplitSizes,
}

impl Search<'_> {
    fn assign(&self) -> Vec<Split> {
        let as_size = |size: u64| usize::try_from(size).unwrap_or(usize::MAX).min(self.total);
        let exact = (as_size(self.wanted.validation), as_size(self.wanted.test));
        if self.deviation(exact) == Some(0)
            && let Some(splits) = self.first_of(&[exact])
        {
            return splits;
        }
        // Sizes more than `slack` above the wanted ones deviate by more than `slack`, so a best pair that deviates by
        // no more cannot be beaten by one outside the table.
        let mut slack = self.sizes.iter().copied().max().unwrap_or(0).saturating_mul(2);
        loop {
            let widened = |size: usize| size.saturating_add(slack).min(self.total);
            let bounds = (widened(exact.0), widened(exact.1));
            let mut table = Table::new(bounds);
            for size in self.sizes {
                table.add(*size);
            }
            let mut best: Vec<Pair> = Vec::new();
            let mut least = u64::MAX;
            for pair in table.pairs() {
                match self.deviation(pair) {
                    Some(deviation) if deviation < least => {
                        least = deviation;
                        best = vec![pair];
                    }
                    Some(deviation) if deviation == least => best.push(pair),
                    _ => {}
                }
            }
            let least = usize::try_from(least).unwrap_or(usize::MAX);
            if least <= slack || bounds == (self.total, self.total) {
                // Every pair of the table can be reached, the best ones too.
                return self.first_of(&best).unwrap_or_else(|| vec![Split::Train; self.sizes.len()]);
            }
            slack = least;
        }
    }

    /// The deviation of a pair, if validation and test leave no less than nothing to train.
    fn deviation(&self, (validation, test): Pair) -> Option<u64> {
        let train = self.total.checked_sub(validation)?.checked_sub(test)?;
        let sizes = SplitSizes { train: train as u64, validation: validation as u64, test: test as u64 };
        Some(sizes.deviation(self.wanted))
    }

    /// The lexicographically least assignment that ends at one of the goals, if any does.
    ///
    /// All repositories before some point go to train, and from there on train gets little, because train comes first.
    /// So the tables run over validation and the small rest that goes to train; when that rest is not enough, it is
    /// tried again with more.
    fn first_of(&self, goals: &[Pair]) -> Option<Vec<Split>> {
        let mut rest = self.sizes.iter().copied().max().unwrap_or(0).saturating_mul(4);
        loop {
            rest = rest.min(self.total);
            if let Some(splits) = self.first_within(goals, rest) {
                return Some(splits);
            }
            if rest == self.total {
                return None;
            }
            rest = rest.saturating_mul(4);
        }
    }

    /// The same, with at most `most` tasks of train behind the point from which on not everything goes to train.
    fn first_within(&self, goals: &[Pair], most: usize) -> Option<Vec<Split>> {
        let bounds = (goals.iter().map(|goal| goal.0).max()?, most);
        // A goal seen from the repositories behind some point, which have `sum` tasks in all.
        let seen = |goal: &Pair, sum: usize| Some((goal.0, sum.checked_sub(goal.0)?.checked_sub(goal.1)?));
        // Tables are kept at every `stride`-th repository and made again in between: space and time stay balanced.
        let stride = self.sizes.len().isqrt().max(1);
        let mut table = Table::new(bounds);
        let mut kept = vec![(self.sizes.len(), table.clone())];
        let mut start = self.sizes.len();
        let mut left: Vec<Pair> = loop {
            let visible: Vec<Pair> = goals.iter().filter_map(|goal| seen(goal, table.sum)).collect();
            // A goal beyond the table could be the one that is reached first.
            if visible.iter().any(|pair| pair.1 > most) {
                return None;
            }
            let reached: Vec<Pair> = visible.into_iter().filter(|pair| table.has(*pair)).collect();
            if !reached.is_empty() {
                break reached;
            }
            start = start.checked_sub(1)?;
            table.add(self.sizes[start]);
            if start.is_multiple_of(stride) {
                kept.push((start, table.clone()));
            }
        };

        let mut splits = vec![Split::Train; start];
        // Tables behind the repository at hand and those after it, the nearest last.
        let mut block: Vec<Table> = Vec::new();
        for (n, &size) in self.sizes.iter().enumerate().skip(start) {
            if block.is_empty() {
                while kept.len() > 1 && kept[kept.len() - 1].0 <= n {
                    kept.pop();
                }
                let (end, table) = &kept[kept.len() - 1];
                block.push(table.clone());
                for m in (n + 1..*end).rev() {
                    let mut next = block[block.len() - 1].clone();
                    next.add(self.sizes[m]);
                    block.push(next);
                }
            }
            let behind = block.pop()?;
            let choices = [(Split::Train, 0, size), (Split::Validation, size, 0), (Split::Test, 0, 0)];
            let (split, rest) = choices.into_iter().find_map(|(split, validation, train)| {
                let rest = left.iter().filter_map(|pair| {
                    let rest = (pair.0.checked_sub(validation)?, pair.1.checked_sub(train)?);
                    behind.has(rest).then_some(rest)
                });
                let rest: Vec<Pair> = rest.collect();
                (!rest.is_empty()).then_some((split, rest))
            })?;
            splits.push(split);
            left = rest;
        }
        Some(splits)
    }
}

/// Which pairs of sizes of two splits some repositories can make, one bit a pair; the third split gets what is left.
#[derive(Debug, Clone)]
struct Table {
    bounds: Pair,
    words: usize,
    /// Rows by the size of the first split; the bits of a row stand for the size of the second.
    bits: Vec<u64>,
    /// The sum of all repositories so far.
    sum: usize,
}

impl Table {
    /// Without repositories only (0, 0) can be made. Pairs above `bounds` are not kept.
    fn new(bounds: Pair) -> Self {
        let words = bounds.1 / 64 + 1;
        let mut bits = vec![0; words * (bounds.0 + 1)];
        bits[0] = 1;
        Self { bounds, words, bits, sum: 0 }
    }

    /// Adds a repository, which can go to the first split, to the second or to neither.
    fn add(&mut self, size: usize) {
        self.sum = self.sum.saturating_add(size);
        let (skip, shift) = (size / 64, size % 64);
        // From the last row upwards, so that the rows that are read are still the old ones.
        for row in (0..=self.bounds.0.min(self.sum)).rev() {
            let (before, now) = self.bits.split_at_mut(row * self.words);
            let now = &mut now[..self.words];
            for word in (skip..self.words).rev() {
                let mut moved = now[word - skip] << shift;
                if shift > 0 && word > skip {
                    moved |= now[word - skip - 1] >> (64 - shift);
                }
                now[word] |= moved;
            }
            if let Some(from) = row.checked_sub(size).filter(|from| *from < row) {
                let from = &before[from * self.words..][..self.words];
                for (word, other) in now.iter_mut().zip(from) {
                    *word |= other;
                }
            }
        }
    }

    fn has(&self, (first, second): Pair) -> bool {
        first <= self.bounds.0
            && second <= self.bounds.1
            && self.bits[first * self.words + second / 64] >> (second % 64) & 1 == 1
    }

    fn pairs(&self) -> impl Iterator<Item = Pair> {
        let columns = 0..=self.bounds.1;
        (0..=self.bounds.0)
            .flat_map(move |first| columns.clone().map(move |second| (first, second)))
            .filter(|pair| self.has(*pair))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sizes(train: u64, validation: u64, test: u64) -> SplitSizes {
        SplitSizes { train, validation, test }
    }

    fn letters(assignment: &Assignment) -> String {
        let letter = |split: &Split| match split {
            Split::Train => 'a',
            Split::Validation => 'b',
            Split::Test => 'c',
        };
        assignment.splits.iter().map(letter).collect()
    }

    #[test]
    fn an_exact_assignment_is_found_and_the_least_is_taken() {
        let found = assign(&[3, 1, 2, 2, 1, 1], &sizes(6, 2, 2));
        assert_eq!((letters(&found).as_str(), found.deviation), ("aaabcc", 0));
    }

    #[test]
    fn the_nearest_sizes_are_taken_when_none_are_exact() {
        let found = assign(&[4, 4, 4], &sizes(6, 3, 3));
        assert_eq!((found.sizes, found.deviation), (sizes(4, 4, 4), 4));
        let one = assign(&[9], &sizes(6, 2, 1));
        assert_eq!((letters(&one).as_str(), one.deviation), ("a", 6));
        assert_eq!(assign(&[], &sizes(1, 2, 3)).deviation, 6);
    }

    #[test]
    fn shares_go_to_the_largest_remainder() {
        assert_eq!(sizes(490, 105, 105).scaled_to(267), Ok(sizes(187, 40, 40)));
        assert_eq!(sizes(1, 1, 1).scaled_to(5), Ok(sizes(2, 2, 1)));
        assert_eq!(sizes(490, 105, 105).scaled_to(700), Ok(sizes(490, 105, 105)));
        assert_eq!(sizes(u64::MAX, u64::MAX, 0).scaled_to(3), Ok(sizes(2, 1, 0)));
        assert_eq!(sizes(0, 0, 0).scaled_to(1), Err(ResolveError::NoSplits));
    }

    /// All assignments in order.
    fn every_assignment(repositories: usize) -> Vec<Vec<Split>> {
        let all = [Split::Train, Split::Validation, Split::Test];
        let codes = 0..3usize.pow(u32::try_from(repositories).unwrap());
        let digits = |code: usize| {
            (0..repositories).rev().map(move |place| code / 3usize.pow(u32::try_from(place).unwrap()) % 3)
        };
        codes.map(|code| digits(code).map(|digit| all[digit]).collect()).collect()
    }

    fn sizes_of(repositories: &[u64], splits: &[Split]) -> SplitSizes {
        let sum = |split| repositories.iter().zip(splits).filter(|(_, s)| **s == split).map(|(n, _)| n).sum();
        sizes(sum(Split::Train), sum(Split::Validation), sum(Split::Test))
    }

    /// The best assignment by trying all of them in order.
    fn slowly(repositories: &[u64], wanted: &SplitSizes) -> (Vec<Split>, u64) {
        let deviations = every_assignment(repositories.len())
            .into_iter()
            .map(|splits| (sizes_of(repositories, &splits).deviation(wanted), splits));
        // Of equal ones the first is kept.
        let best = deviations.min_by_key(|(deviation, _)| *deviation);
        best.map(|(deviation, splits)| (splits, deviation)).unwrap_or_default()
    }

    proptest! {
        #[test]
        fn the_assignment_is_the_first_of_all_best(
            repositories in prop::collection::vec(1..9u64, 0..8),
            train in 0..20u64,
            validation in 0..12u64,
            test in 0..12u64,
        ) {
            let wanted = sizes(train, validation, test);
            let found = assign(&repositories, &wanted);
            prop_assert_eq!((found.splits, found.deviation), slowly(&repositories, &wanted));
        }

        #[test]
        fn the_deviation_of_a_choice_is_that_of_the_best_assignment_with_it(
            repositories in prop::collection::vec(1..9u64, 1..6),
            at in 0..6usize,
            wanted in (0..20u64, 0..12u64, 0..12u64),
        ) {
            let at = at % repositories.len();
            let wanted = sizes(wanted.0, wanted.1, wanted.2);
            for split in [Split::Train, Split::Validation, Split::Test] {
                let best = every_assignment(repositories.len())
                    .into_iter()
                    .filter(|splits| splits[at] == split)
                    .map(|splits| sizes_of(&repositories, &splits).deviation(&wanted))
                    .min();
                prop_assert_eq!(Some(deviation_with(&repositories, at, split, &wanted)), best);
            }
        }

        #[test]
        fn sizes_that_fit_the_set_are_met_as_well_as_any(
            repositories in prop::collection::vec(1..200u64, 1..7),
            parts in (1..9u64, 0..9u64, 0..9u64),
        ) {
            let total = repositories.iter().sum();
            let wanted = sizes(parts.0, parts.1, parts.2).scaled_to(total).unwrap();
            prop_assert_eq!(wanted.total(), total);
            let found = assign(&repositories, &wanted);
            prop_assert_eq!((found.splits, found.deviation), slowly(&repositories, &wanted));
        }
    }
}
