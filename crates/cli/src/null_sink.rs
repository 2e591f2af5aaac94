//! The null sink, for runs whose results are read from the judge afterwards.

use fairstream_core::{Position, RunEnd, Selection, Sink, SinkError, VerdictBatch};

/// Discards all verdicts.
pub(crate) struct NullSink;

impl Sink for NullSink {
    fn name(&self) -> &str {
        "the null sink"
    }

    fn wants(&self) -> Selection {
        Selection::Alarms
    }

    fn write(&mut self, _batch: &VerdictBatch) -> Result<(), SinkError> {
        Ok(())
    }

    fn flush(&mut self) -> Result<Option<Position>, SinkError> {
        Ok(None)
    }

    fn finish(self: Box<Self>, _end: &RunEnd) -> Result<(), SinkError> {
        Ok(())
    }
}
