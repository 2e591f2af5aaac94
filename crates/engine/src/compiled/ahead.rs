//! Looking ahead in a batch: what a later row will look for is on its way from memory before its turn comes.

use super::columns::Arrived;
use super::plan::{Plan, Route};
use super::state::FamilyState;

/// So many rows before its turn an entry of a table is fetched, ...
const FAR: usize = 16;
/// ... and so many the slot that it says.
const NEAR: usize = 8;

/// A table in which the value of an input is looked for.
pub(super) struct Ahead {
    input: usize,
    family: usize,
    route: Route,
}

/// The tables that inputs are looked for in.
pub(super) fn ahead(plan: &Plan) -> Vec<Ahead> {
    let mut all: Vec<Ahead> = Vec::new();
    for stream in &plan.streams {
        for path in stream.eval.clauses.iter().filter_map(|clause| clause.path.as_ref()) {
            let family = &plan.families[stream.family];
            let words = match path.route {
                Route::Lookup => family.param_width,
                Route::Index(index) => family.indexes[index].len(),
            };
            let is_key = |input: &super::plan::Cell| input.value == path.key && input.width == 1;
            let Some(input) = plan.inputs.iter().position(is_key).filter(|_| words == 1) else { continue };
            let (family, route) = (stream.family, path.route);
            if !all.iter().any(|known| (known.input, known.family, known.route) == (input, family, route)) {
                all.push(Ahead { input, family, route });
            }
        }
    }
    all
}

impl Ahead {
    /// Whether there are so many instances that what leads to them is not at hand.
    pub(super) fn is_worth_it(&self, families: &[FamilyState]) -> bool {
        families[self.family].instances.are_many()
    }

    /// Fetches what rows after this one will need.
    #[inline]
    pub(super) fn fetch(&self, arrived: &Arrived, families: &[FamilyState], row: usize) {
        let instances = &families[self.family].instances;
        if let Some(word) = arrived.word(self.input, row + FAR) {
            instances.fetch_entry(self.route, word);
        }
        if let Some(word) = arrived.word(self.input, row + NEAR) {
            instances.fetch_slot(self.route, word);
        }
    }
}

/// Tells the processor that memory will be needed.
#[inline(always)]
#[allow(unsafe_code, reason = "there is no other way to say it")]
pub(super) fn fetch<T>(what: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: it reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>((&raw const *what).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = what;
}
