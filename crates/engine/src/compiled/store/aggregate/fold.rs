//! Aggregations as folds: a value becomes a partial aggregate, partials are joined in order of time, and the last one
//! gives the result. Windows and scans over instances compute this way.

use crate::compiled::ir::fault::Fault;
use crate::compiled::ir::fold::{Fold, FoldOp};
use crate::compiled::ir::layout::Leaf;
use crate::compiled::ir::scalar::{Scalar, number};
use crate::compiled::store::interner::Interner;

impl Fold {
    /// A leaf of a value.
    fn scalar(&self, words: &[u64], index: usize) -> Scalar {
        let (offset, leaf) = self.target[index];
        Scalar::read(&words[offset..], leaf)
    }

    /// The partial aggregate of one value; `time` is in nanoseconds, and only an integral uses it.
    pub(crate) fn partial_of(&self, words: &[u64], time: u64) -> Partial {
        match self.operation {
            FoldOp::Count => Partial::Count(1),
            FoldOp::Covariance => Partial::Pairs {
                count: 1,
                means: [self.scalar(words, 0).to_f64(), self.scalar(words, 1).to_f64()],
                moment: 0.0,
            },
            FoldOp::Average => Partial::Mean { sum: self.scalar(words, 0), count: 1 },
            FoldOp::Variance | FoldOp::Deviation => {
                let sum = self.scalar(words, 0);
                Partial::Spread { count: 1, sum, moment: sum.whole(0) }
            }
            FoldOp::Integral => {
                let value = self.scalar(words, 0).to_f64();
                Partial::Area { area: 0.0, first: (time, value), last: (time, value) }
            }
            FoldOp::WindowPercentile(_) | FoldOp::InstancePercentile(_) => {
                Partial::Values(vec![self.scalar(words, 0)])
            }
            _ => Partial::One(self.scalar(words, 0)),
        }
    }

    /// The partial aggregate of the values of `partial` and of those of `later`, which come after them.
    pub(crate) fn join(
        &self,
        partial: Partial,
        later: Partial,
        interner: &Interner,
    ) -> Result<Partial, Fault> {
        Ok(match (partial, later) {
            (Partial::Count(a), Partial::Count(b)) => Partial::Count(a + b),
            (Partial::One(a), Partial::One(b)) => Partial::One(self.join_scalars(a, b, interner)?),
            (Partial::Mean { sum: a, count: n }, Partial::Mean { sum: b, count: m }) => {
                Partial::Mean { sum: a.add(b)?, count: n + m }
            }
            (Partial::Values(mut a), Partial::Values(b)) => {
                a.extend(b);
                Partial::Values(a)
            }
            (
                Partial::Spread { count: n, sum: Scalar::Float(a), moment: Scalar::Float(p) },
                Partial::Spread { count: m, sum: Scalar::Float(b), moment: Scalar::Float(q) },
            ) => {
                let (mean, moment) = spread([n, m], [a, b], [a, b]);
                Partial::Spread { count: n + m, sum: number(mean)?, moment: number(p + q + moment)? }
            }
            (
                Partial::Spread { count: n, sum: a, moment: p },
                Partial::Spread { count: m, sum: b, moment: q },
            ) => {
                let (first, second) = (whole(a, n), whole(a, m));
                let apart = b.div(second)?.sub(a.div(first)?)?;
                let weight = first.mul(second)?.div(whole(a, n + m))?;
                let moment = p.add(q)?.add(apart.mul(apart)?.mul(weight)?)?;
                Partial::Spread { count: n + m, sum: a.add(b)?, moment }
            }
            (
                Partial::Pairs { count: n, means: a, moment: p },
                Partial::Pairs { count: m, means: b, moment: q },
            ) => {
                let (first, moment) = spread([n, m], [a[0], b[0]], [a[1], b[1]]);
                let (second, _) = spread([n, m], [a[1], b[1]], [a[0], b[0]]);
                Partial::Pairs { count: n + m, means: [first, second], moment: p + q + moment }
            }
            (
                Partial::Area { area: a, first, last: (from, left) },
                Partial::Area { area: b, first: (to, right), last },
            ) => {
                let seconds = to.saturating_sub(from) as f64 / 1e9;
                Partial::Area { area: a + b + (left + right) / 2.0 * seconds, first, last }
            }
            _ => return Err(Fault::Internal),
        })
    }

    fn join_scalars(&self, a: Scalar, b: Scalar, interner: &Interner) -> Result<Scalar, Fault> {
        let order = || match (a, b) {
            (Scalar::Text(a), Scalar::Text(b)) => interner.bytes(a).cmp(interner.bytes(b)),
            _ => a.order(b),
        };
        match (self.operation, a, b) {
            (FoldOp::Sum, ..) => a.add(b),
            (FoldOp::Min, ..) => Ok(if order().is_gt() { b } else { a }),
            (FoldOp::Max, ..) => Ok(if order().is_gt() { a } else { b }),
            (FoldOp::All, Scalar::Bool(a), Scalar::Bool(b)) => Ok(Scalar::Bool(a && b)),
            (FoldOp::Any, Scalar::Bool(a), Scalar::Bool(b)) => Ok(Scalar::Bool(a || b)),
            _ => Ok(b),
        }
    }

    /// The result of a partial aggregate of all values; `None` stands for no values.
    pub(crate) fn result(&self, whole: Option<Partial>) -> Result<Option<Scalar>, Fault> {
        let Some(whole) = whole else { return Ok(self.empty()) };
        Ok(Some(match whole {
            Partial::Count(count) => Scalar::UInt(count),
            Partial::One(value) => self.in_result(value)?,
            Partial::Mean { sum, count } => sum.div(self::whole(sum, count))?,
            Partial::Spread { count, sum, moment } => {
                let variance = moment.div(self::whole(sum, count))?;
                let deviation = self.operation == FoldOp::Deviation;
                if deviation { variance.sqrt()? } else { variance }
            }
            Partial::Pairs { count, moment, .. } => self.fractional(moment / count as f64)?,
            Partial::Area { area, .. } => self.fractional(area)?,
            Partial::Values(values) => self.percentile(values)?,
        }))
    }

    /// The result of no values; `None` where it is undefined.
    pub(crate) fn empty(&self) -> Option<Scalar> {
        match self.operation {
            FoldOp::Count => Some(Scalar::UInt(0)),
            FoldOp::Sum | FoldOp::Variance | FoldOp::Deviation | FoldOp::Integral => {
                Some(Scalar::zero(self.result))
            }
            FoldOp::All => Some(Scalar::Bool(true)),
            FoldOp::Any => Some(Scalar::Bool(false)),
            _ => None,
        }
    }

    /// Converts a value to the type of the result.
    fn in_result(&self, value: Scalar) -> Result<Scalar, Fault> {
        match (value, self.result) {
            (Scalar::UInt(value), Leaf::Int) => {
                i64::try_from(value).map(Scalar::Int).map_err(|_| Fault::TooLargeForInt)
            }
            (value, Leaf::Float) => number(value.to_f64()),
            (value, _) => Ok(value),
        }
    }

    /// Converts a float to the type of the result.
    fn fractional(&self, value: f64) -> Result<Scalar, Fault> {
        match self.result {
            Leaf::Decimal => {
                let value = rust_decimal::Decimal::try_from(value);
                value.map(Scalar::Decimal).map_err(|_| Fault::DecimalOverflow)
            }
            _ => number(value),
        }
    }

    fn percentile(&self, mut values: Vec<Scalar>) -> Result<Scalar, Fault> {
        values.sort_unstable_by(|a, b| a.order(*b));
        let last = values.len() - 1;
        match self.operation {
            FoldOp::InstancePercentile(percent) => {
                let hundredfold = last * usize::from(percent);
                let (low, rest) = (hundredfold / 100, hundredfold % 100);
                if rest == 0 {
                    return Ok(values[low]);
                }
                let step = values[(low + 1).min(last)].sub(values[low])?;
                let hundred = step.whole(100);
                let part = step.whole(u32::try_from(rest).unwrap_or_default()).div(hundred)?;
                values[low].add(part.mul(step)?)
            }
            FoldOp::WindowPercentile(percent) => {
                let hundredfold = values.len() * usize::from(percent);
                // The smallest value with this share of all values at or below it; where the share is met exactly, the
                // mean of this value and the next.
                let index = hundredfold.div_ceil(100).max(1) - 1;
                if !hundredfold.is_multiple_of(100) || index == last || hundredfold == 0 {
                    return Ok(values[index]);
                }
                let sum = values[index].add(values[index + 1])?;
                sum.div(sum.whole(2))
            }
            _ => Ok(values[last]),
        }
    }
}

/// Joins the moments of two sets of n and m pairs (x, y), given the two means of x and the two means of y (Chan's
/// formula). Gives the mean of x over both sets, and what the distance between the means adds to the sum of
/// (x - mean of x)·(y - mean of y).
fn spread([n, m]: [u64; 2], x: [f64; 2], y: [f64; 2]) -> (f64, f64) {
    let (first, second) = (n as f64, m as f64);
    let share = second / (first + second);
    let apart = [x[1] - x[0], y[1] - y[0]];
    (x[0] + apart[0] * share, apart[0] * apart[1] * first * share)
}

/// A partial aggregate: what a fold stores of the values so far.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Partial {
    Count(u64),
    /// One value of the type of the aggregated ones: their sum, their extremum, their conjunction, their disjunction, or
    /// the latest of them.
    One(Scalar),
    Mean {
        sum: Scalar,
        count: u64,
    },
    /// For the variance. `moment` is the sum of squared distances from the mean. Of floats, `sum` holds the mean instead of
    /// the sum, so that the variance of equal values is exactly 0.
    Spread {
        count: u64,
        sum: Scalar,
        moment: Scalar,
    },
    /// For the covariance. `moment` is the sum of (x - mean of x)·(y - mean of y).
    Pairs {
        count: u64,
        means: [f64; 2],
        moment: f64,
    },
    /// For the integral, by the trapezoidal rule: the area in units of value times seconds, and the first and the last
    /// value, each with its time in nanoseconds.
    Area {
        area: f64,
        first: (u64, f64),
        last: (u64, f64),
    },
    /// All values, for percentiles.
    Values(Vec<Scalar>),
}

impl Partial {
    /// The number of the interned string that it refers to.
    pub(crate) fn text(&self) -> Option<u64> {
        if let Partial::One(Scalar::Text(text)) = self { Some(*text) } else { None }
    }
}

/// A count in the type of a value.
fn whole(like: Scalar, count: u64) -> Scalar {
    match like {
        Scalar::Float(_) => Scalar::Float(count as f64),
        Scalar::Int(_) => Scalar::Int(i64::try_from(count).unwrap_or(i64::MAX)),
        Scalar::Decimal(_) => Scalar::Decimal(count.into()),
        _ => Scalar::UInt(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The variance of values that are aggregated in two partials, cut at an index.
    fn variance_of(values: &[f64], cut: usize) -> f64 {
        let operation = FoldOp::Variance;
        let fold = Fold { operation, target: vec![(0, Leaf::Float)], result: Leaf::Float };
        let join = |values: &[f64]| {
            let partials = values.iter().map(|value| fold.partial_of(&[value.to_bits()], 0));
            partials.reduce(|all, partial| fold.join(all, partial, &Interner::default()).unwrap()).unwrap()
        };
        let (early, late) = values.split_at(cut);
        let whole = fold.join(join(early), join(late), &Interner::default()).unwrap();
        fold.result(Some(whole)).unwrap().unwrap().to_f64()
    }

    #[test]
    fn equal_values_have_variance_zero() {
        for value in [0.1, 1.0 / 6.0, -7e15, 1e-200] {
            assert_eq!(variance_of(&[value; 13], 5), 0.0, "{value}");
        }
    }

    #[test]
    fn variance_does_not_depend_on_where_values_are_cut() {
        let values: Vec<f64> = (0..50).map(|at: i32| 1e6 + f64::from(at * at % 17)).collect();
        let mean = values.iter().sum::<f64>() / 50.0;
        let expected = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 50.0;
        for cut in 1..50 {
            let variance = variance_of(&values, cut);
            assert!((variance - expected).abs() < 1e-9 * expected, "{cut}: {variance}, not {expected}");
        }
    }
}
