//! Forgets strings that nobody uses any more, so that people who have come and gone leave no trace.

use crate::compiled::exec::instant::Evaluator;
use crate::compiled::ir::layout::Leaf;
use crate::compiled::store::aggregate::group::GroupedAggregate;

impl Evaluator {
    /// Cleans up if there are many more strings than after the last time. Only between instants:
    /// what a program has put aside is not looked at.
    #[inline]
    pub(crate) fn collect_strings(&mut self) {
        if self.state.interner.is_crowded() {
            self.drop_unused_strings();
        }
    }

    #[cold]
    fn drop_unused_strings(&mut self) {
        self.state.grouped.iter_mut().for_each(GroupedAggregate::forget_empty);
        let (plan, state) = (&self.plan, &self.state);
        let mut used = vec![false; state.interner.numbers()];
        // Constants.
        used[..plan.interner.numbers()].fill(true);
        let mut keep = |leaves: &[(usize, Leaf)], words: &[u64]| {
            for (offset, _) in leaves.iter().filter(|(_, leaf)| leaf.is_interned()) {
                if let Some(used) = used.get_mut(words[*offset] as usize) {
                    *used = true;
                }
            }
        };
        for (column, cell) in self.batch.columns.iter().zip(&plan.inputs) {
            if cell.leaves.iter().any(|(_, leaf)| leaf.is_interned()) {
                column.values().for_each(|words| keep(&cell.leaves, words));
            }
        }
        let outputs = plan.streams.iter().map(|stream| stream.cell.as_ref());
        for (cell, past) in plan.inputs.iter().map(Some).chain(outputs).zip(&state.past) {
            let Some(cell) = cell else { continue };
            keep(&cell.leaves, &state.frame[cell.value as usize..]);
            past.values(cell.width).for_each(|value| keep(&cell.leaves, value));
        }
        for stream in plan.streams.iter().filter(|stream| stream.is_parameterised()) {
            let instances = &state.families[stream.family].instances;
            for slot in instances.live_slots() {
                keep(&stream.param_leaves, instances.params(slot));
                instances.values(slot, stream.member).for_each(|value| keep(&stream.value_leaves, value));
            }
        }
        for (grouped, plan_of) in state.grouped.iter().zip(&plan.grouped) {
            let params = &plan.streams[plan_of.target].param_leaves;
            let place = |word: &usize| plan_of.places.iter().position(|place| place == word);
            let leaves: Vec<(usize, Leaf)> =
                params.iter().filter_map(|(word, leaf)| Some((place(word)?, *leaf))).collect();
            grouped.keys().for_each(|key| keep(&leaves, key));
        }
        for (windows, plan_of) in state.windows.iter().zip(&plan.windows) {
            let leaves = plan_of.target.map_or(&[][..], |target| &plan.streams[target].param_leaves);
            for (key, texts) in windows.used() {
                if !key.is_empty() {
                    keep(leaves, key);
                }
                texts.iter().for_each(|text| keep(&[(0, Leaf::Text)], &[*text]));
            }
        }
        self.state.interner.retain(&used);
    }
}
