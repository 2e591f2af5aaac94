//! The compiled engine: a specification becomes a plan, and an event costs what it changes.
//!
//! `compile` turns the typed representation of a specification into a [`plan`]: programs for its
//! expressions ([`code`]), and for each stream the way to the instances that an event concerns.
//! [`instant`] does what an event or a deadline leads to, on [`state`]; `clock` finds the next
//! deadline; `verdicts` tells what happened.

mod clock;
mod code;
mod columns;
mod compile;
mod counter;
mod exact;
mod explain;
mod fault;
mod fold;
mod instances;
mod instant;
mod layout;
mod machine;
mod plan;
mod scalar;
mod snapshot;
mod state;
mod strings;
mod tally;
mod upkeep;
mod verdicts;
mod windows;
mod words;

use fairstream_core::{
    Engine, EngineError, EventBatch, Selection, SnapshotError, Time, Verdicts, WantedColumn,
};

use self::columns::Column;
pub use self::explain::Explanation;
use self::instant::{Evaluator, Failed};
use crate::Specification;
use crate::specification::with_deep_stack;

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
    start: Time,
    /// Everything that is due up to and at this time has been evaluated.
    evaluated: Time,
}

impl CompiledEngine {
    /// An engine whose clock starts at `start`.
    ///
    /// # Errors
    /// The specification has something that this engine cannot evaluate; the error names it.
    pub fn new(spec: &Specification, start: Time) -> Result<CompiledEngine, EngineError> {
        let plan = compile::compile(spec).map_err(|refused| {
            let way_out = "; `--engine reference` may be able to";
            EngineError::Build(format!("the compiled engine cannot evaluate {refused}{way_out}"))
        })?;
        Ok(CompiledEngine {
            fingerprint: snapshot::fingerprint(&plan),
            names: plan.streams.iter().map(|stream| stream.name.clone()).collect(),
            evaluator: Evaluator::new(plan),
            wanted: spec.wanted().to_vec(),
            start,
            evaluated: Time(start.0.saturating_sub(1)),
        })
    }

    /// Whether an engine can be built for a specification.
    ///
    /// # Errors
    /// Why not.
    pub fn check(spec: &Specification) -> Result<(), EngineError> {
        with_deep_stack(|| CompiledEngine::new(spec, Time(0)).map(|_| ())).map_err(EngineError::Build)?
    }

    fn select(&mut self, selection: Selection) {
        self.evaluator.tell(|stream| selection == Selection::Changes || stream.is_trigger);
        self.evaluator.start_counting();
    }

    fn event(
        &mut self,
        columns: &[Column<'_>],
        index: usize,
        time: Time,
        out: &mut Verdicts,
    ) -> Result<(), EngineError> {
        let bad = |column: Option<String>, reason: String| EngineError::Event { index, column, reason };
        // What is due at exactly the time of the row is evaluated after it.
        let before = Time(time.0.saturating_sub(1));
        if before < self.evaluated || time < self.start {
            let (time, evaluated) = (time.for_people(), self.evaluated.max(self.start).for_people());
            return Err(bad(
                None,
                format!("its time {time} is before {evaluated}, which has been evaluated already"),
            ));
        }
        self.run_clock(before, Some(index), out)?;
        let now = self.since_start(time);
        self.evaluator.start_instant(now);
        for (input, column) in columns.iter().enumerate() {
            let value = column
                .read(index, &mut self.evaluator.state.strings)
                .map_err(|reason| bad(Some(self.wanted[input].name.clone()), reason))?;
            if let Some((words, width)) = value {
                self.evaluator
                    .accept(input, &words[..width])
                    .map_err(|failed| bad(None, self.reason(failed)))?;
            }
        }
        self.evaluator.event().map_err(|failed| bad(None, self.reason(failed)))?;
        self.evaluator.write(time, out)?;
        self.evaluator.end_instant().map_err(|failed| bad(None, self.reason(failed)))
    }

    /// Evaluates everything that is due up to and at `time`. `event` is the row that waits for it.
    fn run_clock(&mut self, time: Time, event: Option<usize>, out: &mut Verdicts) -> Result<(), EngineError> {
        if self.evaluator.plan.has_clock {
            let (mut done, until) = (self.since_start(self.evaluated), self.since_start(time));
            while let Some(next) = self.evaluator.next_due(done).filter(|next| *next <= until) {
                let at = Time(self.start.0.saturating_add_unsigned(next));
                let failed = |engine: &Self, failed: Failed| EngineError::Deadline {
                    time: at,
                    before: event,
                    reason: engine.reason(failed),
                };
                self.evaluator.deadline(next).map_err(|fault| failed(self, fault))?;
                self.evaluator.write(at, out)?;
                self.evaluator.end_instant().map_err(|fault| failed(self, fault))?;
                done = next;
                self.evaluated = at;
                out.check()?;
            }
        }
        self.evaluated = self.evaluated.max(time);
        Ok(())
    }

    /// Nanoseconds since the start of the clock; zero for the instant before it.
    fn since_start(&self, time: Time) -> u64 {
        u64::try_from(i128::from(time.0) - i128::from(self.start.0)).unwrap_or_default()
    }

    fn reason(&self, Failed { stream, failure }: Failed) -> String {
        let plan = &self.evaluator.plan;
        let stream = plan.streams.get(stream).map_or("", |stream| stream.name.as_str());
        let origin = plan.programs.get(failure.program).map_or("", |program| program.origin(failure.at));
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

    fn feed(&mut self, events: &EventBatch, out: &mut Verdicts) -> Result<(), EngineError> {
        let types = events.rows.columns().iter().map(|column| column.data_type());
        let columns: Option<Vec<Column<'_>>> = events.rows.columns().iter().map(Column::of).collect();
        let columns = columns.filter(|_| types.eq(self.wanted.iter().map(|wanted| &wanted.data_type)));
        let Some(columns) = columns else {
            let reason = "its columns are not those that the specification reads".to_owned();
            return Err(EngineError::Event { index: 0, column: None, reason });
        };
        self.select(out.selection());
        let fed =
            (0..events.len()).try_for_each(|index| self.event(&columns, index, events.time(index), out));
        self.evaluator.tidy();
        fed
    }

    fn advance(&mut self, time: Time, out: &mut Verdicts) -> Result<(), EngineError> {
        self.select(out.selection());
        self.run_clock(time, None, out)
    }

    fn snapshot(&self) -> Result<Vec<u8>, SnapshotError> {
        self.save()
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), SnapshotError> {
        self.load(snapshot)
    }
}
