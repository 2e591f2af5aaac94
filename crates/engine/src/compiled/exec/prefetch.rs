//! Looking ahead in a batch: what a later row will look for is on its way from memory before its turn comes.

use crate::compiled::exec::input_batch::InputBatch;
use crate::compiled::ir::plan::{Plan, Route};
use crate::compiled::store::state::FamilyState;

/// So many rows are looked at together: the entries of a table that they will need are fetched two such blocks before
/// their turn, the slots that these say one.
pub(crate) const BLOCK: usize = 8;

/// A table in which the values of inputs are looked for.
pub(crate) struct PrefetchRule {
    inputs: Vec<usize>,
    family: usize,
    route: Route,
}

/// The tables that inputs are looked for in.
pub(crate) fn prefetch_rules(plan: &Plan) -> Vec<PrefetchRule> {
    let mut all: Vec<PrefetchRule> = Vec::new();
    for stream in &plan.streams {
        for path in stream.eval.clauses.iter().filter_map(|clause| clause.path.as_ref()) {
            let family = &plan.families[stream.family];
            let words = match path.route {
                Route::Lookup => family.param_width,
                Route::Index(index) => family.indexes[index].len(),
            };
            let is_key =
                |input: &crate::compiled::ir::plan::Cell| input.value == path.key && input.width == 1;
            let Some(input) = plan.inputs.iter().position(is_key).filter(|_| words == 1) else { continue };
            let (family, route) = (stream.family, path.route);
            match all.iter_mut().find(|known| (known.family, known.route) == (family, route)) {
                Some(known) if known.inputs.contains(&input) => {}
                Some(known) => known.inputs.push(input),
                None => all.push(PrefetchRule { inputs: vec![input], family, route }),
            }
        }
    }
    all
}

impl PrefetchRule {
    /// Whether there are so many instances that what leads to them is not at hand.
    pub(crate) fn is_worthwhile(&self, families: &[FamilyState]) -> bool {
        families[self.family].instances.are_many()
    }

    /// Fetches what a block of rows after this one, and one after that, will need.
    #[inline(never)]
    pub(crate) fn fetch(&self, batch: &InputBatch, families: &[FamilyState], row: usize) {
        let instances = &families[self.family].instances;
        let (near, count) = self.words(batch, row + BLOCK);
        near[..count].iter().for_each(|word| instances.fetch_slot(self.route, *word));
        let (far, count) = self.words(batch, row + 2 * BLOCK);
        far[..count].iter().for_each(|word| instances.fetch_entry(self.route, *word));
    }

    /// What is looked for in a block of rows, and how many there are: something, if nothing is. Which inputs a row has is
    /// anybody's guess: better no branch.
    #[inline(always)]
    fn words(&self, batch: &InputBatch, from: usize) -> ([u64; BLOCK], usize) {
        let mut words = [0; BLOCK];
        let rows = from.min(batch.present.len())..(from + BLOCK).min(batch.present.len());
        for input in &self.inputs {
            let there = batch.present[rows.clone()].iter().map(|present| (present >> input) as u64 & 1);
            let column = &batch.columns[*input].words()[rows.clone()];
            for ((word, own), is_there) in words.iter_mut().zip(column).zip(there) {
                *word = if is_there != 0 { *own } else { *word };
            }
        }
        (words, rows.len())
    }
}

/// Tells the processor that memory will be needed.
#[inline(always)]
#[allow(unsafe_code, reason = "there is no other way to say it")]
pub(crate) fn fetch<T>(what: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: it reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>((&raw const *what).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = what;
}
