//! Where machine code finds things.

use crate::compiled::exec::instant::Evaluator;
use crate::compiled::ir::plan::Plan;
use crate::compiled::store::aggregate::group::GroupedAggregate;
use crate::compiled::store::deadline_queue::DeadlineQueue;
use crate::compiled::store::hash_index::HashIndex;
use crate::compiled::store::state::{FamilyState, INLINE_SLOTS, StreamState};

/// What a reaction is given, with the addresses of things after it, as a [map](VmOffsets) says.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct VmContext {
    pub(super) evaluator: *mut Evaluator,
    pub(super) frame: *mut u64,
    pub(super) streams: *mut StreamState,
    pub(super) families: *mut FamilyState,
    /// Of the batch.
    pub(super) row: usize,
    /// The slots that were listed by a call.
    pub(super) listed: *mut u32,
    /// The words of the group that was found by a call.
    pub(super) found: *mut u64,
    /// Up to when deadlines and ticks are done, ...
    pub(super) until: u64,
    /// ... how many at most, ...
    pub(super) budget: u64,
    /// ... and when each clock ticks next.
    pub(super) ticks: *mut u64,
}

/// How far from the context, in bytes, it says where things are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct VmOffsets {
    inputs: usize,
    slots: usize,
    tables: usize,
    groups: usize,
    expired: usize,
    clocks: usize,
    lists: usize,
    end: usize,
}

/// How many bytes it needs for that: of an input, a family, a table, a tally, who is due, a clock, and a short list.
const INPUT: usize = size_of::<usize>();
const FAMILY: usize = size_of::<[usize; 3]>();
const TABLE: usize = size_of::<[usize; 4]>();
const GROUPED: usize = size_of::<[usize; 3]>();
const EXPIRED: usize = size_of::<[usize; 2]>();
const CLOCK: usize = size_of::<[usize; 3]>();
const LIST: usize = size_of::<[u32; INLINE_SLOTS]>();

/// What it says of a family: where its slots are, ...
pub(super) const SLOTS: usize = 0;
/// ... the numbers of those that somebody tried to spawn again, ...
pub(super) const SLOT_CACHE: usize = 8;
/// ... and how many there are.
pub(super) const HEADER: usize = 16;

/// Of a tally: where its groups are, ...
pub(super) const GROUPS: usize = 0;
/// ... the numbers of those that were found last, ...
pub(super) const GROUP_CACHE: usize = 8;
/// ... and the places of instances.
pub(super) const PLACES: usize = 16;

impl VmOffsets {
    pub(super) fn new(plan: &Plan) -> VmOffsets {
        let number_of_tables: usize = plan.families.iter().map(|family| family.indexes.len() + 1).sum();
        let inputs = size_of::<VmContext>();
        let slots = inputs + INPUT * plan.inputs.len();
        let tables = slots + FAMILY * plan.families.len();
        let groups = tables + TABLE * number_of_tables;
        let expired = groups + GROUPED * plan.grouped.len();
        let clocks = expired + EXPIRED * plan.instance_timers.len();
        let thresholds: usize = plan.streams.iter().map(|stream| stream.eval.thresholds.len()).sum();
        let lists = clocks + CLOCK * (plan.instance_timers.len() + thresholds);
        let end = lists + LIST * plan.families.len();
        VmOffsets { inputs, slots, tables, groups, expired, clocks, lists, end }
    }

    /// Where the words of an input are.
    pub(super) fn input(&self, input: usize) -> usize {
        self.inputs + INPUT * input
    }

    pub(super) fn family(&self, family: usize) -> usize {
        self.slots + FAMILY * family
    }

    /// The [layout](HashIndex::layout) of a table, which are counted family by family.
    pub(super) fn table(&self, table: usize) -> usize {
        self.tables + TABLE * table
    }

    pub(super) fn grouped(&self, grouped: usize) -> usize {
        self.groups + GROUPED * grouped
    }

    /// The slots of the instances that are due, and how many there are.
    pub(super) fn expired(&self, instance_timer: usize) -> usize {
        self.expired + EXPIRED * instance_timer
    }

    /// The [layout](DeadlineQueue::layout) of a chime's clock.
    pub(super) fn clock(&self, instance_timer: usize) -> usize {
        self.clocks + CLOCK * instance_timer
    }

    /// The same for the clock that wakes the readers of a counter after one of the numbers of ticks.
    pub(super) fn invalidate_idle(&self, plan: &Plan, stream: usize, number: usize) -> usize {
        let before: usize = plan.streams[..stream].iter().map(|stream| stream.eval.thresholds.len()).sum();
        self.clock(plan.instance_timers.len() + before + number)
    }

    /// Room for the slots of a family that end, if they are few.
    pub(super) fn closing(&self, family: usize) -> usize {
        self.lists + LIST * family
    }
}

/// Where things are in memory.
pub(crate) struct VmContextBuffer {
    /// A context, and what is after it.
    words: Vec<usize>,
    offsets: VmOffsets,
    /// For each family the slots whose close condition is looked at, and then those that end.
    pub(super) closing: Vec<Vec<u32>>,
    /// What must be found anew.
    pub(crate) inputs_moved: bool,
    pub(crate) slots_moved: bool,
    pub(crate) groups_moved: bool,
    pub(crate) clocks_moved: bool,
}

impl Default for VmContextBuffer {
    fn default() -> VmContextBuffer {
        VmContextBuffer {
            words: Vec::new(),
            offsets: VmOffsets::default(),
            closing: Vec::new(),
            inputs_moved: true,
            slots_moved: true,
            groups_moved: true,
            clocks_moved: true,
        }
    }
}

impl VmContextBuffer {
    /// Writes addresses one after another, from so many bytes after the context on.
    fn put(&mut self, from: usize, addresses: impl IntoIterator<Item = usize>) {
        for (place, address) in self.words[from / size_of::<usize>()..].iter_mut().zip(addresses) {
            *place = address;
        }
    }
}

impl Evaluator {
    /// A context for machine code. It is good until the evaluator is used otherwise; its places stay.
    #[inline]
    pub(super) fn context(&mut self) -> *mut VmContext {
        self.refresh_addresses();
        let frame = self.state.frame.as_mut_ptr();
        let (streams, families) = (self.state.streams.as_mut_ptr(), self.state.families.as_mut_ptr());
        let context = self.places.words.as_mut_ptr().cast::<VmContext>();
        let evaluator = &raw mut *self;
        let (listed, found) = (std::ptr::null_mut(), std::ptr::null_mut());
        let ticks = self.ticks.as_mut_ptr();
        // SAFETY: there are words for a context, and for what is after it, once things have been found.
        unsafe {
            *context = VmContext {
                evaluator,
                frame,
                streams,
                families,
                row: 0,
                listed,
                found,
                until: 0,
                budget: 0,
                ticks,
            };
        }
        context
    }

    /// The same context again, for another row.
    #[inline(always)]
    pub(super) fn bind_row(&mut self, row: usize, context: *mut VmContext) {
        self.refresh_addresses();
        // SAFETY: it is there as long as the places are.
        unsafe { ((*context).evaluator, (*context).row) = (&raw mut *self, row) };
    }

    /// Finds what has moved.
    #[inline(always)]
    pub(super) fn refresh_addresses(&mut self) {
        let VmContextBuffer { inputs_moved, slots_moved, groups_moved, clocks_moved, .. } = self.places;
        if inputs_moved | slots_moved | groups_moved | clocks_moved {
            self.refresh_moved();
        }
    }

    #[inline(never)]
    fn refresh_moved(&mut self) {
        let Evaluator { places, state, batch, plan, counters, .. } = self;
        if places.words.is_empty() {
            places.offsets = VmOffsets::new(plan);
            places.words = vec![0; places.offsets.end / size_of::<usize>()];
            places.closing.resize(plan.families.len(), Vec::new());
        }
        let map = places.offsets;
        if std::mem::take(&mut places.inputs_moved) {
            places.put(map.inputs, batch.columns.iter().map(|column| column.address()));
        }
        if std::mem::take(&mut places.slots_moved) {
            let addresses = |family: &mut FamilyState| {
                let instances = &mut family.instances;
                [instances.address(), instances.lookup_cache_address(), instances.header_address()]
            };
            places.put(map.slots, state.families.iter_mut().flat_map(addresses));
            let tables = state.families.iter_mut().flat_map(|family| family.instances.tables());
            places.put(map.tables, tables.flat_map(HashIndex::layout));
        }
        if std::mem::take(&mut places.groups_moved) {
            let addresses = |grouped: &mut GroupedAggregate| {
                [grouped.address(), grouped.lookup_cache_address(), grouped.places_address()]
            };
            places.put(map.groups, state.grouped.iter_mut().flat_map(addresses));
        }
        if std::mem::take(&mut places.clocks_moved) {
            places.put(map.clocks, state.instance_timers.iter_mut().flat_map(DeadlineQueue::layout));
            for counter in
                counters.iter().filter(|counter| !plan.streams[**counter].eval.thresholds.is_empty())
            {
                let thresholds = state.streams[*counter].thresholds.iter_mut();
                places
                    .put(map.invalidate_idle(plan, *counter, 0), thresholds.flat_map(DeadlineQueue::layout));
            }
        }
    }

    /// Notes who is due.
    #[inline]
    pub(super) fn bind_expired(&mut self) {
        let Evaluator { places, expired, .. } = self;
        for (instance_timer, slots) in expired.iter().enumerate() {
            let at = places.offsets.expired(instance_timer) / size_of::<usize>();
            places.words[at] = slots.as_ptr().expose_provenance();
            places.words[at + 1] = slots.len();
        }
    }
}
