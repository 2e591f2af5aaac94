//! Event time: what it is, how it is written, how it is read.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::Offset;

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

    fn timestamp(self) -> Timestamp {
        // Every i64 of nanoseconds is within jiff's range of years.
        Timestamp::from_nanosecond(i128::from(self.0)).unwrap_or_default()
    }
}

const SECOND: i64 = 1_000_000_000;

/// In place of the name of a time column: rows are taken in their order, each at [`Time::of_row`]. A column with this
/// name takes precedence.
pub const ROW_ORDER: &str = "row";

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeFormat {
    /// Decided by the first time that is read, and kept: text is [`TimeFormat::Iso`]; a number is
    /// relative seconds below 10⁸, seconds below 10¹¹, milliseconds below 10¹⁴, microseconds below
    /// 10¹⁷, else nanoseconds. Eight digits that could be a date are refused.
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
}

impl TimeFormat {
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

    /// The names that a user can give a format.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().map(|(name, _)| *name)
    }

    /// The name of this format.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, format)| *format == self).map_or("auto", |(name, _)| name)
    }

    fn of_first(text: &str) -> TimeFormat {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        match unsigned.parse::<f64>() {
            Ok(number) if number >= 1e17 => TimeFormat::Nanos,
            Ok(number) if number >= 1e14 => TimeFormat::Micros,
            Ok(number) if number >= 1e11 => TimeFormat::Millis,
            Ok(number) if number >= RELATIVE_BELOW as f64 => TimeFormat::Seconds,
            Ok(_) => TimeFormat::Relative,
            Err(_) => TimeFormat::Iso,
        }
    }
}

impl FromStr for TimeFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<TimeFormat, String> {
        let known = Self::NAMES.iter().find(|(known, _)| *known == name);
        known.map(|(_, format)| *format).ok_or_else(|| {
            let names: Vec<_> = Self::names().collect();
            format!("`{name}` is not a time format; there are {}", names.join(", "))
        })
    }
}

/// Reads the times of one source, all in one format.
#[derive(Clone, Debug)]
pub struct TimeReader {
    format: TimeFormat,
}

impl TimeReader {
    /// A reader of that format.
    pub fn new(format: TimeFormat) -> TimeReader {
        TimeReader { format }
    }

    /// The format; no longer [`TimeFormat::Auto`] once a time has been read.
    pub fn format(&self) -> TimeFormat {
        self.format
    }

    /// Whether the times count from the start of the trace.
    pub fn is_relative(&self) -> bool {
        self.format == TimeFormat::Relative
    }

    /// Fast path of [`read`](TimeReader::read) for times that consist of digits, once the format is known. `None` means
    /// that `read` must decide.
    #[inline]
    pub fn read_digits(&self, word: &[u8]) -> Option<Time> {
        let scale = match self.format {
            TimeFormat::Relative | TimeFormat::Seconds => 9,
            TimeFormat::Millis => 6,
            TimeFormat::Micros => 3,
            TimeFormat::Nanos => 0,
            TimeFormat::Auto | TimeFormat::Iso | TimeFormat::Rfc3339 | TimeFormat::Date => return None,
        };
        whole(word, scale)
    }

    /// Reads one time.
    ///
    /// # Errors
    /// The text is not a time in this format, or outside the years 1677 to 2262.
    pub fn read(&mut self, text: &str) -> Result<Time, BadTime> {
        let text = text.trim();
        let format = match self.format {
            TimeFormat::Auto => TimeFormat::of_first(text),
            fixed => fixed,
        };
        let bad = || BadTime { text: text.to_owned(), format, guessed: self.format == TimeFormat::Auto };
        let time = match format {
            TimeFormat::Auto | TimeFormat::Iso => rfc3339(text).or_else(|| utc(text)),
            TimeFormat::Rfc3339 => rfc3339(text),
            TimeFormat::Date => date(text),
            TimeFormat::Relative | TimeFormat::Seconds => decimal(text, 9),
            TimeFormat::Millis => decimal(text, 6),
            TimeFormat::Micros => decimal(text, 3),
            TimeFormat::Nanos => decimal(text, 0),
        };
        let time = time.ok_or_else(bad)?;
        if self.format == TimeFormat::Auto && format == TimeFormat::Relative && is_compact_date(text) {
            return Err(BadTime { text: text.to_owned(), format: TimeFormat::Auto, guessed: false });
        }
        self.format = format;
        Ok(time)
    }
}

/// A text that is not a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadTime {
    text: String,
    format: TimeFormat,
    guessed: bool,
}

impl std::error::Error for BadTime {}

impl fmt::Display for BadTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.format == TimeFormat::Auto {
            let text = &self.text;
            return write!(
                f,
                "`{text}` may be a date or a number of seconds; say which with `--time-format date` or `s`"
            );
        }
        let wanted = match self.format {
            _ if self.guessed => "a time (a number of seconds, a date, or RFC 3339)",
            TimeFormat::Auto | TimeFormat::Iso => "a date or RFC 3339 time",
            TimeFormat::Rfc3339 => "an RFC 3339 time such as 2026-11-16T09:30:00Z",
            TimeFormat::Date => "a date such as 2026-11-16",
            TimeFormat::Relative | TimeFormat::Seconds => "a number of seconds",
            TimeFormat::Millis => "a number of milliseconds",
            TimeFormat::Micros => "a number of microseconds",
            TimeFormat::Nanos => "a number of nanoseconds",
        };
        write!(f, "`{}` is not {wanted} between the years 1677 and 2262", self.text)
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

fn scientific(text: &str, scale: u32) -> Option<i128> {
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
            assert_eq!(read(format, text), Ok(instant), "{format:?} {text}");
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
    fn the_first_time_decides_the_format() {
        let mut reader = TimeReader::new(TimeFormat::Auto);
        assert!(reader.read("soon").is_err());
        assert_eq!(reader.format(), TimeFormat::Auto);
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
