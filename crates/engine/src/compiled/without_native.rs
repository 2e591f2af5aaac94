//! No machine code on this kind of machine: every event is interpreted.

use std::convert::Infallible;

use super::instant::{Evaluator, Failed, Step};

pub(super) const OFTEN: u32 = u32::MAX;

pub(super) struct Reaction(Infallible);

impl Reaction {
    pub(super) fn new(_: &Evaluator, _: u128, _: &[Step]) -> Option<Reaction> {
        None
    }
}

impl Evaluator {
    pub(super) fn react(&mut self, reaction: &Reaction) -> Result<(), Box<Failed>> {
        match reaction.0 {}
    }
}
