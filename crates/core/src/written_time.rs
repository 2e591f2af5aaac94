//! Formatting of times.

use std::fmt;

use crate::{Time, TimeFormat};

impl Time {
    /// This time in that format, to be displayed; [`TimeReader`](crate::TimeReader) reads it back.
    /// A date has no time of day, so the time is truncated to a day.
    pub fn written(self, format: &TimeFormat) -> WrittenTime<'_> {
        WrittenTime { time: self, format }
    }

    /// RFC 3339 with nine decimals, `2026-11-16T08:30:00.000000000Z`, as bytes. All years have four digits.
    pub fn rfc3339(self) -> [u8; 30] {
        let (days, nanos) = (self.0.div_euclid(DAY), self.0.rem_euclid(DAY));
        let (year, month, day) = civil(days);
        let (seconds, nanos) = (nanos / SECOND, nanos % SECOND);
        let mut text = *b"0000-00-00T00:00:00.000000000Z";
        let mut put = |at: usize, width: usize, mut number: i64| {
            for byte in text[at..at + width].iter_mut().rev() {
                *byte += (number % 10) as u8;
                number /= 10;
            }
        };
        put(0, 4, year);
        put(5, 2, month);
        put(8, 2, day);
        put(11, 2, seconds / 3600);
        put(14, 2, seconds / 60 % 60);
        put(17, 2, seconds % 60);
        put(20, 9, nanos);
        text
    }
}

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;

/// Year, month and day of a number of days since 1970-01-01. The calculation starts years in March, so that a leap day
/// is the last day of its year.
fn civil(days: i64) -> (i64, i64, i64) {
    const DAYS_OF_400_YEARS: i64 = 146_097;
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(DAYS_OF_400_YEARS), days.rem_euclid(DAYS_OF_400_YEARS));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (in_month, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    (year + 400 * era + i64::from(month <= 2), month, in_month)
}

/// RFC 3339 with nine digits: `2026-11-16T08:30:00.000000000Z`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Digits and signs are text.
        f.write_str(std::str::from_utf8(&self.rfc3339()).unwrap_or_default())
    }
}

/// A time in some format. Displays as text.
#[derive(Clone, Copy, Debug)]
pub struct WrittenTime<'a> {
    time: Time,
    format: &'a TimeFormat,
}

impl WrittenTime<'_> {
    /// Whether it is a number, for formats that distinguish numbers from text.
    pub fn is_number(self) -> bool {
        self.scale().is_some()
    }

    /// Number of decimals of a nanosecond in the unit of the format, if it is a number.
    fn scale(self) -> Option<u32> {
        match self.format {
            TimeFormat::Auto
            | TimeFormat::Iso
            | TimeFormat::Rfc3339
            | TimeFormat::Date
            | TimeFormat::Pattern(_) => None,
            TimeFormat::Relative | TimeFormat::Seconds => Some(9),
            TimeFormat::Millis => Some(6),
            TimeFormat::Micros => Some(3),
            TimeFormat::Nanos => Some(0),
        }
    }
}

impl fmt::Display for WrittenTime<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(scale) = self.scale() else {
            return match self.format {
                // The date of RFC 3339 comes first, in ten characters; all years have four digits.
                TimeFormat::Date => f.write_str(self.time.to_string().get(..10).unwrap_or_default()),
                TimeFormat::Pattern(pattern) => pattern.write(self.time.timestamp(), f),
                _ => self.time.fmt(f),
            };
        };
        let unit = 10_u64.pow(scale);
        let nanos = self.time.0.unsigned_abs();
        if self.time.0 < 0 {
            f.write_str("-")?;
        }
        (nanos / unit).fmt(f)?;
        let (mut fraction, mut width) = (nanos % unit, scale as usize);
        if fraction == 0 {
            return Ok(());
        }
        while fraction % 10 == 0 {
            (fraction, width) = (fraction / 10, width - 1);
        }
        write!(f, ".{fraction:0width$}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::TimeReader;

    #[test]
    fn times_are_written_without_what_is_not_needed() {
        for (nanos, format, text) in [
            (61_500_000_000, TimeFormat::Relative, "61.5"),
            (60_000_000_000, TimeFormat::Relative, "60"),
            (-1, TimeFormat::Seconds, "-0.000000001"),
            (1_000_001, TimeFormat::Millis, "1.000001"),
            (0, TimeFormat::Nanos, "0"),
            (1_376_438_400_000_000_000, TimeFormat::Date, "2013-08-14"),
            (1_376_438_400_000_000_000, TimeFormat::Rfc3339, "2013-08-14T00:00:00.000000000Z"),
        ] {
            assert_eq!(Time(nanos).written(&format).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn calendars_agree(nanos: i64, day in -106_751..106_751_i64) {
            for nanos in [nanos, day * DAY, day * DAY - 1, i64::MIN, i64::MAX] {
                let expected = format!("{:.9}", jiff::Timestamp::from_nanosecond(i128::from(nanos)).unwrap());
                prop_assert_eq!(Time(nanos).to_string(), expected);
            }
        }

        #[test]
        fn what_is_written_can_be_read(nanos: i64, days in -100_000..100_000_i64) {
            for name in TimeFormat::names().filter(|name| *name != "auto") {
                let format: TimeFormat = name.parse().unwrap();
                let time = Time(if format == TimeFormat::Date { days * 86_400_000_000_000 } else { nanos });
                let text = time.written(&format).to_string();
                prop_assert_eq!(TimeReader::new(format).read(&text).unwrap(), time, "{}", text);
            }
        }
    }
}
