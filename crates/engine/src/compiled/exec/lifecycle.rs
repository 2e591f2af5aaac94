//! Spawning, closing and ending of instances.

use super::bytecode::run;
use super::cx::Cx;
use super::error::EvalError;
use super::propagate::{ChangeSource, mark_dependents, mark_resolved};
use super::update::{follow, set_current};
use crate::compiled::ir::plan::{ClosePlan, Pacing};
use crate::compiled::store::deadline_queue::Deadline;
use crate::compiled::store::slab::flag;
use crate::compiled::store::state::{Store, WHOLE};

impl Cx<'_> {
    /// Spawns an instance of a family, if its spawn condition holds and it does not exist.
    pub(super) fn spawn(&mut self, family: usize) -> Result<(), Box<EvalError>> {
        let Some(spawn) = &self.plan.families[family].spawn else { return Ok(()) };
        if let Some(program) = spawn.program {
            let first = self.plan.first_member(family);
            let yields =
                run(self.plan, self.store, program).map_err(|error| EvalError::in_program(first, error))?;
            if !yields {
                return Ok(());
            }
        }
        self.spawn_key(family);
        Ok(())
    }

    /// Spawns the instance whose parameters are in the frame, unless it exists; its slot.
    pub(crate) fn spawn_key(&mut self, family: usize) -> Option<u32> {
        let Cx { plan, store, changes, .. } = self;
        let family_plan = &plan.families[family];
        let spawn = family_plan.spawn.as_ref()?;
        let Store { families, streams, frame, now, instant, .. } = &mut **store;
        let state = &mut families[family];
        let key = &frame[spawn.key as usize..spawn.key as usize + family_plan.param_width];
        let (slot, generation) = if family_plan.is_parameterised {
            let slot = state.instances.spawn(key)?;
            (slot, state.instances.generation(slot))
        } else {
            if state.alive {
                return None;
            }
            state.alive = true;
            state.spawns += 1;
            state.close_dirty.mark_all();
            (WHOLE, state.spawns)
        };
        if family_plan.knows_its_spawn {
            if state.spawned_at.len() <= slot as usize {
                state.spawned_at.resize(slot as usize + 1, [0; 2]);
            }
            state.spawned_at[slot as usize] = [*now, *instant];
        }
        let mut is_emitted = false;
        for member in &family_plan.members {
            let stream = &plan.streams[*member];
            is_emitted |= plan.emission[*member].values;
            if !family_plan.is_parameterised {
                streams[*member].dirty.mark_all();
            } else {
                let eval = &stream.eval;
                let is_guarded_later = eval.guard.is_some() && eval.spawn_guard.is_none();
                if !streams[*member].is_computed_on_read && (eval.incremental || is_guarded_later) {
                    streams[*member].mark(&mut state.instances, slot, stream.member.state());
                }
            }
        }
        if is_emitted {
            changes.add_spawned(family, slot);
        }
        if family_plan.is_parameterised {
            self.start_members(family, slot);
        }
        self.check_at_spawn(family, slot);
        self.arm_timers(family, slot, generation);
        Some(slot)
    }

    /// Starts the counters and windows of an instance that was just spawned.
    pub(crate) fn start_members(&mut self, family: usize, slot: u32) {
        let Cx { plan, store, changes, .. } = self;
        for member in &plan.families[family].members {
            if store.streams[*member].is_computed_on_read {
                let first = store.start_counter(&plan.streams[*member], *member, slot);
                changes.add_deadline(first);
            }
            let Store { families, windows, .. } = &mut **store;
            let key = families[family].instances.params(slot);
            let all = &plan.streams[*member].windows;
            all.iter().for_each(|window| windows[*window].spawn(slot, key));
        }
    }

    /// Checks the guards and the close condition of an instance that was just spawned: most often they do not hold, and
    /// the instance need not be looked at before something that they read changes.
    fn check_at_spawn(&mut self, family: usize, slot: u32) {
        let Cx { plan, store, .. } = self;
        let family_plan = &plan.families[family];
        if !family_plan.is_parameterised {
            return;
        }
        for stream in family_plan.members.iter().copied() {
            let Some(program) = plan.streams[stream].eval.spawn_guard else { continue };
            set_current(store, &plan.streams[stream], slot);
            if run(plan, store, program).unwrap_or(true) {
                let instances = &mut store.families[family].instances;
                store.streams[stream].mark(instances, slot, plan.streams[stream].member.state());
            }
        }
        let Some(close) = family_plan.close.as_ref().filter(|close| close.incremental) else { return };
        let is_dirty = !close.is_checked_at_spawn || {
            set_current(store, &plan.streams[family_plan.members[0]], slot);
            run(plan, store, close.program).unwrap_or(true)
        };
        if is_dirty {
            store.families[family].mark_close(slot);
        }
    }

    /// Arms the timers of an instance that was just spawned.
    pub(crate) fn arm_timers(&mut self, family: usize, slot: u32, generation: u64) {
        let Cx { plan, store, changes, .. } = self;
        let family_plan = &plan.families[family];
        let Store { families, instance_timers, now, .. } = &mut **store;
        let mut deadline = |period: u64| {
            let at = now.saturating_add(period);
            changes.add_deadline(at);
            Deadline { at, slot, generation }
        };
        for timer in &family_plan.instance_timers {
            instance_timers[*timer].push(deadline(plan.instance_timers[*timer].period));
        }
        if let Some(ClosePlan { pacing: Pacing::Local(period), .. }) = &family_plan.close {
            families[family].close_deadlines.push(deadline(*period));
        }
    }

    /// Checks the close condition of a family: of its dirty instances, or of all.
    pub(super) fn close(&mut self, family: usize) -> Result<(), Box<EvalError>> {
        let plan = &self.plan.families[family];
        let incremental = plan.close.as_ref().is_some_and(|close| close.incremental);
        let state = &mut self.store.families[family];
        if !plan.is_parameterised {
            if state.alive && (!incremental || state.close_dirty.take_all()) {
                return self.close_one(family, WHOLE);
            }
            return Ok(());
        }
        if !incremental {
            state.close_dirty.mark_all();
        }
        let state_word = state.instances.first_state();
        let mut slots = std::mem::take(&mut self.scratch.listed);
        state.close_dirty.take(&mut state.instances, state_word, flag::CLOSE_DIRTY, &mut slots);
        let done = slots.iter().try_for_each(|slot| self.close_one(family, *slot));
        self.scratch.listed = slots;
        done
    }

    /// Checks the close condition of the instances that its access path finds.
    pub(super) fn close_found(&mut self, family: usize) -> Result<(), Box<EvalError>> {
        let mut candidates = std::mem::take(&mut self.scratch.candidates);
        candidates.clear();
        if let Some(path) = self.plan.families[family].close.as_ref().and_then(|close| close.path.as_ref()) {
            let first = self.plan.first_member(family);
            follow(self.plan, self.store, family, path, &mut candidates)
                .map_err(|error| EvalError::in_program(first, error))?;
        }
        let done = candidates.iter().try_for_each(|slot| self.close_one(family, *slot));
        self.scratch.candidates = candidates;
        done
    }

    /// Checks the close conditions whose deadline has expired.
    pub(super) fn close_expired(&mut self, time: u64) -> Result<(), Box<EvalError>> {
        for at in 0..self.plan.local_closes.len() {
            let family = self.plan.local_closes[at];
            let plan = &self.plan.families[family];
            let Some(ClosePlan { pacing: Pacing::Local(period), .. }) = &plan.close else { continue };
            let is_whole = !plan.is_parameterised;
            let state = &mut self.store.families[family];
            let mut deadlines = std::mem::take(&mut state.close_deadlines);
            let mut expired = Vec::new();
            deadlines.expire(time, *period, |deadline| state.is_live(deadline, is_whole), &mut expired);
            state.close_deadlines = deadlines;
            expired.iter().try_for_each(|slot| self.close_one(family, *slot))?;
        }
        Ok(())
    }

    fn close_one(&mut self, family: usize, slot: u32) -> Result<(), Box<EvalError>> {
        self.count_evaluation();
        let Some(close) = &self.plan.families[family].close else { return Ok(()) };
        let first = self.plan.first_member(family);
        set_current(self.store, &self.plan.streams[first], slot);
        let closes =
            run(self.plan, self.store, close.program).map_err(|error| EvalError::in_program(first, error))?;
        if closes {
            self.mark_closing(family, slot);
        }
        Ok(())
    }

    /// An instance closes at the end of this instant: until then others may read it.
    pub(crate) fn mark_closing(&mut self, family: usize, slot: u32) {
        self.changes.add_closing(family, slot);
    }

    /// Ends an instance: its values leave aggregates and windows, its slot is freed, its deadlines are stale.
    pub(super) fn end(&mut self, family: usize, slot: u32) -> Result<(), Box<EvalError>> {
        for at in 0..self.plan.families[family].members.len() {
            self.end_member(self.plan.families[family].members[at], slot)?;
        }
        let state = &mut self.store.families[family];
        if self.plan.families[family].is_parameterised {
            state.instances.close(slot);
        } else {
            state.alive = false;
        }
        self.retire_deadlines(family, 1);
        Ok(())
    }

    /// Some instances of a family have ended: their deadlines are stale.
    pub(crate) fn retire_deadlines(&mut self, family: usize, ended: usize) {
        let Cx { plan, store, .. } = self;
        let (family_plan, state) = (&plan.families[family], &mut store.families[family]);
        let is_whole = !family_plan.is_parameterised;
        if !state.close_deadlines.is_empty() {
            let mut deadlines = std::mem::take(&mut state.close_deadlines);
            deadlines.retire(ended, |deadline| state.is_live(deadline, is_whole));
            state.close_deadlines = deadlines;
        }
        let state = &store.families[family];
        let is_live = |deadline: &Deadline| state.is_live(deadline, is_whole);
        for timer in &family_plan.instance_timers {
            store.instance_timers[*timer].retire(ended, is_live);
        }
        if plan.counters.is_empty() {
            return;
        }
        for member in &family_plan.members {
            let timers = store.streams[*member].threshold_timers.iter_mut();
            timers.for_each(|timer| timer.retire_once(ended, is_live));
        }
    }

    fn end_member(&mut self, stream: usize, slot: u32) -> Result<(), Box<EvalError>> {
        let Cx { plan, store, scratch, .. } = self;
        let stream_plan = &plan.streams[stream];
        if let Some(cell) = &stream_plan.cell {
            store.streams[stream].current_holders.clear();
            store.streams[stream].holds = false;
            store.clear_cell(cell, plan.inputs.len() + stream);
            mark_dependents(store, plan, &stream_plan.dependents, ChangeSource::Whole);
            return Ok(());
        }
        let instances = &store.families[stream_plan.family].instances;
        if !store.streams[stream].current_holders.is_empty() {
            store.streams[stream].current_holders.remove((instances.generation(slot), slot));
        }
        if let Some(rule) = &plan.rules[stream] {
            rule.end(plan, store, slot);
        } else if store.streams[stream].is_computed_on_read {
            let source = ChangeSource::Instance { family: stream_plan.family, slot };
            mark_resolved(store, plan, &plan.counter_dependents[stream].dependents_on_close, source);
        } else if let Some(latest) = instances.latest(slot, stream_plan.member) {
            scratch.old.clear();
            scratch.old.extend_from_slice(latest);
            self.update_groups(stream, slot, true, false)?;
            self.mark_dependents_of(stream, slot);
        }
        self.close_windows(stream, slot);
        Ok(())
    }

    /// The windows over an instance that ends can be read until its last value has left them.
    pub(crate) fn close_windows(&mut self, stream: usize, slot: u32) {
        let Cx { plan, store, .. } = self;
        let stream_plan = &plan.streams[stream];
        let Store { families, windows, now, .. } = &mut **store;
        for window in &stream_plan.windows {
            let (instances, of) = (&families[stream_plan.family].instances, &plan.windows[*window]);
            let params = instances.params(slot);
            match &of.last_decisive {
                None => windows[*window].close(of, slot, params, *now),
                Some(decisive) => {
                    let word = instances.words(slot)[decisive.at];
                    windows[*window].close_last_decisive(of, decisive, word, params, *now);
                }
            }
        }
    }

    /// Frees the slot of an instance that machine code has ended.
    pub(crate) fn free_slot(&mut self, family: usize, slot: u32) {
        self.store.families[family].instances.close(slot);
    }
}
