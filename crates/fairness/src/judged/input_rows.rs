//! Rows for the inner engine: columns of the source under the names of its inputs, inputs that no source has, and rows
//! without any value at which due trials are counted.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use fairstream_core::{EngineError, EventBatch};

use super::group_values::groups_of;
use crate::{BoundInput, Compiled, InputOrigin};

/// Turns batches of the source into batches of the inner engine.
///
/// Trials with a horizon and without a period of checks are counted and closed at events. An event would find the trial
/// of its key still there if that trial is counted at the very event, and could not open another one. So the first event
/// of each time is preceded by a row without values, which counts and closes what is due.
#[derive(Debug)]
pub(super) struct InputRows {
    /// The inputs of the inner engine, in its order.
    inputs: Vec<BoundInput>,
    schema: SchemaRef,
    counts_before_events: bool,
    /// Time of the last row.
    last: Option<i64>,
}

impl InputRows {
    /// `columns` are those of the inner engine, in its order.
    pub(super) fn new(compiled: &Compiled, columns: &[&str]) -> Result<InputRows, EngineError> {
        let input = |column: &&str| {
            let found = compiled.inputs().iter().find(|input| input.stream == *column);
            found.cloned().ok_or_else(|| EngineError::Build(format!("no input is called `{column}`")))
        };
        let inputs: Vec<BoundInput> = columns.iter().map(input).collect::<Result<_, _>>()?;
        let field = |input: &BoundInput| Field::new(&input.stream, input.arrow_type(), true);
        let schema = Arc::new(Schema::new(inputs.iter().map(field).collect::<Vec<_>>()));
        Ok(InputRows { inputs, schema, counts_before_events: compiled.counts_before_events(), last: None })
    }

    /// Time of the last row.
    pub(super) fn last(&self) -> Option<i64> {
        self.last
    }

    pub(super) fn resume(&mut self, last: Option<i64>) {
        self.last = last;
    }

    /// The rows with the inputs of the inner engine, after so many rows before.
    pub(super) fn with_inputs(&self, events: &EventBatch, before: u64) -> Result<EventBatch, EngineError> {
        let failed = |error: ArrowError| EngineError::Build(error.to_string());
        let mut columns = Vec::with_capacity(self.inputs.len());
        let column = |name: &String| {
            let missing = || EngineError::Build(format!("the rows have no column `{name}`"));
            events.rows.column_by_name(name).cloned().ok_or_else(missing)
        };
        for input in &self.inputs {
            let values: ArrayRef = match &input.origin {
                InputOrigin::Column(name) => column(name)?,
                InputOrigin::Groups { column: of, grouping, .. } => {
                    groups_of(&column(&of.name)?, grouping).map_err(failed)?
                }
                InputOrigin::RowNumber => {
                    Arc::new(UInt64Array::from_iter_values((before + 1..).take(events.len())))
                }
                InputOrigin::Time => Arc::new(Int64Array::new(events.times.clone(), None)),
            };
            columns.push(values);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(events.len()));
        let rows = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options);
        let mut events = events.clone();
        events.rows = rows.map_err(failed)?;
        Ok(events)
    }

    /// The rows with those before them at which due trials are counted. Their only value is the time.
    pub(super) fn with_empty_rows(&mut self, mut events: EventBatch) -> Result<EventBatch, EngineError> {
        if self.counts_before_events {
            let inserted = self.insert_empty_rows(&mut events);
            inserted.map_err(|error| EngineError::Build(error.to_string()))?;
        }
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
        let times_of_rows: ArrayRef = Arc::new(Int64Array::from(times.clone()));
        let columns = events.rows.columns().iter().zip(&self.inputs);
        let columns: Vec<ArrayRef> = columns
            .map(|(column, input)| match input.origin {
                InputOrigin::Time => Ok(Arc::clone(&times_of_rows)),
                _ => take(column, &indices, None),
            })
            .collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(indices.len()));
        events.rows = RecordBatch::try_new_with_options(events.rows.schema(), columns, &options)?;
        events.times = times.into();
        events.row_numbers = row_numbers.into();
        Ok(())
    }
}
