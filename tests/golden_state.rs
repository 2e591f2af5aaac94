//! State of earlier versions stays readable: files in `tests/data/state` are resumed, and give the verdicts of a run that was
//! not interrupted. `cargo test -p fairstream-tests --test all -- --ignored golden_states_are_written` writes those of the
//! present version.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Schema};
use fairstream_core::{
    Engine, EventBatch, MemoryState, OnChange, Position, Subscription, Time, VerdictBatch, VerdictBatcher,
    WantedColumn,
};
use fairstream_engine::Specification;

use crate::support::{interpreted, line, read_state, root, warming_up, write_state};

const DAY: i64 = 86_400_000_000_000;

/// Rows before the state is written, and behind it.
const ROWS: [i64; 2] = [60, 90];

/// Windows of every kind, tuples, texts, decimals, earlier values.
const MIXED: &str = r#"
input id : Int64
input name : String
input score : Float64
input price : Fixed64_32
output last(i)
  spawn with id
  eval @(id∧score) when id = i with (score, score + last(i).offset(by: -2).defaults(to: (0.0, 0.0)).0)
  close @(id∧score) when id = i ∧ score > 20.0
output paid(i)
  spawn with id
  eval @(id∧price) when id = i with price + paid(i).last(or: 0.5)
output all_paid @(id∧price) := paid.aggregate(over_instances: all, using: sum)
output names(n)
  spawn with name
  eval @(id∧name) when name = n with names(n).last(or: 0) + 1
output recent @2d := score.aggregate(over: 6d, using: avg).defaults(to: 0.0)
output spread @2d := score.aggregate(over: 6d, using: var).defaults(to: 0.0)
output before := name.offset(by: -3).defaults(to: "none")
trigger @2d recent > 5.0 "high"
"#;

/// The cases: a name, and the text of a specification. Trials of two years end after a few days.
fn cases() -> Vec<(&'static str, String)> {
    let spec =
        |name: &str| std::fs::read_to_string(root().join(format!("specs/rtlola/{name}.lola"))).unwrap();
    let short = |text: String| text.replace("730d", "4d").replace("= 730", "= 4");
    vec![
        ("compas_deadline", short(spec("compas_deadline"))),
        ("compas", short(spec("compas"))),
        ("seminar", spec("seminar")),
        ("mixed", MIXED.to_owned()),
    ]
}

fn folder(case: &str) -> PathBuf {
    root().join("tests/data/state/v1").join(case)
}

/// Rows whose values depend on their number alone, a few hours apart.
fn rows(spec: &Specification, from: i64, to: i64) -> EventBatch {
    let numbers = || (from..to).map(|row| row.wrapping_mul(2_654_435_761) >> 7);
    let column = |(at, wanted): (usize, &WantedColumn)| -> ArrayRef {
        let is_there = |number: i64| at == 0 || (number >> at) % 3 != 0;
        let some = |number: i64| is_there(number).then_some(number);
        match &wanted.data_type {
            DataType::Int64 => Arc::new(numbers().map(|n| some(n).map(|n| n % 13)).collect::<Int64Array>()),
            DataType::UInt64 => {
                Arc::new(numbers().map(|n| some(n).map(|n| n.unsigned_abs() % 13)).collect::<UInt64Array>())
            }
            DataType::Float64 => Arc::new(
                numbers().map(|n| some(n).map(|n| (n % 250) as f64 / 10.0)).collect::<Float64Array>(),
            ),
            DataType::Decimal128(precision, scale) => {
                let values = numbers().map(|n| some(n).map(|n| i128::from(n % 1000) * 10_i128.pow(16)));
                let values: Decimal128Array = values.collect();
                Arc::new(values.with_precision_and_scale(*precision, *scale).unwrap())
            }
            _ => {
                let text = |n: i64| match (wanted.name.as_str(), n % 5) {
                    ("event", 0 | 1) => "RECIDIVISM",
                    ("event", _) => "SCREEN",
                    (_, 0) => "A",
                    (_, 1) => "B",
                    _ => "a group with a long name",
                };
                Arc::new(numbers().map(|n| some(n).map(text)).collect::<StringArray>())
            }
        }
    };
    let columns: Vec<ArrayRef> = spec.wanted().iter().enumerate().map(column).collect();
    let field = |wanted: &WantedColumn| Field::new(&wanted.name, wanted.data_type.clone(), true);
    let schema = Arc::new(Schema::new(spec.wanted().iter().map(field).collect::<Vec<_>>()));
    let times: Vec<i64> = (from..to).map(|row| (row + 1) * DAY / 5).collect();
    let numbers: Vec<u64> = (from..to).map(i64::unsigned_abs).collect();
    EventBatch::new(RecordBatch::try_new(schema, columns).unwrap(), times, numbers, Position::default())
}

/// Feeds rows, and lets the clock run a while after the last; the verdicts.
fn verdicts(engine: &mut dyn Engine, spec: &Specification, from: i64, to: i64) -> Vec<String> {
    let mut out = VerdictBatcher::new(engine.streams(), 1000, Vec::new());
    engine.feed(&rows(spec, from, to), &mut out).unwrap();
    if to == ROWS[1] {
        engine.advance(Time((to + 40) * DAY / 5), &mut out).unwrap();
    }
    out.drain().iter().flat_map(VerdictBatch::iter).map(|verdict| line(&verdict)).collect()
}

fn engine(spec: &Specification, is_compiled: bool) -> Box<dyn Engine> {
    let mut engine =
        if is_compiled { warming_up(spec, Time(0)) } else { interpreted(spec, Time(0)) }.unwrap();
    engine.prepare(&Subscription::everything()).unwrap();
    engine
}

#[test]
fn golden_states_are_resumed() {
    for (case, text) in cases() {
        let spec = Specification::parse(case, &text).unwrap();
        let state = read_state(&folder(case));
        let expected = std::fs::read_to_string(folder(case).join("expected.txt")).unwrap();
        for is_compiled in [false, true] {
            let mut resumed = engine(&spec, is_compiled);
            assert_eq!(resumed.resume(&state, OnChange::Refuse), Ok(Vec::new()), "{case}");
            let found = verdicts(&mut *resumed, &spec, ROWS[0], ROWS[1]);
            assert!(found.len() > 20, "{case}: {}", found.len());
            assert_eq!(found.join("\n") + "\n", expected, "{case}");
            let mut whole = engine(&spec, is_compiled);
            verdicts(&mut *whole, &spec, 0, ROWS[0]);
            assert_eq!(verdicts(&mut *whole, &spec, ROWS[0], ROWS[1]), found, "{case}");
        }
    }
}

#[test]
#[ignore = "it writes the files that the other test reads"]
fn golden_states_are_written() {
    for (case, text) in cases() {
        let spec = Specification::parse(case, &text).unwrap();
        let mut engine = engine(&spec, true);
        verdicts(&mut *engine, &spec, 0, ROWS[0]);
        write_state(&MemoryState::of(engine.capture().unwrap()).unwrap(), &folder(case));
        let expected = verdicts(&mut *engine, &spec, ROWS[0], ROWS[1]);
        std::fs::write(folder(case).join("expected.txt"), expected.join("\n") + "\n").unwrap();
    }
}
