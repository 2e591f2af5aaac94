//! Times as they are written.

use std::fmt;

use crate::{Time, TimeFormat};

impl Time {
    /// This time in that format, to be displayed; [`TimeReader`](crate::TimeReader) reads it back.
    /// A date has no time of day: what is finer than a day is left out.
    pub fn written(self, format: TimeFormat) -> WrittenTime {
        WrittenTime { time: self, format }
    }
}

/// A time in some format. Displays as text.
#[derive(Clone, Copy, Debug)]
pub struct WrittenTime {
    time: Time,
    format: TimeFormat,
}

impl WrittenTime {
    /// Whether it is a number, for formats that tell numbers from text.
    pub fn is_number(self) -> bool {
        self.scale().is_some()
    }

    /// How many decimals a nanosecond has in its unit, if it is a number.
    fn scale(self) -> Option<u32> {
        match self.format {
            TimeFormat::Auto | TimeFormat::Iso | TimeFormat::Rfc3339 | TimeFormat::Date => None,
            TimeFormat::Relative | TimeFormat::Seconds => Some(9),
            TimeFormat::Millis => Some(6),
            TimeFormat::Micros => Some(3),
            TimeFormat::Nanos => Some(0),
        }
    }
}

impl fmt::Display for WrittenTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(scale) = self.scale() else {
            return match self.format {
                // The date of RFC 3339 comes first, in ten characters; all years have four digits.
                TimeFormat::Date => f.write_str(self.time.to_string().get(..10).unwrap_or_default()),
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
            assert_eq!(Time(nanos).written(format).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_can_be_read(nanos: i64, days in -100_000..100_000_i64) {
            for name in TimeFormat::names().filter(|name| *name != "auto") {
                let format: TimeFormat = name.parse().unwrap();
                let time = Time(if format == TimeFormat::Date { days * 86_400_000_000_000 } else { nanos });
                let text = time.written(format).to_string();
                prop_assert_eq!(TimeReader::new(format).read(&text).unwrap(), time, "{}", text);
            }
        }
    }
}
