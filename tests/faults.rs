//! Components that fail, panic, block or violate their contract in the middle of a run: nothing hangs, no written
//! verdict is lost, and the error is that of the component.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use fairstream_core::{
    BadRowPolicy, Cancelled, Columns, Engine, EngineError, EventBatch, Pipeline, Position, RejectedRow,
    RunEnd, RunOptions, RunReport, Selection, Sink, SinkError, Source, SourceError, StopToken, Subscription,
    Time, VerdictBatch, VerdictSink, WantedColumn,
};

use crate::support::{Collect, Collected};

/// What a component does at its fault.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Error,
    Panic,
    HangUp,
    /// Blocks until the run is stopped.
    Block,
    /// Returns a batch with too few times.
    Lie,
    /// Is slow at every call.
    Slow,
}

/// A source of ten batches of ten rows, one second apart, with a fault instead of batch number `at`.
#[derive(Clone, Default)]
struct Rows {
    name: &'static str,
    fault: Option<(usize, Fault)>,
    stop: StopToken,
    given: Arc<AtomicUsize>,
    acknowledged: Arc<Mutex<Vec<Position>>>,
    rejected: Option<u64>,
}

const BATCHES: usize = 10;
const ROWS: usize = 10;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]))
}

impl Source for Rows {
    fn name(&self) -> &str {
        self.name
    }

    fn schema(&self) -> SchemaRef {
        schema()
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>, SourceError> {
        let batch = self.given.load(Ordering::SeqCst);
        let mut lie = 0;
        match self.fault {
            Some((_, Fault::Slow)) => thread::sleep(Duration::from_millis(150)),
            Some((at, fault)) if at == batch => match fault {
                Fault::Error => {
                    return Err(SourceError::Read {
                        origin: self.name.to_owned(),
                        row: (batch * ROWS) as u64,
                        cause: "the disk is gone".into(),
                    });
                }
                Fault::Panic => panic!("a bug in the source"),
                Fault::Block => {
                    while !self.stop.is_stopped() {
                        thread::sleep(Duration::from_millis(5));
                    }
                    return Ok(None);
                }
                Fault::Lie => lie = 1,
                Fault::HangUp | Fault::Slow => unreachable!(),
            },
            _ => {}
        }
        if batch == BATCHES {
            return Ok(None);
        }
        self.given.fetch_add(1, Ordering::SeqCst);
        let first = (batch * ROWS) as u64;
        let numbers: Vec<u64> =
            (first..first + ROWS as u64).filter(|row| Some(*row) != self.rejected).collect();
        let values = Int64Array::from_iter_values(numbers.iter().map(|row| row.cast_signed()));
        let times: Vec<i64> =
            numbers[..numbers.len() - lie].iter().map(|row| row.cast_signed() * 1_000_000_000).collect();
        let rows = RecordBatch::try_new(schema(), vec![Arc::new(values)]).unwrap();
        let end = Position { rows: first + ROWS as u64, ..Position::default() };
        let mut events = EventBatch::new(rows, times, numbers, end);
        events.relative = true;
        let here = |row: &u64| (first..first + ROWS as u64).contains(row);
        let bad = |row| RejectedRow { row, column: Some("a".to_owned()), reason: "odd".to_owned() };
        events.rejected = self.rejected.filter(here).map(bad).into_iter().collect();
        Ok(Some(events))
    }

    fn acknowledge(&mut self, through: &Position) -> Result<(), SourceError> {
        self.acknowledged.lock().unwrap().push(through.clone());
        Ok(())
    }
}

/// An engine that fires a trigger at every event, with a fault instead at event number `at`.
struct Fire {
    streams: Vec<String>,
    fault: Option<(usize, Fault)>,
    seen: usize,
}

impl Engine for Fire {
    fn streams(&self) -> &[String] {
        &self.streams
    }

    fn prepare(&mut self, _: &Subscription) -> Result<(), EngineError> {
        Ok(())
    }

    fn feed(&mut self, events: &EventBatch, out: &mut dyn VerdictSink) -> Result<(), EngineError> {
        for index in 0..events.len() {
            match self.fault {
                Some((at, Fault::Error)) if at == self.seen => {
                    let reason = "it overflows".to_owned();
                    return Err(EngineError::Event { index, column: None, reason });
                }
                Some((at, Fault::Panic)) if at == self.seen => panic!("a bug in the engine"),
                Some((at, Fault::HangUp)) if at == self.seen => return Err(Cancelled.into()),
                _ => {}
            }
            self.seen += 1;
            out.trigger(events.time(index), 0, None, "fired")?;
        }
        Ok(())
    }

    fn advance(&mut self, _time: Time, _out: &mut dyn VerdictSink) -> Result<(), EngineError> {
        Ok(())
    }
}

/// A sink that collects, with a fault instead of writing batch number `at`.
struct Faulty {
    collect: Collect,
    fault: Option<(usize, Fault)>,
    written: Arc<AtomicUsize>,
}

impl Sink for Faulty {
    fn name(&self) -> &str {
        "faulty"
    }

    fn wants(&self) -> Selection {
        self.collect.select
    }

    fn write(&mut self, batch: &VerdictBatch) -> Result<(), SinkError> {
        let sink = || "faulty".to_owned();
        match self.fault {
            Some((_, Fault::Slow)) => thread::sleep(Duration::from_millis(60)),
            Some((at, fault)) if at == self.written.load(Ordering::SeqCst) => match fault {
                Fault::Error => {
                    return Err(SinkError::Write { sink: sink(), cause: "the disk is full".into() });
                }
                Fault::HangUp => return Err(SinkError::HungUp { sink: sink() }),
                _ => panic!("a bug in the sink"),
            },
            _ => {}
        }
        self.collect.write(batch)?;
        self.written.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn flush(&mut self) -> Result<Option<Position>, SinkError> {
        self.collect.flush()
    }

    fn finish(self: Box<Self>, end: &RunEnd) -> Result<(), SinkError> {
        Box::new(self.collect).finish(end)
    }
}

/// The components of a run and their faults.
#[derive(Default)]
struct Run {
    sources: Vec<Rows>,
    engine: Option<(usize, Fault)>,
    sink: Option<(usize, Fault)>,
    /// Whether the sink with the fault is the only one.
    alone: bool,
    options: RunOptions,
}

struct Outcome {
    report: RunReport,
    /// Verdicts of the sink without a fault.
    good: Collected,
    /// Verdicts of the sink with the fault.
    faulty: Collected,
}

impl Run {
    /// Runs with two sinks, one of them with the fault. Fails if the run hangs.
    fn go(self) -> Outcome {
        let good = Collect::new(Selection::Triggers);
        let bad = Collect::new(Selection::Triggers);
        let stop = self.options.stop.clone();
        let sources: Vec<Box<dyn Source>> = self
            .sources
            .into_iter()
            .map(|source| Box::new(Rows { stop: stop.clone(), ..source }) as Box<dyn Source>)
            .collect();
        let columns = Columns::bind(&[WantedColumn::new("a", DataType::Int64)], &sources).unwrap();
        let fault = self.engine;
        let sink = Faulty { collect: bad.clone(), fault: self.sink, written: Arc::default() };
        let pipeline = Pipeline {
            sources,
            columns,
            engine: Box::new(move |_| {
                Ok(Box::new(Fire { streams: vec!["trigger_0".to_owned()], fault, seen: 0 }) as _)
            }),
            sinks: if self.alone {
                vec![Box::new(sink)]
            } else {
                vec![Box::new(good.clone()), Box::new(sink)]
            },
            options: self.options,
        };
        let (done, result) = mpsc::channel();
        thread::spawn(move || {
            let _ = done.send(pipeline.run());
        });
        let report = result.recv_timeout(Duration::from_secs(20)).expect("the run must not hang");
        let take = |collect: &Collect| std::mem::take(&mut *collect.collected.lock().unwrap());
        Outcome { report, good: take(&good), faulty: take(&bad) }
    }
}

fn rows(name: &'static str) -> Rows {
    Rows { name, ..Rows::default() }
}

fn fired(count: usize) -> Vec<String> {
    (0..count).map(|second| format!("{second}s trigger_0 ! fired")).collect()
}

/// Checks that the run failed with that message, and that both sinks were informed.
fn assert_failed(outcome: &Outcome, message: &str) {
    let error = outcome.report.error.as_ref().expect("an error").to_string();
    assert!(error.contains(message), "`{error}` should say `{message}`");
    assert!(matches!(outcome.report.end, RunEnd::Failed(_)));
    assert!(matches!(outcome.good.end, Some(RunEnd::Failed(_))), "{:?}", outcome.good.end);
    assert!(matches!(outcome.faulty.end, Some(RunEnd::Failed(_))), "{:?}", outcome.faulty.end);
}

#[test]
fn without_a_fault_everything_arrives_and_is_acknowledged() {
    let source = rows("events");
    let acknowledged = Arc::clone(&source.acknowledged);
    let outcome = Run { sources: vec![source], ..Run::default() }.go();
    assert!(outcome.report.error.is_none());
    assert_eq!((&outcome.good.lines, &outcome.faulty.lines), (&fired(100), &fired(100)));
    assert_eq!(outcome.good.end, Some(RunEnd::Complete));
    let counts = outcome.report.counts;
    assert_eq!((counts.read, counts.evaluated, counts.verdicts, counts.triggers), (100, 100, 100, 100));
    assert_eq!(acknowledged.lock().unwrap().last().map(|position| position.rows), Some(100));
}

#[test]
fn a_source_that_fails_or_panics_ends_the_run_after_its_last_row() {
    for (fault, message) in [
        (Fault::Error, "cannot read events after row 40: the disk is gone"),
        (Fault::Panic, "events stopped working: a bug in the source"),
        (Fault::Lie, "events is broken: it gave a batch whose times"),
    ] {
        let source = Rows { fault: Some((4, fault)), ..rows("events") };
        let outcome = Run { sources: vec![source], ..Run::default() }.go();
        assert_failed(&outcome, message);
        assert_eq!(outcome.good.lines, fired(40), "{fault:?}");
        assert_eq!(outcome.faulty.lines, fired(40), "{fault:?}");
    }
}

#[test]
fn an_engine_that_fails_names_the_row_and_keeps_the_verdicts_before_it() {
    let outcome =
        Run { sources: vec![rows("events")], engine: Some((57, Fault::Error)), ..Run::default() }.go();
    assert_failed(&outcome, "events: row 57: it overflows");
    assert_eq!(outcome.good.lines, fired(57));
    assert_eq!(outcome.faulty.lines, fired(57));
}

#[test]
fn an_engine_that_fails_names_the_input_when_there_are_several() {
    let sources = vec![rows("first"), rows("second")];
    // Both sources have a row at each second; event 2n + 1 is row n of the second source.
    let outcome = Run { sources, engine: Some((25, Fault::Error)), ..Run::default() }.go();
    assert_failed(&outcome, "second: row 12: it overflows");
    assert_eq!(outcome.good.lines.len(), 25);
}

#[test]
fn an_engine_that_panics_ends_the_run() {
    let outcome =
        Run { sources: vec![rows("events")], engine: Some((57, Fault::Panic)), ..Run::default() }.go();
    assert_failed(&outcome, "the engine stopped working: a bug in the engine");
    assert_eq!(outcome.good.lines, fired(57));
}

#[test]
fn a_sink_that_fails_or_panics_ends_the_run_and_the_other_keeps_what_it_has() {
    for (fault, message) in [
        (Fault::Error, "cannot write faulty: the disk is full"),
        (Fault::Panic, "faulty stopped working: a bug in the sink"),
    ] {
        // A source that blocks for ever must not keep the run from ending.
        let source = Rows { fault: Some((6, Fault::Block)), ..rows("events") };
        let acknowledged = Arc::clone(&source.acknowledged);
        let outcome = Run { sources: vec![source], sink: Some((3, fault)), ..Run::default() }.go();
        assert_failed(&outcome, message);
        assert_eq!(outcome.faulty.lines, fired(30), "{fault:?}");
        let good = outcome.good.lines.len();
        assert!(good >= 40, "{fault:?}: what was handed out before is there: {good}");
        assert_eq!(outcome.good.lines, fired(good), "{fault:?}");
        assert_eq!(*acknowledged.lock().unwrap(), [], "nothing is acknowledged that a sink does not have");
    }
}

#[test]
fn a_reader_that_hangs_up_is_let_go_and_the_other_sink_gets_everything() {
    let outcome =
        Run { sources: vec![rows("events")], sink: Some((2, Fault::HangUp)), ..Run::default() }.go();
    assert!(outcome.report.error.is_none());
    assert_eq!(outcome.report.end, RunEnd::Complete);
    assert_eq!((outcome.faulty.lines, outcome.faulty.end), (fired(20), Some(RunEnd::Stopped)));
    assert_eq!((outcome.good.lines, outcome.good.end), (fired(100), Some(RunEnd::Complete)));
}

#[test]
fn a_run_without_a_reader_ends_quietly() {
    let source = Rows { fault: Some((6, Fault::Block)), ..rows("events") };
    let outcome =
        Run { sources: vec![source], sink: Some((2, Fault::HangUp)), alone: true, ..Run::default() }.go();
    assert!(outcome.report.error.is_none());
    assert_eq!(outcome.report.end, RunEnd::Stopped);
    assert_eq!((outcome.faulty.lines, outcome.faulty.end), (fired(20), Some(RunEnd::Stopped)));
}

#[test]
fn a_sink_is_flushed_when_it_has_all_verdicts_of_its_events() {
    let options = RunOptions { max_verdicts: 3, ..RunOptions::default() };
    // Forty writes of 60 ms, so that more than one flush is due in between.
    let outcome =
        Run { sources: vec![rows("events")], sink: Some((0, Fault::Slow)), options, ..Run::default() }.go();
    assert!(outcome.report.error.is_none());
    assert_eq!(outcome.faulty.lines, fired(100));
    let flushed = &outcome.faulty.flushed;
    assert!(!flushed.is_empty());
    assert!(flushed.iter().all(|lines| lines % ROWS == 0), "{flushed:?}");
}

#[test]
fn rows_that_wait_for_their_turn_are_evaluated_whatever_ends_the_source() {
    for fault in [None, Some(Fault::Error), Some(Fault::Panic), Some(Fault::Lie)] {
        let source = Rows { fault: fault.map(|fault| (4, fault)), ..rows("events") };
        let acknowledged = Arc::clone(&source.acknowledged);
        let options = RunOptions { reorder: Duration::from_secs(1000), ..RunOptions::default() };
        let outcome = Run { sources: vec![source], options, ..Run::default() }.go();
        let expected = if fault.is_some() { 40 } else { 100 };
        assert_eq!(outcome.good.lines, fired(expected), "{fault:?}");
        let last = acknowledged.lock().unwrap().last().map(|position| position.rows);
        assert_eq!(last, Some(expected as u64), "{fault:?}");
    }
}

#[test]
fn events_are_acknowledged_while_the_run_goes_on() {
    for reorder in [Duration::ZERO, Duration::from_secs(15)] {
        let slow = |name| Rows { fault: Some((usize::MAX, Fault::Slow)), ..rows(name) };
        let sources = vec![slow("first"), slow("second")];
        let logs: Vec<_> = sources.iter().map(|source| Arc::clone(&source.acknowledged)).collect();
        let options = RunOptions { reorder, ..RunOptions::default() };
        let outcome = Run { sources, options, ..Run::default() }.go();
        assert!(outcome.report.error.is_none());
        assert_eq!(outcome.good.lines.len(), 200);
        assert!(!outcome.good.flushed.is_empty());
        for log in logs {
            let rows: Vec<u64> = log.lock().unwrap().iter().map(|position| position.rows).collect();
            assert!(rows.len() >= 2, "more than the last word: {rows:?}");
            assert!(rows.is_sorted() && rows[0] > 0, "{rows:?}");
            assert_eq!(rows.last(), Some(&100));
        }
    }
}

#[test]
fn what_comes_after_a_bad_row_is_not_acknowledged() {
    for reorder in [Duration::ZERO, Duration::from_secs(1000)] {
        let source = Rows { rejected: Some(33), ..rows("events") };
        let acknowledged = Arc::clone(&source.acknowledged);
        let options = RunOptions { reorder, ..RunOptions::default() };
        let outcome = Run { sources: vec![source], options, ..Run::default() }.go();
        assert_eq!(outcome.good.lines, fired(33));
        let last = acknowledged.lock().unwrap().last().map(|position| position.rows);
        assert_eq!(last, Some(30), "the batch that was broken off is read again");
    }
}

#[test]
fn a_stop_does_not_judge_what_a_silent_source_might_have_preceded() {
    let silent = Rows { fault: Some((2, Fault::Block)), ..rows("silent") };
    let (options, given) = (RunOptions::default(), Arc::clone(&silent.given));
    let stop = options.stop.clone();
    thread::spawn(move || {
        while given.load(Ordering::SeqCst) < 2 {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(200));
        stop.stop();
    });
    let outcome = Run { sources: vec![silent, rows("events")], options, ..Run::default() }.go();
    assert!(outcome.report.error.is_none());
    // Seconds 0 to 19 of both; the row at 19 of the second source follows the row at 19 of the first.
    let times: Vec<&str> = outcome.good.lines.iter().map(|line| line.split_once('s').unwrap().0).collect();
    assert_eq!(times.iter().filter(|time| time.parse::<u64>().unwrap() > 19).count(), 0, "{times:?}");
    assert!(times.len() >= 39, "{times:?}");
}

#[test]
fn a_report_that_panics_keeps_the_rows_before_it() {
    let panics = BadRowPolicy::Skip(Arc::new(|_, _: &str, _: &RejectedRow| panic!("a bug in the report")));
    let options = RunOptions { bad_rows: panics, ..RunOptions::default() };
    let source = Rows { rejected: Some(33), ..rows("events") };
    let outcome = Run { sources: vec![source], options, ..Run::default() }.go();
    assert_failed(&outcome, "a bug in the report");
    assert_eq!(outcome.good.lines, fired(33));
}

#[test]
fn the_failure_of_one_source_is_reported_while_another_is_silent() {
    let silent = Rows { fault: Some((0, Fault::Block)), ..rows("silent") };
    let broken = Rows { fault: Some((0, Fault::Error)), ..rows("broken") };
    let outcome = Run { sources: vec![silent, broken], ..Run::default() }.go();
    assert_failed(&outcome, "cannot read broken after row 0: the disk is gone");
}

#[test]
fn an_engine_that_gives_up_by_itself_has_failed() {
    let source = Rows { fault: Some((6, Fault::Block)), ..rows("events") };
    let outcome = Run { sources: vec![source], engine: Some((15, Fault::HangUp)), ..Run::default() }.go();
    assert_failed(&outcome, "no further verdict is wanted");
}

#[test]
fn a_stop_evaluates_what_was_read_and_finishes_every_sink() {
    let source = Rows { fault: Some((7, Fault::Block)), ..rows("events") };
    let (options, given) = (RunOptions::default(), Arc::clone(&source.given));
    let stop = options.stop.clone();
    thread::spawn(move || {
        while given.load(Ordering::SeqCst) < 7 {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(50));
        stop.stop();
    });
    let outcome = Run { sources: vec![source], options, ..Run::default() }.go();
    assert!(outcome.report.error.is_none());
    assert_eq!(outcome.report.end, RunEnd::Stopped);
    assert_eq!(outcome.good.lines, fired(70));
    assert_eq!(outcome.good.end, Some(RunEnd::Stopped));
}

#[test]
fn a_slow_sink_keeps_few_batches_in_flight() {
    for capacity in [1, 3] {
        let source = rows("events");
        let given = Arc::clone(&source.given);
        let options = RunOptions { capacity: NonZeroUsize::new(capacity).unwrap(), ..RunOptions::default() };
        let sources: Vec<Box<dyn Source>> = vec![Box::new(source)];
        let columns = Columns::bind(&[WantedColumn::new("a", DataType::Int64)], &sources).unwrap();
        let written = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        let sink = Watching {
            inner: Faulty {
                collect: Collect::new(Selection::Triggers),
                fault: Some((0, Fault::Slow)),
                written: Arc::clone(&written),
            },
            given,
            most: Arc::clone(&most),
        };
        let report = Pipeline {
            sources,
            columns,
            engine: Box::new(|_| {
                Ok(Box::new(Fire { streams: vec!["trigger_0".to_owned()], fault: None, seen: 0 }) as _)
            }),
            sinks: vec![Box::new(sink)],
            options,
        }
        .run();
        assert!(report.error.is_none());
        assert_eq!(written.load(Ordering::SeqCst), BATCHES);
        // Batches in flight: one being read, a full channel, one being evaluated, a full channel (each batch is
        // followed by a progress message), one being written.
        let bound = 1 + capacity + 1 + capacity.div_ceil(2) + 1;
        let most = most.load(Ordering::SeqCst);
        assert!(most <= bound, "{most} batches in flight with capacity {capacity}; at most {bound} may be");
        assert!(most >= 2, "the source runs ahead of the sink");
    }
}

/// Counts the batches that have been read and not yet written.
struct Watching {
    inner: Faulty,
    given: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Sink for Watching {
    fn name(&self) -> &str {
        "watching"
    }

    fn wants(&self) -> Selection {
        self.inner.wants()
    }

    fn write(&mut self, batch: &VerdictBatch) -> Result<(), SinkError> {
        let written = self.inner.written.load(Ordering::SeqCst);
        self.inner.write(batch)?;
        self.most.fetch_max(self.given.load(Ordering::SeqCst) - written, Ordering::SeqCst);
        Ok(())
    }

    fn flush(&mut self) -> Result<Option<Position>, SinkError> {
        self.inner.flush()
    }

    fn finish(self: Box<Self>, end: &RunEnd) -> Result<(), SinkError> {
        Box::new(self.inner).finish(end)
    }
}

#[test]
fn a_bad_row_stops_the_run_there_or_is_reported_and_left_out() {
    let source = || Rows { rejected: Some(33), ..rows("events") };
    let outcome = Run { sources: vec![source()], ..Run::default() }.go();
    assert_failed(&outcome, "events: row 33, column `a`: odd");
    assert_eq!(outcome.good.lines, fired(33));
    assert_eq!(outcome.report.counts.rejected, 1);

    let reported = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&reported);
    let skip = BadRowPolicy::Skip(Arc::new(move |_, name: &str, bad: &RejectedRow| {
        log.lock().unwrap().push(format!("{name}: {bad}"));
        Ok(())
    }));
    let options = RunOptions { bad_rows: skip, ..RunOptions::default() };
    let outcome = Run { sources: vec![source()], options, ..Run::default() }.go();
    assert!(outcome.report.error.is_none());
    assert_eq!(*reported.lock().unwrap(), ["events: row 33, column `a`: odd"]);
    assert_eq!((outcome.report.counts.rejected, outcome.report.counts.read), (1, 100));
    assert_eq!(outcome.good.lines.len(), 99);

    let full = BadRowPolicy::Skip(Arc::new(|_, _: &str, _: &RejectedRow| Err("the disk is full".into())));
    let options = RunOptions { bad_rows: full, ..RunOptions::default() };
    let outcome = Run { sources: vec![source()], options, ..Run::default() }.go();
    assert_failed(&outcome, "cannot report a bad row of events: the disk is full");
    assert_eq!(outcome.good.lines, fired(33));
}
