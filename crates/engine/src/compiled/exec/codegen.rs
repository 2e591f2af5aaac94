//! The one interface between the executor and machine code.

use super::error::EvalError;
use super::executor::Executor;
use crate::compiled::ir::step::Step;

/// Compiles steps to handlers, and runs them. A handler does exactly what interpreting its steps does.
///
/// # Contract
/// - A handler is run only on the executor it was compiled for, and only while that has the plan and the representation
///   of counters it had then: a change of either drops all handlers.
/// - After [`bind`](Codegen::bind), handlers may be run until the interpreter runs or the batch changes.
pub(crate) trait Codegen: Default {
    /// A compiled handler.
    type Handler;

    /// After how many events of one shape a handler is worth compiling.
    const COMPILE_AFTER: u32;

    /// A handler for the steps of events with these inputs, or for the steps of a timer set, which has none. `None` if
    /// no machine code can be had.
    fn compile(&self, executor: &Executor, inputs: u128, steps: &[Step]) -> Option<Self::Handler>;

    /// A handler that runs deadlines of instances and ticks of clocks one after another: the steps of all instance
    /// timers, and those of each clock. `None` also if these steps are too involved for it.
    fn compile_deadline_loop(
        &self,
        executor: &Executor,
        at_deadlines: Vec<Step>,
        at_ticks: Vec<Vec<Step>>,
    ) -> Option<Self::Handler>;

    /// Passes the addresses of the store's parts to the code.
    fn bind(&mut self, executor: &mut Executor);

    /// Runs a handler for a row of the batch.
    fn run_event(
        &mut self,
        handler: &Self::Handler,
        executor: &mut Executor,
        row: usize,
    ) -> Result<(), Box<EvalError>>;

    /// Runs a handler for the timers that are due.
    fn run_timers(&mut self, handler: &Self::Handler, executor: &mut Executor) -> Result<(), Box<EvalError>>;

    /// Runs what is due up to a time, at most `budget` deadlines and ticks. Stops before what must be emitted, and
    /// before a time at which several timers are due.
    fn run_deadline_loop(
        &mut self,
        handler: &Self::Handler,
        executor: &mut Executor,
        until: u64,
        budget: u64,
    ) -> Result<(), Box<EvalError>>;
}
