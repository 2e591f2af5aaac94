//! A panic, or an error of any kind, in a plugin's code becomes an error of the source or sink.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use fairstream_core::{
    Adapter, Cause, EventBatch, Options, Position, RunEnd, Selection, Sink, SinkError, SinkFactory,
    SinkRequest, Source, SourceError, SourceFactory, SourceRequest, VerdictBatch, verdict_schema,
};
use fairstream_plugin::{Library, sink, source};

struct Panics;

fairstream_plugin_abi::export_plugin!(source = Panics, sink = Panics);

fn adapter() -> Adapter {
    Adapter { name: "panics", about: "panics", extensions: &[], options: &[] }
}

impl SourceFactory for Panics {
    fn adapter(&self) -> Adapter {
        // The plugin declares its options; `mode` is not one of them.
        Adapter {
            options: &[fairstream_core::OptionDoc { name: "mode", default: "", help: "" }],
            ..adapter()
        }
    }

    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, SourceError> {
        let mode = request.options.text("mode").unwrap_or_default().to_owned();
        assert!(mode != "open", "not today");
        Ok(Box::new(Panicky { mode, batches: 0 }))
    }
}

struct Panicky {
    mode: String,
    batches: u64,
}

impl Source for Panicky {
    fn name(&self) -> &str {
        "panicky"
    }

    fn schema(&self) -> SchemaRef {
        Arc::new(Schema::empty())
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>, SourceError> {
        self.batches += 1;
        let cause = |text: &str| Cause::from(text);
        match (self.mode.as_str(), self.batches) {
            ("next", 2) => panic!("no second batch"),
            ("zero", 2) => Err(SourceError::Read { origin: "p".into(), row: 1, cause: cause("a\0b") }),
            (_, 3) => Ok(None),
            (_, number) => {
                let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(1));
                let rows = RecordBatch::try_new_with_options(self.schema(), vec![], &options).unwrap();
                let end = Position { rows: number, resume: Arc::from([]) };
                Ok(Some(EventBatch::new(rows, vec![0], vec![number], end)))
            }
        }
    }
}

impl SinkFactory for Panics {
    fn adapter(&self) -> Adapter {
        SourceFactory::adapter(self)
    }

    fn open(&self, request: &SinkRequest) -> Result<Box<dyn Sink>, SinkError> {
        let mode = request.options.text("mode").unwrap_or_default().to_owned();
        assert!(mode != "open", "not today");
        Ok(Box::new(PanickySink(mode)))
    }
}

struct PanickySink(String);

impl Sink for PanickySink {
    fn name(&self) -> &str {
        "panicky"
    }

    fn wants(&self) -> Selection {
        Selection::Triggers
    }

    fn write(&mut self, _batch: &VerdictBatch) -> Result<(), SinkError> {
        assert!(self.0 != "write", "cannot write");
        Ok(())
    }

    fn flush(&mut self) -> Result<Option<Position>, SinkError> {
        assert!(self.0 != "flush", "cannot flush");
        Ok(Some(Position { rows: 7, resume: Arc::from(*b"here") }))
    }

    fn finish(self: Box<Self>, _end: &RunEnd) -> Result<(), SinkError> {
        assert!(self.0 != "finish", "cannot finish");
        Ok(())
    }
}

fn options(mode: &str) -> Options {
    [("mode", mode)].into_iter().collect()
}

#[test]
fn a_source_that_panics_has_failed() {
    let library = Library::of(fairstream_plugin_v1).unwrap();
    let open = |mode: &str| {
        let (location, options) = ("p.so".to_owned(), options(mode));
        source::open(&library, &SourceRequest { location, options, ..SourceRequest::default() })
    };
    let error = open("open").map(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with("cannot open p.so: it panicked: not today (panics.rs:"), "{error}");
    for (mode, expected) in [("next", "it panicked: no second batch"), ("zero", "a␀b")] {
        let mut source = open(mode).unwrap();
        assert_eq!(source.next_batch().unwrap().map(|batch| batch.len()), Some(1));
        let error = source.next_batch().map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(source.next_batch().unwrap().is_none());
    }
    let mut source = open("").unwrap();
    let rows: Vec<u64> =
        std::iter::from_fn(|| source.next_batch().unwrap()).map(|batch| batch.row_numbers[0]).collect();
    assert_eq!(rows, [1, 2]);
}

#[test]
fn a_sink_that_panics_has_failed() {
    let library = Library::of(fairstream_plugin_v1).unwrap();
    let open = |mode: &str| {
        let (location, options) = ("p.so".to_owned(), options(mode));
        sink::open(&library, &SinkRequest { location, options, ..SinkRequest::default() })
    };
    let batch = VerdictBatch::new(RecordBatch::new_empty(verdict_schema())).unwrap();
    assert!(open("open").is_err());
    let run = |mode: &str| {
        let mut sink = open(mode)?;
        sink.write(&batch)?;
        let flushed = sink.flush()?;
        sink.finish(&RunEnd::Complete)?;
        Ok::<_, SinkError>(flushed)
    };
    for mode in ["write", "flush", "finish"] {
        let error = run(mode).unwrap_err().to_string();
        assert!(error.contains(&format!("it panicked: cannot {mode} (panics.rs:")), "{error}");
    }
    assert_eq!(run("").unwrap().map(|position| position.rows), Some(7));
}
