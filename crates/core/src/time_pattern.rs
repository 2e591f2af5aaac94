//! Times in a notation of their own, as a strptime pattern describes it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::fmt::strtime::{self, BrokenDownTime};
use jiff::tz::Offset;

/// A strptime pattern such as `%d.%m.%Y %H:%M`. Parts that it does not have are the first month or day, midnight, and
/// UTC. Names of months may be written in full or with three letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimePattern {
    text: Arc<str>,
    /// The pattern with the other notation of names of months, if it has one.
    other_names: Option<Arc<str>>,
}

/// Maximum length of a pattern. Positions contain it.
const LONGEST: usize = 200;

impl FromStr for TimePattern {
    type Err = String;

    fn from_str(text: &str) -> Result<TimePattern, String> {
        if text.len() > LONGEST {
            return Err(format!("a pattern has at most {LONGEST} bytes"));
        }
        let other = if text.contains("%B") { text.replace("%B", "%b") } else { text.replace("%b", "%B") };
        let pattern =
            TimePattern { text: text.into(), other_names: (other != text).then(|| other.as_str().into()) };
        // A pattern that reads back what it writes has only directives that can be read, and a year.
        let sample = Timestamp::from_second(1_794_821_405).unwrap_or_default();
        let written = strtime::format(text, sample).map_err(|error| format!("`{text}`: {error}"))?;
        let read = BrokenDownTime::parse(text, &written).map_err(|error| format!("`{text}`: {error}"))?;
        match whole(read) {
            Some(_) => Ok(pattern),
            None => Err(format!("`{text}` does not determine a date: it needs a year, which is `%Y`")),
        }
    }
}

impl TimePattern {
    /// The pattern as it is written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The time that a text means; `None` if it is not written like that.
    pub(crate) fn read(&self, text: &str) -> Option<Timestamp> {
        let parse = |pattern: &str| BrokenDownTime::parse(pattern, text).ok();
        let other = || parse(self.other_names.as_deref()?);
        whole(parse(&self.text).or_else(other)?)
    }

    /// Writes a time.
    pub(crate) fn write(&self, time: Timestamp, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&strtime::format(self.as_str(), time).unwrap_or_default())
    }

    /// The pattern of a text with a name of a month, or whose numbers can be told apart. `None` if it is not known, or
    /// if day and month may be swapped.
    pub(crate) fn of(text: &str) -> Option<TimePattern> {
        const DATES: [&str; 12] = [
            "%d.%m.%Y",
            "%Y/%m/%d",
            "%Y.%m.%d",
            "%d %B %Y",
            "%d. %B %Y",
            "%d-%B-%Y",
            "%d/%B/%Y",
            "%B %d, %Y",
            "%B %d %Y",
            "%Y-%B-%d",
            "%a, %d %b %Y",
            "%A, %d %B %Y",
        ];
        DATES.into_iter().find_map(|date| with_time_of_day(date, text))
    }
}

/// The pattern of a text with a date in that pattern, and perhaps a time of day.
fn with_time_of_day(date: &str, text: &str) -> Option<TimePattern> {
    const TIMES: [&str; 14] = [
        "",
        " %H:%M",
        " %H:%M:%S",
        " %H:%M:%S%.f",
        ", %H:%M",
        ", %H:%M:%S",
        " %I:%M %p",
        " %I:%M:%S %p",
        ", %I:%M %p",
        ", %I:%M:%S %p",
        " %H:%M %z",
        " %H:%M:%S %z",
        ":%H:%M:%S %z",
        "T%H:%M:%S",
    ];
    let pattern = |time| TimePattern::from_str(&format!("{date}{time}")).ok();
    TIMES.into_iter().filter_map(pattern).find(|pattern| pattern.read(text).is_some())
}

/// The patterns of a date such as `03/01/2026`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DayOrMonth {
    pub(crate) day_first: Option<TimePattern>,
    pub(crate) month_first: Option<TimePattern>,
}

impl DayOrMonth {
    /// `None` if the text is not such a date.
    pub(crate) fn of(text: &str) -> Option<DayOrMonth> {
        let by = |sign: char| {
            let day_first = with_time_of_day(&format!("%d{sign}%m{sign}%Y"), text);
            let month_first = with_time_of_day(&format!("%m{sign}%d{sign}%Y"), text);
            let found = DayOrMonth { day_first, month_first };
            (found.day_first.is_some() || found.month_first.is_some()).then_some(found)
        };
        by('/').or_else(|| by('-'))
    }
}

/// The instant of a time that has been parsed, whose missing parts are the first.
fn whole(mut read: BrokenDownTime) -> Option<Timestamp> {
    if let Some(timestamp) = read.timestamp() {
        return Some(timestamp);
    }
    if read.iana_time_zone().is_some() {
        // Its rules are not known.
        return None;
    }
    let is_in_year = read.day_of_year().is_none()
        && read.sunday_based_week().is_none()
        && read.monday_based_week().is_none();
    if read.year().is_some() && is_in_year {
        if read.month().is_none() {
            read.set_month(Some(1)).ok()?;
        }
        if read.day().is_none() {
            read.set_day(Some(1)).ok()?;
        }
    }
    let civil = read.to_datetime().ok()?;
    read.offset().unwrap_or(Offset::UTC).to_timestamp(civil).ok()
}
