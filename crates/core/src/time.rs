//! Event time: what it is, how it is written, how it is read.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::Offset;

use crate::time_pattern::{DayOrMonth, TimePattern};

/// An instant: nanoseconds since the Unix epoch, from the year 1677 to 2262.
///
/// A trace with relative time starts near zero, so its first second is `1970-01-01T00:00:01Z`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(
    /// Nanoseconds since the Unix epoch.
    pub i64,
);

impl Time {
    /// The time this much later; the latest time if that is out of range.
    pub fn saturating_add(self, duration: Duration) -> Time {
        Time(self.0.saturating_add(nanos(duration)))
    }

    /// The time this much earlier; the earliest time if that is out of range.
    pub fn saturating_sub(self, duration: Duration) -> Time {
        Time(self.0.saturating_sub(nanos(duration)))
    }

    /// Human-readable text: `3.5s` if it is probably relative to the start of a trace, that is before March 1973; else
    /// RFC 3339 without trailing zeros.
    pub fn for_people(self) -> String {
        if self.0 < RELATIVE_BELOW * SECOND {
            let sign = if self.0 < 0 { "-" } else { "" };
            let (seconds, nanos) =
                (self.0.unsigned_abs() / 1_000_000_000, self.0.unsigned_abs() % 1_000_000_000);
            let fraction = format!("{nanos:09}");
            let fraction = fraction.trim_end_matches('0');
            let dot = if fraction.is_empty() { "" } else { "." };
            return format!("{sign}{seconds}{dot}{fraction}s");
        }
        self.timestamp().to_string()
    }

    /// The time of a row that is taken in its order: as many seconds after the start as its number among the rows of
    /// its source, counted from 1.
    pub fn of_row(number: u64) -> Time {
        Time(i64::try_from(number).unwrap_or(i64::MAX).saturating_mul(SECOND))
    }

    pub(crate) fn timestamp(self) -> Timestamp {
        // Every i64 of nanoseconds is within jiff's range of years.
        Timestamp::from_nanosecond(i128::from(self.0)).unwrap_or_default()
    }
}

const SECOND: i64 = 1_000_000_000;

/// In place of the name of a time column: rows are taken in their order, each at [`Time::of_row`]. A column with this
/// name takes precedence.
pub const ROW_ORDER: &str = "row";

/// The same, whatever columns there are: for tables whose rows need no time. Cannot be given on a command line.
pub const ROW_ORDER_ONLY: &str = "\0row";

/// Limit below which a number of seconds, about three years, is taken as relative if the format is not given.
const RELATIVE_BELOW: i64 = 100_000_000;

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Any of the written forms that [`TimeFormat::Auto`] recognises.
impl FromStr for Time {
    type Err = BadTime;

    fn from_str(text: &str) -> Result<Time, BadTime> {
        TimeReader::new(TimeFormat::Auto).read(text)
    }
}

/// How a time is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TimeFormat {
    /// Decided by the first time that is read, and kept: text is [`TimeFormat::Iso`], or a date with dots or the name
    /// of a month, whose pattern is kept; a number is relative seconds below 10⁸, seconds below 10¹¹, milliseconds
    /// below 10¹⁴, microseconds below 10¹⁷, else nanoseconds. Eight digits that could be a date are refused, and so is
    /// a date whose day and month could be swapped.
    #[default]
    Auto,
    /// A date, a date and time (UTC unless an offset is given), or RFC 3339.
    Iso,
    /// RFC 3339 with an offset: `2026-11-16T09:30:00.5+01:00`.
    Rfc3339,
    /// A date, meaning its midnight in UTC: `2026-11-16` or `20261116`.
    Date,
    /// Seconds since the start of the trace, at which the clock of periodic streams starts.
    Relative,
    /// Seconds since the epoch, with up to nine decimals.
    Seconds,
    /// Milliseconds since the epoch.
    Millis,
    /// Microseconds since the epoch.
    Micros,
    /// Nanoseconds since the epoch.
    Nanos,
    /// As a pattern says.
    Pattern(TimePattern),
}

impl TimeFormat {
    /// What a user can give as a format, for help texts.
    pub const HELP: &'static str =
        "auto, iso, rfc3339, date, s, ms, us, ns, relative, or a pattern such as %d.%m.%Y %H:%M";

    const NAMES: [(&'static str, TimeFormat); 9] = [
        ("auto", TimeFormat::Auto),
        ("iso", TimeFormat::Iso),
        ("rfc3339", TimeFormat::Rfc3339),
        ("date", TimeFormat::Date),
        ("s", TimeFormat::Seconds),
        ("ms", TimeFormat::Millis),
        ("us", TimeFormat::Micros),
        ("ns", TimeFormat::Nanos),
        ("relative", TimeFormat::Relative),
    ];

    /// The names that a user can give a format that is not a pattern.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().map(|(name, _)| *name)
    }

    /// The name of this format, or its pattern.
    pub fn name(&self) -> &str {
        if let TimeFormat::Pattern(pattern) = self {
            return pattern.as_str();
        }
        Self::NAMES.iter().find(|(_, format)| format == self).map_or("auto", |(name, _)| name)
    }

    fn of_first(text: &str) -> TimeFormat {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        match unsigned.parse::<f64>() {
            Ok(number) if number >= 1e17 => TimeFormat::Nanos,
            Ok(number) if number >= 1e14 => TimeFormat::Micros,
            Ok(number) if number >= 1e11 => TimeFormat::Millis,
            Ok(number) if number >= RELATIVE_BELOW as f64 => TimeFormat::Seconds,
            Ok(_) => TimeFormat::Relative,
            Err(_) if rfc3339(text).or_else(|| utc(text)).is_some() => TimeFormat::Iso,
            Err(_) => TimePattern::of(text).map_or(TimeFormat::Iso, TimeFormat::Pattern),
        }
    }
}

impl FromStr for TimeFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<TimeFormat, String> {
        if name.contains('%') {
            return name.parse().map(TimeFormat::Pattern);
        }
        let known = Self::NAMES.iter().find(|(known, _)| *known == name);
        known.map(|(_, format)| format.clone()).ok_or_else(|| {
            let names: Vec<_> = Self::names().collect();
            format!(
                "`{name}` is not a time format; there are {}, and patterns such as `%d.%m.%Y %H:%M`",
                names.join(", ")
            )
        })
    }
}

/// Reads the times of one source, all in one format.
#[derive(Clone, Debug)]
pub struct TimeReader {
    format: TimeFormat,
    /// The last text that could not be read, until it is taken.
    refused: Option<BadTime>,
}

impl TimeReader {
    /// A reader of that format.
    pub fn new(format: TimeFormat) -> TimeReader {
        TimeReader { format, refused: None }
    }

    /// The format; no longer [`TimeFormat::Auto`] once a time has been read.
    pub fn format(&self) -> &TimeFormat {
        &self.format
    }

    /// Whether the times count from the start of the trace.
    pub fn is_relative(&self) -> bool {
        self.format == TimeFormat::Relative
    }

    /// Fast path of [`read`](TimeReader::read) for times that consist of digits, once the format is known. `None` means
    /// that `read` must decide.
    #[inline]
    pub fn read_digits(&self, word: &[u8]) -> Option<Time> {
        let scale = match &self.format {
            TimeFormat::Relative | TimeFormat::Seconds => 9,
            TimeFormat::Millis => 6,
            TimeFormat::Micros => 3,
            TimeFormat::Nanos => 0,
            TimeFormat::Auto
            | TimeFormat::Iso
            | TimeFormat::Rfc3339
            | TimeFormat::Date
            | TimeFormat::Pattern(_) => return None,
        };
        whole(word, scale)
    }

    /// Reads one time.
    ///
    /// # Errors
    /// The text is not a time in this format, or outside the years 1677 to 2262.
    pub fn read(&mut self, text: &str) -> Result<Time, BadTime> {
        self.try_read(text).inspect_err(|bad| self.refused = Some(bad.clone()))
    }

    /// The last text that could not be read since this was asked before.
    pub fn take_refused(&mut self) -> Option<BadTime> {
        self.refused.take()
    }

    fn try_read(&mut self, text: &str) -> Result<Time, BadTime> {
        let text = text.trim();
        let bad = |fault| BadTime { text: text.to_owned(), fault };
        if self.format != TimeFormat::Auto {
            let time = read_as(&self.format, text).ok_or_else(|| bad(TimeFault::Not(self.format.clone())))?;
            return if is_leap_second(&self.format, text, time) {
                Err(bad(TimeFault::LeapSecond))
            } else {
                Ok(time)
            };
        }
        let format = TimeFormat::of_first(text);
        let time = read_as(&format, text).ok_or_else(|| match DayOrMonth::of(text) {
            Some(patterns) => bad(TimeFault::DayOrMonth(patterns)),
            None => bad(TimeFault::Unknown),
        })?;
        if format == TimeFormat::Relative && is_compact_date(text) {
            return Err(bad(TimeFault::DateOrSeconds));
        }
        if is_leap_second(&format, text, time) {
            return Err(bad(TimeFault::LeapSecond));
        }
        self.format = format;
        Ok(time)
    }
}

fn read_as(format: &TimeFormat, text: &str) -> Option<Time> {
    match format {
        TimeFormat::Auto | TimeFormat::Iso => rfc3339(text).or_else(|| utc(text)),
        TimeFormat::Rfc3339 => rfc3339(text),
        TimeFormat::Date => date(text),
        TimeFormat::Relative | TimeFormat::Seconds => decimal(text, 9),
        TimeFormat::Millis => decimal(text, 6),
        TimeFormat::Micros => decimal(text, 3),
        TimeFormat::Nanos => decimal(text, 0),
        TimeFormat::Pattern(pattern) => pattern.read(text).and_then(in_range),
    }
}

/// Whether a text that was read as `time` has second 60, which is read as if it were 59: then a text with 59 in its place
/// is the same time.
fn is_leap_second(format: &TimeFormat, text: &str, time: Time) -> bool {
    let has_seconds = matches!(format, TimeFormat::Iso | TimeFormat::Rfc3339 | TimeFormat::Pattern(_));
    has_seconds
        && time.0.div_euclid(SECOND).rem_euclid(60) == 59
        && text.match_indices("60").any(|(at, sixty)| {
            let other = [&text[..at], "59", &text[at + sixty.len()..]].concat();
            read_as(format, &other) == Some(time)
        })
}

/// A text that is not a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadTime {
    text: String,
    fault: TimeFault,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TimeFault {
    /// It is not written in this format.
    Not(TimeFormat),
    /// It is the first time, and its format is not recognised.
    Unknown,
    /// It is the first time, and may be a date without dashes.
    DateOrSeconds,
    /// It is the first time, and its day and month may be swapped.
    DayOrMonth(DayOrMonth),
    /// It is a leap second, which nanoseconds since 1970 do not count.
    LeapSecond,
}

impl std::error::Error for BadTime {}

impl BadTime {
    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The error of the first time of an input, with further times of that input, and how formats are given.
    pub fn with_examples(&self, others: &[String]) -> String {
        let others: Vec<String> = others.iter().map(|other| format!("`{other}`")).collect();
        let others = match others.as_slice() {
            [] => String::new(),
            others => format!(" (after it: {})", others.join(", ")),
        };
        let names: Vec<_> = TimeFormat::names().filter(|name| *name != "auto").collect();
        match &self.fault {
            TimeFault::DateOrSeconds | TimeFault::DayOrMonth(_) | TimeFault::LeapSecond => {
                format!("{self}{others}")
            }
            TimeFault::Not(_) | TimeFault::Unknown => format!(
                "{self}{others}; say how times are written with `--time-format`: {}, or a pattern such as \
                 `%d.%m.%Y %H:%M`, `%m/%d/%Y` or `%Y`; `--time row` takes rows in their order instead",
                names.join(", ")
            ),
        }
    }
}

impl fmt::Display for BadTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        let wanted = match &self.fault {
            TimeFault::DateOrSeconds => {
                return write!(
                    f,
                    "`{text}` may be a date or a number of seconds; say which with `--time-format date` or `s`"
                );
            }
            TimeFault::LeapSecond => {
                return write!(
                    f,
                    "`{text}` is a leap second, which is no time of its own; write the second before or after it"
                );
            }
            TimeFault::DayOrMonth(DayOrMonth { day_first, month_first }) => {
                let swapped = |other: &Option<TimePattern>| {
                    let other = other.as_ref().map(TimePattern::as_str).unwrap_or_default();
                    // Both begin with two directives of two bytes and a sign between them.
                    let (first, rest) = other.split_at_checked(2).unwrap_or_default();
                    let (sign, rest) = rest.split_at_checked(1).unwrap_or_default();
                    let (second, rest) = rest.split_at_checked(2).unwrap_or_default();
                    format!("{second}{sign}{first}{rest}")
                };
                let of = |own: &Option<TimePattern>, other| {
                    own.as_ref().map_or_else(|| swapped(other), |own| own.as_str().to_owned())
                };
                let (day, month) = (of(day_first, month_first), of(month_first, day_first));
                return match (day_first, month_first) {
                    (Some(_), Some(_)) => write!(
                        f,
                        "`{text}` may have its day or its month first; say which with `--time-format '{day}'` or \
                         `'{month}'`"
                    ),
                    (Some(_), None) => write!(
                        f,
                        "`{text}` can only have its day first; say whether all times have with \
                         `--time-format '{day}'` (`'{month}'` is the other way)"
                    ),
                    _ => write!(
                        f,
                        "`{text}` can only have its month first; say whether all times have with \
                         `--time-format '{month}'` (`'{day}'` is the other way)"
                    ),
                };
            }
            TimeFault::Unknown => "a time (a number of seconds, a date, or RFC 3339)",
            TimeFault::Not(TimeFormat::Pattern(pattern)) => {
                return write!(
                    f,
                    "`{text}` is not a time as `{}` says, between the years 1677 and 2262",
                    pattern.as_str()
                );
            }
            TimeFault::Not(format) => match format {
                TimeFormat::Auto | TimeFormat::Iso | TimeFormat::Pattern(_) => "a date or RFC 3339 time",
                TimeFormat::Rfc3339 => "an RFC 3339 time such as 2026-11-16T09:30:00Z",
                TimeFormat::Date => "a date such as 2026-11-16",
                TimeFormat::Relative | TimeFormat::Seconds => "a number of seconds",
                TimeFormat::Millis => "a number of milliseconds",
                TimeFormat::Micros => "a number of microseconds",
                TimeFormat::Nanos => "a number of nanoseconds",
            },
        };
        write!(f, "`{text}` is not {wanted} between the years 1677 and 2262")
    }
}

fn in_range(timestamp: Timestamp) -> Option<Time> {
    i64::try_from(timestamp.as_nanosecond()).ok().map(Time)
}

fn rfc3339(text: &str) -> Option<Time> {
    text.parse::<Timestamp>().ok().and_then(in_range)
}

fn utc(text: &str) -> Option<Time> {
    // An annotation such as `[Europe/Berlin]` would be ignored.
    let civil: DateTime = if text.contains('[') { None } else { text.parse().ok() }?;
    Offset::UTC.to_timestamp(civil).ok().and_then(in_range)
}

fn date(text: &str) -> Option<Time> {
    let is_date = text.len() == "2026-11-16".len() || text.len() == "20261116".len();
    let date: Date = if is_date { text.parse().ok() } else { None }?;
    Offset::UTC.to_timestamp(date.to_datetime(jiff::civil::Time::midnight())).ok().and_then(in_range)
}

fn is_compact_date(text: &str) -> bool {
    text.len() == 8 && ("1900".."2100").contains(&&text[..4]) && date(text).is_some()
}

/// A number of one to nineteen digits; `None` for any other text.
#[inline]
pub fn digits(word: &[u8]) -> Option<u64> {
    if word.is_empty() || word.len() > 19 {
        return None;
    }
    word.iter().try_fold(0, |number: u64, byte| {
        let digit = byte.wrapping_sub(b'0');
        // Nineteen nines are below the limit of an u64.
        (digit < 10).then(|| number * 10 + u64::from(digit))
    })
}

/// `text` as a number of nanoseconds, where one of its units has 10^`scale`.
fn decimal(text: &str, scale: u32) -> Option<Time> {
    let long = || scaled(text, scale).and_then(|nanos| i64::try_from(nanos).ok()).map(Time);
    whole(text.as_bytes(), scale).or_else(long)
}

/// Fast path of `scaled` for text that consists of digits and does not overflow.
#[inline]
fn whole(word: &[u8], scale: u32) -> Option<Time> {
    let number = i64::try_from(digits(word)?).ok()?;
    number.checked_mul(10_i64.pow(scale)).map(Time)
}

/// `text` × 10^`scale`, exact: 0.1 s is 100,000,000 ns. Fractions of a nanosecond are rounded.
fn scaled(text: &str, scale: u32) -> Option<i128> {
    let (negative, digits) = match text.as_bytes() {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let mut nanos: i128 = 0;
    let mut decimals: Option<u32> = None;
    let mut seen = false;
    let mut round_up = false;
    for &byte in digits {
        match byte {
            b'0'..=b'9' => {
                seen = true;
                match &mut decimals {
                    Some(count) if *count >= scale => {
                        round_up |= *count == scale && byte >= b'5';
                        *count = scale + 1;
                        continue;
                    }
                    Some(count) => *count += 1,
                    None => {}
                }
                nanos = nanos.checked_mul(10)?.checked_add(i128::from(byte - b'0'))?;
            }
            b'.' if decimals.is_none() => decimals = Some(0),
            b'e' | b'E' if seen => return scientific(text, scale),
            _ => return None,
        }
    }
    if !seen {
        return None;
    }
    let missing = scale - decimals.unwrap_or(0).min(scale);
    nanos = nanos.checked_mul(10_i128.pow(missing))?.checked_add(i128::from(round_up))?;
    Some(if negative { -nanos } else { nanos })
}

/// A number with an exponent: exact, unless it has digits beyond the precision of `scale`.
fn scientific(text: &str, scale: u32) -> Option<i128> {
    /// The largest power of ten in an i128.
    const MOST: u32 = 38;
    if let Some((digits, exponent)) = text.split_once(['e', 'E'])
        && let Ok(exponent) = exponent.parse::<i32>()
        && let Some(scale) = scale.checked_add_signed(exponent)
        && scale <= MOST
        && let Some(exact) = scaled(digits, scale)
    {
        return Some(exact);
    }
    let scaled = (text.parse::<f64>().ok()? * 10_f64.powi(scale.cast_signed())).round();
    // Far beyond any time, and within what an i128 holds.
    (scaled.abs() < 1e30).then_some(scaled as i128)
}

/// Parses a duration such as `10m`, `730d`, `1h30m`, `250ms` or `10y`. A year has 365 days.
///
/// # Errors
/// The text is empty, or has a number without a unit or an unknown unit.
pub fn parse_duration(text: &str) -> Result<Duration, BadDuration> {
    let bad = || BadDuration(text.to_owned());
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(bad());
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
        let (number, tail) = rest.split_at(unit_at);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let unit_nanos: i64 = match unit.trim() {
            "ns" => 1,
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => SECOND,
            "m" | "min" => 60 * SECOND,
            "h" => 3_600 * SECOND,
            "d" => 86_400 * SECOND,
            "w" => 7 * 86_400 * SECOND,
            "y" => 365 * 86_400 * SECOND,
            _ => return Err(bad()),
        };
        let billionths = scaled(number, 9).ok_or_else(bad)?;
        let nanos = billionths.checked_mul(unit_nanos.into()).ok_or_else(bad)? / i128::from(SECOND);
        let nanos = u64::try_from(nanos).map_err(|_| bad())?;
        total = total.checked_add(Duration::from_nanos(nanos)).ok_or_else(bad)?;
        rest = tail;
    }
    Ok(total)
}

/// A duration in the largest unit that fits and the one below, rounded up, as [`parse_duration`] reads it: `2h`, `1h30m`,
/// `236y5d`.
pub fn written_duration(duration: Duration) -> String {
    const UNITS: [(&str, u128); 5] = [
        ("y", 365 * 86_400 * SECOND as u128),
        ("d", 86_400 * SECOND as u128),
        ("h", 3_600 * SECOND as u128),
        ("m", 60 * SECOND as u128),
        ("s", SECOND as u128),
    ];
    let nanos = duration.as_nanos();
    let Some(at) = UNITS.iter().position(|(_, size)| nanos >= *size) else {
        return format!("{nanos}ns");
    };
    let (unit, size) = UNITS[at];
    let Some((below, below_size)) = UNITS.get(at + 1) else { return format!("{}s", nanos.div_ceil(size)) };
    let parts = nanos.div_ceil(*below_size);
    let (number, rest) = (parts / (size / below_size), parts % (size / below_size));
    if rest == 0 { format!("{number}{unit}") } else { format!("{number}{unit}{rest}{below}") }
}

/// A text that is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a duration; write it as 10m, 730d, 1h30m (units: ns us ms s m h d w y)")]
pub struct BadDuration(String);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(format: TimeFormat, text: &str) -> Result<i64, String> {
        TimeReader::new(format).read(text).map(|time| time.0).map_err(|bad| bad.to_string())
    }

    #[test]
    fn every_format_reads_the_same_instant() {
        // 2013-08-14T00:00:00Z by `date -u +%s`.
        let instant = 1_376_438_400 * SECOND;
        for (format, text) in [
            (TimeFormat::Date, "2013-08-14"),
            (TimeFormat::Rfc3339, "2013-08-14T02:00:00+02:00"),
            (TimeFormat::Iso, "2013-08-14 00:00:00"),
            (TimeFormat::Iso, "2013-08-14"),
            (TimeFormat::Iso, "2013-08-14T00:00:00+00:00[UTC]"),
            (TimeFormat::Seconds, "1376438400"),
            (TimeFormat::Millis, "1376438400000"),
            (TimeFormat::Micros, "1376438400000000"),
            (TimeFormat::Nanos, "1376438400000000000"),
        ] {
            assert_eq!(read(format, text), Ok(instant), "{text}");
            assert_eq!(read(TimeFormat::Auto, text), Ok(instant), "auto {text}");
        }
    }

    #[test]
    fn decimals_are_exact() {
        for (text, nanos) in [
            ("0.1", 100_000_000),
            ("1.000000001", 1_000_000_001),
            ("-0.5", -500_000_000),
            (".5", 500_000_000),
            ("3.", 3_000_000_000),
            ("0.30000000000000004", 300_000_000),
            ("0.9999999996", 1_000_000_000),
            ("1.5e3", 1_500_000_000_000),
            ("1E-3", 1_000_000),
        ] {
            assert_eq!(read(TimeFormat::Seconds, text), Ok(nanos), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_written_duration_is_hardly_longer(nanos: u64) {
            let duration = Duration::from_nanos(nanos);
            let read = parse_duration(&written_duration(duration)).unwrap();
            prop_assert!(read >= duration && read.as_secs_f64() <= duration.as_secs_f64() * 1.05 + 1.0);
        }

        /// The fast path agrees with the slow one.
        #[test]
        fn whole_numbers_are_exact(text in "[+-]?[0-9]{0,21}|[0-9]{18,20}", scale in prop::sample::select(vec![0_u32, 3, 6, 9])) {
            let long = scaled(&text, scale).and_then(|nanos| i64::try_from(nanos).ok()).map(Time);
            prop_assert_eq!(decimal(&text, scale), long);
            let names = ["s", "ms", "us", "ns"].into_iter().zip([9, 6, 3, 0]);
            for (name, _) in names.filter(|(_, of)| *of == scale) {
                let mut reader = TimeReader::new(name.parse().unwrap());
                if let Some(time) = reader.read_digits(text.as_bytes()) {
                    prop_assert_eq!(reader.read(&text), Ok(time));
                }
            }
        }
    }

    #[test]
    fn what_is_not_a_time_is_refused() {
        for text in [
            "",
            ".",
            "-",
            "1,5",
            "12:30",
            "2013-13-01",
            "1e300",
            "9223372037",
            "noon",
            "--1",
            "20240101",
            "2024-01-01T10:00:00[Europe/Berlin]",
        ] {
            assert!(read(TimeFormat::Auto, text).is_err(), "{text}");
        }
        assert!(read(TimeFormat::Nanos, "170141183460469231731687303715884105727.5").is_err());
        assert_eq!(read(TimeFormat::Date, "20130814"), read(TimeFormat::Date, "2013-08-14"));
        assert!(read(TimeFormat::Date, "2013-08-14T00:00:00Z").is_err());
        assert!(read(TimeFormat::Rfc3339, "2013-08-14T00:00:00").is_err());
    }

    #[test]
    fn patterns_say_how_times_are_written() {
        for (pattern, text, expected) in [
            ("%d.%m.%Y %H:%M", "14.08.2013 02:00", "2013-08-14T02:00:00Z"),
            ("%d.%m.%Y", "4.8.2013", "2013-08-04T00:00:00Z"),
            ("%m/%d/%Y", "08/14/2013", "2013-08-14T00:00:00Z"),
            ("%Y", "1973", "1973-01-01T00:00:00Z"),
            ("%Y-%m", "2013-08", "2013-08-01T00:00:00Z"),
            ("%Y-%j", "2013-226", "2013-08-14T00:00:00Z"),
            ("%Y-%m-%d %H:%M %z", "2013-08-14 02:00 +0200", "2013-08-14T00:00:00Z"),
            ("%d %b %Y", "14 aug 2013", "2013-08-14T00:00:00Z"),
            ("%d %b %Y", "14 August 2013", "2013-08-14T00:00:00Z"),
            ("%I:%M %p, %B %d %Y", "02:05 PM, Aug 14 2013", "2013-08-14T14:05:00Z"),
            ("%s", "1376438400", "2013-08-14T00:00:00Z"),
        ] {
            let format: TimeFormat = pattern.parse().unwrap();
            let mut reader = TimeReader::new(format.clone());
            assert_eq!(reader.read(text).map(|time| time.timestamp().to_string()), Ok(expected.to_owned()));
            assert_eq!((reader.format(), format.name()), (&format, pattern));
        }
        for pattern in ["%d.%m", "%H:%M", "%q", "%Z %Y", "%", "%Y %"] {
            assert!(pattern.parse::<TimeFormat>().is_err(), "{pattern}");
        }
        let bad = read("%d.%m.%Y".parse().unwrap(), "31.02.2013").unwrap_err();
        assert_eq!(bad, "`31.02.2013` is not a time as `%d.%m.%Y` says, between the years 1677 and 2262");
    }

    #[test]
    fn dates_that_can_be_read_in_one_way_only_are_recognised() {
        for (text, expected, format) in [
            ("01.03.2026", "2026-03-01T00:00:00Z", "%d.%m.%Y"),
            ("01.03.2026 14:30", "2026-03-01T14:30:00Z", "%d.%m.%Y %H:%M"),
            ("1.3.2026, 14:30:05", "2026-03-01T14:30:05Z", "%d.%m.%Y, %H:%M:%S"),
            ("1 March 2026", "2026-03-01T00:00:00Z", "%d %B %Y"),
            ("Mar 1, 2026 2:30 pm", "2026-03-01T14:30:00Z", "%B %d, %Y %I:%M %p"),
            ("01-Mar-2026 14:30", "2026-03-01T14:30:00Z", "%d-%B-%Y %H:%M"),
            ("10/Oct/2000:13:55:36 -0700", "2000-10-10T20:55:36Z", "%d/%B/%Y:%H:%M:%S %z"),
            ("Sun, 01 Mar 2026 14:30:00 +0100", "2026-03-01T13:30:00Z", "%a, %d %b %Y %H:%M:%S %z"),
            ("2026/03/01", "2026-03-01T00:00:00Z", "%Y/%m/%d"),
            ("2026-03-01 14:30", "2026-03-01T14:30:00Z", "iso"),
            ("1973", "1970-01-01T00:32:53Z", "relative"),
        ] {
            let mut reader = TimeReader::new(TimeFormat::Auto);
            assert_eq!(reader.read(text).map(|time| time.timestamp().to_string()), Ok(expected.to_owned()));
            assert_eq!(reader.format().name(), format, "{text}");
        }
        for (text, expected) in [
            (
                "03/01/2026",
                "`03/01/2026` may have its day or its month first; say which with `--time-format '%d/%m/%Y'` or \
                 `'%m/%d/%Y'`",
            ),
            (
                "13/01/2026 10:30",
                "`13/01/2026 10:30` can only have its day first; say whether all times have with \
                 `--time-format '%d/%m/%Y %H:%M'` (`'%m/%d/%Y %H:%M'` is the other way)",
            ),
            (
                "01-13-2026",
                "`01-13-2026` can only have its month first; say whether all times have with \
                 `--time-format '%m-%d-%Y'` (`'%d-%m-%Y'` is the other way)",
            ),
        ] {
            assert_eq!(read(TimeFormat::Auto, text), Err(expected.to_owned()));
        }
    }

    #[test]
    fn the_first_time_decides_the_format() {
        let mut reader = TimeReader::new(TimeFormat::Auto);
        assert!(reader.read("soon").is_err());
        assert_eq!(reader.format(), &TimeFormat::Auto);
        assert_eq!(reader.read("5"), Ok(Time(5 * SECOND)));
        assert!(reader.read("2013-08-14").is_err());
    }

    #[test]
    fn seconds_are_relative_if_they_say_so_or_are_few() {
        let relative = |format, text| {
            let mut reader = TimeReader::new(format);
            reader.read(text).unwrap();
            reader.is_relative()
        };
        assert!(relative(TimeFormat::Auto, "5"));
        assert!(relative(TimeFormat::Auto, "-5"));
        assert!(relative(TimeFormat::Relative, "1376438400"));
        assert!(!relative(TimeFormat::Auto, "1376438400"));
        assert!(!relative(TimeFormat::Seconds, "5"));
        assert!(!relative(TimeFormat::Auto, "1972-01-01"));
    }

    #[test]
    fn durations() {
        for (text, seconds) in [
            ("10m", 600),
            ("730d", 63_072_000),
            ("1h30m", 5_400),
            ("1.5h", 5_400),
            ("2 s", 2),
            ("10y", 315_360_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for (nanos, text) in [(0, "0ns"), (999_999_999, "999999999ns"), (1_500_000_000, "2s")] {
            assert_eq!(written_duration(Duration::from_nanos(nanos)), text);
        }
        for (seconds, text) in [(7200, "2h"), (5400, "1h30m"), (86_399, "24h"), (86_401, "1d1h")] {
            assert_eq!(written_duration(Duration::from_secs(seconds)), text);
        }
        for text in ["", "10", "m", "10q", "1h30", "-3s", "1..2s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn people_read_short_times() {
        assert_eq!(Time(3_500_000_000).for_people(), "3.5s");
        assert_eq!(Time(-1).for_people(), "-0.000000001s");
        assert_eq!(Time(1_376_438_400 * SECOND).for_people(), "2013-08-14T00:00:00Z");
        assert_eq!(Time(0).to_string(), "1970-01-01T00:00:00.000000000Z");
    }

    proptest! {
        /// What a pattern writes it reads back, to the precision that it has; the format can be parsed again.
        #[test]
        fn patterns_read_what_they_write(
            date in prop::sample::select(vec!["%d.%m.%Y", "%Y-%j", "%b %d, %Y", "%d %B %Y", "%G-W%V-%u", "%F"]),
            time in prop::sample::select(vec!["", " %H", " %H:%M", " %T", " %H:%M:%S%.f", " %I:%M:%S %p", " %T %z"]),
            nanos: i64,
        ) {
            let format: TimeFormat = format!("{date}{time}").parse().unwrap();
            let day = 86_400 * SECOND;
            let unit = match time {
                "" => day,
                " %H" => 3600 * SECOND,
                " %H:%M" => 60 * SECOND,
                " %H:%M:%S%.f" => 1,
                _ => SECOND,
            };
            let nanos = nanos.clamp(i64::MIN + day, i64::MAX);
            let time = Time(nanos - nanos.rem_euclid(unit));
            let written = time.written(&format).to_string();
            prop_assert_eq!(TimeReader::new(format.clone()).read(&written), Ok(time), "{}", written);
            prop_assert_eq!(format.name().parse(), Ok(format.clone()));
            let mut auto = TimeReader::new(TimeFormat::Auto);
            if let Ok(found) = auto.read(&written) {
                prop_assert_eq!(found, time, "{}", written);
            }
        }

        #[test]
        fn any_text_is_a_pattern_or_none(pattern in "[%a-zA-Z.:# 0-9-]{0,12}", text in "[0-9a-z:. %/-]{0,12}") {
            if let Ok(format) = pattern.parse::<TimeFormat>() {
                let _ = TimeReader::new(format).read(&text);
            }
            let _ = TimeReader::new(TimeFormat::Auto).read(&text);
        }

        #[test]
        fn what_is_written_is_read_back(nanos: i64) {
            let written = Time(nanos).to_string();
            prop_assert_eq!(read(TimeFormat::Rfc3339, &written), Ok(nanos));
            let seconds = format!("{}{}.{:09}", if nanos < 0 { "-" } else { "" },
                nanos.unsigned_abs() / 1_000_000_000, nanos.unsigned_abs() % 1_000_000_000);
            prop_assert_eq!(read(TimeFormat::Seconds, &seconds), Ok(nanos));
        }
    }
}
