//! Copies of what a store remembers: nothing but memory is copied, without indexes and without what follows from the rest.

use std::sync::Arc;

use fairstream_core::{CapturedState, StateError, StateWriter};
use rust_decimal::Decimal;

use crate::compiled::ir::aggregate::Aggregate;
use crate::compiled::ir::execution_plan::ExecutionPlan;
use crate::compiled::ir::layout::Leaf;
use crate::compiled::store::deadline_queue::Deadline;
use crate::compiled::store::history::ValueHistory;
use crate::compiled::store::huge_vec::HugeVec;
use crate::compiled::store::interner::StringsCopy;
use crate::compiled::store::slab::SlabCopy;
use crate::compiled::store::state::Store;
use crate::compiled::store::window::bucketed::WindowStore;
use crate::definition::Definitions;
use crate::timeline::Timeline;

/// The state of an engine as it was at one time.
pub(super) struct EngineCopy {
    pub(super) plan: Arc<ExecutionPlan>,
    pub(super) definitions: Arc<Definitions>,
    pub(super) timeline: Timeline,
    pub(super) instants: u64,
    pub(super) frame: Vec<u64>,
    pub(super) strings: StringsCopy,
    pub(super) past: Vec<ValueHistory>,
    pub(super) families: Vec<FamilyCopy>,
    pub(super) streams: Vec<StreamCopy>,
    pub(super) windows: Vec<WindowStore>,
    /// For each instance timer.
    pub(super) deadlines: Vec<HugeVec<Deadline>>,
    /// For each grouped aggregate, and each of its sums of decimals.
    pub(super) sums: Vec<SumsCopy>,
}

pub(super) struct FamilyCopy {
    pub(super) instances: SlabCopy,
    pub(super) alive: bool,
    pub(super) spawns: u64,
    pub(super) spawned_at: Vec<[u64; 2]>,
    pub(super) close_dirty: bool,
    pub(super) close_deadlines: HugeVec<Deadline>,
}

pub(super) struct StreamCopy {
    pub(super) dirty: bool,
    pub(super) holds: bool,
    pub(super) is_computed_on_read: bool,
}

/// The sums of decimals of one aggregate: for each group its key, the sum, and whether it has overflowed.
pub(super) struct SumsCopy {
    pub(super) grouped: usize,
    pub(super) aggregate: usize,
    pub(super) groups: Vec<(Vec<u64>, Decimal, bool)>,
}

impl EngineCopy {
    pub(super) fn new(
        plan: &Arc<ExecutionPlan>,
        definitions: &Arc<Definitions>,
        timeline: Timeline,
        store: &Store,
    ) -> EngineCopy {
        let families = store.families.iter().map(|family| FamilyCopy {
            instances: family.instances.copy(),
            alive: family.alive,
            spawns: family.spawns,
            spawned_at: family.spawned_at.clone(),
            close_dirty: family.close_dirty.all,
            close_deadlines: family.close_deadlines.copy(),
        });
        let streams = store.streams.iter().map(|stream| StreamCopy {
            dirty: stream.dirty.all,
            holds: stream.holds,
            is_computed_on_read: stream.is_computed_on_read,
        });
        let sums = store.grouped.iter().enumerate().flat_map(|(grouped, groups)| {
            let is_decimal = |of: &Aggregate| {
                matches!(of, Aggregate::Sum(Leaf::Decimal) | Aggregate::Average(Leaf::Decimal))
            };
            let aggregates = plan.grouped[grouped].aggregates.iter().enumerate();
            aggregates.filter(move |(_, of)| is_decimal(of)).filter_map(move |(aggregate, _)| {
                let sums = groups.decimal_sums(aggregate);
                let groups: Vec<_> =
                    sums.map(|(key, sum, overflowed)| (key.to_vec(), sum, overflowed)).collect();
                (!groups.is_empty()).then_some(SumsCopy { grouped, aggregate, groups })
            })
        });
        EngineCopy {
            plan: Arc::clone(plan),
            definitions: Arc::clone(definitions),
            timeline,
            instants: store.instant,
            frame: store.frame[..store.frame.used()].to_vec(),
            strings: store.interner.copy(),
            past: store.past.clone(),
            families: families.collect(),
            streams: streams.collect(),
            windows: store.windows.clone(),
            deadlines: store.instance_timers.iter().map(|timer| timer.copy()).collect(),
            sums: sums.collect(),
        }
    }
}

impl CapturedState for EngineCopy {
    fn write(self: Box<Self>, to: &mut dyn StateWriter) -> Result<(), StateError> {
        super::write::write(&self, to)
    }
}
