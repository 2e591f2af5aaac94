//! No machine code on this kind of machine: every event is interpreted.

use std::convert::Infallible;

use fairstream_core::VerdictSink;

use crate::compiled::exec::instant::{Evaluator, Failed, Step, Stop};
use crate::timeline::Timeline;

pub(crate) const COMPILE_AFTER: u32 = u32::MAX;

pub(crate) type Entry = Infallible;

pub(crate) struct Handler(Infallible);

impl Handler {
    pub(crate) fn new(_: &Evaluator, _: u128, _: &[Step]) -> Option<Handler> {
        None
    }

    pub(crate) fn of_clocks(_: &Evaluator, _: Vec<Step>, _: Vec<Vec<Step>>) -> Option<Handler> {
        None
    }

    pub(crate) fn entry(&self) -> Entry {
        self.0
    }
}

/// Where machine code would find things.
#[derive(Default)]
pub(crate) struct VmContextBuffer {
    pub(crate) inputs_moved: bool,
    pub(crate) slots_moved: bool,
    pub(crate) groups_moved: bool,
    pub(crate) clocks_moved: bool,
}

impl Evaluator {
    /// Never asked for.
    pub(crate) fn run_timer_handler(&mut self, entry: Entry) -> Result<(), Box<Failed>> {
        match entry {}
    }

    /// Never asked for.
    pub(crate) fn run_deadline_loop(&mut self, entry: Entry, _: u64, _: u64) -> Result<(), Box<Failed>> {
        match entry {}
    }

    /// Evaluates no row.
    pub(crate) fn run_compiled_rows(
        &mut self,
        _: &mut usize,
        _: &[i64],
        _: &mut Timeline,
        _: &mut dyn VerdictSink,
    ) -> Result<(), Stop> {
        Ok(())
    }
}
