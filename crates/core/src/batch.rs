//! Batches of events.

use arrow::array::RecordBatch;
use arrow::buffer::ScalarBuffer;

use crate::{Position, RejectedRow, Time};

/// A batch of events as columns.
///
/// `times` and `row_numbers` are as long as `rows`. A null is a silent stream at that instant.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EventBatch {
    /// Decoded rows, with exactly the columns of [`Source::schema`](crate::Source::schema).
    pub rows: RecordBatch,
    /// Time of each row, in nanoseconds since the Unix epoch.
    pub times: ScalarBuffer<i64>,
    /// Number of each row in the source: the line of a text file, or the record of a binary one, from 1. Numbers
    /// increase, with gaps where rows were rejected. In a batch without rejected rows they may be in any order, as when
    /// files are merged.
    pub row_numbers: ScalarBuffer<u64>,
    /// Rows that did not decode, in order. The pipeline's [`BadRowPolicy`](crate::BadRowPolicy)
    /// decides what they mean.
    pub rejected: Vec<RejectedRow>,
    /// Rows that a live source lost before this batch because it was read too slowly.
    pub dropped: u64,
    /// Whether the times count from the start of the trace, so that the clock of periodic streams
    /// starts at zero and not at the first event.
    pub relative: bool,
    /// If the source knows it: no row of a later batch is older than this.
    pub watermark: Option<Time>,
    /// Position after the last row of this batch, rejected or not.
    pub end: Position,
}

impl EventBatch {
    /// A batch of decoded rows. The other fields have their defaults.
    pub fn new(
        rows: RecordBatch,
        times: impl Into<ScalarBuffer<i64>>,
        row_numbers: impl Into<ScalarBuffer<u64>>,
        end: Position,
    ) -> EventBatch {
        let (times, row_numbers) = (times.into(), row_numbers.into());
        EventBatch {
            rows,
            times,
            row_numbers,
            rejected: Vec::new(),
            dropped: 0,
            relative: false,
            watermark: None,
            end,
        }
    }

    /// Number of decoded rows.
    pub fn len(&self) -> usize {
        self.rows.num_rows()
    }

    /// Whether there is no decoded row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Some of the decoded rows, without copying them. Rejected rows and the position stay with the whole.
    #[must_use]
    pub fn slice(&self, first: usize, rows: usize) -> EventBatch {
        EventBatch {
            relative: self.relative,
            ..EventBatch::new(
                self.rows.slice(first, rows),
                self.times.slice(first, rows),
                self.row_numbers.slice(first, rows),
                Position::default(),
            )
        }
    }

    /// Time of row `index`.
    pub fn time(&self, index: usize) -> Time {
        Time(self.times[index])
    }
}
