//! Rows for the inner engine: those of the source, the time of each as a column if the text reads it, and rows without
//! any value at which due trials are counted.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use fairstream_core::{EngineError, EventBatch};

use crate::Compiled;

/// Turns batches of the source into batches of the inner engine.
///
/// Trials with a horizon and without a period of checks are counted and closed at events. An event would find the trial
/// of its key still there if that trial is counted at the very event, and could not open another one. So the first event
/// of each time is preceded by a row without values, which counts and closes what is due.
#[derive(Debug)]
pub(super) struct InputRows {
    /// The index and name of the time column that the inner engine reads, if it reads one.
    clock: Option<(usize, String)>,
    counts_before_events: bool,
    /// Time of the last row.
    last: Option<i64>,
}

impl InputRows {
    /// `columns` are those of the inner engine, in its order.
    pub(super) fn new(compiled: &Compiled, columns: &[&str]) -> InputRows {
        let clock = compiled.clock().and_then(|clock| {
            columns.iter().position(|column| *column == clock).map(|index| (index, clock.to_owned()))
        });
        InputRows { clock, counts_before_events: compiled.counts_before_events(), last: None }
    }

    /// Time of the last row, for a snapshot.
    pub(super) fn last(&self) -> Option<i64> {
        self.last
    }

    pub(super) fn resume(&mut self, last: Option<i64>) {
        self.last = last;
    }

    /// The rows that the inner engine evaluates for these.
    pub(super) fn convert(&mut self, events: &EventBatch) -> Result<EventBatch, EngineError> {
        let failed = |error: ArrowError| EngineError::Build(error.to_string());
        let mut events = events.clone();
        if self.counts_before_events {
            self.insert_empty_rows(&mut events).map_err(failed)?;
        }
        self.insert_clock(&mut events).map_err(failed)?;
        Ok(events)
    }

    fn insert_empty_rows(&mut self, events: &mut EventBatch) -> Result<(), ArrowError> {
        let mut indices: Vec<Option<u32>> = Vec::with_capacity(2 * events.len());
        let mut times = Vec::with_capacity(2 * events.len());
        let mut row_numbers = Vec::with_capacity(2 * events.len());
        for ((index, &time), &row_number) in (0..).zip(&events.times).zip(&events.row_numbers) {
            if self.last.is_none_or(|last| last < time) {
                indices.push(None);
                times.push(time);
                row_numbers.push(row_number);
            }
            self.last = Some(time);
            indices.push(Some(index));
            times.push(time);
            row_numbers.push(row_number);
        }
        if indices.len() == events.len() {
            return Ok(());
        }
        let indices = UInt32Array::from(indices);
        let columns: Vec<ArrayRef> = events
            .rows
            .columns()
            .iter()
            .map(|column| take(column, &indices, None))
            .collect::<Result<_, _>>()?;
        let nullable = |field: &Arc<Field>| field.as_ref().clone().with_nullable(true);
        let fields: Vec<Field> = events.rows.schema().fields().iter().map(nullable).collect();
        let schema = Arc::new(Schema::new(fields));
        let options = RecordBatchOptions::new().with_row_count(Some(indices.len()));
        events.rows = RecordBatch::try_new_with_options(schema, columns, &options)?;
        events.times = times.into();
        events.row_numbers = row_numbers.into();
        Ok(())
    }

    fn insert_clock(&self, events: &mut EventBatch) -> Result<(), ArrowError> {
        let Some((index, name)) = &self.clock else { return Ok(()) };
        let mut fields: Vec<Arc<Field>> = events.rows.schema().fields().iter().cloned().collect();
        let mut columns = events.rows.columns().to_vec();
        let at = (*index).min(columns.len());
        fields.insert(at, Arc::new(Field::new(name, DataType::Int64, true)));
        columns.insert(at, Arc::new(Int64Array::new(events.times.clone(), None)));
        events.rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?;
        Ok(())
    }
}
