//! One instant: spawn, evaluate, tell, close.

use super::code::Activation;
use super::fault::Fault;
use super::instances::flag;
use super::machine::{Failure, run};
use super::plan::{Cell, Pacing, Path, Plan, Route, StreamPlan, Task, Watcher, Who};
use super::state::{Due, State, WHOLE};

/// An evaluation failed in a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failed {
    pub(super) stream: usize,
    pub(super) failure: Failure,
}

impl Failed {
    /// Not in a program, but in what follows from a value.
    fn outside(stream: usize, fault: Fault) -> Failed {
        Failed { stream, failure: Failure { program: usize::MAX, at: 0, fault } }
    }
}

/// Evaluates a plan on a state.
pub(super) struct Evaluator {
    pub(super) plan: Plan,
    pub(super) state: State,
    /// For each stream whether its verdicts are wanted.
    pub(super) tells: Vec<bool>,
    /// Streams to which something happened at this instant.
    pub(super) touched: Vec<usize>,
    /// What is done at an event, by the inputs that it carries.
    steps: Vec<(u128, Vec<Step>)>,
    /// The inputs and streams whose value is of this instant.
    fresh: Vec<u32>,
    candidates: Vec<u32>,
    key: Vec<u64>,
    watched: Vec<u64>,
    old: Vec<u64>,
    changed: Vec<usize>,
}

/// Something that is done at an instant, and to which instances.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Spawn(usize),
    Evaluate(usize, Reach),
    Close(usize, Reach),
}

#[derive(Clone, Debug)]
pub(super) enum Reach {
    /// All, or those for which something has changed.
    All,
    /// Those that the paths of these clauses lead to.
    Paths(Vec<usize>),
    /// The one whose clock says so.
    One(u32),
}

impl Evaluator {
    pub(super) fn new(plan: Plan) -> Evaluator {
        Evaluator {
            state: State::new(&plan),
            tells: vec![false; plan.streams.len()],
            touched: Vec::new(),
            steps: Vec::new(),
            fresh: Vec::new(),
            candidates: Vec::new(),
            key: Vec::new(),
            watched: Vec::new(),
            old: Vec::new(),
            changed: Vec::new(),
            plan,
        }
    }

    /// Says whose verdicts are wanted from now on.
    pub(super) fn tell(&mut self, wanted: impl Fn(&StreamPlan) -> bool) {
        for (index, stream) in self.plan.streams.iter().enumerate() {
            let tells = wanted(stream);
            if tells == self.tells[index] {
                continue;
            }
            self.tells[index] = tells;
            let state = &mut self.state.streams[index];
            state.holders.clear();
            if tells && stream.eval.remembers {
                let instances = &state.instances;
                let holding = instances.live_slots().filter(|slot| instances.has(*slot, flag::HOLDS));
                state.holders = holding.map(|slot| (instances.born(slot), slot)).collect();
            }
        }
    }

    pub(super) fn start_instant(&mut self, now: u64) {
        self.state.now = now;
        self.state.instant += 1;
        self.state.present = 0;
    }

    /// An input has a value.
    pub(super) fn accept(&mut self, input: usize, value: &[u64]) -> Result<(), Failed> {
        let cell = &self.plan.inputs[input];
        self.state.present |= 1 << input;
        let watchers = &self.plan.input_watchers[input];
        if !watchers.is_empty() && self.state.cell_past(cell, input, 0) != Some(value) {
            notify(&mut self.state, watchers, &[], &mut self.key);
        }
        self.fresh.push(cell.fresh);
        self.state.push_cell(cell, input, value);
        for window in &self.plan.input_windows[input] {
            let (now, plan) = (self.state.this_instant(), &self.plan.windows[*window]);
            let State { windows, strings, .. } = &mut self.state;
            windows[*window]
                .accept(plan, WHOLE, value, now, strings)
                .map_err(|fault| Failed::outside(plan.reader, fault))?;
        }
        Ok(())
    }

    /// Everything that an event with the present inputs leads to.
    pub(super) fn event(&mut self) -> Result<(), Failed> {
        let present = self.state.present;
        let known = self.steps.iter().position(|(mask, _)| *mask == present);
        let index = known.unwrap_or_else(|| {
            let steps = self.steps_of(present);
            self.steps.push((present, steps));
            self.steps.len() - 1
        });
        // The most frequent kind of event is found first.
        let index = if index > 0 {
            self.steps.swap(index, index - 1);
            index - 1
        } else {
            index
        };
        let steps = std::mem::take(&mut self.steps[index].1);
        let done = steps.iter().try_for_each(|step| self.step(step));
        self.steps[index].1 = steps;
        done
    }

    fn steps_of(&self, present: u128) -> Vec<Step> {
        let holds = |pacing: &Pacing| matches!(pacing, Pacing::Event(when) if when.holds(present));
        let mut steps = Vec::new();
        for task in &self.plan.at_event {
            let stream = &self.plan.streams[task.stream()];
            match task {
                Task::Spawn(index) => {
                    if stream.spawn.as_ref().is_some_and(|spawn| holds(&spawn.pacing)) {
                        steps.push(Step::Spawn(*index));
                    }
                }
                Task::Evaluate(index) if holds(&stream.eval.pacing) => {
                    steps.push(Step::Evaluate(*index, self.reach(stream, present)));
                }
                Task::Close(index) => {
                    if let Some(close) = stream.close.as_ref().filter(|close| holds(&close.pacing)) {
                        let reach =
                            if close.path.is_some() { Reach::Paths(Vec::new()) } else { Reach::All };
                        steps.push(Step::Close(*index, reach));
                    }
                }
                Task::Evaluate(_) => {}
            }
        }
        steps
    }

    /// The paths of the clauses that are active, if each of them has one.
    fn reach(&self, stream: &StreamPlan, present: u128) -> Reach {
        let mut paths = Vec::new();
        for (index, clause) in stream.eval.clauses.iter().enumerate() {
            let when = clause.activation.map_or(&Activation::Always, |at| &self.plan.activations[at]);
            match &clause.path {
                _ if !when.holds(present) => {}
                Some(_) => paths.push(index),
                None => return Reach::All,
            }
        }
        Reach::Paths(paths)
    }

    pub(super) fn step(&mut self, step: &Step) -> Result<(), Failed> {
        match step {
            Step::Spawn(stream) => self.spawn(*stream),
            Step::Evaluate(stream, Reach::One(slot)) => self.evaluate_one(*stream, *slot),
            Step::Evaluate(stream, Reach::Paths(clauses)) if self.plan.streams[*stream].is_parameterised() => {
                self.evaluate_candidates(*stream, clauses)
            }
            Step::Evaluate(stream, _) => self.evaluate(*stream),
            Step::Close(stream, Reach::One(slot)) => self.close_one(*stream, *slot),
            Step::Close(stream, Reach::Paths(_)) if self.plan.streams[*stream].is_parameterised() => {
                self.close_candidates(*stream)
            }
            Step::Close(stream, _) => self.close(*stream),
        }
    }

    /// The steps of a clock's tasks.
    pub(super) fn timed(&self, task: Task) -> Step {
        let stream = &self.plan.streams[task.stream()];
        match task {
            Task::Spawn(index) => Step::Spawn(index),
            Task::Evaluate(index) => Step::Evaluate(index, self.reach(stream, 0)),
            Task::Close(index) => {
                let has_path = stream.close.as_ref().is_some_and(|close| close.path.is_some());
                Step::Close(index, if has_path { Reach::Paths(Vec::new()) } else { Reach::All })
            }
        }
    }

    /// Whether a task would change nothing and tell nothing.
    pub(super) fn is_idle(&self, task: Task) -> bool {
        let (plan, state) = (&self.plan.streams[task.stream()], &self.state.streams[task.stream()]);
        let nobody = if plan.is_parameterised() { state.instances.len() == 0 } else { !state.alive };
        match task {
            Task::Spawn(_) => false,
            Task::Evaluate(index) => {
                let silent = !self.tells[index] || state.holders.is_empty();
                nobody || (plan.eval.remembers && state.evaluate.is_clean() && silent)
            }
            Task::Close(_) => {
                let remembers = plan.close.as_ref().is_some_and(|close| close.remembers);
                nobody || (remembers && state.close.is_clean())
            }
        }
    }

    fn run(&mut self, stream: usize, program: usize) -> Result<bool, Failed> {
        run(&self.plan, &mut self.state, program).map_err(|failure| Failed { stream, failure })
    }

    fn touch(&mut self, stream: usize) {
        if !self.touched.contains(&stream) {
            self.touched.push(stream);
        }
    }

    fn spawn(&mut self, index: usize) -> Result<(), Failed> {
        let Some(spawn) = &self.plan.streams[index].spawn else { return Ok(()) };
        let (program, key) = (spawn.program, spawn.key as usize);
        if !self.run(index, program)? {
            return Ok(());
        }
        let plan = &self.plan.streams[index];
        let key = key..key + plan.param_width;
        let state = &mut self.state.streams[index];
        let (slot, born) = if plan.is_parameterised() {
            if state.instances.find(&self.state.frame[key.clone()]).is_some() {
                return Ok(());
            }
            let slot = state.instances.spawn(&self.state.frame[key.clone()]);
            (slot, state.instances.born(slot))
        } else {
            if state.alive {
                return Ok(());
            }
            state.alive = true;
            state.spawns += 1;
            state.evaluate.all = true;
            state.close.all = true;
            (WHOLE, state.spawns)
        };
        if plan.is_parameterised() {
            if plan.eval.remembers {
                state.mark(slot, false);
            }
            if plan.close.as_ref().is_some_and(|close| close.remembers) {
                state.mark(slot, true);
            }
        }
        if plan.knows_its_spawn {
            if state.since.len() <= slot as usize {
                state.since.resize(slot as usize + 1, [0; 2]);
            }
            state.since[slot as usize] = [self.state.now, self.state.instant];
        }
        let due = |period: u64| Due { at: self.state.now.saturating_add(period), slot, born };
        if let Pacing::Local(period) = plan.eval.pacing {
            state.evaluate_clock.add(due(period));
        }
        if let Some(Pacing::Local(period)) = plan.close.as_ref().map(|close| &close.pacing) {
            state.close_clock.add(due(*period));
        }
        if self.tells[index] {
            state.spawned.push(slot);
        }
        if plan.is_parameterised() {
            for window in &plan.windows {
                self.state.windows[*window].spawn(slot, &self.state.frame[key.clone()]);
            }
        }
        if self.tells[index] {
            self.touch(index);
        }
        Ok(())
    }

    /// A stream without instances, or those instances for which something has changed, or all.
    fn evaluate(&mut self, index: usize) -> Result<(), Failed> {
        let plan = &self.plan.streams[index];
        let (remembers, whole) = (plan.eval.remembers, !plan.is_parameterised());
        let state = &mut self.state.streams[index];
        if whole && !state.alive {
            return Ok(());
        }
        if !remembers {
            if whole {
                return self.evaluate_one(index, WHOLE);
            }
            for slot in 0..state.instances.slots() {
                if self.state.streams[index].instances.is_live(slot) {
                    self.evaluate_one(index, slot)?;
                }
            }
            return Ok(());
        }
        if !state.evaluate.is_clean() {
            let all = std::mem::take(&mut state.evaluate.all);
            let mut slots = std::mem::take(&mut state.evaluate.slots);
            if whole {
                self.evaluate_one(index, WHOLE)?;
            } else if all {
                for slot in 0..state.instances.slots() {
                    if self.state.streams[index].instances.is_live(slot) {
                        self.state.streams[index].instances.set(slot, flag::EVALUATE, false);
                        self.evaluate_one(index, slot)?;
                    }
                }
            } else {
                // A slot that was used again since is listed twice. All flags are cleared before the
                // first evaluation, which may set them again for the next time.
                let instances = &mut state.instances;
                slots.retain(|slot| instances.is_live(*slot) && instances.set(*slot, flag::EVALUATE, false));
                for slot in &slots {
                    self.evaluate_one(index, *slot)?;
                }
            }
            // Whatever was marked meanwhile is for the next time.
            slots.clear();
            let again = std::mem::replace(&mut self.state.streams[index].evaluate.slots, slots);
            self.state.streams[index].evaluate.slots.extend(again);
        }
        let state = &mut self.state.streams[index];
        if self.tells[index] && !state.holders.is_empty() {
            self.touch(index);
            let state = &mut self.state.streams[index];
            state.valued.clear();
            state.valued.extend(state.holders.iter().map(|(_, slot)| *slot));
        }
        Ok(())
    }

    /// The instances that the paths of clauses lead to.
    fn evaluate_candidates(&mut self, index: usize, clauses: &[usize]) -> Result<(), Failed> {
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        for clause in clauses {
            if let Some(path) = &self.plan.streams[index].eval.clauses[*clause].path {
                follow(&self.plan, &mut self.state, index, path, &mut candidates)
                    .map_err(|failure| Failed { stream: index, failure })?;
            }
        }
        let done = match candidates.as_slice() {
            [] => Ok(()),
            [slot] => self.evaluate_one(index, *slot),
            several => several.iter().try_for_each(|slot| {
                // Two clauses may lead to the same instance.
                let instances = &mut self.state.streams[index].instances;
                if instances.set(*slot, flag::CANDIDATE, true) { self.evaluate_one(index, *slot) } else { Ok(()) }
            }),
        };
        if candidates.len() > 1 {
            for slot in &candidates {
                self.state.streams[index].instances.set(*slot, flag::CANDIDATE, false);
            }
        }
        self.candidates = candidates;
        done
    }

    fn evaluate_one(&mut self, index: usize, slot: u32) -> Result<(), Failed> {
        self.set_current(index, slot);
        let plan = &self.plan.streams[index];
        let yields = run(&self.plan, &mut self.state, plan.eval.program)
            .map_err(|failure| Failed { stream: index, failure })?;
        let (remembers, whole) = (plan.eval.remembers, !plan.is_parameterised());
        if remembers && self.tells[index] {
            let state = &mut self.state.streams[index];
            let holder = if whole { (0, WHOLE) } else { (state.instances.born(slot), slot) };
            if yields {
                state.holders.insert(holder);
            } else {
                state.holders.remove(&holder);
            }
        }
        if !whole && remembers {
            self.state.streams[index].instances.set(slot, flag::HOLDS, yields);
        }
        if !yields {
            return Ok(());
        }
        let changed = if whole { self.push_whole(index)? } else { self.push_instance(index, slot)? };
        let plan = &self.plan.streams[index];
        if changed && plan.eval.reads_itself && remembers {
            let state = &mut self.state.streams[index];
            if whole {
                state.evaluate.all = true;
            } else {
                state.mark(slot, false);
            }
        }
        if !remembers && (self.tells[index] || self.plan.streams[index].lists_fresh) {
            self.touch(index);
            self.state.streams[index].valued.push(slot);
        }
        Ok(())
    }

    /// Puts the parameters of an instance into the frame.
    fn set_current(&mut self, index: usize, slot: u32) {
        let plan = &self.plan.streams[index];
        let State { frame, streams, current, since, .. } = &mut self.state;
        let state = &streams[index];
        if plan.is_parameterised() {
            let own = plan.own as usize;
            frame[own..own + plan.param_width].copy_from_slice(state.instances.params(slot));
        }
        *current = slot;
        if plan.knows_its_spawn {
            *since = state.since.get(slot as usize).copied().unwrap_or_default();
        }
    }

    /// A stream without instances has the value of its result; whether that is another one.
    fn push_whole(&mut self, index: usize) -> Result<bool, Failed> {
        let plan = &self.plan.streams[index];
        let Some(cell) = &plan.cell else { return Ok(false) };
        let number = self.plan.inputs.len() + index;
        let from = plan.eval.result as usize;
        let result = from..from + plan.width;
        let changed = self.state.cell_past(cell, number, 0) != Some(&self.state.frame[result.clone()]);
        if plan.eval.remembers && !changed {
            return Ok(false);
        }
        self.old.clear();
        self.old.extend_from_slice(&self.state.frame[result]);
        self.state.push_cell(cell, number, &self.old);
        self.fresh.push(cell.fresh);
        self.accept_windows(index, WHOLE)?;
        if changed {
            notify(&mut self.state, &self.plan.streams[index].watchers, &[], &mut self.key);
        }
        Ok(changed)
    }

    fn accept_windows(&mut self, index: usize, slot: u32) -> Result<(), Failed> {
        let plan = &self.plan.streams[index];
        let from = plan.eval.result as usize;
        let now = self.state.this_instant();
        let State { windows, strings, frame, .. } = &mut self.state;
        for number in &plan.windows {
            let (window, value) = (&self.plan.windows[*number], &frame[from..from + plan.width]);
            windows[*number]
                .accept(window, slot, value, now, strings)
                .map_err(|fault| Failed::outside(window.reader, fault))?;
        }
        Ok(())
    }

    /// An instance has the value of its stream's result; whether that is another one.
    fn push_instance(&mut self, index: usize, slot: u32) -> Result<bool, Failed> {
        let plan = &self.plan.streams[index];
        let from = plan.eval.result as usize;
        let result = from..from + plan.width;
        let instances = &mut self.state.streams[index].instances;
        let old = instances.latest(slot);
        let is_first = old.is_none();
        let changed = old != Some(&self.state.frame[result.clone()]);
        if !changed && plan.eval.remembers {
            return Ok(false);
        }
        self.old.clear();
        self.old.extend_from_slice(old.unwrap_or_default());
        instances.push(slot, &self.state.frame[result]);
        if !plan.eval.remembers {
            instances.set_fresh(slot, self.state.instant);
        }
        if changed {
            self.change_tallies(index, slot, !is_first, true)?;
            if !self.plan.streams[index].watchers.is_empty() {
                self.notify_instance(index, slot);
            }
        }
        self.accept_windows(index, slot)?;
        Ok(changed)
    }

    fn notify_instance(&mut self, index: usize, slot: u32) {
        self.old.clear();
        self.old.extend_from_slice(self.state.streams[index].instances.params(slot));
        notify(&mut self.state, &self.plan.streams[index].watchers, &self.old, &mut self.key);
    }

    /// Tells the tallies over a stream that an instance has another value than `self.old`.
    fn change_tallies(&mut self, index: usize, slot: u32, had: bool, has: bool) -> Result<(), Failed> {
        for number in &self.plan.streams[index].tallies {
            let plan = &self.plan.tallies[*number];
            if let Some(filter) = plan.filter {
                let lambda = plan.lambda as usize;
                let params = self.state.streams[index].instances.params(slot);
                self.state.frame[lambda..lambda + params.len()].copy_from_slice(params);
                let counts = run(&self.plan, &mut self.state, filter)
                    .map_err(|failure| Failed { stream: index, failure })?;
                if !counts {
                    continue;
                }
            }
            let State { streams, tallies, .. } = &mut self.state;
            let instances = &streams[index].instances;
            let (params, new) = (instances.params(slot), instances.latest(slot));
            let mut key = std::mem::take(&mut self.key);
            key.clear();
            key.extend(plan.places.iter().map(|place| params[*place]));
            let tally = &mut tallies[*number];
            let group = tally.group(&key, &plan.measures);
            let (changed, old) = (&mut self.changed, had.then_some(self.old.as_slice()));
            changed.clear();
            tally
                .change(group, slot, old, new.filter(|_| has), &plan.measures, |measure| changed.push(measure))
                .map_err(|fault| Failed::outside(index, fault))?;
            if !has {
                tally.tidy(group);
            }
            for measure in &self.changed {
                notify(&mut self.state, &plan.watchers[*measure], &key, &mut self.watched);
            }
            self.key = key;
        }
        Ok(())
    }

    fn close(&mut self, index: usize) -> Result<(), Failed> {
        let plan = &self.plan.streams[index];
        let remembers = plan.close.as_ref().is_some_and(|close| close.remembers);
        let whole = !plan.is_parameterised();
        let state = &mut self.state.streams[index];
        if whole {
            if state.alive && (!remembers || std::mem::take(&mut state.close.all)) {
                return self.close_one(index, WHOLE);
            }
            return Ok(());
        }
        if remembers && !state.close.all {
            let slots = std::mem::take(&mut state.close.slots);
            for slot in slots {
                let instances = &mut self.state.streams[index].instances;
                if instances.is_live(slot) && instances.set(slot, flag::CLOSE, false) {
                    self.close_one(index, slot)?;
                }
            }
            return Ok(());
        }
        state.close.all = false;
        state.close.slots.clear();
        for slot in 0..state.instances.slots() {
            let instances = &mut self.state.streams[index].instances;
            if instances.is_live(slot) {
                instances.set(slot, flag::CLOSE, false);
                self.close_one(index, slot)?;
            }
        }
        Ok(())
    }

    fn close_candidates(&mut self, index: usize) -> Result<(), Failed> {
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        if let Some(path) = self.plan.streams[index].close.as_ref().and_then(|close| close.path.as_ref()) {
            follow(&self.plan, &mut self.state, index, path, &mut candidates)
                .map_err(|failure| Failed { stream: index, failure })?;
        }
        let done = candidates.iter().try_for_each(|slot| self.close_one(index, *slot));
        self.candidates = candidates;
        done
    }

    fn close_one(&mut self, index: usize, slot: u32) -> Result<(), Failed> {
        let Some(program) = self.plan.streams[index].close.as_ref().map(|close| close.program) else {
            return Ok(());
        };
        self.set_current(index, slot);
        if self.run(index, program)? && !self.state.streams[index].closing.contains(&slot) {
            self.touch(index);
            self.state.streams[index].closing.push(slot);
        }
        Ok(())
    }

    /// Ends the instances that close, once the instant has been told of.
    pub(super) fn end_instant(&mut self) -> Result<(), Failed> {
        let touched = std::mem::take(&mut self.touched);
        for index in &touched {
            let closing = std::mem::take(&mut self.state.streams[*index].closing);
            for slot in &closing {
                self.end(*index, *slot)?;
            }
            let state = &mut self.state.streams[*index];
            state.closing = closing;
            state.closing.clear();
            state.valued.clear();
            state.spawned.clear();
        }
        self.touched = touched;
        self.touched.clear();
        for fresh in self.fresh.drain(..) {
            self.state.frame[fresh as usize] = 0;
        }
        Ok(())
    }

    fn end(&mut self, index: usize, slot: u32) -> Result<(), Failed> {
        let plan = &self.plan.streams[index];
        if let Some(cell) = &plan.cell {
            let cell: Cell = cell.clone();
            let state = &mut self.state.streams[index];
            state.alive = false;
            state.holders.clear();
            self.state.clear_cell(&cell, self.plan.inputs.len() + index);
            notify(&mut self.state, &self.plan.streams[index].watchers, &[], &mut self.key);
        } else {
            let instances = &self.state.streams[index].instances;
            let latest = instances.latest(slot);
            let had = latest.is_some();
            self.old.clear();
            self.old.extend_from_slice(latest.unwrap_or_default());
            if had {
                self.change_tallies(index, slot, true, false)?;
                self.notify_instance(index, slot);
            }
            let now = self.state.now;
            let State { streams, windows, .. } = &mut self.state;
            let state = &mut streams[index];
            for window in &self.plan.streams[index].windows {
                let params = state.instances.params(slot);
                windows[*window].close(&self.plan.windows[*window], slot, params, now);
            }
            state.holders.remove(&(state.instances.born(slot), slot));
            state.instances.close(slot);
        }
        let state = &mut self.state.streams[index];
        let (instances, spawns) = (&state.instances, state.spawns);
        let whole = self.plan.streams[index].cell.is_some();
        let alive = state.alive;
        let is_live = |due: &Due| {
            if whole { alive && due.born == spawns } else { instances.born(due.slot) == due.born }
        };
        if state.evaluate_clock.next().is_some() {
            state.evaluate_clock.end(is_live);
        }
        if state.close_clock.next().is_some() {
            state.close_clock.end(is_live);
        }
        Ok(())
    }
}

/// The instances that a path leads to.
fn follow(
    plan: &Plan,
    state: &mut State,
    index: usize,
    path: &Path,
    candidates: &mut Vec<u32>,
) -> Result<(), Failure> {
    run(plan, state, path.program)?;
    let instances = &state.streams[index].instances;
    let key = path.key as usize;
    match path.route {
        Route::Lookup => {
            let width = plan.streams[index].param_width;
            candidates.extend(instances.find(&state.frame[key..key + width]));
        }
        Route::Index(number) => {
            let width = plan.streams[index].indexes[number].len();
            let mut next = instances.first(number, &state.frame[key..key + width]);
            while let Some(slot) = next {
                candidates.push(slot);
                next = instances.next(number, slot);
            }
        }
    }
    Ok(())
}

/// Something with a key has changed: marks who must be evaluated again.
fn notify(state: &mut State, watchers: &[Watcher], key: &[u64], scratch: &mut Vec<u64>) {
    for Watcher { stream, close, who } in watchers {
        let stream = &mut state.streams[*stream];
        match who {
            Who::All => {
                let dirty = if *close { &mut stream.close } else { &mut stream.evaluate };
                dirty.all = true;
            }
            Who::Instance(places) => {
                scratch.clear();
                scratch.extend(places.iter().map(|place| key[*place]));
                if let Some(slot) = stream.instances.find(scratch) {
                    stream.mark(slot, *close);
                }
            }
            Who::Index(index, places) => {
                scratch.clear();
                scratch.extend(places.iter().map(|place| key[*place]));
                let mut next = stream.instances.first(*index, scratch);
                while let Some(slot) = next {
                    stream.mark(slot, *close);
                    next = stream.instances.next(*index, slot);
                }
            }
        }
    }
}
