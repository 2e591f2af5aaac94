//! The JSON-lines sink for verdicts.

use fairstream_core::{Adapter, Cause, Sink, SinkError, SinkFactory, SinkRequest, Verdict, VerdictBatch};
use fairstream_files::TextSink;

use crate::value;

/// Opens JSON-lines sinks.
///
/// Each verdict is an object with the keys `time` (RFC 3339, nanoseconds), `kind`, `stream`,
/// `instance` (an array of parameters, or null), `value` and `message`, in this order; alarms also have
/// `details`, an object. Infinite numbers, which JSON lacks, are the strings `"inf"` and `"-inf"`.
#[derive(Clone, Copy, Debug)]
pub struct JsonSinks;

impl SinkFactory for JsonSinks {
    fn adapter(&self) -> Adapter {
        Adapter {
            name: "jsonl",
            about: "one JSON object a verdict: time, kind, stream, instance, value, message; alarms: details",
            extensions: &["jsonl", "ndjson"],
            options: &[],
        }
    }

    fn open(&self, request: &SinkRequest) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(TextSink::open(request, "", lines)?))
    }
}

fn lines(batch: &VerdictBatch) -> Result<Vec<u8>, Cause> {
    let mut text = Vec::with_capacity(batch.len() * 128);
    for verdict in batch.iter() {
        line(&mut text, &verdict)?;
    }
    Ok(text)
}

fn line(out: &mut Vec<u8>, verdict: &Verdict<'_>) -> std::io::Result<()> {
    out.extend_from_slice(br#"{"time":""#);
    out.extend_from_slice(&verdict.time.rfc3339());
    out.extend_from_slice(br#"","kind":""#);
    out.extend_from_slice(verdict.kind.name().as_bytes());
    out.extend_from_slice(br#"","stream":"#);
    value::string(out, verdict.stream)?;
    out.extend_from_slice(br#","instance":"#);
    out.extend_from_slice(verdict.instance.unwrap_or("null").as_bytes());
    out.extend_from_slice(br#","value":"#);
    match verdict.value {
        None => out.extend_from_slice(b"null"),
        Some(value) => value::write(out, value)?,
    }
    out.extend_from_slice(br#","message":"#);
    match verdict.message {
        None => out.extend_from_slice(b"null"),
        Some(message) => value::string(out, message)?,
    }
    if let Some(details) = verdict.details {
        out.extend_from_slice(br#","details":"#);
        out.extend_from_slice(details.as_bytes());
    }
    out.extend_from_slice(b"}\n");
    Ok(())
}
