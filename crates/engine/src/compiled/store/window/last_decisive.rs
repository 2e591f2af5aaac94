//! Windows over booleans that are stored as one word: see [`LastDecisive`].

use crate::compiled::ir::scalar::Scalar;
use crate::compiled::ir::window::LastDecisive;
use crate::compiled::store::window::bucketed::bucket;

impl LastDecisive {
    /// Adds a value to the window in the words of a slot.
    #[inline]
    pub(crate) fn accept(&self, words: &mut [u64], value: u64, now: u64) {
        if value == u64::from(self.decides) {
            words[self.at] = bucket(now, self.size) + 1;
        }
    }

    /// The result of the window in the words of a slot.
    pub(crate) fn result(&self, words: &[u64], now: u64) -> Scalar {
        let word = words[self.at];
        let is_inside = word != 0 && (word - 1).saturating_add(self.count) > bucket(now, self.size);
        Scalar::Bool(is_inside == self.decides)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::compiled::ir::fold::FoldOp;
    use crate::compiled::ir::layout::Leaf;
    use crate::compiled::ir::window::WindowKind;
    use crate::compiled::store::interner::Interner;
    use crate::compiled::store::window::bucketed::tests::plan;
    use crate::compiled::store::window::bucketed::{Stamp, WindowStore};

    proptest! {
        /// One word gives the results of the buckets, while the instance exists and after it has closed.
        #[test]
        fn one_word_is_as_good_as_the_buckets(
            any in any::<bool>(),
            size in 1..8_u64,
            count in 1..5_u64,
            values in proptest::collection::vec((0..12_u64, proptest::option::of(any::<bool>())), 0..40),
            later in proptest::collection::vec(0..12_u64, 0..8),
        ) {
            let operation = if any { FoldOp::Any } else { FoldOp::All };
            let plan = plan(operation, Leaf::Bool, WindowKind::Buckets { size, count }, false);
            let one_word = LastDecisive::of(&plan, 1).unwrap();
            let (mut buckets, mut left_behind) = (WindowStore::default(), WindowStore::default());
            let (interner, key, start) = (Interner::default(), [7], Stamp { time: 0, instant: 0 });
            let read = |store: &WindowStore, slot: Option<u32>, now: u64| {
                store.read(&plan, slot, &key, start, now, &interner).unwrap()
            };
            let mut words = [u64::MAX, 0, u64::MAX];
            let mut now = 0;
            for (gap, value) in values {
                now += gap;
                if let Some(value) = value {
                    let stamp = Stamp { time: now, instant: 0 };
                    buckets.accept(&plan, 0, &[value.into()], stamp, &interner).unwrap();
                    one_word.accept(&mut words, value.into(), now);
                }
                prop_assert_eq!(Some(one_word.result(&words, now)), read(&buckets, Some(0), now));
            }
            prop_assert_eq!([words[0], words[2]], [u64::MAX; 2]);
            buckets.close(&plan, 0, &key, now);
            left_behind.close_last_decisive(&plan, &one_word, words[1], &key, now);
            for gap in later {
                now += gap;
                prop_assert_eq!(read(&left_behind, None, now), read(&buckets, None, now));
            }
        }
    }
}
