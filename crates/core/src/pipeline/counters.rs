//! What a run counts.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::Time;

/// RunCounts that grow while a run goes on.
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

/// The counts at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunCounts {
    /// Rows that the sources gave, bad ones included.
    pub read: u64,
    /// Bad rows that were left out.
    pub rejected: u64,
    /// Rows that live sources lost because they were read too slowly.
    pub dropped: u64,
    /// Those of the rejected rows that came too late.
    pub late: u64,
    /// Rows outside the monitored span.
    pub outside: u64,
    /// Rows that the engine has evaluated.
    pub evaluated: u64,
    /// Verdicts that went to the sinks.
    pub verdicts: u64,
    /// Those of the verdicts that are violated triggers.
    pub triggers: u64,
    /// Those of the verdicts that raise an alarm.
    pub alarms: u64,
    /// Event time reached.
    pub reached: Option<Time>,
}

impl Counters {
    /// The counts now.
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

    pub(super) fn reach(&self, time: Time) {
        self.reached.fetch_max(time.0, Ordering::Relaxed);
    }
}

/// Adds to a counter.
pub(super) fn count(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Ordering::Relaxed);
}
