//! Partial aggregates of windows in named parts, which are fields of a struct in tables and of an object in JSON.

use crate::compiled::ir::fold::{Fold, FoldOp};
use crate::compiled::ir::layout::Leaf;
use crate::compiled::ir::scalar::Scalar;
use crate::compiled::store::aggregate::fold::Partial;

/// A part of a partial aggregate.
pub(super) struct PartialPart {
    pub(super) name: &'static str,
    pub(super) leaf: Leaf,
    /// Whether it is a list of values instead of one.
    pub(super) is_list: bool,
}

/// The parts that the partial aggregates of a fold have.
pub(super) fn parts(fold: &Fold) -> Vec<PartialPart> {
    let one = |name, leaf| PartialPart { name, leaf, is_list: false };
    let leaf = fold.target.first().map_or(Leaf::UInt, |(_, leaf)| *leaf);
    match fold.operation {
        FoldOp::Count => vec![one("count", Leaf::UInt)],
        FoldOp::Covariance => vec![
            one("count", Leaf::UInt),
            one("mean_x", Leaf::Float),
            one("mean_y", Leaf::Float),
            one("moment", Leaf::Float),
        ],
        FoldOp::Average => vec![one("sum", leaf), one("count", Leaf::UInt)],
        FoldOp::Variance | FoldOp::Deviation => {
            let centre = if leaf == Leaf::Float { "mean" } else { "sum" };
            vec![one("count", Leaf::UInt), one(centre, leaf), one("moment", leaf)]
        }
        FoldOp::Integral => vec![
            one("area", Leaf::Float),
            one("first_time", Leaf::UInt),
            one("first", Leaf::Float),
            one("last_time", Leaf::UInt),
            one("last", Leaf::Float),
        ],
        FoldOp::WindowPercentile(_) | FoldOp::InstancePercentile(_) => {
            vec![PartialPart { name: "values", leaf, is_list: true }]
        }
        FoldOp::Min | FoldOp::Max | FoldOp::Sum | FoldOp::All | FoldOp::Any | FoldOp::Last => {
            vec![one("value", leaf)]
        }
    }
}

/// The values of the parts, in their order; only a list has more than one.
pub(super) fn take_apart(partial: &Partial) -> Vec<Vec<Scalar>> {
    let each = |parts: &[Scalar]| parts.iter().map(|part| vec![*part]).collect();
    let (count, float) = (Scalar::UInt, Scalar::Float);
    match partial {
        Partial::Count(number) => each(&[count(*number)]),
        Partial::One(value) => each(&[*value]),
        Partial::Mean { sum, count: number } => each(&[*sum, count(*number)]),
        Partial::Spread { count: number, sum, moment } => each(&[count(*number), *sum, *moment]),
        Partial::Pairs { count: number, means, moment } => {
            each(&[count(*number), float(means[0]), float(means[1]), float(*moment)])
        }
        Partial::Area { area, first, last } => {
            each(&[float(*area), count(first.0), float(first.1), count(last.0), float(last.1)])
        }
        Partial::Values(values) => vec![values.clone()],
    }
}

/// The partial aggregate of a fold with these parts, whose types are right.
///
/// # Errors
/// There is none.
pub(super) fn put_together(fold: &Fold, parts: &[Vec<Scalar>]) -> Result<Partial, &'static str> {
    /// More values than a window can have received.
    const MOST: u64 = 1 << 48;
    if matches!(fold.operation, FoldOp::WindowPercentile(_) | FoldOp::InstancePercentile(_)) {
        return match parts {
            [values] if !values.is_empty() => Ok(Partial::Values(values.clone())),
            _ => Err("a window has no values where it has some"),
        };
    }
    let parts: Vec<Scalar> = parts.iter().filter_map(|part| part.first().copied()).collect();
    let counted = |partial: Partial, count: u64| match count {
        0 | MOST.. => Err("a window counts as many values as none can have"),
        _ => Ok(partial),
    };
    match (fold.operation, parts.as_slice()) {
        (FoldOp::Count, [Scalar::UInt(count)]) => counted(Partial::Count(*count), *count),
        (FoldOp::Average, [sum, Scalar::UInt(count)]) => {
            counted(Partial::Mean { sum: *sum, count: *count }, *count)
        }
        (FoldOp::Variance | FoldOp::Deviation, [Scalar::UInt(count), sum, moment]) => {
            counted(Partial::Spread { count: *count, sum: *sum, moment: *moment }, *count)
        }
        (
            FoldOp::Covariance,
            [Scalar::UInt(count), Scalar::Float(x), Scalar::Float(y), Scalar::Float(moment)],
        ) => counted(Partial::Pairs { count: *count, means: [*x, *y], moment: *moment }, *count),
        (
            FoldOp::Integral,
            [
                Scalar::Float(area),
                Scalar::UInt(from),
                Scalar::Float(first),
                Scalar::UInt(to),
                Scalar::Float(last),
            ],
        ) => Ok(Partial::Area { area: *area, first: (*from, *first), last: (*to, *last) }),
        (FoldOp::Min | FoldOp::Max | FoldOp::Sum | FoldOp::All | FoldOp::Any | FoldOp::Last, [value]) => {
            Ok(Partial::One(*value))
        }
        _ => Err("a window lacks a part of its aggregate"),
    }
}
