//! Windows: aggregations over the values of a stream in a span of time up to now, or over its last few values.

use super::fold::{Fold, FoldOp};
use super::plan::Dependent;

/// A window of the specification.
#[derive(Clone, Debug)]
pub(crate) struct WindowPlan {
    pub(crate) fold: Fold,
    pub(crate) kind: WindowKind,
    /// Whether it has no result until it has been full once.
    pub(crate) waits: bool,
    /// Whether it may be read after the instance it is over has closed.
    pub(crate) outlasts: bool,
    /// The stream that is aggregated, if it has instances.
    pub(crate) target: Option<usize>,
    /// The stream that reads it, which errors name.
    pub(crate) reader: usize,
    /// The expression that reads it, for errors.
    pub(crate) text: String,
    /// What becomes dirty when it gets a value.
    pub(crate) dependents: Vec<Dependent>,
    /// The one-word representation, where one word is enough.
    pub(crate) last_decisive: Option<LastDecisive>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WindowKind {
    /// `count` buckets of `size` nanoseconds each, counted from the start of the monitor.
    Buckets { size: u64, count: u64 },
    /// The same, counted from the spawn of the reading instance. All readers share one log of values.
    Log { size: u64, count: u64 },
    /// The last `count` values.
    Values { count: usize },
}

/// A window over booleans whose result follows from the last value that decides it: `true` for `exists`, `false` for
/// `forall`. Stored as one word in the slot of the aggregated instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastDecisive {
    /// The word of the slot: the bucket of the last decisive value, plus one; 0 if there was none.
    pub(crate) at: usize,
    /// The value that decides.
    pub(crate) decides: bool,
    /// Nanoseconds of a bucket.
    pub(crate) size: u64,
    /// Buckets in the window.
    pub(crate) count: u64,
}

impl WindowPlan {
    /// Whether another window keeps the same values and computes the same result, so that both can share one store.
    pub(crate) fn can_share_store(&self, other: &WindowPlan) -> bool {
        (self.target, self.kind, self.waits) == (other.target, other.kind, other.waits)
            && self.fold == other.fold
    }

    /// Nanoseconds that it reaches back; 0 where it counts values.
    pub(crate) fn duration(&self) -> u64 {
        match self.kind {
            WindowKind::Buckets { size, count } | WindowKind::Log { size, count } => {
                size.saturating_mul(count)
            }
            WindowKind::Values { .. } => 0,
        }
    }
}

impl LastDecisive {
    /// The one-word representation of a window, with its word at `at` of a slot; `None` where one word is not enough.
    pub(crate) fn of(plan: &WindowPlan, at: usize) -> Option<LastDecisive> {
        let decides = match plan.fold.operation {
            FoldOp::Any => true,
            FoldOp::All => false,
            _ => return None,
        };
        match (plan.kind, plan.target) {
            (WindowKind::Buckets { size, count }, Some(_)) if !plan.waits => {
                Some(LastDecisive { at, decides, size, count })
            }
            _ => None,
        }
    }
}
