//! Where events go when they are to be kept: the way back from batches to a format.

use arrow::datatypes::{Schema, SchemaRef};

use crate::{Adapter, EventBatch, Options, SinkError, TimeFormat};

/// Writes events in some format, so that a [`Source`](crate::Source) of that format reads them back.
///
/// Called: `write` any number of times, then `finish` once, also when something else has failed.
pub trait EventWriter: Send {
    /// What the user would call it, for errors: a path, `standard output`.
    fn name(&self) -> &str;

    /// Takes a batch with the columns of the request. When it returns, the output ends with a whole
    /// row, if the format can be read before it is complete.
    ///
    /// # Errors
    /// The events cannot be written; [`SinkError::HungUp`] if nobody reads them any more. Nothing but
    /// `finish` is called after that.
    fn write(&mut self, events: &EventBatch) -> Result<(), SinkError>;

    /// Writes what belongs at the end and makes everything durable.
    ///
    /// # Errors
    /// That did not work; what was written before may be lost.
    fn finish(self: Box<Self>) -> Result<(), SinkError>;
}

/// Opens event writers of one kind.
pub trait EventWriterFactory: Send + Sync {
    /// What a user knows these writers by.
    fn adapter(&self) -> Adapter;

    /// Opens a writer. An existing file is replaced at the first `write` or at `finish`, not before.
    ///
    /// # Errors
    /// It cannot be opened, or does not take what the request asks for.
    fn open(&self, request: &EventWriterRequest) -> Result<Box<dyn EventWriter>, SinkError>;
}

/// Which events are to be written, and where.
#[derive(Clone, Debug)]
pub struct EventWriterRequest {
    /// What stands between the colon and the question mark: a path, or `-` for standard output.
    pub location: String,
    /// What stands behind the question mark.
    pub options: Options,
    /// The columns of the events, beside `time`.
    pub schema: SchemaRef,
    /// How times are written, where the format leaves a choice.
    pub time_format: TimeFormat,
}

impl Default for EventWriterRequest {
    fn default() -> EventWriterRequest {
        EventWriterRequest {
            location: String::new(),
            options: Options::default(),
            schema: SchemaRef::new(Schema::empty()),
            time_format: TimeFormat::Rfc3339,
        }
    }
}
