//! Time between events: what is due, and what can be skipped because nothing would come of it.

use super::instant::{Evaluator, Failed, Reach, Step};
use super::plan::{Pacing, Task};
use super::state::{Due, LocalClock, StreamState};

impl Evaluator {
    /// The first time after `done` at which something is due that is worth evaluating.
    pub(super) fn next_due(&mut self, done: u64) -> Option<u64> {
        let mut next: Option<u64> = None;
        let mut sooner = |time: u64| next = Some(next.map_or(time, |next| next.min(time)));
        for (period, tasks) in &self.plan.clocks {
            if !tasks.iter().all(|task| self.is_idle(*task))
                && let Some(time) = (done / period + 1).checked_mul(*period)
            {
                sooner(time);
            }
        }
        for (plan, state) in self.plan.streams.iter().zip(&mut self.state.streams) {
            let whole = plan.cell.is_some();
            let evaluate = state.next_evaluation(whole);
            let close = state.next_close(whole);
            [evaluate, close].into_iter().flatten().for_each(&mut sooner);
        }
        next
    }

    /// Evaluates what is due at a time: layer by layer, closes last.
    pub(super) fn deadline(&mut self, time: u64) -> Result<(), Failed> {
        self.start_instant(time);
        let mut due: Vec<(usize, Step)> = Vec::new();
        for (_, tasks) in self.plan.clocks.iter().filter(|(period, _)| time.is_multiple_of(*period)) {
            due.extend(tasks.iter().map(|task| (self.layer(*task), self.timed(*task))));
        }
        for index in 0..self.plan.streams.len() {
            let plan = &self.plan.streams[index];
            if let Pacing::Local(period) = plan.eval.pacing {
                let layer = plan.eval_layer;
                while let Some(slot) = self.take_due(index, time, period, |state| &mut state.evaluate_clock) {
                    due.push((layer, Step::Evaluate(index, Reach::One(slot))));
                }
            }
            let close = self.plan.streams[index].close.as_ref();
            if let Some(Pacing::Local(period)) = close.map(|close| close.pacing.clone()) {
                while let Some(slot) = self.take_due(index, time, period, |state| &mut state.close_clock) {
                    due.push((usize::MAX, Step::Close(index, Reach::One(slot))));
                }
            }
        }
        due.sort_by_key(|(layer, _)| *layer);
        due.iter().try_for_each(|(_, step)| self.step(step))
    }

    fn layer(&self, task: Task) -> usize {
        let stream = &self.plan.streams[task.stream()];
        match task {
            Task::Spawn(_) => stream.spawn_layer,
            Task::Evaluate(_) => stream.eval_layer,
            Task::Close(_) => usize::MAX,
        }
    }

    /// An instance that is due at a time; it is due again a period later.
    fn take_due(
        &mut self,
        index: usize,
        time: u64,
        period: u64,
        clock: fn(&mut StreamState) -> &mut LocalClock,
    ) -> Option<u32> {
        let whole = self.plan.streams[index].cell.is_some();
        let state = &mut self.state.streams[index];
        while let Some(due) = clock(state).take(time) {
            if state.is_live(&due, whole) {
                let at = due.at.saturating_add(period);
                clock(state).add(Due { at, ..due });
                return Some(due.slot);
            }
        }
        None
    }
}

impl StreamState {
    fn is_live(&self, due: &Due, whole: bool) -> bool {
        if whole { self.alive && self.spawns == due.born } else { self.instances.born(due.slot) == due.born }
    }

    fn next_evaluation(&mut self, whole: bool) -> Option<u64> {
        while let Some(due) = self.evaluate_clock.first().filter(|due| !self.is_live(due, whole)) {
            self.evaluate_clock.take(due.at);
        }
        self.evaluate_clock.next()
    }

    fn next_close(&mut self, whole: bool) -> Option<u64> {
        while let Some(due) = self.close_clock.first().filter(|due| !self.is_live(due, whole)) {
            self.close_clock.take(due.at);
        }
        self.close_clock.next()
    }
}
