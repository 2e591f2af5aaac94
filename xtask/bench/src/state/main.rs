//! How long events wait while state is captured, what it takes to encode and to resume it, and how large it is.
//! `cargo xtask bench state [--max-trials N]`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Field, Schema};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use fairstream_core::{
    Cancelled, Engine, EventBatch, OnChange, Position, Selection, StateError, StateReader, StateRows,
    StateWriter, Subscription, Time, VerdictRef, VerdictSink,
};
use fairstream_engine::{CompiledEngine, Specification};

/// Screenings that wait two years, each with a clock of its own.
const SPECIFICATION: &str = include_str!("../../../../specs/rtlola/compas_deadline.lola");

struct Discard;

impl VerdictSink for Discard {
    fn emit(&mut self, _: &VerdictRef<'_>) -> Result<(), Cancelled> {
        Ok(())
    }
}

/// Documents, and tables as the bytes of Arrow IPC.
#[derive(Default)]
struct Encoded {
    documents: BTreeMap<String, String>,
    tables: BTreeMap<String, StreamWriter<Vec<u8>>>,
    finished: BTreeMap<String, Vec<u8>>,
}

fn failed(error: &arrow::error::ArrowError) -> StateError {
    StateError::Io(error.to_string())
}

impl Encoded {
    fn finish(&mut self) -> Result<(), StateError> {
        for (name, writer) in std::mem::take(&mut self.tables) {
            self.finished.insert(name, writer.into_inner().map_err(|error| failed(&error))?);
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.documents.values().map(String::len).chain(self.finished.values().map(Vec::len)).sum()
    }
}

impl StateWriter for Encoded {
    fn document(&mut self, name: &str, json: &str) -> Result<(), StateError> {
        self.documents.insert(name.to_owned(), json.to_owned());
        Ok(())
    }

    fn rows(&mut self, table: &str, rows: &RecordBatch) -> Result<(), StateError> {
        if !self.tables.contains_key(table) {
            let writer = StreamWriter::try_new(Vec::new(), &rows.schema()).map_err(|error| failed(&error))?;
            self.tables.insert(table.to_owned(), writer);
        }
        match self.tables.get_mut(table) {
            Some(writer) => writer.write(rows).map_err(|error| failed(&error)),
            None => Ok(()),
        }
    }
}

impl StateReader for Encoded {
    fn document(&self, name: &str) -> Result<Option<String>, StateError> {
        Ok(self.documents.get(name).cloned())
    }

    fn table(&self, name: &str) -> Result<Option<StateRows<'_>>, StateError> {
        let Some(bytes) = self.finished.get(name) else { return Ok(None) };
        let reader = StreamReader::try_new(bytes.as_slice(), None).map_err(|error| failed(&error))?;
        Ok(Some(Box::new(reader.map(|batch| batch.map_err(|error| failed(&error))))))
    }
}

/// Screenings of people with these numbers, a second apart.
fn screenings(spec: &Specification, people: std::ops::Range<i64>) -> anyhow::Result<EventBatch> {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(people.clone().map(|_| "SCREEN"))),
        Arc::new(Int64Array::from_iter_values(people.clone())),
        Arc::new(StringArray::from_iter_values(people.clone().map(|id| if id % 2 == 0 { "A" } else { "B" }))),
        Arc::new(Int64Array::from_iter_values(people.clone().map(|id| id % 10))),
    ];
    let fields = spec.wanted().iter().map(|wanted| Field::new(&wanted.name, wanted.data_type.clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let times: Vec<i64> = people.clone().map(|id| (id + 1) * 1_000_000_000).collect();
    let numbers: Vec<u64> = people.map(i64::unsigned_abs).collect();
    Ok(EventBatch::new(RecordBatch::try_new(schema, columns)?, times, numbers, Position::default()))
}

fn engine(spec: &Specification) -> anyhow::Result<CompiledEngine> {
    let mut engine = CompiledEngine::new(spec, Time(0))?;
    engine.prepare(&Subscription::new(Selection::Triggers))?;
    Ok(engine)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[expect(clippy::print_stdout, reason = "the figures are the output")]
fn measure(spec: &Specification, trials: i64) -> anyhow::Result<()> {
    const ROUNDS: usize = 5;
    const BATCH: i64 = 8192;
    let mut first = engine(spec)?;
    for from in (0..trials).step_by(BATCH as usize) {
        first.feed(&screenings(spec, from..(from + BATCH).min(trials))?, &mut Discard)?;
    }
    let (mut pauses, mut encodes, mut resumes) = (Vec::new(), Vec::new(), Vec::new());
    let mut bytes = 0;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let captured = first.capture()?;
        pauses.push(began.elapsed().as_secs_f64() * 1e3);
        let began = Instant::now();
        let mut encoded = Encoded::default();
        captured.write(&mut encoded)?;
        encoded.finish()?;
        encodes.push(began.elapsed().as_secs_f64());
        bytes = encoded.bytes();
        let mut second = engine(spec)?;
        let began = Instant::now();
        second.resume(&encoded, OnChange::Refuse)?;
        resumes.push(began.elapsed().as_secs_f64());
    }
    let (pause, encode, resume) = (median(pauses), median(encodes), median(resumes));
    println!(
        "{trials:>10} trials: pause {pause:8.1} ms, {:5.1} bytes a trial, encoded in {encode:6.2} s, resumed in {resume:6.2} s ({:.1} M trials/s)",
        bytes as f64 / trials as f64,
        trials as f64 / resume / 1e6,
    );
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let most = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => 10_000_000,
        ["--max-trials", number] => number.parse().context("--max-trials takes a number")?,
        _ => anyhow::bail!("the only option is --max-trials N"),
    };
    let spec = Specification::parse("compas_deadline.lola", SPECIFICATION)?;
    for trials in [100_000, 1_000_000, 10_000_000].into_iter().filter(|trials| *trials <= most) {
        measure(&spec, trials)?;
    }
    Ok(())
}
