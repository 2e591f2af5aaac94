//! State of the compiled engine: whatever its documents and tables say, resuming refuses them, or evaluation goes on without
//! a panic and without leaving its memory.
//!
//! The input is a script, so that it stays meaningful when the format changes: it selects a specification and how many
//! events come before the state is written, then changes bytes of documents, and values, rows and columns of tables.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Schema};
use fairstream_core::{
    Cancelled, Engine, EngineError, EventBatch, MemoryState, OnChange, Position, Subscription, Time,
    VerdictRef, VerdictSink,
};
use fairstream_engine::{CompiledEngine, Specification};

const DAY: i64 = 86_400_000_000_000;

/// Extrema of more members than fit words, earlier values, windows over inputs and instances, exact sums.
const MIXED: &str = r#"
input id : Int64
input group : String
input score : Int64
output value(i, g)
  spawn with (id, group)
  eval @(id∧score) when id = i with score + value(i, g).last(or: 0) / 2
  close @(id∧score) when id = i ∧ score = 7
output share(i, g) : Float64
  spawn with (id, group)
  eval @(id∧score) when id = i with cast<Int64, Float64>(score) / 3.0
  close @(id∧score) when id = i ∧ score = 7
output largest(g)
  spawn with group
  eval @(id∧score) with value.aggregate(over_instances: All(where: (j, h) => h = g), using: max).defaults(to: 0)
output smallest(g)
  spawn with group
  eval @(id∧score) with value.aggregate(over_instances: All(where: (j, h) => h = g), using: min).defaults(to: 0)
output total(g)
  spawn with group
  eval @(id∧score) with share.aggregate(over_instances: All(where: (j, h) => h = g), using: sum)
output spread(g)
  spawn with group
  eval @(id∧score) with share.aggregate(over_instances: All(where: (j, h) => h = g), using: var).defaults(to: 0.0)
output recent @1d := score.aggregate(over: 3d, using: sum)
output before := score.offset(by: -2).defaults(to: 0)
trigger @1d largest.aggregate(over_instances: all, using: max).defaults(to: 0) > 1000 "large"
trigger before > 5 "earlier"
"#;

/// Counters and windows of one word; deadlines of instances; secondary indexes. Trials end after two days.
fn specifications() -> [String; 4] {
    let short = |text: &str| text.replace("730d", "2d").replace("= 730", "= 2");
    [
        short(include_str!("../../specs/rtlola/compas.lola")),
        short(include_str!("../../specs/rtlola/compas_deadline.lola")),
        include_str!("../../specs/rtlola/seminar.lola").to_owned(),
        MIXED.to_owned(),
    ]
}

struct Discard;

impl VerdictSink for Discard {
    fn emit(&mut self, _: &VerdictRef<'_>) -> Result<(), Cancelled> {
        Ok(())
    }
}

/// Rows with values that depend on their number alone, a few hours apart.
fn rows(spec: &Specification, from: i64, to: i64) -> EventBatch {
    let numbers = || (from..to).map(|row| row.wrapping_mul(2_654_435_761) >> 7);
    let column = |(at, wanted): (usize, &fairstream_core::WantedColumn)| -> ArrayRef {
        // Every input is absent now and then, but the first seldom.
        let is_there = |number: i64| at == 0 || (number >> at) % 3 != 0;
        match wanted.data_type {
            DataType::Int64 => Arc::new(
                numbers().map(|n| is_there(n).then_some((n + at as i64) % 23)).collect::<Int64Array>(),
            ),
            DataType::UInt64 => Arc::new(
                numbers().map(|n| is_there(n).then_some(n.unsigned_abs() % 19)).collect::<UInt64Array>(),
            ),
            _ => {
                let text = |n: i64| match (wanted.name.as_str(), n % 5) {
                    ("event", 0 | 1) => "RECIDIVISM",
                    ("event", _) => "SCREEN",
                    (_, 0) => "A",
                    (_, 1) => "B",
                    _ => "a group with a long name",
                };
                Arc::new(numbers().map(|n| is_there(n).then(|| text(n))).collect::<StringArray>())
            }
        }
    };
    let columns: Vec<ArrayRef> = spec.wanted().iter().enumerate().map(column).collect();
    let field =
        |wanted: &fairstream_core::WantedColumn| Field::new(&wanted.name, wanted.data_type.clone(), true);
    let schema = Arc::new(Schema::new(spec.wanted().iter().map(field).collect::<Vec<_>>()));
    let times: Vec<i64> = (from..to).map(|row| (row + 1) * DAY / 7).collect();
    let numbers: Vec<u64> = (from..to).map(i64::unsigned_abs).collect();
    EventBatch::new(RecordBatch::try_new(schema, columns).unwrap(), times, numbers, Position::default())
}

fn engine(spec: &Specification, is_compiled: bool) -> CompiledEngine {
    let engine = CompiledEngine::new(spec, Time(0)).unwrap().without_precompiling();
    let mut engine = engine.compile_after(u32::from(is_compiled));
    engine.prepare(&Subscription::everything()).unwrap();
    engine
}

/// An error in an expression is in order; a panic that was caught is not.
fn accept(done: Result<(), EngineError>) {
    if let Err(error) = done {
        let text = error.to_string();
        assert!(!text.contains("stopped working"), "{text}");
    }
}

pub(crate) fn state(script: &[u8]) {
    let [which, before, changes @ ..] = script else { return };
    let texts = specifications();
    let spec = Specification::parse("fuzz.lola", &texts[usize::from(*which) % texts.len()]).unwrap();
    let (before, is_compiled) = (i64::from(*before) % 120, which & 0x80 != 0);
    let mut first = engine(&spec, is_compiled);
    first.feed(&rows(&spec, 0, before), &mut Discard).unwrap();
    let mut state = MemoryState::of(first.capture().unwrap()).unwrap();
    for change in changes.chunks_exact(4) {
        change_state(&mut state, change);
    }
    let mut second = engine(&spec, is_compiled);
    let on_change = if which & 0x40 != 0 { OnChange::CarryOver } else { OnChange::Refuse };
    if second.resume(&state, on_change).is_err() {
        // The engine is as it was: it takes events from the beginning.
        second.feed(&rows(&spec, 0, 3), &mut Discard).unwrap();
        return;
    }
    let fed = second.feed(&rows(&spec, before, before + 60), &mut Discard);
    let failed = fed.is_err();
    accept(fed);
    if !failed {
        accept(second.advance(Time((before + 200) * DAY / 7), &mut Discard));
        // What goes on from here can be written down and read again.
        let again = MemoryState::of(second.capture().unwrap()).unwrap();
        engine(&spec, is_compiled).resume(&again, OnChange::CarryOver).unwrap();
    }
}

/// Changes a byte of the document, or something of a table.
fn change_state(state: &mut MemoryState, change: &[u8]) {
    let at = usize::from(u16::from_le_bytes([change[0], change[1]]));
    if change[2] < 128 {
        let Some(document) = state.documents.get_mut("engine") else { return };
        // Most bytes are digits and punctuation; a digit that becomes another one is still a document.
        let bytes = document.as_bytes().to_vec();
        let at = at % bytes.len();
        let new = match (change[2] % 4, bytes[at].is_ascii_digit()) {
            (0, _) => change[3],
            (_, true) => b'0' + change[3] % 10,
            (1, _) => b',',
            _ => bytes[at] ^ (1 << (change[3] % 7)),
        };
        let changed = [&bytes[..at], &[new][..], &bytes[at + 1..]].concat();
        if let Ok(text) = String::from_utf8(changed) {
            *document = text;
        }
        return;
    }
    let tables = state.tables.len();
    let Some(table) = state.tables.values_mut().nth(at % tables.max(1)) else { return };
    let Some(batch) = table.first_mut().filter(|batch| batch.num_columns() > 0) else { return };
    let (rows, column) = (batch.num_rows(), usize::from(change[3]) % batch.num_columns());
    match change[2] % 6 {
        0 => *batch = batch.slice(0, rows / 2),
        1 => {
            let twice = batch.clone();
            table.push(twice);
        }
        2 => {
            batch.remove_column(column);
        }
        _ => {
            let mut columns = batch.columns().to_vec();
            columns[column] = shuffled(&columns[column], at, change[2]);
            let schema = batch.schema();
            let fields = schema.fields().iter().zip(&columns);
            let fields =
                fields.map(|(field, column)| Field::new(field.name(), column.data_type().clone(), true));
            let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
            if let Ok(changed) = RecordBatch::try_new(schema, columns) {
                *batch = changed;
            }
        }
    }
}

/// A column with other values, in another order, or of nothing but nulls.
fn shuffled(column: &ArrayRef, at: usize, how: u8) -> ArrayRef {
    let rows = column.len();
    let other = |number: usize| (number.wrapping_mul(at | 1) + at) % rows.max(1);
    match (how / 8 % 4, column.data_type()) {
        (0, data_type) => arrow::array::new_null_array(data_type, rows),
        (1, DataType::Int64) => {
            Arc::new(Int64Array::from_iter_values((0..rows).map(|row| i64::MAX - row as i64)))
        }
        (1, DataType::UInt64) => {
            Arc::new(UInt64Array::from_iter_values((0..rows).map(|row| u64::MAX - row as u64)))
        }
        (1, DataType::Timestamp(..)) => {
            let far =
                (0..rows).map(|row| if row % 2 == 0 { i64::MIN + at as i64 } else { i64::MAX - at as i64 });
            Arc::new(TimestampNanosecondArray::from_iter_values(far))
        }
        _ => {
            let indices = UInt64Array::from_iter_values((0..rows).map(|row| other(row) as u64));
            arrow::compute::take(column, &indices, None).unwrap_or_else(|_| Arc::clone(column))
        }
    }
}
