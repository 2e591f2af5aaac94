//! A source's thread: reads, applies the policy for bad rows, keeps the order of time.

use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Float64Type, SchemaRef};
use crossbeam_channel::{Receiver, Sender};

use super::counters::count;
use super::merge::Delivery;
use super::order::Order;
use super::shared::Shared;
use crate::{BadRowPolicy, Columns, EventBatch, RejectedRow, Source, SourceError, Time, catch_panic};

pub(super) struct Reader {
    pub(super) index: usize,
    pub(super) source: Box<dyn Source>,
    pub(super) columns: Columns,
    pub(super) order: Order,
    pub(super) since: Option<Time>,
    pub(super) until: Option<Time>,
    pub(super) bad_rows: BadRowPolicy,
    pub(super) out: Sender<Delivery>,
    /// Disconnected once every sink is finished.
    pub(super) done: Receiver<()>,
    pub(super) shared: Arc<Shared>,
}

/// Why reading ends before the source does.
enum Halt {
    /// The engine takes no more.
    Unwanted,
    /// Every further row is after the monitored span.
    PastSpan,
    /// The source failed.
    Failed(SourceError),
}

impl From<SourceError> for Halt {
    fn from(error: SourceError) -> Halt {
        Halt::Failed(error)
    }
}

impl Reader {
    pub(super) fn run(mut self) {
        let name = self.source.name().to_owned();
        let ended = catch_panic(|| self.read()).unwrap_or_else(|reason| {
            Err(Halt::Failed(SourceError::Panicked { origin: name.clone(), reason }))
        });
        if let Err(Halt::Failed(error)) = ended {
            // The error takes its place behind the rows that were read before it.
            let _ = self.out.send(Err(error));
        }
        let Reader { index, mut source, out, done, shared, .. } = self;
        drop(out);
        let _ = done.recv();
        let acknowledged = catch_panic(|| match shared.ledger.durable(index) {
            Some(through) => source.acknowledge(&through),
            None => Ok(()),
        });
        match acknowledged {
            Ok(Ok(())) => {}
            Ok(Err(error)) => shared.fail(error),
            Err(reason) => shared.fail(SourceError::Panicked { origin: name, reason }),
        }
    }

    fn read(&mut self) -> Result<(), Halt> {
        let schema = self.source.schema();
        let mut acknowledged = None;
        while !self.shared.stop.is_stopped() {
            let durable = self.shared.ledger.durable(self.index);
            if let Some(through) = &durable
                && durable != acknowledged
            {
                self.source.acknowledge(through)?;
                acknowledged = durable;
            }
            let Some(events) = self.source.next_batch()? else { break };
            match self.take(events, &schema) {
                Ok(()) => {}
                Err(Halt::PastSpan) => break,
                Err(halt) => {
                    self.send_ready(true)?;
                    return Err(halt);
                }
            }
        }
        self.send_ready(true)
    }

    /// Passes on what is good of a batch.
    fn take(&mut self, mut events: EventBatch, schema: &SchemaRef) -> Result<(), Halt> {
        let counters = Arc::clone(&self.shared.counters);
        count(&counters.read, events.len() + events.rejected.len());
        count(&counters.dropped, usize::try_from(events.dropped).unwrap_or(usize::MAX));
        self.check(&events, schema)?;

        let mut bad = std::mem::take(&mut events.rejected);
        let mut good = vec![true; events.len()];
        reject_nan(&events, &mut good, &mut bad);
        let last = self.admit(&events, &mut good, &mut bad);
        bad.retain(|bad| last.is_none_or(|last| bad.row <= last));
        bad.sort_by_key(|bad| bad.row);

        let fatal = match &self.bad_rows {
            BadRowPolicy::Stop => bad.into_iter().next(),
            BadRowPolicy::Skip(report) => {
                count(&counters.rejected, bad.len());
                for bad in &bad {
                    report(self.source.name(), bad).map_err(|cause| SourceError::Report {
                        origin: self.source.name().to_owned(),
                        cause,
                    })?;
                }
                None
            }
        };
        if let Some(fatal) = &fatal {
            for (good, row) in good.iter_mut().zip(&events.row_numbers) {
                *good &= *row < fatal.row;
            }
        }
        events = self.keep(events, &good)?;
        self.order.push(events);
        self.send_ready(false)?;
        match fatal {
            Some(bad) => {
                count(&self.shared.counters.rejected, 1);
                Err(Halt::Failed(SourceError::BadRow { origin: self.source.name().to_owned(), bad }))
            }
            None if last.is_some() => Err(Halt::PastSpan),
            None => Ok(()),
        }
    }

    /// A source that breaks its contract is named, instead of crashing something behind it.
    fn check(&self, events: &EventBatch, schema: &SchemaRef) -> Result<(), SourceError> {
        let rows = events.len();
        let reason = if events.times.len() != rows || events.row_numbers.len() != rows {
            "it gave a batch whose times or row numbers are not as many as its rows"
        } else if events.rows.schema_ref().fields() != schema.fields() {
            "it gave a batch whose columns are not those of its schema"
        } else {
            return Ok(());
        };
        Err(SourceError::Broken { origin: self.source.name().to_owned(), reason: reason.to_owned() })
    }

    /// Goes through the rows in order of arrival, rejects those that come too late and leaves out
    /// those outside the monitored span. If no further row can be inside it: the row from which
    /// on that is so. What follows that row does not count, wherever the batch ends.
    fn admit(&mut self, events: &EventBatch, good: &mut [bool], bad: &mut Vec<RejectedRow>) -> Option<u64> {
        let (since, until) = (self.since, self.until);
        let before = |time: Time| since.is_some_and(|since| time < since);
        let after = |time: Time| until.is_some_and(|until| time > until);
        for index in 0..good.len() {
            if !good[index] {
                continue;
            }
            let (time, row) = (events.time(index), events.row_numbers[index]);
            if let Err(oldest) = self.order.admit(time) {
                good[index] = false;
                count(&self.shared.counters.late, 1);
                bad.push(RejectedRow {
                    row,
                    column: None,
                    reason: format!(
                        "its time {} is before {}; if rows come late, allow for it with `--reorder 10m`",
                        time.for_people(),
                        oldest.for_people()
                    ),
                });
            } else if before(time) || after(time) {
                good[index] = false;
                count(&self.shared.counters.outside, 1);
            }
            if after(self.order.oldest_to_come()) {
                good[index + 1..].fill(false);
                return Some(row);
            }
        }
        None
    }

    /// The rows that are marked good, with every wanted column in its place.
    fn keep(&self, events: EventBatch, good: &[bool]) -> Result<EventBatch, SourceError> {
        let broken = |reason: String| SourceError::Broken { origin: self.source.name().to_owned(), reason };
        let rows = self
            .columns
            .arrange(self.index, &events.rows)
            .ok_or_else(|| broken("its columns changed after it was opened".to_owned()))?;
        if good.iter().all(|good| *good) {
            return Ok(EventBatch { rows, ..events });
        }
        let marked = |index: &usize| good[*index];
        Ok(EventBatch {
            rows: filter_rows(&rows, good).map_err(|error| broken(error.to_string()))?,
            times: (0..good.len()).filter(marked).map(|index| events.times[index]).collect(),
            row_numbers: (0..good.len()).filter(marked).map(|index| events.row_numbers[index]).collect(),
            ..events
        })
    }

    fn send_ready(&mut self, all: bool) -> Result<(), Halt> {
        loop {
            let ready = self.order.ready(all).map_err(|error| SourceError::Broken {
                origin: self.source.name().to_owned(),
                reason: error.to_string(),
            })?;
            match ready {
                None => return Ok(()),
                Some(events) => self.out.send(Ok(events)).map_err(|_| Halt::Unwanted)?,
            }
        }
    }
}

fn filter_rows(rows: &RecordBatch, good: &[bool]) -> Result<RecordBatch, arrow::error::ArrowError> {
    filter_record_batch(rows, &BooleanArray::from(good.to_vec()))
}

/// NaN is no measurement: it compares with nothing, so a verdict on it would mean nothing.
fn reject_nan(events: &EventBatch, good: &mut [bool], bad: &mut Vec<RejectedRow>) {
    let columns = events.rows.columns().iter().zip(events.rows.schema_ref().fields());
    for (column, field) in columns.filter(|(column, _)| column.data_type() == &DataType::Float64) {
        let values = column.as_primitive::<Float64Type>();
        for (index, value) in values.values().iter().enumerate() {
            if value.is_nan() && values.is_valid(index) && good[index] {
                good[index] = false;
                bad.push(RejectedRow {
                    row: events.row_numbers[index],
                    column: Some(field.name().clone()),
                    reason: "NaN is not a number; leave the value out where there is none".to_owned(),
                });
            }
        }
    }
}
