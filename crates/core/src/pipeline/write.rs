//! A sink's thread: writes, flushes once a second, and finishes in any case.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use super::acks::Through;
use super::checkpoint::SinkAnswer;
use super::run_state::RunState;
use crate::{RunEnd, Selection, Sink, SinkError, VerdictBatch, catch_panic};

/// A message from the engine to a sink.
pub(super) enum SinkMessage {
    /// Verdicts to write.
    Verdicts(VerdictBatch),
    /// All verdicts on the events up to these positions have been sent, and no others.
    Through(Through),
    /// A checkpoint covers the verdicts before this. The sink makes them durable and answers.
    Barrier(Sender<SinkAnswer>),
}

/// Interval of flushes, which bounds the delay of acknowledgements unless a sink is slow.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

pub(super) struct SinkWriter {
    pub(super) index: usize,
    /// Name of the sink in errors.
    pub(super) name: String,
    pub(super) wants: Selection,
    pub(super) sink: Box<dyn Sink>,
    pub(super) messages: Receiver<SinkMessage>,
    pub(super) shared: Arc<RunState>,
}

impl SinkWriter {
    pub(super) fn run(mut self) {
        let panicked = |name: &str, reason| SinkError::Panicked { sink: name.to_owned(), reason };
        let mut through = None;
        let written = catch_panic(|| self.write(&mut through))
            .unwrap_or_else(|reason| Err(panicked(&self.name, reason)));
        let SinkWriter { index, name, sink, messages, shared, .. } = self;
        // Disconnects the channel, so that the engine does not block on it.
        drop(messages);
        let end = match &written {
            Ok(()) => shared.end(),
            Err(SinkError::HungUp { .. }) => RunEnd::Stopped,
            Err(error) => RunEnd::Failed(error.to_string()),
        };
        let failed = written.is_err();
        shared.end_with(written);
        let finished =
            catch_panic(|| sink.finish(&end)).unwrap_or_else(|reason| Err(panicked(&name, reason)));
        if !failed
            && finished.is_ok()
            && let Some(through) = through
        {
            shared.acks.record(index, through);
        }
        if !failed {
            shared.end_with(finished);
        }
    }

    fn write(&mut self, through: &mut Option<Through>) -> Result<(), SinkError> {
        let mut flushed = Instant::now();
        // Positions to acknowledge at the next flush. `None` while further verdicts have been written, since a flush
        // would then cover more than these positions.
        let mut pending = None;
        loop {
            match self.messages.recv_timeout(FLUSH_EVERY) {
                Ok(SinkMessage::Verdicts(batch)) => {
                    pending = None;
                    let batch = batch.select(self.wants);
                    if !batch.is_empty() {
                        self.sink.write(&batch)?;
                    }
                }
                Ok(SinkMessage::Through(latest)) => {
                    *through = Some(Arc::clone(&latest));
                    pending = Some(latest);
                }
                Ok(SinkMessage::Barrier(answer)) => {
                    let position = self.sink.checkpoint()?;
                    // The committing thread may have given up.
                    let _ = answer.send((self.index, position));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if flushed.elapsed() >= FLUSH_EVERY
                && let Some(latest) = pending.take()
            {
                self.sink.flush()?;
                self.shared.acks.record(self.index, latest);
                flushed = Instant::now();
            }
        }
    }
}
