//! Differential dataflow, which represents the streaming databases that are built on it or similar to it.
//!
//! Every event has its own logical time (with daily checks, every day), so that the dataflow computes the result
//! at each. A whole batch is handed over before the workers step, which is the fastest way to run it.

mod odds;
mod parity;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use bench::hand::Checks;
use bench::monitor::Monitor;
use bench::workload::{Task, Workload};
use differential_dataflow::VecCollection;
use fairstream_core::Time;
use timely::communication::Allocator;
use timely::communication::allocator::thread::Thread;
use timely::dataflow::ProbeHandle;
use timely::worker::Worker;

pub(crate) fn monitor(workload: &Workload, start: Time) -> Box<dyn Monitor> {
    match workload.task {
        Task::Odds(horizon) => Box::new(odds::Odds::new(horizon, start)),
        task => Box::new(parity::Parity::new(task, start)),
    }
}

/// Changes of the set of violations: number of the seminar or outcome, logical time, and +1 or −1.
type Changes = Rc<RefCell<Vec<(u32, u64, isize)>>>;

/// A worker, and the violations that its dataflow reports at the times of checks.
struct Running {
    worker: Worker,
    probe: ProbeHandle<u64>,
    changes: Changes,
    checks: Checks,
    /// Logical and actual times of the checks that have not been reported yet.
    moments: Vec<(u64, Time)>,
    now: u64,
    /// Current violations, in the order of numbers.
    violated: BTreeMap<u32, isize>,
}

impl Running {
    fn new(checks: Checks) -> Running {
        let allocator = Allocator::Thread(Thread::default());
        Running {
            worker: Worker::new(timely::WorkerConfig::default(), allocator, Some(Instant::now())),
            probe: ProbeHandle::new(),
            changes: Changes::default(),
            checks,
            moments: Vec::new(),
            now: 0,
            violated: BTreeMap::new(),
        }
    }

    /// Ends the current logical time, which is that of a check, and returns the next one.
    fn check(&mut self, time: Time) -> u64 {
        self.moments.push((self.now, time));
        self.now += 1;
        self.now
    }

    /// Runs the dataflow until it has caught up, and reports the violations at each check since.
    fn step(&mut self, mut fired: impl FnMut(Time, u32)) {
        let (probe, now) = (&self.probe, self.now);
        self.worker.step_while(|| probe.less_than(&now));
        let mut changes = std::mem::take(&mut *self.changes.borrow_mut());
        changes.sort_unstable_by_key(|(_, time, _)| *time);
        let mut changes = changes.into_iter().peekable();
        for (logical, time) in self.moments.drain(..) {
            while let Some((number, _, change)) = changes.next_if(|(_, at, _)| *at <= logical) {
                let count = self.violated.entry(number).or_default();
                *count += change;
                if *count == 0 {
                    self.violated.remove(&number);
                }
            }
            for number in self.violated.keys() {
                fired(time, *number);
            }
        }
        assert!(changes.next().is_none(), "the dataflow has changed what was checked already");
    }
}

/// Reports the numbers whose rates differ too much. Rates are compared as bits, which for positive floats have the
/// same order.
fn compare(rates: VecCollection<'_, u64, (u32, u64)>, changes: Changes, probe: &ProbeHandle<u64>) {
    rates
        .reduce(|_, rates: &[(&u64, isize)], violated| {
            let (least, most) = (f64::from_bits(*rates[0].0), f64::from_bits(*rates[rates.len() - 1].0));
            if most - least > 0.1 {
                violated.push(((), 1_isize));
            }
        })
        .inspect(move |((number, ()), time, change)| changes.borrow_mut().push((*number, *time, *change)))
        .probe_with(probe);
}
