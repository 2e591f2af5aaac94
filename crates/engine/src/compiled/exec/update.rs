//! New values: which instances are evaluated, and what is stored and propagated.

use super::bytecode::{run, run_inline};
use super::cx::Cx;
use super::error::{EvalError, ProgramError};
use super::propagate::{ChangeSource, mark_dependents, mark_resolved};
use crate::compiled::ir::layout::PARAMS;
use crate::compiled::ir::plan::{Path, Plan, Route, StreamPlan};
use crate::compiled::ir::update_rule::ValueLocation;
use crate::compiled::store::slab::flag;
use crate::compiled::store::state::{Store, WHOLE};
use crate::compiled::store::words::{copy, same, set};

impl Cx<'_> {
    /// Evaluates the dirty instances of a stream, and emits the values that others hold.
    #[inline(always)]
    pub(super) fn evaluate_dirty(&mut self, stream: usize) -> Result<(), Box<EvalError>> {
        let state = &self.store.streams[stream];
        if state.dirty.is_empty() && state.current_holders.is_empty() {
            return Ok(());
        }
        self.evaluate(stream)
    }

    /// Evaluates a stream without instances, its dirty instances, or all of them.
    pub(super) fn evaluate(&mut self, stream: usize) -> Result<(), Box<EvalError>> {
        let plan = &self.plan.streams[stream];
        let state = &mut self.store.streams[stream];
        if let Some(slot) = state.dirty.take_single() {
            let instances = &mut self.store.families[plan.family].instances;
            if instances.is_live(slot) && instances.clear_flag(slot, plan.member.state(), flag::DIRTY) {
                self.evaluate_one(stream, slot)?;
            }
        } else {
            self.evaluate_each(stream)?;
        }
        if self.plan.emission[stream].values {
            self.emit_held_values(stream);
        }
        Ok(())
    }

    fn evaluate_each(&mut self, stream: usize) -> Result<(), Box<EvalError>> {
        let plan = &self.plan.streams[stream];
        let state = &mut self.store.streams[stream];
        if state.is_computed_on_read {
            self.tick_counter(stream);
            return Ok(());
        }
        let family = plan.family;
        let only_dirty = plan.eval.incremental || plan.eval.guard.is_some();
        if !plan.is_parameterised() {
            let is_due = !only_dirty || state.dirty.take_all();
            let is_alive = self.store.families[family].alive;
            return if is_due && is_alive { self.evaluate_one(stream, WHOLE) } else { Ok(()) };
        }
        let instances = &mut self.store.families[family].instances;
        if only_dirty {
            let mut slots = std::mem::take(&mut self.scratch.listed);
            state.dirty.take(instances, plan.member.state(), flag::DIRTY, &mut slots);
            let done = slots.iter().try_for_each(|slot| self.evaluate_one(stream, *slot));
            self.scratch.listed = slots;
            return done;
        }
        for slot in 0..instances.slots() {
            if self.store.families[family].instances.is_live(slot) {
                self.evaluate_one(stream, slot)?;
            }
        }
        Ok(())
    }

    /// Evaluates the instances whose deadline has expired.
    pub(super) fn evaluate_expired(&mut self, stream: usize, timer: usize) -> Result<(), Box<EvalError>> {
        let slots = std::mem::take(&mut self.changes.expired_mut()[timer]);
        let done = slots.iter().try_for_each(|slot| self.evaluate_one(stream, *slot));
        self.changes.expired_mut()[timer] = slots;
        done
    }

    /// Evaluates the instances that the access paths of clauses find.
    pub(super) fn evaluate_found(&mut self, stream: usize, clauses: &[usize]) -> Result<(), Box<EvalError>> {
        let mut candidates = std::mem::take(&mut self.scratch.candidates);
        candidates.clear();
        let plan = &self.plan.streams[stream];
        let (family, state_word) = (plan.family, plan.member.state());
        for clause in clauses {
            if let Some(path) = &plan.eval.clauses[*clause].path {
                follow(self.plan, self.store, family, path, &mut candidates)
                    .map_err(|error| EvalError::in_program(stream, error))?;
            }
        }
        let done = match candidates.as_slice() {
            [] => Ok(()),
            [slot] => self.evaluate_one(stream, *slot),
            several => {
                // Two clauses may find the same instance.
                let done = several.iter().try_for_each(|slot| {
                    let instances = &mut self.store.families[family].instances;
                    let is_new = instances.set_flag(*slot, state_word, flag::CANDIDATE);
                    if is_new { self.evaluate_one(stream, *slot) } else { Ok(()) }
                });
                for slot in several {
                    self.store.families[family].instances.clear_flag(*slot, state_word, flag::CANDIDATE);
                }
                done
            }
        };
        self.scratch.candidates = candidates;
        done
    }

    /// Emits the values that incremental evaluation has kept.
    pub(crate) fn emit_held_values(&mut self, stream: usize) {
        let plan = &self.plan.streams[stream];
        let state = &mut self.store.streams[stream];
        if state.current_holders.is_empty() || !plan.eval.incremental {
            return;
        }
        self.changes.add_valued(stream);
        // A stream that always exists has no list of slots.
        if plan.is_parameterised() || self.plan.families[plan.family].spawn.is_some() {
            state.valued.clear();
            state.valued.extend(state.current_holders.slots());
        }
    }

    /// Evaluates a stream without instances, or one of its instances: by its update rule, or by the general path.
    pub(super) fn evaluate_one(&mut self, stream: usize, slot: u32) -> Result<(), Box<EvalError>> {
        self.count_evaluation();
        let Cx { plan, store, changes, .. } = self;
        let Some(rule) = &plan.rules[stream] else { return self.evaluate_generally(stream, slot) };
        store.current = slot;
        if rule.params > 0 {
            let words = store.families[rule.family].instances.words(slot);
            for (at, word) in (rule.own..).zip(&words[PARAMS..PARAMS + rule.params]) {
                store.frame[at as usize] = *word;
            }
        }
        let yields =
            run_inline(plan, store, rule.program).map_err(|error| EvalError::in_program(stream, error))?;
        let new = store.frame[rule.result as usize];
        let (held, changed) = match rule.location {
            ValueLocation::Cell { present, fresh, value } => {
                let Store { frame, streams, .. } = &mut **store;
                let held = std::mem::replace(&mut streams[stream].holds, yields);
                let changed = yields && (frame[present as usize] == 0 || frame[value as usize] != new);
                if changed || (yields && !rule.incremental) {
                    frame[present as usize] = 1;
                    frame[fresh as usize] = 1;
                    frame[value as usize] = new;
                    changes.add_fresh(fresh);
                }
                if changed {
                    mark_resolved(store, plan, &rule.dependents, ChangeSource::Whole);
                }
                (held, changed)
            }
            ValueLocation::Slot { state, value } => {
                let words = store.families[rule.family].instances.words_mut(slot);
                let before = words[state];
                let held = before & flag::HOLDS != 0;
                if yields {
                    let old = (before >> 32 != 0).then_some(words[value]);
                    words[state] = before | flag::HOLDS | (1 << 32);
                    words[value] = new;
                    if old != Some(new) {
                        for group in &rule.groups {
                            group.apply(plan, store, rule.family, slot, old, Some(new));
                        }
                        let source = ChangeSource::Instance { family: rule.family, slot };
                        mark_resolved(store, plan, &rule.dependents, source);
                    }
                    if !rule.windows.is_empty() {
                        let now = store.now;
                        let words = store.families[rule.family].instances.words_mut(slot);
                        rule.windows.iter().for_each(|window| window.accept(words, new, now));
                    }
                    (held, old != Some(new))
                } else {
                    words[state] = before & !flag::HOLDS;
                    (held, false)
                }
            }
        };
        if rule.emits_held && held != yields {
            self.set_holder(stream, slot, yields);
        }
        if rule.has_follow_up {
            self.reschedule_self(stream, slot, yields, changed);
        }
        Ok(())
    }

    /// The general path, for streams without an update rule.
    #[inline(never)]
    fn evaluate_generally(&mut self, stream: usize, slot: u32) -> Result<(), Box<EvalError>> {
        let Cx { plan, store, .. } = self;
        let stream_plan = &plan.streams[stream];
        set_current(store, stream_plan, slot);
        let yields = run(plan, store, stream_plan.eval.program)
            .map_err(|error| EvalError::in_program(stream, error))?;
        let is_whole = !stream_plan.is_parameterised();
        if stream_plan.eval.incremental {
            let has_changed = if is_whole {
                std::mem::replace(&mut store.streams[stream].holds, yields) != yields
            } else {
                let instances = &mut store.families[stream_plan.family].instances;
                let state = stream_plan.member.state();
                if yields {
                    instances.set_flag(slot, state, flag::HOLDS)
                } else {
                    instances.clear_flag(slot, state, flag::HOLDS)
                }
            };
            let emission = plan.emission[stream];
            if has_changed && emission.values && emission.repeats {
                self.set_holder(stream, slot, yields);
            }
        }
        let mut changed = false;
        if yields {
            changed = if is_whole { self.push_whole(stream)? } else { self.push_instance(stream, slot)? };
        }
        if self.plan.has_follow_up[stream] {
            self.reschedule_self(stream, slot, yields, changed);
        }
        Ok(())
    }

    /// An instance holds a value from now on, or no longer does.
    #[inline(never)]
    pub(crate) fn set_holder(&mut self, stream: usize, slot: u32, holds: bool) {
        let plan = &self.plan.streams[stream];
        let instances = &self.store.families[plan.family].instances;
        let holder = if plan.is_parameterised() { (instances.generation(slot), slot) } else { (0, WHOLE) };
        let holders = &mut self.store.streams[stream].current_holders;
        if holds {
            holders.insert(holder);
        } else {
            holders.remove(holder);
        }
    }

    /// Marks an instance dirty for the next evaluation if its value may change without a change of what it reads, and
    /// lists its value if it is emitted.
    pub(crate) fn reschedule_self(&mut self, stream: usize, slot: u32, yields: bool, changed: bool) {
        let Cx { plan, store, changes, .. } = self;
        let stream_plan = &plan.streams[stream];
        let Store { windows, now, frame, families, streams, .. } = &mut **store;
        let incremental = stream_plan.eval.incremental;
        let is_settled = |window: &usize| windows[*window].is_settled(&plan.windows[*window], *now);
        // What comes after its guard, and what is in a window, may change without notice.
        let again = stream_plan.eval.guard.is_some_and(|guard| frame[guard as usize] != 0)
            || (incremental && !stream_plan.eval.windows.iter().all(is_settled))
            || (incremental && changed && stream_plan.eval.reads_itself);
        let state = &mut streams[stream];
        if again && stream_plan.is_parameterised() {
            let at = stream_plan.member.state();
            state.mark(&mut families[stream_plan.family].instances, slot, at);
        } else if again {
            state.dirty.mark_all();
        }
        let emission = plan.emission[stream];
        let is_emitted = emission.values && (!incremental || !emission.repeats);
        if yields && (is_emitted || (!incremental && stream_plan.lists_fresh)) {
            if state.valued.is_empty() {
                changes.add_valued(stream);
            }
            state.valued.push(slot);
        }
    }

    /// Stores the result of a stream without instances; whether it differs from the value before.
    #[inline]
    fn push_whole(&mut self, stream: usize) -> Result<bool, Box<EvalError>> {
        let Cx { plan, store, changes, .. } = self;
        let stream_plan = &plan.streams[stream];
        let Some(cell) = &stream_plan.cell else { return Ok(false) };
        let number = plan.inputs.len() + stream;
        let frame = &store.frame;
        let from = stream_plan.eval.result as usize;
        let changed = frame[cell.present as usize] == 0
            || !same(&frame[cell.value as usize..][..cell.width], &frame[from..][..cell.width]);
        if stream_plan.eval.incremental && !changed {
            return Ok(false);
        }
        store.push_cell(cell, number, |frame, to| match cell.width {
            1 => frame[to] = frame[from],
            width => frame.copy_within(from..from + width, to),
        });
        changes.add_fresh(cell.fresh);
        if !stream_plan.windows.is_empty() {
            self.accept_windows(stream, WHOLE)?;
        }
        if changed {
            mark_dependents(self.store, self.plan, &stream_plan.dependents, ChangeSource::Whole);
        }
        Ok(changed)
    }

    /// Stores the result of an instance; whether it differs from the value before.
    #[inline]
    fn push_instance(&mut self, stream: usize, slot: u32) -> Result<bool, Box<EvalError>> {
        let Cx { plan, store, scratch, .. } = self;
        let stream_plan = &plan.streams[stream];
        let Store { families, frame, instant, .. } = &mut **store;
        let instances = &mut families[stream_plan.family].instances;
        let result = &frame[stream_plan.eval.result as usize..][..stream_plan.width];
        let old = instances.latest(slot, stream_plan.member);
        let had = old.is_some();
        let changed = old.is_none_or(|old| !same(old, result));
        if !changed && stream_plan.eval.incremental {
            return Ok(false);
        }
        if !stream_plan.grouped.is_empty() {
            set(&mut scratch.old, old.unwrap_or_default());
        }
        instances.push(slot, stream_plan.member, result);
        instances.set_fresh(slot, stream_plan.member, *instant);
        if changed {
            if !stream_plan.grouped.is_empty() {
                self.update_groups(stream, slot, had, true)?;
            }
            self.mark_dependents_of(stream, slot);
        }
        if !stream_plan.windows.is_empty() {
            self.accept_windows(stream, slot)?;
        }
        Ok(changed)
    }

    fn accept_windows(&mut self, stream: usize, slot: u32) -> Result<(), Box<EvalError>> {
        let Cx { plan, store, .. } = self;
        let stream_plan = &plan.streams[stream];
        let now = store.this_instant();
        for number in &stream_plan.windows {
            let window = &plan.windows[*number];
            let Store { windows, interner, frame, families, .. } = &mut **store;
            if let Some(last_decisive) = &window.last_decisive {
                let words = families[stream_plan.family].instances.words_mut(slot);
                last_decisive.accept(words, frame[stream_plan.eval.result as usize], now.time);
                continue;
            }
            windows[*number]
                .accept(window, slot, &frame[stream_plan.result()], now, interner)
                .map_err(|fault| EvalError::in_window(window.reader, *number, fault))?;
            mark_dependents(store, plan, &window.dependents, ChangeSource::Whole);
        }
        Ok(())
    }

    /// Lists the dirty instances of a stream for machine code, which clears their flags.
    pub(crate) fn list_dirty(&mut self, stream: usize) {
        let plan = &self.plan.streams[stream];
        let instances = &mut self.store.families[plan.family].instances;
        let dirty = &mut self.store.streams[stream].dirty;
        dirty.list(instances, plan.member.state(), flag::DIRTY, &mut self.scratch.listed);
    }

    /// The same, with their flags cleared.
    pub(crate) fn take_dirty(&mut self, stream: usize) {
        let plan = &self.plan.streams[stream];
        let instances = &mut self.store.families[plan.family].instances;
        let dirty = &mut self.store.streams[stream].dirty;
        dirty.take(instances, plan.member.state(), flag::DIRTY, &mut self.scratch.listed);
    }
}

/// Copies the parameters of an instance into the frame.
#[inline(always)]
pub(super) fn set_current(store: &mut Store, plan: &StreamPlan, slot: u32) {
    let Store { frame, families, current, reader_spawn, .. } = store;
    *current = slot;
    let family = &families[plan.family];
    let own = plan.own as usize;
    match plan.param_width {
        0 => {}
        1 => frame[own] = family.instances.params(slot)[0],
        width => copy(family.instances.params(slot), &mut frame[own..own + width]),
    }
    if plan.knows_its_spawn {
        *reader_spawn = family.spawned_at.get(slot as usize).copied().unwrap_or_default();
    }
}

/// The instances of a family that an access path finds.
pub(super) fn follow(
    plan: &Plan,
    store: &mut Store,
    family: usize,
    path: &Path,
    candidates: &mut Vec<u32>,
) -> Result<(), ProgramError> {
    if let Some(program) = path.program {
        run(plan, store, program)?;
    }
    let instances = &store.families[family].instances;
    let key = path.key as usize;
    match path.route {
        Route::Lookup => {
            let width = plan.families[family].param_width;
            candidates.extend(instances.find(&store.frame[key..key + width]));
        }
        Route::Index(index) => {
            let width = plan.families[family].indexes[index].len();
            let mut next = instances.first(index, &store.frame[key..key + width]);
            while let Some(slot) = next {
                candidates.push(slot);
                next = instances.next(index, slot);
            }
        }
    }
    Ok(())
}
