//! What update functions work on. Not time: only the executor and the scheduler decide when something is done.

use super::changes::ChangeLog;
use crate::compiled::ir::execution_plan::ExecutionPlan;
use crate::compiled::store::state::Store;

/// The parts of the executor that an update may read and change.
pub(crate) struct Cx<'a> {
    pub(super) plan: &'a ExecutionPlan,
    pub(super) store: &'a mut Store,
    pub(super) changes: &'a mut ChangeLog,
    pub(super) scratch: &'a mut Scratch,
}

/// Buffers that are kept for their memory. Their contents mean nothing between two calls.
#[derive(Default)]
pub(crate) struct Scratch {
    /// Slots that access paths have found.
    pub(super) candidates: Vec<u32>,
    /// Slots that were taken out of a dirty set.
    pub(super) listed: Vec<u32>,
    /// The key of a group.
    pub(super) key: Vec<u64>,
    /// The value that an instance had before an update.
    pub(super) old: Vec<u64>,
    /// How many evaluations and close checks were run.
    #[cfg(test)]
    pub(super) evaluations: u64,
}

impl Cx<'_> {
    /// The slots that the last listing call found.
    pub(crate) fn listed(&mut self) -> &mut Vec<u32> {
        &mut self.scratch.listed
    }

    #[inline(always)]
    pub(super) fn count_evaluation(&mut self) {
        #[cfg(test)]
        {
            self.scratch.evaluations += 1;
        }
    }
}
