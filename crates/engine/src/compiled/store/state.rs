//! The store: everything that an evaluation remembers from one instant to the next.

use super::aggregate::group::GroupedAggregate;
use super::deadline_queue::{Deadline, DeadlineQueue};
use super::dirty_set::DirtySet;
use super::frame::Frame;
use super::history::ValueHistory;
use super::holder_set::HolderSet;
use super::huge_vec::PrefaultedRegion;
use super::interner::Interner;
use super::slab::{InstanceSlab, flag};
use super::window::bucketed::{Stamp, WindowStore};
use crate::compiled::ir::execution_plan::ExecutionPlan;
use crate::compiled::ir::fault::Fault;
use crate::compiled::ir::plan::{Cell, FamilyPlan, Plan, StreamPlan};

/// Persistent state.
pub(crate) struct Store {
    pub(crate) frame: Frame,
    pub(crate) interner: Interner,
    /// Earlier values of inputs, then of streams without instances.
    pub(crate) past: Vec<ValueHistory>,
    pub(crate) families: Vec<FamilyState>,
    pub(crate) streams: Vec<StreamState>,
    pub(crate) grouped: Vec<GroupedAggregate>,
    pub(crate) windows: Vec<WindowStore>,
    /// For each instance timer.
    pub(crate) instance_timers: Vec<DeadlineQueue>,
    /// The time of the current instant, in nanoseconds since the start.
    pub(crate) now: u64,
    /// Counts events and deadlines; the first is 1.
    pub(crate) instant: u64,
    /// The inputs of the current event, a bit for each.
    pub(crate) present: u128,
    /// The slot of the instance that is being evaluated.
    pub(crate) current: u32,
    /// Time and instant of the spawn of that instance, where windows need them.
    pub(crate) reader_spawn: [u64; 2],
}

/// The state of a family: streams that share their slots.
#[derive(Clone)]
pub(crate) struct FamilyState {
    pub(crate) instances: InstanceSlab,
    /// Whether a family without parameters exists.
    pub(crate) alive: bool,
    /// How often a family without parameters was spawned.
    pub(crate) spawns: u64,
    /// Time and instant of each spawn, by slot, where windows need them.
    pub(crate) spawned_at: Vec<[u64; 2]>,
    /// The instances whose close condition must be checked.
    pub(crate) close_dirty: DirtySet,
    /// Deadlines of the close condition, if each instance has its own.
    pub(crate) close_deadlines: DeadlineQueue,
}

#[derive(Clone)]
pub(crate) struct StreamState {
    pub(crate) dirty: DirtySet,
    /// Instances whose latest evaluation gave a value, where that value is emitted each time.
    pub(crate) current_holders: HolderSet,
    /// Whether this is a tick counter that is computed on read.
    pub(crate) is_computed_on_read: bool,
    /// The instant of the latest tick of such a counter.
    pub(crate) last_tick_instant: u64,
    /// For each threshold of such a counter: the tick at which each instance crosses it.
    pub(crate) threshold_timers: Vec<DeadlineQueue>,
    /// Whether the latest evaluation of a stream without instances gave a value.
    pub(crate) holds: bool,
    /// Slots with a new value at this instant.
    pub(crate) valued: Vec<u32>,
}

/// Stands for the slot of a stream without parameters.
pub(crate) const WHOLE: u32 = 0;

impl Store {
    pub(crate) fn new(plan: &Plan) -> Store {
        let families = plan.families.iter().map(|family| FamilyState {
            instances: InstanceSlab::new(family.param_width, family.stride, &family.indexes),
            alive: family.spawn.is_none(),
            spawns: 0,
            spawned_at: Vec::new(),
            close_dirty: DirtySet::everything(),
            close_deadlines: DeadlineQueue::default(),
        });
        let streams = plan.streams.iter().map(|_| StreamState {
            dirty: DirtySet::everything(),
            current_holders: HolderSet::default(),
            is_computed_on_read: false,
            last_tick_instant: 0,
            threshold_timers: Vec::new(),
            holds: false,
            valued: Vec::new(),
        });
        let grouped = plan.grouped.iter().map(|grouped| {
            let readers = grouped.readers(plan).len();
            GroupedAggregate::new(grouped.key_words.len(), &grouped.aggregates, readers)
        });
        Store {
            frame: Frame::new(&plan.frame),
            interner: Interner::with(&plan.string_constants),
            past: vec![ValueHistory::default(); plan.inputs.len() + plan.streams.len()],
            families: families.collect(),
            streams: streams.collect(),
            grouped: grouped.collect(),
            windows: vec![WindowStore::default(); plan.windows.len()],
            instance_timers: vec![DeadlineQueue::default(); plan.instance_timers.len()],
            now: 0,
            instant: 0,
            present: 0,
            current: 0,
            reader_spawn: [0; 2],
        }
    }

    /// How often memory that machine code has addresses of has moved.
    pub(crate) fn moves(&self) -> u64 {
        let slabs = self.families.iter().map(|family| family.instances.moves());
        let groups = self.grouped.iter().map(GroupedAggregate::moves);
        let thresholds = self.streams.iter().flat_map(|stream| &stream.threshold_timers);
        let queues = self.instance_timers.iter().chain(thresholds).map(DeadlineQueue::moves);
        slabs.chain(groups).chain(queues).sum()
    }

    /// Lists the instances that hold a value, for the streams that emit held values.
    pub(crate) fn list_holders(&mut self, plan: &ExecutionPlan) {
        for (index, stream) in plan.streams.iter().enumerate() {
            let instances = &self.families[stream.family].instances;
            let state = &mut self.streams[index];
            state.current_holders.clear();
            let emission = plan.emission[index];
            if !emission.values || !emission.repeats || !stream.eval.incremental {
                continue;
            }
            match stream.cell {
                Some(_) if state.holds => state.current_holders.insert((0, WHOLE)),
                Some(_) => {}
                None => {
                    let holds = |slot: &u32| instances.has_flag(*slot, stream.member.state(), flag::HOLDS);
                    for slot in instances.live_slots().filter(holds) {
                        state.current_holders.insert((instances.generation(slot), slot));
                    }
                }
            }
        }
    }

    /// Moves slabs and deadline queues into memory that is faulted in now, so that the first instances cause no page
    /// faults. Families whose instances are groups of people rather than people stay small, and are left out.
    pub(crate) fn prefault(&mut self, plan: &Plan) {
        const MOST_PAGES: usize = 4;
        let families = 0..plan.families.len();
        let is_large =
            |family: &usize| plan.families[*family].is_parameterised && !plan.is_revisited(*family);
        let families: Vec<usize> = families.filter(is_large).collect();
        if families.is_empty() {
            return;
        }
        let Some(mut region) = PrefaultedRegion::new((families.len() + 1).min(MOST_PAGES)) else { return };
        let share = region.left() / families.len();
        for family in families {
            let FamilyPlan { members, instance_timers: own, .. } = &plan.families[family];
            let thresholds = members.iter().map(|member| self.streams[*member].threshold_timers.len());
            let queues = own.len() + thresholds.sum::<usize>();
            let instances = &mut self.families[family].instances;
            let slots = instances.move_into(&mut region, share, queues);
            own.iter().for_each(|timer| self.instance_timers[*timer].move_into(&mut region, slots));
            for member in members {
                let timers = self.streams[*member].threshold_timers.iter_mut();
                timers.for_each(|timer| timer.move_into(&mut region, slots));
            }
        }
    }

    /// Gives an input, or a stream without instances, a new value, which `write` puts into the frame.
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

    /// The value of a cell; 0 is the latest.
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
        self.past[number] = ValueHistory::default();
    }

    pub(crate) fn reader_spawn(&self) -> Stamp {
        Stamp { time: self.reader_spawn[0], instant: self.reader_spawn[1] }
    }

    pub(crate) fn this_instant(&self) -> Stamp {
        Stamp { time: self.now, instant: self.instant }
    }

    /// The value of an instance of a tick counter, stored or computed.
    pub(crate) fn count(&self, plan: &Plan, stream: usize, slot: u32) -> Result<Option<u64>, Fault> {
        let of = &plan.streams[stream];
        let instances = &self.families[of.family].instances;
        match &of.eval.counter {
            Some(counter) if self.streams[stream].is_computed_on_read => {
                let ticks = self.streams[stream].ticks(counter.period, self.now, self.instant);
                let since = ticks - instances.spawn_tick(slot, of.member);
                if since == 0 { Ok(None) } else { counter.word_at(since.into()).map(Some) }
            }
            _ => Ok(instances.latest(slot, of.member).map(|value| value[0])),
        }
    }

    /// Stores the spawn tick of an instance of a tick counter, and arms its threshold timers; when the first is due.
    pub(crate) fn start_counter(&mut self, plan: &StreamPlan, stream: usize, slot: u32) -> u64 {
        let Some(counter) = &plan.eval.counter else { return u64::MAX };
        let Store { families, streams, now, instant, .. } = self;
        let (state, instances) = (&mut streams[stream], &mut families[plan.family].instances);
        let ticks = state.ticks(counter.period, *now, *instant);
        instances.set_spawn_tick(slot, plan.member, ticks);
        let generation = instances.generation(slot);
        let mut first = u64::MAX;
        for (timer, after) in state.threshold_timers.iter_mut().zip(&plan.eval.thresholds) {
            let at = ticks.saturating_add(*after);
            timer.push(Deadline { at, slot, generation });
            first = first.min(at.saturating_mul(counter.period));
        }
        first
    }
}

impl FamilyState {
    /// Whether the instance of a deadline still exists.
    #[inline]
    pub(crate) fn is_live(&self, deadline: &Deadline, is_whole: bool) -> bool {
        if is_whole {
            self.alive && self.spawns == deadline.generation
        } else {
            self.instances.generation(deadline.slot) == deadline.generation
        }
    }

    /// Marks the close condition of an instance dirty.
    pub(crate) fn mark_close(&mut self, slot: u32) {
        if self.instances.set_flag(slot, self.instances.first_state(), flag::CLOSE_DIRTY) {
            self.close_dirty.push(slot, self.instances.slots());
        }
    }
}

impl StreamState {
    /// Marks an instance dirty, whose state word is at `at` of its slot.
    #[inline(always)]
    pub(crate) fn mark(&mut self, instances: &mut InstanceSlab, slot: u32, at: usize) {
        if instances.set_flag(slot, at, flag::DIRTY) {
            self.dirty.push(slot, instances.slots());
        }
    }

    /// The ticks of a counter's clock up to now. A tick at this instant counts once the counter's step has come.
    pub(crate) fn ticks(&self, period: u64, now: u64, instant: u64) -> u64 {
        if self.last_tick_instant == instant { now / period } else { now.saturating_sub(1) / period }
    }
}
