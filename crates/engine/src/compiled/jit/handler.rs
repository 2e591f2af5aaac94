//! The steps of an event → machine code.

use std::mem::offset_of;

use cranelift_codegen::Context as Compilation;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I32, I64};
use cranelift_codegen::ir::{AbiParam, Function, InstBuilder, Signature, UserFuncName, Value};
use cranelift_codegen::isa::CallConv;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable};

use fairstream_core::{Time, VerdictSink};

use super::closing::Ending;
use super::code_memory::{Code, Entry};
use super::dirty::{dirty, of};
use super::expr::{ExprEmitter, NARROW, Run};
use super::lookup::Outcome;
use super::value_cache::Invalidation;
use super::{VmContext, runtime_calls};
use crate::compiled::exec::instant::{Evaluator, Failed, Step, Stop, Target};
use crate::compiled::exec::prefetch::BLOCK;
use crate::compiled::exec::update_rule::{UpdateRule, ValueLocation};
use crate::compiled::ir::op::FrameSlot;
use crate::compiled::ir::plan::{Path, Reader};
use crate::compiled::store::state::{DirtySet, Holders, StreamState};
use crate::timeline::Timeline;

/// What is done at an event with certain inputs, as machine code.
pub(crate) struct Handler {
    code: Code,
    /// Steps that it has done for it.
    _steps: Vec<Vec<Step>>,
}

impl Handler {
    /// Where it begins. It may be run as long as the reaction is there.
    pub(crate) fn entry(&self) -> Entry {
        self.code.entry()
    }

    /// `None` if there can be no machine code here.
    pub(crate) fn new(evaluator: &Evaluator, present: u128, steps: &[Step]) -> Option<Handler> {
        Handler::compile(evaluator, present, vec![steps.to_vec()], |emitter, steps| {
            emitter.expect(&steps[0]);
            emitter.accept(present);
            steps[0].iter().for_each(|step| emitter.step(step));
            emitter.end_instances();
            emitter.end_fresh();
        })
    }

    /// For deadlines of instances and ticks of clocks, [one after another](Evaluator::run_deadline_loop): what is done at a
    /// deadline, and at the ticks of each clock.
    pub(crate) fn of_clocks(
        evaluator: &Evaluator,
        at_deadlines: Vec<Step>,
        at_ticks: Vec<Vec<Step>>,
    ) -> Option<Handler> {
        if !evaluator.can_compile_deadlines(&at_deadlines) {
            return None;
        }
        let steps = std::iter::once(at_deadlines).chain(at_ticks).collect();
        Handler::compile(evaluator, 0, steps, |emitter, steps| emitter.clocks(&steps[0], &steps[1..]))
    }

    fn compile(
        evaluator: &Evaluator,
        present: u128,
        steps: Vec<Vec<Step>>,
        write_steps: impl FnOnce(&mut StepEmitter<'_, '_>, &[Vec<Step>]),
    ) -> Option<Handler> {
        let mut flags = settings::builder();
        // What optimizing would find costs more time than it saves.
        flags.set("opt_level", "none").ok()?;
        flags.set("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }).ok()?;
        let triple = "x86_64-unknown-linux-gnu".parse().ok()?;
        let isa = cranelift_codegen::isa::lookup(triple).ok()?.finish(settings::Flags::new(flags)).ok()?;
        let mut signature = Signature::new(CallConv::SystemV);
        signature.params.push(AbiParam::new(I64));
        signature.returns.push(AbiParam::new(I64));
        let mut compilation =
            Compilation::for_function(Function::with_name_signature(UserFuncName::default(), signature));
        let mut shared = FunctionBuilderContext::new();
        let builder = FunctionBuilder::new(&mut compilation.func, &mut shared);
        write(evaluator, present, builder, |emitter| write_steps(emitter, &steps));
        let compiled = compilation.compile(&*isa, &mut ControlPlane::default()).ok()?;
        // Nothing has been asked for that would have to be put in by a linker.
        if !compiled.buffer.relocs().is_empty() {
            return None;
        }
        let code = Code::new(compiled.code_buffer()).ok()?;
        Some(Handler { code, _steps: steps })
    }
}

impl Evaluator {
    /// Evaluates rows of the batch and what is due before them, one after another, as long as machine code can. `row` is
    /// the first, and then the first that is left.
    #[inline(never)]
    pub(crate) fn run_compiled_rows(
        &mut self,
        row: &mut usize,
        times: &[i64],
        timeline: &mut Timeline,
        out: &mut dyn VerdictSink,
    ) -> Result<(), Stop> {
        const KNOWN: usize = 4;
        let end = self.batch.first_bad().unwrap_or(times.len());
        let context = self.context();
        let mut known: [Option<(u128, Entry)>; KNOWN] = [None; KNOWN];
        let looks_ahead = self
            .prefetch_rules
            .iter()
            .any(|prefetch_rules| prefetch_rules.is_worthwhile(&self.state.families));
        while *row < end && timeline.is_in_order(times[*row]) {
            let now = timeline.since_start(Time(times[*row]));
            if now > self.idle_until {
                let before = self.state.instant;
                self.run_due_before(context, timeline, now - 1, out)?;
                if now > self.idle_until && self.state.instant > before {
                    // There may be many.
                    out.check().map_err(Stop::Cancelled)?;
                    continue;
                } else if now > self.idle_until {
                    break;
                }
            }
            let present = self.batch.present[*row];
            let inputs = present as usize;
            let known = &mut known[(inputs ^ inputs >> 3) % KNOWN];
            let entry = match *known {
                Some((inputs, entry)) if inputs == present => entry,
                _ => {
                    let Some(entry) = self.entry(present) else { break };
                    *known = Some((present, entry));
                    entry
                }
            };
            if looks_ahead && (*row).is_multiple_of(BLOCK) {
                self.prefetch_rules
                    .iter()
                    .for_each(|prefetch_rules| prefetch_rules.fetch(&self.batch, &self.state.families, *row));
            }
            self.start_instant(now);
            self.state.present = present;
            timeline.evaluated = Time(times[*row] - 1);
            self.bind_row(*row, context);
            // SAFETY: the code was written for the plan of this evaluator and for what it tells at present, and is
            // there: the evaluator owns it. All pointers come from the one to the evaluator, which nobody else uses
            // before the code returns.
            let failed = unsafe { entry(context) };
            self.outcome(failed).map_err(Stop::Row)?;
            self.conclude(Time(times[*row]), out).map_err(Stop::Cancelled)?.map_err(Stop::Row)?;
            *row += 1;
        }
        Ok(())
    }

    /// Does what is due before a row, up to a time, and tells of it, as far as [clockwork](Self::run_deadline_loop) can.
    #[inline(never)]
    fn run_due_before(
        &mut self,
        context: *mut VmContext,
        timeline: &mut Timeline,
        until: u64,
        out: &mut dyn VerdictSink,
    ) -> Result<(), Stop> {
        let Some(deadline_loop) = self.deadline_loop.as_ref().map(Handler::entry) else { return Ok(()) };
        let (done, before) = (timeline.since_start(timeline.evaluated), self.state.instant);
        self.enter_deadline_loop(context, deadline_loop, done, until).map_err(Stop::Deadline)?;
        if self.state.instant > before {
            let time = timeline.at(self.state.now);
            self.conclude(time, out).map_err(Stop::Cancelled)?.map_err(Stop::Deadline)?;
            self.collect_strings();
            timeline.reach(time);
        }
        Ok(())
    }

    /// Does what is due up to a time, one after another and so many at most, by machine code for that. What is left must
    /// be told, or is due together with something else.
    pub(crate) fn run_deadline_loop(
        &mut self,
        entry: Entry,
        done: u64,
        until: u64,
    ) -> Result<(), Box<Failed>> {
        let context = self.context();
        self.enter_deadline_loop(context, entry, done, until)
    }

    #[inline]
    fn enter_deadline_loop(
        &mut self,
        context: *mut VmContext,
        entry: Entry,
        done: u64,
        until: u64,
    ) -> Result<(), Box<Failed>> {
        let budget = self.advance_clocks(done);
        self.state.present = 0;
        self.bind_row(0, context);
        // SAFETY: as for a row.
        let failed = unsafe {
            (*context).until = until.min(u64::MAX - 1);
            (*context).budget = budget;
            entry(context)
        };
        self.outcome(failed)
    }

    /// Does what is due at this time.
    pub(crate) fn run_timer_handler(&mut self, entry: Entry) -> Result<(), Box<Failed>> {
        let context = self.context();
        self.bind_expired();
        // SAFETY: as for a row; lists of who is due do not change meanwhile.
        let failed = unsafe { entry(context) };
        self.outcome(failed)
    }

    /// Why machine code failed, if it did.
    #[inline(always)]
    fn outcome(&mut self, failed: u64) -> Result<(), Box<Failed>> {
        if failed == 0 { Ok(()) } else { self.failed.take().map_or(Ok(()), Err) }
    }
}

fn write(
    evaluator: &Evaluator,
    present: u128,
    mut builder: FunctionBuilder<'_>,
    write_steps: impl FnOnce(&mut StepEmitter<'_, '_>),
) {
    let (start, failed) = (builder.create_block(), builder.create_block());
    builder.append_block_params_for_function_params(start);
    builder.set_cold_block(failed);
    builder.switch_to_block(start);
    let context = builder.block_params(start)[0];
    let of = (&evaluator.plan, &evaluator.state);
    let mut expr = ExprEmitter::new(builder, of, present, [context; 3], failed);
    expr.frame = expr.load(I64, context, offset_of!(VmContext, frame));
    expr.streams = expr.load(I64, context, offset_of!(VmContext, streams));
    let pending = vec![None; evaluator.plan.streams.len()];
    let mut emitter = StepEmitter { evaluator, expr, fresh: Vec::new(), pending, ending: Vec::new() };
    write_steps(&mut emitter);
    let StepEmitter { mut expr, .. } = emitter;
    for write in std::mem::take(&mut expr.dead_stores).dead() {
        expr.builder.func.layout.remove_inst(write);
    }
    let zero = expr.number(0);
    expr.builder.ins().return_(&[zero]);
    expr.builder.switch_to_block(failed);
    let one = expr.number(1);
    expr.builder.ins().return_(&[one]);
    expr.builder.seal_all_blocks();
    expr.builder.finalize();
}

/// Writes steps.
pub(super) struct StepEmitter<'e, 'f> {
    pub(super) evaluator: &'e Evaluator,
    pub(super) expr: ExprEmitter<'e, 'f>,
    /// VmContextBuffer of the frame that say that something is of this instant.
    pub(super) fresh: Vec<FrameSlot>,
    /// For each stream whose turn is yet to come, the slot, plus one, of the only instance that the event has marked; 0 if
    /// there is none. Others are marked in memory.
    pub(super) pending: Vec<Option<Variable>>,
    /// Selector ends with this instant.
    pub(super) ending: Vec<Ending>,
}

impl<'e> StepEmitter<'e, '_> {
    /// At an event one instance of a stream is marked, most often: it is remembered here.
    fn expect(&mut self, steps: &[Step]) {
        if self.expr.present == 0 {
            return;
        }
        for step in steps {
            let Step::Evaluate(stream, Target::Dirty) = step else { continue };
            if self.rule(*stream).is_some_and(|rule| matches!(rule.location, ValueLocation::Slot { .. })) {
                let variable = self.expr.builder.declare_var(I64);
                let nobody = self.expr.number(0);
                self.expr.builder.def_var(variable, nobody);
                self.pending[*stream] = Some(variable);
            }
        }
    }

    /// Inputs have values.
    fn accept(&mut self, present: u128) {
        let plan = &self.evaluator.plan;
        for (input, cell) in plan.inputs.iter().enumerate().filter(|(input, _)| present >> input & 1 != 0) {
            if cell.depth > 1 || cell.width > NARROW || !plan.input_windows[input].is_empty() {
                let failed = self.expr.call(runtime_calls::accept as *const u8, &[input as u64]);
                self.expr.invalidate(Invalidation::AllWords);
                self.expr.check(failed);
                continue;
            }
            let first = self.expr.place_at(self.expr.offsets.input(input));
            let row = self.expr.place_at(offset_of!(VmContext, row));
            let at = self.expr.times(row, 8 * cell.width);
            let words = self.expr.builder.ins().iadd(first, at);
            let new: Vec<Value> = (0..cell.width).map(|at| self.expr.load(I64, words, 8 * at)).collect();
            if !plan.input_dependents[input].is_empty() {
                let had = self.expr.word(cell.present);
                let mut is_same = self.expr.builder.ins().icmp_imm(IntCC::NotEqual, had, 0);
                for (place, new) in (cell.value..).zip(&new) {
                    let old = self.expr.word(place);
                    let same = self.expr.builder.ins().icmp(IntCC::Equal, old, *new);
                    is_same = self.expr.builder.ins().band(is_same, same);
                }
                let is_other = self.expr.builder.ins().bxor_imm(is_same, 1);
                self.expr.when(is_other, |expr| {
                    expr.call(runtime_calls::mark_input_dependents as *const u8, &[input as u64]);
                });
            }
            let one = self.expr.number(1);
            self.expr.put(cell.present, one);
            self.mark_fresh(cell.fresh);
            (cell.value..).zip(new).for_each(|(place, word)| self.expr.put(place, word));
        }
    }

    /// Something is of this instant, if anybody asks.
    pub(super) fn mark_fresh(&mut self, fresh: FrameSlot) {
        if self.evaluator.plan.asked_fresh.contains(&fresh) {
            let one = self.expr.number(1);
            self.expr.put(fresh, one);
            self.fresh.push(fresh);
        }
    }

    /// What is of this instant is not of the next.
    pub(super) fn end_fresh(&mut self) {
        let zero = self.expr.number(0);
        std::mem::take(&mut self.fresh).into_iter().for_each(|slot| self.expr.put(slot, zero));
    }

    pub(super) fn step(&mut self, step: &Step) {
        match step {
            Step::Spawn(family) => self.spawn(*family),
            Step::Evaluate(stream, target) => match (self.rule(*stream), target) {
                (Some(rule), Target::Dirty) if matches!(rule.location, ValueLocation::Cell { .. }) => {
                    self.changed_cell(*stream, rule);
                }
                (Some(rule), Target::Dirty) => self.changed_instances(*stream, rule, step),
                (Some(rule), Target::Lookup(clauses)) => match self.path(*stream, clauses) {
                    Some(path) => self.candidate(*stream, rule, path, step),
                    None => self.call_step(step),
                },
                (Some(rule), Target::Expired(instance_timer)) => self.expired(*stream, rule, *instance_timer),
                (Some(rule), Target::All) if self.reschedules_while(*stream, rule) => {
                    self.all_taken(*stream, rule)
                }
                (None, Target::All) if self.evaluator.counting(*stream).is_some() => self.tick_count(*stream),
                _ => self.call_step(step),
            },
            Step::Close(family, target) => match (self.closes_simply(*family), target) {
                (Some(close), Target::All) => self.close(*family, close),
                _ => self.call_step(step),
            },
        }
    }

    /// How a stream is evaluated, if that can be written.
    fn rule(&self, stream: usize) -> Option<&'e UpdateRule> {
        let rule = self.evaluator.rules[stream].as_ref()?;
        let is_spawned = self.evaluator.plan.families[rule.family].spawn.is_some();
        // A stream without instances that comes and goes is rare.
        (matches!(rule.location, ValueLocation::Slot { .. }) || !is_spawned).then_some(rule)
    }

    /// The path of the only clause.
    fn path(&self, stream: usize, clauses: &[usize]) -> Option<&'e Path> {
        let plan = &self.evaluator.plan;
        let [clause] = clauses else { return None };
        plan.streams[stream].eval.clauses[*clause].path.as_ref()
    }

    fn call_step(&mut self, step: &Step) {
        self.call_same(step);
        self.expr.invalidate(Invalidation::AllWords);
    }

    /// Has Rust do what machine code does otherwise, on a way beside this one: it writes no other words.
    fn call_same(&mut self, step: &Step) {
        let failed = self.expr.call(runtime_calls::step as *const u8, &[&raw const *step as u64]);
        self.expr.invalidate(Invalidation::VmContextBuffer);
        self.expr.check(failed);
    }

    /// A stream without instances, if something has changed that it reads.
    fn changed_cell(&mut self, stream: usize, rule: &'e UpdateRule) {
        let at = dirty(stream) + offset_of!(DirtySet, all);
        let is_due = self.expr.load(I8, self.expr.streams, at);
        let way = self.expr.begin_if(is_due);
        let no = self.expr.byte(0);
        self.expr.store(no, self.expr.streams, at);
        self.evaluate(stream, rule, None);
        self.expr.end_if(way);
        self.emit_held_values(stream, rule);
    }

    /// The instances for which something has changed that it reads: at an event one at most, most often. Those that are
    /// marked in memory are left to Rust.
    fn changed_instances(&mut self, stream: usize, rule: &'e UpdateRule, step: &Step) {
        let Some(variable) = self.pending[stream].take() else { return self.all_marked(stream, rule, step) };
        let [none, evaluate, done, several, end] = [(); 5].map(|()| self.expr.builder.create_block());
        self.expr.builder.set_cold_block(several);
        let number = self.expr.builder.use_var(variable);
        let marked = self.marked(Reader::Stream(stream));
        let fork = self.expr.fork();
        self.expr.builder.ins().brif(marked, several, &[], none, &[]);
        self.expr.go_on(none);
        self.expr.builder.ins().brif(number, evaluate, &[], done, &[]);
        self.expr.go_on(evaluate);
        let slot = self.expr.builder.ins().iadd_imm(number, -1);
        let instance = self.expr.instance(rule.family, slot);
        self.evaluate(stream, rule, Some(instance));
        self.expr.builder.ins().jump(done, &[]);
        self.expr.resume(done, &fork);
        self.emit_held_values(stream, rule);
        self.expr.builder.ins().jump(end, &[]);
        self.expr.resume(several, &fork);
        self.mark_pending(stream, number);
        self.call_same(step);
        self.expr.builder.ins().jump(end, &[]);
        self.expr.resume(end, &fork);
    }

    /// Marks who is pending, if there is somebody.
    fn mark_pending(&mut self, stream: usize, number: Value) {
        let way = self.expr.begin_if(number);
        self.mark_number(Reader::Stream(stream), number);
        self.expr.end_if(way);
    }

    /// The instances that are marked in memory, one after another.
    fn all_marked(&mut self, stream: usize, rule: &'e UpdateRule, step: &Step) {
        // Whoever marks others of the same stream, whose turn may be yet to come, is left to Rust; so is who marks
        // itself where slots are used again, and may be listed twice.
        let marks_itself = rule.reschedules_on_change || rule.has_follow_up;
        let closes = self.evaluator.plan.families[rule.family].close.is_some();
        if rule.marks_others_of(stream) || (marks_itself && closes) {
            return self.call_step(step);
        }
        let marked = self.marked(Reader::Stream(stream));
        let way = self.expr.begin_if(marked);
        let [list, length, _] = self.list(Reader::Stream(stream), marked);
        self.each_marked(Reader::Stream(stream), [list, length], |emitter, instance| {
            emitter.evaluate(stream, rule, Some(instance));
        });
        self.expr.end_if(way);
        self.emit_held_values(stream, rule);
    }

    /// Whether instances of a stream are evaluated at ticks while their first conditions hold.
    fn reschedules_while(&self, stream: usize, rule: &UpdateRule) -> bool {
        let has_guard = self.evaluator.plan.streams[stream].eval.guard.is_some();
        has_guard && self.expr.present == 0 && matches!(rule.location, ValueLocation::Slot { .. })
    }

    /// The instances that are marked, one after another: they may mark themselves for the next time.
    fn all_taken(&mut self, stream: usize, rule: &'e UpdateRule) {
        let marked = self.marked(Reader::Stream(stream));
        let way = self.expr.begin_if(marked);
        let count = self.expr.call(runtime_calls::take_changed as *const u8, &[stream as u64]);
        let slots = self.expr.load(I64, self.expr.context, offset_of!(VmContext, listed));
        self.each(slots, count, |emitter, slot| {
            let instance = emitter.expr.instance(rule.family, slot);
            emitter.evaluate(stream, rule, Some(instance));
        });
        self.expr.end_if(way);
    }

    /// A tick of a counter: who reads it looks again if the tick matters.
    fn tick_count(&mut self, stream: usize) {
        let Some(counting) = self.evaluator.counting(stream) else { return };
        let family = self.evaluator.plan.streams[stream].family;
        let count = self.expr.call(runtime_calls::tick as *const u8, &[stream as u64]);
        let slots = self.expr.load(I64, self.expr.context, offset_of!(VmContext, listed));
        self.each(slots, count, |emitter, slot| {
            let instance = emitter.expr.instance(family, slot);
            emitter.mark_instance_dependents(stream, &counting.dependents, instance);
        });
    }

    /// Whoever holds a value is told of each time.
    fn emit_held_values(&mut self, stream: usize, rule: &UpdateRule) {
        if !rule.repeats {
            return;
        }
        let at = of(stream) + offset_of!(StreamState, current_holders) + offset_of!(Holders, count);
        let current_holders = self.expr.load(I64, self.expr.streams, at);
        self.expr.when(current_holders, |expr| {
            expr.call(runtime_calls::emit_held_values as *const u8, &[stream as u64]);
        });
    }

    /// The instances whose clock says so, one after another.
    fn expired(&mut self, stream: usize, rule: &'e UpdateRule, instance_timer: usize) {
        let lists = self.expr.offsets.expired(instance_timer);
        let [slots, count] = [0, 8].map(|at| self.expr.load(I64, self.expr.context, lists + at));
        self.each(slots, count, |emitter, slot| {
            let instance = emitter.expr.instance(rule.family, slot);
            emitter.evaluate(stream, rule, Some(instance));
        });
    }

    /// Does something for each of so many numbers in memory.
    pub(super) fn each(&mut self, first: Value, count: Value, mut body: impl FnMut(&mut Self, Value)) {
        let [look, again, done] = [(); 3].map(|()| self.expr.builder.create_block());
        let at = self.expr.builder.append_block_param(look, I64);
        let zero = self.expr.number(0);
        let fork = self.expr.fork();
        self.expr.builder.ins().jump(look, &[zero.into()]);
        self.expr.enter(look);
        let is_left = self.expr.builder.ins().icmp(IntCC::UnsignedLessThan, at, count);
        self.expr.builder.ins().brif(is_left, again, &[], done, &[]);
        self.expr.go_on(again);
        let place = self.expr.builder.ins().ishl_imm(at, 2);
        let place = self.expr.builder.ins().iadd(first, place);
        let number = self.expr.load(I32, place, 0);
        let number = self.expr.builder.ins().uextend(I64, number);
        body(self, number);
        let next = self.expr.builder.ins().iadd_imm(at, 1);
        self.expr.builder.ins().jump(look, &[next.into()]);
        self.expr.resume(done, &fork);
    }

    /// The instance that a path leads to, if there is one. Several are left to Rust.
    fn candidate(&mut self, stream: usize, rule: &'e UpdateRule, path: &Path, step: &Step) {
        if let Some(program) = path.program {
            let next = self.expr.builder.create_block();
            let fork = self.expr.fork();
            self.expr.program(Run { stream, program, instance: None }, next, next);
            self.expr.resume(next, &fork);
        }
        let [several, one, done] = [(); 3].map(|()| self.expr.builder.create_block());
        self.expr.builder.set_cold_block(several);
        let slot = self.expr.builder.append_block_param(one, I64);
        let fork = self.expr.fork();
        self.expr.find(rule.family, path.route, path.key, Outcome { one, none: done, several });
        self.expr.resume(one, &fork);
        let instance = self.expr.instance(rule.family, slot);
        self.evaluate(stream, rule, Some(instance));
        self.expr.builder.ins().jump(done, &[]);
        self.expr.resume(several, &fork);
        self.call_same(step);
        self.expr.builder.ins().jump(done, &[]);
        self.expr.resume(done, &fork);
    }
}
