//! New values: whose turn it is, what a program says, and what follows from it.

use crate::compiled::exec::bytecode::{Failure, run};
use crate::compiled::exec::instant::{Evaluator, Failed};
use crate::compiled::exec::propagate::{Changed, mark_dependents};
use crate::compiled::ir::plan::{Path, Plan, Route, StreamPlan};
use crate::compiled::store::slab::flag;
use crate::compiled::store::state::{State, WHOLE};
use crate::compiled::store::words::{copy, same, set};

impl Evaluator {
    /// Those for which something has changed.
    #[inline(always)]
    pub(crate) fn evaluate_changed(&mut self, index: usize) -> Result<(), Box<Failed>> {
        let state = &mut self.state.streams[index];
        if state.evaluate.is_clean() && state.current_holders.is_empty() {
            return Ok(());
        }
        self.evaluate(index)
    }

    /// A stream without instances, or those instances for which something has changed, or all.
    pub(crate) fn evaluate(&mut self, index: usize) -> Result<(), Box<Failed>> {
        let plan = &self.plan.streams[index];
        let state = &mut self.state.streams[index];
        if let Some(slot) = state.evaluate.take_only() {
            let instances = &mut self.state.families[plan.family].instances;
            if instances.is_live(slot) && instances.lower(slot, plan.member.state(), flag::EVALUATE) {
                self.evaluate_one(index, slot)?;
            }
        } else {
            self.evaluate_each(index)?;
        }
        if self.tells[index] {
            self.emit_held_values(index);
        }
        Ok(())
    }

    fn evaluate_each(&mut self, index: usize) -> Result<(), Box<Failed>> {
        let plan = &self.plan.streams[index];
        let state = &mut self.state.streams[index];
        if state.counts {
            self.tick(index);
            return Ok(());
        }
        let family = plan.family;
        let only_changed = plan.eval.incremental || plan.eval.guard.is_some();
        if !plan.is_parameterised() {
            let is_due = !only_changed || std::mem::take(&mut state.evaluate.all);
            let is_alive = self.state.families[family].alive;
            return if is_due && is_alive { self.evaluate_one(index, WHOLE) } else { Ok(()) };
        }
        let instances = &mut self.state.families[family].instances;
        if only_changed {
            let mut slots = std::mem::take(&mut self.listed);
            state.evaluate.take(instances, plan.member, flag::EVALUATE, &mut slots);
            let done = slots.iter().try_for_each(|slot| self.evaluate_one(index, *slot));
            self.listed = slots;
            return done;
        }
        for slot in 0..instances.slots() {
            if self.state.families[family].instances.is_live(slot) {
                self.evaluate_one(index, slot)?;
            }
        }
        Ok(())
    }

    /// Those whose clock says so.
    pub(crate) fn evaluate_expired(
        &mut self,
        index: usize,
        instance_timer: usize,
    ) -> Result<(), Box<Failed>> {
        let slots = std::mem::take(&mut self.expired[instance_timer]);
        let done = slots.iter().try_for_each(|slot| self.evaluate_one(index, *slot));
        self.expired[instance_timer] = slots;
        done
    }

    /// Whoever holds a value is told of each time, also where it was not evaluated again.
    pub(crate) fn emit_held_values(&mut self, index: usize) {
        let plan = &self.plan.streams[index];
        let state = &mut self.state.streams[index];
        if state.current_holders.is_empty() || !plan.eval.incremental {
            return;
        }
        self.valued.push(index);
        // Whoever is always there need not be listed.
        if plan.is_parameterised() || self.plan.families[plan.family].spawn.is_some() {
            state.valued.clear();
            state.valued.extend(state.current_holders.slots());
        }
    }

    /// The instances that the paths of clauses lead to.
    pub(crate) fn evaluate_candidates(&mut self, index: usize, clauses: &[usize]) -> Result<(), Box<Failed>> {
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        let plan = &self.plan.streams[index];
        let (family, member) = (plan.family, plan.member);
        for clause in clauses {
            if let Some(path) = &plan.eval.clauses[*clause].path {
                follow(&self.plan, &mut self.state, family, path, &mut candidates)
                    .map_err(|failure| Failed::new(index, failure))?;
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

    /// Evaluates a stream that does not go the [short way](crate::compiled::exec::update_rule), or one of its instances.
    #[inline(never)]
    pub(crate) fn evaluate_in_full(&mut self, index: usize, slot: u32) -> Result<(), Box<Failed>> {
        let plan = &self.plan.streams[index];
        set_current(&mut self.state, plan, slot);
        let yields = run(&self.plan, &mut self.state, plan.eval.program)
            .map_err(|failure| Failed::new(index, failure))?;
        let whole = !plan.is_parameterised();
        if plan.eval.incremental {
            let state = &mut self.state.streams[index];
            let instances = &mut self.state.families[plan.family].instances;
            let changed = if whole {
                std::mem::replace(&mut state.holds, yields) != yields
            } else {
                instances.set(slot, plan.member, flag::HOLDS, yields)
            };
            if changed && self.tells[index] && self.repeats[index] {
                self.hold(index, slot, yields);
            }
        }
        let mut changed = false;
        if yields {
            changed = if whole { self.push_whole(index)? } else { self.push_instance(index, slot)? };
        }
        if !self.is_plain[index] {
            self.reschedule_self(index, slot, yields, changed);
        }
        Ok(())
    }

    /// Somebody holds a value, or no longer does.
    #[inline(never)]
    pub(crate) fn hold(&mut self, index: usize, slot: u32, yields: bool) {
        let plan = &self.plan.streams[index];
        let instances = &self.state.families[plan.family].instances;
        let holder = if plan.is_parameterised() { (instances.generation(slot), slot) } else { (0, WHOLE) };
        let current_holders = &mut self.state.streams[index].current_holders;
        if yields {
            current_holders.insert(holder);
        } else {
            current_holders.remove(holder);
        }
    }

    /// What an evaluation means for the next, and for those who are told of this one.
    pub(crate) fn reschedule_self(&mut self, index: usize, slot: u32, yields: bool, changed: bool) {
        let plan = &self.plan.streams[index];
        let State { windows, now, frame, families, streams, .. } = &mut self.state;
        let incremental = plan.eval.incremental;
        let is_settled = |window: &usize| windows[*window].is_settled(&self.plan.windows[*window], *now);
        // What comes after its first conditions, and what is in a window, may change without notice.
        let again = plan.eval.guard.is_some_and(|guard| frame[guard as usize] != 0)
            || (incremental && !plan.eval.windows.iter().all(is_settled))
            || (incremental && changed && plan.eval.reads_itself);
        let state = &mut streams[index];
        if again && plan.is_parameterised() {
            state.mark(&mut families[plan.family].instances, slot, plan.member.state());
        } else if again {
            state.evaluate.all = true;
        }
        let is_computed = self.tells[index] && (!incremental || !self.repeats[index]);
        if yields && (is_computed || (!incremental && plan.lists_fresh)) {
            if state.valued.is_empty() {
                self.valued.push(index);
            }
            state.valued.push(slot);
        }
    }

    /// A stream without instances has the value of its result; whether that is another one.
    #[inline]
    pub(crate) fn push_whole(&mut self, index: usize) -> Result<bool, Box<Failed>> {
        let plan = &self.plan.streams[index];
        let Some(cell) = &plan.cell else { return Ok(false) };
        let number = self.plan.inputs.len() + index;
        let frame = &self.state.frame;
        let changed = frame[cell.present as usize] == 0
            || !same(
                &frame[cell.value as usize..][..cell.width],
                &frame[plan.eval.result as usize..][..cell.width],
            );
        if plan.eval.incremental && !changed {
            return Ok(false);
        }
        let from = plan.eval.result as usize;
        self.state.push_cell(cell, number, |frame, to| match cell.width {
            1 => frame[to] = frame[from],
            width => frame.copy_within(from..from + width, to),
        });
        self.fresh.push(cell.fresh);
        if !plan.windows.is_empty() {
            self.accept_windows(index, WHOLE)?;
        }
        if changed {
            let dependents = &self.plan.streams[index].dependents;
            mark_dependents(&mut self.state, &self.plan, dependents, Changed::Whole);
        }
        Ok(changed)
    }

    /// An instance has the value of its stream's result; whether that is another one.
    #[inline]
    pub(crate) fn push_instance(&mut self, index: usize, slot: u32) -> Result<bool, Box<Failed>> {
        let plan = &self.plan.streams[index];
        let State { families, frame, instant, .. } = &mut self.state;
        let instances = &mut families[plan.family].instances;
        let result = &frame[plan.eval.result as usize..][..plan.width];
        let old = instances.latest(slot, plan.member);
        let had = old.is_some();
        let changed = old.is_none_or(|old| !same(old, result));
        if !changed && plan.eval.incremental {
            return Ok(false);
        }
        if !plan.grouped.is_empty() {
            set(&mut self.old, old.unwrap_or_default());
        }
        instances.push(slot, plan.member, result);
        instances.set_fresh(slot, plan.member, *instant);
        if changed {
            if !plan.grouped.is_empty() {
                self.change_grouped(index, slot, had, true)?;
            }
            self.mark_dependents_of(index, slot);
        }
        if !self.plan.streams[index].windows.is_empty() {
            self.accept_windows(index, slot)?;
        }
        Ok(changed)
    }

    pub(crate) fn accept_windows(&mut self, index: usize, slot: u32) -> Result<(), Box<Failed>> {
        let plan = &self.plan.streams[index];
        let now = self.state.this_instant();
        for number in &plan.windows {
            let window = &self.plan.windows[*number];
            let State { windows, interner, frame, families, .. } = &mut self.state;
            if let Some(last_decisive) = &window.last_decisive {
                let words = families[plan.family].instances.words_mut(slot);
                last_decisive.accept(words, frame[plan.eval.result as usize], now.time);
                continue;
            }
            windows[*number]
                .accept(window, slot, &frame[plan.result()], now, interner)
                .map_err(|fault| Failed::in_window(window.reader, fault, *number))?;
            mark_dependents(&mut self.state, &self.plan, &window.dependents, Changed::Whole);
        }
        Ok(())
    }

    /// Tells the tallies over a stream that an instance has another value than `self.old`, if it
    /// had that, and that it has one now, if it has.
    pub(crate) fn change_grouped(
        &mut self,
        index: usize,
        slot: u32,
        had: bool,
        has: bool,
    ) -> Result<(), Box<Failed>> {
        let stream = &self.plan.streams[index];
        self.places.groups_moved = true;
        for number in &stream.grouped {
            let plan = &self.plan.grouped[*number];
            if let Some(filter) = plan.filter {
                let lambda = plan.lambda as usize;
                let params = self.state.families[stream.family].instances.params(slot);
                self.state.frame[lambda..lambda + params.len()].copy_from_slice(params);
                let counts = run(&self.plan, &mut self.state, filter)
                    .map_err(|failure| Failed::new(index, failure))?;
                if !counts {
                    continue;
                }
            }
            let State { families, grouped, .. } = &mut self.state;
            let instances = &families[stream.family].instances;
            let params = instances.params(slot);
            let new = if has { instances.latest(slot, stream.member) } else { None };
            let grouped = &mut grouped[*number];
            let group = match plan.places.as_slice() {
                [] => grouped.group(&[], &plan.aggregates),
                [place] => grouped.group(&[params[*place]], &plan.aggregates),
                places => {
                    self.key.clear();
                    self.key.extend(places.iter().map(|place| params[*place]));
                    grouped.group(&self.key, &plan.aggregates)
                }
            };
            let old = had.then_some(self.old.as_slice());
            let mut changed = grouped.change(group, slot, old, new, &plan.aggregates);
            if changed == 0 && has {
                continue;
            }
            set(&mut self.key, grouped.key(group));
            if !has {
                grouped.tidy(group);
            }
            while changed != 0 {
                let dependents = &plan.dependents[changed.trailing_zeros() as usize];
                changed &= changed - 1;
                mark_dependents(&mut self.state, &self.plan, dependents, Changed::Key(&self.key));
            }
        }
        Ok(())
    }
}

/// Puts the parameters of an instance into the frame.
#[inline(always)]
pub(crate) fn set_current(state: &mut State, plan: &StreamPlan, slot: u32) {
    let State { frame, families, current, since, .. } = state;
    *current = slot;
    let family = &families[plan.family];
    let own = plan.own as usize;
    match plan.param_width {
        0 => {}
        1 => frame[own] = family.instances.params(slot)[0],
        width => copy(family.instances.params(slot), &mut frame[own..own + width]),
    }
    if plan.knows_its_spawn {
        *since = family.since.get(slot as usize).copied().unwrap_or_default();
    }
}

/// The instances of a family that a path leads to.
pub(crate) fn follow(
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
