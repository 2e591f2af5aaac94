//! Close conditions, and the end of instances.
//!
//! An instance that closes stays readable until the end of its instant. Where its close is not emitted, the handler
//! that finds its close condition true also ends it, as its last steps.

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

/// The instances of a family that end with this instant.
pub(super) struct Closing {
    family: usize,
    /// The address of the list of their slots.
    slots: Variable,
    /// How many there are.
    count: Variable,
}

impl<'e> StepEmitter<'e, '_> {
    /// The close condition of a family, if it can be emitted inline.
    pub(super) fn compilable_close(&self, family: usize) -> Option<&'e ClosePlan> {
        let plan = &self.plan.families[family];
        let is_simple = plan.is_parameterised && !plan.knows_its_spawn;
        plan.close.as_ref().filter(|close| is_simple && close.incremental)
    }

    /// Checks the close condition of the dirty instances of a family.
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

    /// Ends the instances that close. Families end in reverse order of their closes: a reader has usually ended before
    /// the instances that it reads, and need not be marked.
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

    /// Whether instances of a family can end without interpreting that: their verdicts are not emitted, and the groups
    /// of their values are [words to add to](is_additive).
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
        // Closes with deadlines of their own come later in the instant, and may read the instances that end.
        plan.local_closes.is_empty() && plan.families[family].members.iter().all(is_simple)
    }

    /// Declares an empty list of closing instances.
    fn declare_closing(&mut self, family: usize) -> Closing {
        let builder = &mut self.expr.builder;
        let [slots, count] = [(); 2].map(|()| builder.declare_var(I64));
        let none = builder.ins().iconst(I64, 0);
        builder.def_var(slots, none);
        builder.def_var(count, none);
        Closing { family, slots, count }
    }

    /// Appends a slot to the list of closing instances.
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

    /// Removes the value of an instance from its groups and marks its dependents. The same as `UpdateRule::end`.
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

    /// Keeps the windows over an instance that can be read after its end, unless they are empty.
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

    /// Retires a group that has no members left, unless it is listed as retired already.
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

    /// Emits code that runs if a program yields for an instance: the stream of the program, and the program.
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
