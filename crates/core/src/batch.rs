//! Rows on their way to the engine.

use arrow::array::RecordBatch;
use arrow::buffer::ScalarBuffer;

use crate::{Position, RejectedRow, Time};

/// Rows on their way to the engine, as columns.
///
/// `times` and `row_numbers` are as long as `rows`. A null is a silent stream at that instant.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EventBatch {
    /// Decoded rows, with exactly the columns of [`Source::schema`](crate::Source::schema).
    pub rows: RecordBatch,
    /// When each row happened, in nanoseconds since the Unix epoch.
    pub times: ScalarBuffer<i64>,
    /// Where each row stands in the source, as the user would count: a line of a text file,
    /// counted from 1; a record of a binary one. Increasing, with gaps where rows were rejected;
    /// in a batch in which none is, they may be mixed, as where files are merged.
    pub row_numbers: ScalarBuffer<u64>,
    /// Rows that did not decode, in order. The pipeline's [`BadRowPolicy`](crate::BadRowPolicy)
    /// decides what they mean.
    pub rejected: Vec<RejectedRow>,
    /// Rows that a live source lost before this batch because it was read too slowly.
    pub dropped: u64,
    /// Whether the times count from the start of the trace, so that the clock of periodic streams
    /// starts at zero and not at the first event.
    pub relative: bool,
    /// Position after the last row of this batch, rejected or not.
    pub end: Position,
}

impl EventBatch {
    /// A batch of decoded rows only. What else there is to say goes into the fields.
    pub fn new(
        rows: RecordBatch,
        times: impl Into<ScalarBuffer<i64>>,
        row_numbers: impl Into<ScalarBuffer<u64>>,
        end: Position,
    ) -> EventBatch {
        let (times, row_numbers) = (times.into(), row_numbers.into());
        EventBatch { rows, times, row_numbers, rejected: Vec::new(), dropped: 0, relative: false, end }
    }

    /// How many decoded rows there are.
    pub fn len(&self) -> usize {
        self.rows.num_rows()
    }

    /// Whether there is no decoded row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// When row `index` happened.
    pub fn time(&self, index: usize) -> Time {
        Time(self.times[index])
    }
}
