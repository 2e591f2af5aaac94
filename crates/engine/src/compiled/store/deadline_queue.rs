//! Clocks that start with instances and all have the same period: the next that is due is the one that has waited
//! longest.

use serde::{Deserialize, Serialize};

use crate::compiled::store::huge_vec::{HugeVec, PrefaultedRegion, ZeroInit};

/// When an instance is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C)]
pub(crate) struct Deadline {
    pub(crate) at: u64,
    pub(crate) generation: u64,
    pub(crate) slot: u32,
}

// SAFETY: three numbers.
unsafe impl ZeroInit for Deadline {}

/// A ring of our own, because machine code adds to it.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Deadline>", into = "Vec<Deadline>")]
pub(crate) struct DeadlineQueue {
    /// A power of two, or none at all.
    places: HugeVec<Deadline>,
    header: QueueHeader,
}

/// Which place is the first, modulo their number, and how many are taken.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct QueueHeader {
    pub(crate) first: usize,
    pub(crate) count: usize,
    /// When the first is due; never, if there is none.
    pub(crate) next: u64,
    /// How many belong to instances that have ended, at most, ...
    pub(crate) stale: usize,
    /// ... and how many of them have done so lately.
    pub(crate) recently_stale: usize,
}

impl Default for QueueHeader {
    fn default() -> QueueHeader {
        QueueHeader { first: 0, count: 0, next: u64::MAX, stale: 0, recently_stale: 0 }
    }
}

/// So many may have ended before somebody looks.
pub(crate) const FEW: usize = 64;

impl DeadlineQueue {
    /// For machine code, until it grows: where its places are in memory, the number of the last, and where its hands
    /// are.
    pub(crate) fn layout(&mut self) -> [usize; 3] {
        let places = self.places.as_mut_ptr().expose_provenance();
        [places, self.last(), (&raw mut self.header).expose_provenance()]
    }

    #[inline(always)]
    fn last(&self) -> usize {
        self.places.len().wrapping_sub(1)
    }

    /// Whether it has moved in memory.
    #[inline]
    pub(crate) fn add(&mut self, due: Deadline) -> bool {
        let is_full = self.header.count == self.places.len();
        if is_full {
            self.grow();
        }
        let place = (self.header.first + self.header.count) & self.last();
        self.places[place] = due;
        self.header.count += 1;
        self.header.next = self.header.next.min(due.at);
        is_full
    }

    /// Another one may be the first.
    #[inline]
    fn find_next(&mut self) {
        self.header.next = self.first().map_or(u64::MAX, |due| due.at);
    }

    /// When the first is due; never, if there is none.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.header.next
    }

    #[cold]
    fn grow(&mut self) {
        const FEW: usize = 16;
        const SMALL: usize = 1 << 10;
        self.places.rotate_left(self.header.first);
        self.header.first = 0;
        let factor = if self.places.len() < SMALL { 4 } else { 2 };
        self.places.grow((factor * self.places.len()).max(FEW));
    }

    /// Lets the first of many have memory that has been touched, for so many of them.
    pub(crate) fn move_into(&mut self, region: &mut PrefaultedRegion, count: usize) {
        self.places.move_into(region.extent(count * size_of::<Deadline>()));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.header.count == 0
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<&Deadline> {
        if self.is_empty() { None } else { Some(&self.places[self.header.first & self.last()]) }
    }

    /// The one that is due so many after the first.
    #[inline]
    pub(crate) fn nth(&self, after: usize) -> Option<&Deadline> {
        (after < self.header.count).then(|| &self.places[(self.header.first + after) & self.last()])
    }

    /// What is due at a time.
    #[inline]
    pub(crate) fn take(&mut self, at: u64) -> Option<Deadline> {
        let due = *self.first().filter(|due| due.at <= at)?;
        self.header.first = (self.header.first + 1) & self.last();
        self.header.count -= 1;
        self.find_next();
        Some(due)
    }

    /// When the first instance that is still there is due.
    #[inline]
    pub(crate) fn next_live(&mut self, is_live: impl Fn(&Deadline) -> bool) -> Option<u64> {
        loop {
            let due = self.first()?;
            if is_live(due) {
                return Some(due.at);
            }
            self.take(due.at);
        }
    }

    /// Lists the instances that are due at a time; they are due again a period later.
    #[inline]
    pub(crate) fn expire(
        &mut self,
        time: u64,
        period: u64,
        is_live: impl Fn(&Deadline) -> bool,
        expired: &mut Vec<u32>,
    ) {
        let QueueHeader { first, count, .. } = self.header;
        let (mut at, mut end, last) = (first, first + count, self.last());
        while at < first + count {
            let due = self.places[at & last];
            if due.at > time {
                break;
            }
            at += 1;
            if is_live(&due) {
                // There is room: a place has just been left.
                self.places[end & last] = Deadline { at: due.at.saturating_add(period), ..due };
                end += 1;
                expired.push(due.slot);
            }
        }
        (self.header.first, self.header.count) = (at & last, end - at);
        self.find_next();
    }

    /// So many instances have ended. Forgets those that have, once they are many: most often they were due a short time
    /// before and have come to the end of the line.
    pub(crate) fn end(&mut self, ended: usize, is_live: impl Fn(&Deadline) -> bool) {
        const NEAR: usize = 2;
        if self.is_empty() {
            return;
        }
        self.header.stale += ended;
        self.header.recently_stale += ended;
        if self.header.recently_stale <= FEW {
            return;
        }
        let near = (NEAR * self.header.recently_stale).min(self.header.count);
        self.forget(near, &is_live);
        self.header.recently_stale = 0;
        self.forget_if_many(&is_live);
    }

    /// The same where each is due once: most often those that have ended were, and are gone, or come next.
    pub(crate) fn end_for_good(&mut self, ended: usize, is_live: impl Fn(&Deadline) -> bool) {
        self.header.stale += ended;
        self.header.recently_stale = 0;
        self.forget_if_many(&is_live);
    }

    /// Forgets all that have ended, if they are every second one.
    fn forget_if_many(&mut self, is_live: &impl Fn(&Deadline) -> bool) {
        if self.header.stale > FEW && self.header.stale > self.header.count / 2 {
            self.forget(self.header.count, is_live);
            self.header.stale = 0;
        }
    }

    /// Forgets those that have ended among so many at the end of the line.
    fn forget(&mut self, near: usize, is_live: &impl Fn(&Deadline) -> bool) {
        let (first, last) = (self.header.first, self.last());
        let far = self.header.count - near;
        let mut kept = far;
        for at in far..self.header.count {
            let due = self.places[(first + at) & last];
            if is_live(&due) {
                self.places[(first + kept) & last] = due;
                kept += 1;
            }
        }
        self.header.stale = self.header.stale.saturating_sub(self.header.count - kept);
        self.header.count = kept;
        self.find_next();
    }
}

impl From<Vec<Deadline>> for DeadlineQueue {
    fn from(all: Vec<Deadline>) -> DeadlineQueue {
        let mut clock = DeadlineQueue::default();
        for due in all {
            clock.add(due);
        }
        clock
    }
}

impl From<DeadlineQueue> for Vec<Deadline> {
    fn from(clock: DeadlineQueue) -> Vec<Deadline> {
        (0..clock.header.count).filter_map(|after| clock.nth(after).copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Change {
        Add,
        /// Until the next is due.
        Wait,
        End(u64),
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            4 => Just(Change::Add),
            2 => Just(Change::Wait),
            3 => any::<u64>().prop_map(Change::End),
        ]
    }

    proptest! {
        #[test]
        fn first_come_first_served(changes in prop::collection::vec(change(), 0..600)) {
            const PERIOD: u64 = 1000;
            let (mut clock, mut known) = (DeadlineQueue::default(), VecDeque::<Deadline>::new());
            let mut now = 0;
            for (generation, change) in (1..).zip(changes) {
                // What is due does not wait.
                now = known.front().map_or(now + 1, |due: &Deadline| due.at.min(now + 1));
                let is_live = |known: &VecDeque<Deadline>, due: &Deadline| known.contains(due);
                match change {
                    Change::Add => {
                        let due = Deadline { at: now + PERIOD, generation, slot: generation as u32 % 7 };
                        clock.add(due);
                        known.push_back(due);
                    }
                    Change::Wait => {
                        let next = clock.next_live(|due| is_live(&known, due));
                        prop_assert_eq!(next, known.front().map(|due| due.at));
                        now = next.unwrap_or(now).max(now);
                        let mut expired = Vec::new();
                        clock.expire(now, PERIOD, |due| is_live(&known, due), &mut expired);
                        let mut expected = Vec::new();
                        while let Some(due) = known.front().copied().filter(|due| due.at <= now) {
                            known.pop_front();
                            known.push_back(Deadline { at: due.at + PERIOD, ..due });
                            expected.push(due.slot);
                        }
                        prop_assert_eq!(expired, expected);
                    }
                    Change::End(which) if !known.is_empty() => {
                        known.remove(which as usize % known.len());
                        clock.end(1, |due| is_live(&known, due));
                    }
                    Change::End(_) => {}
                }
                prop_assert_eq!(clock.next(), clock.first().map_or(u64::MAX, |due| due.at));
            }
            let saved: Vec<Deadline> = clock.clone().into();
            let live: Vec<Deadline> = saved.into_iter().filter(|due| known.contains(due)).collect();
            prop_assert_eq!(live, Vec::from(known));
        }
    }
}
