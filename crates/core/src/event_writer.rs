//! Event writers: from batches back to a format.

use arrow::datatypes::{Schema, SchemaRef};

use crate::{Adapter, EventBatch, Options, Position, SinkError, TimeFormat};

/// Writes events in some format, so that a [`Source`](crate::Source) of that format reads them back.
///
/// The caller calls `write` any number of times, then `finish` once, even after a failure elsewhere.
pub trait EventWriter: Send {
    /// Its name in errors: a path, or `standard output`.
    fn name(&self) -> &str;

    /// Writes a batch with the columns of the request. When it returns, the output ends with a complete row, if the
    /// format can be read before it is complete.
    ///
    /// # Errors
    /// The events cannot be written; [`SinkError::HungUp`] if the reader has hung up. Nothing but `finish` is called
    /// after that.
    fn write(&mut self, events: &EventBatch) -> Result<(), SinkError>;

    /// Makes everything written so far durable, and returns its position: a writer that is opened with this position
    /// resumes exactly there. `None` if the output cannot be resumed.
    ///
    /// # Errors
    /// As for `write`.
    fn checkpoint(&mut self) -> Result<Option<Position>, SinkError> {
        Ok(None)
    }

    /// Writes the end of the format and makes everything durable.
    ///
    /// # Errors
    /// The output could not be completed; what was written before may be lost.
    fn finish(self: Box<Self>) -> Result<(), SinkError>;
}

/// Opens event writers of one kind.
pub trait EventWriterFactory: Send + Sync {
    /// Name, file extensions and options.
    fn adapter(&self) -> Adapter;

    /// Opens a writer. An existing file is replaced at the first `write` or at `finish`, not before.
    ///
    /// # Errors
    /// The writer cannot be opened, or does not support the request.
    fn open(&self, request: &EventWriterRequest) -> Result<Box<dyn EventWriter>, SinkError>;
}

/// Which events are to be written, and where.
#[derive(Clone, Debug)]
pub struct EventWriterRequest {
    /// The text between the colon and the question mark of the address: a path, or `-` for standard output.
    pub location: String,
    /// The options after the question mark of the address.
    pub options: Options,
    /// The columns of the events, in addition to `time`.
    pub schema: SchemaRef,
    /// The format of times, if the event format supports several.
    pub time_format: TimeFormat,
    /// Position to resume from, of an earlier [`EventWriter::checkpoint`]. What was written after it is discarded.
    pub resume: Option<Position>,
}

impl Default for EventWriterRequest {
    fn default() -> EventWriterRequest {
        EventWriterRequest {
            location: String::new(),
            options: Options::default(),
            schema: SchemaRef::new(Schema::empty()),
            time_format: TimeFormat::Rfc3339,
            resume: None,
        }
    }
}
