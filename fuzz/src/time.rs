//! Parsing and formatting of times.

use std::str::FromStr;

use fairstream_core::{Time, TimeFormat, TimeReader, parse_duration};

/// Lines of text as times of every format, and as durations.
pub(crate) fn time(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for format in TimeFormat::names() {
        let format = TimeFormat::from_str(format).unwrap();
        let mut reader = TimeReader::new(format.clone());
        for line in text.lines() {
            let Ok(time) = reader.read(line) else { continue };
            assert!(format == TimeFormat::Auto || *reader.format() == format, "a format is kept");
            let written = time.to_string();
            let again = TimeReader::new(TimeFormat::Rfc3339).read(&written);
            assert_eq!(again.ok(), Some(time), "{line:?} is written as {written}");
            // In the recognised format, the same text is the same time.
            assert_eq!(TimeReader::new(reader.format().clone()).read(line).ok(), Some(time), "{line:?}");
            let _ = time.for_people();
        }
    }
    for line in text.lines() {
        if let Ok(duration) = parse_duration(line) {
            let later = Time(0).saturating_add(duration);
            assert!(later >= Time(0), "{line:?}");
        }
    }
}
