//! The sink of runs whose judge is asked afterwards: all that is to be known of them he has seen.

use fairstream_core::{Position, RunEnd, Selection, Sink, SinkError, VerdictBatch};

/// Reads nothing.
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
