//! Tests of the compliance suite: a correct source and a correct sink pass, and every violation of the contract is
//! caught.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use fairstream_core::compliance::{BadInput, SinkCase, SourceCase, check_sink, check_source};
use fairstream_core::{
    Adapter, EventBatch, Position, RejectedRow, RunEnd, Selection, Sink, SinkError, SinkFactory, SinkRequest,
    Source, SourceError, SourceFactory, SourceRequest, VerdictBatch, WantedColumn, catch_panic,
};

/// A source in memory that counts from 1 to 6, and violates one clause of the contract.
struct Counting {
    broken: &'static str,
}

struct Count {
    broken: &'static str,
    request: SourceRequest,
    next: u64,
    ended: u32,
}

const LAST: u64 = 6;

impl SourceFactory for Counting {
    fn adapter(&self) -> Adapter {
        Adapter { name: "count", about: "counts", extensions: &[], options: &[] }
    }

    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, SourceError> {
        let failed =
            |cause: &str| Err(SourceError::Open { origin: request.location.clone(), cause: cause.into() });
        if request.location == "missing" {
            match self.broken {
                "opens what is missing" => {}
                "keeps the name to itself" => {
                    return Err(SourceError::Broken { origin: "it".to_owned(), reason: "gone".to_owned() });
                }
                _ => return failed("it does not exist"),
            }
        }
        let next = match &request.resume {
            None => 1,
            Some(position) => match <[u8; 1]>::try_from(&*position.resume) {
                Ok([row]) if self.broken == "skips a row on resuming" => u64::from(row) + 2,
                Ok([row]) => u64::from(row) + 1,
                Err(_) if self.broken == "takes any position" => 1,
                Err(_) => return failed("a foreign position"),
            },
        };
        Ok(Box::new(Count { broken: self.broken, request: request.clone(), next, ended: 0 }))
    }
}

impl Source for Count {
    fn name(&self) -> &str {
        &self.request.location
    }

    fn schema(&self) -> SchemaRef {
        let name = if self.broken == "changes its schema" && self.next > 3 { "m" } else { "n" };
        let data_type = if self.broken == "has another type" { DataType::UInt64 } else { DataType::Int64 };
        Arc::new(Schema::new(vec![Field::new(name, data_type, true)]))
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>, SourceError> {
        if self.request.context.stop.is_stopped() && self.broken != "does not stop" {
            return Ok(None);
        }
        if self.next > LAST && self.request.location == "cut off" {
            return Err(SourceError::Read { origin: self.name().to_owned(), row: LAST, cause: "cut".into() });
        }
        if self.next > LAST {
            self.ended += 1;
            if self.broken != "comes back after the end" || self.ended == 1 {
                return Ok(None);
            }
            self.next = LAST;
        }
        let max_rows = self.request.context.max_rows.get() as u64;
        let mut end = LAST.min(self.next.saturating_add(max_rows.saturating_sub(1)));
        if self.broken == "loses rows before an error" && self.request.location == "cut off" && end == LAST {
            self.next = LAST + 1;
            return self.next_batch();
        }
        if self.broken == "drops a row between batches" && end < LAST {
            end -= u64::from(max_rows == 3);
        }
        let bad = |row: &u64| self.request.location == "bad" && *row == 4;
        let rows: Vec<u64> = (self.next..=end).filter(|row| !bad(row)).collect();
        let place = if self.broken == "names the wrong row" { 3 } else { 4 };
        let rejected = (self.next..=end).filter(bad).filter(|_| self.broken != "swallows bad rows");
        let rejected = rejected
            .map(|_| RejectedRow {
                row: place,
                column: Some("n".to_owned()),
                reason: "it is four".to_owned(),
            })
            .collect();
        self.next = end + 1 + u64::from(self.broken == "drops a row between batches" && max_rows == 3);
        let column = Int64Array::from_iter_values(rows.iter().map(|row| row.cast_signed()));
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
        let times: Vec<i64> = rows.iter().map(|row| row.cast_signed()).collect();
        let position = Position { rows: end, resume: [u8::try_from(end).unwrap()].into() };
        let batch = RecordBatch::try_new(schema, vec![Arc::new(column)]).unwrap();
        let mut events = EventBatch::new(batch, times, rows, position);
        events.rejected = rejected;
        Ok(Some(events))
    }
}

fn try_source(broken: &'static str) -> Result<(), String> {
    let request = |location: &str| SourceRequest {
        location: location.to_owned(),
        wanted: vec![WantedColumn::new("n", DataType::Int64)],
        ..SourceRequest::default()
    };
    catch_panic(|| {
        check_source(&SourceCase {
            factory: &Counting { broken },
            good: request("good"),
            rows: 6,
            bad: Some(BadInput { request: request("bad"), row: 4, column: Some("n") }),
            missing: request("missing"),
            cut_off: Some(request("cut off")),
            live: None,
        });
    })
}

#[test]
fn a_source_that_keeps_its_promises_passes_and_one_that_breaks_any_does_not() {
    assert_eq!(try_source(""), Ok(()));
    for broken in [
        "changes its schema",
        "has another type",
        "comes back after the end",
        "skips a row on resuming",
        "takes any position",
        "names the wrong row",
        "swallows bad rows",
        "opens what is missing",
        "keeps the name to itself",
        "does not stop",
        "loses rows before an error",
        "drops a row between batches",
    ] {
        assert!(try_source(broken).is_err(), "a source that {broken} gets by");
    }
}

/// The output of the sinks in memory, by location.
type Store = Arc<Mutex<HashMap<String, Vec<String>>>>;

/// A sink in memory that violates one clause of the contract.
struct Storing {
    broken: &'static str,
    store: Store,
}

struct Stored {
    fresh: bool,
    broken: &'static str,
    store: Store,
    location: String,
    select: Selection,
    kept_back: Vec<String>,
}

impl SinkFactory for Storing {
    fn adapter(&self) -> Adapter {
        Adapter { name: "store", about: "stores", extensions: &[], options: &[] }
    }

    fn open(&self, request: &SinkRequest) -> Result<Box<dyn Sink>, SinkError> {
        if request.location == "forbidden" && self.broken != "opens what is forbidden" {
            return Err(SinkError::Open { sink: request.location.clone(), cause: "it is forbidden".into() });
        }
        let mut store = self.store.lock().unwrap();
        let lines = store.entry(request.location.clone()).or_default();
        match &request.resume {
            None if self.broken == "empties what it opens" => lines.clear(),
            None => {}
            Some(_) if self.broken == "does not cut off" => {}
            Some(position) => lines.truncate(usize::try_from(position.rows).unwrap()),
        }
        drop(store);
        Ok(Box::new(Stored {
            fresh: request.resume.is_none(),
            broken: self.broken,
            store: Arc::clone(&self.store),
            location: request.location.clone(),
            select: if self.broken == "ignores the selection" { Selection::Triggers } else { request.select },
            kept_back: Vec::new(),
        }))
    }
}

impl Stored {
    fn start(&mut self) {
        if std::mem::take(&mut self.fresh) {
            self.store.lock().unwrap().get_mut(&self.location).unwrap().clear();
        }
    }

    fn append(&mut self, lines: &mut Vec<String>) {
        self.start();
        self.store.lock().unwrap().get_mut(&self.location).unwrap().append(lines);
    }
}

impl Sink for Stored {
    fn name(&self) -> &str {
        &self.location
    }

    fn wants(&self) -> Selection {
        self.select
    }

    fn write(&mut self, batch: &VerdictBatch) -> Result<(), SinkError> {
        let mut lines: Vec<String> = batch.iter().map(|verdict| format!("{verdict:?}")).collect();
        match self.broken {
            "keeps verdicts back" => self.kept_back.append(&mut lines),
            "marks batches" => {
                lines[0].push('!');
                self.append(&mut lines);
            }
            _ => self.append(&mut lines),
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<Option<Position>, SinkError> {
        self.start();
        let rows = self.store.lock().unwrap()[&self.location].len() as u64;
        let rows = if self.broken == "miscounts" { rows + 1 } else { rows };
        Ok(Some(Position { rows, ..Position::default() }))
    }

    fn finish(mut self: Box<Self>, end: &RunEnd) -> Result<(), SinkError> {
        let mut kept_back = std::mem::take(&mut self.kept_back);
        self.append(&mut kept_back);
        if self.broken == "loses a failed run" && *end != RunEnd::Complete {
            self.store.lock().unwrap().clear();
        }
        Ok(())
    }
}

fn try_sink(broken: &'static str) -> Result<(), String> {
    let store = Store::default();
    let request = |location: &str| SinkRequest { location: location.to_owned(), ..SinkRequest::default() };
    catch_panic(|| {
        check_sink(&SinkCase {
            factory: &Storing { broken, store: Arc::clone(&store) },
            request: request("out"),
            readable_while_open: true,
            forbidden: request("forbidden"),
            read: &|location| store.lock().unwrap().get(location).cloned().unwrap_or_default(),
        });
    })
}

#[test]
fn a_sink_that_keeps_its_promises_passes_and_one_that_breaks_any_does_not() {
    assert_eq!(try_sink(""), Ok(()));
    for broken in [
        "opens what is forbidden",
        "does not cut off",
        "ignores the selection",
        "keeps verdicts back",
        "marks batches",
        "miscounts",
        "empties what it opens",
        "loses a failed run",
    ] {
        assert!(try_sink(broken).is_err(), "a sink that {broken} gets by");
    }
}
