//! Accumulators that do not fit the words of a group: exact sums, decimal sums, and extremum trees.

use rust_decimal::Decimal;

use crate::compiled::ir::aggregate::{Aggregate, RankOrder};
use crate::compiled::ir::layout::Leaf;
use crate::compiled::ir::scalar::decimal;
use crate::compiled::store::aggregate::exact_sum::ExactSum;
use crate::compiled::store::aggregate::extremum_tree::ExtremumTree;

/// The state of one aggregate of a group, outside the words of the group.
#[derive(Clone)]
pub(crate) enum Accumulator {
    /// No state: the words of the group are enough.
    InWords,
    /// The sum of floats.
    Float(Box<ExactSum>),
    /// The sum of decimals.
    Decimal {
        sum: Decimal,
        /// Whether the sum has overflowed at some time, which is reported when it is read.
        has_overflowed: bool,
    },
    /// The ranks of more members than fit the words of the group.
    Extremum(ExtremumTree),
    /// For the variance: the sums of x and of x².
    Spread(Box<[ExactSum; 2]>),
    /// For the covariance: the sums of x, of y and of xy.
    Pairs(Box<[ExactSum; 3]>),
}

impl Accumulator {
    pub(crate) fn new(aggregate: Aggregate) -> Accumulator {
        match aggregate {
            Aggregate::Min(leaf) => {
                Accumulator::Extremum(ExtremumTree::new(RankOrder { largest: false, leaf }))
            }
            Aggregate::Max(leaf) => {
                Accumulator::Extremum(ExtremumTree::new(RankOrder { largest: true, leaf }))
            }
            Aggregate::Sum(Leaf::Float) | Aggregate::Average(Leaf::Float) => {
                Accumulator::Float(Box::default())
            }
            Aggregate::Sum(Leaf::Decimal) | Aggregate::Average(Leaf::Decimal) => {
                Accumulator::Decimal { sum: Decimal::ZERO, has_overflowed: false }
            }
            Aggregate::Variance | Aggregate::Deviation => Accumulator::Spread(Box::default()),
            Aggregate::Covariance => Accumulator::Pairs(Box::default()),
            Aggregate::Count
            | Aggregate::All
            | Aggregate::Any
            | Aggregate::Sum(_)
            | Aggregate::Average(_) => Accumulator::InWords,
        }
    }

    /// Replaces an old value by a new one; `None` where there was or is none. Extremum trees are set by position instead.
    pub(crate) fn change(&mut self, old: Option<&[u64]>, new: Option<&[u64]>) {
        let float = |words: &[u64], index: usize| f64::from_bits(words[index]);
        match self {
            Accumulator::InWords | Accumulator::Extremum(_) => {}
            Accumulator::Float(sum) => {
                old.into_iter().for_each(|words| sum.remove(float(words, 0)));
                new.into_iter().for_each(|words| sum.add(float(words, 0)));
            }
            Accumulator::Decimal { sum, has_overflowed } => {
                let kept = old.map_or(Some(*sum), |words| sum.checked_sub(decimal(words)));
                let total =
                    kept.and_then(|kept| new.map_or(Some(kept), |words| kept.checked_add(decimal(words))));
                *has_overflowed |= total.is_none();
                *sum = total.unwrap_or(*sum);
            }
            Accumulator::Spread(sums) => {
                let mut each = |words: &[u64], change: fn(&mut ExactSum, f64)| {
                    let x = float(words, 0);
                    change(&mut sums[0], x);
                    product(x, x).into_iter().for_each(|part| change(&mut sums[1], part));
                };
                old.into_iter().for_each(|words| each(words, ExactSum::remove));
                new.into_iter().for_each(|words| each(words, ExactSum::add));
            }
            Accumulator::Pairs(sums) => {
                let mut each = |words: &[u64], change: fn(&mut ExactSum, f64)| {
                    let (x, y) = (float(words, 0), float(words, 1));
                    change(&mut sums[0], x);
                    change(&mut sums[1], y);
                    product(x, y).into_iter().for_each(|part| change(&mut sums[2], part));
                };
                old.into_iter().for_each(|words| each(words, ExactSum::remove));
                new.into_iter().for_each(|words| each(words, ExactSum::add));
            }
        }
    }

    /// The mean of (x - mean of x)·(y - mean of y) over `count` values: the variance, or the covariance.
    pub(crate) fn moment(&self, count: f64) -> Option<f64> {
        match self {
            Accumulator::Spread(sums) => Some(moment(count, &sums[0], &sums[0], &sums[1]).max(0.0)),
            Accumulator::Pairs(sums) => Some(moment(count, &sums[0], &sums[1], &sums[2])),
            _ => None,
        }
    }
}

/// The mean of (x - mean of x)·(y - mean of y), from exact sums: n·Σxy - Σx·Σy over n², in double-double arithmetic, so
/// that cancellation does not destroy the result.
fn moment(count: f64, x: &ExactSum, y: &ExactSum, xy: &ExactSum) -> f64 {
    let product = |a: (f64, f64), b: (f64, f64)| {
        let high = a.0 * b.0;
        let low = a.0.mul_add(b.0, -high) + (a.0 * b.1 + a.1 * b.0);
        (high, low)
    };
    let first = product((count, 0.0), xy.pair());
    let second = product(x.pair(), y.pair());
    ((first.0 - second.0) + (first.1 - second.1)) / (count * count)
}

/// A product as the sum of two floats, without rounding error, by a fused multiply-add.
fn product(a: f64, b: f64) -> [f64; 2] {
    let high = a * b;
    let low = a.mul_add(b, -high);
    [high, if low.is_finite() { low } else { 0.0 }]
}
