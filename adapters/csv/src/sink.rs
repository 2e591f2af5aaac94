//! The CSV sink for verdicts.

use std::borrow::Cow;

use fairstream_core::{
    Adapter, BadOption, Cause, OptionDoc, Sink, SinkError, SinkFactory, SinkRequest, Value, VerdictBatch,
};
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
            options: OPTIONS,
        }
    }

    fn open(&self, request: &SinkRequest) -> Result<Box<dyn Sink>, SinkError> {
        const HEADER: &str = "time,kind,stream,instance,value,message\n";
        match request.options.text("formulas") {
            None | Some("keep") => Ok(Box::new(TextSink::open(request, HEADER, rows)?)),
            Some("escape") => Ok(Box::new(TextSink::open(request, HEADER, rows_without_formulas)?)),
            Some(other) => {
                let reason = "there are `keep` and `escape`".to_owned();
                let (key, value) = ("formulas".to_owned(), other.to_owned());
                let bad = BadOption::Value { key, value, reason };
                Err(SinkError::Option { sink: request.location.clone(), bad })
            }
        }
    }
}

const OPTIONS: &[OptionDoc] = &[OptionDoc {
    name: "formulas",
    default: "keep",
    help: "`escape` puts ' before text that spreadsheets take for a formula: = + - @",
}];

fn rows(batch: &VerdictBatch) -> Result<Vec<u8>, Cause> {
    written(batch, |text| Cow::Borrowed(text))
}

fn rows_without_formulas(batch: &VerdictBatch) -> Result<Vec<u8>, Cause> {
    written(batch, |text| match text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        true => Cow::Owned(format!("'{text}")),
        false => Cow::Borrowed(text),
    })
}

/// The rows of a batch, with what `text` makes of names and messages. Values that are no text are no formulas.
fn written(batch: &VerdictBatch, text: fn(&str) -> Cow<'_, str>) -> Result<Vec<u8>, Cause> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for verdict in batch.iter() {
        let value = match verdict.value {
            None => Cow::Borrowed(""),
            Some(Value::Text(value)) => text(value),
            Some(value) => Cow::Owned(value.to_string()),
        };
        writer.write_record([
            verdict.time.to_string().as_str(),
            verdict.kind.name(),
            &text(verdict.stream),
            &text(verdict.instance.unwrap_or_default()),
            &value,
            &text(verdict.message.unwrap_or_default()),
        ])?;
    }
    Ok(writer.into_inner()?)
}
