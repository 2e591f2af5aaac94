//! Time that passes by itself: deadlines without events, silent inputs, watermarks. The clock is injected and looked at when
//! the test says so, so nothing here depends on how fast the machine is.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use crossbeam_channel::{Receiver, Sender, bounded};
use fairstream_core::{
    BadRowPolicy, ClockMode, Counters, EventBatch, Position, RejectedRow, RunOptions, RunReport, Selection,
    Source, SourceError, StopToken, Time, TimeOptions, WallClock,
};
use fairstream_engine::Specification;

use crate::support::{Collect, run};

const SECOND: i64 = 1_000_000_000;
/// When the tests begin, in seconds since 1970.
const START: i64 = 1_700_000_000;

/// A clock that stands still between ticks. A tick has been taken when it has been sent, as the channel has no room.
struct TestClock {
    now: Mutex<i64>,
    ticks: Receiver<Instant>,
}

impl WallClock for TestClock {
    fn now(&self) -> Time {
        Time((START + *self.now.lock().unwrap()) * SECOND)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs(1_000_000 + self.now.lock().unwrap().unsigned_abs())
    }

    fn ticks(&self) -> Receiver<Instant> {
        self.ticks.clone()
    }
}

/// A live source that gives what the test hands it.
struct Handed {
    name: &'static str,
    column: &'static str,
    /// Sent whenever a batch is asked for.
    asks: Sender<()>,
    batches: Receiver<Option<EventBatch>>,
}

impl Source for Handed {
    fn name(&self) -> &str {
        self.name
    }

    fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new(self.column, DataType::Int64, true)]))
    }

    fn is_live(&self) -> bool {
        true
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>, SourceError> {
        let _ = self.asks.send(());
        Ok(self.batches.recv().ok().flatten())
    }
}

/// The hand that feeds a source.
struct Hand {
    column: &'static str,
    asked: Receiver<()>,
    batches: Sender<Option<EventBatch>>,
    rows: u64,
}

fn source(column: &'static str) -> (Hand, Box<dyn Source>) {
    let (asks, asked) = bounded(0);
    let (to, batches) = bounded(1);
    let hand = Hand { column, asked, batches: to, rows: 0 };
    (hand, Box::new(Handed { name: column, column, asks, batches }))
}

impl Hand {
    /// Gives rows at these seconds after the start. When this returns, they have been sent to the merge.
    fn give(&mut self, seconds: &[i64]) {
        self.give_with(seconds, None);
    }

    fn give_with(&mut self, seconds: &[i64], watermark: Option<i64>) {
        let schema = Schema::new(vec![Field::new(self.column, DataType::Int64, true)]);
        let values = Int64Array::from(seconds.to_vec());
        let rows = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(values)]).unwrap();
        let times: Vec<i64> = seconds.iter().map(|second| (START + second) * SECOND).collect();
        let numbers: Vec<u64> = (1..=seconds.len() as u64).map(|row| self.rows + row).collect();
        self.rows += seconds.len() as u64;
        let end = Position { rows: self.rows, ..Position::default() };
        let mut events = EventBatch::new(rows, times, numbers, end);
        events.watermark = watermark.map(|second| Time((START + second) * SECOND));
        self.batches.send(Some(events)).unwrap();
        self.asked.recv().unwrap();
    }
}

/// A run that goes on while the test changes the clock and hands out events.
struct Stage {
    clock: Arc<TestClock>,
    ticks: Sender<Instant>,
    counters: Arc<Counters>,
    late: Arc<Mutex<Vec<String>>>,
    collect: Collect,
    running: thread::JoinHandle<RunReport>,
}

fn stage(spec: &str, sources: Vec<(Hand, Box<dyn Source>)>, mode: ClockMode) -> (Stage, Vec<Hand>) {
    stage_with(spec, sources, mode, Duration::ZERO)
}

fn stage_with(
    spec: &str,
    sources: Vec<(Hand, Box<dyn Source>)>,
    mode: ClockMode,
    reorder: Duration,
) -> (Stage, Vec<Hand>) {
    let (ticks, ticked) = bounded(0);
    let clock = Arc::new(TestClock { now: Mutex::new(0), ticks: ticked });
    let late = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&late);
    let counters: Arc<Counters> = Arc::default();
    let report = move |_, source: &str, bad: &RejectedRow| {
        log.lock().unwrap().push(format!("{source}: {bad}"));
        Ok(())
    };
    let options = RunOptions {
        counters: Arc::clone(&counters),
        reorder,
        stop: StopToken::default(),
        bad_rows: BadRowPolicy::Skip(Arc::new(report)),
        times: TimeOptions {
            mode,
            lateness: Duration::from_secs(1),
            idle: Duration::from_secs(30),
            clock: Arc::clone(&clock) as Arc<dyn WallClock>,
        },
        ..RunOptions::default()
    };
    let spec = Specification::parse("spec", spec).unwrap();
    let collect = Collect::new(Selection::Changes);
    let sink = collect.clone();
    let (hands, sources): (Vec<Hand>, Vec<Box<dyn Source>>) = sources.into_iter().unzip();
    let running = thread::spawn(move || run(&spec, sources, vec![Box::new(sink)], options));
    hands.iter().for_each(|hand| hand.asked.recv().unwrap());
    (Stage { clock, ticks, counters, late, collect, running }, hands)
}

impl Stage {
    /// The clock moves to this second, and is looked at. What follows from it has been evaluated when this returns.
    fn pass(&self, second: i64) {
        *self.clock.now.lock().unwrap() = second;
        // The second is taken once the first has been dealt with.
        self.ticks.send(Instant::now()).unwrap();
        self.ticks.send(Instant::now()).unwrap();
    }

    fn end(self, hands: Vec<Hand>) -> (Vec<String>, Vec<String>) {
        for hand in hands {
            hand.batches.send(None).unwrap();
        }
        // Nothing is left that could take a tick.
        drop(self.ticks);
        let report = self.running.join().unwrap();
        assert!(report.error.is_none(), "{:?}", report.error);
        (self.collect.lines(), self.late.lock().unwrap().clone())
    }
}

const SILENCE: &str = "input gps : Int64
output heard @1Hz := gps.aggregate(over: 3s, using: count)
trigger @1Hz heard.hold(or: 1) = 0 \"no GPS for 3 s\"";

#[test]
fn a_deadline_fires_without_an_event_and_a_replay_gives_the_same() {
    for mode in [ClockMode::Wall, ClockMode::Auto] {
        let (stage, mut hands) = stage(SILENCE, vec![source("gps")], mode);
        stage.pass(1);
        hands[0].give(&[0, 1]);
        stage.pass(2);
        assert_eq!(stage.counters.now().triggers, 0);
        // The lateness is a second, so seconds 4 and later are not decided before second 5.
        stage.pass(4);
        assert_eq!(stage.counters.now().triggers, 0);
        stage.pass(7);
        assert!(stage.counters.now().triggers > 0, "{mode:?}: {:?}", stage.counters.now());
        // In time for its source, but the clock has passed it.
        hands[0].give(&[3]);
        hands[0].give(&[6, 7]);
        stage.pass(8);
        let (lines, late) = stage.end(hands);
        assert_eq!(late.len(), 1, "{late:?}");
        assert!(late[0].contains("the clock of the machine has passed"), "{late:?}");

        let (replay, mut hands) = self::stage(SILENCE, vec![source("gps")], ClockMode::Events);
        hands[0].give(&[0, 1, 6, 7]);
        let (replayed, _) = replay.end(hands);
        assert!(lines.iter().any(|line| line.contains("no GPS")), "{lines:?}");
        assert_eq!(lines, replayed, "{mode:?}");
    }
}

/// Rows that wait to be put in order came in time, so the clock does not pass them.
#[test]
fn rows_that_wait_to_be_put_in_order_are_not_overtaken_by_the_clock() {
    let of_source = vec![source("gps")];
    let (stage, mut hands) = stage_with(SILENCE, of_source, ClockMode::Wall, Duration::from_secs(2));
    stage.pass(3);
    hands[0].give(&[1, 3, 2]);
    // So that these have been received by then.
    stage.pass(3);
    stage.pass(20);
    assert_eq!((stage.counters.now().evaluated, stage.counters.now().triggers), (1, 0));
    // The source is asked again, as it is about once a second.
    hands[0].give(&[]);
    stage.pass(20);
    stage.pass(20);
    assert_eq!(stage.counters.now().evaluated, 3);
    // A second without rows: there is no backlog.
    stage.pass(22);
    assert!(stage.counters.now().triggers > 0);
    hands[0].give(&[30, 32, 31]);
    stage.pass(32);
    let (_, late) = stage.end(hands);
    assert!(late.is_empty(), "{late:?}");
}

/// What was written while nothing ran is read before the clock decides.
#[test]
fn a_backlog_is_not_overtaken_by_the_clock() {
    let (stage, mut hands) = stage(SILENCE, vec![source("gps")], ClockMode::Wall);
    stage.pass(1000);
    hands[0].give(&[0, 1]);
    stage.pass(1000);
    hands[0].give(&[2, 3]);
    stage.pass(1000);
    assert_eq!((stage.counters.now().evaluated, stage.counters.now().triggers), (4, 0));
    stage.pass(1001);
    stage.pass(1002);
    assert!(stage.counters.now().triggers > 900);
    let (_, late) = stage.end(hands);
    assert!(late.is_empty(), "{late:?}");
}

#[test]
fn events_of_the_past_from_a_pipe_are_not_overtaken_by_the_clock() {
    let (stage, mut hands) = stage(SILENCE, vec![source("gps")], ClockMode::Auto);
    // An archive: a day behind the clock.
    hands[0].give(&[-86_400, -86_399]);
    stage.pass(10);
    stage.pass(20);
    assert_eq!(stage.counters.now().triggers, 0);
    hands[0].give(&[-86_398]);
    let (_, late) = stage.end(hands);
    assert!(late.is_empty(), "{late:?}");
}

const TWO: &str = "input a : Int64\ninput b : Int64\noutput of_a := a\noutput of_b := b";

#[test]
fn a_silent_input_is_not_waited_for_for_ever() {
    let (stage, mut hands) = stage(TWO, vec![source("a"), source("b")], ClockMode::Events);
    hands[0].give(&[1, 2]);
    hands[1].give(&[1]);
    hands[0].give(&[3, 5]);
    // So that these have been received by then.
    stage.pass(0);
    stage.pass(20);
    // `b` might still have an event of second 2.
    assert_eq!(stage.counters.now().evaluated, 2);
    stage.pass(29);
    assert_eq!(stage.counters.now().evaluated, 2);
    stage.pass(31);
    assert_eq!(stage.counters.now().evaluated, 5);
    // It speaks again: too late for what has been evaluated, in time after it.
    hands[1].give(&[4, 5, 6]);
    stage.pass(32);
    hands[0].give(&[7]);
    let (lines, late) = stage.end(hands);
    assert_eq!(late.len(), 1, "{late:?}");
    assert!(late[0].starts_with("b: row 2: its time") && late[0].contains("--idle"), "{late:?}");
    let of_b: Vec<&String> = lines.iter().filter(|line| line.contains("of_b")).collect();
    assert_eq!(of_b.len(), 3, "{of_b:?}");
}

#[test]
fn a_watermark_says_that_nothing_earlier_comes() {
    let (stage, mut hands) = stage(TWO, vec![source("a"), source("b")], ClockMode::Events);
    hands[0].give(&[1, 4, 9]);
    hands[1].give_with(&[1], Some(5));
    stage.pass(1);
    // Seconds 1, 1 and 4 are complete.
    assert_eq!(stage.counters.now().evaluated, 3);
    hands[1].give_with(&[], Some(9));
    stage.pass(2);
    // At equal times `a` comes first, so its event of second 9 need not wait.
    assert_eq!(stage.counters.now().evaluated, 4);
    // What is before the watermark that the source itself has given is late.
    hands[1].give(&[8]);
    let (_, late) = stage.end(hands);
    assert_eq!(late.len(), 1, "{late:?}");
}
