//! Events out, as text.

use fairstream_core::{
    Cells, EventBatch, EventWriter, EventWriterRequest, SinkError, TimeFormat, Value, WrittenTime,
};

use crate::output::TextOutput;

/// Appends an event to a text: its time, and its values in the order of the columns.
pub type FormatEvent = Box<dyn Fn(&mut Vec<u8>, WrittenTime, &[Option<Value<'_>>]) + Send>;

/// A writer of events as text to a file, or to standard output for `-`.
pub struct TextEvents {
    output: TextOutput,
    time_format: TimeFormat,
    format: FormatEvent,
    /// The text of a batch, kept for its memory.
    text: Vec<u8>,
}

impl TextEvents {
    /// Opens what the request names. A file that exists is replaced, by one that begins with
    /// `header`, at the first write or at the end.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(
        request: &EventWriterRequest,
        header: String,
        format: FormatEvent,
    ) -> Result<TextEvents, SinkError> {
        let output = TextOutput::open(&request.location, None, header.into())?;
        Ok(TextEvents { output, time_format: request.time_format, format, text: Vec::new() })
    }
}

impl EventWriter for TextEvents {
    fn name(&self) -> &str {
        self.output.name()
    }

    fn write(&mut self, events: &EventBatch) -> Result<(), SinkError> {
        let columns: Result<Vec<Cells>, _> = events.rows.columns().iter().map(Cells::of).collect();
        let columns = columns
            .map_err(|error| SinkError::Write { sink: self.name().to_owned(), cause: error.into() })?;
        self.text.clear();
        let mut values = Vec::with_capacity(columns.len());
        for row in 0..events.len() {
            values.clear();
            values.extend(columns.iter().map(|column| column.at(row)));
            (self.format)(&mut self.text, events.time(row).written(self.time_format), &values);
        }
        self.output.write(events.len(), &self.text)
    }

    fn finish(mut self: Box<Self>) -> Result<(), SinkError> {
        self.output.flush().map(|_| ())
    }
}
