//! Tick counters: computed on read where their values are not emitted, stored where they are.

use super::cx::Cx;
use super::error::EvalError;
use super::propagate::{ChangeSource, mark_resolved};
use crate::compiled::ir::execution_plan::ExecutionPlan;
use crate::compiled::store::deadline_queue::DeadlineQueue;
use crate::compiled::store::state::Store;

/// Decides for each counter whether it is computed on read. A store that was restored may have it otherwise: what was
/// computed on read can be stored from now on, but not the other way round, unless there is no instance.
///
/// # Errors
/// The value of a counter does not fit its type.
pub(super) fn choose_representation(plan: &ExecutionPlan, store: &mut Store) -> Result<(), Box<EvalError>> {
    for stream in plan.counters.iter().copied() {
        let of = &plan.streams[stream];
        let is_computed = store.streams[stream].is_computed_on_read;
        if is_computed && plan.emission[stream].values {
            materialise(plan, store, stream)?;
        } else if !is_computed
            && !plan.emission[stream].values
            && store.families[of.family].instances.len() == 0
        {
            let state = &mut store.streams[stream];
            state.is_computed_on_read = true;
            state.threshold_timers = of.eval.thresholds.iter().map(|_| DeadlineQueue::default()).collect();
        }
    }
    Ok(())
}

/// Stores the values of a counter that was computed on read.
fn materialise(plan: &ExecutionPlan, store: &mut Store, stream: usize) -> Result<(), Box<EvalError>> {
    let of = &plan.streams[stream];
    let slots: Vec<u32> = store.families[of.family].instances.live_slots().collect();
    for slot in slots {
        let value = store.count(plan, stream, slot).map_err(|fault| EvalError::outside(stream, fault))?;
        if let Some(value) = value {
            store.families[of.family].instances.push(slot, of.member, &[value]);
        }
    }
    let state = &mut store.streams[stream];
    state.is_computed_on_read = false;
    state.threshold_timers.clear();
    state.dirty.mark_all();
    Ok(())
}

impl Cx<'_> {
    /// A tick of a counter that is computed on read: marks the dependents whose threshold it crosses.
    pub(super) fn tick_counter(&mut self, stream: usize) {
        self.list_crossed(stream);
        let Cx { plan, store, scratch, .. } = self;
        let family = plan.streams[stream].family;
        for slot in scratch.listed.iter().copied() {
            let source = ChangeSource::Instance { family, slot };
            mark_resolved(store, plan, &plan.counter_dependents[stream].dependents, source);
        }
    }

    /// A tick of a counter: lists the instances for which it crosses a threshold.
    pub(crate) fn list_crossed(&mut self, stream: usize) {
        let Cx { plan, store, scratch, .. } = self;
        let of = &plan.streams[stream];
        scratch.listed.clear();
        let Some(counter) = of.eval.counter else { return };
        let Store { streams, families, now, instant, .. } = &mut **store;
        streams[stream].last_tick_instant = *instant;
        let instances = &families[of.family].instances;
        for timer in &mut streams[stream].threshold_timers {
            while let Some(deadline) = timer.pop_due(*now / counter.period) {
                if instances.generation(deadline.slot) == deadline.generation {
                    scratch.listed.push(deadline.slot);
                }
            }
        }
    }
}
