//! Equalized odds: of the people whose two years are over, those who re-offended and those who were rated a high
//! risk.

use std::rc::Rc;

use bench::hand::{Horizon, Names};
use bench::monitor::Monitor;
use bench::screenings::DAY;
use bench::triggers::Triggers;
use bench::workload::Task;
use differential_dataflow::input::InputSession;
use differential_dataflow::operators::{CountTotal, ThresholdTotal};
use fairstream_core::{EngineError, EventBatch, Time};

use super::{Running, compare};
use crate::events::{self, Event};

/// Group, and whether the score was high.
type Rated = (u32, bool);

pub(super) struct Odds {
    horizon: Horizon,
    start: i64,
    running: Running,
    groups: InputSession<u64, u32, isize>,
    /// Id and end of the horizon, inserted at the screening.
    screened: InputSession<u64, (i64, i64), isize>,
    /// Id and rating of people whose horizon is over: inserted at the screening, with the logical time of the day
    /// on which it ends.
    judged: InputSession<u64, (i64, Rated), isize>,
    offended: InputSession<u64, (i64, i64), isize>,
    names: Names,
    triggers: Triggers,
}

impl Odds {
    pub(super) fn new(horizon: Horizon, start: Time) -> Odds {
        let mut running = Running::new(Task::Odds(horizon).checks(start));
        let (mut groups, mut screened) = (InputSession::new(), InputSession::new());
        let (mut judged, mut offended) = (InputSession::new(), InputSession::new());
        let (changes, probe) = (Rc::clone(&running.changes), &running.probe);
        running.worker.dataflow(|scope| {
            let in_time = offended
                .to_collection(scope)
                .join_map(screened.to_collection(scope), |id: &i64, offence: &i64, deadline: &i64| {
                    (*id, offence <= deadline)
                })
                .filter(|(_, is_in_time)| *is_in_time)
                .map(|(id, _)| id)
                .distinct_total();
            let judged = judged.to_collection(scope);
            let recidivists = judged.clone().semijoin(in_time);
            // The number rated high risk and the total, as one difference of two numbers. People who did not
            // re-offend are all people minus those who did.
            let did = recidivists.clone().explode(|(_, (group, is_high)): (i64, Rated)| {
                let high = isize::from(is_high);
                [((0_u32, group), (high, 1_isize)), ((1, group), (-high, -1))]
            });
            let all = judged.explode(|(_, (group, is_high)): (i64, Rated)| {
                Some(((1_u32, group), (isize::from(is_high), 1_isize)))
            });
            let prior = groups
                .to_collection(scope)
                .explode(|group: u32| [0_u32, 1].map(|outcome| ((outcome, group), (50_isize, 100_isize))));
            let rates = did
                .concat(all)
                .concat(prior)
                .count_total()
                .map(|((outcome, _), (high, all))| (outcome, (high as f64 / all as f64).to_bits()));
            compare(rates, changes, probe);
        });
        Odds {
            horizon,
            start: start.0,
            running,
            groups,
            screened,
            judged,
            offended,
            names: Names::default(),
            triggers: Triggers::default(),
        }
    }

    fn event(&mut self, time: Time, event: &Event<'_>) {
        while let Some(tick) = self.running.checks.due_before(time) {
            self.check(tick);
        }
        match event {
            Event::Screened { id, group, is_high } => {
                let known = self.names.len() as u32;
                let group = self.names.number(group) as u32;
                if group == known {
                    self.groups.insert(group);
                }
                let deadline = self.horizon.deadline(self.start, time.0);
                self.screened.insert((*id, deadline));
                // A trial is counted by the first check that is not before its deadline; the first check of all
                // has the logical time 0.
                let days = (deadline - self.start + DAY - 1) / DAY;
                self.judged.update_at((*id, (group, *is_high)), days as u64 - 1, 1);
            }
            Event::Offended(id) => self.offended.insert((*id, time.0)),
            Event::Applied { .. } | Event::Accepted(_) => {}
        }
    }

    fn check(&mut self, time: Time) {
        let now = self.running.check(time);
        self.groups.advance_to(now);
        self.screened.advance_to(now);
        self.judged.advance_to(now);
        self.offended.advance_to(now);
    }

    fn step(&mut self) {
        self.groups.flush();
        self.screened.flush();
        self.judged.flush();
        self.offended.flush();
        let triggers = &mut self.triggers;
        self.running.step(|time, outcome| triggers.fired(time, u64::from(outcome), 0));
    }
}

impl Monitor for Odds {
    fn feed(&mut self, events: &EventBatch) -> Result<(), EngineError> {
        events::each(Task::Odds(self.horizon), events, |time, event| {
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
