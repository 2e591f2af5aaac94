//! Generates applications and acceptances for the workloads hiring and seminar.
//!
//! Acceptance is fair except for a phase in which the first seminar (for hiring: the only one) accepts hardly any
//! women. The length of the phase is chosen such that a few per cent of all events violate parity.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray, UInt64Array};
use fairstream_core::Time;

use crate::random::{Random, scatter};
use crate::trace::Trace;

const GENDERS: [&str; 2] = ["F", "M"];
const SEMINARS: [&str; 10] = [
    "Algorithms",
    "Databases",
    "Compilers",
    "Cryptography",
    "Computer Graphics",
    "Machine Learning",
    "Networks",
    "Operating Systems",
    "Runtime Verification",
    "Robotics",
];

#[derive(Clone, Copy)]
enum Admission {
    Applied { id: u64, gender: usize, seminar: usize },
    Accepted(u64),
}

/// Events with a single job that all people apply for.
pub fn hiring(trials: u64) -> Trace {
    Trace::new(Time(0), None, Admissions::new(trials, 1), |events| {
        let [id, gender, _, accepted] = columns(events);
        vec![id, gender, accepted]
    })
}

/// Events with ten seminars.
pub fn seminar(trials: u64) -> Trace {
    Trace::new(Time(0), None, Admissions::new(trials, SEMINARS.len()), |events| columns(events).into())
}

fn columns(events: &[(Time, Admission)]) -> [(&'static str, ArrayRef); 4] {
    let applied = |text: fn(usize, usize) -> &'static str| -> ArrayRef {
        Arc::new(StringArray::from_iter(events.iter().map(|(_, event)| match event {
            Admission::Applied { gender, seminar, .. } => Some(text(*gender, *seminar)),
            Admission::Accepted(_) => None,
        })))
    };
    let ids = |of: fn(&Admission) -> Option<u64>| -> ArrayRef {
        Arc::new(UInt64Array::from_iter(events.iter().map(|(_, event)| of(event))))
    };
    [
        ("id", ids(|event| if let Admission::Applied { id, .. } = event { Some(*id) } else { None })),
        ("gender", applied(|gender, _| GENDERS[gender])),
        ("seminar", applied(|_, seminar| SEMINARS[seminar])),
        ("accepted", ids(|event| if let Admission::Accepted(id) = event { Some(*id) } else { None })),
    ]
}

struct Admissions {
    random: Random,
    time: i64,
    trials: u64,
    applied: u64,
    /// Number of applications to the first seminar so far, and the range of them that falls into the unfair phase.
    first_seminar: u64,
    unfair: std::ops::Range<u64>,
    /// For each seminar and gender, the fraction of a place that is left over. Places are assigned by quota and
    /// not by lot, so that small seminars do not violate parity by chance.
    quota: Vec<[f64; 2]>,
    /// Ring buffer of accepted applicants, indexed by the number of applications until the acceptance.
    decided: Vec<Vec<u64>>,
    /// Applicants whose acceptance is the next event.
    accepted: Vec<u64>,
}

impl Admissions {
    fn new(trials: u64, seminars: usize) -> Admissions {
        let for_first = trials / seminars as u64;
        let from = (for_first / 100).max(40);
        // Number of applications between an application and its decision. Bounded, so that it does not grow with
        // the total number of applicants.
        let longest_wait = (trials / 100).clamp(10, 10_000) as usize;
        Admissions {
            random: Random::new(trials ^ seminars as u64),
            time: 0,
            trials,
            applied: 0,
            first_seminar: 0,
            unfair: from..from + (for_first / 200).max(24),
            quota: vec![[0.5; 2]; seminars],
            decided: vec![Vec::new(); longest_wait],
            accepted: Vec::new(),
        }
    }

    fn apply(&mut self) -> Admission {
        let id = scatter(self.applied);
        let gender = self.random.below(2) as usize;
        let seminar = self.random.below(self.quota.len() as u64) as usize;
        let is_unfair = seminar == 0 && self.unfair.contains(&self.first_seminar);
        let rate = match (is_unfair, GENDERS[gender]) {
            (true, "F") => 0.0,
            (true, _) => 0.8,
            // Seminars have different acceptance rates.
            (false, _) if self.quota.len() > 1 => 0.26 + 0.02 * seminar as f64,
            (false, _) => 0.35,
        };
        self.first_seminar += u64::from(seminar == 0);
        let quota = &mut self.quota[seminar][gender];
        *quota += rate;
        if *quota >= 1.0 {
            *quota -= 1.0;
            let wait = self.random.below(self.decided.len() as u64);
            let slot = (self.applied + wait) as usize % self.decided.len();
            self.decided[slot].push(id);
        }
        Admission::Applied { id, gender, seminar }
    }
}

impl Iterator for Admissions {
    type Item = (Time, Admission);

    fn next(&mut self) -> Option<(Time, Admission)> {
        self.time += 1_000_000 * (1 + self.random.below(60_000)) as i64;
        if let Some(id) = self.accepted.pop() {
            return Some((Time(self.time), Admission::Accepted(id)));
        }
        // Decisions that are pending after the last application follow it.
        while self.applied < self.trials + self.decided.len() as u64 {
            let slot = self.applied as usize % self.decided.len();
            let application = (self.applied < self.trials).then(|| self.apply());
            self.applied += 1;
            self.accepted = std::mem::take(&mut self.decided[slot]);
            let event = application.or_else(|| self.accepted.pop().map(Admission::Accepted));
            if let Some(event) = event {
                return Some((Time(self.time), event));
            }
        }
        None
    }
}
