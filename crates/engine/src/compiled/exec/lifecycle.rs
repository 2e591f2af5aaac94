//! How instances come and go.

use crate::compiled::exec::bytecode::run;
use crate::compiled::exec::instant::{Evaluator, Failed};
use crate::compiled::exec::propagate::{Changed, mark_dependents};
use crate::compiled::exec::update::{follow, set_current};
use crate::compiled::exec::update_rule::mark_resolved;
use crate::compiled::ir::plan::{ClosePlan, Pacing};
use crate::compiled::store::deadline_queue::Deadline;
use crate::compiled::store::slab::flag;
use crate::compiled::store::state::{State, WHOLE};

impl Evaluator {
    pub(crate) fn spawn(&mut self, index: usize) -> Result<(), Box<Failed>> {
        let Some(spawn) = &self.plan.families[index].spawn else { return Ok(()) };
        if let Some(program) = spawn.program {
            let yields = run(&self.plan, &mut self.state, program)
                .map_err(|failure| Failed::new(self.first_member(index), failure))?;
            if !yields {
                return Ok(());
            }
        }
        self.spawn_key(index);
        Ok(())
    }

    /// Spawns the instance whose parameters are in their place, unless it is there; its slot.
    pub(crate) fn spawn_key(&mut self, index: usize) -> Option<u32> {
        let plan = &self.plan.families[index];
        let spawn = plan.spawn.as_ref()?;
        let State { families, streams, frame, now, instant, .. } = &mut self.state;
        let state = &mut families[index];
        let key = &frame[spawn.key as usize..spawn.key as usize + plan.param_width];
        let (slot, generation) = if plan.is_parameterised {
            let slot = state.instances.spawn(key)?;
            self.places.slots_moved |= state.instances.has_moved();
            (slot, state.instances.generation(slot))
        } else {
            if state.alive {
                return None;
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
        let mut tells = false;
        for member in &plan.members {
            let stream = &self.plan.streams[*member];
            tells |= self.tells[*member];
            if !plan.is_parameterised {
                streams[*member].evaluate.all = true;
            } else {
                let eval = &stream.eval;
                let looks_later = eval.guard.is_some() && eval.first_look.is_none();
                if !streams[*member].counts && (eval.incremental || looks_later) {
                    streams[*member].mark(&mut state.instances, slot, stream.member.state());
                }
            }
        }
        if tells {
            state.spawned.push(slot);
            self.moved.push(index);
        }
        if plan.is_parameterised {
            self.begin(index, slot);
        }
        self.look(index, slot);
        self.arm_timers(index, slot, generation);
        Some(slot)
    }

    /// Starts the counters and windows of an instance that has just been born.
    pub(crate) fn begin(&mut self, index: usize, slot: u32) {
        let Evaluator { plan, state, idle_until, places, .. } = self;
        for member in &plan.families[index].members {
            if state.streams[*member].counts {
                let (first, has_moved) = state.start_counter(&plan.streams[*member], *member, slot);
                *idle_until = first.min(*idle_until);
                places.clocks_moved |= has_moved;
            }
            let State { families, windows, .. } = &mut *state;
            let key = families[index].instances.params(slot);
            let all = &plan.streams[*member].windows;
            all.iter().for_each(|window| windows[*window].spawn(slot, key));
        }
    }

    /// The first conditions of an instance that has just been born, and when it closes, must be looked at, now or when
    /// their turn comes.
    fn look(&mut self, index: usize, slot: u32) {
        let Evaluator { plan, state, .. } = self;
        let family = &plan.families[index];
        if !family.is_parameterised {
            return;
        }
        for stream in family.members.iter().copied() {
            let Some(program) = plan.streams[stream].eval.first_look else { continue };
            set_current(state, &plan.streams[stream], slot);
            if run(plan, state, program).unwrap_or(true) {
                let instances = &mut state.families[index].instances;
                state.streams[stream].mark(instances, slot, plan.streams[stream].member.state());
            }
        }
        let Some(close) = family.close.as_ref().filter(|close| close.incremental) else { return };
        let closes = !close.looks_at_spawn || {
            set_current(state, &plan.streams[family.members[0]], slot);
            run(plan, state, close.program).unwrap_or(true)
        };
        if closes {
            state.families[index].mark_close(slot);
        }
    }

    /// Starts the clocks of an instance that has just been born.
    pub(crate) fn arm_timers(&mut self, index: usize, slot: u32, generation: u64) {
        let plan = &self.plan.families[index];
        let State { families, instance_timers, now, .. } = &mut self.state;
        let idle_until = &mut self.idle_until;
        let mut due = |period: u64| {
            let at = now.saturating_add(period);
            *idle_until = at.min(*idle_until);
            Deadline { at, slot, generation }
        };
        for instance_timer in &plan.instance_timers {
            self.places.clocks_moved |=
                instance_timers[*instance_timer].add(due(self.plan.instance_timers[*instance_timer].period));
        }
        if let Some(ClosePlan { pacing: Pacing::Local(period), .. }) = &plan.close {
            families[index].close_deadlines.add(due(*period));
        }
    }

    pub(crate) fn close(&mut self, index: usize) -> Result<(), Box<Failed>> {
        let plan = &self.plan.families[index];
        let incremental = plan.close.as_ref().is_some_and(|close| close.incremental);
        let state = &mut self.state.families[index];
        if !plan.is_parameterised {
            if state.alive && (!incremental || std::mem::take(&mut state.close.all)) {
                return self.close_one(index, WHOLE);
            }
            return Ok(());
        }
        state.close.all |= !incremental;
        let member = state.instances.first_member();
        let mut slots = std::mem::take(&mut self.listed);
        state.close.take(&mut state.instances, member, flag::CLOSE, &mut slots);
        let done = slots.iter().try_for_each(|slot| self.close_one(index, *slot));
        self.listed = slots;
        done
    }

    pub(crate) fn close_candidates(&mut self, index: usize) -> Result<(), Box<Failed>> {
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        if let Some(path) = self.plan.families[index].close.as_ref().and_then(|close| close.path.as_ref()) {
            follow(&self.plan, &mut self.state, index, path, &mut candidates)
                .map_err(|failure| Failed::new(self.first_member(index), failure))?;
        }
        let done = candidates.iter().try_for_each(|slot| self.close_one(index, *slot));
        self.candidates = candidates;
        done
    }

    pub(crate) fn close_one(&mut self, index: usize, slot: u32) -> Result<(), Box<Failed>> {
        #[cfg(test)]
        {
            self.evaluations += 1;
        }
        let plan = &self.plan.families[index];
        let first = self.first_member(index);
        let Some(close) = &plan.close else { return Ok(()) };
        set_current(&mut self.state, &self.plan.streams[first], slot);
        let closes =
            run(&self.plan, &mut self.state, close.program).map_err(|failure| Failed::new(first, failure))?;
        if closes {
            self.is_closing(index, slot);
        }
        Ok(())
    }

    /// An instance closes at the end of this instant.
    pub(crate) fn is_closing(&mut self, index: usize, slot: u32) {
        let closing = &mut self.state.families[index].closing;
        if closing.is_empty() {
            self.moved.push(index);
        }
        closing.push(slot);
    }

    pub(crate) fn end(&mut self, index: usize, slot: u32) -> Result<(), Box<Failed>> {
        for at in 0..self.plan.families[index].members.len() {
            self.end_member(self.plan.families[index].members[at], slot)?;
        }
        self.free(index, slot);
        Ok(())
    }

    /// An instance that has ended leaves its slot, and its clocks stop.
    fn free(&mut self, index: usize, slot: u32) {
        let family = &mut self.state.families[index];
        if self.plan.families[index].is_parameterised {
            family.instances.close(slot);
        } else {
            family.alive = false;
        }
        self.stop_clocks(index, 1);
    }

    /// So many instances of a family have ended.
    pub(crate) fn stop_clocks(&mut self, index: usize, ended: usize) {
        let (plan, family) = (&self.plan.families[index], &mut self.state.families[index]);
        if !family.close_deadlines.is_empty() {
            let mut clock = std::mem::take(&mut family.close_deadlines);
            clock.end(ended, |due| family.is_live(due, !plan.is_parameterised));
            family.close_deadlines = clock;
        }
        let family = &self.state.families[index];
        let is_live = |due: &Deadline| family.is_live(due, !plan.is_parameterised);
        for instance_timer in &plan.instance_timers {
            self.state.instance_timers[*instance_timer].end(ended, is_live);
        }
        if self.counters.is_empty() {
            return;
        }
        for member in &plan.members {
            let state = &mut self.state.streams[*member];
            state.thresholds.iter_mut().for_each(|wake| wake.end_for_good(ended, is_live));
        }
    }

    pub(crate) fn end_member(&mut self, index: usize, slot: u32) -> Result<(), Box<Failed>> {
        let plan = &self.plan.streams[index];
        if let Some(cell) = &plan.cell {
            self.state.streams[index].current_holders.clear();
            self.state.streams[index].holds = false;
            self.state.clear_cell(cell, self.plan.inputs.len() + index);
            mark_dependents(&mut self.state, &self.plan, &plan.dependents, Changed::Whole);
            return Ok(());
        }
        let instances = &self.state.families[plan.family].instances;
        if !self.state.streams[index].current_holders.is_empty() {
            self.state.streams[index].current_holders.remove((instances.generation(slot), slot));
        }
        if let Some(rule) = &self.rules[index] {
            self.places.groups_moved |= rule.end(&self.plan, &mut self.state, slot);
        } else if self.state.streams[index].counts {
            let changed = Changed::Instance { family: plan.family, slot };
            mark_resolved(&self.plan, &mut self.state, &self.readers[index].dependents_on_close, changed);
        } else if let Some(latest) = instances.latest(slot, plan.member) {
            self.old.clear();
            self.old.extend_from_slice(latest);
            self.change_grouped(index, slot, true, false)?;
            self.mark_dependents_of(index, slot);
        }
        self.end_windows(index, slot);
        Ok(())
    }

    /// The windows over an instance that ends can be read for a time.
    pub(crate) fn end_windows(&mut self, index: usize, slot: u32) {
        let plan = &self.plan.streams[index];
        let State { families, windows, now, .. } = &mut self.state;
        for window in &plan.windows {
            let (instances, of) = (&families[plan.family].instances, &self.plan.windows[*window]);
            let params = instances.params(slot);
            match &of.last_decisive {
                None => windows[*window].close(of, slot, params, *now),
                Some(last_decisive) => {
                    windows[*window].close_last_decisive(
                        of,
                        last_decisive,
                        instances.words(slot)[last_decisive.at],
                        params,
                        *now,
                    );
                }
            }
        }
    }

    /// The stream of a family that errors name.
    pub(crate) fn first_member(&self, family: usize) -> usize {
        self.plan.families[family].members.first().copied().unwrap_or_default()
    }
}
