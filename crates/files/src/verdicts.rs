//! Writes verdicts as text.

use fairstream_core::{Cause, Position, RunEnd, Selection, Sink, SinkError, SinkRequest, VerdictBatch};

use crate::output::TextOutput;

/// Formats a batch of verdicts as text, one row per verdict.
pub type Format = fn(&VerdictBatch) -> Result<Vec<u8>, Cause>;

/// A sink that writes verdicts as text to a file, or to standard output for `-`.
pub struct TextSink {
    output: TextOutput,
    select: Selection,
    format: Format,
}

impl TextSink {
    /// Opens the output that the request names. A file that exists is replaced by one that begins with `header`,
    /// at the first write or at the end of the run. If the request has a position to resume from, the file is
    /// truncated there instead.
    ///
    /// # Errors
    /// The file cannot be opened, or is shorter than the position.
    pub fn open(request: &SinkRequest, header: &'static str, format: Format) -> Result<TextSink, SinkError> {
        let output = TextOutput::open(&request.location, request.resume.as_ref(), header.into())?;
        Ok(TextSink { output, select: request.select, format })
    }
}

impl Sink for TextSink {
    fn name(&self) -> &str {
        self.output.name()
    }

    fn wants(&self) -> Selection {
        self.select
    }

    fn write(&mut self, batch: &VerdictBatch) -> Result<(), SinkError> {
        let text =
            (self.format)(batch).map_err(|cause| SinkError::Write { sink: self.name().to_owned(), cause })?;
        self.output.write(batch.len(), &text)
    }

    fn flush(&mut self) -> Result<Option<Position>, SinkError> {
        self.output.flush()
    }

    fn finish(mut self: Box<Self>, _end: &RunEnd) -> Result<(), SinkError> {
        self.output.flush().map(|_| ())
    }
}
