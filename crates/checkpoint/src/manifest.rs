//! The manifest of a checkpoint: how far sources and outputs had come. Its names are the format.

use std::collections::BTreeMap;

use fairstream_core::{EvaluatedCounts, Position, ReadCounts, SourceProgress, Time};
use serde::{Deserialize, Serialize};

use crate::FileIdentity;

/// The version of the format. A later one reads all earlier ones.
pub const VERSION: u64 = 1;

/// What a checkpoint says about the run that it is of.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Manifest {
    /// [`VERSION`] of the program that wrote it.
    pub version: u64,
    /// The number of the checkpoint.
    pub number: u64,
    /// When it was written, as RFC 3339.
    pub written: String,
    /// The version of the program that wrote it.
    pub program: String,
    /// The specification, as it was given.
    pub specification: String,
    /// SHA-256 of its text.
    pub specification_sha256: String,
    /// What else decides which rows are read and what is written, by the names of options.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// The sources, in their order.
    pub sources: Vec<KeptSource>,
    /// The sinks, in their order.
    pub sinks: Vec<KeptOutput>,
    /// Outputs that are no sinks, such as evidence, in their order.
    pub others: Vec<KeptOutput>,
    /// What had been evaluated.
    pub evaluated: KeptCounts,
    /// Whether the engine had begun, so that there is state of it.
    pub has_state: bool,
}

/// How far a source had been evaluated.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct KeptSource {
    /// Its address, as it was given.
    pub input: String,
    /// Everything up to here had been evaluated; absent before the first row.
    pub position: Option<KeptPosition>,
    /// Number of rows behind it, in order of time, that had been evaluated as well.
    pub ahead: u64,
    /// The newest time up to the position.
    pub newest: Option<RowTime>,
    /// Rows up to the position.
    pub rows: SourceRows,
    /// What the file was, if the source is one file.
    pub file: Option<FileIdentity>,
}

/// A time, and the row that has it.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct RowTime {
    /// Nanoseconds since 1970.
    pub time: i64,
    /// The number of the row.
    pub row: u64,
}

/// Rows of a source, by what became of them.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct SourceRows {
    /// Rows read.
    pub read: u64,
    /// Bad rows.
    pub rejected: u64,
    /// Rows that were lost.
    pub dropped: u64,
    /// Bad rows that were too late.
    pub late: u64,
    /// Rows outside the monitored time range.
    pub outside: u64,
}

/// How far an output had been written.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct KeptOutput {
    /// Its address, as it was given.
    pub output: String,
    /// Everything before the cut was durable up to here; absent if it cannot be taken up again.
    pub position: Option<KeptPosition>,
    /// Where the run began to write, if something had been there before.
    #[serde(default)]
    pub began: Option<KeptPosition>,
    /// What else it needs to be taken up again.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub more: serde_json::Value,
}

/// A position of a source or a sink.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct KeptPosition {
    /// Rows read or written since the beginning.
    pub rows: u64,
    /// The adapter's own part, in hexadecimal digits.
    pub resume: String,
}

/// What had been evaluated.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct KeptCounts {
    /// Rows.
    pub rows: u64,
    /// Verdicts.
    pub verdicts: u64,
    /// Verdicts that are violated triggers.
    pub triggers: u64,
    /// Verdicts that raise an alarm.
    pub alarms: u64,
    /// Event time reached, in nanoseconds since 1970.
    pub reached: Option<i64>,
    /// Up to where the clock of the machine had passed.
    pub passed: Option<i64>,
}

impl KeptPosition {
    /// A position as it is kept.
    pub fn of(position: &Position) -> KeptPosition {
        let resume = position.resume.iter().map(|byte| format!("{byte:02x}")).collect();
        KeptPosition { rows: position.rows, resume }
    }

    /// The position; `None` if it is damaged.
    pub fn position(&self) -> Option<Position> {
        let digits = self.resume.as_bytes().chunks(2);
        let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
        let resume: Option<Vec<u8>> = digits.map(byte).collect();
        Some(Position { rows: self.rows, resume: resume?.into() })
    }
}

impl KeptSource {
    /// The progress of a source as it is kept.
    pub fn of(input: String, progress: &SourceProgress, file: Option<FileIdentity>) -> KeptSource {
        let ReadCounts { read, rejected, dropped, late, outside } = progress.rows;
        KeptSource {
            input,
            position: progress.position.as_ref().map(KeptPosition::of),
            ahead: progress.ahead,
            newest: progress.newest.map(|(time, row)| RowTime { time: time.0, row }),
            rows: SourceRows { read, rejected, dropped, late, outside },
            file,
        }
    }

    /// The progress; `None` if it is damaged.
    pub fn progress(&self) -> Option<SourceProgress> {
        let SourceRows { read, rejected, dropped, late, outside } = self.rows;
        Some(SourceProgress {
            position: match &self.position {
                None => None,
                Some(position) => Some(position.position()?),
            },
            ahead: self.ahead,
            newest: self.newest.map(|newest| (Time(newest.time), newest.row)),
            rows: ReadCounts { read, rejected, dropped, late, outside },
        })
    }
}

impl From<EvaluatedCounts> for KeptCounts {
    fn from(counts: EvaluatedCounts) -> KeptCounts {
        let EvaluatedCounts { rows, verdicts, triggers, alarms, reached, passed } = counts;
        let nanos = |time: Option<Time>| time.map(|time| time.0);
        KeptCounts { rows, verdicts, triggers, alarms, reached: nanos(reached), passed: nanos(passed) }
    }
}

impl From<KeptCounts> for EvaluatedCounts {
    fn from(counts: KeptCounts) -> EvaluatedCounts {
        let KeptCounts { rows, verdicts, triggers, alarms, reached, passed } = counts;
        let (reached, passed) = (reached.map(Time), passed.map(Time));
        EvaluatedCounts { rows, verdicts, triggers, alarms, reached, passed }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn progress_is_kept(
            rows: u64, resume: Option<Vec<u8>>, ahead: u64, newest: Option<(i64, u64)>, read: u64, late: u64,
        ) {
            let progress = SourceProgress {
                position: resume.map(|resume| Position { rows, resume: resume.into() }),
                ahead,
                newest: newest.map(|(time, row)| (Time(time), row)),
                rows: ReadCounts { read, late, ..ReadCounts::default() },
            };
            let kept = KeptSource::of("events.csv".to_owned(), &progress, None);
            let text = serde_json::to_string(&kept).unwrap();
            let read: KeptSource = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(read.progress(), Some(progress));
        }
    }
}
