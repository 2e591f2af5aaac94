//! How instances close, and what follows when they end.
//!
//! An instance that closes is there until the end of its instant, as others may read it. Where nobody is told of it, the
//! reaction that lets it close ends it as well, as its last steps.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::Variable;

use super::expr::{Run, SlotRef};
use super::grouping::is_additive;
use super::runtime_calls;
use super::steps::StepEmitter;
use crate::compiled::ir::plan::{ClosePlan, Reader};
use crate::compiled::ir::update_rule::{UpdateRule, ValueLocation};
use crate::compiled::store::aggregate::group::{RETIRED, USED};

/// The instances of a family that end with this instant: their slots, and how many there are.
pub(super) struct Closing {
    family: usize,
    slots: Variable,
    count: Variable,
}

impl<'e> StepEmitter<'e, '_> {
    /// How a family closes, if that can be written.
    pub(super) fn compilable_close(&self, family: usize) -> Option<&'e ClosePlan> {
        let plan = &self.plan.families[family];
        let is_simple = plan.is_parameterised && !plan.knows_its_spawn;
        plan.close.as_ref().filter(|close| is_simple && close.incremental)
    }

    /// The instances of a family whose close condition must be looked at.
    pub(super) fn close(&mut self, family: usize, close: &ClosePlan) {
        let closing = self.ends_inline(family).then(|| self.declare_closing(family));
        let [check, done] = [(); 2].map(|()| self.expr.builder.create_block());
        let dirty_word = self.dirty_word(Reader::Family(family));
        let saved = self.expr.save_state();
        self.expr.builder.ins().brif(dirty_word, check, &[], done, &[]);
        self.expr.switch_to_successor(check);
        let [list, length, room] = self.list_dirty(Reader::Family(family), dirty_word);
        if let Some(closing) = &closing {
            self.expr.builder.def_var(closing.slots, room);
        }
        self.for_each_dirty(Reader::Family(family), [list, length], |emitter, instance| {
            let condition = (emitter.plan.first_member(family), close.program);
            emitter.emit_if_yields(condition, instance, |emitter| match &closing {
                Some(closing) => emitter.push_closing(closing, instance.slot),
                None => {
                    let number = emitter.expr.iconst(family as u64);
                    emitter
                        .expr
                        .call_with(runtime_calls::mark_closing as *const u8, &[number, instance.slot]);
                }
            });
        });
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(done, &saved);
        self.closing.extend(closing);
    }

    /// Ends the instances that close. Selector reads others is gone before they are, most often, and need not look again.
    pub(super) fn end_closing(&mut self) {
        for Closing { family, slots, count } in std::mem::take(&mut self.closing).into_iter().rev() {
            let [slots, count] = [slots, count].map(|variable| self.expr.builder.use_var(variable));
            self.for_each_slot(slots, count, |emitter, slot| {
                let instance = emitter.expr.instance(family, slot);
                for member in &emitter.plan.families[family].members {
                    if let Some(rule) = &emitter.plan.rules[*member] {
                        emitter.end_member(*member, rule, instance);
                    } else if let Some(counter) = emitter.counter_dependents(*member) {
                        emitter.mark_instance_dependents(*member, &counter.dependents_on_close, instance);
                    }
                }
                emitter.free_slot(family, instance);
            });
            self.retire_deadlines(family, count);
        }
    }

    /// Whether instances of a family can end without a call: nobody is told of it, and all that counts their values is
    /// words.
    fn ends_inline(&self, family: usize) -> bool {
        let plan = self.plan;
        let is_simple = |member: &usize| {
            let aggregates = |grouped: usize| plan.grouped[grouped].aggregates.iter();
            let is_additive_rule = |rule: &UpdateRule| {
                rule.groups.iter().all(|group_update| aggregates(group_update.grouped).all(is_additive))
            };
            let is_counter = self.counter_dependents(*member).is_some();
            !plan.emission[*member].values
                && (is_counter || plan.rules[*member].as_ref().is_some_and(is_additive_rule))
        };
        // Closes that have clocks of their own come after this, and may read who ends.
        plan.local_closes.is_empty() && plan.families[family].members.iter().all(is_simple)
    }

    fn declare_closing(&mut self, family: usize) -> Closing {
        let builder = &mut self.expr.builder;
        let [slots, count] = [(); 2].map(|()| builder.declare_var(I64));
        let none = builder.ins().iconst(I64, 0);
        builder.def_var(slots, none);
        builder.def_var(count, none);
        Closing { family, slots, count }
    }

    /// Lists a slot among those that end.
    fn push_closing(&mut self, closing: &Closing, slot: Value) {
        let [slots, count] =
            [closing.slots, closing.count].map(|variable| self.expr.builder.use_var(variable));
        let at = self.expr.builder.ins().ishl_imm(count, 2);
        let at = self.expr.builder.ins().iadd(slots, at);
        let slot = self.expr.builder.ins().ireduce(I32, slot);
        self.expr.store(slot, at, 0);
        let more = self.expr.builder.ins().iadd_imm(count, 1);
        self.expr.builder.def_var(closing.count, more);
    }

    /// What [`UpdateRule::end`] does.
    fn end_member(&mut self, stream: usize, rule: &'e UpdateRule, instance: SlotRef) {
        let ValueLocation::Slot { state, value } = rule.location else { return };
        self.close_windows(stream, instance);
        if rule.groups.is_empty() && rule.dependents_on_close.is_empty() {
            return;
        }
        let flags = self.expr.load(I64, instance.words, 8 * state);
        let values = self.expr.builder.ins().ushr_imm(flags, 32);
        let region = self.expr.begin_if(values);
        let old = self.expr.load(I64, instance.words, 8 * value);
        for (number, group_update) in rule.groups.iter().enumerate() {
            let update = runtime_calls::pack(stream, number);
            let (changed, members) = self.expr.remove_value(group_update, update, instance, old);
            let group = changed.first().map(|changed| changed.group);
            self.mark_group_readers(group_update, changed);
            if let Some(group) = group {
                self.retire_if_empty(group_update.grouped, group, members);
            }
        }
        self.mark_instance_dependents(stream, &rule.dependents_on_close, instance);
        self.expr.end_if(region);
    }

    /// Windows over an instance can be read for a time, if there is something in them.
    fn close_windows(&mut self, stream: usize, instance: SlotRef) {
        let plan = &self.plan;
        let windows = plan.streams[stream].windows.iter().map(|window| &plan.windows[*window]);
        let outlasting = windows.filter(|window| window.outlasts);
        let mut words =
            outlasting.filter_map(|window| window.last_decisive).map(|last_decisive| 8 * last_decisive.at);
        let Some(first) = words.next() else { return };
        let mut any = self.expr.load(I64, instance.words, first);
        for at in words {
            let word = self.expr.load(I64, instance.words, at);
            any = self.expr.builder.ins().bor(any, word);
        }
        let region = self.expr.begin_if(any);
        let number = self.expr.iconst(stream as u64);
        self.expr.call_with(runtime_calls::close_windows as *const u8, &[number, instance.slot]);
        self.expr.end_if(region);
    }

    /// A group may have no members left.
    fn retire_if_empty(&mut self, grouped: usize, group: Value, members: Value) {
        let is_empty = self.expr.builder.ins().icmp_imm(IntCC::Equal, members, 0);
        let used = self.expr.load(I64, group, 8 * USED);
        let retired = self.expr.builder.ins().band_imm(used, RETIRED.cast_signed());
        let is_unlisted = self.expr.builder.ins().icmp_imm(IntCC::Equal, retired, 0);
        let retires = self.expr.builder.ins().band(is_empty, is_unlisted);
        self.expr.emit_if(retires, |expr| {
            let number = expr.iconst(grouped as u64);
            expr.call_with(runtime_calls::retire_group as *const u8, &[number, group]);
        });
    }

    /// Does something if a condition holds of an instance: the stream whose condition it is, and the program.
    pub(super) fn emit_if_yields(
        &mut self,
        (stream, program): (usize, usize),
        instance: SlotRef,
        then: impl FnOnce(&mut Self),
    ) {
        let [yields, ends] = [(); 2].map(|()| self.expr.builder.create_block());
        let saved = self.expr.save_state();
        let plan = &self.plan.streams[stream];
        self.expr.cache_parameters(plan.own, plan.param_width, instance.words);
        self.expr.emit_program(Run { stream, program, instance: Some(instance) }, yields, ends);
        self.expr.switch_to_saved(yields, &saved);
        then(self);
        self.expr.builder.ins().jump(ends, &[]);
        self.expr.switch_to_saved(ends, &saved);
    }
}
