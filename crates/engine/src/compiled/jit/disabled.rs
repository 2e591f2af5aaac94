//! Stands in for the JIT where there is no machine code: every event is interpreted.

use std::convert::Infallible;

use super::exec::codegen::Codegen;
use super::exec::error::EvalError;
use super::exec::executor::Executor;
use super::ir::step::Step;

/// Compiles nothing.
#[derive(Default)]
pub(super) struct Jit;

impl Codegen for Jit {
    type Handler = Infallible;

    const COMPILE_AFTER: u32 = u32::MAX;

    fn compile(&self, _: &Executor, _: u128, _: &[Step]) -> Option<Infallible> {
        None
    }

    fn compile_deadline_loop(&self, _: &Executor, _: Vec<Step>, _: Vec<Vec<Step>>) -> Option<Infallible> {
        None
    }

    fn bind(&mut self, _: &mut Executor) {}

    fn run_event(&mut self, handler: &Infallible, _: &mut Executor, _: usize) -> Result<(), Box<EvalError>> {
        match *handler {}
    }

    fn run_timers(&mut self, handler: &Infallible, _: &mut Executor) -> Result<(), Box<EvalError>> {
        match *handler {}
    }

    fn run_deadline_loop(
        &mut self,
        handler: &Infallible,
        _: &mut Executor,
        _: u64,
        _: u64,
    ) -> Result<(), Box<EvalError>> {
        match *handler {}
    }
}
