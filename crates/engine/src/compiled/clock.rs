//! Time between events: what is due, and what can be skipped because nothing would come of it.

use super::instant::{Evaluator, Failed, Reach, Step};
use super::plan::{Pacing, Task};
use super::state::{Due, LocalClock};

impl Evaluator {
    /// The first time after `done` and up to `until` at which something is due that is worth evaluating. If there
    /// is none, notes until when there will be none unless something happens.
    pub(super) fn next_due(&mut self, done: u64, until: u64) -> Option<u64> {
        let (mut next, mut later) = (u64::MAX, u64::MAX);
        for (period, tasks) in &self.plan.clocks {
            // Most events come before the next tick, and need not ask what it would do.
            let tick = (done / period + 1).saturating_mul(*period);
            if tick > until {
                later = later.min(tick);
            } else if !tasks.iter().all(|task| self.is_idle(*task)) {
                next = next.min(tick);
            } else {
                later = later.min((until / period + 1).saturating_mul(*period));
            }
        }
        let mut sooner =
            |time: u64| if time <= until { next = next.min(time) } else { later = later.min(time) };
        for index in &self.local.0 {
            let (plan, state) = (&self.plan.streams[*index], &mut self.state.streams[*index]);
            let family = &self.state.families[plan.family];
            let is_live = |due: &Due| family.is_live(due, plan.cell.is_some());
            state.evaluate_clock.next_live(is_live).into_iter().for_each(&mut sooner);
        }
        for index in &self.counters {
            let (plan, state) = (&self.plan.streams[*index], &mut self.state.streams[*index]);
            let family = &self.state.families[plan.family];
            let is_live = |due: &Due| family.is_live(due, plan.cell.is_some());
            for wake in &mut state.wakes {
                let period = plan.eval.counter.map_or(0, |counter| counter.period);
                let tick = wake.next_live(is_live).and_then(|tick| tick.checked_mul(period));
                tick.into_iter().for_each(&mut sooner);
            }
        }
        for index in &self.local.1 {
            let (plan, state) = (&self.plan.families[*index], &mut self.state.families[*index]);
            let mut clock = std::mem::take(&mut state.close_clock);
            let time = clock.next_live(|due| state.is_live(due, !plan.is_parameterised));
            state.close_clock = clock;
            time.into_iter().for_each(&mut sooner);
        }
        if next == u64::MAX {
            self.quiet_until = later;
            return None;
        }
        Some(next)
    }

    /// Evaluates what is due at a time: layer by layer, closes last.
    pub(super) fn deadline(&mut self, time: u64) -> Result<(), Box<Failed>> {
        self.start_instant(time);
        let mut due = std::mem::take(&mut self.due);
        for index in &self.local.0 {
            let plan = &self.plan.streams[*index];
            let Pacing::Local(period) = plan.eval.pacing else { continue };
            let family = &self.state.families[plan.family];
            let is_live = |due: &Due| family.is_live(due, plan.cell.is_some());
            let clock = &mut self.state.streams[*index].evaluate_clock;
            while let Some(slot) = clock.take_live(time, period, is_live) {
                due.push((plan.eval_layer, Step::Evaluate(*index, Reach::One(slot))));
            }
        }
        for index in &self.local.1 {
            let plan = &self.plan.families[*index];
            let Some(Pacing::Local(period)) = plan.close.as_ref().map(|close| &close.pacing) else {
                continue;
            };
            let state = &mut self.state.families[*index];
            let mut clock = std::mem::take(&mut state.close_clock);
            while let Some(slot) =
                clock.take_live(time, *period, |due| state.is_live(due, !plan.is_parameterised))
            {
                due.push((usize::MAX, Step::Close(*index, Reach::One(slot))));
            }
            state.close_clock = clock;
        }
        let ticks = std::mem::take(&mut self.ticks);
        let now = self.plan.clocks.iter().zip(&ticks).filter(|((period, _), _)| time.is_multiple_of(*period));
        let mut now = now.map(|(_, steps)| steps);
        let done = match (now.next(), now.next()) {
            (Some(only), None) if due.is_empty() => only.iter().try_for_each(|(_, step)| self.step(step)),
            (first, second) => {
                // At one layer ticks come before the clocks of instances.
                let steps = first.into_iter().chain(second).chain(now).flatten().cloned();
                due.splice(0..0, steps);
                due.sort_by_key(|(layer, _)| *layer);
                due.iter().try_for_each(|(_, step)| self.step(step))
            }
        };
        self.ticks = ticks;
        due.clear();
        self.due = due;
        done
    }

    pub(super) fn layer(&self, task: Task) -> usize {
        match task {
            Task::Spawn(family) => self.plan.families[family].spawn_layer,
            Task::Evaluate(stream) => self.plan.streams[stream].eval_layer,
            Task::Close(_) => usize::MAX,
        }
    }
}

impl LocalClock {
    /// When the first instance that is still there is due.
    fn next_live(&mut self, is_live: impl Fn(&Due) -> bool) -> Option<u64> {
        while let Some(due) = self.first().filter(|due| !is_live(due)) {
            self.take(due.at);
        }
        self.first().map(|due| due.at)
    }

    /// An instance that is due at a time; it is due again a period later.
    fn take_live(&mut self, time: u64, period: u64, is_live: impl Fn(&Due) -> bool) -> Option<u32> {
        while let Some(due) = self.take(time) {
            if is_live(&due) {
                self.add(Due { at: due.at.saturating_add(period), ..due });
                return Some(due.slot);
            }
        }
        None
    }
}
