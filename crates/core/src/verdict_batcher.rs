//! Verdicts → batches of columns.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};

use crate::verdict_columns::VerdictColumns;
use crate::{Cancelled, VerdictBatch, VerdictRef, VerdictSink, verdict_schema};

/// Receives full batches of verdicts.
pub trait BatchSink {
    /// Receives a batch.
    ///
    /// # Errors
    /// The run is ending.
    fn take(&mut self, batch: VerdictBatch) -> Result<(), Cancelled>;

    /// Whether another batch would be taken.
    ///
    /// # Errors
    /// The run is ending.
    fn check(&self) -> Result<(), Cancelled> {
        Ok(())
    }
}

impl<F: FnMut(VerdictBatch) -> Result<(), Cancelled>> BatchSink for F {
    fn take(&mut self, batch: VerdictBatch) -> Result<(), Cancelled> {
        self(batch)
    }
}

/// Keeps every batch.
impl BatchSink for Vec<VerdictBatch> {
    fn take(&mut self, batch: VerdictBatch) -> Result<(), Cancelled> {
        self.push(batch);
        Ok(())
    }
}

/// Collects verdicts into batches. A full batch goes on at once, so a long gap in time with a verdict at every tick
/// needs memory for one batch only.
pub struct VerdictBatcher<S> {
    batches: S,
    max_rows: usize,
    stream_names: ArrayRef,
    columns: VerdictColumns,
}

impl<S: BatchSink> VerdictBatcher<S> {
    /// For the verdicts of an engine with these streams: batches of at most `max_rows` go to `batches`.
    pub fn new(streams: &[String], max_rows: usize, batches: S) -> VerdictBatcher<S> {
        VerdictBatcher {
            batches,
            max_rows: max_rows.max(1),
            stream_names: Arc::new(StringArray::from_iter_values(streams)),
            columns: VerdictColumns::default(),
        }
    }

    /// Passes on what has been collected. The pipeline calls it after each batch of events.
    ///
    /// # Errors
    /// The run is ending.
    pub fn flush(&mut self) -> Result<(), Cancelled> {
        if self.columns.len() == 0 {
            return Ok(());
        }
        let rows = self.columns.finish(&self.stream_names);
        match RecordBatch::try_new(verdict_schema(), rows).ok().and_then(VerdictBatch::new) {
            Some(batch) => self.batches.take(batch),
            None => Err(Cancelled),
        }
    }

    /// Where the batches go.
    pub fn batches(&mut self) -> &mut S {
        &mut self.batches
    }
}

impl VerdictBatcher<Vec<VerdictBatch>> {
    /// Every verdict since the last call.
    pub fn drain(&mut self) -> Vec<VerdictBatch> {
        // A vector takes every batch.
        let _ = self.flush();
        std::mem::take(&mut self.batches)
    }
}

impl<S: BatchSink> VerdictSink for VerdictBatcher<S> {
    fn emit(&mut self, verdict: &VerdictRef<'_>) -> Result<(), Cancelled> {
        self.columns.push(verdict);
        if self.columns.len() >= self.max_rows { self.flush() } else { Ok(()) }
    }

    fn check(&self) -> Result<(), Cancelled> {
        self.batches.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Selection, Time, Value};

    fn collect(max_rows: usize) -> Vec<VerdictBatch> {
        let streams = ["amount".to_owned(), "trigger_0".to_owned()];
        let mut verdicts = VerdictBatcher::new(&streams, max_rows, Vec::new());
        emit_all(&mut verdicts);
        verdicts.flush().unwrap();
        verdicts.drain()
    }

    /// One verdict of each kind and of each type of value.
    fn emit_all(verdicts: &mut dyn VerdictSink) {
        let values = [
            Value::Bool(true),
            Value::Int(-3),
            Value::UInt(u64::MAX),
            Value::Float(0.5),
            Value::Text("F"),
            Value::Json("[1,2]"),
        ];
        verdicts.spawn(Time(1), 0, "[7]").unwrap();
        for value in values {
            verdicts.value(Time(2), 0, Some("[7]"), value).unwrap();
        }
        verdicts.trigger(Time(3), 1, None, "too much").unwrap();
        verdicts.close(Time(4), 0, "[7]").unwrap();
        verdicts.alarm(Time(5), 1, None, 0.2, "unfair", "{\"gap\":0.2}").unwrap();
        verdicts.clear(Time(6), 1, None, 0.1, "fair", "{\"gap\":0.2}").unwrap();
    }

    #[test]
    fn what_is_emitted_is_read_back_whatever_the_batch_size() {
        let whole = collect(1000);
        assert_eq!(whole.len(), 1);
        let rows: Vec<_> = whole[0].iter().collect();
        assert_eq!(rows.len(), 11);
        assert_eq!((rows[3].kind, rows[3].value), (Kind::Value, Some(Value::UInt(u64::MAX))));
        assert_eq!((rows[6].stream, rows[6].instance), ("amount", Some("[7]")));
        assert_eq!((rows[7].stream, rows[7].message, rows[7].time), ("trigger_0", Some("too much"), Time(3)));
        assert_eq!((rows[9].value, rows[9].details), (Some(Value::Float(0.2)), Some("{\"gap\":0.2}")));
        let pieces = collect(2);
        assert_eq!(pieces.len(), 6);
        assert_eq!(pieces.iter().flat_map(VerdictBatch::iter).collect::<Vec<_>>(), rows);
    }

    /// A sink that re-emits what it reads back from a batch writes the same batch.
    #[test]
    fn a_verdict_that_is_repeated_is_the_same() {
        let whole = collect(1000);
        let streams = ["amount".to_owned(), "trigger_0".to_owned()];
        let mut again = VerdictBatcher::new(&streams, 5, Vec::new());
        for verdict in whole.iter().flat_map(VerdictBatch::iter) {
            let stream = streams.iter().position(|name| name == verdict.stream).unwrap();
            (&mut again as &mut dyn VerdictSink).repeat(&verdict, stream).unwrap();
        }
        let rows = |batches: &[VerdictBatch]| {
            batches.iter().flat_map(VerdictBatch::iter).map(|row| format!("{row:?}")).collect::<Vec<_>>()
        };
        assert_eq!(rows(&again.drain()), rows(&whole));
    }

    #[test]
    fn a_selection_of_a_batch_keeps_its_kinds() {
        for (selection, expected) in [(Selection::Alarms, 2), (Selection::Triggers, 3)] {
            let selected = collect(1000)[0].select(selection);
            assert_eq!((selected.len(), selected.count(Kind::Alarm)), (expected, 1));
        }
    }
}
