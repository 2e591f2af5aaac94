//! WindowStore of which one word is enough. Whether something is so for one value, or for all, is told by the newest value
//! that decides it: the window keeps when that came, in the slot of the instance that it is over.

use crate::compiled::ir::scalar::Scalar;
use crate::compiled::store::aggregate::fold::FoldOp;
use crate::compiled::store::window::bucketed::{WindowKind, WindowPlan, bucket};

/// What is kept of such a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastDecisive {
    /// Where in a slot the bucket of the newest value that decides is, plus one; 0 if there was none.
    pub(crate) at: usize,
    /// That value.
    pub(crate) decides: bool,
    /// How long a bucket is, and how many there are.
    pub(crate) size: u64,
    pub(crate) count: u64,
}

impl LastDecisive {
    /// If one word is enough for a window over instances: it is at that place of a slot.
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

    /// There is another value in a slot.
    #[inline]
    pub(crate) fn accept(&self, words: &mut [u64], value: u64, now: u64) {
        if value == u64::from(self.decides) {
            words[self.at] = bucket(now, self.size) + 1;
        }
    }

    /// What the window over a slot says.
    pub(crate) fn says(&self, words: &[u64], now: u64) -> Scalar {
        let word = words[self.at];
        let is_inside = word != 0 && (word - 1).saturating_add(self.count) > bucket(now, self.size);
        Scalar::Bool(is_inside == self.decides)
    }
}
