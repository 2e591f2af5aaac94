//! Hand-written loops, each for one specification. They are the limit of what a special-purpose program can gain.
//!
//! They read the same columns and give the same verdicts as the engines. They assume of the events only what the
//! specifications say: a person applies once. Ids are any numbers, groups and seminars any strings, and there may
//! be any number of them.

mod hiring;
mod odds;
mod seminar;

use std::collections::HashMap;

use fairstream_core::{EventBatch, Time};
use foldhash::fast::RandomState;

use crate::screenings::DAY;
use crate::triggers::Triggers;

pub use hiring::{Hiring, HiringLookup};
pub use odds::{Horizon, Odds};
pub use seminar::Seminar;

/// A loop with its state.
pub trait HandLoop {
    /// Evaluates the rows of a batch one after another.
    fn feed(&mut self, events: &EventBatch);

    /// Evaluates what is due up to and including a time.
    fn advance(&mut self, _time: Time) {}

    /// The triggers that have fired so far.
    fn triggers(&self) -> Triggers;
}

/// When parity is checked.
#[derive(Clone, Copy, Debug)]
pub enum Checks {
    EveryEvent,
    /// Once a day; the field is the time of the next check.
    Daily(Time),
}

impl Checks {
    /// Once a day, on a clock that starts at `start`.
    pub fn daily(start: Time) -> Checks {
        Checks::Daily(Time(start.0 + DAY))
    }

    pub fn at_every_event(self) -> bool {
        matches!(self, Checks::EveryEvent)
    }

    /// The next tick, if it is before `time`: events at the time of a tick count for that tick.
    pub fn due_before(&mut self, time: Time) -> Option<Time> {
        match self {
            Checks::Daily(next) if *next < time => {
                let due = *next;
                *next = Time(due.0 + DAY);
                Some(due)
            }
            _ => None,
        }
    }
}

pub(crate) type FastMap<K, V> = HashMap<K, V, RandomState>;

/// Assigns consecutive numbers to names, in order of appearance.
#[derive(Default)]
pub struct Names {
    numbers: FastMap<Box<str>, usize>,
}

impl Names {
    /// The number of names.
    #[allow(clippy::len_without_is_empty, reason = "there is no caller")]
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    pub fn number(&mut self, name: &str) -> usize {
        match self.numbers.get(name) {
            Some(number) => *number,
            None => {
                let number = self.len();
                self.numbers.insert(name.into(), number);
                number
            }
        }
    }
}

/// Number of applications and acceptances of one group.
#[derive(Clone, Copy, Default)]
struct Acceptance {
    applied: u64,
    accepted: u64,
}

impl Acceptance {
    /// The MAP estimate with γ = 0.5 and κ = 24.
    fn rate(self) -> f64 {
        (self.accepted as f64 + 0.5 * 24.0) / (self.applied as f64 + 24.0)
    }
}

/// The largest difference between any two rates; 0 if there are none.
fn gap(rates: impl Iterator<Item = f64>) -> f64 {
    let (least, most) = rates
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), rate| (least.min(rate), most.max(rate)));
    if most < least { 0.0 } else { most - least }
}
