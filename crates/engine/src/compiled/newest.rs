//! Windows of which one word is enough. Whether something is so for one value, or for all, is told by the newest value
//! that decides it: the window keeps when that came, in the slot of the instance that it is over.

use super::fold::Operation;
use super::scalar::Scalar;
use super::windows::{Kind, WindowPlan, bucket};

/// What is kept of such a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Newest {
    /// Where in a slot the bucket of the newest value that decides is, plus one; 0 if there was none.
    pub(super) at: usize,
    /// That value.
    pub(super) decides: bool,
    /// How long a bucket is, and how many there are.
    pub(super) size: u64,
    pub(super) count: u64,
}

impl Newest {
    /// If one word is enough for a window over instances: it is at that place of a slot.
    pub(super) fn of(plan: &WindowPlan, at: usize) -> Option<Newest> {
        let decides = match plan.fold.operation {
            Operation::Any => true,
            Operation::All => false,
            _ => return None,
        };
        match (plan.kind, plan.target) {
            (Kind::Buckets { size, count }, Some(_)) if !plan.waits => {
                Some(Newest { at, decides, size, count })
            }
            _ => None,
        }
    }

    /// There is another value in a slot.
    #[inline]
    pub(super) fn accept(&self, words: &mut [u64], value: u64, now: u64) {
        if value == u64::from(self.decides) {
            words[self.at] = bucket(now, self.size) + 1;
        }
    }

    /// What the window over a slot says.
    pub(super) fn says(&self, words: &[u64], now: u64) -> Scalar {
        let word = words[self.at];
        let is_inside = word != 0 && (word - 1).saturating_add(self.count) > bucket(now, self.size);
        Scalar::Bool(is_inside == self.decides)
    }
}
