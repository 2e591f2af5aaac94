//! One instant: spawn, evaluate, tell, close.

use std::rc::Rc;

use hashbrown::HashMap;

use super::code::Activation;
use super::fault::Fault;
use super::instances::{Instances, flag};
use super::machine::{Failure, run};
use super::plan::{Pacing, Path, Plan, Reader, Route, StreamPlan, Task, Watcher, Who};
use super::state::{Due, LocalClock, State, StreamState, WHOLE};
use super::words::{copy, same, set};

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
    /// Streams with new values at this instant, as far as somebody wants to know.
    pub(super) valued: Vec<usize>,
    /// Families of which instances were spawned or close at this instant.
    pub(super) moved: Vec<usize>,
    /// What is done at an event, by the inputs that it carries.
    steps: HashMap<u128, Rc<[Step]>>,
    /// The inputs and streams whose value is of this instant.
    fresh: Vec<u32>,
    candidates: Vec<u32>,
    key: Vec<u64>,
    watched: Vec<u64>,
    old: Vec<u64>,
    changed: Vec<usize>,
    /// How often a program was run for an instance.
    #[cfg(test)]
    pub(super) evaluations: u64,
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
            valued: Vec::new(),
            moved: Vec::new(),
            steps: HashMap::new(),
            fresh: Vec::new(),
            candidates: Vec::new(),
            key: Vec::new(),
            watched: Vec::new(),
            old: Vec::new(),
            changed: Vec::new(),
            #[cfg(test)]
            evaluations: 0,
            plan,
        }
    }

    /// Says whose verdicts are wanted from now on.
    pub(super) fn tell(&mut self, wanted: impl Fn(&StreamPlan) -> bool) -> Result<(), Failed> {
        for (index, stream) in self.plan.streams.iter().enumerate() {
            let tells = wanted(stream);
            if tells == self.tells[index] {
                continue;
            }
            self.tells[index] = tells;
            if tells && self.state.streams[index].counts {
                keep_count(&self.plan, &mut self.state, index)?;
            }
            let instances = &self.state.families[stream.family].instances;
            let state = &mut self.state.streams[index];
            state.holders.clear();
            if !tells || !stream.eval.remembers {
                continue;
            }
            match stream.cell {
                Some(_) if state.holds => state.holders.extend([(0, WHOLE)]),
                Some(_) => {}
                None => {
                    let holds = |slot: &u32| instances.has(*slot, stream.member, flag::HOLDS);
                    let holding = instances.live_slots().filter(holds);
                    state.holders = holding.map(|slot| (instances.born(slot), slot)).collect();
                }
            }
        }
        Ok(())
    }

    /// Goes on from another state.
    pub(super) fn resume(&mut self, state: State) {
        self.state = state;
        self.fresh.clear();
        self.valued.clear();
        self.moved.clear();
        // Who holds a value at present is found anew when somebody is told.
        self.tells.fill(false);
    }

    /// Lets counters tell their values from the clock where nobody is told of each. Only before the
    /// first instance.
    pub(super) fn start_counting(&mut self) {
        for (index, stream) in self.plan.streams.iter().enumerate() {
            if stream.eval.counter.is_some()
                && !self.tells[index]
                && self.state.families[stream.family].instances.len() == 0
                && !self.state.streams[index].counts
            {
                self.state.streams[index].counts = true;
                self.state.streams[index].wakes =
                    stream.eval.wakes.iter().map(|_| LocalClock::default()).collect();
            }
        }
    }

    pub(super) fn start_instant(&mut self, now: u64) {
        self.state.now = now;
        self.state.instant += 1;
        self.state.present = 0;
    }

    /// An input has a value.
    #[inline]
    pub(super) fn accept(&mut self, input: usize, value: &[u64]) -> Result<(), Failed> {
        let cell = &self.plan.inputs[input];
        self.state.present |= 1 << input;
        let watchers = &self.plan.input_watchers[input];
        if !watchers.is_empty() && self.state.cell_past(cell, input, 0) != Some(value) {
            notify(&mut self.state, &self.plan, watchers, &[], WHOLE, &mut self.watched);
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
        const MANY: usize = 4096;
        let present = self.state.present;
        let steps = match self.steps.get(&present) {
            Some(steps) => Rc::clone(steps),
            None => {
                let steps: Rc<[Step]> = self.steps_of(present).into();
                if self.steps.len() >= MANY {
                    self.steps.clear();
                }
                self.steps.insert(present, Rc::clone(&steps));
                steps
            }
        };
        steps.iter().try_for_each(|step| self.step(step))
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
    pub(super) fn step_of(&self, task: Task, present: u128) -> Step {
        match task {
            Task::Spawn(family) => Step::Spawn(family),
            Task::Evaluate(stream) => Step::Evaluate(stream, self.reach(&self.plan.streams[stream], present)),
            Task::Close(family) => {
                let plan = &self.plan.families[family];
                let has_path = plan.close.as_ref().is_some_and(|close| close.path.is_some());
                let reach =
                    if has_path && plan.is_parameterised { Reach::Paths(Vec::new()) } else { Reach::All };
                Step::Close(family, reach)
            }
        }
    }

    /// The paths of the clauses that are active, if each of them has one.
    fn reach(&self, stream: &StreamPlan, present: u128) -> Reach {
        let mut paths = Vec::new();
        for (index, clause) in stream.eval.clauses.iter().enumerate() {
            let when = clause.activation.map_or(&Activation::Always, |at| &self.plan.activations[at]);
            match &clause.path {
                _ if !when.holds(present) => {}
                Some(_) if stream.is_parameterised() => paths.push(index),
                _ => return Reach::All,
            }
        }
        Reach::Paths(paths)
    }

    pub(super) fn step(&mut self, step: &Step) -> Result<(), Failed> {
        match step {
            Step::Spawn(family) => self.spawn(*family),
            Step::Evaluate(stream, Reach::One(slot)) => self.evaluate_one(*stream, *slot),
            Step::Evaluate(stream, Reach::Paths(clauses)) => self.evaluate_candidates(*stream, clauses),
            Step::Evaluate(stream, Reach::All) => self.evaluate(*stream),
            Step::Close(family, Reach::One(slot)) => self.close_one(*family, *slot),
            Step::Close(family, Reach::Paths(_)) => self.close_candidates(*family),
            Step::Close(family, Reach::All) => self.close(*family),
        }
    }

    /// Whether a task would change nothing and tell nothing.
    pub(super) fn is_idle(&self, task: Task) -> bool {
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
            Task::Evaluate(index) => {
                let (plan, state) = (&self.plan.streams[index], &self.state.streams[index]);
                if state.counts {
                    return true;
                }
                if plan.eval.guard.is_some() {
                    return nobody(plan.family) || state.evaluate.is_clean();
                }
                let silent = !self.tells[index] || state.holders.is_empty();
                nobody(plan.family) || (plan.eval.remembers && state.evaluate.is_clean() && silent)
            }
            Task::Close(family) => {
                let remembers =
                    self.plan.families[family].close.as_ref().is_some_and(|close| close.remembers);
                nobody(family) || (remembers && self.state.families[family].close.is_clean())
            }
        }
    }

    /// The stream of a family that errors name.
    fn first_member(&self, family: usize) -> usize {
        self.plan.families[family].members.first().copied().unwrap_or_default()
    }

    fn spawn(&mut self, index: usize) -> Result<(), Failed> {
        let plan = &self.plan.families[index];
        let Some(spawn) = &plan.spawn else { return Ok(()) };
        if let Some(program) = spawn.program {
            let yields = run(&self.plan, &mut self.state, program)
                .map_err(|failure| Failed { stream: self.first_member(index), failure })?;
            if !yields {
                return Ok(());
            }
        }
        let State { families, streams, windows, frame, now, instant, .. } = &mut self.state;
        let state = &mut families[index];
        let key = &frame[spawn.key as usize..spawn.key as usize + plan.param_width];
        let (slot, born) = if plan.is_parameterised {
            if state.instances.find(key).is_some() {
                return Ok(());
            }
            let slot = state.instances.spawn(key);
            (slot, state.instances.born(slot))
        } else {
            if state.alive {
                return Ok(());
            }
            state.alive = true;
            state.spawns += 1;
            state.close.all = true;
            (WHOLE, state.spawns)
        };
        if plan.knows_its_spawn {
            if state.since.len() <= slot as usize {
                state.since.resize(slot as usize + 1, [0; 2]);
            }
            state.since[slot as usize] = [*now, *instant];
        }
        let due = |period: u64| Due { at: now.saturating_add(period), slot, born };
        if let Some(close) = &plan.close {
            if let Pacing::Local(period) = close.pacing {
                state.close_clock.add(due(period));
            }
            if close.remembers && plan.is_parameterised {
                state.mark_close(slot);
            }
        }
        let mut tells = false;
        for member in &plan.members {
            let stream = &self.plan.streams[*member];
            tells |= self.tells[*member];
            if let Pacing::Local(period) = stream.eval.pacing {
                streams[*member].evaluate_clock.add(due(period));
            }
            if !plan.is_parameterised {
                streams[*member].evaluate.all = true;
            } else {
                if streams[*member].counts {
                    begin_count(stream, &mut streams[*member], &mut state.instances, slot, *now, *instant);
                } else if stream.eval.remembers || stream.eval.guard.is_some() {
                    streams[*member].mark(&mut state.instances, slot, stream.member);
                }
                stream.windows.iter().for_each(|window| windows[*window].spawn(slot, key));
            }
        }
        if tells {
            state.spawned.push(slot);
            self.moved.push(index);
        }
        Ok(())
    }

    /// A stream without instances, or those instances for which something has changed, or all.
    fn evaluate(&mut self, index: usize) -> Result<(), Failed> {
        let plan = &self.plan.streams[index];
        let state = &self.state.streams[index];
        if plan.eval.remembers && state.evaluate.is_clean() && state.holders.is_empty() {
            return Ok(());
        }
        if state.counts {
            return self.tick(index);
        }
        let (family, member) = (plan.family, plan.member);
        let (remembers, whole) = (plan.eval.remembers, !plan.is_parameterised());
        let picks = remembers || plan.eval.guard.is_some();
        if whole && !self.state.families[family].alive {
            return Ok(());
        }
        if !picks {
            if whole {
                return self.evaluate_one(index, WHOLE);
            }
            for slot in 0..self.state.families[family].instances.slots() {
                if self.state.families[family].instances.is_live(slot) {
                    self.evaluate_one(index, slot)?;
                }
            }
            return Ok(());
        }
        let state = &mut self.state.streams[index];
        if let ([slot], false) = (state.evaluate.slots.as_slice(), state.evaluate.all || whole) {
            let slot = *slot;
            state.evaluate.slots.clear();
            let instances = &mut self.state.families[family].instances;
            if instances.is_live(slot) && instances.set(slot, member, flag::EVALUATE, false) {
                self.evaluate_one(index, slot)?;
            }
        } else if !state.evaluate.is_clean() {
            let all = std::mem::take(&mut state.evaluate.all);
            let mut slots = std::mem::take(&mut state.evaluate.slots);
            let instances = &mut self.state.families[family].instances;
            if whole {
                slots.clear();
                slots.push(WHOLE);
            } else if all {
                slots.clear();
                slots.extend(instances.live_slots());
                slots.iter().for_each(|slot| {
                    instances.set(*slot, member, flag::EVALUATE, false);
                });
            } else {
                // A slot that was used again since is listed twice. All flags are cleared before the
                // first evaluation, which may set them again for the next time.
                slots.retain(|slot| {
                    instances.is_live(*slot) && instances.set(*slot, member, flag::EVALUATE, false)
                });
            }
            for slot in &slots {
                self.evaluate_one(index, *slot)?;
            }
            slots.clear();
            // Whatever was marked meanwhile is for the next time.
            let state = &mut self.state.streams[index];
            if state.evaluate.slots.is_empty() {
                state.evaluate.slots = slots;
            }
        }
        if remembers && self.tells[index] && !self.state.streams[index].holders.is_empty() {
            self.valued.push(index);
            let state = &mut self.state.streams[index];
            state.valued.clear();
            state.valued.extend(state.holders.iter().map(|(_, slot)| *slot));
        }
        Ok(())
    }

    /// A tick of a counter: those who must look again do so.
    fn tick(&mut self, index: usize) -> Result<(), Failed> {
        let plan = &self.plan.streams[index];
        let Some(counter) = plan.eval.counter else { return Ok(()) };
        let family = plan.family;
        self.state.streams[index].ticked = self.state.instant;
        let ticks = self.state.now / counter.period;
        for number in 0..self.state.streams[index].wakes.len() {
            while let Some(due) = self.state.streams[index].wakes[number].take(ticks) {
                if self.state.families[family].instances.born(due.slot) == due.born {
                    self.notify_instance(index, due.slot);
                }
            }
        }
        Ok(())
    }

    /// The instances that the paths of clauses lead to.
    fn evaluate_candidates(&mut self, index: usize, clauses: &[usize]) -> Result<(), Failed> {
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        let plan = &self.plan.streams[index];
        let (family, member) = (plan.family, plan.member);
        for clause in clauses {
            if let Some(path) = &plan.eval.clauses[*clause].path {
                follow(&self.plan, &mut self.state, family, path, &mut candidates)
                    .map_err(|failure| Failed { stream: index, failure })?;
            }
        }
        let done = match candidates.as_slice() {
            [] => Ok(()),
            [slot] => self.evaluate_one(index, *slot),
            several => {
                // Two clauses may lead to the same instance.
                let done = several.iter().try_for_each(|slot| {
                    let instances = &mut self.state.families[family].instances;
                    let is_new = instances.set(*slot, member, flag::CANDIDATE, true);
                    if is_new { self.evaluate_one(index, *slot) } else { Ok(()) }
                });
                for slot in several {
                    self.state.families[family].instances.set(*slot, member, flag::CANDIDATE, false);
                }
                done
            }
        };
        self.candidates = candidates;
        done
    }

    fn evaluate_one(&mut self, index: usize, slot: u32) -> Result<(), Failed> {
        #[cfg(test)]
        {
            self.evaluations += 1;
        }
        let plan = &self.plan.streams[index];
        set_current(&mut self.state, plan, self.plan.families[plan.family].knows_its_spawn, slot);
        let yields = run(&self.plan, &mut self.state, plan.eval.program)
            .map_err(|failure| Failed { stream: index, failure })?;
        let (remembers, whole) = (plan.eval.remembers, !plan.is_parameterised());
        if remembers {
            let state = &mut self.state.streams[index];
            let instances = &mut self.state.families[plan.family].instances;
            let changed = if whole {
                std::mem::replace(&mut state.holds, yields) != yields
            } else {
                instances.set(slot, plan.member, flag::HOLDS, yields)
            };
            if changed && self.tells[index] {
                let holder = if whole { (0, WHOLE) } else { (instances.born(slot), slot) };
                if yields {
                    state.holders.insert(holder);
                } else {
                    state.holders.remove(&holder);
                }
            }
        }
        if let Some(guard) = plan.eval.guard
            && self.state.frame[guard as usize] != 0
        {
            // What comes after its first conditions may change without notice.
            let instances = &mut self.state.families[plan.family].instances;
            self.state.streams[index].mark(instances, slot, plan.member);
        }
        if !yields {
            return Ok(());
        }
        let reads_itself = plan.eval.reads_itself && remembers;
        let lists = !remembers && (self.tells[index] || plan.lists_fresh);
        let (family, member) = (plan.family, plan.member);
        let changed = if whole { self.push_whole(index)? } else { self.push_instance(index, slot)? };
        if changed && reads_itself {
            let state = &mut self.state.streams[index];
            if whole {
                state.evaluate.all = true;
            } else {
                state.mark(&mut self.state.families[family].instances, slot, member);
            }
        }
        if lists {
            let valued = &mut self.state.streams[index].valued;
            if valued.is_empty() {
                self.valued.push(index);
            }
            valued.push(slot);
        }
        Ok(())
    }

    /// A stream without instances has the value of its result; whether that is another one.
    fn push_whole(&mut self, index: usize) -> Result<bool, Failed> {
        let plan = &self.plan.streams[index];
        let Some(cell) = &plan.cell else { return Ok(false) };
        let number = self.plan.inputs.len() + index;
        let result = plan.result();
        let old = self.state.cell_past(cell, number, 0);
        let changed = old.is_none_or(|old| !same(old, &self.state.frame[result.clone()]));
        if plan.eval.remembers && !changed {
            return Ok(false);
        }
        set(&mut self.old, &self.state.frame[result]);
        self.state.push_cell(cell, number, &self.old);
        self.fresh.push(cell.fresh);
        if !plan.windows.is_empty() {
            self.accept_windows(index, WHOLE)?;
        }
        if changed {
            let watchers = &self.plan.streams[index].watchers;
            notify(&mut self.state, &self.plan, watchers, &[], WHOLE, &mut self.watched);
        }
        Ok(changed)
    }

    fn accept_windows(&mut self, index: usize, slot: u32) -> Result<(), Failed> {
        let plan = &self.plan.streams[index];
        let now = self.state.this_instant();
        let State { windows, strings, frame, .. } = &mut self.state;
        for number in &plan.windows {
            let window = &self.plan.windows[*number];
            windows[*number]
                .accept(window, slot, &frame[plan.result()], now, strings)
                .map_err(|fault| Failed::outside(window.reader, fault))?;
        }
        Ok(())
    }

    /// An instance has the value of its stream's result; whether that is another one.
    fn push_instance(&mut self, index: usize, slot: u32) -> Result<bool, Failed> {
        let plan = &self.plan.streams[index];
        let result = plan.result();
        let instances = &mut self.state.families[plan.family].instances;
        let old = instances.latest(slot, plan.member);
        let had = old.is_some();
        let changed = old.is_none_or(|old| !same(old, &self.state.frame[result.clone()]));
        if !changed && plan.eval.remembers {
            return Ok(false);
        }
        set(&mut self.old, old.unwrap_or_default());
        instances.push(slot, plan.member, &self.state.frame[result]);
        instances.set_fresh(slot, plan.member, self.state.instant);
        let has_windows = !plan.windows.is_empty();
        if changed {
            if !plan.tallies.is_empty() {
                self.change_tallies(index, slot, had, true)?;
            }
            self.notify_instance(index, slot);
        }
        if has_windows {
            self.accept_windows(index, slot)?;
        }
        Ok(changed)
    }

    fn notify_instance(&mut self, index: usize, slot: u32) {
        let plan = &self.plan.streams[index];
        if plan.watchers.is_empty() {
            return;
        }
        set(&mut self.key, self.state.families[plan.family].instances.params(slot));
        notify(&mut self.state, &self.plan, &plan.watchers, &self.key, slot, &mut self.watched);
    }

    /// Tells the tallies over a stream that an instance has another value than `self.old`, if it
    /// had that, and that it has one now, if it has.
    fn change_tallies(&mut self, index: usize, slot: u32, had: bool, has: bool) -> Result<(), Failed> {
        let stream = &self.plan.streams[index];
        for number in &stream.tallies {
            let plan = &self.plan.tallies[*number];
            if let Some(filter) = plan.filter {
                let lambda = plan.lambda as usize;
                let params = self.state.families[stream.family].instances.params(slot);
                self.state.frame[lambda..lambda + params.len()].copy_from_slice(params);
                let counts = run(&self.plan, &mut self.state, filter)
                    .map_err(|failure| Failed { stream: index, failure })?;
                if !counts {
                    continue;
                }
            }
            let State { families, tallies, .. } = &mut self.state;
            let instances = &families[stream.family].instances;
            let params = instances.params(slot);
            let new = if has { instances.latest(slot, stream.member) } else { None };
            self.key.clear();
            for place in &plan.places {
                self.key.push(params[*place]);
            }
            let tally = &mut tallies[*number];
            let group = tally.group(&self.key, &plan.measures);
            let (changed, old) = (&mut self.changed, had.then_some(self.old.as_slice()));
            changed.clear();
            tally
                .change(group, slot, old, new, &plan.measures, |measure| changed.push(measure))
                .map_err(|fault| Failed::outside(index, fault))?;
            if !has {
                tally.tidy(group);
            }
            for measure in &self.changed {
                let watchers = &plan.watchers[*measure];
                notify(&mut self.state, &self.plan, watchers, &self.key, WHOLE, &mut self.watched);
            }
        }
        Ok(())
    }

    fn close(&mut self, index: usize) -> Result<(), Failed> {
        let plan = &self.plan.families[index];
        let remembers = plan.close.as_ref().is_some_and(|close| close.remembers);
        let state = &mut self.state.families[index];
        if !plan.is_parameterised {
            if state.alive && (!remembers || std::mem::take(&mut state.close.all)) {
                return self.close_one(index, WHOLE);
            }
            return Ok(());
        }
        let all = !remembers || std::mem::take(&mut state.close.all);
        let mut slots = std::mem::take(&mut state.close.slots);
        if all {
            slots.clear();
            slots.extend(state.instances.live_slots());
            slots.iter().for_each(|slot| {
                state.instances.set(*slot, 0, flag::CLOSE, false);
            });
        } else {
            let instances = &mut state.instances;
            slots.retain(|slot| instances.is_live(*slot) && instances.set(*slot, 0, flag::CLOSE, false));
        }
        for slot in &slots {
            self.close_one(index, *slot)?;
        }
        slots.clear();
        let state = &mut self.state.families[index];
        if state.close.slots.is_empty() {
            state.close.slots = slots;
        }
        Ok(())
    }

    fn close_candidates(&mut self, index: usize) -> Result<(), Failed> {
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        if let Some(path) = self.plan.families[index].close.as_ref().and_then(|close| close.path.as_ref()) {
            follow(&self.plan, &mut self.state, index, path, &mut candidates)
                .map_err(|failure| Failed { stream: self.first_member(index), failure })?;
        }
        let done = candidates.iter().try_for_each(|slot| self.close_one(index, *slot));
        self.candidates = candidates;
        done
    }

    fn close_one(&mut self, index: usize, slot: u32) -> Result<(), Failed> {
        #[cfg(test)]
        {
            self.evaluations += 1;
        }
        let plan = &self.plan.families[index];
        let first = self.first_member(index);
        let Some(close) = &plan.close else { return Ok(()) };
        set_current(&mut self.state, &self.plan.streams[first], plan.knows_its_spawn, slot);
        let closes = run(&self.plan, &mut self.state, close.program)
            .map_err(|failure| Failed { stream: first, failure })?;
        if closes {
            self.state.families[index].closing.push(slot);
            self.moved.push(index);
        }
        Ok(())
    }

    /// Ends the instances that close, once the instant has been told of.
    pub(super) fn end_instant(&mut self) -> Result<(), Failed> {
        for index in self.valued.drain(..) {
            self.state.streams[index].valued.clear();
        }
        let mut moved = std::mem::take(&mut self.moved);
        for index in moved.drain(..) {
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
        for fresh in self.fresh.drain(..) {
            self.state.frame[fresh as usize] = 0;
        }
        Ok(())
    }

    fn end(&mut self, index: usize, slot: u32) -> Result<(), Failed> {
        let members = std::mem::take(&mut self.plan.families[index].members);
        let ended = members.iter().try_for_each(|member| self.end_member(*member, slot));
        self.plan.families[index].members = members;
        ended?;
        let (plan, family) = (&self.plan.families[index], &mut self.state.families[index]);
        if plan.is_parameterised {
            family.instances.close(slot);
        } else {
            family.alive = false;
        }
        let (instances, alive, spawns) = (&family.instances, family.alive, family.spawns);
        let is_live = |due: &Due| {
            if plan.is_parameterised {
                instances.born(due.slot) == due.born
            } else {
                alive && due.born == spawns
            }
        };
        family.close_clock.end(is_live);
        for member in &plan.members {
            let state = &mut self.state.streams[*member];
            state.evaluate_clock.end(is_live);
            state.wakes.iter_mut().for_each(|wake| wake.end(is_live));
        }
        Ok(())
    }

    fn end_member(&mut self, index: usize, slot: u32) -> Result<(), Failed> {
        let plan = &self.plan.streams[index];
        if let Some(cell) = &plan.cell {
            self.state.streams[index].holders.clear();
            self.state.streams[index].holds = false;
            self.state.clear_cell(cell, self.plan.inputs.len() + index);
            notify(&mut self.state, &self.plan, &plan.watchers, &[], WHOLE, &mut self.watched);
            return Ok(());
        }
        let instances = &self.state.families[plan.family].instances;
        self.state.streams[index].holders.remove(&(instances.born(slot), slot));
        if self.state.streams[index].counts {
            self.notify_instance(index, slot);
        } else if let Some(latest) = instances.latest(slot, plan.member) {
            self.old.clear();
            self.old.extend_from_slice(latest);
            self.change_tallies(index, slot, true, false)?;
            self.notify_instance(index, slot);
        }
        let plan = &self.plan.streams[index];
        let State { families, windows, now, .. } = &mut self.state;
        for window in &plan.windows {
            let params = families[plan.family].instances.params(slot);
            windows[*window].close(&self.plan.windows[*window], slot, params, *now);
        }
        Ok(())
    }
}

/// Notes when an instance of a counter was spawned, and when its readers must look again.
fn begin_count(
    plan: &StreamPlan,
    state: &mut StreamState,
    instances: &mut Instances,
    slot: u32,
    now: u64,
    instant: u64,
) {
    let Some(counter) = &plan.eval.counter else { return };
    let ticked = state.ticked == instant;
    let ticks = if ticked { now / counter.period } else { now.saturating_sub(1) / counter.period };
    instances.set_note(slot, plan.member, ticks);
    let born = instances.born(slot);
    for (wake, after) in state.wakes.iter_mut().zip(&plan.eval.wakes) {
        wake.add(Due { at: ticks.saturating_add(*after), slot, born });
    }
}

/// From now on a counter's values are kept, because somebody is told of each.
fn keep_count(plan: &Plan, state: &mut State, index: usize) -> Result<(), Failed> {
    let stream = &plan.streams[index];
    let slots: Vec<u32> = state.families[stream.family].instances.live_slots().collect();
    for slot in slots {
        let value = state.count(plan, index, slot).map_err(|fault| Failed::outside(index, fault))?;
        if let Some(value) = value {
            state.families[stream.family].instances.push(slot, stream.member, &[value]);
        }
    }
    let state = &mut state.streams[index];
    state.counts = false;
    state.wakes.clear();
    state.evaluate.all = true;
    Ok(())
}

/// Puts the parameters of an instance into the frame.
#[inline]
fn set_current(state: &mut State, plan: &StreamPlan, knows_its_spawn: bool, slot: u32) {
    let State { frame, families, current, since, .. } = state;
    let family = &families[plan.family];
    if plan.is_parameterised() {
        let own = plan.own as usize;
        copy(family.instances.params(slot), &mut frame[own..own + plan.param_width]);
    }
    *current = slot;
    if knows_its_spawn {
        *since = family.since.get(slot as usize).copied().unwrap_or_default();
    }
}

/// The instances of a family that a path leads to.
fn follow(
    plan: &Plan,
    state: &mut State,
    family: usize,
    path: &Path,
    candidates: &mut Vec<u32>,
) -> Result<(), Failure> {
    if let Some(program) = path.program {
        run(plan, state, program)?;
    }
    let instances = &state.families[family].instances;
    let key = path.key as usize;
    match path.route {
        Route::Lookup => {
            let width = plan.families[family].param_width;
            candidates.extend(instances.find(&state.frame[key..key + width]));
        }
        Route::Index(number) => {
            let width = plan.families[family].indexes[number].len();
            let mut next = instances.first(number, &state.frame[key..key + width]);
            while let Some(slot) = next {
                candidates.push(slot);
                next = instances.next(number, slot);
            }
        }
    }
    Ok(())
}

/// Something with a key, in a slot, has changed: marks who must be evaluated again.
fn notify(
    state: &mut State,
    plan: &Plan,
    watchers: &[Watcher],
    key: &[u64],
    slot: u32,
    scratch: &mut Vec<u64>,
) {
    for Watcher { reader, who } in watchers {
        let family = match reader {
            Reader::Stream(stream) => plan.streams[*stream].family,
            Reader::Family(family) => *family,
        };
        let State { families, streams, .. } = state;
        let family = &mut families[family];
        if let Who::Instance(places) | Who::Index(_, places) = who {
            scratch.clear();
            for place in places {
                scratch.push(key[*place]);
            }
        }
        let (mut next, index) = match who {
            Who::All => {
                match reader {
                    Reader::Stream(stream) => streams[*stream].evaluate.all = true,
                    Reader::Family(_) => family.close.all = true,
                }
                continue;
            }
            Who::Slot => (Some(slot), None),
            Who::Instance(_) => (family.instances.find(scratch), None),
            Who::Index(index, _) => (family.instances.first(*index, scratch), Some(*index)),
        };
        while let Some(slot) = next {
            match reader {
                Reader::Stream(stream) => {
                    streams[*stream].mark(&mut family.instances, slot, plan.streams[*stream].member);
                }
                Reader::Family(_) => family.mark_close(slot),
            }
            next = index.and_then(|index| family.instances.next(index, slot));
        }
    }
}
