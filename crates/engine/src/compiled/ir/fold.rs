//! Aggregations that are computed by folding values: windows, and scans over instances.

use rtlola_frontend::mir::{Type, WindowOperation};

use super::layout::{Leaf, inner, placed};

/// An aggregation that is computed by folding values of a type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fold {
    pub(crate) operation: FoldOp,
    /// The leaves of an aggregated value with the offset of their words.
    pub(crate) target: Vec<(usize, Leaf)>,
    /// The type of the result, without an option around it.
    pub(crate) result: Leaf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoldOp {
    Count,
    Min,
    Max,
    Sum,
    Average,
    Integral,
    All,
    Any,
    Last,
    Variance,
    Covariance,
    /// The standard deviation.
    Deviation,
    /// A percentile of the values in a window: one of the values, or the mean of the two that the percentile separates.
    WindowPercentile(u8),
    /// A percentile over instances, interpolated linearly between the two nearest values.
    InstancePercentile(u8),
}

impl Fold {
    /// The fold of an operation on values of the type `target`.
    ///
    /// # Errors
    /// The aggregation is not defined for the type.
    pub(crate) fn new(
        operation: WindowOperation,
        over_instances: bool,
        target: &Type,
        result: &Type,
    ) -> Result<Fold, String> {
        let operation_of = match operation {
            WindowOperation::Count => FoldOp::Count,
            WindowOperation::Min => FoldOp::Min,
            WindowOperation::Max => FoldOp::Max,
            WindowOperation::Sum => FoldOp::Sum,
            WindowOperation::Product => return Err("`product`".to_owned()),
            WindowOperation::Average => FoldOp::Average,
            WindowOperation::Integral => FoldOp::Integral,
            WindowOperation::Conjunction => FoldOp::All,
            WindowOperation::Disjunction => FoldOp::Any,
            WindowOperation::Last => FoldOp::Last,
            WindowOperation::Variance => FoldOp::Variance,
            WindowOperation::Covariance => FoldOp::Covariance,
            WindowOperation::StandardDeviation => FoldOp::Deviation,
            WindowOperation::NthPercentile(n) if over_instances => FoldOp::InstancePercentile(n),
            WindowOperation::NthPercentile(n) => FoldOp::WindowPercentile(n),
        };
        let leaves = placed(target);
        let result = match placed(inner(result)).as_slice() {
            [(_, leaf)] => *leaf,
            _ => return Err(format!("`{operation}` of values of type {target}")),
        };
        let fits = match operation_of {
            FoldOp::Count => true,
            FoldOp::Covariance => leaves.len() == 2,
            FoldOp::All | FoldOp::Any => matches!(leaves.as_slice(), [(_, Leaf::Bool)]),
            FoldOp::Min | FoldOp::Max | FoldOp::Last => leaves.len() == 1,
            _ => matches!(leaves.as_slice(), [(_, leaf)] if is_number(*leaf)),
        };
        if !fits {
            return Err(format!("`{operation}` of values of type {target}"));
        }
        Ok(Fold { operation: operation_of, target: leaves, result })
    }
}

fn is_number(leaf: Leaf) -> bool {
    matches!(leaf, Leaf::UInt | Leaf::Int | Leaf::Float | Leaf::Decimal)
}
