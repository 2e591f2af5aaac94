//! The Arrow IPC source: a file, or a stream as it arrives.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use fairstream_core::{
    Adapter, Cause, EndOfInput, EventBatch, Position, Source, SourceContext, SourceError, SourceFactory,
    SourceRequest, TimeFormat,
};
use fairstream_files::{Gathering, Heads};

use crate::binding::{Binding, is_by_row, offers};
use crate::ipc::{Ipc, NextMessage};
use crate::moments::Moments;
use crate::source::OPTIONS;

/// Opens sources of Arrow IPC.
#[derive(Clone, Copy, Debug)]
pub struct ArrowSources;

impl SourceFactory for ArrowSources {
    fn adapter(&self) -> Adapter {
        Adapter {
            name: "arrow",
            about: "Arrow IPC, a file (Feather) or a stream; `a.b` is `b` inside `a`, `-` is a stream on \
                    standard input",
            extensions: &["arrow", "feather", "arrows"],
            options: OPTIONS,
        }
    }

    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, SourceError> {
        let location = &request.location;
        let failed = |cause: Cause| request.cannot_open(cause);
        let bad_option = |bad| request.refuse(bad);
        let format = request.options.parse("time_format", TimeFormat::Auto).map_err(bad_option)?;
        let mut ipc = Ipc::open(location, &request.context.stop).map_err(failed)?;
        let all = ipc.schema();
        let time = request.options.text("time").unwrap_or("time");
        let time = Some(time).filter(|time| !is_by_row(time, [(&*all, &[][..])]));
        let format = if time.is_some() { format } else { TimeFormat::Relative };
        let binding = Binding::new(&all, &[], &request.wanted, time).map_err(failed)?;
        let fields: Vec<_> = binding.fields().flatten().collect();
        ipc.project(binding.paths()).map_err(failed)?;
        let mut source = ArrowTable {
            name: ipc.name().to_owned(),
            offers: offers(&all, None),
            ipc,
            binding,
            schema: Arc::new(Schema::new(fields)),
            moments: Moments::new(format),
            context: request.context.clone(),
            rest: None,
            heads: Heads::default(),
            place: ArrowPosition { batch: 0, row: 0 },
            batch_rows: 0,
            rows: 0,
            end: EndOfInput::default(),
        };
        if let Some(position) = &request.resume {
            source.go_to(position).map_err(failed)?;
        }
        Ok(Box::new(source))
    }
}

struct ArrowTable {
    name: String,
    ipc: Ipc,
    offers: Vec<String>,
    binding: Binding,
    schema: SchemaRef,
    moments: Moments,
    context: SourceContext,
    /// Rows that have been read and not been converted.
    rest: Option<RecordBatch>,
    /// Rows that have been converted and not been returned.
    heads: Heads,
    place: ArrowPosition,
    /// Number of rows of the current record batch.
    batch_rows: u64,
    rows: u64,
    end: EndOfInput,
}

/// Record batch of the next row, and its index in the batch.
#[derive(Clone, Copy)]
struct ArrowPosition {
    batch: u64,
    row: u64,
}

/// Time after which an empty batch is returned if no rows arrive.
const IDLE: Duration = Duration::from_secs(1);

impl ArrowTable {
    fn go_to(&mut self, position: &Position) -> Result<(), Cause> {
        let (place, format) =
            read_position(&position.resume).ok_or("the position is not one of Arrow IPC")?;
        self.moments = Moments::new(format);
        self.rows = position.rows;
        self.ipc.skip(place.batch)?;
        self.place = ArrowPosition { batch: place.batch, row: 0 };
        if place.row > 0 {
            let shorter = "it is shorter than it was when it was read before";
            let NextMessage::Rows(rows) = self.ipc.next(None)? else { return Err(shorter.into()) };
            let skipped = usize::try_from(place.row)?;
            if skipped > rows.num_rows() {
                return Err(shorter.into());
            }
            self.offer(&rows, skipped)?;
        }
        Ok(())
    }

    /// Adds rows to the merge, except the first `skipped`.
    fn offer(&mut self, rows: &RecordBatch, skipped: usize) -> Result<(), Cause> {
        self.batch_rows = rows.num_rows() as u64;
        self.place.row = skipped as u64;
        if skipped == rows.num_rows() {
            self.place = ArrowPosition { batch: self.place.batch + 1, row: 0 };
            return Ok(());
        }
        self.convert(&rows.slice(skipped, rows.num_rows() - skipped))
    }

    /// Converts as many rows as memory should hold, and adds them to the merge.
    fn convert(&mut self, rows: &RecordBatch) -> Result<(), Cause> {
        let within = self.binding.rows_within(rows, self.context.max_bytes.get());
        let more = rows.num_rows() - within;
        self.rest = (more > 0).then(|| rows.slice(within, more));
        let rows = rows.slice(0, within);
        let chunk = self.binding.decode(&rows, self.rows + 1, &self.schema, &mut self.moments)?;
        self.heads.offer(0, chunk);
        Ok(())
    }

    /// Adds rows to a batch until it is full, its deadline passes, or no rows arrive.
    fn gather(&mut self, batch: &mut Gathering) -> Result<(), Cause> {
        let max_rows = self.context.max_rows.get();
        // Empty batches are returned from time to time, so that acknowledgements are processed while no rows
        // arrive.
        let mut deadline = Instant::now().checked_add(IDLE);
        while !batch.is_full(&self.context) {
            if let Some(segment) = self.heads.take(max_rows - batch.rows(), None) {
                if batch.rows() == 0 {
                    deadline = Instant::now().checked_add(self.context.max_age);
                }
                let taken = segment.rows() as u64;
                self.rows += taken;
                self.place.row += taken;
                if self.place.row == self.batch_rows {
                    self.place = ArrowPosition { batch: self.place.batch + 1, row: 0 };
                }
                // A segment is refused only if rows of several inputs are mixed, and there is one input.
                let _ = batch.add(segment);
                continue;
            }
            if let Some(rest) = self.rest.take() {
                self.convert(&rest)?;
                continue;
            }
            match self.ipc.next(deadline)? {
                NextMessage::Rows(rows) => self.offer(&rows, 0)?,
                NextMessage::NotYet => break,
                NextMessage::End => {
                    self.end.end();
                    break;
                }
            }
        }
        Ok(())
    }

    fn position(&self) -> Position {
        let ArrowPosition { batch, row } = self.place;
        let format = self.moments.format().name().as_bytes();
        let resume = [&MARK[..], &batch.to_le_bytes(), &row.to_le_bytes(), format].concat();
        Position { rows: self.rows, resume: resume.into() }
    }
}

const MARK: &[u8; 5] = b"arrow";

fn read_position(bytes: &[u8]) -> Option<(ArrowPosition, TimeFormat)> {
    let (batch, bytes) = bytes.strip_prefix(MARK)?.split_first_chunk()?;
    let (row, format) = bytes.split_first_chunk()?;
    let place = ArrowPosition { batch: u64::from_le_bytes(*batch), row: u64::from_le_bytes(*row) };
    Some((place, std::str::from_utf8(format).ok()?.parse().ok()?))
}

impl Source for ArrowTable {
    fn name(&self) -> &str {
        &self.name
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn offers(&self) -> Vec<String> {
        self.offers.clone()
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>, SourceError> {
        if self.end.end_if_stopped(&self.context.stop) {
            return self.end.take_result();
        }
        let mut batch = Gathering::default();
        if let Err(cause) = self.gather(&mut batch) {
            self.end.fail(SourceError::Read { origin: self.name.clone(), row: self.rows, cause });
        }
        if batch.rows() == 0 && self.end.has_ended() {
            return self.end.take_result();
        }
        let events = batch.finish(&self.schema, self.position());
        let mut events = events.map_err(|error| SourceError::Read {
            origin: self.name.clone(),
            row: self.rows,
            cause: error.into(),
        })?;
        events.relative = self.moments.is_relative();
        Ok(Some(events))
    }
}
