//! The compiled engine: a specification becomes a plan, and an event costs what it changes.
//!
//! [`lower`] turns the frontend's typed representation of a specification into a plan ([`ir`]): bytecode for its
//! expressions, and for each stream the access path to the instances that an event concerns. [`exec`] runs the steps of
//! an instant on the [`store`]: instances are spawned, evaluated and closed, and what reads a changed value is marked
//! dirty. [`jit`] compiles the steps of frequent instants to machine code.
//!
//! Imports go one way: `ir ← lower` and `ir ← store ← exec ← jit`; this module puts them together.
//!
//! What the folders rely on of each other:
//!
//! - A slot is reused only after the instant of its close; a slot and its generation identify an instance.
//! - An instance never changes its parameters, so neither its groups nor its index entries.
//! - A value that is absent is all zeros where it is compared. No word that is a float is NaN.
//! - Between instants only inputs and streams without instances have a meaning in the frame.
//! - After an error the store is in the middle of an instant: only another store may take its place.

mod exec;
mod explain;
mod ir;
#[cfg_attr(not(all(target_arch = "x86_64", unix)), path = "jit/disabled.rs")]
mod jit;
mod lower;
mod state;
mod store;

use std::sync::Arc;

use fairstream_core::{
    CapturedState, Engine, EngineError, EventBatch, OnChange, StateChange, StateError, StateReader,
    Subscription, Time, VerdictSink, WantedColumn,
};

use self::exec::dispatch::{Dispatch, Interruption};
use self::exec::error::{EvalError, Location};
use self::exec::executor::Executor;
pub use self::explain::Explanation;
use self::ir::plan::Plan;
use self::jit::Jit;
pub use self::store::huge_vec::mapped_bytes;
use crate::Specification;
use crate::definition::Definitions;
use crate::lifecycle::Lifecycle;
use crate::specification::with_deep_stack;
use crate::timeline::{Timeline, check_columns};

/// Evaluates a specification at a cost for each event that does not grow with the instances seen.
///
/// Verdicts of one instant come in the order of the streams in the specification; of one stream,
/// spawned instances first, then values, then closed instances, each in order of spawn.
pub struct CompiledEngine {
    plan: Plan,
    executor: Executor,
    dispatch: Dispatch<Jit>,
    wanted: Vec<WantedColumn>,
    /// The names of the streams.
    names: Vec<String>,
    /// What the streams are, by which state is told to belong to this specification.
    definitions: Arc<Definitions>,
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
        let plan = lower::compile(spec).map_err(|unsupported| {
            let way_out = "; `--engine reference` may be able to";
            EngineError::Build(format!("the compiled engine cannot evaluate {unsupported}{way_out}"))
        })?;
        Ok(CompiledEngine {
            definitions: Arc::new(Definitions::of(spec.mir())),
            names: plan.streams.iter().map(|stream| stream.name.clone()).collect(),
            executor: Executor::new(plan.clone()),
            plan,
            dispatch: Dispatch::new(),
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

    /// Compiles a handler for an event shape after this many events of it; never, if that is 0. Verdicts are the same:
    /// short runs are not worth it, and tests want it at once.
    #[must_use]
    pub fn compile_after(mut self, events: u32) -> CompiledEngine {
        self.dispatch.set_compile_after(events);
        self
    }

    /// Whether an engine can be built for a specification.
    ///
    /// # Errors
    /// Why not.
    pub fn check(spec: &Specification) -> Result<(), EngineError> {
        with_deep_stack(|| CompiledEngine::new(spec, Time(0)).map(|_| ())).map_err(EngineError::Build)?
    }

    /// Specialises plan and store for a subscription. Drops all handlers, which were compiled for the plan before.
    fn specialise(&mut self, subscription: &Subscription) -> Result<(), String> {
        self.dispatch.drop_handlers();
        let now = self.timeline.since_start(self.timeline.evaluated).saturating_add(1);
        if let Err(error) = self.executor.subscribe(self.plan.clone(), subscription, now) {
            self.lifecycle.fail();
            return Err(self.reason(&error));
        }
        if self.precompiles {
            self.dispatch.precompile(&self.executor);
            self.executor.prefault();
        }
        Ok(())
    }

    /// Evaluates the rows of a batch, each after what is due before it.
    fn rows(&mut self, events: &EventBatch, out: &mut dyn VerdictSink) -> Result<(), EngineError> {
        let mut row = 0;
        while row < events.len() {
            let CompiledEngine { executor, dispatch, timeline, .. } = self;
            let done = dispatch.run_rows(executor, &mut row, &events.times, timeline, out);
            done.map_err(|interruption| self.interrupted(interruption, row))?;
            if row < events.len() {
                self.interpret_row(&mut row, events, out)?;
            }
        }
        Ok(())
    }

    fn interrupted(&self, interruption: Interruption, row: usize) -> EngineError {
        match interruption {
            Interruption::Row(error) => self.bad_row(row, &error),
            Interruption::Deadline(error) => self.bad_deadline(self.executor.store().now, Some(row), &error),
            Interruption::Cancelled(cancelled) => cancelled.into(),
        }
    }

    /// Evaluates what is due before a row, and the row, unless it has a handler.
    fn interpret_row(
        &mut self,
        row: &mut usize,
        events: &EventBatch,
        out: &mut dyn VerdictSink,
    ) -> Result<(), EngineError> {
        let time = events.time(*row);
        self.run_clock_before(*row, time, out)?;
        let now = self.timeline.since_start(time);
        let inputs = self.executor.batch().inputs(*row);
        let can_run = self.timeline.is_in_order(time.0) && now <= self.executor.scheduler().idle_until();
        if can_run && self.dispatch.find_handler(&self.executor, inputs) {
            return Ok(());
        }
        self.executor.start_instant(now, inputs);
        self.dispatch.invalidate_idle(&mut self.executor);
        let done = self.dispatch.interpret_event(&mut self.executor, *row, inputs);
        done.map_err(|error| self.bad_row(*row, &error))?;
        let concluded = self.dispatch.conclude(&mut self.executor, time, out)?;
        concluded.map_err(|error| self.bad_row(*row, &error))?;
        *row += 1;
        Ok(())
    }

    /// Evaluates what is due before a row, and checks that the row can be evaluated.
    fn run_clock_before(
        &mut self,
        row: usize,
        time: Time,
        out: &mut dyn VerdictSink,
    ) -> Result<(), EngineError> {
        let bad = |column: Option<String>, reason: String| EngineError::Event { index: row, column, reason };
        let before = self.timeline.before(time).map_err(|reason| bad(None, reason))?;
        self.run_clock(before, Some(row), out)?;
        match self.executor.batch().bad_at(row) {
            Some((input, reason)) => Err(bad(Some(self.wanted[input].name.clone()), reason.to_owned())),
            None => Ok(()),
        }
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
        while self.executor.scheduler().idle_until() <= until {
            let result = self.dispatch.run_next_deadline(&mut self.executor, done, until);
            if matches!(result, Ok(false)) {
                break;
            }
            done = self.executor.store().now;
            self.end_deadline(result.map(|_| ()), done, event, out)?;
        }
        self.timeline.reach(time);
        Ok(())
    }

    /// Emits what was due at a time.
    fn end_deadline(
        &mut self,
        result: Result<(), Box<EvalError>>,
        due: u64,
        event: Option<usize>,
        out: &mut dyn VerdictSink,
    ) -> Result<(), EngineError> {
        let time = self.timeline.at(due);
        let ended = match result {
            Ok(()) => self.dispatch.conclude(&mut self.executor, time, out)?,
            Err(error) => Err(error),
        };
        ended.map_err(|error| self.bad_deadline(due, event, &error))?;
        self.timeline.reach(time);
        self.executor.collect_strings();
        out.check()?;
        Ok(())
    }

    fn bad_row(&self, index: usize, error: &EvalError) -> EngineError {
        EngineError::Event { index, column: None, reason: self.reason(error) }
    }

    fn bad_deadline(&self, due: u64, before: Option<usize>, error: &EvalError) -> EngineError {
        EngineError::Deadline { time: self.timeline.at(due), before, reason: self.reason(error) }
    }

    /// An error in words: the stream, the expression, and what is wrong.
    fn reason(&self, error: &EvalError) -> String {
        let EvalError { stream, location, fault } = error;
        let plan = &self.plan;
        let stream = plan.streams.get(*stream).map_or("", |stream| stream.name.as_str());
        let origin = match location {
            Location::Op { program, at } => plan.programs.get(*program).map_or("", |of| of.origin(*at)),
            Location::Window(window) => plan.windows[*window].text.as_str(),
            Location::Outside => "",
            Location::Panic(message) => {
                return format!("the engine stopped working: {message}; please report this");
            }
        };
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
        self.specialise(subscription).map_err(EngineError::Build)
    }

    fn feed(&mut self, events: &EventBatch, out: &mut dyn VerdictSink) -> Result<(), EngineError> {
        self.lifecycle.begin()?;
        check_columns(events, &self.wanted)?;
        self.executor.load_batch(events.rows.columns(), events.len());
        let done = self.rows(events, out);
        self.executor.unload_batch();
        done?;
        self.executor.collect_strings();
        self.lifecycle.succeed();
        Ok(())
    }

    fn advance(&mut self, time: Time, out: &mut dyn VerdictSink) -> Result<(), EngineError> {
        self.lifecycle.begin()?;
        self.run_clock(time, None, out)?;
        self.lifecycle.succeed();
        Ok(())
    }

    fn capture(&self) -> Result<Box<dyn CapturedState>, StateError> {
        Ok(self.copy_state())
    }

    fn changes(&self, state: &dyn StateReader) -> Result<Vec<StateChange>, StateError> {
        self.compare_state(state)
    }

    fn resume(
        &mut self,
        state: &dyn StateReader,
        on_change: OnChange,
    ) -> Result<Vec<StateChange>, StateError> {
        let changes = self.read_state(state, on_change)?;
        self.lifecycle.succeed();
        if let Some(subscription) = self.lifecycle.subscription().cloned() {
            self.specialise(&subscription).map_err(StateError::Damaged)?;
        }
        Ok(changes)
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
            let begun = engine.executor.evaluations();
            engine.advance(Time(728 * DAY), &mut Discard).unwrap();
            let waiting = engine.executor.evaluations() - begun;
            assert!(waiting < 20_000, "{name}: {waiting} evaluations while nothing happens");
            engine.advance(Time(735 * DAY), &mut Discard).unwrap();
            let counted = engine.executor.evaluations() - begun - waiting;
            let open: usize =
                engine.executor.store().families.iter().map(|family| family.instances.len()).sum();
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
            assert_eq!(engine.dispatch.has_handlers(), expected, "after {after}");
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
        assert!(engine.executor.store().instant < 10);
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
}
