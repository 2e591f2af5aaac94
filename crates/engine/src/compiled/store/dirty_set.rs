//! Dirty sets: the instances that must be evaluated again.

use super::slab::InstanceSlab;

/// Slots to be looked at, or all of them. Each listed slot also has a flag set in its state word, so that it is listed
/// once; a slot that was freed and reused since may be listed twice.
///
/// Machine code reads the first three fields as one word: 0 if the set is empty, the number of listed slots unless all
/// are dirty.
#[derive(Clone, Default)]
#[repr(C, align(8))]
pub(crate) struct DirtySet {
    /// How many slots are listed.
    pub(crate) count: u32,
    /// Whether all instances are dirty; none is listed then.
    pub(crate) all: bool,
    /// Always 0.
    padding: [u8; 3],
    /// The first listed slots.
    pub(crate) inline: [u32; INLINE_SLOTS],
    /// The listed slots after those.
    overflow: Vec<u32>,
}

/// How many slots are listed without a separate allocation.
pub(crate) const INLINE_SLOTS: usize = 32;

impl DirtySet {
    /// Everything is dirty.
    pub(crate) fn everything() -> DirtySet {
        DirtySet { all: true, ..DirtySet::default() }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        !self.all && self.count == 0
    }

    #[inline(always)]
    pub(crate) fn mark_all(&mut self) {
        self.all = true;
    }

    /// Whether all instances were dirty; they no longer are.
    #[inline]
    pub(crate) fn take_all(&mut self) -> bool {
        std::mem::take(&mut self.all)
    }

    /// Lists a slot whose flag was just set. `slots` is how many there are.
    #[inline]
    pub(crate) fn push(&mut self, slot: u32, slots: u32) {
        if self.all {
            return;
        }
        // Reused slots are listed again: the list would grow without bound.
        if self.count > slots {
            self.overflow.clear();
            self.count = 0;
            self.all = true;
            return;
        }
        match self.inline.get_mut(self.count as usize) {
            Some(place) => *place = slot,
            None => self.overflow.push(slot),
        }
        self.count += 1;
    }

    /// Takes out the only listed slot, if there is exactly one; its flag stays set.
    #[inline]
    pub(crate) fn take_single(&mut self) -> Option<u32> {
        let is_single = self.count == 1 && !self.all;
        is_single.then(|| {
            self.count = 0;
            self.inline[0]
        })
    }

    /// Takes out the live dirty slots and clears their flags in the state word `at`. All flags are cleared before the
    /// caller evaluates the first slot, so that an evaluation can mark slots for the next time.
    pub(crate) fn take(&mut self, instances: &mut InstanceSlab, at: usize, flag: u64, slots: &mut Vec<u32>) {
        slots.clear();
        if let Some(slot) = self.take_single() {
            let is_dirty = instances.is_live(slot) && instances.clear_flag(slot, at, flag);
            slots.extend(is_dirty.then_some(slot));
            return;
        }
        self.list(instances, at, flag, slots);
        slots.retain(|slot| instances.is_live(*slot) && instances.clear_flag(*slot, at, flag));
    }

    /// Takes out all listed slots; those that are live and dirty have their flag set.
    pub(crate) fn list(&mut self, instances: &mut InstanceSlab, at: usize, flag: u64, slots: &mut Vec<u32>) {
        slots.clear();
        std::mem::swap(slots, &mut self.overflow);
        let inline = (std::mem::take(&mut self.count) as usize).min(INLINE_SLOTS);
        if std::mem::take(&mut self.all) {
            slots.clear();
            slots.extend(instances.live_slots());
            slots.iter().for_each(|slot| {
                instances.set_flag(*slot, at, flag);
            });
        } else {
            slots.extend_from_slice(&self.inline[..inline]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::compiled::store::slab::flag;

    const STATE: usize = 2;

    #[derive(Clone, Debug)]
    enum Change {
        Mark(u32),
        MarkAll,
        /// Closes an instance and spawns another, in the same slot.
        Replace(u32),
        Take,
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            6 => (0..60_u32).prop_map(Change::Mark),
            1 => Just(Change::MarkAll),
            2 => (0..60_u32).prop_map(Change::Replace),
            2 => Just(Change::Take),
        ]
    }

    proptest! {
        /// What is taken is what was marked since, each once, however often it was marked and whatever was reused.
        #[test]
        fn what_is_taken_is_what_was_marked(changes in prop::collection::vec(change(), 0..400)) {
            let mut instances = InstanceSlab::new(1, 4, &[]);
            let mut keys: Vec<u64> = (0..60).collect();
            for key in &keys {
                instances.spawn(&[*key]).unwrap();
            }
            let (mut set, mut expected, mut next) = (DirtySet::default(), BTreeSet::new(), 60);
            for change in changes {
                match change {
                    Change::Mark(slot) => {
                        if instances.set_flag(slot, STATE, flag::DIRTY) {
                            set.push(slot, instances.slots());
                        }
                        expected.insert(slot);
                    }
                    Change::MarkAll => {
                        set.mark_all();
                        expected.extend(0..60);
                    }
                    Change::Replace(slot) => {
                        instances.close(slot);
                        keys[slot as usize] = next;
                        prop_assert_eq!(instances.spawn(&[next]), Some(slot));
                        next += 1;
                        if !set.all {
                            expected.remove(&slot);
                        }
                    }
                    Change::Take => {
                        let mut taken = Vec::new();
                        set.take(&mut instances, STATE, flag::DIRTY, &mut taken);
                        taken.sort_unstable();
                        prop_assert_eq!(taken, expected.iter().copied().collect::<Vec<_>>());
                        expected.clear();
                        prop_assert!(set.is_empty());
                    }
                }
                prop_assert!(set.count <= instances.slots() + 1);
            }
        }
    }
}
