//! Mark and sweep of interned strings, so that strings of closed instances take no memory.

use super::input_batch::InputBatch;
use crate::compiled::ir::layout::Leaf;
use crate::compiled::ir::plan::Plan;
use crate::compiled::store::aggregate::group::GroupedAggregate;
use crate::compiled::store::state::Store;

/// Drops the strings that nothing refers to. Only between instants: words that a program has left in the frame are not
/// looked at.
#[cold]
pub(super) fn drop_unused(plan: &Plan, store: &mut Store, batch: &InputBatch) {
    store.grouped.iter_mut().for_each(GroupedAggregate::drop_empty_keys);
    let mut used = vec![false; store.interner.numbers()];
    // Constants.
    used[..plan.string_constants.len()].fill(true);
    let mut keep = |leaves: &[(usize, Leaf)], words: &[u64]| {
        for (offset, _) in leaves.iter().filter(|(_, leaf)| leaf.is_interned()) {
            if let Some(used) = used.get_mut(words[*offset] as usize) {
                *used = true;
            }
        }
    };
    for (column, cell) in batch.columns().iter().zip(&plan.inputs) {
        if cell.leaves.iter().any(|(_, leaf)| leaf.is_interned()) {
            column.values().for_each(|words| keep(&cell.leaves, words));
        }
    }
    let outputs = plan.streams.iter().map(|stream| stream.cell.as_ref());
    for (cell, past) in plan.inputs.iter().map(Some).chain(outputs).zip(&store.past) {
        let Some(cell) = cell else { continue };
        keep(&cell.leaves, &store.frame[cell.value as usize..]);
        past.values(cell.width).for_each(|value| keep(&cell.leaves, value));
    }
    for stream in plan.streams.iter().filter(|stream| stream.is_parameterised()) {
        let instances = &store.families[stream.family].instances;
        for slot in instances.live_slots() {
            keep(&stream.param_leaves, instances.params(slot));
            instances.values(slot, stream.member).for_each(|value| keep(&stream.value_leaves, value));
        }
    }
    for (grouped, of) in store.grouped.iter().zip(&plan.grouped) {
        let params = &plan.streams[of.target].param_leaves;
        let position = |word: &usize| of.key_words.iter().position(|at| at == word);
        let leaves: Vec<(usize, Leaf)> =
            params.iter().filter_map(|(word, leaf)| Some((position(word)?, *leaf))).collect();
        grouped.keys().for_each(|key| keep(&leaves, key));
    }
    for (windows, of) in store.windows.iter().zip(&plan.windows) {
        let leaves = of.target.map_or(&[][..], |target| &plan.streams[target].param_leaves);
        for (key, texts) in windows.used() {
            if !key.is_empty() {
                keep(leaves, key);
            }
            texts.iter().for_each(|text| keep(&[(0, Leaf::Text)], &[*text]));
        }
    }
    store.interner.retain(&used);
}
