//! When the next timer is due, and which ticks can be skipped because they would change and emit nothing.

use std::ops::Range;

use super::changes::ChangeLog;
use crate::compiled::ir::execution_plan::ExecutionPlan;
use crate::compiled::ir::plan::{InstanceTimer, Plan, Task};
use crate::compiled::ir::step::DueTimer;
use crate::compiled::store::deadline_queue::{Deadline, DeadlineQueue};
use crate::compiled::store::state::Store;

/// How many deadlines and ticks the deadline loop runs before it returns, so that a run can be cancelled.
const BUDGET: u64 = 1024;
/// The same where the slots of later deadlines are prefetched in between.
const PREFETCH_BUDGET: u64 = 4;

/// Finds what is due next.
pub(crate) struct Scheduler {
    /// For each global clock its next tick, or one before it.
    ticks: Vec<u64>,
    /// For each global clock the task that was found active last: it is likely to be active again.
    last_active_task: Vec<usize>,
    /// The timers that are due at the current instant.
    due_timers: Vec<DueTimer>,
    /// Nothing is due before this time, in nanoseconds since the start, unless an event marks something dirty that is
    /// evaluated at ticks.
    idle_until: u64,
}

/// The first tick of a clock after a time; `guess` is one of its ticks that is likely to be it.
#[inline(always)]
fn tick_after(time: u64, period: u64, guess: u64) -> u64 {
    if guess > time && guess - period <= time { guess } else { (time / period + 1).saturating_mul(period) }
}

impl Scheduler {
    pub(super) fn new(plan: &Plan) -> Scheduler {
        Scheduler {
            ticks: vec![0; plan.clocks.len()],
            last_active_task: vec![0; plan.clocks.len()],
            due_timers: Vec::new(),
            idle_until: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn idle_until(&self) -> u64 {
        self.idle_until
    }

    /// For machine code, which lowers it when it arms a timer or marks something dirty.
    pub(crate) fn idle_until_mut(&mut self) -> &mut u64 {
        &mut self.idle_until
    }

    /// For machine code: the next tick of each clock.
    pub(crate) fn ticks_mut(&mut self) -> &mut [u64] {
        &mut self.ticks
    }

    /// Something may be due at the next tick though nothing was.
    #[inline(always)]
    pub(crate) fn invalidate(&mut self) {
        self.idle_until = 0;
    }

    /// Something is due at a time.
    #[inline(always)]
    pub(super) fn lower_idle(&mut self, at: u64) {
        self.idle_until = self.idle_until.min(at);
    }

    pub(super) fn due_timers(&self) -> &[DueTimer] {
        &self.due_timers
    }

    /// Advances the clocks to a time; how many deadlines may be run before the next call.
    #[inline]
    pub(super) fn advance_clocks(&mut self, plan: &ExecutionPlan, store: &Store, done: u64) -> u64 {
        for ((period, _), tick) in plan.clocks.iter().zip(&mut self.ticks) {
            *tick = tick_after(done, *period, *tick);
        }
        let exceeds_cache = |timer: &InstanceTimer| store.families[timer.family].instances.exceeds_cache();
        if plan.instance_timers.iter().any(exceeds_cache) && prefetch_deadlines(plan, store) {
            PREFETCH_BUDGET
        } else {
            BUDGET
        }
    }

    /// The first time after `done` and up to `until` at which something is due that may change or emit something. If
    /// there is none, notes until when nothing will be.
    pub(super) fn next_due(
        &mut self,
        plan: &ExecutionPlan,
        store: &mut Store,
        done: u64,
        until: u64,
    ) -> Option<u64> {
        let (mut next, mut later) = (u64::MAX, u64::MAX);
        let mut sooner =
            |time: u64| if time <= until { next = next.min(time) } else { later = later.min(time) };
        let deadlines = store.instance_timers.iter().map(DeadlineQueue::next);
        deadlines.min().filter(|next| *next < u64::MAX).into_iter().for_each(&mut sooner);
        for index in &plan.counters {
            let (of, state) = (&plan.streams[*index], &mut store.streams[*index]);
            let family = &store.families[of.family];
            let is_live = |deadline: &Deadline| family.is_live(deadline, of.cell.is_some());
            for timer in &mut state.threshold_timers {
                let period = of.eval.counter.map_or(0, |counter| counter.period);
                let tick = timer.next_live(is_live).and_then(|tick| tick.checked_mul(period));
                tick.into_iter().for_each(&mut sooner);
            }
        }
        for index in &plan.local_closes {
            let (of, state) = (&plan.families[*index], &mut store.families[*index]);
            let mut deadlines = std::mem::take(&mut state.close_deadlines);
            let time = deadlines.next_live(|deadline| state.is_live(deadline, !of.is_parameterised));
            state.close_deadlines = deadlines;
            time.into_iter().for_each(&mut sooner);
        }
        // The tasks of a tick are examined only if it comes first: there may be many deadlines before it.
        let clocks = plan.clocks.iter().zip(&mut self.ticks).zip(&mut self.last_active_task);
        for (((period, tasks), tick), last_active) in clocks {
            *tick = tick_after(done, *period, *tick);
            if *tick > until {
                later = later.min(*tick);
            } else if *tick < next {
                if !is_idle(plan, store, tasks[*last_active]) {
                    next = *tick;
                } else if let Some(found) = tasks.iter().position(|task| !is_idle(plan, store, *task)) {
                    (*last_active, next) = (found, *tick);
                } else {
                    later = later.min(tick_after(until, *period, tick.saturating_add(*period)));
                }
            }
        }
        if next == u64::MAX {
            self.idle_until = later;
            return None;
        }
        Some(next)
    }

    /// Finds the timers that are due at a time that [`next_due`](Self::next_due) gave, and the expired instances.
    pub(super) fn find_due(
        &mut self,
        plan: &ExecutionPlan,
        store: &mut Store,
        changes: &mut ChangeLog,
        time: u64,
    ) {
        self.due_timers.clear();
        for (clock, ((period, _), tick)) in plan.clocks.iter().zip(&self.ticks).enumerate() {
            // A clock whose ticks were skipped may be behind.
            if *tick == time || (*tick < time && time.is_multiple_of(*period)) {
                self.due_timers.push(DueTimer::Clock(clock));
            }
        }
        let Store { instance_timers, families, .. } = store;
        let timers = instance_timers.iter_mut().zip(changes.expired_mut());
        for (number, (deadlines, expired)) in timers.enumerate() {
            expired.clear();
            if deadlines.next() > time {
                continue;
            }
            let InstanceTimer { family, period, .. } = plan.instance_timers[number];
            let is_whole = !plan.families[family].is_parameterised;
            let family = &families[family];
            deadlines.expire(time, period, |deadline| family.is_live(deadline, is_whole), expired);
            if !expired.is_empty() {
                self.due_timers.push(DueTimer::InstanceTimer(number));
            }
        }
    }
}

/// Whether a task would change and emit nothing.
fn is_idle(plan: &ExecutionPlan, store: &Store, task: Task) -> bool {
    let is_absent = |family: usize| {
        let state = &store.families[family];
        if plan.families[family].is_parameterised { state.instances.len() == 0 } else { !state.alive }
    };
    match task {
        Task::Spawn(_) => false,
        Task::Evaluate(stream) => {
            let (eval, state) = (&plan.streams[stream].eval, &store.streams[stream]);
            // Most often nothing is dirty and nothing is emitted.
            if eval.incremental && state.dirty.is_empty() && state.current_holders.is_empty() {
                return true;
            }
            if state.is_computed_on_read {
                return true;
            }
            let family = plan.streams[stream].family;
            if eval.guard.is_some() {
                return is_absent(family) || state.dirty.is_empty();
            }
            let emission = plan.emission[stream];
            let is_silent = !emission.values || emission.is_companion || state.current_holders.is_empty();
            is_absent(family) || (eval.incremental && state.dirty.is_empty() && is_silent)
        }
        Task::Close(family) => {
            let incremental = plan.families[family].close.as_ref().is_some_and(|close| close.incremental);
            is_absent(family) || (incremental && store.families[family].close_dirty.is_empty())
        }
    }
}

/// Prefetches the slots of deadlines that are due soon, and the index entries of those that are due next. Whether any
/// slab is so large that this is worthwhile.
#[inline(never)]
fn prefetch_deadlines(plan: &ExecutionPlan, store: &Store) -> bool {
    const ENTRIES: Range<usize> = 2..2 + PREFETCH_BUDGET as usize;
    const SLOTS: Range<usize> = 8..8 + PREFETCH_BUDGET as usize;
    let mut is_worthwhile = false;
    for (deadlines, timer) in store.instance_timers.iter().zip(&plan.instance_timers) {
        let instances = &store.families[timer.family].instances;
        if instances.exceeds_cache() && plan.families[timer.family].is_parameterised {
            is_worthwhile = true;
            SLOTS.filter_map(|at| deadlines.nth(at)).for_each(|due| instances.prefetch(due.slot));
            ENTRIES.filter_map(|at| deadlines.nth(at)).for_each(|due| instances.prefetch_own_entry(due.slot));
        }
    }
    is_worthwhile
}
