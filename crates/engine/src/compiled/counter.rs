//! Streams whose value is told from the clock instead of being kept.

use super::fault::Fault;
use super::instances::Instances;
use super::instant::{Evaluator, Failed};
use super::local_clock::{Due, LocalClock};
use super::plan::{Plan, StreamPlan};
use super::state::{State, StreamState};

/// A stream that counts the ticks since the spawn of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counter {
    pub(super) period: u64,
    /// The value at the first tick.
    pub(super) first: i128,
    pub(super) step: i128,
    pub(super) is_signed: bool,
}

impl Counter {
    /// The value at a tick after the spawn, from 1 on.
    pub(super) fn at(&self, tick: i128) -> i128 {
        self.first + (tick - 1) * self.step
    }

    /// The same as a word.
    pub(super) fn word_at(&self, tick: i128) -> Result<u64, Fault> {
        let value = self.at(tick);
        if self.is_signed {
            i64::try_from(value).map(i64::cast_unsigned).map_err(|_| Fault::Overflow)
        } else {
            u64::try_from(value).map_err(|_| Fault::Overflow)
        }
    }
}

impl State {
    /// How many ticks of its clock a counter has seen.
    pub(super) fn ticks(&self, stream: usize, period: u64) -> u64 {
        self.streams[stream].ticks(period, self.now, self.instant)
    }

    /// The value of an instance of a counter, whether it is kept or told from the clock.
    pub(super) fn count(&self, plan: &Plan, stream: usize, slot: u32) -> Result<Option<u64>, Fault> {
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

impl StreamState {
    /// The ticks of a clock up to now. The one of this instant counts once the stream's turn has come.
    fn ticks(&self, period: u64, now: u64, instant: u64) -> u64 {
        if self.ticked == instant { now / period } else { now.saturating_sub(1) / period }
    }
}

impl Evaluator {
    /// Lets counters tell their values from the clock where nobody is told of each. Only before the
    /// first instance.
    pub(super) fn start_counting(&mut self) {
        for (index, stream) in self.plan.streams.iter().enumerate() {
            if stream.eval.counter.is_some()
                && !self.tells[index]
                && self.state.families[stream.family].instances.len() == 0
                && !self.state.streams[index].counts
            {
                self.state.streams[index].counts = true;
                self.state.streams[index].wakes =
                    stream.eval.wakes.iter().map(|_| LocalClock::default()).collect();
            }
        }
    }

    /// A tick of a counter: those who must look again do so.
    pub(super) fn tick(&mut self, index: usize) -> Result<(), Box<Failed>> {
        let plan = &self.plan.streams[index];
        let Some(counter) = plan.eval.counter else { return Ok(()) };
        let family = plan.family;
        self.state.streams[index].ticked = self.state.instant;
        let ticks = self.state.now / counter.period;
        for number in 0..self.state.streams[index].wakes.len() {
            while let Some(due) = self.state.streams[index].wakes[number].take(ticks) {
                if self.state.families[family].instances.born(due.slot) == due.born {
                    self.notify_instance(index, due.slot);
                }
            }
        }
        Ok(())
    }
}

/// Notes when an instance of a counter was spawned, and when its readers must look again.
pub(super) fn begin_count(
    plan: &StreamPlan,
    state: &mut StreamState,
    instances: &mut Instances,
    slot: u32,
    now: u64,
    instant: u64,
) {
    let Some(counter) = &plan.eval.counter else { return };
    let ticks = state.ticks(counter.period, now, instant);
    instances.set_spawn_tick(slot, plan.member, ticks);
    let born = instances.born(slot);
    for (wake, after) in state.wakes.iter_mut().zip(&plan.eval.wakes) {
        wake.add(Due { at: ticks.saturating_add(*after), slot, born });
    }
}

/// From now on a counter's values are kept, because somebody is told of each.
pub(super) fn keep_count(plan: &Plan, state: &mut State, index: usize) -> Result<(), Box<Failed>> {
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
    state.wakes.clear();
    state.evaluate.all = true;
    Ok(())
}
