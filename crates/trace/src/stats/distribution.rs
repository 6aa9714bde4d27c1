//! How numbers are spread.

use serde::Serialize;

/// How numbers are spread. Percentiles are values that occur: the smallest one that is not below the share.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Distribution {
    /// How many there are.
    pub count: u64,
    /// The smallest.
    pub min: f64,
    /// Half are not above it.
    pub p50: f64,
    /// Nine tenths are not above it.
    pub p90: f64,
    /// 99 of 100 are not above it.
    pub p99: f64,
    /// The largest.
    pub max: f64,
    /// Their mean.
    pub mean: f64,
    /// Their sum.
    pub sum: f64,
    /// All of them, in order.
    #[serde(skip)]
    pub sorted: Vec<f64>,
}

impl Distribution {
    /// `None` without a number.
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = numbers.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (first, last) = (*sorted.first()?, *sorted.last()?);
        let sum: f64 = sorted.iter().sum();
        let at = |share: f64| sorted[((sorted.len() as f64 * share).ceil() as usize).max(1) - 1];
        Some(Self {
            count: sorted.len() as u64,
            min: first,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: last,
            mean: sum / sorted.len() as f64,
            sum,
            sorted,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_occur() {
        let spread = Distribution::of((1..=10).map(f64::from)).unwrap();
        assert_eq!((spread.p50, spread.p90, spread.p99, spread.max), (5.0, 9.0, 10.0, 10.0));
        assert_eq!(Distribution::of([3.0]).map(|spread| spread.p99), Some(3.0));
        assert_eq!(Distribution::of([]), None);
    }
}
