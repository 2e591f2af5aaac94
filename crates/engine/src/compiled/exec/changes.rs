//! What has happened at the current instant, until it is emitted and forgotten.

use crate::compiled::ir::op::FrameSlot;
use crate::compiled::ir::plan::Plan;

/// The changes of one instant.
pub(crate) struct ChangeLog {
    /// Streams with values to emit, possibly more than once. The slots are in the stream's state.
    valued: Vec<usize>,
    /// Families with spawned or closing instances, possibly more than once.
    moved: Vec<usize>,
    /// For each family the slots that were spawned, where that is emitted.
    spawned: Vec<Vec<u32>>,
    /// For each family the slots that close at the end of the instant.
    closing: Vec<Vec<u32>>,
    /// Freshness flags of the frame that are set.
    fresh: Vec<FrameSlot>,
    /// For each instance timer the slots whose deadline has expired.
    expired: Vec<Vec<u32>>,
    /// The earliest deadline that was armed since the scheduler last asked.
    next_deadline: u64,
}

impl ChangeLog {
    pub(super) fn new(plan: &Plan) -> ChangeLog {
        ChangeLog {
            valued: Vec::new(),
            moved: Vec::new(),
            spawned: vec![Vec::new(); plan.families.len()],
            closing: vec![Vec::new(); plan.families.len()],
            fresh: Vec::new(),
            expired: vec![Vec::new(); plan.instance_timers.len()],
            next_deadline: u64::MAX,
        }
    }

    /// Forgets an instant that was not finished.
    pub(super) fn clear(&mut self) {
        self.valued.clear();
        self.moved.clear();
        self.fresh.clear();
        for list in self.spawned.iter_mut().chain(&mut self.closing).chain(&mut self.expired) {
            list.clear();
        }
        self.next_deadline = u64::MAX;
    }

    /// Whether there is nothing to emit and nothing to undo.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        // One comparison instead of three.
        self.valued.len() | self.moved.len() | self.fresh.len() == 0
    }

    /// Whether there is nothing to emit.
    pub(super) fn is_silent(&self) -> bool {
        self.valued.is_empty() && self.moved.is_empty()
    }

    /// A stream has values to emit.
    #[inline]
    pub(super) fn add_valued(&mut self, stream: usize) {
        self.valued.push(stream);
    }

    pub(super) fn valued(&mut self) -> &mut Vec<usize> {
        &mut self.valued
    }

    pub(super) fn pop_valued(&mut self) -> Option<usize> {
        self.valued.pop()
    }

    /// An instance was spawned, which is emitted.
    pub(super) fn add_spawned(&mut self, family: usize, slot: u32) {
        self.spawned[family].push(slot);
        self.moved.push(family);
    }

    /// An instance closes at the end of this instant.
    pub(super) fn add_closing(&mut self, family: usize, slot: u32) {
        if self.closing[family].is_empty() {
            self.moved.push(family);
        }
        self.closing[family].push(slot);
    }

    pub(super) fn has_moved(&self) -> bool {
        !self.moved.is_empty()
    }

    /// The families with spawned or closing instances, each once and in order.
    pub(super) fn sort_moved(&mut self) -> &[usize] {
        self.moved.sort_unstable();
        self.moved.dedup();
        &self.moved
    }

    pub(super) fn take_moved(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.moved)
    }

    pub(super) fn spawned(&mut self, family: usize) -> &mut Vec<u32> {
        &mut self.spawned[family]
    }

    pub(super) fn closing(&mut self, family: usize) -> &mut Vec<u32> {
        &mut self.closing[family]
    }

    /// The spawned and the closing slots of a family.
    pub(super) fn moved_slots(&self, family: usize) -> (&[u32], &[u32]) {
        (&self.spawned[family], &self.closing[family])
    }

    /// A freshness flag of the frame was set.
    #[inline]
    pub(super) fn add_fresh(&mut self, flag: FrameSlot) {
        self.fresh.push(flag);
    }

    pub(super) fn pop_fresh(&mut self) -> Option<FrameSlot> {
        self.fresh.pop()
    }

    pub(crate) fn expired(&self) -> &[Vec<u32>] {
        &self.expired
    }

    pub(super) fn expired_mut(&mut self) -> &mut [Vec<u32>] {
        &mut self.expired
    }

    /// A deadline was armed.
    #[inline]
    pub(super) fn add_deadline(&mut self, at: u64) {
        self.next_deadline = self.next_deadline.min(at);
    }

    /// The earliest deadline that was armed since the last call.
    #[inline]
    pub(super) fn take_next_deadline(&mut self) -> u64 {
        std::mem::replace(&mut self.next_deadline, u64::MAX)
    }
}
