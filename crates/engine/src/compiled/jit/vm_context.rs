//! What machine code shares with the runtime, and where it finds things.

use std::mem::offset_of;

use crate::compiled::exec::error::EvalError;
use crate::compiled::exec::executor::Executor;
use crate::compiled::ir::plan::Plan;
use crate::compiled::store::aggregate::group::GroupedAggregate;
use crate::compiled::store::deadline_queue::DeadlineQueue;
use crate::compiled::store::dirty_set::INLINE_SLOTS;
use crate::compiled::store::hash_index::HashIndex;
use crate::compiled::store::state::{FamilyState, Store, StreamState};

/// The argument of every handler. Addresses of data structures follow it in memory, at the offsets of [`VmOffsets`].
#[repr(C)]
pub(super) struct VmContext {
    pub(super) executor: *mut Executor,
    /// The buffer that this context is in.
    pub(super) buffer: *mut VmContextBuffer,
    /// Where a runtime call leaves its error.
    pub(super) failure: *mut Option<Box<EvalError>>,
    pub(super) store: *mut Store,
    pub(super) frame: *mut u64,
    pub(super) streams: *mut StreamState,
    pub(super) families: *mut FamilyState,
    /// The scheduler's time before which nothing is due.
    pub(super) idle_until: *mut u64,
    /// The next tick of each clock.
    pub(super) ticks: *mut u64,
    /// The row of the batch.
    pub(super) row: usize,
    /// The slots that a runtime call has listed.
    pub(super) listed: *mut u32,
    /// The words of the group that a runtime call has found.
    pub(super) group: *mut u64,
    /// For the deadline loop: up to when deadlines and ticks are run.
    pub(super) until: u64,
    /// For the deadline loop: how many of them at most.
    pub(super) budget: u64,
    /// Not 0 once a runtime call has panicked. Checked after every call.
    pub(super) has_panicked: u64,
}

/// Offsets from the context, in bytes, of the addresses that follow it. Both the emitters and [`VmContextBuffer`] have
/// them from here.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct VmOffsets {
    inputs: usize,
    slabs: usize,
    indexes: usize,
    groups: usize,
    expired: usize,
    queues: usize,
    lists: usize,
    end: usize,
}

/// Sizes of the parts, in bytes.
const INPUT: usize = size_of::<usize>();
const SLAB: usize = size_of::<[usize; 3]>();
const INDEX: usize = size_of::<[usize; 4]>();
const GROUPED: usize = size_of::<[usize; 3]>();
const EXPIRED: usize = size_of::<[usize; 2]>();
const QUEUE: usize = size_of::<[usize; 3]>();
const LIST: usize = size_of::<[u32; INLINE_SLOTS]>();

/// Within the part of a slab, as [`InstanceSlab::vm_layout`](crate::compiled::store::slab::InstanceSlab::vm_layout) has
/// it: the first slot, the lookup cache, the header.
pub(super) const SLOTS: usize = 0;
pub(super) const SLOT_CACHE: usize = 8;
pub(super) const HEADER: usize = 16;

/// Within the part of an index, as [`HashIndex::vm_layout`] has it: entries, shift, last bucket, occupancy.
pub(super) const ENTRIES: usize = 0;
pub(super) const SHIFT: usize = 8;
pub(super) const LAST_BUCKET: usize = 16;
pub(super) const OCCUPANCY: usize = 24;

/// Within the part of a grouped aggregate, as [`GroupedAggregate::vm_layout`] has it: the first group, the lookup cache,
/// the positions of members.
pub(super) const GROUPS: usize = 0;
pub(super) const GROUP_CACHE: usize = 8;
pub(super) const POSITIONS: usize = 16;

/// Within the part of a deadline queue, as [`DeadlineQueue::vm_layout`] has it: the ring, its last position, the header.
pub(super) const RING: usize = 0;
pub(super) const LAST_POSITION: usize = 8;
pub(super) const QUEUE_HEADER: usize = 16;

impl VmOffsets {
    pub(super) fn new(plan: &Plan) -> VmOffsets {
        let index_count: usize = plan.families.iter().map(|family| family.indexes.len() + 1).sum();
        let thresholds: usize = plan.streams.iter().map(|stream| stream.eval.thresholds.len()).sum();
        let inputs = size_of::<VmContext>();
        let slabs = inputs + INPUT * plan.inputs.len();
        let indexes = slabs + SLAB * plan.families.len();
        let groups = indexes + INDEX * index_count;
        let expired = groups + GROUPED * plan.grouped.len();
        let queues = expired + EXPIRED * plan.instance_timers.len();
        let lists = queues + QUEUE * (plan.instance_timers.len() + thresholds);
        let end = lists + LIST * plan.families.len();
        VmOffsets { inputs, slabs, indexes, groups, expired, queues, lists, end }
    }

    /// The words of an input.
    pub(super) fn input(&self, input: usize) -> usize {
        self.inputs + INPUT * input
    }

    pub(super) fn slab(&self, family: usize) -> usize {
        self.slabs + SLAB * family
    }

    /// A hash index; they are numbered family by family, that of all parameters first.
    pub(super) fn index(&self, index: usize) -> usize {
        self.indexes + INDEX * index
    }

    pub(super) fn grouped(&self, grouped: usize) -> usize {
        self.groups + GROUPED * grouped
    }

    /// The slots whose deadline has expired, and how many there are.
    pub(super) fn expired(&self, timer: usize) -> usize {
        self.expired + EXPIRED * timer
    }

    /// The queue of an instance timer.
    pub(super) fn queue(&self, timer: usize) -> usize {
        self.queues + QUEUE * timer
    }

    /// The queue of a threshold of a tick counter.
    pub(super) fn threshold_queue(&self, plan: &Plan, stream: usize, threshold: usize) -> usize {
        let before: usize = plan.streams[..stream].iter().map(|stream| stream.eval.thresholds.len()).sum();
        self.queue(plan.instance_timers.len() + before + threshold)
    }

    /// Room for the closing slots of a family, if they are few.
    pub(super) fn closing(&self, family: usize) -> usize {
        self.lists + LIST * family
    }
}

/// Owns the context and the addresses after it.
#[derive(Default)]
pub(super) struct VmContextBuffer {
    words: Vec<usize>,
    offsets: VmOffsets,
    /// [`Store::moves`] when the addresses were written.
    moves: Option<u64>,
    /// For each family the slots whose close condition is checked, and then those that close.
    pub(super) closing: Vec<Vec<u32>>,
}

impl VmContextBuffer {
    /// The context, once [`bind`](Self::bind) has written it.
    #[inline(always)]
    pub(super) fn context(&mut self) -> *mut VmContext {
        self.words.as_mut_ptr().cast()
    }

    /// Writes the context and all addresses. They hold until the executor moves or the interpreter runs.
    pub(super) fn bind(&mut self, executor: &mut Executor, failure: &mut Option<Box<EvalError>>) {
        if self.words.is_empty() {
            let plan = executor.plan();
            self.offsets = VmOffsets::new(plan);
            self.closing.resize(plan.families.len(), Vec::new());
            self.words = vec![0; self.offsets.end / size_of::<usize>()];
        }
        let inputs = executor.batch().columns().iter().map(|column| column.address());
        write(&mut self.words, self.offsets.inputs, inputs);
        self.refresh(executor);
        let context = VmContext {
            executor: &raw mut *executor,
            buffer: &raw mut *self,
            failure: &raw mut *failure,
            store: &raw mut *executor.store_mut(),
            frame: executor.store_mut().frame.as_mut_ptr(),
            streams: executor.store_mut().streams.as_mut_ptr(),
            families: executor.store_mut().families.as_mut_ptr(),
            idle_until: &raw mut *executor.scheduler_mut().idle_until_mut(),
            ticks: executor.scheduler_mut().ticks_mut().as_mut_ptr(),
            row: 0,
            listed: std::ptr::null_mut(),
            group: std::ptr::null_mut(),
            until: 0,
            budget: 0,
            has_panicked: 0,
        };
        // SAFETY: `words` has `offsets.end` bytes, which begin with room for a context, and is aligned for it: both have
        // the alignment of a pointer. A context owns nothing, so that nothing must be dropped before it is overwritten.
        unsafe { self.context().write(context) };
    }

    /// Writes the addresses of data structures anew, if any has moved since.
    pub(super) fn refresh(&mut self, executor: &mut Executor) {
        let moves = executor.store().moves();
        if self.moves != Some(moves) {
            self.write_addresses(executor);
            self.moves = Some(moves);
        }
    }

    #[inline(never)]
    fn write_addresses(&mut self, executor: &mut Executor) {
        let VmContextBuffer { words, offsets, .. } = self;
        let plan = std::sync::Arc::clone(executor.plan());
        let Store { families, streams, grouped, instance_timers, .. } = executor.store_mut();
        let slabs = families.iter_mut().flat_map(|family| family.instances.vm_layout());
        write(words, offsets.slabs, slabs);
        let indexes = families.iter_mut().flat_map(|family| family.instances.hash_indexes());
        write(words, offsets.indexes, indexes.flat_map(HashIndex::vm_layout));
        write(words, offsets.groups, grouped.iter_mut().flat_map(GroupedAggregate::vm_layout));
        write(words, offsets.queues, instance_timers.iter_mut().flat_map(DeadlineQueue::vm_layout));
        for counter in plan.counters.iter().copied() {
            if !plan.streams[counter].eval.thresholds.is_empty() {
                let timers = streams[counter].threshold_timers.iter_mut();
                let from = offsets.threshold_queue(&plan, counter, 0);
                write(words, from, timers.flat_map(DeadlineQueue::vm_layout));
            }
        }
    }

    /// Writes where the lists of expired slots are.
    pub(super) fn bind_expired(&mut self, executor: &Executor) {
        for (timer, slots) in executor.changes().expired().iter().enumerate() {
            let list = [slots.as_ptr().expose_provenance(), slots.len()];
            write(&mut self.words, self.offsets.expired(timer), list);
        }
    }
}

/// Writes words one after another, from `offset` bytes after the context on.
fn write(words: &mut [usize], offset: usize, values: impl IntoIterator<Item = usize>) {
    for (word, value) in words[offset / size_of::<usize>()..].iter_mut().zip(values) {
        *word = value;
    }
}

// Machine code addresses these by their offsets.
const _: () = assert!(offset_of!(VmContext, executor) == 0 && size_of::<VmContext>().is_multiple_of(8));
