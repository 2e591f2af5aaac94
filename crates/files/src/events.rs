//! Writes events as text.

use std::io;

use fairstream_core::{
    ColumnValues, EventBatch, EventWriter, EventWriterRequest, Position, SinkError, TimeFormat, Value,
    WrittenTime,
};

use crate::output::TextOutput;
use crate::packing::Packing;

/// Appends an event to a text: its time, and its values in the order of the columns.
pub type FormatEvent = Box<dyn Fn(&mut Vec<u8>, WrittenTime, &[Option<Value<'_>>]) + Send>;

/// A writer of events as text to a file, or to standard output for `-`. A name that ends in `.gz` or
/// `.zst` is compressed.
pub struct TextEvents {
    output: TextOutput,
    packing: Packing,
    time_format: TimeFormat,
    format: FormatEvent,
    /// The text to be written next, at first the header. The buffer is reused.
    text: Vec<u8>,
}

impl TextEvents {
    /// Opens the output that the request names. A file that exists is replaced by one that begins with `header`,
    /// at the first write or at the end.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(
        request: &EventWriterRequest,
        header: String,
        format: FormatEvent,
    ) -> Result<TextEvents, SinkError> {
        let location = &request.location;
        let packing = Packing::for_name(location)
            .map_err(|error| SinkError::Open { sink: location.clone(), cause: error.into() })?;
        let output = TextOutput::open(location, request.resume.as_ref(), "".into())?;
        let text = if output.is_empty() { header.into_bytes() } else { Vec::new() };
        Ok(TextEvents { output, packing, time_format: request.time_format.clone(), format, text })
    }

    /// Writes the buffered text of `rows` rows.
    fn put(&mut self, rows: usize) -> Result<(), SinkError> {
        self.packing.pack(&mut self.text).map_err(|error| failed(&self.output, error))?;
        self.output.write(rows, &self.text)?;
        self.text.clear();
        Ok(())
    }
}

fn failed(output: &TextOutput, error: io::Error) -> SinkError {
    SinkError::Write { sink: output.name().to_owned(), cause: error.into() }
}

impl EventWriter for TextEvents {
    fn name(&self) -> &str {
        self.output.name()
    }

    fn write(&mut self, events: &EventBatch) -> Result<(), SinkError> {
        let columns: Result<Vec<ColumnValues>, _> =
            events.rows.columns().iter().map(ColumnValues::of).collect();
        let columns = columns
            .map_err(|error| SinkError::Write { sink: self.name().to_owned(), cause: error.into() })?;
        let mut values = Vec::with_capacity(columns.len());
        for row in 0..events.len() {
            values.clear();
            values.extend(columns.iter().map(|column| column.at(row)));
            (self.format)(&mut self.text, events.time(row).written(&self.time_format), &values);
        }
        self.put(events.len())
    }

    fn checkpoint(&mut self) -> Result<Option<Position>, SinkError> {
        self.put(0)?;
        let end = self.packing.end_member(self.output.name()).map_err(|error| failed(&self.output, error))?;
        self.output.write(0, &end)?;
        self.output.flush()
    }

    fn finish(mut self: Box<Self>) -> Result<(), SinkError> {
        self.put(0)?;
        let rest = self.packing.finish().map_err(|error| failed(&self.output, error))?;
        self.output.write(0, &rest)?;
        self.output.flush().map(|_| ())
    }
}
