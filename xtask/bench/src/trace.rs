//! Events of a workload in batches, generated on demand.

use arrow::array::{ArrayRef, RecordBatch};
use fairstream_core::{EventBatch, Position, Time};

/// Rows per batch, as in a run of the command.
const BATCH: usize = 8192;

/// A stream of events from its beginning.
pub struct Trace {
    /// Start of the clock.
    pub start: Time,
    /// Time up to which the clock runs after the last event, if the workload has deadlines or periodic checks.
    pub end: Option<Time>,
    pub batches: Box<dyn Iterator<Item = EventBatch>>,
}

impl Trace {
    /// Divides events in order of time into batches; `columns` converts them to columns.
    pub fn new<E: 'static>(
        start: Time,
        end: Option<Time>,
        events: impl Iterator<Item = (Time, E)> + 'static,
        columns: impl Fn(&[(Time, E)]) -> Vec<(&'static str, ArrayRef)> + 'static,
    ) -> Trace {
        let mut events = events;
        let mut rows_before = 0;
        let batches = std::iter::from_fn(move || {
            let events: Vec<(Time, E)> = events.by_ref().take(BATCH).collect();
            // The columns of a batch have the same length; an empty batch ends the trace.
            let nullable = columns(&events).into_iter().map(|(name, column)| (name, column, true));
            let rows = RecordBatch::try_from_iter_with_nullable(nullable).ok()?;
            let numbers: Vec<u64> = (1..).map(|row| row + rows_before).take(events.len()).collect();
            rows_before += events.len() as u64;
            let times: Vec<i64> = events.iter().map(|(time, _)| time.0).collect();
            let end = Position { rows: rows_before, ..Position::default() };
            (!events.is_empty()).then(|| EventBatch::new(rows, times, numbers, end))
        });
        Trace { start, end, batches: Box::new(batches) }
    }
}

/// Rows `from..from + rows` of a batch.
pub fn slice(batch: &EventBatch, from: usize, rows: usize) -> EventBatch {
    let rows = rows.min(batch.len() - from);
    EventBatch::new(
        batch.rows.slice(from, rows),
        batch.times.slice(from, rows),
        batch.row_numbers.slice(from, rows),
        batch.end.clone(),
    )
}
