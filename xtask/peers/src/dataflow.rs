//! Differential dataflow, which stands for the streaming databases that are built on it or like it.
//!
//! Every event has a time of its own (with daily checks, every day), so that the dataflow computes what holds at
//! each; a whole batch is handed over before the workers step, as is best for it.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::Instant;

use bench::hand::Checks;
use bench::monitor::Monitor;
use bench::triggers::{Triggers, instance_hash};
use bench::workload::{Task, Workload};
use differential_dataflow::input::InputSession;
use differential_dataflow::operators::{CountTotal, ThresholdTotal};
use fairstream_core::{EngineError, EventBatch, Time};
use timely::communication::Allocator;
use timely::communication::allocator::thread::Thread;
use timely::dataflow::ProbeHandle;
use timely::worker::Worker;

use crate::events::{self, Event};

/// Seminar, violated or not any more, at a time.
type Changes = Rc<RefCell<Vec<(u32, u64, isize)>>>;

pub(crate) struct Dataflow {
    task: Task,
    worker: Worker,
    applied: InputSession<u64, (i64, (u32, u32)), isize>,
    accepted: InputSession<u64, i64, isize>,
    probe: ProbeHandle<u64>,
    changes: Changes,
    checks: Checks,
    names: HashMap<String, u32>,
    /// Of seminars, by number.
    instances: Vec<u64>,
    /// The moments of checks that have not been told, by their logical time.
    moments: Vec<(u64, Time)>,
    now: u64,
    /// Seminars that are violated, in order of appearance.
    violated: BTreeMap<u32, isize>,
    triggers: Triggers,
}

impl Dataflow {
    pub(crate) fn new(workload: &Workload, start: Time) -> Dataflow {
        let allocator = Allocator::Thread(Thread::default());
        let mut worker = Worker::new(timely::WorkerConfig::default(), allocator, Some(Instant::now()));
        let mut applied = InputSession::new();
        let mut accepted = InputSession::new();
        let (changes, probe) = (Changes::default(), ProbeHandle::new());
        let told = Rc::clone(&changes);
        worker.dataflow(|scope| {
            let applied = applied.to_collection(scope);
            let accepted = accepted.to_collection(scope);
            let hired = applied.clone().semijoin(accepted.distinct_total());
            // How many applied and how many were hired, as one difference of two numbers.
            applied
                .explode(|(_, group): (i64, (u32, u32))| Some((group, (1_isize, 0_isize))))
                .concat(hired.explode(|(_, group): (i64, (u32, u32))| Some((group, (0_isize, 1_isize)))))
                .count_total()
                .map(|((seminar, _), (applied, hired))| {
                    let rate = (hired as f64 + 0.5 * 24.0) / (applied as f64 + 24.0);
                    // Positive floats are in the order of their bits.
                    (seminar, rate.to_bits())
                })
                .reduce(|_, rates: &[(&u64, isize)], violated| {
                    let (least, most) =
                        (f64::from_bits(*rates[0].0), f64::from_bits(*rates[rates.len() - 1].0));
                    if most - least > 0.1 {
                        violated.push(((), 1_isize));
                    }
                })
                .inspect(move |((seminar, ()), time, change)| {
                    told.borrow_mut().push((*seminar, *time, *change));
                })
                .probe_with(&probe);
        });
        Dataflow {
            task: workload.task,
            worker,
            applied,
            accepted,
            probe,
            changes,
            checks: workload.task.checks(start),
            names: HashMap::new(),
            instances: Vec::new(),
            moments: Vec::new(),
            now: 0,
            violated: BTreeMap::new(),
            triggers: Triggers::default(),
        }
    }

    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.names.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.insert(name.to_owned(), number);
        number
    }

    fn event(&mut self, time: Time, event: &Event<'_>) {
        while let Some(tick) = self.checks.due_before(time) {
            self.check(tick);
        }
        match event {
            Event::Applied { id, gender, seminar } => {
                // Names of seminars and of genders do not meet: they are looked up by kind.
                let place = self.number(&format!("seminar {seminar}"));
                if self.instances.len() <= place as usize {
                    self.instances.resize(place as usize + 1, 0);
                    if matches!(self.task, Task::Seminar { .. }) {
                        self.instances[place as usize] =
                            instance_hash(&serde_json::json!([seminar]).to_string());
                    }
                }
                let gender = self.number(gender);
                self.applied.insert((*id, (place, gender)));
            }
            Event::Accepted(id) => self.accepted.insert(*id),
            Event::Screened { .. } | Event::Offended(_) => {}
        }
        if self.checks.at_every_event() {
            self.check(time);
        }
    }

    /// What has been handed over by now is what a check is of.
    fn check(&mut self, time: Time) {
        self.moments.push((self.now, time));
        self.now += 1;
        self.applied.advance_to(self.now);
        self.accepted.advance_to(self.now);
    }

    fn step(&mut self) {
        self.applied.flush();
        self.accepted.flush();
        let (probe, now) = (&self.probe, self.now);
        self.worker.step_while(|| probe.less_than(&now));
        let mut changes = std::mem::take(&mut *self.changes.borrow_mut());
        changes.sort_unstable_by_key(|(_, time, _)| *time);
        let mut changes = changes.into_iter().peekable();
        for (logical, time) in self.moments.drain(..) {
            while let Some((seminar, _, change)) = changes.next_if(|(_, at, _)| *at <= logical) {
                let count = self.violated.entry(seminar).or_default();
                *count += change;
                if *count == 0 {
                    self.violated.remove(&seminar);
                }
            }
            for seminar in self.violated.keys() {
                self.triggers.fired(time, 0, self.instances[*seminar as usize]);
            }
        }
        assert!(changes.next().is_none(), "the dataflow has changed what was checked already");
    }
}

impl Monitor for Dataflow {
    fn feed(&mut self, events: &EventBatch) -> Result<(), EngineError> {
        events::each(self.task, events, |time, event| {
            self.event(time, &event);
            Ok::<(), EngineError>(())
        })?;
        self.step();
        Ok(())
    }

    fn advance(&mut self, time: Time) -> Result<(), EngineError> {
        while let Some(tick) = self.checks.due_before(Time(time.0 + 1)) {
            self.check(tick);
        }
        self.step();
        Ok(())
    }

    fn triggers(&mut self) -> anyhow::Result<Triggers> {
        Ok(self.triggers)
    }
}
