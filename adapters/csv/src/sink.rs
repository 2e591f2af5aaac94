//! The CSV sink for verdicts.

use fairstream_core::{Adapter, Cause, Sink, SinkError, SinkFactory, SinkRequest, VerdictBatch};
use fairstream_files::TextSink;

/// Opens CSV sinks.
#[derive(Clone, Copy, Debug)]
pub struct CsvSinks;

impl SinkFactory for CsvSinks {
    fn adapter(&self) -> Adapter {
        Adapter {
            name: "csv",
            about: "one row a verdict: time, kind, stream, instance, value, message",
            extensions: &["csv"],
            options: &[],
        }
    }

    fn open(&self, request: &SinkRequest) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(TextSink::open(request, "time,kind,stream,instance,value,message\n", rows)?))
    }
}

fn rows(batch: &VerdictBatch) -> Result<Vec<u8>, Cause> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for verdict in batch.iter() {
        let value = verdict.value.map(|value| value.to_string()).unwrap_or_default();
        writer.write_record([
            verdict.time.to_string().as_str(),
            verdict.kind.name(),
            verdict.stream,
            verdict.instance.unwrap_or_default(),
            &value,
            verdict.message.unwrap_or_default(),
        ])?;
    }
    Ok(writer.into_inner()?)
}
