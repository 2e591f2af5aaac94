//! `compas.lola` and `compas_deadline.lola` by hand.

use std::collections::VecDeque;

use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;
use fairstream_core::{EventBatch, Time};

use super::{FastMap, HandLoop, Names, gap};
use crate::screenings::{DAY, HORIZON};
use crate::triggers::Triggers;

/// When a trial ends.
#[derive(Clone, Copy, Debug)]
pub enum Horizon {
    /// At the 730th daily tick: `compas.lola`.
    Ticks,
    /// 730 days after the screening, to the instant: `compas_deadline.lola`.
    Exact,
}

/// Counts people when their two years are over, and compares the rates of groups once a day.
pub struct Odds {
    horizon: Horizon,
    start: i64,
    next_tick: i64,
    trials: FastMap<i64, Trial>,
    /// End of each open trial: a FIFO queue in order of screening, as all have the same horizon.
    deadlines: VecDeque<(i64, i64)>,
    groups: Names,
    /// For each group, for people who re-offended and for people who did not: the number rated high risk and the
    /// total. Includes the prior.
    counts: Vec<[Counts; 2]>,
    /// Trials that the next tick will count.
    ended: Vec<Trial>,
    has_changed: bool,
    is_violated: [bool; 2],
    triggers: Triggers,
}

struct Trial {
    group: u32,
    is_high: bool,
    has_offended: bool,
}

#[derive(Clone, Copy)]
struct Counts {
    high: u64,
    all: u64,
}

impl Horizon {
    /// End of a trial that begins at `time`.
    pub fn deadline(self, start: i64, time: i64) -> i64 {
        match self {
            Horizon::Exact => time + HORIZON,
            Horizon::Ticks => {
                let since_start = time - start;
                let first_tick = (since_start / DAY + i64::from(since_start % DAY > 0)).max(1);
                start + (first_tick - 1) * DAY + HORIZON
            }
        }
    }
}

impl Odds {
    pub fn new(horizon: Horizon, start: Time) -> Odds {
        Odds {
            horizon,
            start: start.0,
            next_tick: start.0 + DAY,
            trials: FastMap::default(),
            deadlines: VecDeque::new(),
            groups: Names::default(),
            counts: Vec::new(),
            ended: Vec::new(),
            has_changed: false,
            is_violated: [false; 2],
            triggers: Triggers::default(),
        }
    }

    fn screened(&mut self, time: i64, id: i64, group: &str, score: i64) {
        let group = self.groups.number(group);
        if group == self.counts.len() {
            self.counts.push([Counts { high: 50, all: 100 }; 2]);
            self.has_changed = true;
        }
        let deadline = self.horizon.deadline(self.start, time);
        self.deadlines.push_back((deadline, id));
        self.trials.insert(id, Trial { group: group as u32, is_high: score > 6, has_offended: false });
    }

    /// Ends trials and runs ticks, up to and including `until`. A trial that ends at a tick is counted by it.
    fn run_clock(&mut self, until: i64) {
        loop {
            let deadline = self.deadlines.front().map_or(i64::MAX, |(deadline, _)| *deadline);
            if deadline.min(self.next_tick) > until {
                return;
            }
            if deadline <= self.next_tick {
                let ended = self.deadlines.pop_front().and_then(|(_, id)| self.trials.remove(&id));
                self.ended.extend(ended);
            } else {
                self.tick();
                self.next_tick += DAY;
            }
        }
    }

    fn tick(&mut self) {
        self.has_changed |= !self.ended.is_empty();
        for trial in self.ended.drain(..) {
            let counts = &mut self.counts[trial.group as usize][usize::from(!trial.has_offended)];
            counts.high += u64::from(trial.is_high);
            counts.all += 1;
        }
        if std::mem::take(&mut self.has_changed) {
            let rates = |outcome: usize| {
                self.counts.iter().map(move |counts| counts[outcome].high as f64 / counts[outcome].all as f64)
            };
            self.is_violated = [gap(rates(0)) > 0.1, gap(rates(1)) > 0.1];
        }
        for (trigger, is_violated) in (0..).zip(self.is_violated) {
            if is_violated {
                self.triggers.fired(Time(self.next_tick), trigger, 0);
            }
        }
    }
}

impl HandLoop for Odds {
    fn feed(&mut self, events: &EventBatch) {
        let event = events.rows.column(0).as_string::<i32>();
        let id = events.rows.column(1).as_primitive::<Int64Type>();
        let group = events.rows.column(2).as_string::<i32>();
        let score = events.rows.column(3).as_primitive::<Int64Type>();
        for row in 0..events.len() {
            let time = events.times[row];
            // What is due at the time of the row is evaluated after the row.
            self.run_clock(time - 1);
            if event.is_null(row) || id.is_null(row) {
                continue;
            }
            match event.value(row) {
                "SCREEN" if group.is_valid(row) && score.is_valid(row) => {
                    self.screened(time, id.value(row), group.value(row), score.value(row));
                }
                "RECIDIVISM" => {
                    if let Some(trial) = self.trials.get_mut(&id.value(row)) {
                        trial.has_offended = true;
                    }
                }
                _ => {}
            }
        }
    }

    fn advance(&mut self, time: Time) {
        self.run_clock(time.0);
    }

    fn triggers(&self) -> Triggers {
        self.triggers
    }
}
