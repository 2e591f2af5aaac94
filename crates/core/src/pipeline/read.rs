//! A source's thread: reads, applies the policy for bad rows, restores the order of time.

use std::iter::Peekable;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow::array::{Array, AsArray, BooleanArray};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Float64Type, SchemaRef};
use arrow::error::ArrowError;
use crossbeam_channel::{Receiver, Sender};

use super::counters::count;
use super::jumps::{Jump, JumpLimit};
use super::merge::{OrderedRows, SourceMessage};
use super::progress::{ReadCounts, SourceMark, SourceProgress};
use super::reorder::ReorderBuffer;
use super::run_state::RunState;
use crate::source_files::Origin;
use crate::{
    BadRowPolicy, Columns, EventBatch, OnNote, RejectedRow, Source, SourceError, Time, catch_panic,
    written_duration,
};

pub(super) struct SourceReader {
    pub(super) index: usize,
    pub(super) origin: Origin,
    pub(super) source: Box<dyn Source>,
    pub(super) is_live: bool,
    pub(super) columns: Columns,
    pub(super) reorder: ReorderBuffer,
    /// Rows that have been read.
    pub(super) rows: ReadCounts,
    /// How many of the next rows, once they are in order, an earlier run has evaluated.
    pub(super) evaluated: u64,
    pub(super) jumps: JumpLimit,
    /// Taken once a jump has been reported.
    pub(super) on_note: Option<OnNote>,
    pub(super) since: Option<Time>,
    pub(super) until: Option<Time>,
    pub(super) bad_rows: BadRowPolicy,
    pub(super) out: Sender<SourceMessage>,
    /// Channel that is disconnected once every sink is finished.
    pub(super) done: Receiver<()>,
    pub(super) shared: Arc<RunState>,
}

/// Why reading ends before the source does.
enum ReadEnd {
    /// The engine accepts no more rows.
    Unwanted,
    /// A stop was requested; further rows are unknown.
    Stopped,
    /// Every further row is after the monitored time range.
    PastSpan,
    /// The source failed.
    Failed(SourceError),
}

impl From<SourceError> for ReadEnd {
    fn from(error: SourceError) -> ReadEnd {
        ReadEnd::Failed(error)
    }
}

impl SourceReader {
    /// Continues where an earlier run has come to.
    pub(super) fn resume(&mut self, progress: &SourceProgress) {
        self.reorder.resume(progress.newest);
        self.rows = progress.rows;
        self.evaluated = progress.ahead;
    }

    pub(super) fn run(mut self) {
        let ended = self.guarded(SourceReader::read);
        // Rows that wait in the reorder buffer are sent in any case, and an error follows them.
        let drained = self.guarded(|reader| reader.send_ready(true));
        let last_word = match ended.and(drained) {
            Ok(()) | Err(ReadEnd::PastSpan) => Some(SourceMessage::End),
            Err(ReadEnd::Failed(error)) => Some(SourceMessage::Failed(error)),
            Err(ReadEnd::Unwanted | ReadEnd::Stopped) => None,
        };
        if let Some(last_word) = last_word {
            let _ = self.out.send(last_word);
        }
        let SourceReader {
            index, origin: Origin { name: origin, .. }, mut source, out, done, shared, ..
        } = self;
        drop(out);
        let _ = done.recv();
        let acknowledged = catch_panic(|| match shared.acks.durable(index) {
            Some(through) => source.acknowledge(&through),
            None => Ok(()),
        });
        if let Err(error) =
            acknowledged.unwrap_or_else(|reason| Err(SourceError::Panicked { origin, reason }))
        {
            shared.fail(error);
        }
    }

    fn guarded(
        &mut self,
        work: impl FnOnce(&mut SourceReader) -> Result<(), ReadEnd>,
    ) -> Result<(), ReadEnd> {
        let origin = self.origin.name.clone();
        catch_panic(|| work(self))
            .unwrap_or_else(|reason| Err(ReadEnd::Failed(SourceError::Panicked { origin, reason })))
    }

    fn read(&mut self) -> Result<(), ReadEnd> {
        let schema = self.source.schema();
        let mut acknowledged = None;
        while !self.shared.stop.is_stopped() {
            let durable = self.shared.acks.durable(self.index);
            if let Some(through) = &durable
                && durable != acknowledged
            {
                self.source.acknowledge(through)?;
                acknowledged = durable;
            }
            match self.source.next_batch()? {
                Some(events) => {
                    self.check(&events, &schema)?;
                    self.take(events)?;
                }
                None if self.shared.stop.is_stopped() => break,
                None => return Ok(()),
            }
            if self.is_live {
                self.reorder.pass(Time(self.shared.wall.load(Ordering::Relaxed)));
            }
            self.send_ready(false)?;
        }
        Err(ReadEnd::Stopped)
    }

    /// Checks the contract of the source, so that a violation is reported and does not crash a later stage.
    fn check(&self, events: &EventBatch, schema: &SchemaRef) -> Result<(), SourceError> {
        let rows = events.len();
        let reason = if events.times.len() != rows || events.row_numbers.len() != rows {
            "it gave a batch whose times or row numbers are not as many as its rows"
        } else if events.rows.schema_ref().fields() != schema.fields() {
            "it gave a batch whose columns are not those of its schema"
        } else if !events.rejected.is_empty() && !events.row_numbers.is_sorted_by(|a, b| a < b) {
            // Rejected rows are merged with the others by their numbers.
            "it gave a batch with a rejected row whose row numbers do not increase"
        } else {
            return Ok(());
        };
        Err(self.broken(reason.to_owned()))
    }

    fn broken(&self, reason: String) -> SourceError {
        SourceError::Broken { origin: self.origin.name.clone(), reason }
    }

    /// Passes on the good rows of a batch. Good and rejected rows are processed in the order of the source, up to the
    /// first that ends the run, so that the result does not depend on where a batch ends.
    fn take(&mut self, mut events: EventBatch) -> Result<(), ReadEnd> {
        count(&self.shared.counters.dropped, usize::try_from(events.dropped).unwrap_or(usize::MAX));
        self.rows.dropped += events.dropped;
        let mut rejected = std::mem::take(&mut events.rejected).into_iter().peekable();
        let nan = NanColumns::of(&events);
        let mut good = vec![false; events.len()];
        let admitted = self.guarded(|reader| reader.admit_rows(&events, &mut rejected, &nan, &mut good));
        self.reorder.promise(events.watermark);
        let kept = self.keep(events, &good)?;
        let mark = admitted.is_ok().then(|| SourceMark {
            position: kept.end.clone(),
            newest: self.reorder.newest_row(),
            rows: self.rows,
        });
        self.reorder.push(kept, mark);
        admitted
    }

    fn admit_rows(
        &mut self,
        events: &EventBatch,
        rejected: &mut Peekable<impl Iterator<Item = RejectedRow>>,
        nan: &NanColumns<'_>,
        good: &mut [bool],
    ) -> Result<(), ReadEnd> {
        let shared = Arc::clone(&self.shared);
        for (index, good) in good.iter_mut().enumerate() {
            let (time, row) = (events.time(index), events.row_numbers[index]);
            while let Some(bad) = rejected.next_if(|bad| bad.row < row) {
                self.reject(bad)?;
            }
            self.count_read();
            let jump = self.jumps.judge(time, self.reorder.newest(), events.relative, self.is_live);
            if let Jump::Reject(reason) = jump {
                self.reject_counted(RejectedRow { row, column: None, reason })?;
                continue;
            }
            if let Jump::Warn(ahead) = jump {
                self.warn_of_jump(time, row, ahead);
            }
            if let Err(oldest) = self.reorder.admit(time, row) {
                count(&shared.counters.late, 1);
                self.rows.late += 1;
                let reason = self.reorder.too_late(time, oldest, |row| self.place(row));
                self.reject_counted(RejectedRow { row, column: None, reason })?;
            } else if self.is_before(time) || self.is_after(time) {
                count(&shared.counters.outside, 1);
                self.rows.outside += 1;
            } else if let Some(column) = nan.at(index) {
                let reason = "NaN is not a number; leave the value out where there is none".to_owned();
                self.reject_counted(RejectedRow { row, column: Some(column.to_owned()), reason })?;
            } else {
                *good = true;
            }
            if self.is_after(self.reorder.watermark()) {
                return Err(ReadEnd::PastSpan);
            }
        }
        rejected.try_for_each(|bad| self.reject(bad))
    }

    /// Name and number of a row, for messages.
    fn place(&self, row: u64) -> String {
        let (origin, bad) = self.origin.place(RejectedRow { row, column: None, reason: String::new() });
        match self.origin.name == origin {
            true => format!("row {}", bad.row),
            false => format!("{origin}, row {}", bad.row),
        }
    }

    /// Reports the first row that is so far ahead that the rows after it are likely to be late.
    fn warn_of_jump(&mut self, time: Time, row: u64, ahead: Duration) {
        let Some(on_note) = self.on_note.take() else { return };
        let (origin, bad) = self.origin.place(RejectedRow { row, column: None, reason: String::new() });
        on_note(&format!(
            "warning: {origin}: row {}: its time {} is {} after the row before, and later than now; rows with earlier times will be too late; `--max-jump 1d` refuses such rows",
            bad.row,
            time.for_people(),
            written_duration(ahead)
        ));
    }

    fn is_before(&self, time: Time) -> bool {
        self.since.is_some_and(|since| time < since)
    }

    fn is_after(&self, time: Time) -> bool {
        self.until.is_some_and(|until| time > until)
    }

    fn count_read(&mut self) {
        count(&self.shared.counters.read, 1);
        self.rows.read += 1;
    }

    fn reject(&mut self, bad: RejectedRow) -> Result<(), ReadEnd> {
        self.count_read();
        self.reject_counted(bad)
    }

    fn reject_counted(&mut self, bad: RejectedRow) -> Result<(), ReadEnd> {
        count(&self.shared.counters.rejected, 1);
        self.rows.rejected += 1;
        Ok(self.bad_rows.apply(self.index, self.origin.place(bad))?)
    }

    /// The rows marked as good, with the columns in the order that the engine reads.
    fn keep(&self, events: EventBatch, good: &[bool]) -> Result<EventBatch, SourceError> {
        let rows = self
            .columns
            .arrange(self.index, &events.rows)
            .ok_or_else(|| self.broken("its columns changed after it was opened".to_owned()))?;
        if good.iter().all(|good| *good) {
            return Ok(EventBatch { rows, ..events });
        }
        let kept = || (0..good.len()).filter(|index| good[*index]);
        let filter = BooleanArray::from(good.to_vec());
        Ok(EventBatch {
            rows: filter_record_batch(&rows, &filter).map_err(|error| self.broken(error.to_string()))?,
            times: kept().map(|index| events.times[index]).collect(),
            row_numbers: kept().map(|index| events.row_numbers[index]).collect(),
            ..events
        })
    }

    fn send_ready(&mut self, all: bool) -> Result<(), ReadEnd> {
        let failed = |reader: &SourceReader, error: ArrowError| reader.broken(error.to_string());
        while let Some(mut part) = self.reorder.ready(all).map_err(|error| failed(self, error))? {
            self.leave_out_evaluated(&mut part);
            self.out.send(SourceMessage::Rows(part)).map_err(|_| ReadEnd::Unwanted)?;
        }
        Ok(())
    }
}

impl SourceReader {
    /// Leaves out rows that an earlier run has evaluated.
    fn leave_out_evaluated(&mut self, part: &mut OrderedRows) {
        let rows = part.events.len();
        let skipped = usize::try_from(self.evaluated).unwrap_or(usize::MAX).min(rows);
        if skipped > 0 {
            self.evaluated -= skipped as u64;
            part.events = part.events.slice(skipped, rows - skipped);
        }
        // Those that are left out later have been evaluated too.
        part.ahead += self.evaluated;
    }
}

/// Columns that contain NaN. NaN compares with nothing, so a verdict on it would be meaningless.
struct NanColumns<'a>(Vec<(&'a str, &'a arrow::array::Float64Array)>);

impl<'a> NanColumns<'a> {
    fn of(events: &'a EventBatch) -> NanColumns<'a> {
        let columns = events.rows.columns().iter().zip(events.rows.schema_ref().fields());
        let floats = columns.filter(|(column, _)| column.data_type() == &DataType::Float64);
        let floats =
            floats.map(|(column, field)| (field.name().as_str(), column.as_primitive::<Float64Type>()));
        NanColumns(floats.filter(|(_, column)| column.values().iter().any(|value| value.is_nan())).collect())
    }

    /// The first column in which a row is NaN.
    fn at(&self, row: usize) -> Option<&'a str> {
        let is_nan = |column: &arrow::array::Float64Array| column.is_valid(row) && column.value(row).is_nan();
        self.0.iter().find(|(_, column)| is_nan(column)).map(|(name, _)| *name)
    }
}
