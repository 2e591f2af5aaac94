//! A source that reads rows one by one. The format defines and decodes rows; gathering them into batches,
//! rejecting bad rows, and positions are the same for all formats.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use fairstream_core::{
    Cause, EndOfInput, EventBatch, Position, RejectedRow, Source, SourceContext, SourceError, Time,
    TimeFormat, TimeReader, WantedColumn,
};

use crate::{Column, FirstTime};

/// Rows in some format, mostly text.
pub trait Rows: Send {
    /// Name of the input in messages.
    fn name(&self) -> &str;

    /// Advances to the next row. Waits for it, but not past the deadline.
    ///
    /// # Errors
    /// The input cannot be read. The source ends with that error after the rows before it.
    fn next(&mut self, deadline: Option<Instant>) -> io::Result<NextRow>;

    /// The number of the row, counted from 1; for text, the line that it begins on.
    fn line(&self) -> u64;

    /// Position after the last complete row.
    fn place(&self) -> Place;

    /// Seeks to the start of a row.
    ///
    /// # Errors
    /// The input cannot be read, or, as [`io::ErrorKind::UnexpectedEof`], is shorter than that.
    fn go_to(&mut self, place: Place) -> io::Result<()>;

    /// What a position needs beside the place; see [`set_anchor`](Rows::set_anchor).
    fn anchor(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Finds the file of a position. Called before [`go_to`](Rows::go_to).
    ///
    /// # Errors
    /// There is no such file any more.
    fn set_anchor(&mut self, anchor: &[u8]) -> io::Result<()> {
        let _ = anchor;
        Ok(())
    }

    /// Rows before this place are not needed any more.
    ///
    /// # Errors
    /// They cannot be given up.
    fn acknowledge(&mut self, place: Place) -> io::Result<()> {
        let _ = place;
        Ok(())
    }

    /// Appends one value or null to each column, and returns the time of the row. `None` if rows are taken in their
    /// order, at [`Time::of_row`]; the format of times is then [`TimeFormat::Relative`].
    ///
    /// # Errors
    /// The error of the row. Some columns may have received their value: the caller makes them equally long.
    fn append(&mut self, columns: &mut [Column], time: &mut TimeReader) -> Result<Option<Time>, RejectedRow>;

    /// Names of all columns of the input, requested or not. Empty if they cannot be known.
    fn offers(&self) -> Vec<String>;

    /// Whether rows are taken in their order.
    fn is_by_row(&self) -> bool {
        false
    }

    /// Whether rows come as they happen.
    fn is_live(&self) -> bool {
        false
    }

    /// Number of rows that were lost since the last call, because they arrived faster than they were read.
    fn dropped(&mut self) -> u64 {
        0
    }
}

/// Result of advancing to the next row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextRow {
    /// There is a row.
    Row,
    /// The deadline passed before the row was complete.
    NotYet,
    /// The input has ended.
    End,
}

/// Position of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of bytes before it.
    pub offset: u64,
    /// Its number, as of [`Rows::line`].
    pub line: u64,
    /// Whether a carriage return precedes it, whose line feed may follow.
    pub after_return: bool,
}

impl Place {
    /// Position of the first row.
    pub const START: Place = Place { offset: 0, line: 1, after_return: false };
}

/// Maximum length of a line in bytes. A longer one ends the input with an error, as it may never end.
pub const MAX_LINE: usize = 1 << 30;

/// Measures input that is skipped while the next row is searched for, so that the caller is asked from time to time
/// whether the run goes on.
#[derive(Debug)]
pub struct Skipping {
    deadline: Option<Instant>,
    bytes: usize,
}

impl Skipping {
    /// Nothing has been skipped yet.
    pub fn new(deadline: Option<Instant>) -> Skipping {
        Skipping { deadline, bytes: 0 }
    }

    /// Counts bytes that were skipped. Whether they are many, and the deadline has passed.
    pub fn pause_after(&mut self, bytes: usize) -> bool {
        const MANY: usize = 16 << 20;
        self.bytes = self.bytes.saturating_add(bytes);
        self.bytes > MANY && self.deadline.is_some_and(|deadline| deadline < Instant::now())
    }
}

/// Gathers rows into batches.
pub struct RowSource<R> {
    name: String,
    rows: R,
    context: SourceContext,
    schema: SchemaRef,
    columns: Vec<Column>,
    time: TimeReader,
    count: u64,
    line: u64,
    end: EndOfInput,
}

impl<R: Rows> RowSource<R> {
    /// A source of rows with these columns.
    ///
    /// # Errors
    /// A column has an unsupported type.
    pub fn new(
        rows: R,
        wanted: &[WantedColumn],
        time_format: TimeFormat,
        context: SourceContext,
    ) -> Result<RowSource<R>, Cause> {
        let column = |wanted: &WantedColumn| {
            let no_column = || format!("column `{}`: no row has {}", wanted.name, wanted.data_type);
            Column::new(&wanted.data_type).ok_or_else(no_column)
        };
        let field = |wanted: &WantedColumn| Field::new(&wanted.name, wanted.data_type.clone(), true);
        Ok(RowSource {
            name: rows.name().to_owned(),
            line: rows.line(),
            rows,
            context,
            schema: Arc::new(Schema::new(wanted.iter().map(field).collect::<Vec<_>>())),
            columns: wanted.iter().map(column).collect::<Result<_, _>>()?,
            time: TimeReader::new(time_format),
            count: 0,
            end: EndOfInput::default(),
        })
    }

    /// Resumes after the row of a position of an earlier run.
    ///
    /// # Errors
    /// The position is not from such a source, or is beyond the end.
    pub fn go_to(&mut self, position: &Position) -> Result<(), Cause> {
        let Resume { place, time_format, anchor } =
            Resume::read(&position.resume).ok_or("the position is not one of such rows")?;
        self.rows.set_anchor(&anchor)?;
        self.rows.go_to(place).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => "it is shorter than it was when it was read before".into(),
            _ => Cause::from(error),
        })?;
        self.time = TimeReader::new(time_format);
        self.count = position.rows;
        self.line = place.line;
        Ok(())
    }

    /// The format of times, once one has been read.
    pub(crate) fn time_format(&self) -> &TimeFormat {
        self.time.format()
    }

    /// Whether rows are taken in their order.
    pub(crate) fn is_by_row(&self) -> bool {
        self.rows.is_by_row()
    }

    /// Counts rows on from this number.
    pub(crate) fn count_from(&mut self, count: u64) {
        self.count = count;
    }

    /// Reads up to the first row that can be read, or that many, and returns its time.
    pub(crate) fn first_time(&mut self, rows: usize) -> Result<Option<Time>, SourceError> {
        let mut read = 0;
        while read < rows
            && let Some(events) = self.next_batch()?
        {
            if let Some(time) = events.times.first() {
                return Ok(Some(Time(*time)));
            }
            read += events.rejected.len();
        }
        Ok(None)
    }

    fn cannot_read(&self, cause: Cause) -> SourceError {
        SourceError::Read { origin: self.name.clone(), row: self.line, cause }
    }

    fn position(&self) -> Position {
        let time_format = self.time.format().clone();
        let resume = Resume { place: self.rows.place(), time_format, anchor: self.rows.anchor() };
        Position { rows: self.count, resume: resume.written().into() }
    }
}

impl<R: Rows> Source for RowSource<R> {
    fn name(&self) -> &str {
        &self.name
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn offers(&self) -> Vec<String> {
        self.rows.offers()
    }

    fn is_live(&self) -> bool {
        self.rows.is_live()
    }

    fn acknowledge(&mut self, through: &Position) -> Result<(), SourceError> {
        let Some(resume) = Resume::read(&through.resume) else { return Ok(()) };
        self.rows.acknowledge(resume.place).map_err(|error| self.cannot_read(error.into()))
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>, SourceError> {
        if self.end.end_if_stopped(&self.context.stop) {
            return self.end.take_result();
        }
        let mut batch = Building::default();
        let start = self.rows.place().offset;
        // Empty batches are returned from time to time, so that acknowledgements are processed while no rows
        // arrive.
        let mut deadline = Instant::now().checked_add(IDLE);
        // If the time of the first row cannot be read, the error shows those of the next rows as well.
        let mut first = None;
        while (batch.held() < self.context.max_rows.get()
            || first.as_ref().is_some_and(FirstTime::wants_more))
            && self.rows.place().offset - start < self.context.max_bytes.get() as u64
        {
            match self.rows.next(deadline) {
                Ok(NextRow::Row) => {}
                Ok(NextRow::NotYet) => break,
                Ok(NextRow::End) => {
                    self.end.end();
                    break;
                }
                Err(error) => {
                    self.end.fail(self.cannot_read(error.into()));
                    break;
                }
            }
            if batch.held() == 0 {
                deadline = Instant::now().checked_add(self.context.max_age);
            }
            self.line = self.rows.line();
            self.count += 1;
            match self.rows.append(&mut self.columns, &mut self.time) {
                Ok(time) => {
                    first.iter_mut().for_each(FirstTime::end);
                    batch.times.push(time.unwrap_or_else(|| Time::of_row(self.count)).0);
                    batch.row_numbers.push(self.line);
                }
                Err(bad) => {
                    let refused = self.time.take_refused();
                    match (&mut first, refused) {
                        (None, Some(refused)) if self.count == 1 => first = Some(FirstTime::new(refused)),
                        (Some(first), refused) => first.add(refused),
                        _ => {}
                    }
                    batch.reject(bad, &mut self.columns);
                }
            }
        }
        if let (Some(first), Some(bad)) = (first, batch.rejected.first_mut()) {
            bad.reason = first.reason();
        }
        if batch.held() == 0 && self.end.has_ended() {
            return self.end.take_result();
        }
        let arrays = self.columns.iter_mut().map(Column::finish).collect();
        let events = batch.finish(&self.schema, arrays, self.position());
        let mut events = events.map_err(|error| self.cannot_read(error.into()))?;
        events.relative = self.time.is_relative();
        events.dropped = self.rows.dropped();
        Ok(Some(events))
    }
}

/// Time after which an empty batch is returned if no row arrives.
const IDLE: Duration = Duration::from_secs(1);

/// A batch under construction.
#[derive(Default)]
struct Building {
    times: Vec<i64>,
    row_numbers: Vec<u64>,
    rejected: Vec<RejectedRow>,
    /// For each row in the columns whether it is valid. Empty as long as all are.
    good: Vec<bool>,
}

impl Building {
    /// Makes the columns equally long after a row that could not be decoded, with a row that `finish` removes.
    fn reject(&mut self, bad: RejectedRow, columns: &mut [Column]) {
        self.good.resize(self.held(), true);
        self.good.push(false);
        self.rejected.push(bad);
        for column in columns {
            if column.len() < self.held() {
                column.append_null();
            }
        }
    }

    /// Number of rows in the columns.
    fn held(&self) -> usize {
        self.times.len() + self.rejected.len()
    }

    fn finish(
        mut self,
        schema: &SchemaRef,
        columns: Vec<ArrayRef>,
        end: Position,
    ) -> Result<EventBatch, arrow::error::ArrowError> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.held()));
        let mut rows = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?;
        if !self.good.is_empty() {
            self.good.resize(rows.num_rows(), true);
            rows = filter_record_batch(&rows, &BooleanArray::from(self.good))?;
        }
        let mut events = EventBatch::new(rows, self.times, self.row_numbers, end);
        events.rejected = self.rejected;
        Ok(events)
    }
}

/// The position to resume from, as bytes.
struct Resume {
    place: Place,
    time_format: TimeFormat,
    anchor: Vec<u8>,
}

impl Resume {
    fn written(&self) -> Vec<u8> {
        let Place { offset, line, after_return } = self.place;
        let format = self.time_format.name().as_bytes();
        let start =
            [&offset.to_le_bytes(), &line.to_le_bytes(), &[u8::from(after_return)][..], format].concat();
        // No format has a zero byte.
        if self.anchor.is_empty() { start } else { [&start, &[0][..], &self.anchor].concat() }
    }

    fn read(bytes: &[u8]) -> Option<Resume> {
        let (offset, rest) = bytes.split_first_chunk()?;
        let (line, rest) = rest.split_first_chunk()?;
        let (after_return, rest) = rest.split_first()?;
        let end = rest.iter().position(|byte| *byte == 0);
        let (format, anchor) = end.map_or((rest, &[][..]), |end| (&rest[..end], &rest[end + 1..]));
        Some(Resume {
            place: Place {
                offset: u64::from_le_bytes(*offset),
                line: u64::from_le_bytes(*line),
                after_return: *after_return == 1,
            },
            time_format: std::str::from_utf8(format).ok()?.parse().ok()?,
            anchor: anchor.to_vec(),
        })
    }
}
