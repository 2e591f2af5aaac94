//! The executor: owns everything that an evaluation needs, and interprets the steps of an instant.

use std::sync::Arc;

use arrow::array::ArrayRef;
use fairstream_core::Subscription;

use super::changes::ChangeLog;
use super::cx::{Cx, Scratch};
use super::error::EvalError;
use super::input_batch::InputBatch;
use super::scheduler::Scheduler;
use super::{counters, string_gc};
use crate::compiled::ir::execution_plan::ExecutionPlan;
use crate::compiled::ir::plan::{Plan, StreamPlan};
use crate::compiled::ir::step::{DueTimer, Step};
use crate::compiled::ir::update_rule::Emission;
use crate::compiled::store::state::Store;

/// Evaluates a plan on a store.
pub(crate) struct Executor {
    /// Immutable, with everything that follows from plan and subscription. Handlers share it, so that it outlives them.
    plan: Arc<ExecutionPlan>,
    /// Persistent state: what outlives the program.
    store: Store,
    /// When the next timer is due.
    scheduler: Scheduler,
    /// What has happened at the current instant.
    changes: ChangeLog,
    scratch: Scratch,
    /// The decoded columns of the current batch.
    batch: InputBatch,
}

impl Executor {
    pub(crate) fn new(plan: Plan) -> Executor {
        let plan = ExecutionPlan::new(plan, |_, _| Emission::NONE);
        Executor {
            store: Store::new(&plan),
            scheduler: Scheduler::new(&plan),
            changes: ChangeLog::new(&plan),
            scratch: Scratch::default(),
            batch: InputBatch::default(),
            plan: Arc::new(plan),
        }
    }

    /// Specialises the plan for a subscription, and the store for the plan. `now` is the time up to which the store has
    /// been evaluated.
    ///
    /// # Errors
    /// A tick counter whose values are wanted from now on does not fit its type.
    pub(crate) fn subscribe(
        &mut self,
        plan: Plan,
        subscription: &Subscription,
        now: u64,
    ) -> Result<(), Box<EvalError>> {
        let emission_of = |index: usize, stream: &StreamPlan| Emission {
            values: subscription.wants(stream.verdict_kind(), index),
            lifecycle: subscription.wants(fairstream_core::Kind::Spawn, index),
            repeats: stream.is_trigger || subscription.wants_repeats(index),
            is_companion: subscription.is_companion(index),
        };
        self.plan = Arc::new(ExecutionPlan::new(plan, emission_of));
        // A counter that is stored from now on counts the ticks that were skipped.
        self.store.now = now;
        counters::choose_representation(&self.plan, &mut self.store)?;
        self.store.list_holders(&self.plan);
        // Ticks that were skipped because nothing would be emitted may have something to emit now.
        self.scheduler.invalidate();
        Ok(())
    }

    /// Decides for each tick counter of another store whether it is computed on read.
    ///
    /// # Errors
    /// The value of a counter does not fit its type.
    pub(crate) fn choose_representation(&self, store: &mut Store) -> Result<(), Box<EvalError>> {
        counters::choose_representation(&self.plan, store)
    }

    /// Continues from another store.
    pub(crate) fn resume(&mut self, store: Store) {
        self.store = store;
        self.scheduler.invalidate();
        self.changes.clear();
    }

    pub(crate) fn plan(&self) -> &Arc<ExecutionPlan> {
        &self.plan
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }

    pub(crate) fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    pub(crate) fn scheduler_mut(&mut self) -> &mut Scheduler {
        &mut self.scheduler
    }

    pub(crate) fn batch(&self) -> &InputBatch {
        &self.batch
    }

    pub(crate) fn changes(&self) -> &ChangeLog {
        &self.changes
    }

    /// What update functions work on.
    #[inline(always)]
    pub(crate) fn cx(&mut self) -> Cx<'_> {
        let Executor { plan, store, changes, scratch, .. } = self;
        Cx { plan, store, changes, scratch }
    }

    /// The same, with the batch.
    #[inline(always)]
    pub(crate) fn cx_and_batch(&mut self) -> (Cx<'_>, &InputBatch) {
        let Executor { plan, store, changes, scratch, batch, .. } = self;
        (Cx { plan, store, changes, scratch }, batch)
    }

    /// Decodes the columns of a batch.
    pub(crate) fn load_batch(&mut self, columns: &[ArrayRef], rows: usize) {
        self.batch.decode(columns, rows, &mut self.store.interner);
    }

    /// Faults in memory for the first instances.
    pub(crate) fn prefault(&mut self) {
        self.store.prefault(&self.plan);
    }

    pub(crate) fn unload_batch(&mut self) {
        self.batch.clear();
    }

    /// Begins an instant, with these inputs.
    #[inline(always)]
    pub(crate) fn start_instant(&mut self, now: u64, inputs: u128) {
        self.store.now = now;
        self.store.instant += 1;
        self.store.present = inputs;
    }

    /// Stores the inputs of a row, and runs the steps of its event.
    pub(crate) fn interpret_event(&mut self, row: usize, steps: &[Step]) -> Result<(), Box<EvalError>> {
        let mut inputs = self.store.present;
        while inputs != 0 {
            let (mut cx, batch) = self.cx_and_batch();
            cx.accept_input(inputs.trailing_zeros() as usize, batch, row)?;
            inputs &= inputs - 1;
        }
        self.interpret(steps)
    }

    /// Runs steps one after another.
    pub(crate) fn interpret(&mut self, steps: &[Step]) -> Result<(), Box<EvalError>> {
        let mut cx = self.cx();
        let done = steps.iter().try_for_each(|step| cx.run_step(step));
        self.absorb_deadlines();
        done
    }

    /// Lets the scheduler know of deadlines that updates have armed.
    #[inline(always)]
    pub(crate) fn absorb_deadlines(&mut self) {
        self.scheduler.lower_idle(self.changes.take_next_deadline());
    }

    /// The first time after `done` and up to `until` at which something is due that may change or emit something.
    pub(crate) fn next_due(&mut self, done: u64, until: u64) -> Option<u64> {
        self.scheduler.next_due(&self.plan, &mut self.store, done, until)
    }

    /// Advances the clocks to `done`; how many deadlines may be run before the next call.
    #[inline]
    pub(crate) fn advance_clocks(&mut self, done: u64) -> u64 {
        self.store.present = 0;
        self.scheduler.advance_clocks(&self.plan, &self.store, done)
    }

    /// Begins the instant of a deadline: finds the timers that are due, and the instances whose deadline has expired.
    pub(crate) fn start_deadline(&mut self, time: u64) {
        self.start_instant(time, 0);
        let Executor { plan, store, scheduler, changes, .. } = self;
        scheduler.find_due(plan, store, changes, time);
    }

    /// The timers that [`start_deadline`](Self::start_deadline) found.
    pub(crate) fn due_timers(&self) -> &[DueTimer] {
        self.scheduler.due_timers()
    }

    /// Checks the closes that have a deadline for each instance. They come last.
    pub(crate) fn close_expired(&mut self, time: u64) -> Result<(), Box<EvalError>> {
        self.cx().close_expired(time)
    }

    /// Whether the instant has nothing to emit and nothing to end.
    #[inline(always)]
    pub(crate) fn is_quiet(&self) -> bool {
        self.changes.is_empty()
    }

    /// Drops strings that nothing refers to, if there are many more than after the last time. Only between instants.
    #[inline]
    pub(crate) fn collect_strings(&mut self) {
        if self.store.interner.is_over_limit() {
            string_gc::drop_unused(&self.plan, &mut self.store, &self.batch);
        }
    }

    #[cfg(test)]
    pub(crate) fn evaluations(&self) -> u64 {
        self.scratch.evaluations
    }
}
