//! Writes events as JSON lines.

use std::io::Write;

use fairstream_core::{Adapter, EventWriter, EventWriterFactory, EventWriterRequest, SinkError};
use fairstream_files::{FormatEvent, TextEvents};

use crate::value;

/// Opens writers of events as JSON lines: one object per event, with `time` first. A column without a value is
/// left out.
#[derive(Clone, Copy, Debug)]
pub struct JsonEventWriters;

impl EventWriterFactory for JsonEventWriters {
    fn adapter(&self) -> Adapter {
        Adapter {
            name: "jsonl",
            about: "one JSON object an event; `.gz` and `.zst` are compressed",
            extensions: &["jsonl", "ndjson", "json", "jsonl.gz", "jsonl.zst"],
            options: &[],
        }
    }

    fn open(&self, request: &EventWriterRequest) -> Result<Box<dyn EventWriter>, SinkError> {
        let key = |name: &str| format!(",{}:", serde_json::Value::from(name));
        let keys: Vec<String> = request.schema.fields().iter().map(|column| key(column.name())).collect();
        let line: FormatEvent = Box::new(move |out, time, values| {
            let quote = if time.is_number() { "" } else { "\"" };
            // Writing to memory cannot fail.
            let _ = write!(out, r#"{{"time":{quote}{time}{quote}"#);
            for (key, value) in keys.iter().zip(values) {
                if let Some(value) = *value {
                    out.extend_from_slice(key.as_bytes());
                    let _ = value::write(out, value);
                }
            }
            out.extend_from_slice(b"}\n");
        });
        Ok(Box::new(TextEvents::open(request, String::new(), line)?))
    }
}
