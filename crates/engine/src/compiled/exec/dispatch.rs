//! Finds the steps of each event shape and timer set, and runs them: by a handler, or by the interpreter.

use fairstream_core::{Cancelled, Time, VerdictSink};
use hashbrown::HashMap;

use super::codegen::Codegen;
use super::error::EvalError;
use super::executor::Executor;
use super::precompile::{likely_shapes, likely_timer_sets};
use super::prefetch::{self, BLOCK};
use crate::compiled::ir::step::{DueTimer, Step};
use crate::timeline::Timeline;

/// Steps and handlers for each event shape and timer set seen so far.
pub(crate) struct Dispatch<C: Codegen> {
    shapes: Vec<EventShape<C::Handler>>,
    /// Index into `shapes` by the mask of present inputs.
    shapes_by_inputs: HashMap<u128, usize>,
    /// The most recent shape, checked before the map.
    current_shape: usize,
    timer_sets: Vec<TimerSet<C::Handler>>,
    /// The most recent timer set, checked before the others.
    current_timer_set: usize,
    /// Runs deadlines and ticks one after another, where their steps allow it.
    deadline_loop: Option<C::Handler>,
    /// How many events of a shape are interpreted before it gets a handler; 0: it never does.
    compile_after: u32,
    codegen: C,
}

/// Events with the same inputs.
struct EventShape<H> {
    inputs: u128,
    steps: Vec<Step>,
    /// How many events were interpreted.
    count: u32,
    handler: Option<H>,
}

/// Times at which the same timers are due.
struct TimerSet<H> {
    due_timers: Vec<DueTimer>,
    steps: Vec<Step>,
    /// How many times were interpreted.
    count: u32,
    handler: Option<H>,
}

/// Why rows are not evaluated any further.
#[derive(Debug)]
pub(crate) enum Interruption {
    /// A row failed.
    Row(Box<EvalError>),
    /// What is due before the row failed.
    Deadline(Box<EvalError>),
    Cancelled(Cancelled),
}

impl From<Cancelled> for Interruption {
    fn from(cancelled: Cancelled) -> Interruption {
        Interruption::Cancelled(cancelled)
    }
}

impl<C: Codegen> Dispatch<C> {
    pub(crate) fn new() -> Dispatch<C> {
        Dispatch {
            shapes: Vec::new(),
            shapes_by_inputs: HashMap::new(),
            current_shape: 0,
            timer_sets: Vec::new(),
            current_timer_set: 0,
            deadline_loop: None,
            compile_after: C::COMPILE_AFTER,
            codegen: C::default(),
        }
    }

    pub(crate) fn set_compile_after(&mut self, events: u32) {
        self.compile_after = events;
    }

    /// Drops every handler: what it was compiled for has changed.
    pub(crate) fn drop_handlers(&mut self) {
        for shape in &mut self.shapes {
            (shape.handler, shape.count) = (None, 0);
        }
        self.timer_sets.clear();
        self.deadline_loop = None;
        self.codegen = C::default();
    }

    #[cfg(test)]
    pub(crate) fn has_handlers(&self) -> bool {
        self.shapes.iter().any(|shape| shape.handler.is_some())
    }

    /// Compiles handlers for the event shapes and timer sets that are likely to come.
    pub(crate) fn precompile(&mut self, executor: &Executor) {
        if self.compile_after == 0 {
            return;
        }
        for inputs in likely_shapes(executor.plan()) {
            let shape = self.find_shape(executor, inputs);
            self.shapes[shape].handler = self.codegen.compile(executor, inputs, &self.shapes[shape].steps);
        }
        let plan = executor.plan();
        let clocks: Vec<DueTimer> = (0..plan.clocks.len()).map(DueTimer::Clock).collect();
        let instance_timers: Vec<DueTimer> =
            (0..plan.instance_timers.len()).map(DueTimer::InstanceTimer).collect();
        // Counters and closes of instances have deadlines of their own, which the loop does not know.
        let has_timers = !clocks.is_empty() || !instance_timers.is_empty();
        if has_timers && plan.counters.is_empty() && plan.local_closes.is_empty() {
            let at_ticks = clocks.iter().map(|clock| plan.steps_of_timers(&[*clock])).collect();
            let at_deadlines = plan.steps_of_timers(&instance_timers);
            self.deadline_loop = self.codegen.compile_deadline_loop(executor, at_deadlines, at_ticks);
        }
        for due_timers in likely_timer_sets(plan, self.deadline_loop.is_some()) {
            let set = self.find_timer_set(executor, &due_timers);
            self.timer_sets[set].handler = self.codegen.compile(executor, 0, &self.timer_sets[set].steps);
        }
    }

    /// The index of the shape of events with these inputs.
    #[inline]
    fn find_shape(&mut self, executor: &Executor, inputs: u128) -> usize {
        if self.shapes.get(self.current_shape).is_none_or(|shape| shape.inputs != inputs) {
            self.current_shape = self.look_up_shape(executor, inputs);
        }
        self.current_shape
    }

    #[inline(never)]
    fn look_up_shape(&mut self, executor: &Executor, inputs: u128) -> usize {
        const MOST: usize = 4096;
        const SCANNED: usize = 8;
        if let Some(found) = self.shapes.iter().take(SCANNED).position(|shape| shape.inputs == inputs) {
            return found;
        }
        if let Some(found) = self.shapes_by_inputs.get(&inputs) {
            return *found;
        }
        if self.shapes.len() >= MOST {
            self.shapes.clear();
            self.shapes_by_inputs.clear();
        }
        self.shapes_by_inputs.insert(inputs, self.shapes.len());
        let steps = executor.plan().steps_of_event(inputs);
        self.shapes.push(EventShape { inputs, steps, count: 0, handler: None });
        self.shapes.len() - 1
    }

    fn find_timer_set(&mut self, executor: &Executor, due_timers: &[DueTimer]) -> usize {
        const MOST: usize = 64;
        if let Some(found) = self.timer_sets.iter().position(|set| set.due_timers == due_timers) {
            return found;
        }
        if self.timer_sets.len() >= MOST {
            self.timer_sets.clear();
        }
        let (steps, due_timers) = (executor.plan().steps_of_timers(due_timers), due_timers.to_vec());
        self.timer_sets.push(TimerSet { due_timers, steps, count: 0, handler: None });
        self.timer_sets.len() - 1
    }

    /// Finds the shape of events with these inputs; whether it has a handler.
    pub(crate) fn find_handler(&mut self, executor: &Executor, inputs: u128) -> bool {
        let shape = self.find_shape(executor, inputs);
        self.shapes[shape].handler.is_some()
    }

    /// Interprets the event of a row; it may get a handler for the next time.
    pub(crate) fn interpret_event(
        &mut self,
        executor: &mut Executor,
        row: usize,
        inputs: u128,
    ) -> Result<(), Box<EvalError>> {
        let index = self.find_shape(executor, inputs);
        let shape = &mut self.shapes[index];
        shape.count = shape.count.saturating_add(1);
        if shape.count == self.compile_after {
            shape.handler = self.codegen.compile(executor, inputs, &shape.steps);
        }
        executor.interpret_event(row, &shape.steps)
    }

    /// Something at ticks may have become dirty: what a deadline loop has skipped is examined again.
    #[inline(always)]
    pub(crate) fn invalidate_idle(&self, executor: &mut Executor) {
        if self.deadline_loop.is_some() {
            executor.scheduler_mut().invalidate();
        }
    }

    /// Evaluates rows of the batch, each after what is due before it, as long as there are handlers. `row` is the first,
    /// and then the first that is left.
    #[inline(never)]
    pub(crate) fn run_rows(
        &mut self,
        executor: &mut Executor,
        row: &mut usize,
        times: &[i64],
        timeline: &mut Timeline,
        out: &mut dyn VerdictSink,
    ) -> Result<(), Interruption> {
        /// Shapes of recent rows, by a hash of their inputs.
        const RECENT: usize = 4;
        let end = executor.batch().first_bad().unwrap_or(times.len());
        self.codegen.bind(executor);
        let mut recent: [(u128, usize); RECENT] = [(0, usize::MAX); RECENT];
        let prefetches = prefetch::is_worthwhile(executor.plan(), executor.store());
        while *row < end && timeline.is_in_order(times[*row]) {
            let now = timeline.since_start(Time(times[*row]));
            if now > executor.scheduler().idle_until() {
                let before = executor.store().instant;
                self.run_due_before(executor, timeline, now - 1, out)?;
                let idle_until = executor.scheduler().idle_until();
                if now > idle_until && executor.store().instant > before {
                    // The budget was used up: there may be many more.
                    out.check()?;
                    continue;
                } else if now > idle_until {
                    break;
                }
            }
            let inputs = executor.batch().inputs(*row);
            let mask = inputs as usize;
            let recent = &mut recent[(mask ^ mask >> 3) % RECENT];
            if recent.0 != inputs || recent.1 == usize::MAX {
                *recent = (inputs, self.find_shape(executor, inputs));
            }
            let Some(handler) = &self.shapes[recent.1].handler else { break };
            if prefetches && (*row).is_multiple_of(BLOCK) {
                prefetch::rows(executor.plan(), executor.store(), executor.batch(), *row);
            }
            executor.start_instant(now, inputs);
            timeline.evaluated = Time(times[*row] - 1);
            self.codegen.run_event(handler, executor, *row).map_err(Interruption::Row)?;
            self.conclude(executor, Time(times[*row]), out)?.map_err(Interruption::Row)?;
            *row += 1;
        }
        Ok(())
    }

    /// Emits the verdicts of an instant and ends it.
    #[inline(always)]
    pub(crate) fn conclude(
        &self,
        executor: &mut Executor,
        time: Time,
        out: &mut dyn VerdictSink,
    ) -> Result<Result<(), Box<EvalError>>, Cancelled> {
        if executor.is_quiet() { Ok(Ok(())) } else { self.emit_and_end(executor, time, out) }
    }

    #[inline(never)]
    fn emit_and_end(
        &self,
        executor: &mut Executor,
        time: Time,
        out: &mut dyn VerdictSink,
    ) -> Result<Result<(), Box<EvalError>>, Cancelled> {
        executor.cx().emit(time, out)?;
        self.invalidate_idle(executor);
        Ok(executor.cx().end_instant())
    }

    /// Runs and emits what is due up to a time, as far as the deadline loop does.
    #[inline(never)]
    fn run_due_before(
        &mut self,
        executor: &mut Executor,
        timeline: &mut Timeline,
        until: u64,
        out: &mut dyn VerdictSink,
    ) -> Result<(), Interruption> {
        let before = executor.store().instant;
        let done = timeline.since_start(timeline.evaluated);
        self.run_deadline_loop(executor, done, until).map_err(Interruption::Deadline)?;
        if executor.store().instant > before {
            let time = timeline.at(executor.store().now);
            self.conclude(executor, time, out)?.map_err(Interruption::Deadline)?;
            executor.collect_strings();
            timeline.reach(time);
        }
        Ok(())
    }

    #[inline]
    fn run_deadline_loop(
        &mut self,
        executor: &mut Executor,
        done: u64,
        until: u64,
    ) -> Result<(), Box<EvalError>> {
        let Some(handler) = &self.deadline_loop else { return Ok(()) };
        let budget = executor.advance_clocks(done);
        self.codegen.run_deadline_loop(handler, executor, until, budget)
    }

    /// Runs what is due next, after `done` and up to `until`, for the caller to emit. Returns whether anything
    /// was due.
    #[inline]
    pub(crate) fn run_next_deadline(
        &mut self,
        executor: &mut Executor,
        done: u64,
        until: u64,
    ) -> Result<bool, Box<EvalError>> {
        if self.deadline_loop.is_some() {
            let before = executor.store().instant;
            self.codegen.bind(executor);
            self.run_deadline_loop(executor, done, until)?;
            if executor.store().instant > before || executor.scheduler().idle_until() > until {
                return Ok(executor.store().instant > before);
            }
        }
        match executor.next_due(done, until) {
            Some(next) => self.run_deadline(executor, next).map(|()| true),
            None => Ok(false),
        }
    }

    /// Runs everything that is due at a time: layer by layer, closes last.
    fn run_deadline(&mut self, executor: &mut Executor, time: u64) -> Result<(), Box<EvalError>> {
        executor.start_deadline(time);
        if !executor.due_timers().is_empty() {
            self.run_timer_set(executor)?;
        }
        executor.close_expired(time)
    }

    fn run_timer_set(&mut self, executor: &mut Executor) -> Result<(), Box<EvalError>> {
        let due_timers = executor.due_timers();
        let current = self.timer_sets.get(self.current_timer_set);
        if current.is_none_or(|set| set.due_timers != due_timers) {
            let due_timers = due_timers.to_vec();
            self.current_timer_set = self.find_timer_set(executor, &due_timers);
        }
        let set = &mut self.timer_sets[self.current_timer_set];
        if let Some(handler) = &set.handler {
            self.codegen.bind(executor);
            return self.codegen.run_timers(handler, executor);
        }
        set.count = set.count.saturating_add(1);
        if set.count == self.compile_after {
            set.handler = self.codegen.compile(executor, 0, &set.steps);
        }
        executor.interpret(&set.steps)
    }
}
