//! Windows over booleans that one word represents: see [`LastDecisive`].

use crate::compiled::ir::scalar::Scalar;
use crate::compiled::ir::window::LastDecisive;
use crate::compiled::store::window::bucketed::bucket;

impl LastDecisive {
    /// There is another value in a slot.
    #[inline]
    pub(crate) fn accept(&self, words: &mut [u64], value: u64, now: u64) {
        if value == u64::from(self.decides) {
            words[self.at] = bucket(now, self.size) + 1;
        }
    }

    /// What the window over a slot says.
    pub(crate) fn result(&self, words: &[u64], now: u64) -> Scalar {
        let word = words[self.at];
        let is_inside = word != 0 && (word - 1).saturating_add(self.count) > bucket(now, self.size);
        Scalar::Bool(is_inside == self.decides)
    }
}
