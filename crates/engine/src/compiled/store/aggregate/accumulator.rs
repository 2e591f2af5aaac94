//! What a group of a tally keeps of its values beside words: exact sums, and trees of winners.

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use crate::compiled::ir::layout::Leaf;
use crate::compiled::ir::scalar::{as_words, decimal};
use crate::compiled::store::aggregate::exact_sum::ExactSum;
use crate::compiled::store::aggregate::extremum_tree::{ExtremumTree, RankOrder};
use crate::compiled::store::aggregate::group::Aggregate;

#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum Accumulator {
    /// Words say it all.
    Nothing,
    Float(Box<ExactSum>),
    /// The sum, and whether it has become too large on the way.
    Decimal(#[serde(with = "as_words")] Decimal, bool),
    ExtremumTree(ExtremumTree),
    /// Sums of x and x².
    Spread(Box<[ExactSum; 2]>),
    /// Sums of x, y and xy.
    Pairs(Box<[ExactSum; 3]>),
}

impl Accumulator {
    pub(crate) fn new(aggregate: Aggregate) -> Accumulator {
        match aggregate {
            Aggregate::Min(leaf) => {
                Accumulator::ExtremumTree(ExtremumTree::new(RankOrder { largest: false, leaf }))
            }
            Aggregate::Max(leaf) => {
                Accumulator::ExtremumTree(ExtremumTree::new(RankOrder { largest: true, leaf }))
            }
            Aggregate::Sum(Leaf::Float) | Aggregate::Average(Leaf::Float) => {
                Accumulator::Float(Box::default())
            }
            Aggregate::Sum(Leaf::Decimal) | Aggregate::Average(Leaf::Decimal) => {
                Accumulator::Decimal(Decimal::ZERO, false)
            }
            Aggregate::Variance | Aggregate::Deviation => Accumulator::Spread(Box::default()),
            Aggregate::Covariance => Accumulator::Pairs(Box::default()),
            Aggregate::Count
            | Aggregate::All
            | Aggregate::Any
            | Aggregate::Sum(_)
            | Aggregate::Average(_) => Accumulator::Nothing,
        }
    }

    /// Takes a new value for the old one.
    pub(crate) fn change(&mut self, old: Option<&[u64]>, new: Option<&[u64]>) {
        let float = |words: &[u64], index: usize| f64::from_bits(words[index]);
        match self {
            Accumulator::Nothing | Accumulator::ExtremumTree(_) => {}
            Accumulator::Float(sum) => {
                old.into_iter().for_each(|words| sum.remove(float(words, 0)));
                new.into_iter().for_each(|words| sum.add(float(words, 0)));
            }
            Accumulator::Decimal(sum, is_lost) => {
                let kept = old.map_or(Some(*sum), |words| sum.checked_sub(decimal(words)));
                let total =
                    kept.and_then(|kept| new.map_or(Some(kept), |words| kept.checked_add(decimal(words))));
                // Said when it is read: whoever does not read it need not fail.
                *is_lost |= total.is_none();
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

    /// The mean of (x - mean of x)·(y - mean of y).
    pub(crate) fn moment(&self, count: f64) -> Option<f64> {
        match self {
            Accumulator::Spread(sums) => Some(moment(count, &sums[0], &sums[0], &sums[1]).max(0.0)),
            Accumulator::Pairs(sums) => Some(moment(count, &sums[0], &sums[1], &sums[2])),
            _ => None,
        }
    }
}

/// The mean of (x - mean of x)·(y - mean of y), from exact sums: n·Σxy - Σx·Σy over n², with twice
/// the digits of a float, so that what cancels does not take the result with it.
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

/// A product as the sum of two floats, without error.
fn product(a: f64, b: f64) -> [f64; 2] {
    let high = a * b;
    let low = a.mul_add(b, -high);
    [high, if low.is_finite() { low } else { 0.0 }]
}
