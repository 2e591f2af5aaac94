//! `seminar.lola` by hand.

use arrow::array::{Array, AsArray};
use arrow::datatypes::UInt64Type;
use fairstream_core::{EventBatch, Time};

use super::{Acceptance, Checks, FastMap, HandLoop, Names, gap};
use crate::triggers::{Triggers, instance_hash};

/// Counts places by seminar and gender. At every event, every seminar in violation is reported, not only the one
/// of the event.
pub struct Seminar {
    checks: Checks,
    applicants: FastMap<u64, Applicant>,
    genders: Names,
    names: Names,
    seminars: Vec<Parity>,
    violated: usize,
    triggers: Triggers,
}

struct Applicant {
    seminar: u32,
    gender: u16,
    accepted: bool,
}

/// The counts of one seminar.
struct Parity {
    /// Indexed by number of gender; `None` if no person of that gender has applied.
    counts: Vec<Option<Acceptance>>,
    instance: u64,
    is_violated: bool,
}

impl HandLoop for Seminar {
    fn feed(&mut self, events: &EventBatch) {
        let id = events.rows.column(0).as_primitive::<UInt64Type>();
        let gender = events.rows.column(1).as_string::<i32>();
        let seminar = events.rows.column(2).as_string::<i32>();
        let accepted = events.rows.column(3).as_primitive::<UInt64Type>();
        for row in 0..events.len() {
            while let Some(tick) = self.checks.due_before(events.time(row)) {
                self.report(tick);
            }
            if id.is_valid(row) && gender.is_valid(row) && seminar.is_valid(row) {
                self.apply(id.value(row), gender.value(row), seminar.value(row));
            }
            if accepted.is_valid(row) {
                self.accept(accepted.value(row));
            }
            if self.checks.at_every_event() {
                self.report(events.time(row));
            }
        }
    }

    fn triggers(&self) -> Triggers {
        self.triggers
    }
}

impl Seminar {
    pub fn new(checks: Checks) -> Seminar {
        Seminar {
            checks,
            applicants: FastMap::default(),
            genders: Names::default(),
            names: Names::default(),
            seminars: Vec::new(),
            violated: 0,
            triggers: Triggers::default(),
        }
    }

    fn report(&mut self, time: Time) {
        if self.violated > 0 {
            for seminar in self.seminars.iter().filter(|seminar| seminar.is_violated) {
                self.triggers.fired(time, 0, seminar.instance);
            }
        }
    }

    fn apply(&mut self, id: u64, gender: &str, name: &str) {
        let gender = self.genders.number(gender);
        let seminar = self.names.number(name);
        if seminar == self.seminars.len() {
            let instance = instance_hash(&serde_json::json!([name]).to_string());
            self.seminars.push(Parity { counts: Vec::new(), instance, is_violated: false });
        }
        self.applicants
            .insert(id, Applicant { seminar: seminar as u32, gender: gender as u16, accepted: false });
        self.count(seminar, gender, |counts| counts.applied += 1);
    }

    fn accept(&mut self, id: u64) {
        if let Some(applicant) = self.applicants.get_mut(&id)
            && !applicant.accepted
        {
            applicant.accepted = true;
            let (seminar, gender) = (applicant.seminar as usize, usize::from(applicant.gender));
            self.count(seminar, gender, |counts| counts.accepted += 1);
        }
    }

    fn count(&mut self, seminar: usize, gender: usize, count: impl FnOnce(&mut Acceptance)) {
        let seminar = &mut self.seminars[seminar];
        if gender >= seminar.counts.len() {
            seminar.counts.resize(gender + 1, None);
        }
        count(seminar.counts[gender].get_or_insert_default());
        let is_violated = gap(seminar.counts.iter().flatten().map(|counts| counts.rate())) > 0.1;
        self.violated = self.violated + usize::from(is_violated) - usize::from(seminar.is_violated);
        seminar.is_violated = is_violated;
    }
}
