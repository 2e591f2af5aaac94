//! Streams whose value is told from the clock instead of being kept.

use crate::compiled::exec::instant::{Evaluator, Failed};
use crate::compiled::exec::propagate::Changed;
use crate::compiled::exec::update_rule::{
    ResolvedDependent, dependents_left_on_close, mark_resolved, resolve_dependents,
};
use crate::compiled::ir::fault::Fault;
use crate::compiled::ir::plan::{Plan, StreamPlan};
use crate::compiled::store::deadline_queue::{Deadline, DeadlineQueue};
use crate::compiled::store::state::{State, StreamState};

/// Selector reads a counter.
pub(crate) struct CounterDependents {
    /// Selector must look again when a tick matters to it, ...
    pub(crate) dependents: Vec<ResolvedDependent>,
    /// ... and when an instance ends: whoever is in the same slot ends with it.
    pub(crate) dependents_on_close: Vec<ResolvedDependent>,
}

/// A stream that counts the ticks since the spawn of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TickCounter {
    pub(crate) period: u64,
    /// The value at the first tick.
    pub(crate) first: i128,
    pub(crate) step: i128,
    pub(crate) is_signed: bool,
}

impl TickCounter {
    /// The value at a tick after the spawn, from 1 on.
    pub(crate) fn at(&self, tick: i128) -> i128 {
        self.first + (tick - 1) * self.step
    }

    /// Whether there is a word for it at every tick that there can be.
    pub(crate) fn always_fits(&self) -> bool {
        let last = i128::from(u64::MAX / self.period.max(1)) + 1;
        [1, last].into_iter().all(|tick| self.word_at(tick).is_ok())
    }

    /// The same as a word.
    pub(crate) fn word_at(&self, tick: i128) -> Result<u64, Fault> {
        let value = self.at(tick);
        if self.is_signed {
            i64::try_from(value).map(i64::cast_unsigned).map_err(|_| Fault::Overflow)
        } else {
            u64::try_from(value).map_err(|_| Fault::Overflow)
        }
    }
}

impl CounterDependents {
    pub(crate) fn of(plan: &Plan, stream: &StreamPlan) -> CounterDependents {
        CounterDependents {
            dependents: resolve_dependents(plan, &stream.dependents, &[]),
            dependents_on_close: dependents_left_on_close(plan, stream),
        }
    }
}

impl State {
    /// How many ticks of its clock a counter has seen.
    pub(crate) fn ticks(&self, stream: usize, period: u64) -> u64 {
        self.streams[stream].ticks(period, self.now, self.instant)
    }

    /// The value of an instance of a counter, whether it is kept or told from the clock.
    pub(crate) fn count(&self, plan: &Plan, stream: usize, slot: u32) -> Result<Option<u64>, Fault> {
        let of = &plan.streams[stream];
        let instances = &self.families[of.family].instances;
        match &of.eval.counter {
            Some(counter) if self.streams[stream].counts => {
                let since = self.ticks(stream, counter.period) - instances.spawn_tick(slot, of.member);
                if since == 0 { Ok(None) } else { counter.word_at(since.into()).map(Some) }
            }
            _ => Ok(instances.latest(slot, of.member).map(|value| value[0])),
        }
    }
}

impl State {
    /// Notes when an instance of a counter was spawned, and when its readers must look again. When that is for the first
    /// time, and whether a clock has moved in memory.
    pub(crate) fn start_counter(&mut self, plan: &StreamPlan, index: usize, slot: u32) -> (u64, bool) {
        let Some(counter) = &plan.eval.counter else { return (u64::MAX, false) };
        let State { families, streams, now, instant, .. } = self;
        let (state, instances) = (&mut streams[index], &mut families[plan.family].instances);
        let ticks = state.ticks(counter.period, *now, *instant);
        instances.set_spawn_tick(slot, plan.member, ticks);
        let generation = instances.generation(slot);
        let (mut first, mut has_moved) = (u64::MAX, false);
        for (wake, after) in state.thresholds.iter_mut().zip(&plan.eval.thresholds) {
            let at = ticks.saturating_add(*after);
            has_moved |= wake.add(Deadline { at, slot, generation });
            first = first.min(at.saturating_mul(counter.period));
        }
        (first, has_moved)
    }
}

impl StreamState {
    /// The ticks of a clock up to now. The one of this instant counts once the stream's turn has come.
    fn ticks(&self, period: u64, now: u64, instant: u64) -> u64 {
        if self.last_tick_instant == instant { now / period } else { now.saturating_sub(1) / period }
    }
}

impl Evaluator {
    /// Lets counters tell their values from the clock where nobody is told of each. Only before the
    /// first instance.
    pub(crate) fn enable_counters(&mut self) {
        let mut is_other = false;
        for (index, stream) in self.plan.streams.iter().enumerate() {
            if stream.eval.counter.is_some()
                && !self.tells[index]
                && self.state.families[stream.family].instances.len() == 0
                && !self.state.streams[index].counts
            {
                is_other = true;
                self.state.streams[index].counts = true;
                self.state.streams[index].thresholds =
                    stream.eval.thresholds.iter().map(|_| DeadlineQueue::default()).collect();
            }
        }
        if is_other {
            self.places.clocks_moved = true;
            self.drop_handlers();
        }
    }

    /// Selector reads a counter, as long as its values are told from the clock.
    pub(crate) fn counting(&self, index: usize) -> Option<&CounterDependents> {
        self.state.streams[index].counts.then_some(&self.readers[index])
    }

    /// A tick of a counter: those who must look again do so.
    pub(crate) fn tick(&mut self, index: usize) {
        self.list_crossed(index);
        let Evaluator { plan, state, readers, listed, .. } = self;
        let family = plan.streams[index].family;
        for slot in listed.iter().copied() {
            mark_resolved(plan, state, &readers[index].dependents, Changed::Instance { family, slot });
        }
    }

    /// A tick of a counter: lists the instances whose readers must look again.
    pub(crate) fn list_crossed(&mut self, index: usize) {
        let plan = &self.plan.streams[index];
        self.listed.clear();
        let Some(counter) = plan.eval.counter else { return };
        let State { streams, families, now, instant, .. } = &mut self.state;
        streams[index].last_tick_instant = *instant;
        let instances = &families[plan.family].instances;
        for wake in &mut streams[index].thresholds {
            while let Some(due) = wake.take(*now / counter.period) {
                if instances.generation(due.slot) == due.generation {
                    self.listed.push(due.slot);
                }
            }
        }
    }
}

/// From now on a counter's values are kept, because somebody is told of each.
pub(crate) fn materialise_counter(plan: &Plan, state: &mut State, index: usize) -> Result<(), Box<Failed>> {
    let stream = &plan.streams[index];
    let slots: Vec<u32> = state.families[stream.family].instances.live_slots().collect();
    for slot in slots {
        let value = state.count(plan, index, slot).map_err(|fault| Failed::outside(index, fault))?;
        if let Some(value) = value {
            state.families[stream.family].instances.push(slot, stream.member, &[value]);
        }
    }
    let state = &mut state.streams[index];
    state.counts = false;
    state.thresholds.clear();
    state.evaluate.all = true;
    Ok(())
}
