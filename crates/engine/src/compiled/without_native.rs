//! No machine code on this kind of machine: every event is interpreted.

use std::convert::Infallible;

use fairstream_core::VerdictSink;

use super::instant::{Evaluator, Failed, Step, Stop};
use crate::timeline::Timeline;

pub(super) const OFTEN: u32 = u32::MAX;

pub(super) type Entry = Infallible;

pub(super) struct Reaction(Infallible);

impl Reaction {
    pub(super) fn new(_: &Evaluator, _: u128, _: &[Step]) -> Option<Reaction> {
        None
    }

    pub(super) fn of_clocks(_: &Evaluator, _: Vec<Step>, _: Vec<Vec<Step>>) -> Option<Reaction> {
        None
    }

    pub(super) fn entry(&self) -> Entry {
        self.0
    }
}

/// Where machine code would find things.
#[derive(Default)]
pub(super) struct Places {
    pub(super) inputs_moved: bool,
    pub(super) slots_moved: bool,
    pub(super) groups_moved: bool,
    pub(super) clocks_moved: bool,
}

impl Evaluator {
    /// Never asked for.
    pub(super) fn react_to_hour(&mut self, entry: Entry) -> Result<(), Box<Failed>> {
        match entry {}
    }

    /// Never asked for.
    pub(super) fn run_clockwork(&mut self, entry: Entry, _: u64, _: u64) -> Result<(), Box<Failed>> {
        match entry {}
    }

    /// Evaluates no row.
    pub(super) fn react(
        &mut self,
        _: &mut usize,
        _: &[i64],
        _: &mut Timeline,
        _: &mut dyn VerdictSink,
    ) -> Result<(), Stop> {
        Ok(())
    }
}
