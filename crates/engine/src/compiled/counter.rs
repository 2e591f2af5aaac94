//! Streams whose value is told from the clock instead of being kept.

use super::fault::Fault;
use super::plan::Plan;
use super::state::State;

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

    fn word(&self, tick: u64) -> Result<u64, Fault> {
        let value = self.at(tick.into());
        if self.is_signed {
            i64::try_from(value).map(i64::cast_unsigned).map_err(|_| Fault::Overflow)
        } else {
            u64::try_from(value).map_err(|_| Fault::Overflow)
        }
    }
}

impl State {
    /// How many ticks of its clock a counter has seen. A tick counts once the stream's turn has come.
    pub(super) fn ticks(&self, stream: usize, period: u64) -> u64 {
        let has_ticked = self.streams[stream].ticked == self.instant;
        if has_ticked { self.now / period } else { self.now.saturating_sub(1) / period }
    }

    /// The value of an instance of a counter, whether it is kept or told from the clock.
    pub(super) fn count(&self, plan: &Plan, stream: usize, slot: u32) -> Result<Option<u64>, Fault> {
        let of = &plan.streams[stream];
        let instances = &self.families[of.family].instances;
        match &of.eval.counter {
            Some(counter) if self.streams[stream].counts => {
                let since = self.ticks(stream, counter.period) - instances.note(slot, of.member);
                if since == 0 { Ok(None) } else { counter.word(since).map(Some) }
            }
            _ => Ok(instances.latest(slot, of.member).map(|value| value[0])),
        }
    }
}
