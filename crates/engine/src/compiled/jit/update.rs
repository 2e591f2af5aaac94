//! New values: stores them, updates groups and windows, and marks dependents.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I64};
use cranelift_codegen::ir::{InstBuilder, Value};

use super::dirty::{dirty_set_offset, stream_offset};
use super::expr::{Run, SlotRef};
use super::grouping::{AggregateChange, ValueChange};
use super::lookup::LookupBlocks;
use super::runtime_calls;
use super::steps::StepEmitter;
use crate::compiled::ir::layout::PARAMS;
use crate::compiled::ir::op::FrameSlot;
use crate::compiled::ir::plan::{Dependent, Reader, Route, Selector};
use crate::compiled::ir::update_rule::{GroupUpdate, ResolvedDependent, UpdateRule, ValueLocation};
use crate::compiled::store::dirty_set::DirtySet;
use crate::compiled::store::slab::flag;
use crate::compiled::store::state::StreamState;

impl<'e> StepEmitter<'e, '_> {
    /// Evaluates a stream without instances, or one of its instances, by its update rule. The same as
    /// `Cx::evaluate_one`.
    pub(super) fn evaluate(&mut self, stream: usize, rule: &'e UpdateRule, instance: Option<SlotRef>) {
        if let Some(instance) = instance {
            self.expr.cache_parameters(rule.own, rule.params, instance.words);
        }
        let [yields, ends, done] = [(); 3].map(|()| self.expr.builder.create_block());
        let saved = self.expr.save_state();
        let at_yield = self.expr.emit_program(Run { stream, program: rule.program, instance }, yields, ends);
        match (rule.location, instance) {
            (ValueLocation::Cell { present, fresh, value }, _) => {
                self.expr.switch_to_saved(yields, &at_yield);
                self.push_cell(stream, rule, [present, fresh, value]);
                self.expr.builder.ins().jump(done, &[]);
                self.expr.switch_to_saved(ends, &saved);
                self.update_cell_holder(stream, rule, false);
                self.emit_follow_up(stream, rule, None, [false, false]);
            }
            (ValueLocation::Slot { state, value }, Some(instance)) => {
                self.expr.switch_to_saved(yields, &at_yield);
                self.push_instance(stream, rule, instance, [state, value]);
                self.expr.builder.ins().jump(done, &[]);
                self.expr.switch_to_saved(ends, &saved);
                let flags = self.expr.load(I64, instance.words, 8 * state);
                let others = self.expr.builder.ins().band_imm(flags, !flag::HOLDS.cast_signed());
                self.expr.store(others, instance.words, 8 * state);
                self.update_instance_holder(stream, rule, instance, flags, false);
                self.emit_follow_up(stream, rule, Some(instance), [false, false]);
            }
            (ValueLocation::Slot { .. }, None) => {}
        }
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(done, &saved);
    }

    /// A stream without instances has yielded a value.
    fn push_cell(&mut self, stream: usize, rule: &'e UpdateRule, [present, fresh, value]: [FrameSlot; 3]) {
        let [changed, same, done] = [(); 3].map(|()| self.expr.builder.create_block());
        let new = self.expr.load_slot(rule.result);
        let (had, old) = (self.expr.load_slot(present), self.expr.load_slot(value));
        self.update_cell_holder(stream, rule, true);
        let one = self.expr.iconst(1);
        if !rule.incremental {
            self.mark_fresh(fresh);
        }
        let had = self.expr.builder.ins().icmp_imm(IntCC::NotEqual, had, 0);
        let is_old = self.expr.builder.ins().icmp(IntCC::Equal, old, new);
        let is_same = self.expr.builder.ins().band(had, is_old);
        let saved = self.expr.save_state();
        self.expr.builder.ins().brif(is_same, same, &[], changed, &[]);
        self.expr.switch_to_successor(changed);
        self.expr.store_slot(present, one);
        self.mark_fresh(fresh);
        self.expr.store_slot(value, new);
        rule.dependents.iter().for_each(|dependent| self.mark_dependent(stream, dependent, None));
        self.emit_follow_up(stream, rule, None, [true, true]);
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(same, &saved);
        self.emit_follow_up(stream, rule, None, [true, false]);
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(done, &saved);
    }

    /// An instance has yielded a value.
    fn push_instance(
        &mut self,
        stream: usize,
        rule: &'e UpdateRule,
        instance: SlotRef,
        [state, value]: [usize; 2],
    ) {
        let [changed, same, done] = [(); 3].map(|()| self.expr.builder.create_block());
        let new = self.expr.load_slot(rule.result);
        let flags = self.expr.load(I64, instance.words, 8 * state);
        let old = self.expr.load(I64, instance.words, 8 * value);
        let now = self.expr.builder.ins().bor_imm(flags, (flag::HOLDS | 1 << 32).cast_signed());
        self.expr.store(now, instance.words, 8 * state);
        self.expr.store(new, instance.words, 8 * value);
        self.update_instance_holder(stream, rule, instance, flags, true);
        let had = self.expr.builder.ins().ushr_imm(flags, 32);
        let has_old = self.expr.builder.ins().icmp_imm(IntCC::NotEqual, had, 0);
        let is_old = self.expr.builder.ins().icmp(IntCC::Equal, old, new);
        let is_same = self.expr.builder.ins().band(has_old, is_old);
        let saved = self.expr.save_state();
        self.expr.builder.ins().brif(is_same, same, &[], changed, &[]);
        self.expr.switch_to_successor(changed);
        for (number, group_update) in rule.groups.iter().enumerate() {
            let update = runtime_calls::pack(stream, number);
            let changed =
                self.expr.replace_value(group_update, update, instance, ValueChange { had, old, new });
            self.mark_group_readers(group_update, changed);
        }
        self.mark_instance_dependents(stream, &rule.dependents, instance);
        self.emit_follow_up(stream, rule, Some(instance), [true, true]);
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(same, &saved);
        self.emit_follow_up(stream, rule, Some(instance), [true, false]);
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(done, &saved);
        rule.windows.iter().for_each(|window| self.expr.accept_window(window, instance, new));
    }

    /// Notes whether a stream without instances holds a value.
    fn update_cell_holder(&mut self, stream: usize, rule: &UpdateRule, yields: bool) {
        let at = stream_offset(stream) + offset_of!(StreamState, holds);
        let held = self.expr.load(I8, self.expr.streams, at);
        let now = self.expr.iconst8(yields.into());
        self.expr.store(now, self.expr.streams, at);
        if rule.emits_held {
            let differs = self.expr.builder.ins().icmp_imm(IntCC::NotEqual, held, i64::from(yields));
            self.set_holder_if(stream, differs, None, yields);
        }
    }

    /// The same for an instance. `flags` is its state word before; the caller has stored the new one.
    fn update_instance_holder(
        &mut self,
        stream: usize,
        rule: &UpdateRule,
        instance: SlotRef,
        flags: Value,
        yields: bool,
    ) {
        if rule.emits_held {
            let held = self.expr.builder.ins().band_imm(flags, flag::HOLDS.cast_signed());
            let condition = if yields { IntCC::Equal } else { IntCC::NotEqual };
            let differs = self.expr.builder.ins().icmp_imm(condition, held, 0);
            self.set_holder_if(stream, differs, Some(instance), yields);
        }
    }

    /// Adds an instance to the current holders or removes it, if that differs from before.
    fn set_holder_if(&mut self, stream: usize, differs: Value, instance: Option<SlotRef>, yields: bool) {
        let region = self.expr.begin_if(differs);
        let arguments =
            [self.expr.iconst(stream as u64), self.slot_or_zero(instance), self.expr.iconst(yields.into())];
        self.expr.call_with(runtime_calls::set_holder as *const u8, &arguments);
        self.expr.end_if(region);
    }

    /// Emits the consequences of an evaluation other than those of a new value: whether it yielded one, and whether
    /// that differs from the one before.
    fn emit_follow_up(
        &mut self,
        stream: usize,
        rule: &UpdateRule,
        instance: Option<SlotRef>,
        [yields, changed]: [bool; 2],
    ) {
        if rule.reschedules_on_change {
            match (rule.location, instance) {
                _ if !changed => {}
                (ValueLocation::Slot { .. }, Some(instance)) => {
                    self.mark_slot(Reader::Stream(stream), instance)
                }
                _ => self.mark_dependent(stream, &ResolvedDependent::All(stream), None),
            }
        } else if let (Some(guard), Some(instance)) = (rule.reschedules_while, instance) {
            let holds = self.expr.load_slot(guard);
            let region = self.expr.begin_if(holds);
            self.mark_slot(Reader::Stream(stream), instance);
            self.expr.end_if(region);
        } else if rule.has_follow_up {
            let guard = self.plan.streams[stream].eval.guard;
            guard.into_iter().for_each(|guard| self.expr.flush_for_runtime(guard, 1));
            let outcome = if yields { runtime_calls::YIELDS } else { 0 }
                | if changed { runtime_calls::CHANGED } else { 0 };
            let arguments =
                [self.expr.iconst(stream as u64), self.slot_or_zero(instance), self.expr.iconst(outcome)];
            self.expr.call_with(runtime_calls::reschedule_self as *const u8, &arguments);
        }
    }

    /// The slot of an instance; 0 for a stream without instances.
    fn slot_or_zero(&mut self, instance: Option<SlotRef>) -> Value {
        match instance {
            Some(instance) => instance.slot,
            None => self.expr.iconst(0),
        }
    }

    /// Marks a dependent of a stream, or of an instance of it.
    pub(super) fn mark_dependent(
        &mut self,
        stream: usize,
        dependent: &ResolvedDependent,
        instance: Option<SlotRef>,
    ) {
        match (dependent, instance) {
            (ResolvedDependent::All(reader), _) => {
                let all = self.expr.iconst8(1);
                self.expr.store(
                    all,
                    self.expr.streams,
                    dirty_set_offset(*reader) + offset_of!(DirtySet, all),
                );
                self.lower_idle_until(Reader::Stream(*reader));
            }
            (ResolvedDependent::Slot { stream: reader, .. }, Some(instance)) => {
                self.mark_slot(Reader::Stream(*reader), instance);
            }
            (ResolvedDependent::Slot { .. }, None) => {}
            (ResolvedDependent::Other(_), Some(instance)) => {
                self.mark_selected(stream, &[dependent], instance)
            }
            (ResolvedDependent::Instance { .. } | ResolvedDependent::Other(_), instance) => {
                let slot = self.slot_or_zero(instance);
                self.call_mark_dependent(stream, dependent, slot);
            }
        }
    }

    /// The same by a runtime call.
    fn call_mark_dependent(&mut self, stream: usize, dependent: &ResolvedDependent, slot: Value) {
        let dependent = self.expr.iconst(&raw const *dependent as u64);
        let arguments = [dependent, self.expr.iconst(stream as u64), slot];
        self.expr.call_with(runtime_calls::mark_dependent as *const u8, &arguments);
    }

    /// Marks the dependents of an instance. Those in the same family with the same selector share one lookup.
    pub(super) fn mark_instance_dependents(
        &mut self,
        stream: usize,
        dependents: &[ResolvedDependent],
        instance: SlotRef,
    ) {
        let lookup_of = |dependent: &ResolvedDependent| match dependent {
            ResolvedDependent::Other(Dependent { reader, selector }) => {
                Some((self.plan.family_of(*reader), selector.clone()))
            }
            _ => None,
        };
        let mut groups: Vec<Vec<&ResolvedDependent>> = Vec::new();
        for dependent in dependents {
            let has_same_lookup = |group: &&mut Vec<&ResolvedDependent>| {
                lookup_of(dependent).is_some() && lookup_of(group[0]) == lookup_of(dependent)
            };
            match groups.iter_mut().find(has_same_lookup) {
                Some(group) => group.push(dependent),
                None => groups.push(vec![dependent]),
            }
        }
        for group in groups {
            match group[0] {
                ResolvedDependent::Other(_) => self.mark_selected(stream, &group, instance),
                dependent => self.mark_dependent(stream, dependent, Some(instance)),
            }
        }
    }

    /// Marks dependents of an instance that are in one family and share a selector.
    fn mark_selected(&mut self, stream: usize, dependents: &[&ResolvedDependent], instance: SlotRef) {
        let plan = &self.plan;
        let [ResolvedDependent::Other(Dependent { reader, selector }), ..] = dependents else {
            return;
        };
        let family = plan.family_of(*reader);
        let mark_resolved = |emitter: &mut Self, instance: SlotRef| {
            for dependent in dependents {
                let ResolvedDependent::Other(Dependent { reader, .. }) = dependent else { continue };
                emitter.mark_slot(*reader, instance);
            }
        };
        let call_for_each = |emitter: &mut Self| {
            dependents
                .iter()
                .for_each(|dependent| emitter.call_mark_dependent(stream, dependent, instance.slot));
        };
        let (route, positions) = match selector {
            Selector::Slot => return mark_resolved(self, instance),
            Selector::Index(index, positions) => (Route::Index(*index), positions),
            Selector::Instance(positions) if plan.families[family].indexes.is_empty() => {
                (Route::Lookup, positions)
            }
            Selector::All | Selector::Instance(_) => return call_for_each(self),
        };
        let word = |at: &usize| self.expr.load(I64, instance.words, 8 * (PARAMS + at));
        let key: Vec<Value> = positions.iter().map(word).collect();
        let [found, ambiguous, done] = [(); 3].map(|()| self.expr.builder.create_block());
        self.expr.builder.set_cold_block(ambiguous);
        let slot = self.expr.builder.append_block_param(found, I64);
        let saved = self.expr.save_state();
        self.expr.find_by_words(family, route, &key, LookupBlocks { found, missing: done, ambiguous });
        self.expr.switch_to_saved(ambiguous, &saved);
        call_for_each(self);
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(found, &saved);
        let instance = self.expr.instance(family, slot);
        mark_resolved(self, instance);
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(done, &saved);
    }

    /// Marks the dependents of the aggregates of a group that may have changed. Aggregates with the same dependents
    /// share one branch: which of them has changed is unpredictable, whether any has is not.
    pub(super) fn mark_group_readers(
        &mut self,
        group_update: &'e GroupUpdate,
        changed: Vec<AggregateChange>,
    ) {
        let mut merged: Vec<(AggregateChange, &'e [ResolvedDependent])> = Vec::new();
        for (changed, dependents) in changed.into_iter().zip(&group_update.dependents) {
            match merged.iter_mut().find(|(_, others)| *others == dependents.as_slice()) {
                Some((other, _)) => {
                    let both = other.may_differ.zip(changed.may_differ);
                    other.may_differ = both.map(|(a, b)| self.expr.or_words(a, b));
                }
                None => merged.push((changed, dependents)),
            }
        }
        for (changed, dependents) in merged.into_iter().filter(|(_, dependents)| !dependents.is_empty()) {
            self.mark_aggregate_readers(group_update.grouped, changed, dependents);
        }
    }

    /// Marks the dependents of an aggregate of a group, if it may have changed.
    fn mark_aggregate_readers(
        &mut self,
        grouped: usize,
        changed: AggregateChange,
        dependents: &'e [ResolvedDependent],
    ) {
        let AggregateChange { may_differ, is_zero, group } = changed;
        if let Some(may_differ) = may_differ
            && dependents.iter().all(|dependent| matches!(dependent, ResolvedDependent::All(_)))
        {
            // Whether an extremum has changed is unpredictable, so the flag is combined without branching.
            let may_differ = self.expr.builder.ins().icmp_imm(IntCC::NotEqual, may_differ, 0);
            dependents.iter().for_each(|dependent| self.mark_all_if(may_differ, dependent));
            return;
        }
        let [mark, done] = [(); 2].map(|()| self.expr.builder.create_block());
        let saved = self.expr.save_state();
        match may_differ {
            Some(may_differ) => self.expr.builder.ins().brif(may_differ, mark, &[], done, &[]),
            None => self.expr.builder.ins().jump(mark, &[]),
        };
        self.expr.switch_to_successor(mark);
        for dependent in dependents {
            match dependent {
                ResolvedDependent::All(_) => self.mark_dependent(grouped, dependent, None),
                ResolvedDependent::Instance { cached: Some(_), .. } => {
                    self.mark_cached_reader(grouped, group, dependent, is_zero)
                }
                dependent => {
                    let dependent = self.expr.iconst(&raw const *dependent as u64);
                    let arguments = [dependent, self.expr.iconst(grouped as u64), group];
                    self.expr.call_with(runtime_calls::mark_group_dependent as *const u8, &arguments);
                }
            }
        }
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(done, &saved);
    }

    /// Marks a stream without instances, or all instances, without branching.
    fn mark_all_if(&mut self, may_differ: Value, dependent: &ResolvedDependent) {
        let ResolvedDependent::All(reader) = dependent else { return };
        let at = dirty_set_offset(*reader) + offset_of!(DirtySet, all);
        let before = self.expr.load(I8, self.expr.streams, at);
        let now = self.expr.builder.ins().bor(before, may_differ);
        self.expr.store(now, self.expr.streams, at);
        self.lower_idle_until(Reader::Stream(*reader));
    }

    /// Marks the instance that reads a group. The group caches its slot; a runtime call finds it the first time. An
    /// instance that only [adds](crate::compiled::ir::op::Program::grows_by) an aggregate to its value is unmarked
    /// instead where the aggregate is 0.
    fn mark_cached_reader(
        &mut self,
        grouped: usize,
        group: Value,
        dependent: &ResolvedDependent,
        is_zero: Option<Value>,
    ) {
        let ResolvedDependent::Instance { stream, family, cached: Some(cached), .. } = dependent else {
            return;
        };
        let [find, known, done] = [(); 3].map(|()| self.expr.builder.create_block());
        self.expr.builder.set_cold_block(find);
        let reader = self.expr.builder.append_block_param(known, I64);
        let saved = self.expr.save_state();
        let at = self.store.grouped[grouped].stride() - cached;
        let slot_plus_one = self.expr.load(I64, group, 8 * at);
        self.expr.builder.ins().brif(slot_plus_one, known, &[slot_plus_one.into()], find, &[]);
        self.expr.switch_to_saved(find, &saved);
        let arguments = [&raw const *dependent as u64, grouped as u64].map(|word| self.expr.iconst(word));
        let arguments = [arguments[0], arguments[1], group];
        let slot_plus_one = self.expr.call_with(runtime_calls::find_reader as *const u8, &arguments);
        self.expr.builder.ins().brif(slot_plus_one, known, &[slot_plus_one.into()], done, &[]);
        self.expr.switch_to_saved(known, &saved);
        if let Some(is_zero) = is_zero.filter(|_| self.only_grows_by(*stream, grouped)) {
            let [unmark, mark] = [(); 2].map(|()| self.expr.builder.create_block());
            let saved = self.expr.save_state();
            self.expr.builder.ins().brif(is_zero, unmark, &[], mark, &[]);
            self.expr.switch_to_saved(unmark, &saved);
            let slot = self.expr.builder.ins().iadd_imm(reader, -1);
            let instance = self.expr.instance(*family, slot);
            self.unmark_if_last(*stream, instance);
            self.expr.builder.ins().jump(done, &[]);
            self.expr.switch_to_saved(mark, &saved);
        }
        self.mark_slot_plus_one(Reader::Stream(*stream), reader);
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(done, &saved);
    }

    /// Whether a stream only adds an aggregate of `grouped` to its value, and emits nothing when it is evaluated.
    fn only_grows_by(&self, stream: usize, grouped: usize) -> bool {
        let reschedules = self.plan.rules[stream].as_ref().is_some_and(|rule| rule.reschedules_on_change);
        let plan = &self.plan;
        let program = &plan.programs[plan.streams[stream].eval.program];
        reschedules && program.grows_by(stream) == Some(grouped as u32)
    }
}
