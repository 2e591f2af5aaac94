//! Compiles the steps of an event shape, of a timer set or of the deadline loop to a handler, and runs handlers.

use std::mem::offset_of;
use std::sync::Arc;

use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{AbiParam, Function, InstBuilder, Signature, UserFuncName};
use cranelift_codegen::isa::CallConv;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{Context, isa};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use super::code_memory::{CodeMemory, HandlerFn};
use super::expr::ExprEmitter;
use super::steps::StepEmitter;
use super::vm_context::{VmContext, VmContextBuffer};
use crate::compiled::exec::codegen::Codegen;
use crate::compiled::exec::error::EvalError;
use crate::compiled::exec::executor::Executor;
use crate::compiled::ir::execution_plan::ExecutionPlan;
use crate::compiled::ir::step::Step;

/// Machine code for one event shape, timer set, or the deadline loop.
pub(crate) struct Handler {
    entry: HandlerFn,
    _code: CodeMemory,
    /// The code has addresses of steps and of dependents in the plan.
    _steps: Vec<Vec<Step>>,
    plan: Arc<ExecutionPlan>,
}

/// Compiles handlers with Cranelift, and runs them.
#[derive(Default)]
pub(crate) struct Jit {
    buffer: VmContextBuffer,
    /// Why a handler has failed.
    failure: Option<Box<EvalError>>,
}

impl Codegen for Jit {
    type Handler = Handler;

    /// Compiling a handler takes a few milliseconds.
    const COMPILE_AFTER: u32 = 2000;

    fn compile(&self, executor: &Executor, inputs: u128, steps: &[Step]) -> Option<Handler> {
        compile(executor, inputs, vec![steps.to_vec()], |emitter, steps| {
            emitter.declare_pending(&steps[0]);
            emitter.accept_inputs(inputs);
            steps[0].iter().for_each(|step| emitter.emit_step(step));
            emitter.end_closing();
            emitter.clear_fresh();
        })
    }

    fn compile_deadline_loop(
        &self,
        executor: &Executor,
        at_deadlines: Vec<Step>,
        at_ticks: Vec<Vec<Step>>,
    ) -> Option<Handler> {
        if !super::deadline_loop::is_supported(executor.plan(), &at_deadlines) {
            return None;
        }
        let steps = std::iter::once(at_deadlines).chain(at_ticks).collect();
        compile(executor, 0, steps, |emitter, steps| emitter.deadline_loop(&steps[0], &steps[1..]))
    }

    fn bind(&mut self, executor: &mut Executor) {
        self.buffer.bind(executor, &mut self.failure);
    }

    #[inline(always)]
    fn run_event(
        &mut self,
        handler: &Handler,
        executor: &mut Executor,
        row: usize,
    ) -> Result<(), Box<EvalError>> {
        // SAFETY: `bind` has written the context for this executor, by the contract of `Codegen`.
        unsafe { (*self.buffer.context()).row = row };
        self.run(handler, executor)
    }

    fn run_timers(&mut self, handler: &Handler, executor: &mut Executor) -> Result<(), Box<EvalError>> {
        self.buffer.bind_expired(executor);
        self.run(handler, executor)
    }

    fn run_deadline_loop(
        &mut self,
        handler: &Handler,
        executor: &mut Executor,
        until: u64,
        budget: u64,
    ) -> Result<(), Box<EvalError>> {
        // SAFETY: as for `run_event`.
        unsafe {
            let context = &mut *self.buffer.context();
            (context.until, context.budget) = (until.min(u64::MAX - 1), budget);
        }
        self.run(handler, executor)
    }
}

impl Jit {
    #[inline(always)]
    fn run(&mut self, handler: &Handler, executor: &mut Executor) -> Result<(), Box<EvalError>> {
        debug_assert!(Arc::ptr_eq(&handler.plan, executor.plan()), "a handler of another plan");
        debug_assert!(self.buffer.is_current(executor), "an address is stale");
        let context = self.buffer.context();
        // SAFETY: the code was compiled for the plan of this executor, by the contract of `Codegen`, and `handler` keeps
        // the code, its steps and the plan alive. `bind` has written the context, and nothing that it points to has moved
        // since, as neither the interpreter has run nor the batch has changed; runtime calls that move something refresh
        // it. Slots and positions in the store are valid, as only the executor writes them and a restored store is
        // validated. Nothing else uses the executor until the code returns.
        let failed = unsafe {
            (*context).executor = &raw mut *executor;
            (handler.entry)(context)
        };
        if failed == 0 { Ok(()) } else { self.failure.take().map_or(Ok(()), Err) }
    }
}

fn compile(
    executor: &Executor,
    inputs: u128,
    steps: Vec<Vec<Step>>,
    emit: impl FnOnce(&mut StepEmitter<'_, '_>, &[Vec<Step>]),
) -> Option<Handler> {
    let mut flags = settings::builder();
    // Cranelift's optimiser finds little that the emitters have not, and takes longer than it saves.
    flags.set("opt_level", "none").ok()?;
    flags.set("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }).ok()?;
    let triple = "x86_64-unknown-linux-gnu".parse().ok()?;
    let isa = isa::lookup(triple).ok()?.finish(settings::Flags::new(flags)).ok()?;
    let mut signature = Signature::new(CallConv::SystemV);
    signature.params.push(AbiParam::new(I64));
    signature.returns.push(AbiParam::new(I64));
    let mut context =
        Context::for_function(Function::with_name_signature(UserFuncName::default(), signature));
    let mut shared = FunctionBuilderContext::new();
    let builder = FunctionBuilder::new(&mut context.func, &mut shared);
    emit_function(executor, inputs, builder, |emitter| emit(emitter, &steps));
    let compiled = context.compile(&*isa, &mut ControlPlane::default()).ok()?;
    // All calls are indirect, so that nothing is left for a linker.
    if !compiled.buffer.relocs().is_empty() {
        return None;
    }
    let code = CodeMemory::new(compiled.code_buffer()).ok()?;
    Some(Handler { entry: code.entry(), _code: code, _steps: steps, plan: Arc::clone(executor.plan()) })
}

fn emit_function(
    executor: &Executor,
    inputs: u128,
    mut builder: FunctionBuilder<'_>,
    emit: impl FnOnce(&mut StepEmitter<'_, '_>),
) {
    let (start, failed) = (builder.create_block(), builder.create_block());
    builder.append_block_params_for_function_params(start);
    builder.set_cold_block(failed);
    builder.switch_to_block(start);
    let context = builder.block_params(start)[0];
    let (plan, store) = (&**executor.plan(), executor.store());
    let mut expr = ExprEmitter::new(builder, (plan, store), inputs, [context; 3], failed);
    expr.frame = expr.load(I64, context, offset_of!(VmContext, frame));
    expr.streams = expr.load(I64, context, offset_of!(VmContext, streams));
    let mut emitter = StepEmitter::new(plan, store, expr);
    emit(&mut emitter);
    let mut expr = emitter.into_expr();
    for store in std::mem::take(&mut expr.dead_stores).into_dead() {
        expr.builder.func.layout.remove_inst(store);
    }
    let zero = expr.iconst(0);
    expr.builder.ins().return_(&[zero]);
    expr.builder.switch_to_block(failed);
    let one = expr.iconst(1);
    expr.builder.ins().return_(&[one]);
    expr.builder.seal_all_blocks();
    expr.builder.finalize();
}
