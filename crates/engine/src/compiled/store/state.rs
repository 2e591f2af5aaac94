//! Everything that changes while a specification is evaluated.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::compiled::ir::plan::{Cell, Plan};
use crate::compiled::store::aggregate::group::GroupedAggregate;
use crate::compiled::store::deadline_queue::{Deadline, DeadlineQueue};
use crate::compiled::store::frame::Frame;
use crate::compiled::store::interner::Interner;
use crate::compiled::store::slab::{InstanceSlab, Member, flag};
use crate::compiled::store::window::bucketed::{Stamp, WindowStore};

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) frame: Frame,
    pub(crate) interner: Interner,
    /// Earlier values of inputs and of streams without instances.
    pub(crate) past: Vec<Past>,
    pub(crate) families: Vec<FamilyState>,
    pub(crate) streams: Vec<StreamState>,
    pub(crate) grouped: Vec<GroupedAggregate>,
    pub(crate) windows: Vec<WindowStore>,
    /// When instances are due, chime by chime.
    pub(crate) instance_timers: Vec<DeadlineQueue>,
    /// Nanoseconds since the start of the clock.
    pub(crate) now: u64,
    /// Counts events and deadlines; the first is 1.
    pub(crate) instant: u64,
    /// The inputs that are there at this instant.
    pub(crate) present: u128,
    /// The instance that is being evaluated.
    pub(crate) current: u32,
    pub(crate) since: [u64; 2],
}

#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Past {
    words: Vec<u64>,
    count: usize,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct FamilyState {
    pub(crate) instances: InstanceSlab,
    /// Whether a stream without parameters is there.
    pub(crate) alive: bool,
    /// How often it was spawned.
    pub(crate) spawns: u64,
    /// When instances were spawned, by slot, if anybody wants to know.
    pub(crate) since: Vec<[u64; 2]>,
    pub(crate) close: DirtySet,
    pub(crate) close_deadlines: DeadlineQueue,
    /// What happened at this instant.
    #[serde(skip)]
    pub(crate) spawned: Vec<u32>,
    #[serde(skip)]
    pub(crate) closing: Vec<u32>,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct StreamState {
    pub(crate) evaluate: DirtySet,
    /// InstanceSlab whose latest evaluation gave a value, in order of spawn; kept if they are told of
    /// each time.
    #[serde(skip)]
    pub(crate) current_holders: Holders,
    /// Whether it is a counter whose values are told from the clock, ...
    pub(crate) counts: bool,
    /// ... the instant of its latest tick, ...
    pub(crate) last_tick_instant: u64,
    /// ... and for each number of ticks after which its readers must look again the instances that
    /// will have seen them, by the tick.
    pub(crate) thresholds: Vec<DeadlineQueue>,
    /// Whether the latest evaluation of a stream without instances gave a value.
    pub(crate) holds: bool,
    /// InstanceSlab with a new value at this instant.
    #[serde(skip)]
    pub(crate) valued: Vec<u32>,
}

/// InstanceSlab in order of spawn, by which spawn they are and by their slot. Machine code asks how many there are.
#[derive(Clone, Default)]
pub(crate) struct Holders {
    pub(crate) count: usize,
    all: BTreeSet<(u64, u32)>,
}

impl Holders {
    pub(crate) fn insert(&mut self, holder: (u64, u32)) {
        self.all.insert(holder);
        self.count = self.all.len();
    }

    pub(crate) fn remove(&mut self, holder: (u64, u32)) {
        self.all.remove(&holder);
        self.count = self.all.len();
    }

    pub(crate) fn clear(&mut self) {
        *self = Holders::default();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> {
        self.all.iter().map(|(_, slot)| *slot)
    }
}

/// What must be evaluated again. To machine code the first three are one word, which is 0 if that is nobody, and
/// how many slots are listed unless all must be.
#[derive(Clone, Default, Serialize, Deserialize)]
#[repr(C, align(8))]
pub(crate) struct DirtySet {
    /// How many slots are listed, ...
    pub(crate) count: u32,
    pub(crate) all: bool,
    /// Always 0.
    #[serde(skip)]
    rest: [u8; 3],
    /// ... the first of them here, where they are at hand, ...
    pub(crate) inline: [u32; INLINE_SLOTS],
    /// ... and the others.
    overflow: Vec<u32>,
}

/// How many slots are listed at hand.
pub(crate) const INLINE_SLOTS: usize = 32;

impl DirtySet {
    /// Everything.
    fn all() -> DirtySet {
        DirtySet { all: true, ..DirtySet::default() }
    }

    /// Lists the live slots that are marked, or all of them; none is marked any more.
    ///
    /// A slot that was used again since is listed twice, but not in what this gives. All flags are
    /// cleared before the first evaluation, which may set them again for the next time.
    pub(crate) fn take(
        &mut self,
        instances: &mut InstanceSlab,
        member: Member,
        flag: u64,
        slots: &mut Vec<u32>,
    ) {
        slots.clear();
        if let Some(slot) = self.take_only() {
            let is_marked = instances.is_live(slot) && instances.set(slot, member, flag, false);
            slots.extend(is_marked.then_some(slot));
            return;
        }
        self.list(instances, member, flag, slots);
        slots.retain(|slot| instances.is_live(*slot) && instances.set(*slot, member, flag, false));
    }

    /// Whoever is listed is listed there and no longer here; those that must be evaluated are marked.
    pub(crate) fn list(
        &mut self,
        instances: &mut InstanceSlab,
        member: Member,
        flag: u64,
        slots: &mut Vec<u32>,
    ) {
        slots.clear();
        std::mem::swap(slots, &mut self.overflow);
        let near = (std::mem::take(&mut self.count) as usize).min(INLINE_SLOTS);
        if std::mem::take(&mut self.all) {
            slots.clear();
            slots.extend(instances.live_slots());
            slots.iter().for_each(|slot| {
                instances.set(*slot, member, flag, true);
            });
        } else {
            slots.extend_from_slice(&self.inline[..near]);
        }
    }

    /// The slot that is listed, if it is the only one; its flag is still set.
    #[inline]
    pub(crate) fn take_only(&mut self) -> Option<u32> {
        let is_only = self.count == 1 && !self.all;
        is_only.then(|| {
            self.count = 0;
            self.inline[0]
        })
    }

    #[inline]
    pub(crate) fn push(&mut self, slot: u32, instances: &InstanceSlab) {
        if self.all {
            return;
        }
        // Slots that are used again are listed again: rather all than a list that grows for ever.
        if self.count > instances.slots() {
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

    pub(crate) fn is_clean(&self) -> bool {
        !self.all && self.count == 0
    }
}

/// The slot of a stream that has no parameters.
pub(crate) const WHOLE: u32 = 0;

impl State {
    pub(crate) fn new(plan: &Plan) -> State {
        let families = plan.families.iter().map(|family| FamilyState {
            instances: InstanceSlab::new(family.param_width, family.stride, &family.indexes),
            alive: family.spawn.is_none(),
            spawns: 0,
            since: Vec::new(),
            close: DirtySet::all(),
            close_deadlines: DeadlineQueue::default(),
            spawned: Vec::new(),
            closing: Vec::new(),
        });
        let streams = plan.streams.iter().map(|_| StreamState {
            evaluate: DirtySet::all(),
            current_holders: Holders::default(),
            counts: false,
            last_tick_instant: 0,
            thresholds: Vec::new(),
            holds: false,
            valued: Vec::new(),
        });
        State {
            frame: Frame::new(&plan.frame),
            interner: plan.interner.clone(),
            past: vec![Past::default(); plan.inputs.len() + plan.streams.len()],
            families: families.collect(),
            streams: streams.collect(),
            grouped: plan
                .grouped
                .iter()
                .map(|grouped| {
                    GroupedAggregate::new(
                        grouped.places.len(),
                        &grouped.aggregates,
                        grouped.readers(plan).len(),
                    )
                })
                .collect(),
            windows: vec![WindowStore::default(); plan.windows.len()],
            instance_timers: vec![DeadlineQueue::default(); plan.instance_timers.len()],
            now: 0,
            instant: 0,
            present: 0,
            current: 0,
            since: [0; 2],
        }
    }

    /// Builds what a snapshot leaves out.
    pub(crate) fn index(&mut self) {
        self.interner.index();
        self.families.iter_mut().for_each(|family| family.instances.index());
        self.grouped.iter_mut().for_each(GroupedAggregate::index);
    }

    /// Gives a stream without instances, or an input, a new value.
    /// `write` puts it to its place.
    #[inline(always)]
    pub(crate) fn push_cell(&mut self, cell: &Cell, number: usize, write: impl FnOnce(&mut Frame, usize)) {
        let from = cell.value as usize;
        if cell.depth > 1 && self.frame[cell.present as usize] != 0 {
            self.past[number].push(&self.frame[from..from + cell.width], cell.depth - 1);
        }
        self.frame[cell.present as usize] = 1;
        self.frame[cell.fresh as usize] = 1;
        write(&mut self.frame, from);
    }

    /// The value of a cell, some values back from the latest.
    #[inline]
    pub(crate) fn cell_past(&self, cell: &Cell, number: usize, back: usize) -> Option<&[u64]> {
        if self.frame[cell.present as usize] == 0 {
            return None;
        }
        let from = cell.value as usize;
        match back {
            0 => Some(&self.frame[from..from + cell.width]),
            back => self.past[number].get(back - 1, cell.width),
        }
    }

    pub(crate) fn clear_cell(&mut self, cell: &Cell, number: usize) {
        let from = cell.value as usize;
        self.frame[cell.present as usize] = 0;
        self.frame[from..from + cell.width].fill(0);
        self.past[number] = Past::default();
    }

    pub(crate) fn reader_since(&self) -> Stamp {
        Stamp { time: self.since[0], instant: self.since[1] }
    }

    pub(crate) fn this_instant(&self) -> Stamp {
        Stamp { time: self.now, instant: self.instant }
    }
}

impl Past {
    /// Remembers a value as the latest of at most `depth`.
    fn push(&mut self, value: &[u64], depth: usize) {
        self.words.splice(0..0, value.iter().copied());
        self.words.truncate(depth * value.len());
        self.count = (self.count + 1).min(depth);
    }

    fn get(&self, back: usize, width: usize) -> Option<&[u64]> {
        (back < self.count).then(|| &self.words[back * width..(back + 1) * width])
    }

    pub(crate) fn values(&self, width: usize) -> impl Iterator<Item = &[u64]> {
        (0..self.count).filter_map(move |back| self.get(back, width))
    }
}

impl FamilyState {
    /// Whether the instance is still there that something was due for.
    #[inline]
    pub(crate) fn is_live(&self, due: &Deadline, whole: bool) -> bool {
        if whole {
            self.alive && self.spawns == due.generation
        } else {
            self.instances.generation(due.slot) == due.generation
        }
    }

    /// Something that the close condition of an instance reads has changed.
    pub(crate) fn mark_close(&mut self, slot: u32) {
        if self.instances.set(slot, self.instances.first_member(), flag::CLOSE, true) {
            self.close.push(slot, &self.instances);
        }
    }
}

impl StreamState {
    /// Whether nothing must be evaluated again, and nobody is told each time.
    #[inline(always)]
    pub(crate) fn is_at_rest(&self) -> bool {
        self.evaluate.is_clean() && self.current_holders.is_empty()
    }

    /// Something has changed that an instance reads, whose state is at a place in its slot.
    #[inline(always)]
    pub(crate) fn mark(&mut self, instances: &mut InstanceSlab, slot: u32, at: usize) {
        if instances.raise(slot, at, flag::EVALUATE) {
            self.evaluate.push(slot, instances);
        }
    }
}
