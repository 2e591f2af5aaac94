//! End-of-input state of a source.

use crate::{EventBatch, SourceError, StopToken};

/// Whether a source has ended, normally or with a failure. A failure is returned once all rows before it have been
/// returned.
///
/// A [`Source::next_batch`](crate::Source::next_batch) that keeps one begins with
/// [`end_if_stopped`](EndOfInput::end_if_stopped), and where it has no row to give and the input [has
/// ended](EndOfInput::has_ended), it returns [`take_result`](EndOfInput::take_result).
#[derive(Debug, Default)]
pub struct EndOfInput {
    has_ended: bool,
    failure: Option<SourceError>,
}

impl EndOfInput {
    /// Marks the input as ended.
    pub fn end(&mut self) {
        self.has_ended = true;
    }

    /// Marks the input as ended with a failure.
    pub fn fail(&mut self, error: SourceError) {
        self.has_ended = true;
        self.failure = Some(error);
    }

    /// Marks the input as ended if a stop was requested. Returns whether it has ended.
    pub fn end_if_stopped(&mut self, stop: &StopToken) -> bool {
        self.has_ended |= stop.is_stopped();
        self.has_ended
    }

    /// Whether the input has ended.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The result of `next_batch` after the last row: the failure, once; then `None`.
    ///
    /// # Errors
    /// The failure.
    pub fn take_result(&mut self) -> Result<Option<EventBatch>, SourceError> {
        self.failure.take().map_or(Ok(None), Err)
    }
}
