//! Writes events as CSV that the CSV source can read.

use std::io::Write;

use fairstream_core::{Adapter, EventWriter, EventWriterFactory, EventWriterRequest, SinkError, Value};
use fairstream_files::{FormatEvent, TextEvents};

/// Opens writers of events as CSV: a header, then one row per event. A field without a value is empty.
#[derive(Clone, Copy, Debug)]
pub struct CsvEventWriters;

impl EventWriterFactory for CsvEventWriters {
    fn adapter(&self) -> Adapter {
        Adapter {
            name: "csv",
            about: "one row an event, under a header; `.gz` and `.zst` are compressed",
            extensions: &["csv", "csv.gz", "csv.zst"],
            options: &[],
        }
    }

    fn open(&self, request: &EventWriterRequest) -> Result<Box<dyn EventWriter>, SinkError> {
        let mut header = b"time".to_vec();
        for column in request.schema.fields() {
            header.push(b',');
            text(&mut header, column.name());
        }
        header.push(b'\n');
        let header = String::from_utf8_lossy(&header).into_owned();
        let row: FormatEvent = Box::new(|out, time, values| {
            // Writing to memory cannot fail.
            let _ = write!(out, "{time}");
            for value in values {
                out.push(b',');
                match value {
                    None => {}
                    Some(Value::Text(value)) => text(out, value),
                    Some(value) => drop(write!(out, "{value}")),
                }
            }
            out.push(b'\n');
        });
        Ok(Box::new(TextEvents::open(request, header, row)?))
    }
}

/// Writes a text, in quotes if it contains a special character.
fn text(out: &mut Vec<u8>, text: &str) {
    let means_something = |byte| matches!(byte, b',' | b'"' | b'\n' | b'\r');
    if !text.is_empty() && !text.bytes().any(means_something) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    out.push(b'"');
    for byte in text.bytes() {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}
