//! No machine code on this kind of machine: every event is interpreted.

use std::convert::Infallible;

use super::instant::{Evaluator, Failed, Step};

pub(super) const OFTEN: u32 = u32::MAX;

pub(super) struct Reaction(Infallible);

impl Reaction {
    pub(super) fn new(_: &Evaluator, _: u128, _: &[Step]) -> Option<Reaction> {
        None
    }

    pub(super) fn entry(&self) -> Infallible {
        self.0
    }
}

/// Where machine code would find things.
#[derive(Default)]
pub(super) struct Places {
    pub(super) inputs_moved: bool,
    pub(super) slots_moved: bool,
    pub(super) groups_moved: bool,
}

impl Evaluator {
    pub(super) fn react(&mut self, entry: Infallible, _: usize) -> Result<(), Box<Failed>> {
        match entry {}
    }
}
