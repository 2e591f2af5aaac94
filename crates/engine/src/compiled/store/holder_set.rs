//! The instances that hold a value, in the order of spawn.

use std::collections::BTreeSet;

/// Instances by generation and slot.
#[derive(Clone, Default)]
pub(crate) struct HolderSet {
    /// How many there are; machine code reads it.
    pub(crate) count: usize,
    all: BTreeSet<(u64, u32)>,
}

impl HolderSet {
    pub(crate) fn insert(&mut self, holder: (u64, u32)) {
        self.all.insert(holder);
        self.count = self.all.len();
    }

    pub(crate) fn remove(&mut self, holder: (u64, u32)) {
        self.all.remove(&holder);
        self.count = self.all.len();
    }

    pub(crate) fn clear(&mut self) {
        *self = HolderSet::default();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The slots, in the order of spawn.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> {
        self.all.iter().map(|(_, slot)| *slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_in_the_order_of_spawn() {
        let mut holders = HolderSet::default();
        for holder in [(7, 0), (3, 2), (5, 1), (3, 2)] {
            holders.insert(holder);
        }
        assert_eq!((holders.slots().collect::<Vec<_>>(), holders.count), (vec![2, 1, 0], 3));
        holders.remove((5, 1));
        holders.remove((5, 1));
        assert_eq!((holders.slots().collect::<Vec<_>>(), holders.count), (vec![2, 0], 2));
        holders.clear();
        assert!(holders.is_empty());
    }
}
