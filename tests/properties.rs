//! Verdicts depend only on the events and their order.

use std::fmt::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairstream_core::{
    BadRowPolicy, Cancelled, Engine, EngineError, EventBatch, Position, RejectedRow, RunOptions, Selection,
    Subscription, Time, VerdictBatch, VerdictBatcher, catch_panic,
};
use fairstream_engine::{ReferenceEngine, Specification};
use proptest::prelude::*;

use crate::support::{Collect, line, run, sources};

/// Instances, aggregates over them, windows and clocks, so that order and time matter.
const SPEC: &str = r#"
input user : UInt64
input value : Int64
input word : String
output amount(u)
  spawn with user
  eval @user∧value when user = u with amount(u).last(or: 0) + value
  close @word when word = "close" ∧ amount(u).hold(or: 0) > 5
output richest @user∨word := amount.aggregate(over_instances: all, using: max).defaults(to: 0)
output recent @1Hz := value.aggregate(over: 3s, using: sum)
output age(u) : UInt64
  spawn with user
  eval @Local(2s) with age(u).last(or: 0) + 1
  close @Local(2s) when age(u).hold(or: 0) >= 3
trigger richest > 8 "rich"
trigger @1Hz recent > 6 "busy"
"#;

#[derive(Clone, Debug)]
struct Event {
    /// In tenths of a second.
    time: u64,
    user: Option<u64>,
    value: Option<i64>,
    word: Option<&'static str>,
}

fn events(distinct_times: bool) -> impl Strategy<Value = Vec<Event>> {
    let first = u64::from(distinct_times);
    let event = (
        first..8_u64,
        prop::option::of(0..4_u64),
        prop::option::of(-3..9_i64),
        prop::option::of(prop::sample::select(vec!["close", "other, \"word\"", "two\nlines"])),
    );
    prop::collection::vec(event, 1..60).prop_map(|steps| {
        let mut time = 0;
        let next = |(step, user, value, word)| {
            time += step;
            Event { time, user, value, word }
        };
        steps.into_iter().map(next).collect()
    })
}

fn csv<'a>(events: impl IntoIterator<Item = &'a Event>) -> String {
    let mut text = String::from("time,user,value,word\n");
    let field = |value: Option<String>| value.unwrap_or_default();
    for Event { time, user, value, word } in events {
        let word = word.map_or(String::new(), |word| format!("\"{}\"", word.replace('"', "\"\"")));
        let (user, value) = (field(user.map(|n| n.to_string())), field(value.map(|n| n.to_string())));
        writeln!(text, "{}.{},{user},{value},{word}", time / 10, time % 10).unwrap();
    }
    text
}

/// Writes each list of events to a file, runs them together, and returns every verdict.
fn verdicts(files: &[Vec<Event>], max_rows: usize, capacity: usize, reorder: Duration) -> Vec<String> {
    let spec = Specification::parse("spec", SPEC).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let write = |(index, events): (usize, &Vec<Event>)| {
        let path = dir.path().join(format!("{index}.csv"));
        std::fs::write(&path, csv(events)).unwrap();
        path
    };
    let paths: Vec<PathBuf> = files.iter().enumerate().map(write).collect();
    let collect = Collect::new(Selection::Changes);
    let options = RunOptions {
        capacity: NonZeroUsize::new(capacity).unwrap(),
        max_verdicts: max_rows,
        until: Some(Time(60_000_000_000)),
        reorder,
        ..RunOptions::default()
    };
    let report = run(&spec, sources(&spec, &paths, max_rows), vec![Box::new(collect.clone())], options);
    assert!(report.error.is_none(), "{:?}", report.error);
    assert_eq!(report.counts.evaluated as usize, files.iter().map(Vec::len).sum::<usize>());
    collect.lines()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn batch_size_and_capacity_do_not_matter(
        events in events(false),
        max_rows in 1..20_usize,
        capacity in 1..5_usize,
    ) {
        let whole = verdicts(std::slice::from_ref(&events), 8192, 4, Duration::ZERO);
        prop_assert!(!whole.is_empty());
        prop_assert_eq!(verdicts(&[events], max_rows, capacity, Duration::ZERO), whole);
    }

    #[test]
    fn cutting_the_input_into_files_does_not_matter(
        events in events(false),
        cuts in prop::collection::vec(0..60_usize, 0..4),
        max_rows in 1..20_usize,
    ) {
        let whole = verdicts(std::slice::from_ref(&events), 8192, 4, Duration::ZERO);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(events.len())).collect();
        cuts.extend([0, events.len()]);
        cuts.sort_unstable();
        let files: Vec<Vec<Event>> = cuts.windows(2).map(|cut| events[cut[0]..cut[1]].to_vec()).collect();
        prop_assert_eq!(verdicts(&files, max_rows, 2, Duration::ZERO), whole);
    }

    #[test]
    fn dealing_the_events_out_to_files_does_not_matter(
        events in events(true),
        deal in prop::collection::vec(0..3_usize, 60),
        max_rows in 1..20_usize,
    ) {
        let whole = verdicts(std::slice::from_ref(&events), 8192, 4, Duration::ZERO);
        let mut files = vec![Vec::new(); 3];
        for (event, file) in events.into_iter().zip(deal) {
            files[file].push(event);
        }
        prop_assert_eq!(verdicts(&files, max_rows, 2, Duration::ZERO), whole);
    }

    #[test]
    fn late_rows_are_put_in_order(
        events in events(true),
        delays in prop::collection::vec(0..30_u64, 60),
        max_rows in 1..20_usize,
    ) {
        let whole = verdicts(std::slice::from_ref(&events), 8192, 4, Duration::ZERO);
        // Each event arrives up to 2.9 seconds after it happened.
        let mut arrivals: Vec<(u64, Event)> =
            events.into_iter().zip(delays).map(|(event, delay)| (event.time + delay, event)).collect();
        arrivals.sort_by_key(|(arrival, _)| *arrival);
        let late: Vec<Event> = arrivals.into_iter().map(|(_, event)| event).collect();
        prop_assert_eq!(verdicts(&[late], max_rows, 2, Duration::from_secs(3)), whole);
    }
}

/// The kinds of bad rows.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    Nothing,
    Value,
    Fields,
    Nan,
    Late,
}

/// The full result of a run on these rows, one second apart: verdicts, error, counts.
fn outcome(rows: &[Wrong], max_rows: usize, skip: bool, since: u64, until: u64, reorder: u64) -> String {
    let spec =
        "input a : Int64\ninput f : Float64\ntrigger a > 5 \"high\"\ntrigger @2s a.hold(or: 0) > 8 \"tick\"";
    let spec = Specification::parse("spec", spec).unwrap();
    let mut csv = String::from("time,a,f\n");
    for (second, wrong) in rows.iter().enumerate() {
        let a = second * 7 % 11;
        match wrong {
            Wrong::Nothing => writeln!(csv, "{second},{a},0.5"),
            Wrong::Value => writeln!(csv, "{second},x,0.5"),
            Wrong::Fields => writeln!(csv, "{second},{a}"),
            Wrong::Nan => writeln!(csv, "{second},{a},NaN"),
            Wrong::Late => writeln!(csv, "{},{a},0.5", second.saturating_sub(4)),
        }
        .unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.csv");
    std::fs::write(&path, csv).unwrap();
    let reported = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&reported);
    let policy = BadRowPolicy::Skip(Arc::new(move |_, _: &str, bad: &RejectedRow| {
        log.lock().unwrap().push(bad.to_string());
        Ok(())
    }));
    let options = RunOptions {
        since: Some(Time(since.cast_signed() * 1_000_000_000)),
        until: Some(Time(until.cast_signed() * 1_000_000_000)),
        reorder: Duration::from_secs(reorder),
        bad_rows: if skip { policy } else { BadRowPolicy::Stop },
        ..RunOptions::default()
    };
    let collect = Collect::new(Selection::Changes);
    let report = run(&spec, sources(&spec, &[path], max_rows), vec![Box::new(collect.clone())], options);
    let error = report.error.map(|error| error.to_string().split_once(".csv").unwrap().1.to_owned());
    let reported = reported.lock().unwrap().clone();
    format!("{:#?}\n{error:?}\n{reported:#?}\n{:?}", collect.lines(), report.counts)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn neither_errors_nor_counts_depend_on_the_batches(
        rows in prop::collection::vec(
            prop_oneof![
                12 => Just(Wrong::Nothing),
                1 => Just(Wrong::Value),
                1 => Just(Wrong::Fields),
                1 => Just(Wrong::Nan),
                1 => Just(Wrong::Late),
            ],
            1..40,
        ),
        max_rows in 1..12_usize,
        skip: bool,
        since in 0..6_u64,
        until in 6..45_u64,
        reorder in 0..6_u64,
    ) {
        prop_assert_eq!(
            outcome(&rows, max_rows, skip, since, until, reorder),
            outcome(&rows, 8192, skip, since, until, reorder)
        );
    }
}

/// A batch of rows of one Int64 column, at those seconds.
fn batch(seconds: &[i64], values: &[i64]) -> EventBatch {
    use arrow::array::{Int64Array, RecordBatch};
    use arrow::datatypes::{DataType, Field, Schema};
    let schema = Schema::new(vec![Field::new("a", DataType::Int64, true)]);
    let column = Arc::new(Int64Array::from(values.to_vec()));
    let rows = RecordBatch::try_new(schema.into(), vec![column]).unwrap();
    let times: Vec<i64> = seconds.iter().map(|second| second * 1_000_000_000).collect();
    let numbers: Vec<u64> = (1..=seconds.len() as u64).collect();
    EventBatch::new(rows, times, numbers, Position::default())
}

#[test]
fn the_verdicts_of_a_long_gap_are_handed_on_while_it_lasts() {
    let spec = Specification::parse("spec", "input a : Int64\noutput n @1Hz := a.hold(or: 0)").unwrap();
    let mut engine = ReferenceEngine::new(&spec, Time(0)).unwrap();
    engine.prepare(&Subscription::everything()).unwrap();
    let mut batches = 0;
    let mut out = VerdictBatcher::new(engine.streams(), 100, |batch: VerdictBatch| {
        assert_eq!(batch.len(), 100);
        batches += 1;
        if batches == 3 { Err(Cancelled) } else { Ok(()) }
    });
    // Thirty years of seconds: if all of them were evaluated first, this would not return.
    let fed = engine.feed(&batch(&[1, 1_000_000_000], &[1, 2]), &mut out);
    assert_eq!(fed, Err(EngineError::Cancelled(Cancelled)));
}

#[test]
fn verdicts_before_a_deadline_that_fails_are_kept_and_it_is_named() {
    let spec = "input a : Int64\noutput three @3s := a.hold(or: 1)\noutput two @2s := 10 / a.hold(or: 1)\n\
        output own(i)\n  spawn with a\n  eval @Local(1s) with 1";
    let spec = Specification::parse("spec", spec).unwrap();
    let prepared = || {
        let mut engine = ReferenceEngine::new(&spec, Time(0)).unwrap();
        engine.prepare(&Subscription::everything()).unwrap();
        engine
    };
    let mut engine = prepared();
    let mut out = VerdictBatcher::new(engine.streams(), 100, Vec::new());
    let fed = engine.feed(&batch(&[2, 2, 9], &[5, 0, 7]), &mut out);
    assert!(
        matches!(fed, Err(EngineError::Deadline { time: Time(2_000_000_000), before: Some(2), .. })),
        "{fed:?}"
    );
    let mut engine = prepared();
    let fed = engine.feed(&batch(&[3, 9], &[0, 7]), &mut out);
    assert!(
        matches!(fed, Err(EngineError::Deadline { time: Time(4_000_000_000), before: Some(1), .. })),
        "{fed:?}"
    );
    let lines: Vec<String> =
        out.drain().iter().flat_map(VerdictBatch::iter).map(|verdict| line(&verdict)).collect();
    assert!(lines.contains(&"3s three = 0".to_owned()), "{lines:?}");
    assert!(lines.contains(&"2s two = 10".to_owned()), "{lines:?}");
}

#[test]
fn what_the_interpreter_cannot_evaluate_is_an_error_that_names_the_event() {
    for (spec, values, index, message) in [
        ("input a : Int64\noutput b := 10 / a", vec![5, 0, 3], 1, "divided by zero"),
        ("input a : Int64\noutput b := b.last(or: 0) + a", vec![1, 2, i64::MAX], 2, "overflows"),
        (
            "input a : Int64\noutput b := cast<Int64, Float64>(a) / cast<Int64, Float64>(a)",
            vec![0],
            0,
            "not a number",
        ),
        (
            "input a : Int64\noutput b @500ms := a.aggregate(over: 1s, using: med).defaults(to: 0)",
            vec![1],
            0,
            "percentile of a window without values",
        ),
    ] {
        let spec = Specification::parse("spec", spec).unwrap();
        let mut engine = ReferenceEngine::new(&spec, Time(0)).unwrap();
        engine.prepare(&Subscription::everything()).unwrap();
        let mut out = VerdictBatcher::new(engine.streams(), 100, Vec::new());
        let seconds: Vec<i64> = (1..=values.len() as i64).collect();
        match engine.feed(&batch(&seconds, &values), &mut out) {
            Err(
                EngineError::Event { index: at, reason, .. }
                | EngineError::Deadline { before: Some(at), reason, .. },
            ) => {
                assert_eq!(at, index);
                assert!(reason.contains(message), "{reason}");
            }
            other => panic!("{message}: {other:?}"),
        }
    }
}

#[test]
fn time_that_runs_backwards_is_an_error_that_names_the_event() {
    let spec = Specification::parse("spec", "input a : Int64\noutput b := a").unwrap();
    let mut engine = ReferenceEngine::new(&spec, Time(0)).unwrap();
    engine.prepare(&Subscription::everything()).unwrap();
    let mut out = VerdictBatcher::new(engine.streams(), 100, Vec::new());
    let fed = catch_panic(|| engine.feed(&batch(&[2, 2, 1], &[1, 2, 3]), &mut out)).unwrap();
    assert!(
        matches!(&fed, Err(EngineError::Event { index: 2, reason, .. }) if reason.contains("before")),
        "{fed:?}"
    );
}
