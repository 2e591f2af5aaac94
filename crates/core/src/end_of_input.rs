//! How a source comes to its end.

use crate::{EventBatch, SourceError, StopToken};

/// The end of a source: none so far, for good, or with a failure that is told once the rows before it have been
/// given.
///
/// A [`Source::next_batch`](crate::Source::next_batch) that keeps one begins with [`end_if_stopped`](EndOfInput::end_if_stopped), and
/// where it has no row to give and the input [has ended](EndOfInput::has_ended), it returns [`take_result`](EndOfInput::take_result).
#[derive(Debug, Default)]
pub struct EndOfInput {
    has_ended: bool,
    failure: Option<SourceError>,
}

impl EndOfInput {
    /// There are no more rows.
    pub fn end(&mut self) {
        self.has_ended = true;
    }

    /// There are no more rows, and this is why.
    pub fn fail(&mut self, error: SourceError) {
        self.has_ended = true;
        self.failure = Some(error);
    }

    /// Whether nothing more is to be read, because it has ended or is told to stop.
    pub fn end_if_stopped(&mut self, stop: &StopToken) -> bool {
        self.has_ended |= stop.is_stopped();
        self.has_ended
    }

    /// Whether nothing more is to be read.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// What a source without further rows returns: its failure, once; then nothing.
    ///
    /// # Errors
    /// The failure.
    pub fn take_result(&mut self) -> Result<Option<EventBatch>, SourceError> {
        self.failure.take().map_or(Ok(None), Err)
    }
}
