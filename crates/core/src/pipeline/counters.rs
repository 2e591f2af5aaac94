//! Counters of a run.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::Time;

/// Counters that are updated during a run.
#[derive(Debug)]
pub struct Counters {
    pub(super) read: AtomicU64,
    pub(super) rejected: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) late: AtomicU64,
    pub(super) outside: AtomicU64,
    pub(super) evaluated: AtomicU64,
    pub(super) verdicts: AtomicU64,
    pub(super) triggers: AtomicU64,
    pub(super) alarms: AtomicU64,
    reached: AtomicI64,
}

impl Default for Counters {
    fn default() -> Counters {
        let zero = || AtomicU64::new(0);
        Counters {
            read: zero(),
            rejected: zero(),
            dropped: zero(),
            late: zero(),
            outside: zero(),
            evaluated: zero(),
            verdicts: zero(),
            triggers: zero(),
            alarms: zero(),
            reached: AtomicI64::new(i64::MIN),
        }
    }
}

/// A reading of the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunCounts {
    /// Rows read from sources, including bad ones.
    pub read: u64,
    /// Bad rows that were dropped.
    pub rejected: u64,
    /// Rows that live sources lost because they were read too slowly.
    pub dropped: u64,
    /// Rejected rows that were too late.
    pub late: u64,
    /// Rows outside the monitored time range.
    pub outside: u64,
    /// Rows that the engine has evaluated.
    pub evaluated: u64,
    /// Verdicts sent to the sinks.
    pub verdicts: u64,
    /// Verdicts that are violated triggers.
    pub triggers: u64,
    /// Verdicts that raise an alarm.
    pub alarms: u64,
    /// Event time reached.
    pub reached: Option<Time>,
}

impl Counters {
    /// Reads the counters.
    pub fn now(&self) -> RunCounts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let reached = self.reached.load(Ordering::Relaxed);
        RunCounts {
            read: get(&self.read),
            rejected: get(&self.rejected),
            dropped: get(&self.dropped),
            late: get(&self.late),
            outside: get(&self.outside),
            evaluated: get(&self.evaluated),
            verdicts: get(&self.verdicts),
            triggers: get(&self.triggers),
            alarms: get(&self.alarms),
            reached: (reached != i64::MIN).then_some(Time(reached)),
        }
    }

    /// Continues from these counts.
    pub fn resume(&self, counts: &RunCounts) {
        let set = |counter: &AtomicU64, value: u64| counter.store(value, Ordering::Relaxed);
        set(&self.read, counts.read);
        set(&self.rejected, counts.rejected);
        set(&self.dropped, counts.dropped);
        set(&self.late, counts.late);
        set(&self.outside, counts.outside);
        set(&self.evaluated, counts.evaluated);
        set(&self.verdicts, counts.verdicts);
        set(&self.triggers, counts.triggers);
        set(&self.alarms, counts.alarms);
        self.reached.store(counts.reached.map_or(i64::MIN, |time| time.0), Ordering::Relaxed);
    }

    pub(super) fn reach(&self, time: Time) {
        self.reached.fetch_max(time.0, Ordering::Relaxed);
    }
}

/// Adds to a counter.
pub(super) fn count(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Ordering::Relaxed);
}
