//! Emits the steps of an instant.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::Variable;

use super::closing::Closing;
use super::dirty::{dirty_set_offset, stream_offset};
use super::expr::{ExprEmitter, MAX_INLINE_WORDS, Run};
use super::lookup::LookupBlocks;
use super::runtime_calls;
use super::value_cache::Invalidation;
use super::vm_context::VmContext;
use crate::compiled::ir::execution_plan::ExecutionPlan;
use crate::compiled::ir::op::FrameSlot;
use crate::compiled::ir::plan::{Path, Reader};
use crate::compiled::ir::step::{Step, Target};
use crate::compiled::ir::update_rule::{CounterDependents, UpdateRule, ValueLocation};
use crate::compiled::store::dirty_set::DirtySet;
use crate::compiled::store::holder_set::HolderSet;
use crate::compiled::store::state::{Store, StreamState};

/// Emits steps. What it emits does exactly what interpreting the steps does.
pub(super) struct StepEmitter<'e, 'f> {
    pub(super) plan: &'e ExecutionPlan,
    /// The store, for layouts and for which counters are computed on read. No contents are read at compile time.
    pub(super) store: &'e Store,
    pub(super) expr: ExprEmitter<'e, 'f>,
    /// Freshness flags of the frame that were set.
    pub(super) fresh: Vec<FrameSlot>,
    /// For each stream whose step is yet to come, a register with the slot, plus one, of the only instance that the event
    /// has made dirty; 0 if there is none. Further instances are marked in memory.
    pub(super) pending: Vec<Option<Variable>>,
    /// The instances that close at this instant.
    pub(super) closing: Vec<Closing>,
}

impl<'e, 'f> StepEmitter<'e, 'f> {
    pub(super) fn new(
        plan: &'e ExecutionPlan,
        store: &'e Store,
        expr: ExprEmitter<'e, 'f>,
    ) -> StepEmitter<'e, 'f> {
        let pending = vec![None; plan.streams.len()];
        StepEmitter { plan, store, expr, fresh: Vec::new(), pending, closing: Vec::new() }
    }

    pub(super) fn into_expr(self) -> ExprEmitter<'e, 'f> {
        self.expr
    }

    /// The dependents of a counter that is computed on read.
    pub(super) fn counter_dependents(&self, stream: usize) -> Option<&'e CounterDependents> {
        self.store.streams[stream].is_computed_on_read.then(|| &self.plan.counter_dependents[stream])
    }
}

impl<'e> StepEmitter<'e, '_> {
    /// Declares the registers of [`pending`](Self::pending). At an event, most streams have one dirty instance at most:
    /// kept in a register, it costs no dirty set.
    pub(super) fn declare_pending(&mut self, steps: &[Step]) {
        if self.expr.present == 0 {
            return;
        }
        for step in steps {
            let Step::Evaluate(stream, Target::Dirty) = step else { continue };
            if self
                .compilable_rule(*stream)
                .is_some_and(|rule| matches!(rule.location, ValueLocation::Slot { .. }))
            {
                let variable = self.expr.builder.declare_var(I64);
                let no_slot = self.expr.iconst(0);
                self.expr.builder.def_var(variable, no_slot);
                self.pending[*stream] = Some(variable);
            }
        }
    }

    /// Stores the inputs of the event in their cells, and marks the dependents of those that differ.
    pub(super) fn accept_inputs(&mut self, present: u128) {
        let plan = self.plan;
        for (input, cell) in plan.inputs.iter().enumerate().filter(|(input, _)| present >> input & 1 != 0) {
            if cell.depth > 1 || cell.width > MAX_INLINE_WORDS || !plan.input_windows[input].is_empty() {
                let failed = self.expr.call(runtime_calls::accept_input as *const u8, &[input as u64]);
                self.expr.invalidate(Invalidation::AllWords);
                self.expr.return_if_failed(failed);
                continue;
            }
            let first = self.expr.context_word(self.expr.offsets.input(input));
            let row = self.expr.context_word(offset_of!(VmContext, row));
            let at = self.expr.scale(row, 8 * cell.width);
            let words = self.expr.builder.ins().iadd(first, at);
            let new: Vec<Value> = (0..cell.width).map(|at| self.expr.load(I64, words, 8 * at)).collect();
            if !plan.input_dependents[input].is_empty() {
                let had = self.expr.load_slot(cell.present);
                let mut is_same = self.expr.builder.ins().icmp_imm(IntCC::NotEqual, had, 0);
                for (slot, new) in (cell.value..).zip(&new) {
                    let old = self.expr.load_slot(slot);
                    let same = self.expr.builder.ins().icmp(IntCC::Equal, old, *new);
                    is_same = self.expr.builder.ins().band(is_same, same);
                }
                let differs = self.expr.builder.ins().bxor_imm(is_same, 1);
                self.expr.emit_if(differs, |expr| {
                    expr.call(runtime_calls::mark_input_dependents as *const u8, &[input as u64]);
                });
            }
            let one = self.expr.iconst(1);
            self.expr.store_slot(cell.present, one);
            self.mark_fresh(cell.fresh);
            (cell.value..).zip(new).for_each(|(slot, word)| self.expr.store_slot(slot, word));
        }
    }

    /// Sets a freshness flag, if any program reads it.
    pub(super) fn mark_fresh(&mut self, fresh: FrameSlot) {
        if self.plan.asked_fresh.contains(&fresh) {
            let one = self.expr.iconst(1);
            self.expr.store_slot(fresh, one);
            self.fresh.push(fresh);
        }
    }

    /// Clears the freshness flags at the end of the instant.
    pub(super) fn clear_fresh(&mut self) {
        let zero = self.expr.iconst(0);
        std::mem::take(&mut self.fresh).into_iter().for_each(|slot| self.expr.store_slot(slot, zero));
    }

    /// Emits one step: inline where it is simple, as a runtime call otherwise.
    pub(super) fn emit_step(&mut self, step: &Step) {
        match step {
            Step::Spawn(family) => self.spawn(*family),
            Step::Evaluate(stream, target) => match (self.compilable_rule(*stream), target) {
                (Some(rule), Target::Dirty) if matches!(rule.location, ValueLocation::Cell { .. }) => {
                    self.evaluate_dirty_cell(*stream, rule);
                }
                (Some(rule), Target::Dirty) => self.evaluate_dirty(*stream, rule, step),
                (Some(rule), Target::Lookup(clauses)) => match self.single_path(*stream, clauses) {
                    Some(path) => self.evaluate_found(*stream, rule, path, step),
                    None => self.call_step(step),
                },
                (Some(rule), Target::Expired(instance_timer)) => {
                    self.evaluate_expired(*stream, rule, *instance_timer)
                }
                (Some(rule), Target::All) if self.is_guarded_at_ticks(*stream, rule) => {
                    self.evaluate_taken(*stream, rule)
                }
                (None, Target::All) if self.counter_dependents(*stream).is_some() => {
                    self.tick_counter(*stream)
                }
                _ => self.call_step(step),
            },
            Step::Close(family, target) => match (self.compilable_close(*family), target) {
                (Some(close), Target::All) => self.close(*family, close),
                _ => self.call_step(step),
            },
        }
    }

    /// The update rule of a stream, if it can be emitted inline.
    fn compilable_rule(&self, stream: usize) -> Option<&'e UpdateRule> {
        let rule = self.plan.rules[stream].as_ref()?;
        let is_spawned = self.plan.families[rule.family].spawn.is_some();
        // Streams without instances that are spawned and closed are rare.
        (matches!(rule.location, ValueLocation::Slot { .. }) || !is_spawned).then_some(rule)
    }

    /// The access path of the only clause.
    fn single_path(&self, stream: usize, clauses: &[usize]) -> Option<&'e Path> {
        let plan = &self.plan;
        let [clause] = clauses else { return None };
        plan.streams[stream].eval.clauses[*clause].path.as_ref()
    }

    /// Interprets a step by a runtime call.
    fn call_step(&mut self, step: &Step) {
        self.call_step_keeping_words(step);
        self.expr.invalidate(Invalidation::AllWords);
    }

    /// The same in a cold block beside the emitted step, which writes the same words of the frame.
    fn call_step_keeping_words(&mut self, step: &Step) {
        let failed = self.expr.call(runtime_calls::step as *const u8, &[&raw const *step as u64]);
        self.expr.invalidate(Invalidation::Addresses);
        self.expr.return_if_failed(failed);
    }

    /// Evaluates a stream without instances, if it is dirty.
    fn evaluate_dirty_cell(&mut self, stream: usize, rule: &'e UpdateRule) {
        let at = dirty_set_offset(stream) + offset_of!(DirtySet, all);
        let is_due = self.expr.load(I8, self.expr.streams, at);
        let region = self.expr.begin_if(is_due);
        let clean = self.expr.iconst8(0);
        self.expr.store(clean, self.expr.streams, at);
        self.evaluate(stream, rule, None);
        self.expr.end_if(region);
        self.emit_held_values(stream, rule);
    }

    /// Evaluates the dirty instances of a stream. At an event that is the pending one at most; if any are marked in
    /// memory too, the step is interpreted.
    fn evaluate_dirty(&mut self, stream: usize, rule: &'e UpdateRule, step: &Step) {
        let Some(variable) = self.pending[stream].take() else {
            return self.evaluate_listed(stream, rule, step);
        };
        let [at_most_one, evaluate, done, several, end] = [(); 5].map(|()| self.expr.builder.create_block());
        self.expr.builder.set_cold_block(several);
        let slot_plus_one = self.expr.builder.use_var(variable);
        let dirty_word = self.dirty_word(Reader::Stream(stream));
        let saved = self.expr.save_state();
        self.expr.builder.ins().brif(dirty_word, several, &[], at_most_one, &[]);
        self.expr.switch_to_successor(at_most_one);
        self.expr.builder.ins().brif(slot_plus_one, evaluate, &[], done, &[]);
        self.expr.switch_to_successor(evaluate);
        let slot = self.expr.builder.ins().iadd_imm(slot_plus_one, -1);
        let instance = self.expr.instance(rule.family, slot);
        self.evaluate(stream, rule, Some(instance));
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(done, &saved);
        self.emit_held_values(stream, rule);
        self.expr.builder.ins().jump(end, &[]);
        self.expr.switch_to_saved(several, &saved);
        self.mark_pending(stream, slot_plus_one);
        self.call_step_keeping_words(step);
        self.expr.builder.ins().jump(end, &[]);
        self.expr.switch_to_saved(end, &saved);
    }

    /// Marks the pending instance in memory, if there is one.
    fn mark_pending(&mut self, stream: usize, slot_plus_one: Value) {
        let region = self.expr.begin_if(slot_plus_one);
        self.mark_slot_plus_one(Reader::Stream(stream), slot_plus_one);
        self.expr.end_if(region);
    }

    /// Evaluates the instances that are marked in memory, in a loop over the list in place.
    fn evaluate_listed(&mut self, stream: usize, rule: &'e UpdateRule, step: &Step) {
        // A rule that marks other instances of the same stream would push slots while the list is read in place. So
        // would one that marks itself where slots are reused, because a reused slot may be listed twice. Both are
        // interpreted.
        let marks_itself = rule.reschedules_on_change || rule.has_follow_up;
        let closes = self.plan.families[rule.family].close.is_some();
        if rule.marks_others_of(stream) || (marks_itself && closes) {
            return self.call_step(step);
        }
        let dirty_word = self.dirty_word(Reader::Stream(stream));
        let region = self.expr.begin_if(dirty_word);
        let [list, length, _] = self.list_dirty(Reader::Stream(stream), dirty_word);
        self.for_each_dirty(Reader::Stream(stream), [list, length], |emitter, instance| {
            emitter.evaluate(stream, rule, Some(instance));
        });
        self.expr.end_if(region);
        self.emit_held_values(stream, rule);
    }

    /// Whether instances of a stream are evaluated at ticks while their guard holds.
    fn is_guarded_at_ticks(&self, stream: usize, rule: &UpdateRule) -> bool {
        let has_guard = self.plan.streams[stream].eval.guard.is_some();
        has_guard && self.expr.present == 0 && matches!(rule.location, ValueLocation::Slot { .. })
    }

    /// Evaluates the dirty instances in a loop over a copy of the list: they may mark themselves for the next time.
    fn evaluate_taken(&mut self, stream: usize, rule: &'e UpdateRule) {
        let dirty_word = self.dirty_word(Reader::Stream(stream));
        let region = self.expr.begin_if(dirty_word);
        let count = self.expr.call(runtime_calls::take_dirty as *const u8, &[stream as u64]);
        let slots = self.expr.load(I64, self.expr.context, offset_of!(VmContext, listed));
        self.for_each_slot(slots, count, |emitter, slot| {
            let instance = emitter.expr.instance(rule.family, slot);
            emitter.evaluate(stream, rule, Some(instance));
        });
        self.expr.end_if(region);
    }

    /// A tick of a counter that is computed on read: marks the dependents of the instances for which it crosses a
    /// threshold.
    fn tick_counter(&mut self, stream: usize) {
        let Some(counter) = self.counter_dependents(stream) else { return };
        let family = self.plan.streams[stream].family;
        let count = self.expr.call(runtime_calls::list_crossed as *const u8, &[stream as u64]);
        let slots = self.expr.load(I64, self.expr.context, offset_of!(VmContext, listed));
        self.for_each_slot(slots, count, |emitter, slot| {
            let instance = emitter.expr.instance(family, slot);
            emitter.mark_instance_dependents(stream, &counter.dependents, instance);
        });
    }

    /// Emits the values that instances hold, if the stream emits them at every evaluation and there are any.
    fn emit_held_values(&mut self, stream: usize, rule: &UpdateRule) {
        if !rule.emits_held {
            return;
        }
        let at =
            stream_offset(stream) + offset_of!(StreamState, current_holders) + offset_of!(HolderSet, count);
        let holders = self.expr.load(I64, self.expr.streams, at);
        self.expr.emit_if(holders, |expr| {
            expr.call(runtime_calls::emit_held_values as *const u8, &[stream as u64]);
        });
    }

    /// Evaluates the instances whose deadline has expired.
    fn evaluate_expired(&mut self, stream: usize, rule: &'e UpdateRule, instance_timer: usize) {
        let lists = self.expr.offsets.expired(instance_timer);
        let [slots, count] = [0, 8].map(|at| self.expr.load(I64, self.expr.context, lists + at));
        self.for_each_slot(slots, count, |emitter, slot| {
            let instance = emitter.expr.instance(rule.family, slot);
            emitter.evaluate(stream, rule, Some(instance));
        });
    }

    /// A loop over `count` slots in memory, from the address `first` on.
    pub(super) fn for_each_slot(
        &mut self,
        first: Value,
        count: Value,
        mut body: impl FnMut(&mut Self, Value),
    ) {
        let [head, each, done] = [(); 3].map(|()| self.expr.builder.create_block());
        let at = self.expr.builder.append_block_param(head, I64);
        let zero = self.expr.iconst(0);
        let saved = self.expr.save_state();
        self.expr.builder.ins().jump(head, &[zero.into()]);
        self.expr.switch_with_empty_cache(head);
        let is_left = self.expr.builder.ins().icmp(IntCC::UnsignedLessThan, at, count);
        self.expr.builder.ins().brif(is_left, each, &[], done, &[]);
        self.expr.switch_to_successor(each);
        let address = self.expr.builder.ins().ishl_imm(at, 2);
        let address = self.expr.builder.ins().iadd(first, address);
        let slot = self.expr.load(I32, address, 0);
        let slot = self.expr.builder.ins().uextend(I64, slot);
        body(self, slot);
        let next = self.expr.builder.ins().iadd_imm(at, 1);
        self.expr.builder.ins().jump(head, &[next.into()]);
        self.expr.switch_to_saved(done, &saved);
    }

    /// Evaluates the instance that an access path finds, if there is one. If there are several, the step is
    /// interpreted.
    fn evaluate_found(&mut self, stream: usize, rule: &'e UpdateRule, path: &Path, step: &Step) {
        if let Some(program) = path.program {
            let next = self.expr.builder.create_block();
            let saved = self.expr.save_state();
            self.expr.emit_program(Run { stream, program, instance: None }, next, next);
            self.expr.switch_to_saved(next, &saved);
        }
        let [ambiguous, found, done] = [(); 3].map(|()| self.expr.builder.create_block());
        self.expr.builder.set_cold_block(ambiguous);
        let slot = self.expr.builder.append_block_param(found, I64);
        let saved = self.expr.save_state();
        self.expr.find(rule.family, path.route, path.key, LookupBlocks { found, missing: done, ambiguous });
        self.expr.switch_to_saved(found, &saved);
        let instance = self.expr.instance(rule.family, slot);
        self.evaluate(stream, rule, Some(instance));
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(ambiguous, &saved);
        self.call_step_keeping_words(step);
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(done, &saved);
    }
}
