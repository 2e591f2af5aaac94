//! Demographic and conditional parity: the number of applications and acceptances of each gender in each seminar.

use std::rc::Rc;

use bench::hand::Names;
use bench::monitor::Monitor;
use bench::triggers::{Triggers, instance_hash};
use bench::workload::Task;
use differential_dataflow::input::InputSession;
use differential_dataflow::operators::{CountTotal, ThresholdTotal};
use fairstream_core::{EngineError, EventBatch, Time};

use super::{Running, compare};
use crate::events::{self, Event};

pub(super) struct Parity {
    task: Task,
    running: Running,
    applied: InputSession<u64, (i64, (u32, u32)), isize>,
    accepted: InputSession<u64, i64, isize>,
    genders: Names,
    seminars: Names,
    /// Instance hash of each seminar, by number.
    instances: Vec<u64>,
    triggers: Triggers,
}

impl Parity {
    pub(super) fn new(task: Task, start: Time) -> Parity {
        let mut running = Running::new(task.checks(start));
        let mut applied = InputSession::new();
        let mut accepted = InputSession::new();
        let (changes, probe) = (Rc::clone(&running.changes), &running.probe);
        running.worker.dataflow(|scope| {
            let applied = applied.to_collection(scope);
            let accepted = accepted.to_collection(scope);
            let hired = applied.clone().semijoin(accepted.distinct_total());
            // The numbers of applications and acceptances, as one difference of two numbers.
            let rates = applied
                .explode(|(_, group): (i64, (u32, u32))| Some((group, (1_isize, 0_isize))))
                .concat(hired.explode(|(_, group): (i64, (u32, u32))| Some((group, (0_isize, 1_isize)))))
                .count_total()
                .map(|((seminar, _), (applied, hired))| {
                    let rate = (hired as f64 + 0.5 * 24.0) / (applied as f64 + 24.0);
                    (seminar, rate.to_bits())
                });
            compare(rates, changes, probe);
        });
        Parity {
            task,
            running,
            applied,
            accepted,
            genders: Names::default(),
            seminars: Names::default(),
            instances: Vec::new(),
            triggers: Triggers::default(),
        }
    }

    fn event(&mut self, time: Time, event: &Event<'_>) {
        while let Some(tick) = self.running.checks.due_before(time) {
            self.check(tick);
        }
        match event {
            Event::Applied { id, gender, seminar } => {
                let place = self.seminars.number(seminar) as u32;
                if self.instances.len() <= place as usize {
                    self.instances.resize(place as usize + 1, 0);
                    if matches!(self.task, Task::Seminar { .. }) {
                        self.instances[place as usize] =
                            instance_hash(&serde_json::json!([seminar]).to_string());
                    }
                }
                let gender = self.genders.number(gender) as u32;
                self.applied.insert((*id, (place, gender)));
            }
            Event::Accepted(id) => self.accepted.insert(*id),
            Event::Screened { .. } | Event::Offended(_) => {}
        }
        if self.running.checks.at_every_event() {
            self.check(time);
        }
    }

    fn check(&mut self, time: Time) {
        let now = self.running.check(time);
        self.applied.advance_to(now);
        self.accepted.advance_to(now);
    }

    fn step(&mut self) {
        self.applied.flush();
        self.accepted.flush();
        let Parity { running, triggers, instances, .. } = self;
        running.step(|time, seminar| triggers.fired(time, 0, instances[seminar as usize]));
    }
}

impl Monitor for Parity {
    fn feed(&mut self, events: &EventBatch) -> Result<(), EngineError> {
        events::each(self.task, events, |time, event| {
            self.event(time, &event);
            Ok::<(), EngineError>(())
        })?;
        self.step();
        Ok(())
    }

    fn advance(&mut self, time: Time) -> Result<(), EngineError> {
        while let Some(tick) = self.running.checks.due_before(Time(time.0 + 1)) {
            self.check(tick);
        }
        self.step();
        Ok(())
    }

    fn triggers(&mut self) -> anyhow::Result<Triggers> {
        Ok(self.triggers)
    }
}
