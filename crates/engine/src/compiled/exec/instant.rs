//! One instant: what is done at it, in which order, and to whom.

use fairstream_core::Cancelled;
use hashbrown::HashMap;

use crate::compiled::exec::bytecode::Failure;
use crate::compiled::exec::counters::{CounterDependents, materialise_counter};
use crate::compiled::exec::input_batch::InputBatch;
use crate::compiled::exec::prefetch::{PrefetchRule, prefetch_rules};
use crate::compiled::exec::propagate::{Changed, mark_dependents};
use crate::compiled::exec::scheduler::{DueTimer, TimerSet};
use crate::compiled::exec::update_rule::UpdateRule;
use crate::compiled::ir::fault::Fault;
use crate::compiled::ir::op::{Activation, FrameSlot};
use crate::compiled::ir::plan::{Pacing, Plan, StreamPlan, Task};
use crate::compiled::jit::{COMPILE_AFTER, Entry, Handler, VmContextBuffer};
use crate::compiled::store::slab::flag;
use crate::compiled::store::state::{State, WHOLE};

/// An evaluation failed in a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed {
    pub(crate) stream: usize,
    pub(crate) failure: Failure,
    /// The window that could not take a value.
    pub(crate) window: Option<usize>,
}

impl Failed {
    #[cold]
    pub(crate) fn new(stream: usize, failure: Failure) -> Box<Failed> {
        Box::new(Failed { stream, failure, window: None })
    }

    /// Not in a program, but in what follows from a value.
    #[cold]
    pub(crate) fn outside(stream: usize, fault: Fault) -> Box<Failed> {
        Failed::new(stream, Failure { program: usize::MAX, at: 0, fault })
    }

    #[cold]
    pub(crate) fn in_window(reader: usize, fault: Fault, window: usize) -> Box<Failed> {
        let mut failed = Failed::outside(reader, fault);
        failed.window = Some(window);
        failed
    }
}

/// Evaluates a plan on a state.
pub(crate) struct Evaluator {
    pub(crate) plan: Plan,
    pub(crate) state: State,
    /// For each stream whether its verdicts are wanted.
    pub(crate) tells: Vec<bool>,
    /// For each stream whether spawns and closes of its instances are wanted, too.
    pub(crate) tells_lifecycle: Vec<bool>,
    /// For each stream whether it [is plain](is_plain).
    pub(crate) is_plain: Vec<bool>,
    /// Whether a value that was kept instead of computed again is told again.
    pub(crate) repeats: Vec<bool>,
    /// For each stream whether it need not be evaluated at a tick before which nothing has changed.
    pub(crate) can_skip_tick: Vec<bool>,
    /// For each stream its short way, if it has one.
    pub(crate) rules: Vec<Option<UpdateRule>>,
    /// Streams with new values at this instant, as far as somebody wants to know.
    pub(crate) valued: Vec<usize>,
    /// Families of which instances were spawned or close at this instant.
    pub(crate) moved: Vec<usize>,
    /// The inputs of the batch that is being evaluated.
    pub(crate) batch: InputBatch,
    /// The kinds of events that there have been, ...
    pub(crate) shapes: Vec<EventShape>,
    /// ... where they are, by the inputs that they carry, ...
    pub(crate) shapes_by_inputs: HashMap<u128, usize>,
    /// ... and which it was last.
    pub(crate) now: usize,
    /// After how many events of a shape it gets machine code.
    pub(crate) compile_after: u32,
    /// Where inputs will be looked for.
    pub(crate) prefetch_rules: Vec<PrefetchRule>,
    /// Where machine code finds things, ...
    pub(crate) places: VmContextBuffer,
    /// ... and why it failed.
    pub(crate) failed: Option<Box<Failed>>,
    /// When clocks that start with the monitor tick next, as far as somebody asked.
    pub(crate) ticks: Vec<u64>,
    /// For each of them a task that had something to do.
    pub(crate) last_active_task: Vec<usize>,
    /// What strikes at this time, ...
    pub(crate) due_timers: Vec<DueTimer>,
    /// ... the kinds of such times, ...
    pub(crate) timer_sets: Vec<TimerSet>,
    /// ... which it was last, ...
    pub(crate) current_timer_set: usize,
    /// ... machine code for deadlines of instances and ticks one after another, ...
    pub(crate) deadline_loop: Option<Handler>,
    /// ... and for each chime the instances that are due.
    pub(crate) expired: Vec<Vec<u32>>,
    /// Families whose close has a clock for each instance.
    pub(crate) local_closes: Vec<usize>,
    /// Streams that may tell their value from the clock, ...
    pub(crate) counters: Vec<usize>,
    /// ... and who reads each stream, if it is one of them.
    pub(crate) readers: Vec<CounterDependents>,
    /// Nothing is due before this time since the start of the clock, unless an event [wakes](Self::wake) a clock.
    pub(crate) idle_until: u64,
    /// The inputs and streams whose value is of this instant.
    pub(crate) fresh: Vec<FrameSlot>,
    pub(crate) candidates: Vec<u32>,
    /// Slots that were marked.
    pub(crate) listed: Vec<u32>,
    pub(crate) key: Vec<u64>,
    pub(crate) old: Vec<u64>,
    /// How often a program was run for an instance.
    #[cfg(test)]
    pub(crate) evaluations: u64,
}

/// Events that carry the same inputs.
#[derive(Default)]
pub(crate) struct EventShape {
    inputs: u128,
    /// What is done at them.
    pub(crate) steps: Vec<Step>,
    /// How many there have been, until they came often.
    count: u32,
    /// The same steps as machine code.
    pub(crate) handler: Option<Handler>,
}

/// Why rows are not evaluated any further.
#[derive(Debug)]
pub(crate) enum Stop {
    /// One of them failed, ...
    Row(Box<Failed>),
    /// ... or what is due before it.
    Deadline(Box<Failed>),
    /// Nobody wants to hear of them.
    Cancelled(Cancelled),
}

/// Something that is done at an instant, and to which instances.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Spawn(usize),
    Evaluate(usize, Target),
    Close(usize, Target),
}

#[derive(Clone, Debug)]
pub(crate) enum Target {
    All,
    /// Those for which something has changed.
    Dirty,
    /// Those that the paths of these clauses lead to.
    Lookup(Vec<usize>),
    /// Those that a chime is due for.
    Expired(usize),
}

fn places_of(flags: impl Iterator<Item = bool>) -> Vec<usize> {
    flags.enumerate().filter(|(_, is_it)| *is_it).map(|(place, _)| place).collect()
}

/// Whether the evaluation of a stream has no consequences but those of a new value.
pub(crate) fn is_plain(stream: &StreamPlan, tells: bool, repeats: bool) -> bool {
    let eval = &stream.eval;
    eval.guard.is_none()
        && if eval.incremental {
            eval.windows.is_empty() && !eval.reads_itself && (!tells || repeats)
        } else {
            !tells && !stream.lists_fresh
        }
}

impl Evaluator {
    pub(crate) fn new(plan: Plan) -> Evaluator {
        let is_local = |pacing: &Pacing| matches!(pacing, Pacing::Local(_));
        let closes = plan.families.iter().map(|family| family.close.as_ref());
        let closes = closes.map(|close| close.is_some_and(|close| is_local(&close.pacing)));
        Evaluator {
            ticks: vec![0; plan.clocks.len()],
            last_active_task: vec![0; plan.clocks.len()],
            due_timers: Vec::new(),
            timer_sets: Vec::new(),
            current_timer_set: 0,
            deadline_loop: None,
            expired: vec![Vec::new(); plan.instance_timers.len()],
            local_closes: places_of(closes),
            counters: places_of(plan.streams.iter().map(|stream| stream.eval.counter.is_some())),
            readers: plan.streams.iter().map(|stream| CounterDependents::of(&plan, stream)).collect(),
            idle_until: 0,
            state: State::new(&plan),
            tells: vec![false; plan.streams.len()],
            tells_lifecycle: vec![false; plan.streams.len()],
            is_plain: plan.streams.iter().map(|stream| is_plain(stream, false, true)).collect(),
            repeats: vec![true; plan.streams.len()],
            can_skip_tick: plan.streams.iter().map(|stream| stream.eval.incremental).collect(),
            rules: plan.streams.iter().map(|stream| UpdateRule::of(&plan, stream, false, true)).collect(),
            valued: Vec::new(),
            moved: Vec::new(),
            batch: InputBatch::default(),
            shapes: Vec::new(),
            shapes_by_inputs: HashMap::new(),
            now: 0,
            compile_after: COMPILE_AFTER,
            prefetch_rules: prefetch_rules(&plan),
            places: VmContextBuffer::default(),
            failed: None,
            fresh: Vec::new(),
            candidates: Vec::new(),
            listed: Vec::new(),
            key: Vec::new(),
            old: Vec::new(),
            #[cfg(test)]
            evaluations: 0,
            plan,
        }
    }

    /// Says whose verdicts are wanted from now on, and of whom also values that were kept.
    pub(crate) fn tell(
        &mut self,
        wanted: impl Fn(usize, &StreamPlan) -> bool,
        repeated: impl Fn(usize) -> bool,
    ) -> Result<(), Box<Failed>> {
        let mut is_other = false;
        for (index, stream) in self.plan.streams.iter().enumerate() {
            let (tells, repeats) = (wanted(index, stream), stream.is_trigger || repeated(index));
            if (tells, repeats) == (self.tells[index], self.repeats[index]) {
                continue;
            }
            (self.tells[index], self.repeats[index]) = (tells, repeats);
            is_other = true;
            self.is_plain[index] = is_plain(stream, tells, repeats);
            self.rules[index] = UpdateRule::of(&self.plan, stream, tells, repeats);
            if tells && self.state.streams[index].counts {
                materialise_counter(&self.plan, &mut self.state, index)?;
            }
            let instances = &self.state.families[stream.family].instances;
            let state = &mut self.state.streams[index];
            state.current_holders.clear();
            if !tells || !repeats || !stream.eval.incremental {
                continue;
            }
            match stream.cell {
                Some(_) if state.holds => state.current_holders.insert((0, WHOLE)),
                Some(_) => {}
                None => {
                    let holds = |slot: &u32| instances.has(*slot, stream.member, flag::HOLDS);
                    let holding = instances.live_slots().filter(holds);
                    holding.for_each(|slot| state.current_holders.insert((instances.generation(slot), slot)));
                }
            }
        }
        if is_other {
            self.drop_handlers();
        }
        Ok(())
    }

    /// Goes on from another state.
    pub(crate) fn resume(&mut self, state: State) {
        self.state = state;
        self.places = VmContextBuffer::default();
        self.idle_until = 0;
        self.fresh.clear();
        self.valued.clear();
        self.moved.clear();
        // Selector holds a value at present is found anew when somebody is told.
        for (index, stream) in self.plan.streams.iter().enumerate() {
            self.tells[index] = false;
            self.is_plain[index] = is_plain(stream, false, self.repeats[index]);
            self.rules[index] = UpdateRule::of(&self.plan, stream, false, self.repeats[index]);
        }
        self.drop_handlers();
    }

    pub(crate) fn start_instant(&mut self, now: u64) {
        self.state.now = now;
        self.state.instant += 1;
        self.state.present = 0;
    }

    /// An input has a value, in that row of the batch.
    #[inline]
    pub(crate) fn accept(&mut self, input: usize, row: usize) -> Result<(), Box<Failed>> {
        let cell = &self.plan.inputs[input];
        let value = self.batch.columns[input].read(row);
        let dependents = &self.plan.input_dependents[input];
        if !dependents.is_empty() && self.state.cell_past(cell, input, 0) != Some(value) {
            mark_dependents(&mut self.state, &self.plan, dependents, Changed::Whole);
        }
        self.fresh.push(cell.fresh);
        self.state.push_cell(cell, input, |frame, to| match value {
            [word] => frame[to] = *word,
            words => frame[to..to + words.len()].copy_from_slice(words),
        });
        for window in &self.plan.input_windows[input] {
            let (now, plan) = (self.state.this_instant(), &self.plan.windows[*window]);
            let State { windows, interner, .. } = &mut self.state;
            windows[*window]
                .accept(plan, WHOLE, value, now, interner)
                .map_err(|fault| Failed::in_window(plan.reader, fault, *window))?;
            mark_dependents(&mut self.state, &self.plan, &plan.dependents, Changed::Whole);
        }
        Ok(())
    }

    /// Machine code for events with these inputs, if there is any.
    #[inline(never)]
    pub(crate) fn entry(&mut self, present: u128) -> Option<Entry> {
        if self.shapes.get(self.now).is_none_or(|shape| shape.inputs != present) {
            self.find_shape(present);
        }
        self.shapes[self.now].handler.as_ref().map(Handler::entry)
    }

    /// Everything that a row of the batch leads to, without machine code.
    pub(crate) fn event(&mut self, row: usize) -> Result<(), Box<Failed>> {
        let present = self.batch.present[row];
        self.state.present = present;
        if self.shapes.get(self.now).is_none_or(|shape| shape.inputs != present) {
            self.find_shape(present);
        }
        let mut shape = std::mem::take(&mut self.shapes[self.now]);
        shape.count = shape.count.saturating_add(1);
        if shape.count == self.compile_after {
            shape.handler = Handler::new(self, present, &shape.steps);
        }
        let done = self.interpret(row, &shape.steps);
        self.shapes[self.now] = shape;
        done
    }

    fn interpret(&mut self, row: usize, steps: &[Step]) -> Result<(), Box<Failed>> {
        let mut inputs = self.state.present;
        while inputs != 0 {
            self.accept(inputs.trailing_zeros() as usize, row)?;
            inputs &= inputs - 1;
        }
        steps.iter().try_for_each(|step| self.step(step))
    }

    /// Sees to it that the shape at hand is that of an event with these inputs.
    pub(crate) fn find_shape(&mut self, present: u128) {
        const MANY: usize = 4096;
        const FEW: usize = 8;
        let Evaluator { shapes_by_inputs, shapes, .. } = self;
        if let Some(found) = shapes.iter().take(FEW).position(|shape| shape.inputs == present) {
            self.now = found;
            return;
        }
        if let Some(found) = shapes_by_inputs.get(&present) {
            self.now = *found;
            return;
        }
        if shapes.len() >= MANY {
            shapes.clear();
            shapes_by_inputs.clear();
        }
        self.now = shapes.len();
        shapes_by_inputs.insert(present, self.now);
        let steps = self.steps_of(present);
        self.shapes.push(EventShape { inputs: present, steps, ..EventShape::default() });
    }

    /// Machine code was written for who was told before.
    pub(crate) fn drop_handlers(&mut self) {
        for shape in &mut self.shapes {
            (shape.handler, shape.count) = (None, 0);
        }
        self.drop_timer_handlers();
    }

    #[cfg(test)]
    pub(crate) fn has_handlers(&self) -> bool {
        self.shapes.iter().any(|shape| shape.handler.is_some())
    }

    fn steps_of(&self, present: u128) -> Vec<Step> {
        let holds = |pacing: &Pacing| matches!(pacing, Pacing::Event(when) if when.holds(present));
        let is_due = |task: &&Task| match **task {
            Task::Spawn(family) => {
                self.plan.families[family].spawn.as_ref().is_some_and(|spawn| holds(&spawn.pacing))
            }
            Task::Evaluate(stream) => holds(&self.plan.streams[stream].eval.pacing),
            Task::Close(family) => {
                self.plan.families[family].close.as_ref().is_some_and(|close| holds(&close.pacing))
            }
        };
        self.plan.at_event.iter().filter(is_due).map(|task| self.step_of(*task, present)).collect()
    }

    /// A task as a step, with the way to the instances that it concerns.
    pub(crate) fn step_of(&self, task: Task, present: u128) -> Step {
        match task {
            Task::Spawn(family) => Step::Spawn(family),
            Task::Evaluate(stream) => Step::Evaluate(stream, self.reach(&self.plan.streams[stream], present)),
            Task::Close(family) => {
                let plan = &self.plan.families[family];
                let has_path = plan.close.as_ref().is_some_and(|close| close.path.is_some());
                let target =
                    if has_path && plan.is_parameterised { Target::Lookup(Vec::new()) } else { Target::All };
                Step::Close(family, target)
            }
        }
    }

    /// The paths of the clauses that are active, if each of them has one.
    fn reach(&self, stream: &StreamPlan, present: u128) -> Target {
        if stream.eval.incremental && stream.eval.counter.is_none() {
            return Target::Dirty;
        }
        let mut paths = Vec::new();
        for (index, clause) in stream.eval.clauses.iter().enumerate() {
            let when = clause.activation.map_or(&Activation::Always, |at| &self.plan.activations[at]);
            match &clause.path {
                _ if !when.holds(present) => {}
                Some(_) if stream.is_parameterised() => paths.push(index),
                _ => return Target::All,
            }
        }
        Target::Lookup(paths)
    }

    #[inline(always)]
    pub(crate) fn step(&mut self, step: &Step) -> Result<(), Box<Failed>> {
        match step {
            Step::Spawn(family) => self.spawn(*family),
            Step::Evaluate(stream, Target::Expired(instance_timer)) => {
                self.evaluate_expired(*stream, *instance_timer)
            }
            Step::Evaluate(stream, Target::Lookup(clauses)) => self.evaluate_candidates(*stream, clauses),
            Step::Evaluate(stream, Target::All) => self.evaluate(*stream),
            Step::Evaluate(stream, Target::Dirty) => self.evaluate_changed(*stream),
            Step::Close(family, Target::Lookup(_)) => self.close_candidates(*family),
            Step::Close(family, _) => self.close(*family),
        }
    }

    /// Whether a task would change nothing and tell nothing.
    pub(crate) fn is_idle(&self, task: Task) -> bool {
        let nobody = |family: usize| {
            let state = &self.state.families[family];
            if self.plan.families[family].is_parameterised {
                state.instances.len() == 0
            } else {
                !state.alive
            }
        };
        match task {
            Task::Spawn(_) => false,
            // Most often nothing has changed, and nobody is told of anything.
            Task::Evaluate(index) if self.can_skip_tick[index] && self.state.streams[index].is_at_rest() => {
                true
            }
            Task::Evaluate(index) => {
                let (plan, state) = (&self.plan.streams[index], &self.state.streams[index]);
                if state.counts {
                    return true;
                }
                if plan.eval.guard.is_some() {
                    return nobody(plan.family) || state.evaluate.is_clean();
                }
                let silent = !self.tells[index] || state.current_holders.is_empty();
                nobody(plan.family) || (plan.eval.incremental && state.evaluate.is_clean() && silent)
            }
            Task::Close(family) => {
                let incremental =
                    self.plan.families[family].close.as_ref().is_some_and(|close| close.incremental);
                nobody(family) || (incremental && self.state.families[family].close.is_clean())
            }
        }
    }

    /// Whether there is nothing to tell of an instant, and nothing to end.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        // One question instead of three.
        self.valued.len() | self.moved.len() | self.fresh.len() == 0
    }

    /// Ends the instances that close, once the instant has been told of.
    pub(crate) fn end_instant(&mut self) -> Result<(), Box<Failed>> {
        while let Some(index) = self.valued.pop() {
            self.state.streams[index].valued.clear();
        }
        if !self.moved.is_empty() {
            self.end_moved()?;
        }
        while let Some(fresh) = self.fresh.pop() {
            self.state.frame[fresh as usize] = 0;
        }
        Ok(())
    }

    fn end_moved(&mut self) -> Result<(), Box<Failed>> {
        let mut moved = std::mem::take(&mut self.moved);
        // Selector reads others is gone before they are, most often, and need not look again.
        for index in moved.drain(..).rev() {
            let mut closing = std::mem::take(&mut self.state.families[index].closing);
            for slot in &closing {
                self.end(index, *slot)?;
            }
            closing.clear();
            let state = &mut self.state.families[index];
            state.closing = closing;
            state.spawned.clear();
        }
        self.moved = moved;
        Ok(())
    }
}
