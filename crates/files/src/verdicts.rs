//! Verdicts out, as text.

use fairstream_core::{Cause, Position, RunEnd, Selection, Sink, SinkError, SinkRequest, VerdictBatch};

use crate::output::TextOutput;

/// Turns a batch of verdicts into text, one row a verdict.
pub type Format = fn(&VerdictBatch) -> Result<Vec<u8>, Cause>;

/// A sink that writes verdicts as text to a file, or to standard output for `-`.
pub struct TextSink {
    output: TextOutput,
    select: Selection,
    format: Format,
}

impl TextSink {
    /// Opens what the request names. A file that exists is replaced, by one that begins with
    /// `header`, once something is written or the run ends. If the request says where to go on, it
    /// is cut off there instead.
    ///
    /// # Errors
    /// The file cannot be opened, or is shorter than the place to go on.
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
