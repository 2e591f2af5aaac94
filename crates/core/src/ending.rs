//! How a source comes to its end.

use crate::{EventBatch, SourceError, StopToken};

/// The end of a source: none so far, for good, or with a failure that is told once the rows before it have been
/// given.
///
/// A [`Source::next_batch`](crate::Source::next_batch) that keeps one begins with [`reached`](Ending::reached), and
/// where it has no row to give and the end [is there](Ending::is_there), it returns what the end [says](Ending::say).
#[derive(Debug, Default)]
pub struct Ending {
    is_there: bool,
    failure: Option<SourceError>,
}

impl Ending {
    /// There are no more rows.
    pub fn end(&mut self) {
        self.is_there = true;
    }

    /// There are no more rows, and this is why.
    pub fn fail(&mut self, error: SourceError) {
        self.is_there = true;
        self.failure = Some(error);
    }

    /// Whether nothing more is to be read, because it has ended or is told to stop.
    pub fn reached(&mut self, stop: &StopToken) -> bool {
        self.is_there |= stop.is_stopped();
        self.is_there
    }

    /// Whether nothing more is to be read.
    pub fn is_there(&self) -> bool {
        self.is_there
    }

    /// What a source without further rows returns: its failure, once; then nothing.
    ///
    /// # Errors
    /// The failure.
    pub fn say(&mut self) -> Result<Option<EventBatch>, SourceError> {
        self.failure.take().map_or(Ok(None), Err)
    }
}
