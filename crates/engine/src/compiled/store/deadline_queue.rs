//! Deadlines of instances that share one period.

use super::huge_vec::{HugeVec, PrefaultedRegion, ZeroInit};

/// When an instance is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Deadline {
    pub(crate) at: u64,
    pub(crate) generation: u64,
    pub(crate) slot: u32,
}

// SAFETY: three integers, for which all zeros are a value. They own nothing.
unsafe impl ZeroInit for Deadline {}

/// FIFO queue of per-instance deadlines. All share one period, so they expire in insertion order and no heap is needed.
/// A ring buffer of our own, because machine code pushes to it.
///
/// Deadlines of instances that have ended are stale. They are skipped when they come up, and removed once there are many.
#[derive(Clone, Default)]
pub(crate) struct DeadlineQueue {
    /// A power of two, or empty.
    ring: HugeVec<Deadline>,
    header: QueueHeader,
    /// How often the ring has moved in memory.
    moves: u64,
}

/// What machine code reads and changes.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct QueueHeader {
    /// The position of the first deadline, modulo the size of the ring.
    pub(crate) first: usize,
    pub(crate) count: usize,
    /// When the first deadline is due; `u64::MAX` if there is none.
    pub(crate) next: u64,
    /// An upper bound on the stale deadlines.
    pub(crate) stale: usize,
    /// How many of them have become stale since the tail was last examined.
    pub(crate) recently_stale: usize,
}

impl Default for QueueHeader {
    fn default() -> QueueHeader {
        QueueHeader { first: 0, count: 0, next: u64::MAX, stale: 0, recently_stale: 0 }
    }
}

/// How many deadlines may become stale before any are removed.
pub(crate) const STALE_LIMIT: usize = 64;

impl DeadlineQueue {
    /// For machine code, until the next [move](Self::moves): the address of the ring, its last position, and the address
    /// of the header.
    pub(crate) fn vm_layout(&mut self) -> [usize; 3] {
        let ring = self.ring.as_mut_ptr().expose_provenance();
        [ring, self.last(), (&raw mut self.header).expose_provenance()]
    }

    /// How often the ring has moved in memory.
    pub(crate) fn moves(&self) -> u64 {
        self.moves
    }

    #[inline(always)]
    fn last(&self) -> usize {
        self.ring.len().wrapping_sub(1)
    }

    /// Appends a deadline, which must not be before the last one.
    #[inline]
    pub(crate) fn push(&mut self, deadline: Deadline) {
        if self.header.count == self.ring.len() {
            self.grow();
        }
        let position = (self.header.first + self.header.count) & self.last();
        self.ring[position] = deadline;
        self.header.count += 1;
        self.header.next = self.header.next.min(deadline.at);
    }

    #[inline]
    fn update_next(&mut self) {
        self.header.next = self.first().map_or(u64::MAX, |deadline| deadline.at);
    }

    /// When the first deadline is due, stale or not; `u64::MAX` if there is none.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.header.next
    }

    #[cold]
    fn grow(&mut self) {
        const SMALLEST: usize = 16;
        const SMALL: usize = 1 << 10;
        self.ring.rotate_left(self.header.first);
        self.header.first = 0;
        let factor = if self.ring.len() < SMALL { 4 } else { 2 };
        self.ring.grow((factor * self.ring.len()).max(SMALLEST));
        self.moves += 1;
    }

    /// Moves into a prefaulted region, with room for `count` deadlines.
    pub(crate) fn move_into(&mut self, region: &mut PrefaultedRegion, count: usize) {
        self.ring.move_into(region.take(count * size_of::<Deadline>()));
        self.moves += 1;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.header.count == 0
    }

    #[inline]
    fn first(&self) -> Option<&Deadline> {
        if self.is_empty() { None } else { Some(&self.ring[self.header.first & self.last()]) }
    }

    /// The deadline `at` positions after the first.
    #[inline]
    pub(crate) fn nth(&self, at: usize) -> Option<&Deadline> {
        (at < self.header.count).then(|| &self.ring[(self.header.first + at) & self.last()])
    }

    /// Takes out the first deadline if it is due at a time.
    #[inline]
    pub(crate) fn pop_due(&mut self, at: u64) -> Option<Deadline> {
        let deadline = *self.first().filter(|deadline| deadline.at <= at)?;
        self.header.first = (self.header.first + 1) & self.last();
        self.header.count -= 1;
        self.update_next();
        Some(deadline)
    }

    /// When the first live instance is due. Removes the stale deadlines before it.
    #[inline]
    pub(crate) fn next_live(&mut self, is_live: impl Fn(&Deadline) -> bool) -> Option<u64> {
        loop {
            let deadline = self.first()?;
            if is_live(deadline) {
                return Some(deadline.at);
            }
            self.pop_due(deadline.at);
        }
    }

    /// Lists the live instances that are due at a time, and arms them again a period later.
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
            let deadline = self.ring[at & last];
            if deadline.at > time {
                break;
            }
            at += 1;
            if is_live(&deadline) {
                // There is room: a position has just been left.
                self.ring[end & last] = Deadline { at: deadline.at.saturating_add(period), ..deadline };
                end += 1;
                expired.push(deadline.slot);
            }
        }
        (self.header.first, self.header.count) = (at & last, end - at);
        self.update_next();
    }

    /// Some instances have ended. Once many have, removes stale deadlines: from the tail first, as most were due a short
    /// time ago and have just been armed again.
    pub(crate) fn retire(&mut self, ended: usize, is_live: impl Fn(&Deadline) -> bool) {
        const TAIL: usize = 2;
        if self.is_empty() {
            return;
        }
        self.header.stale += ended;
        self.header.recently_stale += ended;
        if self.header.recently_stale <= STALE_LIMIT {
            return;
        }
        let tail = (TAIL * self.header.recently_stale).min(self.header.count);
        self.remove_stale(tail, &is_live);
        self.header.recently_stale = 0;
        self.compact(&is_live);
    }

    /// The same where each instance is due once: most that end have been due, and are gone already.
    pub(crate) fn retire_once(&mut self, ended: usize, is_live: impl Fn(&Deadline) -> bool) {
        self.header.stale += ended;
        self.header.recently_stale = 0;
        self.compact(&is_live);
    }

    /// Removes all stale deadlines, if every second one may be.
    fn compact(&mut self, is_live: &impl Fn(&Deadline) -> bool) {
        if self.header.stale > STALE_LIMIT && self.header.stale > self.header.count / 2 {
            self.remove_stale(self.header.count, is_live);
            self.header.stale = 0;
        }
    }

    /// Removes the stale ones among the last `tail` deadlines.
    fn remove_stale(&mut self, tail: usize, is_live: &impl Fn(&Deadline) -> bool) {
        let (first, last) = (self.header.first, self.last());
        let head = self.header.count - tail;
        let mut kept = head;
        for at in head..self.header.count {
            let deadline = self.ring[(first + at) & last];
            if is_live(&deadline) {
                self.ring[(first + kept) & last] = deadline;
                kept += 1;
            }
        }
        self.header.stale = self.header.stale.saturating_sub(self.header.count - kept);
        self.header.count = kept;
        self.update_next();
    }

    /// A copy of all deadlines, stale ones included, in their order.
    pub(crate) fn copy(&self) -> HugeVec<Deadline> {
        let QueueHeader { first, count, .. } = self.header;
        let mut copy = HugeVec::zeros(count);
        let until_end = count.min(self.ring.len() - first);
        let (early, late) = copy.split_at_mut(until_end);
        early.copy_from_slice(&self.ring[first..first + until_end]);
        late.copy_from_slice(&self.ring[..count - until_end]);
        copy
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
            let (mut queue, mut known) = (DeadlineQueue::default(), VecDeque::<Deadline>::new());
            let mut now = 0;
            for (generation, change) in (1..).zip(changes) {
                // The next deadline is not passed over.
                now = known.front().map_or(now + 1, |due: &Deadline| due.at.min(now + 1));
                let is_live = |known: &VecDeque<Deadline>, due: &Deadline| known.contains(due);
                match change {
                    Change::Add => {
                        let due = Deadline { at: now + PERIOD, generation, slot: generation as u32 % 7 };
                        queue.push(due);
                        known.push_back(due);
                    }
                    Change::Wait => {
                        let next = queue.next_live(|due| is_live(&known, due));
                        prop_assert_eq!(next, known.front().map(|due| due.at));
                        now = next.unwrap_or(now).max(now);
                        let mut expired = Vec::new();
                        queue.expire(now, PERIOD, |due| is_live(&known, due), &mut expired);
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
                        queue.retire(1, |due| is_live(&known, due));
                    }
                    Change::End(_) => {}
                }
                let due: Vec<u64> = (0..).map_while(|at| queue.nth(at)).map(|due| due.at).collect();
                prop_assert!(due.is_sorted());
                prop_assert_eq!(queue.next(), queue.first().map_or(u64::MAX, |due| due.at));
            }
            let saved = (0..).map_while(|at| queue.nth(at).copied());
            let live: Vec<Deadline> = saved.filter(|due| known.contains(due)).collect();
            prop_assert_eq!(live, Vec::from(known));
        }
    }
}
