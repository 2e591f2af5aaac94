//! Loops written by hand, each for one specification: what there is to gain by not being general.
//!
//! They read the same columns and say the same as the engines. Of the events they take for granted
//! only what the specifications say: a person applies once. Ids are any numbers, groups and seminars
//! any strings, and there may be any number of them.

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

/// A loop with what it has counted so far.
pub trait HandLoop {
    /// Judges the rows of a batch one after another.
    fn feed(&mut self, events: &EventBatch);

    /// Judges what is due up to and at a time.
    fn advance(&mut self, _time: Time) {}

    /// What has fired so far.
    fn triggers(&self) -> Triggers;
}

/// When parity is checked.
#[derive(Clone, Copy, Debug)]
pub enum Checks {
    EveryEvent,
    /// Next at this time.
    Daily(Time),
}

impl Checks {
    /// Once a day, on a clock that starts at a time.
    pub fn daily(start: Time) -> Checks {
        Checks::Daily(Time(start.0 + DAY))
    }

    pub fn at_every_event(self) -> bool {
        matches!(self, Checks::EveryEvent)
    }

    /// The next tick, if it comes before a time: what happens at the very time of a tick counts.
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

/// Numbers for names, in order of appearance.
#[derive(Default)]
pub struct Names {
    numbers: FastMap<Box<str>, usize>,
}

impl Names {
    /// How many there are.
    #[allow(clippy::len_without_is_empty, reason = "nobody asks whether there are none")]
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

/// How many applied and were accepted, of one group.
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
