//! Tick counters: streams whose value is a function of elapsed ticks. Computed on read, never stored.

use super::fault::Fault;

/// A stream that counts the ticks of a global clock since the spawn of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TickCounter {
    /// Nanoseconds between two ticks.
    pub(crate) period: u64,
    /// The value at the first tick.
    pub(crate) first: i128,
    /// The difference between the values at two ticks.
    pub(crate) step: i128,
    pub(crate) is_signed: bool,
}

impl TickCounter {
    /// The value at a tick after the spawn; the first tick is 1.
    pub(crate) fn at(&self, tick: i128) -> i128 {
        self.first + (tick - 1) * self.step
    }

    /// The word of the value at a tick.
    pub(crate) fn word_at(&self, tick: i128) -> Result<u64, Fault> {
        let value = self.at(tick);
        if self.is_signed {
            i64::try_from(value).map(i64::cast_unsigned).map_err(|_| Fault::Overflow)
        } else {
            u64::try_from(value).map_err(|_| Fault::Overflow)
        }
    }

    /// Whether the value fits a word at every tick that 64 bits of nanoseconds allow.
    pub(crate) fn always_fits(&self) -> bool {
        let last = i128::from(u64::MAX / self.period.max(1)) + 1;
        [1, last].into_iter().all(|tick| self.word_at(tick).is_ok())
    }
}
