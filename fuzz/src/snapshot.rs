//! Snapshots of the compiled engine: whatever their bytes are, restoring refuses them, or evaluation goes on without a
//! panic and without leaving its memory.
//!
//! The input is a script, so that it stays meaningful when the format of snapshots changes: it selects a specification
//! and how many events come before the snapshot, then changes bytes of it.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema};
use fairstream_core::{
    Cancelled, Engine, EngineError, EventBatch, Position, Subscription, Time, VerdictRef, VerdictSink,
};
use fairstream_engine::{CompiledEngine, Specification, reseal_snapshot};

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

pub(crate) fn snapshot(script: &[u8]) {
    let [which, before, changes @ ..] = script else { return };
    let texts = specifications();
    let spec = Specification::parse("fuzz.lola", &texts[usize::from(*which) % texts.len()]).unwrap();
    let (before, is_compiled) = (i64::from(*before) % 120, which & 0x80 != 0);
    let mut first = engine(&spec, is_compiled);
    first.feed(&rows(&spec, 0, before), &mut Discard).unwrap();
    let mut bytes = first.snapshot().unwrap();
    for change in changes.chunks_exact(4) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]]));
        // Past the header, which has its own tests.
        let at = 28 + at % (bytes.len() - 28).max(1);
        match change[2] % 6 {
            0 => bytes[at] = change[3],
            1 => bytes[at] ^= 1 << (change[3] % 8),
            2 => bytes[at] = bytes[at].wrapping_add(change[3]),
            3 => bytes[at] = 0xff,
            4 => bytes.truncate(at.max(29)),
            _ => bytes.insert(at, change[3]),
        }
    }
    reseal_snapshot(&mut bytes);
    let mut second = engine(&spec, is_compiled);
    if second.restore(&bytes).is_err() {
        return;
    }
    let fed = second.feed(&rows(&spec, before, before + 60), &mut Discard);
    let failed = fed.is_err();
    accept(fed);
    if !failed {
        accept(second.advance(Time((before + 200) * DAY / 7), &mut Discard));
        // What goes on from here can be written down and read again.
        let again = second.snapshot().unwrap();
        engine(&spec, is_compiled).restore(&again).unwrap();
    }
}
