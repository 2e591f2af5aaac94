//! The compiled engine: a specification becomes a plan, and an event costs what it changes.
//!
//! `compile` turns the typed representation of a specification into a [`plan`]: programs for its
//! expressions ([`code`]), and for each stream the way to the instances that an event concerns.
//! [`instant`] does what an event or a deadline leads to, on [`state`]: instances come and go ([`life`]),
//! get values ([`evaluate`]), and whoever reads a value that has changed is marked ([`mark_dependents`]). `clock`
//! finds the next deadline; `verdicts` tells what happened.
//!
//! What the files rely on of each other:
//!
//! - A slot is used again only after the instant of its close; a slot and its `generation` are one instance.
//! - An instance never changes its parameters, and with them its group in a tally and its place in an index.
//! - What is absent is all zeros where it is compared. No word that is a float is NaN.
//! - Between instants only inputs and streams without instances have a meaning in the frame.
//! - After an error the state is in the middle of an instant: nothing but `restore` may follow.

mod exec;
mod explain;
mod ir;
#[cfg_attr(not(all(target_arch = "x86_64", unix)), path = "jit/disabled.rs")]
mod jit;
mod lower;
mod snapshot;
mod store;

use fairstream_core::{
    Engine, EngineError, EventBatch, Kind, SnapshotError, Subscription, Time, VerdictSink, WantedColumn,
};

pub use self::explain::Explanation;
use crate::Specification;
use crate::compiled::exec::instant::{Evaluator, Failed, Stop};
use crate::compiled::ir::plan::StreamPlan;
pub use crate::compiled::store::huge_vec::mapped_bytes;
use crate::lifecycle::Lifecycle;
use crate::specification::with_deep_stack;
use crate::timeline::{Timeline, check_columns};

/// Evaluates a specification at a cost for each event that does not grow with the instances seen.
///
/// Verdicts of one instant come in the order of the streams in the specification; of one stream,
/// spawned instances first, then values, then closed instances, each in order of spawn.
pub struct CompiledEngine {
    evaluator: Evaluator,
    wanted: Vec<WantedColumn>,
    names: Vec<String>,
    /// Of the plan.
    fingerprint: u64,
    timeline: Timeline,
    lifecycle: Lifecycle,
    /// Whether handlers for likely events are compiled before the first event.
    precompiles: bool,
}

impl CompiledEngine {
    /// An engine whose clock starts at `start`.
    ///
    /// # Errors
    /// The specification has something that this engine cannot evaluate; the error names it.
    pub fn new(spec: &Specification, start: Time) -> Result<CompiledEngine, EngineError> {
        let plan = lower::compile(spec).map_err(|refused| {
            let way_out = "; `--engine reference` may be able to";
            EngineError::Build(format!("the compiled engine cannot evaluate {refused}{way_out}"))
        })?;
        Ok(CompiledEngine {
            fingerprint: snapshot::fingerprint(&plan),
            names: plan.streams.iter().map(|stream| stream.name.clone()).collect(),
            evaluator: Evaluator::new(plan),
            wanted: spec.wanted().to_vec(),
            timeline: Timeline::new(start),
            lifecycle: Lifecycle::default(),
            precompiles: true,
        })
    }

    /// Compiles no handler before the first event. Verdicts are the same; tests want to see both.
    #[must_use]
    pub fn without_precompiling(mut self) -> CompiledEngine {
        self.precompiles = false;
        self
    }

    /// Lets events get machine code once so many with the same inputs have come; never, if that is 0. Verdicts are
    /// the same: short runs are not worth it, and tests want it at once.
    #[must_use]
    pub fn compile_after(mut self, events: u32) -> CompiledEngine {
        self.evaluator.compile_after = events;
        self
    }

    /// Whether an engine can be built for a specification.
    ///
    /// # Errors
    /// Why not.
    pub fn check(spec: &Specification) -> Result<(), EngineError> {
        with_deep_stack(|| CompiledEngine::new(spec, Time(0)).map(|_| ())).map_err(EngineError::Build)?
    }

    /// Specialises the plan and the state for a subscription.
    fn select(&mut self, subscription: &Subscription) -> Result<(), String> {
        // Ticks that were skipped count, too, where a count is kept from now on.
        self.evaluator.state.now = self.timeline.since_start(self.timeline.evaluated).saturating_add(1);
        let kind = |stream: &StreamPlan| if stream.is_trigger { Kind::Trigger } else { Kind::Value };
        let wanted = |index: usize, stream: &StreamPlan| subscription.wants(kind(stream), index);
        let repeated = |index: usize| subscription.wants_repeats(index);
        self.evaluator.tell(wanted, repeated).map_err(|failed| self.reason(&failed))?;
        let lifecycle = |index: usize| subscription.wants(Kind::Spawn, index);
        self.evaluator.tells_lifecycle = (0..self.names.len()).map(lifecycle).collect();
        self.evaluator.enable_counters();
        // Selector is told may make ticks worth evaluating that were not.
        self.evaluator.idle_until = 0;
        if self.precompiles {
            self.evaluator.prepare();
        }
        Ok(())
    }

    /// Evaluates the rows of a batch, each after what is due before it.
    fn rows(&mut self, events: &EventBatch, out: &mut dyn VerdictSink) -> Result<(), EngineError> {
        let mut row = 0;
        while row < events.len() {
            let done = self.evaluator.run_compiled_rows(&mut row, &events.times, &mut self.timeline, out);
            done.map_err(|stop| self.stopped(stop, row))?;
            if row < events.len() {
                self.without_machine_code(&mut row, events, out)?;
            }
        }
        Ok(())
    }

    fn stopped(&self, stop: Stop, row: usize) -> EngineError {
        match stop {
            Stop::Row(failed) => self.bad_row(row, &failed),
            Stop::Deadline(failed) => self.bad_deadline(self.evaluator.state.now, Some(row), &failed),
            Stop::Cancelled(cancelled) => cancelled.into(),
        }
    }

    /// Evaluates what is due before a row, and the row, unless it has machine code.
    fn without_machine_code(
        &mut self,
        row: &mut usize,
        events: &EventBatch,
        out: &mut dyn VerdictSink,
    ) -> Result<(), EngineError> {
        let time = events.time(*row);
        self.run_clock_before(*row, time, out)?;
        let evaluator = &mut self.evaluator;
        let now = self.timeline.since_start(time);
        let can_react = self.timeline.is_in_order(time.0) && now <= evaluator.idle_until;
        if can_react && evaluator.entry(evaluator.batch.present[*row]).is_some() {
            return Ok(());
        }
        evaluator.start_instant(now);
        evaluator.invalidate_idle();
        evaluator.event(*row).map_err(|failed| self.bad_row(*row, &failed))?;
        *row += 1;
        self.end_row(*row - 1, time, out)
    }

    /// Evaluates what is due before a row, and sees to it that the row can be evaluated.
    fn run_clock_before(
        &mut self,
        row: usize,
        time: Time,
        out: &mut dyn VerdictSink,
    ) -> Result<(), EngineError> {
        let bad = |column: Option<String>, reason: String| EngineError::Event { index: row, column, reason };
        let before = self.timeline.before(time).map_err(|reason| bad(None, reason))?;
        self.run_clock(before, Some(row), out)?;
        match self.evaluator.batch.bad_at(row) {
            Some((input, reason)) => Err(bad(Some(self.wanted[input].name.clone()), reason.to_owned())),
            None => Ok(()),
        }
    }

    /// Tells of a row, if there is something to tell.
    fn end_row(&mut self, index: usize, time: Time, out: &mut dyn VerdictSink) -> Result<(), EngineError> {
        self.evaluator.conclude(time, out)?.map_err(|failed| self.bad_row(index, &failed))
    }

    fn bad_row(&self, index: usize, failed: &Failed) -> EngineError {
        EngineError::Event { index, column: None, reason: self.reason(failed) }
    }

    /// Evaluates everything that is due up to and at `time`. `event` is the row that waits for it.
    fn run_clock(
        &mut self,
        time: Time,
        event: Option<usize>,
        out: &mut dyn VerdictSink,
    ) -> Result<(), EngineError> {
        let until = self.timeline.since_start(time);
        let mut done = self.timeline.since_start(self.timeline.evaluated);
        while self.evaluator.idle_until <= until {
            let result = self.evaluator.run_next_deadline(done, until);
            if matches!(result, Ok(false)) {
                break;
            }
            done = self.evaluator.state.now;
            self.end_deadline(result.map(|_| ()), done, event, out)?;
        }
        self.timeline.reach(time);
        Ok(())
    }

    /// Tells of what was due at a time, if there is something to tell.
    fn end_deadline(
        &mut self,
        result: Result<(), Box<Failed>>,
        due: u64,
        event: Option<usize>,
        out: &mut dyn VerdictSink,
    ) -> Result<(), EngineError> {
        let time = self.timeline.at(due);
        let ended = match result {
            Ok(()) => self.evaluator.conclude(time, out)?,
            Err(failed) => Err(failed),
        };
        ended.map_err(|failed| self.bad_deadline(due, event, &failed))?;
        self.timeline.reach(time);
        self.evaluator.collect_strings();
        out.check()?;
        Ok(())
    }

    fn bad_deadline(&self, due: u64, before: Option<usize>, failed: &Failed) -> EngineError {
        EngineError::Deadline { time: self.timeline.at(due), before, reason: self.reason(failed) }
    }

    fn reason(&self, failed: &Failed) -> String {
        let Failed { stream, failure, window } = *failed;
        let plan = &self.evaluator.plan;
        let stream = plan.streams.get(stream).map_or("", |stream| stream.name.as_str());
        let origin = plan.programs.get(failure.program).map_or("", |program| program.origin(failure.at));
        let origin = window.map_or(origin, |window| plan.windows[window].text.as_str());
        let fault = failure.fault;
        if origin.is_empty() {
            format!("in `{stream}`, {fault}")
        } else {
            format!("in `{stream}`, `{origin}`: {fault}")
        }
    }
}

impl Engine for CompiledEngine {
    fn streams(&self) -> &[String] {
        &self.names
    }

    fn prepare(&mut self, subscription: &Subscription) -> Result<(), EngineError> {
        self.lifecycle.prepare(subscription)?;
        self.select(subscription).map_err(EngineError::Build)
    }

    fn feed(&mut self, events: &EventBatch, out: &mut dyn VerdictSink) -> Result<(), EngineError> {
        self.lifecycle.begin()?;
        check_columns(events, &self.wanted)?;
        let Evaluator { batch, state, .. } = &mut self.evaluator;
        batch.decode(events.rows.columns(), events.len(), &mut state.interner);
        self.evaluator.places.inputs_moved = true;
        let done = self.rows(events, out);
        self.evaluator.batch.clear();
        done?;
        self.evaluator.collect_strings();
        self.lifecycle.succeed();
        Ok(())
    }

    fn advance(&mut self, time: Time, out: &mut dyn VerdictSink) -> Result<(), EngineError> {
        self.lifecycle.begin()?;
        self.run_clock(time, None, out)?;
        self.lifecycle.succeed();
        Ok(())
    }

    fn snapshot(&self) -> Result<Vec<u8>, SnapshotError> {
        self.save()
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), SnapshotError> {
        self.load(snapshot)?;
        self.lifecycle.succeed();
        match self.lifecycle.subscription().cloned() {
            Some(subscription) => self.select(&subscription).map_err(SnapshotError::Damaged),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use arrow::datatypes::{Field, Schema};
    use fairstream_core::{Cancelled, Position, Selection, VerdictRef};

    use super::*;

    const DAY: i64 = 86_400_000_000_000;

    /// Discards verdicts.
    struct Discard;

    impl VerdictSink for Discard {
        fn emit(&mut self, _: &VerdictRef<'_>) -> Result<(), Cancelled> {
            Ok(())
        }
    }

    fn engine(name: &str) -> (Specification, CompiledEngine) {
        let path = format!("{}/../../specs/rtlola/{name}.lola", env!("CARGO_MANIFEST_DIR"));
        let spec = Specification::parse(name, &std::fs::read_to_string(path).unwrap()).unwrap();
        let engine = CompiledEngine::new(&spec, Time(0)).unwrap();
        (spec, engine)
    }

    /// So many screenings, a minute apart.
    fn screenings(spec: &Specification, people: i64) -> EventBatch {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter_values((0..people).map(|_| "SCREEN"))),
            Arc::new(Int64Array::from_iter_values(0..people)),
            Arc::new(StringArray::from_iter_values((0..people).map(|id| ["A", "B"][id as usize % 2]))),
            Arc::new(Int64Array::from_iter_values((0..people).map(|id| id % 10))),
        ];
        let field = |wanted: &WantedColumn| Field::new(&wanted.name, wanted.data_type.clone(), true);
        let schema = Arc::new(Schema::new(spec.wanted().iter().map(field).collect::<Vec<_>>()));
        let times: Vec<i64> = (1..=people).map(|minute| minute * 60_000_000_000).collect();
        let numbers: Vec<u64> = (0..people as u64).collect();
        EventBatch::new(RecordBatch::try_new(schema, columns).unwrap(), times, numbers, Position::default())
    }

    /// Two years of daily ticks over open trials cost what the trials do, not what the days are.
    #[test]
    fn ticks_cost_what_changes() {
        for name in ["compas", "compas_deadline"] {
            let (spec, mut engine) = engine(name);
            engine.prepare(&Subscription::new(Selection::Triggers)).unwrap();
            const PEOPLE: i64 = 2000;
            engine.feed(&screenings(&spec, PEOPLE), &mut Discard).unwrap();
            let begun = engine.evaluator.evaluations;
            engine.advance(Time(728 * DAY), &mut Discard).unwrap();
            let waiting = engine.evaluator.evaluations - begun;
            assert!(waiting < 20_000, "{name}: {waiting} evaluations while nothing happens");
            engine.advance(Time(735 * DAY), &mut Discard).unwrap();
            let counted = engine.evaluator.evaluations - begun - waiting;
            let open: usize =
                engine.evaluator.state.families.iter().map(|family| family.instances.len()).sum();
            assert!(open < 10, "{name}: {open} instances are left");
            assert!(counted < 20 * PEOPLE as u64, "{name}: {counted} evaluations of {PEOPLE} trials");
        }
    }

    /// It is not seen from outside whether there is machine code: verdicts are the same.
    #[test]
    #[cfg(all(target_arch = "x86_64", unix))]
    fn events_that_come_often_get_machine_code() {
        for (after, expected) in [(0, false), (10, true), (3000, false)] {
            let (spec, engine) = engine("compas_deadline");
            let mut engine = engine.compile_after(after).without_precompiling();
            engine.prepare(&Subscription::new(Selection::Triggers)).unwrap();
            engine.feed(&screenings(&spec, 2000), &mut Discard).unwrap();
            assert_eq!(engine.evaluator.has_handlers(), expected, "after {after}");
        }
    }

    /// A century of milliseconds in which nothing can change is no work.
    #[test]
    fn gaps_cost_what_can_change_in_them() {
        let text = "input a : Int64\noutput held @1kHz := a.hold(or: 0)\ntrigger held > 3 \"high\"\n\
            output recent @1kHz := a.aggregate(over: 1s, using: sum)\ntrigger recent > 3 \"many\"";
        let spec = Specification::parse("held", text).unwrap();
        let mut engine = CompiledEngine::new(&spec, Time(0)).unwrap();
        engine.prepare(&Subscription::new(Selection::Triggers)).unwrap();
        engine.advance(Time(36_500 * DAY), &mut Discard).unwrap();
        assert!(engine.evaluator.state.instant < 10);
    }

    #[test]
    fn what_does_not_fit_into_a_frame_is_refused() {
        let refused = |widest: u32, copies: u32| {
            // Each tuple is twice as wide as the one before.
            let tuples = (1..=widest).map(|at| format!("output t{at} := (t{0}, t{0})\n", at - 1));
            let copies = (0..copies).map(|at| format!("output c{at} := t{widest}\n"));
            let text = "input t0 : Int64\n".to_owned() + &tuples.chain(copies).collect::<String>();
            let spec = Specification::parse("wide", &text).unwrap();
            CompiledEngine::check(&spec).unwrap_err().to_string()
        };
        assert!(refused(11, 0).contains("a tuple of more than 1,024 values"), "{}", refused(11, 0));
        assert!(refused(10, 64).contains("more than 65,536 parts"), "{}", refused(10, 64));
    }

    #[test]
    fn a_snapshot_is_refused_where_it_does_not_belong() {
        let (spec, mut one) = engine("compas_deadline");
        one.prepare(&Subscription::new(Selection::Triggers)).unwrap();
        one.feed(&screenings(&spec, 50), &mut Discard).unwrap();
        let snapshot = one.snapshot().unwrap();
        let (_, mut other) = engine("hiring");
        assert_eq!(other.restore(&snapshot), Err(SnapshotError::OtherSpecification));
        assert_eq!(other.restore(b"something else"), Err(SnapshotError::NotASnapshot));
        let (_, mut same) = engine("compas_deadline");
        for end in 0..snapshot.len() {
            assert!(same.restore(&snapshot[..end]).is_err(), "cut at {end}");
        }
        for at in 0..snapshot.len() {
            let mut changed = snapshot.clone();
            changed[at] ^= 0x40;
            assert!(same.restore(&changed).is_err(), "changed at {at}");
        }
        let mut newer = snapshot.clone();
        newer[8] = 99;
        assert_eq!(same.restore(&newer), Err(SnapshotError::Version { found: 99, known: snapshot::VERSION }));
        same.restore(&snapshot).unwrap();
        assert_eq!(same.snapshot().unwrap().len(), snapshot.len());
    }
}
