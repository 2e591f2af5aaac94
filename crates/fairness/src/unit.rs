//! Units of time, and durations in RTLola syntax and in words.

use std::time::Duration;

use fairstream_core::nearest;
use serde::{Deserialize, Serialize};

use crate::Problem;
use crate::table::{Located, list};

/// Unit of a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Seconds.
    Second,
    /// Minutes.
    Minute,
    /// Hours.
    Hour,
    /// Days.
    Day,
}

impl Unit {
    const ALL: [Unit; 4] = [Unit::Second, Unit::Minute, Unit::Hour, Unit::Day];

    /// The name of the unit in fairness files and after numbers.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Second => "s",
            Unit::Minute => "min",
            Unit::Hour => "h",
            Unit::Day => "d",
        }
    }

    /// Nanoseconds per unit.
    pub fn nanoseconds(self) -> u64 {
        let seconds: u64 = match self {
            Unit::Second => 1,
            Unit::Minute => 60,
            Unit::Hour => 3_600,
            Unit::Day => 86_400,
        };
        seconds * 1_000_000_000
    }

    pub(crate) fn find(name: &Located<String>) -> Result<Unit, Problem> {
        let names = || Unit::ALL.into_iter().map(Unit::name);
        Unit::ALL.into_iter().find(|unit| unit.name() == name.value).ok_or_else(|| {
            let help = match nearest(&name.value, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", list(names())),
            };
            Problem::new(name.at.range(), format!("there is no unit `{}`", name.value)).help(help)
        })
    }
}

/// A duration as RTLola reads it, in the largest unit that has no fraction: `730d`, `90min`.
pub(crate) fn rtlola_duration(duration: Duration) -> String {
    const UNITS: [(&str, u128); 6] = [
        ("d", 86_400_000_000_000),
        ("h", 3_600_000_000_000),
        ("min", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
    ];
    let nanos = duration.as_nanos();
    let (unit, size) = UNITS.into_iter().find(|(_, size)| nanos.is_multiple_of(*size)).unwrap_or(("ns", 1));
    format!("{}{unit}", nanos / size)
}

/// A duration in words: `730 days`, `1 hour`.
pub(crate) fn in_words(duration: Duration) -> String {
    let short = rtlola_duration(duration);
    let (number, unit) = short.split_at(short.find(|c: char| !c.is_ascii_digit()).unwrap_or(short.len()));
    let word = match unit {
        "d" => "day",
        "h" => "hour",
        "min" => "minute",
        "s" => "second",
        "ms" => "millisecond",
        "us" => "microsecond",
        _ => "nanosecond",
    };
    format!("{number} {word}{}", if number == "1" { "" } else { "s" })
}
