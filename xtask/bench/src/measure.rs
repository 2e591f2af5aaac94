//! Runs a monitor on a workload and measures it.

use std::time::{Duration, Instant};

use fairstream_core::{EventBatch, Time};
use serde_json::{Value, json};

use crate::allocator::live_bytes;
use crate::monitor::Monitor;
use crate::screenings::DAY;
use crate::trace::slice;
use crate::triggers::Triggers;
use crate::workload::Workload;

/// Number of batches that are generated at once, before they are fed and timed, and then dropped.
const CHUNK: usize = 64;
/// With a time limit: number of rows that are fed at first between two checks of the time.
const PIECE: usize = 64;
/// With a time limit: the number of rows per piece is doubled only while a piece takes less than this.
const PATIENCE: Duration = Duration::from_millis(50);

/// Result of one run.
#[derive(Clone, Copy)]
pub struct Run {
    pub elapsed: Duration,
    pub events: u64,
    pub triggers: Triggers,
    /// Bytes that the monitor keeps in memory at the end.
    pub live_bytes: usize,
    /// Whether it completed the events before the time limit.
    pub ended: bool,
}

impl Run {
    pub fn ns_per_event(&self) -> f64 {
        self.elapsed.as_nanos() as f64 / self.events.max(1) as f64
    }
}

/// Builds a monitor whose clock starts at the given time.
pub type Build<'a> = dyn Fn(&Workload, Time) -> anyhow::Result<Box<dyn Monitor>> + 'a;

/// Runs a monitor on `trials` trials, for at most `limit` if there is one. Only evaluation is timed, not building
/// the monitor, generating events or reading its triggers.
pub fn run(
    workload: &Workload,
    build: &Build<'_>,
    trials: u64,
    limit: Option<Duration>,
) -> anyhow::Result<Run> {
    let bytes_before = live_bytes();
    let mut trace = workload.trace(trials);
    let mut stopwatch =
        Stopwatch { monitor: build(workload, trace.start)?, elapsed: Duration::ZERO, limit, piece: PIECE };
    let mut events = 0;
    let mut now = trace.start;
    let mut ended = true;
    'judging: loop {
        let chunk: Vec<EventBatch> = trace.batches.by_ref().take(CHUNK).collect();
        let Some(last) = chunk.last() else { break };
        now = last.time(last.len() - 1);
        for batch in &chunk {
            let rows = stopwatch.feed(batch)?;
            events += rows as u64;
            ended = rows == batch.len();
            if !ended {
                break 'judging;
            }
        }
        stopwatch.monitor.triggers()?;
    }
    if let Some(end) = trace.end
        && ended
    {
        ended = stopwatch.advance(now, end)?;
    }
    drop(trace);
    let triggers = stopwatch.monitor.triggers()?;
    let live_bytes = live_bytes().saturating_sub(bytes_before);
    Ok(Run { elapsed: stopwatch.elapsed, events, triggers, live_bytes, ended })
}

struct Stopwatch {
    monitor: Box<dyn Monitor>,
    elapsed: Duration,
    limit: Option<Duration>,
    /// Number of rows that are fed at once, if there is a limit.
    piece: usize,
}

impl Stopwatch {
    /// Feeds a batch. Returns how many of its rows were fed before the limit.
    fn feed(&mut self, batch: &EventBatch) -> anyhow::Result<usize> {
        let Some(limit) = self.limit else {
            let start = Instant::now();
            self.monitor.feed(batch)?;
            self.elapsed += start.elapsed();
            return Ok(batch.len());
        };
        let mut from = 0;
        while from < batch.len() {
            if self.elapsed > limit {
                return Ok(from);
            }
            let piece = slice(batch, from, self.piece);
            let start = Instant::now();
            self.monitor.feed(&piece)?;
            let took = start.elapsed();
            self.elapsed += took;
            from += piece.len();
            if took < PATIENCE {
                self.piece = self.piece.saturating_mul(2);
            }
        }
        Ok(batch.len())
    }

    /// Advances the clock to the end. Returns whether it got there before the limit.
    fn advance(&mut self, now: Time, end: Time) -> anyhow::Result<bool> {
        let mut next = if self.limit.is_some() { now } else { end };
        loop {
            let start = Instant::now();
            self.monitor.advance(next)?;
            self.elapsed += start.elapsed();
            if next == end {
                return Ok(true);
            }
            if self.limit.is_some_and(|limit| self.elapsed > limit) {
                return Ok(false);
            }
            next = Time(next.0 + DAY).min(end);
        }
    }
}

/// The runs of one system on the same events.
pub struct Measurement {
    pub workload: &'static str,
    pub system: &'static str,
    pub trials: u64,
    pub runs: Vec<Run>,
}

impl Measurement {
    pub fn last(&self) -> &Run {
        &self.runs[self.runs.len() - 1]
    }

    /// The minimum, the median and the maximum of the nanoseconds per event.
    pub fn ns_per_event(&self) -> [f64; 3] {
        let mut all: Vec<f64> = self.runs.iter().map(Run::ns_per_event).collect();
        all.sort_by(f64::total_cmp);
        // The median of an even number of runs is the mean of the two in the middle.
        let median = f64::midpoint(all[(all.len() - 1) / 2], all[all.len() / 2]);
        [all[0], median, all[all.len() - 1]]
    }

    pub fn median(&self) -> f64 {
        self.ns_per_event()[1]
    }

    pub fn json(&self) -> Value {
        let [least, median, most] = self.ns_per_event();
        let last = self.last();
        json!({
            "workload": self.workload,
            "contestant": self.system,
            "trials": self.trials,
            "events": last.events,
            "triggers": last.triggers.count,
            "checksum": last.triggers.checksum,
            "ended": last.ended,
            "runs": self.runs.len(),
            "ns_per_event": { "min": least, "median": median, "max": most },
            "live_bytes": last.live_bytes,
        })
    }
}

/// The measurement of one system on a workload with a number of trials.
pub fn find<'a>(
    measured: &'a [Measurement],
    workload: &str,
    trials: u64,
    system: &str,
) -> Option<&'a Measurement> {
    measured.iter().find(|one| one.workload == workload && one.trials == trials && one.system == system)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Monitor;
    use fairstream_core::EngineError;
    use std::cell::Cell;
    use std::rc::Rc;

    /// Counts the rows that it is fed.
    struct Rows(Rc<Cell<usize>>);

    impl Monitor for Rows {
        fn feed(&mut self, events: &EventBatch) -> Result<(), EngineError> {
            assert!(!events.is_empty(), "an empty piece");
            self.0.set(self.0.get() + events.len());
            Ok(())
        }

        fn advance(&mut self, _: Time) -> Result<(), EngineError> {
            Ok(())
        }

        fn triggers(&mut self) -> anyhow::Result<Triggers> {
            Ok(Triggers::default())
        }
    }

    #[test]
    fn the_median_is_in_the_middle() {
        let median = |nanos: &[u64]| {
            let run = |nanos: &u64| Run {
                elapsed: Duration::from_nanos(*nanos),
                events: 1,
                triggers: Triggers::default(),
                live_bytes: 0,
                ended: true,
            };
            let runs = nanos.iter().map(run).collect();
            Measurement { workload: "", system: "", trials: 1, runs }.median()
        };
        assert_eq!(
            [median(&[7]), median(&[9, 1]), median(&[9, 1, 2]), median(&[4, 9, 1, 2])],
            [7.0, 5.0, 2.0, 3.0]
        );
    }

    /// Pieces grow while they are fast, over any number of batches.
    #[test]
    fn a_monitor_within_the_limit_is_fed_all_of_many_batches() {
        let workload = Workload::invented("hiring").unwrap().unwrap();
        let batch = workload.trace(100).batches.next().unwrap();
        let rows = Rc::new(Cell::new(0));
        let monitor = Box::new(Rows(Rc::clone(&rows)));
        let limit = Some(Duration::from_secs(3600));
        let mut stopwatch = Stopwatch { monitor, elapsed: Duration::ZERO, limit, piece: PIECE };
        for _ in 0..200 {
            assert_eq!(stopwatch.feed(&batch).unwrap(), batch.len());
        }
        assert_eq!(rows.get(), 200 * batch.len());
    }
}
