//! New values: whose turn it is, what a program says, and what follows from it.

use super::instances::flag;
use super::instant::{Evaluator, Failed};
use super::machine::{Failure, run};
use super::notify::notify;
use super::plan::{Path, Plan, Route, StreamPlan};
use super::state::{State, WHOLE};
use super::words::{copy, same, set};

impl Evaluator {
    /// A stream without instances, or those instances for which something has changed, or all.
    pub(super) fn evaluate(&mut self, index: usize) -> Result<(), Failed> {
        let plan = &self.plan.streams[index];
        let state = &self.state.streams[index];
        if state.counts {
            return self.tick(index);
        }
        if plan.eval.remembers && state.evaluate.is_clean() && state.holders.is_empty() {
            return Ok(());
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
        if whole {
            if std::mem::take(&mut state.evaluate.all) {
                self.evaluate_one(index, WHOLE)?;
            }
        } else if !state.evaluate.is_clean() {
            let instances = &mut self.state.families[family].instances;
            let slots = state.evaluate.take(instances, member, flag::EVALUATE);
            for slot in &slots {
                self.evaluate_one(index, *slot)?;
            }
            self.state.streams[index].evaluate.give_back(slots);
        }
        if remembers && self.tells[index] && !self.state.streams[index].holders.is_empty() {
            self.valued.push(index);
            let state = &mut self.state.streams[index];
            state.valued.clear();
            state.valued.extend(state.holders.iter().map(|(_, slot)| *slot));
        }
        Ok(())
    }

    /// The instances that the paths of clauses lead to.
    pub(super) fn evaluate_candidates(&mut self, index: usize, clauses: &[usize]) -> Result<(), Failed> {
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

    pub(super) fn evaluate_one(&mut self, index: usize, slot: u32) -> Result<(), Failed> {
        #[cfg(test)]
        {
            self.evaluations += 1;
        }
        let plan = &self.plan.streams[index];
        set_current(&mut self.state, plan, self.plan.families[plan.family].knows_its_spawn, slot);
        let yields = run(&self.plan, &mut self.state, plan.eval.program)
            .map_err(|failure| Failed::new(index, failure))?;
        let (remembers, whole) = (plan.eval.remembers, !plan.is_parameterised());
        if remembers {
            let state = &mut self.state.streams[index];
            let instances = &mut self.state.families[plan.family].instances;
            let changed = if whole {
                std::mem::replace(&mut state.holds, yields) != yields
            } else {
                instances.set(slot, plan.member, flag::HOLDS, yields)
            };
            if changed && self.tells[index] && self.repeats[index] {
                let holder = if whole { (0, WHOLE) } else { (instances.born(slot), slot) };
                if yields {
                    state.holders.insert(holder);
                } else {
                    state.holders.remove(&holder);
                }
            }
        }
        let State { windows, now, frame, .. } = &self.state;
        let is_settled = |window: &usize| windows[*window].is_settled(&self.plan.windows[*window], *now);
        // What comes after its first conditions, and what is in a window, may change without notice.
        let mut again = plan.eval.guard.is_some_and(|guard| frame[guard as usize] != 0)
            || (remembers && !plan.eval.windows.iter().all(is_settled));
        let reads_itself = plan.eval.reads_itself && remembers;
        let computed = self.tells[index] && (!remembers || !self.repeats[index]);
        let lists = computed || (!remembers && plan.lists_fresh);
        let (family, member) = (plan.family, plan.member);
        if yields {
            let changed = if whole { self.push_whole(index)? } else { self.push_instance(index, slot)? };
            again |= changed && reads_itself;
        }
        if again {
            let state = &mut self.state.streams[index];
            if whole {
                state.evaluate.all = true;
            } else {
                state.mark(&mut self.state.families[family].instances, slot, member);
            }
        }
        if yields && lists {
            let valued = &mut self.state.streams[index].valued;
            if valued.is_empty() {
                self.valued.push(index);
            }
            valued.push(slot);
        }
        Ok(())
    }

    /// A stream without instances has the value of its result; whether that is another one.
    pub(super) fn push_whole(&mut self, index: usize) -> Result<bool, Failed> {
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

    /// An instance has the value of its stream's result; whether that is another one.
    pub(super) fn push_instance(&mut self, index: usize, slot: u32) -> Result<bool, Failed> {
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

    pub(super) fn accept_windows(&mut self, index: usize, slot: u32) -> Result<(), Failed> {
        let plan = &self.plan.streams[index];
        let now = self.state.this_instant();
        for number in &plan.windows {
            let window = &self.plan.windows[*number];
            let State { windows, strings, frame, .. } = &mut self.state;
            windows[*number]
                .accept(window, slot, &frame[plan.result()], now, strings)
                .map_err(|fault| Failed { window: Some(*number), ..Failed::outside(window.reader, fault) })?;
            notify(&mut self.state, &self.plan, &window.watchers, &[], WHOLE, &mut self.watched);
        }
        Ok(())
    }

    /// Tells the tallies over a stream that an instance has another value than `self.old`, if it
    /// had that, and that it has one now, if it has.
    pub(super) fn change_tallies(
        &mut self,
        index: usize,
        slot: u32,
        had: bool,
        has: bool,
    ) -> Result<(), Failed> {
        let stream = &self.plan.streams[index];
        for number in &stream.tallies {
            let plan = &self.plan.tallies[*number];
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
            let old = had.then_some(self.old.as_slice());
            let mut changed = tally
                .change(group, slot, old, new, &plan.measures)
                .map_err(|fault| Failed::outside(index, fault))?;
            if !has {
                tally.tidy(group);
            }
            while changed != 0 {
                let watchers = &plan.watchers[changed.trailing_zeros() as usize];
                changed &= changed - 1;
                notify(&mut self.state, &self.plan, watchers, &self.key, WHOLE, &mut self.watched);
            }
        }
        Ok(())
    }
}

/// Puts the parameters of an instance into the frame.
#[inline]
pub(super) fn set_current(state: &mut State, plan: &StreamPlan, knows_its_spawn: bool, slot: u32) {
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
pub(super) fn follow(
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
