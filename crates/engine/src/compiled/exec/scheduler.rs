//! Time between events: what is due, and what can be skipped because nothing would come of it.

use std::ops::Range;

use crate::compiled::exec::instant::{Evaluator, Failed, Step, Target};
use crate::compiled::ir::plan::{InstanceTimer, Pacing, Task};
use crate::compiled::jit::Handler;
use crate::compiled::store::deadline_queue::{Deadline, DeadlineQueue};
use crate::compiled::store::state::State;

/// So many deadlines and ticks are done at once, before somebody looks up, ...
const MANY: u64 = 1024;
/// ... or looks ahead.
const AT_ONCE: u64 = 4;

/// What comes at one time, and at many: the clocks that tick then, and the chimes of which instances are due.
#[derive(Default)]
pub(crate) struct TimerSet {
    due_timers: Vec<DueTimer>,
    /// What is done at it, layer by layer.
    steps: Vec<Step>,
    /// How many there have been, until they came often.
    count: u32,
    /// The same steps as machine code.
    handler: Option<Handler>,
}

/// A clock that strikes, by its number in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DueTimer {
    Clock(usize),
    InstanceTimer(usize),
}

/// The first tick of a clock after a time; `guess` is one of its ticks that is likely to be it.
#[inline(always)]
fn tick_after(time: u64, period: u64, guess: u64) -> u64 {
    if guess > time && guess - period <= time { guess } else { (time / period + 1).saturating_mul(period) }
}

impl Evaluator {
    /// Evaluates what is due next, after `done` and up to `until`: the first time at which something must be told, if
    /// machine code can do what is due before it. Whether there was something.
    #[inline]
    pub(crate) fn run_next_deadline(&mut self, done: u64, until: u64) -> Result<bool, Box<Failed>> {
        if let Some(deadline_loop) = self.deadline_loop.as_ref().map(Handler::entry) {
            let before = self.state.instant;
            self.run_deadline_loop(deadline_loop, done, until)?;
            if self.state.instant > before || self.idle_until > until {
                return Ok(self.state.instant > before);
            }
        }
        match self.next_due(done, until) {
            Some(next) => self.deadline(next).map(|()| true),
            None => Ok(false),
        }
    }

    /// Something may have come up that is due at the next tick of a clock, though nothing was.
    #[inline]
    pub(crate) fn invalidate_idle(&mut self) {
        if self.deadline_loop.is_some() {
            self.idle_until = 0;
        }
    }

    /// Sets the clocks that start with the monitor to a time. How many deadlines and ticks are done at once from then on.
    #[inline]
    pub(crate) fn advance_clocks(&mut self, done: u64) -> u64 {
        for ((period, _), tick) in self.plan.clocks.iter().zip(&mut self.ticks) {
            *tick = tick_after(done, *period, *tick);
        }
        let are_many =
            |instance_timer: &InstanceTimer| self.state.families[instance_timer.family].instances.are_many();
        if self.plan.instance_timers.iter().any(are_many) && self.prefetch_deadlines() {
            AT_ONCE
        } else {
            MANY
        }
    }

    /// When the first clock of an instance strikes.
    #[inline]
    fn next_instance_deadline(&self) -> Option<u64> {
        self.state.instance_timers.iter().map(DeadlineQueue::next).min().filter(|next| *next < u64::MAX)
    }

    /// The first time after `done` and up to `until` at which something is due that is worth evaluating. If there
    /// is none, notes until when there will be none unless something happens.
    pub(crate) fn next_due(&mut self, done: u64, until: u64) -> Option<u64> {
        let (mut next, mut later) = (u64::MAX, u64::MAX);
        let mut sooner =
            |time: u64| if time <= until { next = next.min(time) } else { later = later.min(time) };
        self.next_instance_deadline().into_iter().for_each(&mut sooner);
        for index in &self.counters {
            let (plan, state) = (&self.plan.streams[*index], &mut self.state.streams[*index]);
            let family = &self.state.families[plan.family];
            let is_live = |due: &Deadline| family.is_live(due, plan.cell.is_some());
            for wake in &mut state.thresholds {
                let period = plan.eval.counter.map_or(0, |counter| counter.period);
                let tick = wake.next_live(is_live).and_then(|tick| tick.checked_mul(period));
                tick.into_iter().for_each(&mut sooner);
            }
        }
        for index in &self.local_closes {
            let (plan, state) = (&self.plan.families[*index], &mut self.state.families[*index]);
            let mut clock = std::mem::take(&mut state.close_deadlines);
            let time = clock.next_live(|due| state.is_live(due, !plan.is_parameterised));
            state.close_deadlines = clock;
            time.into_iter().for_each(&mut sooner);
        }
        // What a tick would do is asked only if it comes first: there may be many deadlines before it.
        let (mut ticks, mut last_active_task) =
            (std::mem::take(&mut self.ticks), std::mem::take(&mut self.last_active_task));
        let clocks = self.plan.clocks.iter().zip(&mut ticks).zip(&mut last_active_task);
        for (((period, tasks), tick), last_active_task) in clocks {
            *tick = tick_after(done, *period, *tick);
            if *tick > until {
                later = later.min(*tick);
            } else if *tick < next {
                // What had something to do at a tick has most often something to do at the next.
                if !self.is_idle(tasks[*last_active_task]) {
                    next = *tick;
                } else if let Some(found) = tasks.iter().position(|task| !self.is_idle(*task)) {
                    (*last_active_task, next) = (found, *tick);
                } else {
                    later = later.min(tick_after(until, *period, tick.saturating_add(*period)));
                }
            }
        }
        (self.ticks, self.last_active_task) = (ticks, last_active_task);
        if next == u64::MAX {
            self.idle_until = later;
            return None;
        }
        Some(next)
    }

    /// Evaluates what is due at a time that is the [next](Self::next_due): layer by layer, closes last.
    pub(crate) fn deadline(&mut self, time: u64) -> Result<(), Box<Failed>> {
        self.start_instant(time);
        self.due_timers.clear();
        for (number, ((period, _), tick)) in self.plan.clocks.iter().zip(&self.ticks).enumerate() {
            // A clock for which there was nothing to do may be behind.
            if *tick == time || (*tick < time && time.is_multiple_of(*period)) {
                self.due_timers.push(DueTimer::Clock(number));
            }
        }
        self.find_expired(time);
        self.expire()?;
        self.close_what_is_due(time)
    }

    /// Has what instances need that are due soon fetched from memory: first their slots, and once these are there, what
    /// leads to them. Whether there are so many that this is worth it.
    #[inline(never)]
    fn prefetch_deadlines(&self) -> bool {
        const NEAR: Range<usize> = 2..2 + AT_ONCE as usize;
        const FAR: Range<usize> = 8..8 + AT_ONCE as usize;
        let mut is_worthwhile = false;
        for (clock, instance_timer) in self.state.instance_timers.iter().zip(&self.plan.instance_timers) {
            let instances = &self.state.families[instance_timer.family].instances;
            if instances.are_many() && self.plan.families[instance_timer.family].is_parameterised {
                is_worthwhile = true;
                FAR.filter_map(|after| clock.nth(after)).for_each(|due| instances.fetch(due.slot));
                NEAR.filter_map(|after| clock.nth(after)).for_each(|due| instances.fetch_own_entry(due.slot));
            }
        }
        is_worthwhile
    }

    /// Finds the instances whose clocks strike at a time. Clocks of those that have ended may strike, too.
    #[inline]
    fn find_expired(&mut self, time: u64) {
        let State { instance_timers, families, .. } = &mut self.state;
        for (number, (clock, expired)) in instance_timers.iter_mut().zip(&mut self.expired).enumerate() {
            expired.clear();
            if clock.next() > time {
                continue;
            }
            let InstanceTimer { family, period, .. } = self.plan.instance_timers[number];
            let is_whole = !self.plan.families[family].is_parameterised;
            let family = &families[family];
            clock.expire(time, period, |due| family.is_live(due, is_whole), expired);
            if !expired.is_empty() {
                self.due_timers.push(DueTimer::InstanceTimer(number));
            }
        }
    }

    /// Does what belongs to this hour.
    fn expire(&mut self) -> Result<(), Box<Failed>> {
        if self.due_timers.is_empty() {
            return Ok(());
        }
        if self.timer_sets.get(self.current_timer_set).is_none_or(|set| set.due_timers != self.due_timers) {
            self.current_timer_set = self.find_timer_set();
        }
        if let Some(handler) = &self.timer_sets[self.current_timer_set].handler {
            let entry = handler.entry();
            return self.run_timer_handler(entry);
        }
        let mut set = std::mem::take(&mut self.timer_sets[self.current_timer_set]);
        set.count = set.count.saturating_add(1);
        if set.count == self.compile_after {
            set.handler = Handler::new(self, 0, &set.steps);
        }
        let done = set.steps.iter().try_for_each(|step| self.step(step));
        self.timer_sets[self.current_timer_set] = set;
        done
    }

    /// The number of the set of this hour.
    fn find_timer_set(&mut self) -> usize {
        const MANY: usize = 64;
        if let Some(found) = self.timer_sets.iter().position(|set| set.due_timers == self.due_timers) {
            return found;
        }
        if self.timer_sets.len() >= MANY {
            self.timer_sets.clear();
        }
        self.timer_sets.push(TimerSet {
            steps: self.steps_at(&self.due_timers),
            due_timers: self.due_timers.clone(),
            ..TimerSet::default()
        });
        self.timer_sets.len() - 1
    }

    /// What is done at an hour: at one layer ticks come before the clocks of instances, which come stream by stream.
    fn steps_at(&self, due_timers: &[DueTimer]) -> Vec<Step> {
        let mut steps: Vec<(usize, Option<usize>, Step)> = Vec::new();
        for timer in due_timers {
            match *timer {
                DueTimer::Clock(number) => {
                    let tasks = self.plan.clocks[number].1.iter();
                    steps.extend(tasks.map(|task| (self.layer(*task), None, self.step_of(*task, 0))));
                }
                DueTimer::InstanceTimer(number) => {
                    let streams = self.plan.instance_timers[number].streams.iter();
                    steps.extend(streams.map(|stream| {
                        let layer = self.plan.streams[*stream].eval_layer;
                        (layer, Some(*stream), Step::Evaluate(*stream, Target::Expired(number)))
                    }));
                }
            }
        }
        steps.sort_by_key(|(layer, stream, _)| (*layer, *stream));
        steps.into_iter().map(|(_, _, step)| step).collect()
    }

    /// Writes machine code for the hours that are likely to come: each clock by itself, each instance by itself, and both
    /// together where instances are due at ticks if they are spawned at one, as they are where times are dates.
    pub(crate) fn precompile_timer_sets(&mut self) {
        let clocks: Vec<DueTimer> = (0..self.plan.clocks.len()).map(DueTimer::Clock).collect();
        let instance_timers: Vec<DueTimer> =
            (0..self.plan.instance_timers.len()).map(DueTimer::InstanceTimer).collect();
        if clocks.is_empty() && instance_timers.is_empty() {
            return;
        }
        // Counters and closes of instances have times of their own.
        if self.counters.is_empty() && self.local_closes.is_empty() {
            let at_ticks = clocks.iter().map(|clock| self.steps_at(&[*clock])).collect();
            self.deadline_loop = Handler::of_clocks(self, self.steps_at(&instance_timers), at_ticks);
        }
        let is_left = |timer: &DueTimer| match timer {
            _ if self.deadline_loop.is_none() => true,
            DueTimer::Clock(clock) => !self.can_skip_cheaply(*clock),
            DueTimer::InstanceTimer(_) => false,
        };
        let meets = |(period, _): &&(u64, Vec<Task>)| {
            !instance_timers.is_empty()
                && self
                    .plan
                    .instance_timers
                    .iter()
                    .all(|instance_timer| instance_timer.period.is_multiple_of(*period))
        };
        let together: Vec<Vec<DueTimer>> = (clocks.iter().zip(&self.plan.clocks))
            .filter(|(_, clock)| meets(clock))
            .map(|(clock, _)| [&[*clock], instance_timers.as_slice()].concat())
            .collect();
        let mut timer_sets: Vec<Vec<DueTimer>> =
            clocks.into_iter().map(|clock| vec![clock]).chain([instance_timers]).collect();
        timer_sets.retain(|due_timers| due_timers.first().is_some_and(is_left));
        timer_sets.extend(together);
        for due_timers in timer_sets {
            self.due_timers = due_timers;
            let number = self.find_timer_set();
            self.timer_sets[number].handler = Handler::new(self, 0, &self.timer_sets[number].steps);
        }
    }

    /// Whether it is easily told that a tick of a clock would change nothing and tell nothing.
    pub(crate) fn can_skip_cheaply(&self, clock: usize) -> bool {
        self.plan.clocks[clock].1.iter().all(|task| match *task {
            Task::Spawn(_) => false,
            Task::Evaluate(stream) => self.can_skip_tick[stream],
            Task::Close(family) => {
                let plan = &self.plan.families[family];
                plan.is_parameterised && plan.close.as_ref().is_some_and(|close| close.incremental)
            }
        })
    }

    /// Machine code was written for who was told before.
    pub(crate) fn drop_timer_handlers(&mut self) {
        self.timer_sets.clear();
        self.deadline_loop = None;
    }

    /// Closes that have a clock for each instance come last.
    fn close_what_is_due(&mut self, time: u64) -> Result<(), Box<Failed>> {
        for at in 0..self.local_closes.len() {
            let index = self.local_closes[at];
            let plan = &self.plan.families[index];
            let Some(Pacing::Local(period)) = plan.close.as_ref().map(|close| close.pacing.clone()) else {
                continue;
            };
            let is_whole = !plan.is_parameterised;
            let state = &mut self.state.families[index];
            let mut clock = std::mem::take(&mut state.close_deadlines);
            let mut due = Vec::new();
            clock.expire(time, period, |due| state.is_live(due, is_whole), &mut due);
            state.close_deadlines = clock;
            due.iter().try_for_each(|slot| self.close_one(index, *slot))?;
        }
        Ok(())
    }

    pub(crate) fn layer(&self, task: Task) -> usize {
        match task {
            Task::Spawn(family) => self.plan.families[family].spawn_layer,
            Task::Evaluate(stream) => self.plan.streams[stream].eval_layer,
            Task::Close(_) => usize::MAX,
        }
    }
}
