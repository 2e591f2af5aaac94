//! `hiring.lola` and `hiring_lookup.lola` by hand.

use arrow::array::{Array, AsArray};
use arrow::datatypes::UInt64Type;
use fairstream_core::{EventBatch, Time};

use super::{Acceptance, Checks, FastMap, HandLoop, Names, gap};
use crate::triggers::Triggers;

/// Counts people: a person who is accepted twice counts once.
pub struct Hiring {
    applicants: FastMap<u64, Applicant>,
    parity: Parity,
}

impl Hiring {
    pub fn new(checks: Checks) -> Hiring {
        Hiring { applicants: FastMap::default(), parity: Parity::new(checks) }
    }
}

struct Applicant {
    gender: u32,
    accepted: bool,
}

impl HandLoop for Hiring {
    fn feed(&mut self, events: &EventBatch) {
        let Hiring { applicants, parity } = self;
        each(events, parity, |event, parity| match event {
            Event::Applied(id, gender) => {
                let gender = parity.applied(gender);
                applicants.insert(id, Applicant { gender: gender as u32, accepted: false });
            }
            Event::Accepted(id) => {
                if let Some(applicant) = applicants.get_mut(&id)
                    && !applicant.accepted
                {
                    applicant.accepted = true;
                    parity.accepted(applicant.gender as usize);
                }
            }
        });
    }

    fn triggers(&self) -> Triggers {
        self.parity.triggers
    }
}

/// Counts events, and stores only the gender of each person.
pub struct HiringLookup {
    gender_of: FastMap<u64, u32>,
    parity: Parity,
}

impl HiringLookup {
    pub fn new(checks: Checks) -> HiringLookup {
        HiringLookup { gender_of: FastMap::default(), parity: Parity::new(checks) }
    }
}

impl HandLoop for HiringLookup {
    fn feed(&mut self, events: &EventBatch) {
        let HiringLookup { gender_of, parity } = self;
        each(events, parity, |event, parity| match event {
            Event::Applied(id, gender) => {
                let gender = parity.applied(gender);
                gender_of.insert(id, gender as u32);
            }
            Event::Accepted(id) => {
                if let Some(gender) = gender_of.get(&id) {
                    parity.accepted(*gender as usize);
                }
            }
        });
    }

    fn triggers(&self) -> Triggers {
        self.parity.triggers
    }
}

enum Event<'a> {
    Applied(u64, &'a str),
    Accepted(u64),
}

/// Counts every event of a batch with `count`, and checks parity after it.
fn each(events: &EventBatch, parity: &mut Parity, mut count: impl FnMut(Event<'_>, &mut Parity)) {
    let id = events.rows.column(0).as_primitive::<UInt64Type>();
    let gender = events.rows.column(1).as_string::<i32>();
    let accepted = events.rows.column(2).as_primitive::<UInt64Type>();
    for row in 0..events.len() {
        parity.tick(events.time(row));
        if id.is_valid(row) && gender.is_valid(row) {
            count(Event::Applied(id.value(row), gender.value(row)), parity);
        }
        if accepted.is_valid(row) {
            count(Event::Accepted(accepted.value(row)), parity);
        }
        if parity.checks.at_every_event() && parity.is_violated {
            parity.triggers.fired(events.time(row), 0, 0);
        }
    }
}

/// Acceptance rates of genders, and whether they differ too much.
struct Parity {
    checks: Checks,
    genders: Names,
    counts: Vec<Acceptance>,
    rates: Vec<f64>,
    is_violated: bool,
    triggers: Triggers,
}

impl Parity {
    fn new(checks: Checks) -> Parity {
        Parity {
            checks,
            genders: Names::default(),
            counts: Vec::new(),
            rates: Vec::new(),
            is_violated: false,
            triggers: Triggers::default(),
        }
    }

    /// Checks once for each day that is over before a time.
    fn tick(&mut self, time: Time) {
        while let Some(tick) = self.checks.due_before(time) {
            self.is_violated = gap(self.rates.iter().copied()) > 0.1;
            if self.is_violated {
                self.triggers.fired(tick, 0, 0);
            }
        }
    }

    fn applied(&mut self, gender: &str) -> usize {
        let gender = self.genders.number(gender);
        if gender == self.counts.len() {
            self.counts.push(Acceptance::default());
            self.rates.push(0.0);
        }
        self.counts[gender].applied += 1;
        self.update(gender);
        gender
    }

    fn accepted(&mut self, gender: usize) {
        self.counts[gender].accepted += 1;
        self.update(gender);
    }

    fn update(&mut self, gender: usize) {
        self.rates[gender] = self.counts[gender].rate();
        if self.checks.at_every_event() {
            self.is_violated = gap(self.rates.iter().copied()) > 0.1;
        }
    }
}
