//! A sink's thread: writes, flushes now and then, finishes whatever happens.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::ledger::Through;
use super::shared::Shared;
use crate::{RunEnd, Sink, SinkError, VerdictBatch, catch_panic};

/// What the engine sends a sink.
pub(super) enum Parcel {
    /// Verdicts to write.
    Verdicts(VerdictBatch),
    /// All verdicts on the events up to there have been sent.
    Through(Through),
}

/// How long an event waits for its acknowledgement at most, while the run is busy.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Writer {
    pub(super) index: usize,
    pub(super) sink: Box<dyn Sink>,
    pub(super) parcels: Receiver<Parcel>,
    pub(super) shared: Arc<Shared>,
}

impl Writer {
    pub(super) fn run(mut self) {
        let name = self.sink.name().to_owned();
        let panicked = |reason| SinkError::Panicked { sink: name.clone(), reason };
        let mut through = None;
        let written = catch_panic(|| self.write(&mut through)).unwrap_or_else(|reason| Err(panicked(reason)));
        let Writer { index, sink, parcels, shared } = self;
        // Whoever sends to this sink need not wait for it any more.
        drop(parcels);
        let end = match &written {
            Ok(()) => shared.end().clone(),
            Err(SinkError::HungUp { .. }) => RunEnd::Stopped,
            Err(error) => RunEnd::Failed(error.to_string()),
        };
        let failed = written.is_err();
        shared.end_with(written);
        let finished = catch_panic(|| sink.finish(&end)).unwrap_or_else(|reason| Err(panicked(reason)));
        if !failed
            && finished.is_ok()
            && let Some(through) = through
        {
            shared.ledger.record(index, through);
        }
        shared.end_with(finished);
    }

    fn write(&mut self, through: &mut Option<Through>) -> Result<(), SinkError> {
        let selection = self.sink.wants();
        let mut flushed = Instant::now();
        let mut pending = false;
        loop {
            match self.parcels.recv_timeout(FLUSH_EVERY) {
                Ok(Parcel::Verdicts(batch)) => {
                    let batch = batch.select(selection);
                    if !batch.is_empty() {
                        self.sink.write(&batch)?;
                    }
                }
                Ok(Parcel::Through(latest)) => {
                    *through = Some(latest);
                    pending = true;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if pending
                && flushed.elapsed() >= FLUSH_EVERY
                && let Some(through) = through
            {
                self.sink.flush()?;
                self.shared.ledger.record(self.index, Arc::clone(through));
                flushed = Instant::now();
                pending = false;
            }
        }
    }
}
