//! Writes events as Parquet and Arrow that the sources can read.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, DurationNanosecondArray, Int64Array, RecordBatch, TimestampNanosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use fairstream_core::{
    Adapter, BadOption, EventBatch, EventWriter, EventWriterFactory, EventWriterRequest, Position, SinkError,
    TimeFormat,
};

use crate::parts::TableOutput;
use crate::table::{ARROW_OPTIONS, PARQUET_OPTIONS, TableFormat};

/// Opens writers of events as Parquet.
#[derive(Clone, Copy, Debug)]
pub struct ParquetEventWriters;

/// Opens writers of events as Arrow IPC, as a file or as a stream.
#[derive(Clone, Copy, Debug)]
pub struct ArrowEventWriters;

impl EventWriterFactory for ParquetEventWriters {
    fn adapter(&self) -> Adapter {
        Adapter {
            name: "parquet",
            about: "one row an event; times are timestamps, or durations where they count from the start",
            extensions: &["parquet"],
            options: PARQUET_OPTIONS,
        }
    }

    fn open(&self, request: &EventWriterRequest) -> Result<Box<dyn EventWriter>, SinkError> {
        open(request, TableFormat::parquet(&request.options))
    }
}

impl EventWriterFactory for ArrowEventWriters {
    fn adapter(&self) -> Adapter {
        Adapter {
            name: "arrow",
            about: "Arrow IPC: a file (Feather), or a stream that can be read meanwhile",
            extensions: &["arrow", "feather", "arrows"],
            options: ARROW_OPTIONS,
        }
    }

    fn open(&self, request: &EventWriterRequest) -> Result<Box<dyn EventWriter>, SinkError> {
        open(request, TableFormat::arrow(&request.options, &request.location))
    }
}

fn open(
    request: &EventWriterRequest,
    format: Result<TableFormat, BadOption>,
) -> Result<Box<dyn EventWriter>, SinkError> {
    let format = format.map_err(|bad| SinkError::Option { sink: request.location.clone(), bad })?;
    let time = TimeColumn::of(&request.time_format);
    let mut fields = vec![Field::new("time", time.data_type(), false)];
    fields.extend(request.schema.fields().iter().map(|field| (**field).clone()));
    let schema = Arc::new(Schema::new(fields));
    let output = TableOutput::open(&request.location, format, Arc::clone(&schema), request.resume.as_ref())?;
    Ok(Box::new(TableEvents { output, schema, time }))
}

/// Type of the time column.
#[derive(Clone, Copy)]
enum TimeColumn {
    /// Timestamps.
    Instant,
    /// Durations since the start.
    SinceStart,
    /// Whole days.
    Day,
}

impl TimeColumn {
    fn of(format: &TimeFormat) -> TimeColumn {
        match format {
            TimeFormat::Relative => TimeColumn::SinceStart,
            TimeFormat::Date => TimeColumn::Day,
            _ => TimeColumn::Instant,
        }
    }

    fn data_type(self) -> DataType {
        match self {
            TimeColumn::Instant => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
            TimeColumn::SinceStart => DataType::Duration(TimeUnit::Nanosecond),
            TimeColumn::Day => DataType::Date32,
        }
    }

    fn column(self, events: &EventBatch) -> ArrayRef {
        const DAY: i64 = 86_400_000_000_000;
        let times = events.times.clone();
        match self {
            TimeColumn::Instant => Arc::new(TimestampNanosecondArray::new(times, None).with_timezone("UTC")),
            TimeColumn::SinceStart => Arc::new(DurationNanosecondArray::new(times, None)),
            TimeColumn::Day => {
                // Every i64 of nanoseconds is within i32 of days.
                let day = |time: i64| i32::try_from(time.div_euclid(DAY)).unwrap_or_default();
                let days: Date32Array = Int64Array::new(times, None).unary(day);
                Arc::new(days)
            }
        }
    }
}

struct TableEvents {
    output: TableOutput,
    schema: Arc<Schema>,
    time: TimeColumn,
}

impl EventWriter for TableEvents {
    fn name(&self) -> &str {
        self.output.name()
    }

    fn write(&mut self, events: &EventBatch) -> Result<(), SinkError> {
        let columns = std::iter::once(self.time.column(events)).chain(events.rows.columns().iter().cloned());
        let rows = RecordBatch::try_new(Arc::clone(&self.schema), columns.collect());
        let rows =
            rows.map_err(|error| SinkError::Write { sink: self.name().to_owned(), cause: error.into() })?;
        self.output.write(&rows)
    }

    fn checkpoint(&mut self) -> Result<Option<Position>, SinkError> {
        self.output.checkpoint()
    }

    fn finish(self: Box<Self>) -> Result<(), SinkError> {
        self.output.finish()
    }
}
