//! How instances come and go.

use super::counter::begin_count;
use super::evaluate::{follow, set_current};
use super::instances::flag;
use super::instant::{Evaluator, Failed};
use super::machine::run;
use super::notify::{Changed, notify};
use super::plan::Pacing;
use super::state::{Due, State, WHOLE};

impl Evaluator {
    pub(super) fn spawn(&mut self, index: usize) -> Result<(), Box<Failed>> {
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
    pub(super) fn spawn_key(&mut self, index: usize) -> Option<u32> {
        let plan = &self.plan.families[index];
        let spawn = plan.spawn.as_ref()?;
        let State { families, streams, windows, frame, now, instant, .. } = &mut self.state;
        let state = &mut families[index];
        let key = &frame[spawn.key as usize..spawn.key as usize + plan.param_width];
        let (slot, born) = if plan.is_parameterised {
            let slot = state.instances.spawn(key)?;
            self.places.slots_moved |= state.instances.has_moved();
            (slot, state.instances.born(slot))
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
        let mut quiet_until = self.quiet_until;
        let mut due = |period: u64| {
            let at = now.saturating_add(period);
            quiet_until = quiet_until.min(at);
            Due { at, slot, born }
        };
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
                    // When its readers must look again is told in ticks: it is asked for.
                    due(0);
                } else if stream.eval.remembers || stream.eval.guard.is_some() {
                    streams[*member].mark(&mut state.instances, slot, stream.member.state());
                }
                stream.windows.iter().for_each(|window| windows[*window].spawn(slot, key));
            }
        }
        self.quiet_until = quiet_until;
        if tells {
            state.spawned.push(slot);
            self.moved.push(index);
        }
        Some(slot)
    }

    pub(super) fn close(&mut self, index: usize) -> Result<(), Box<Failed>> {
        let plan = &self.plan.families[index];
        let remembers = plan.close.as_ref().is_some_and(|close| close.remembers);
        let state = &mut self.state.families[index];
        if !plan.is_parameterised {
            if state.alive && (!remembers || std::mem::take(&mut state.close.all)) {
                return self.close_one(index, WHOLE);
            }
            return Ok(());
        }
        state.close.all |= !remembers;
        let member = state.instances.first_member();
        let slots = state.close.take(&mut state.instances, member, flag::CLOSE);
        for slot in &slots {
            self.close_one(index, *slot)?;
        }
        self.state.families[index].close.give_back(slots);
        Ok(())
    }

    pub(super) fn close_candidates(&mut self, index: usize) -> Result<(), Box<Failed>> {
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

    pub(super) fn close_one(&mut self, index: usize, slot: u32) -> Result<(), Box<Failed>> {
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
            self.state.families[index].closing.push(slot);
            self.moved.push(index);
        }
        Ok(())
    }

    pub(super) fn end(&mut self, index: usize, slot: u32) -> Result<(), Box<Failed>> {
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
        let mut clock = std::mem::take(&mut family.close_clock);
        clock.end(|due| family.is_live(due, !plan.is_parameterised));
        family.close_clock = clock;
        let family = &self.state.families[index];
        let is_live = |due: &Due| family.is_live(due, !plan.is_parameterised);
        for member in &plan.members {
            let state = &mut self.state.streams[*member];
            state.evaluate_clock.end(is_live);
            state.wakes.iter_mut().for_each(|wake| wake.end(is_live));
        }
        Ok(())
    }

    pub(super) fn end_member(&mut self, index: usize, slot: u32) -> Result<(), Box<Failed>> {
        let plan = &self.plan.streams[index];
        if let Some(cell) = &plan.cell {
            self.state.streams[index].holders.clear();
            self.state.streams[index].holds = false;
            self.state.clear_cell(cell, self.plan.inputs.len() + index);
            notify(&mut self.state, &self.plan, &plan.watchers, Changed::Whole);
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

    /// The stream of a family that errors name.
    pub(super) fn first_member(&self, family: usize) -> usize {
        self.plan.families[family].members.first().copied().unwrap_or_default()
    }
}
