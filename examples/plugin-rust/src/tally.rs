//! A sink that counts verdicts, and writes the counts at the end.

use std::collections::BTreeMap;
use std::fmt::Write;

use fairstream_core::{
    Adapter, BadOption, OptionDoc, Position, RunEnd, Selection, Sink, SinkError, SinkFactory, SinkRequest,
    VerdictBatch,
};

/// Opens sinks that count verdicts.
#[derive(Clone, Copy, Debug)]
pub struct TallySinks;

impl SinkFactory for TallySinks {
    fn adapter(&self) -> Adapter {
        Adapter {
            name: "tally",
            about: "how often each stream had something to say",
            extensions: &[],
            options: &[OptionDoc { name: "file", default: "", help: "where to write it; needed" }],
        }
    }

    fn open(&self, request: &SinkRequest) -> Result<Box<dyn Sink>, SinkError> {
        let Some(file) = request.options.text("file").filter(|file| !file.is_empty()) else {
            let (key, value) = ("file".to_owned(), String::new());
            let bad = BadOption::Value { key, value, reason: "say where to write the tally".to_owned() };
            return Err(SinkError::Option { sink: "tally".to_owned(), bad });
        };
        // Opened now, so that a missing folder is detected before the run.
        std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(file)
            .map_err(|error| SinkError::Open { sink: file.to_owned(), cause: error.into() })?;
        Ok(Box::new(Tally { file: file.to_owned(), select: request.select, counts: BTreeMap::new() }))
    }
}

struct Tally {
    file: String,
    select: Selection,
    counts: BTreeMap<(String, &'static str), u64>,
}

impl Sink for Tally {
    fn name(&self) -> &str {
        &self.file
    }

    fn wants(&self) -> Selection {
        self.select
    }

    fn write(&mut self, batch: &VerdictBatch) -> Result<(), SinkError> {
        for verdict in batch.iter() {
            *self.counts.entry((verdict.stream.to_owned(), verdict.kind.name())).or_default() += 1;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<Option<Position>, SinkError> {
        // Nothing is written before the end, so there is no position to resume from.
        Ok(None)
    }

    fn finish(self: Box<Self>, end: &RunEnd) -> Result<(), SinkError> {
        let mut text = String::new();
        for ((stream, kind), count) in &self.counts {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{stream} {kind} {count}");
        }
        if *end != RunEnd::Complete {
            text += "not all of the input was judged\n";
        }
        let sink = self.file.clone();
        std::fs::write(&self.file, text).map_err(|error| SinkError::Write { sink, cause: error.into() })
    }
}
