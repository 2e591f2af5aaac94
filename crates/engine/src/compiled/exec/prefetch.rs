//! Prefetching within a batch: the index entries and slots that later rows will need are on their way from memory before
//! their turn comes.

use super::input_batch::InputBatch;
use crate::compiled::ir::execution_plan::{ExecutionPlan, IndexedInput};
use crate::compiled::store::state::Store;

/// Rows that are prefetched together. Index entries are fetched two blocks ahead, the slots they lead to one.
pub(super) const BLOCK: usize = 8;

/// Whether an index that inputs are looked up in is so large that its entries are not in the cache.
pub(super) fn is_worthwhile(plan: &ExecutionPlan, store: &Store) -> bool {
    plan.indexed_inputs.iter().any(|indexed| store.families[indexed.family].instances.exceeds_cache())
}

/// Prefetches for the blocks after the one that begins at `row`.
#[inline(never)]
pub(super) fn rows(plan: &ExecutionPlan, store: &Store, batch: &InputBatch, row: usize) {
    for indexed in &plan.indexed_inputs {
        let instances = &store.families[indexed.family].instances;
        let (near, count) = keys(indexed, batch, row + BLOCK);
        near[..count].iter().for_each(|word| instances.prefetch_slot(indexed.route, *word));
        let (far, count) = keys(indexed, batch, row + 2 * BLOCK);
        far[..count].iter().for_each(|word| instances.prefetch_entry(indexed.route, *word));
    }
}

/// The keys that a block of rows looks up, and how many rows it has; some word where a row looks up none. Which inputs a
/// row has is unpredictable, so the loop selects without branching.
#[inline(always)]
fn keys(indexed: &IndexedInput, batch: &InputBatch, from: usize) -> ([u64; BLOCK], usize) {
    let mut keys = [0; BLOCK];
    let rows = from.min(batch.len())..(from + BLOCK).min(batch.len());
    for input in &indexed.inputs {
        let present = batch.all_inputs()[rows.clone()].iter().map(|inputs| (inputs >> input) as u64 & 1);
        let column = &batch.words(*input)[rows.clone()];
        for ((key, word), is_present) in keys.iter_mut().zip(column).zip(present) {
            *key = if is_present != 0 { *word } else { *key };
        }
    }
    (keys, rows.len())
}
