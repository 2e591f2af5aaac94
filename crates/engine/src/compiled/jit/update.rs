//! New values, and what follows from them.

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
    /// What [`Evaluator::evaluate_one`] does.
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
                self.holds(stream, rule, false);
                self.again(stream, rule, None, [false, false]);
            }
            (ValueLocation::Slot { state, value }, Some(instance)) => {
                self.expr.switch_to_saved(yields, &at_yield);
                self.push_instance(stream, rule, instance, [state, value]);
                self.expr.builder.ins().jump(done, &[]);
                self.expr.switch_to_saved(ends, &saved);
                let flags = self.expr.load(I64, instance.words, 8 * state);
                let others = self.expr.builder.ins().band_imm(flags, !flag::HOLDS.cast_signed());
                self.expr.store(others, instance.words, 8 * state);
                self.held(stream, rule, instance, flags, false);
                self.again(stream, rule, Some(instance), [false, false]);
            }
            (ValueLocation::Slot { .. }, None) => {}
        }
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(done, &saved);
    }

    /// A stream without instances has a value.
    fn push_cell(&mut self, stream: usize, rule: &'e UpdateRule, [present, fresh, value]: [FrameSlot; 3]) {
        let [changed, same, done] = [(); 3].map(|()| self.expr.builder.create_block());
        let new = self.expr.load_slot(rule.result);
        let (had, old) = (self.expr.load_slot(present), self.expr.load_slot(value));
        self.holds(stream, rule, true);
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
        rule.dependents.iter().for_each(|dependent| self.mark(stream, dependent, None));
        self.again(stream, rule, None, [true, true]);
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(same, &saved);
        self.again(stream, rule, None, [true, false]);
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(done, &saved);
    }

    /// An instance has a value.
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
        self.held(stream, rule, instance, flags, true);
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
            self.mark_all_readers(group_update, changed);
        }
        self.mark_instance_dependents(stream, &rule.dependents, instance);
        self.again(stream, rule, Some(instance), [true, true]);
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(same, &saved);
        self.again(stream, rule, Some(instance), [true, false]);
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(done, &saved);
        rule.windows.iter().for_each(|window| self.expr.accept_window(window, instance, new));
    }

    /// Notes whether a stream without instances holds a value.
    fn holds(&mut self, stream: usize, rule: &UpdateRule, yields: bool) {
        let at = stream_offset(stream) + offset_of!(StreamState, holds);
        let held = self.expr.load(I8, self.expr.streams, at);
        let now = self.expr.iconst8(yields.into());
        self.expr.store(now, self.expr.streams, at);
        if rule.emits_held {
            let is_other = self.expr.builder.ins().icmp_imm(IntCC::NotEqual, held, i64::from(yields));
            self.hold_if(stream, is_other, None, yields);
        }
    }

    /// The same for an instance, whose flags were these.
    fn held(&mut self, stream: usize, rule: &UpdateRule, instance: SlotRef, flags: Value, yields: bool) {
        if rule.emits_held {
            let held = self.expr.builder.ins().band_imm(flags, flag::HOLDS.cast_signed());
            let condition = if yields { IntCC::Equal } else { IntCC::NotEqual };
            let is_other = self.expr.builder.ins().icmp_imm(condition, held, 0);
            self.hold_if(stream, is_other, Some(instance), yields);
        }
    }

    fn hold_if(&mut self, stream: usize, is_other: Value, instance: Option<SlotRef>, yields: bool) {
        let region = self.expr.begin_if(is_other);
        let arguments =
            [self.expr.iconst(stream as u64), self.slot(instance), self.expr.iconst(yields.into())];
        self.expr.call_with(runtime_calls::set_holder as *const u8, &arguments);
        self.expr.end_if(region);
    }

    /// What an evaluation means for the next: whether it gave a value, and whether another one.
    fn again(
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
                _ => self.mark(stream, &ResolvedDependent::All(stream), None),
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
            let arguments = [self.expr.iconst(stream as u64), self.slot(instance), self.expr.iconst(outcome)];
            self.expr.call_with(runtime_calls::reschedule_self as *const u8, &arguments);
        }
    }

    fn slot(&mut self, instance: Option<SlotRef>) -> Value {
        match instance {
            Some(instance) => instance.slot,
            None => self.expr.iconst(0),
        }
    }

    /// Selector reads a stream must look again.
    pub(super) fn mark(&mut self, stream: usize, dependent: &ResolvedDependent, instance: Option<SlotRef>) {
        match (dependent, instance) {
            (ResolvedDependent::All(reader), _) => {
                let yes = self.expr.iconst8(1);
                self.expr.store(
                    yes,
                    self.expr.streams,
                    dirty_set_offset(*reader) + offset_of!(DirtySet, all),
                );
                self.lower_idle_until(Reader::Stream(*reader));
            }
            (ResolvedDependent::Slot { stream: reader, .. }, Some(instance)) => {
                self.mark_slot(Reader::Stream(*reader), instance);
            }
            (ResolvedDependent::Slot { .. }, None) => {}
            (ResolvedDependent::Other(_), Some(instance)) => self.mark_others(stream, &[dependent], instance),
            (ResolvedDependent::Instance { .. } | ResolvedDependent::Other(_), instance) => {
                let slot = self.slot(instance);
                self.mark_dependent(stream, dependent, slot);
            }
        }
    }

    fn mark_dependent(&mut self, stream: usize, dependent: &ResolvedDependent, slot: Value) {
        let dependent = self.expr.iconst(&raw const *dependent as u64);
        let arguments = [dependent, self.expr.iconst(stream as u64), slot];
        self.expr.call_with(runtime_calls::mark_dependent as *const u8, &arguments);
    }

    /// Selector reads an instance of a stream must look again. Those who are found in the same way are found once.
    pub(super) fn mark_instance_dependents(
        &mut self,
        stream: usize,
        dependents: &[ResolvedDependent],
        instance: SlotRef,
    ) {
        let way = |dependent: &ResolvedDependent| match dependent {
            ResolvedDependent::Other(Dependent { reader, selector }) => {
                Some((self.plan.family_of(*reader), selector.clone()))
            }
            _ => None,
        };
        let mut groups: Vec<Vec<&ResolvedDependent>> = Vec::new();
        for dependent in dependents {
            let is_like = |group: &&mut Vec<&ResolvedDependent>| {
                way(dependent).is_some() && way(group[0]) == way(dependent)
            };
            match groups.iter_mut().find(is_like) {
                Some(group) => group.push(dependent),
                None => groups.push(vec![dependent]),
            }
        }
        for group in groups {
            match group[0] {
                ResolvedDependent::Other(_) => self.mark_others(stream, &group, instance),
                dependent => self.mark(stream, dependent, Some(instance)),
            }
        }
    }

    /// InstanceSlab of streams or families must look again, because an instance of another has changed: they are of one
    /// family, and found in the same way.
    fn mark_others(&mut self, stream: usize, resolve_dependents: &[&ResolvedDependent], instance: SlotRef) {
        let plan = &self.plan;
        let [ResolvedDependent::Other(Dependent { reader, selector }), ..] = resolve_dependents else {
            return;
        };
        let family = plan.family_of(*reader);
        let mark_resolved = |emitter: &mut Self, instance: SlotRef| {
            for dependent in resolve_dependents {
                let ResolvedDependent::Other(Dependent { reader, .. }) = dependent else { continue };
                emitter.mark_slot(*reader, instance);
            }
        };
        let tell_all = |emitter: &mut Self| {
            resolve_dependents
                .iter()
                .for_each(|dependent| emitter.mark_dependent(stream, dependent, instance.slot));
        };
        let (route, places) = match selector {
            Selector::Slot => return mark_resolved(self, instance),
            Selector::Index(index, places) => (Route::Index(*index), places),
            Selector::Instance(places) if plan.families[family].indexes.is_empty() => (Route::Lookup, places),
            Selector::All | Selector::Instance(_) => return tell_all(self),
        };
        let word = |place: &usize| self.expr.load(I64, instance.words, 8 * (PARAMS + place));
        let key: Vec<Value> = places.iter().map(word).collect();
        let [found, ambiguous, done] = [(); 3].map(|()| self.expr.builder.create_block());
        self.expr.builder.set_cold_block(ambiguous);
        let slot = self.expr.builder.append_block_param(found, I64);
        let saved = self.expr.save_state();
        self.expr.find_by_words(family, route, &key, LookupBlocks { found, missing: done, ambiguous });
        self.expr.switch_to_saved(ambiguous, &saved);
        tell_all(self);
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(found, &saved);
        let instance = self.expr.instance(family, slot);
        mark_resolved(self, instance);
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(done, &saved);
    }

    /// Selector reads measures of a group must look again, if they have changed. Where the same read ambiguous, that is one
    /// question: whether one of them has changed is anybody's guess, but not whether any has.
    pub(super) fn mark_all_readers(&mut self, group_update: &'e GroupUpdate, changed: Vec<AggregateChange>) {
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
            self.mark_readers(group_update.grouped, changed, dependents);
        }
    }

    /// Selector reads a measure of a group must look again, if it has changed.
    fn mark_readers(
        &mut self,
        grouped: usize,
        changed: AggregateChange,
        dependents: &'e [ResolvedDependent],
    ) {
        let AggregateChange { may_differ, is_zero, group } = changed;
        if let Some(may_differ) = may_differ
            && dependents.iter().all(|dependent| matches!(dependent, ResolvedDependent::All(_)))
        {
            // Whether an extreme has changed is anybody's guess: better no branch.
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
                ResolvedDependent::All(_) => self.mark(grouped, dependent, None),
                ResolvedDependent::Instance { cached: Some(_), .. } => {
                    self.mark_reader(grouped, group, dependent, is_zero)
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

    fn mark_all_if(&mut self, may_differ: Value, dependent: &ResolvedDependent) {
        let ResolvedDependent::All(reader) = dependent else { return };
        let at = dirty_set_offset(*reader) + offset_of!(DirtySet, all);
        let before = self.expr.load(I8, self.expr.streams, at);
        let now = self.expr.builder.ins().bor(before, may_differ);
        self.expr.store(now, self.expr.streams, at);
        self.lower_idle_until(Reader::Stream(*reader));
    }

    /// The instance that reads a group must look again. Its slot is kept with the group, or else found. If it only
    /// [adds](crate::compiled::ir::op::Program::grows_by) what the group says, and that is nothing, it need not.
    fn mark_reader(
        &mut self,
        grouped: usize,
        group: Value,
        dependent: &ResolvedDependent,
        is_zero: Option<Value>,
    ) {
        let ResolvedDependent::Instance { stream, family, cached: Some(cached), .. } = dependent else {
            return;
        };
        let tally_number = grouped;
        let [look, known, done] = [(); 3].map(|()| self.expr.builder.create_block());
        self.expr.builder.set_cold_block(look);
        let next = self.expr.builder.append_block_param(known, I64);
        let saved = self.expr.save_state();
        let place = self.store.grouped[grouped].stride() - cached;
        let slot = self.expr.load(I64, group, 8 * place);
        self.expr.builder.ins().brif(slot, known, &[slot.into()], look, &[]);
        self.expr.switch_to_saved(look, &saved);
        let [dependent, grouped] =
            [&raw const *dependent as u64, grouped as u64].map(|it| self.expr.iconst(it));
        let slot = self.expr.call_with(runtime_calls::find_reader as *const u8, &[dependent, grouped, group]);
        self.expr.builder.ins().brif(slot, known, &[slot.into()], done, &[]);
        self.expr.switch_to_saved(known, &saved);
        if let Some(is_zero) = is_zero.filter(|_| self.only_grows_by(*stream, tally_number)) {
            let [can_skip_tick, marks] = [(); 2].map(|()| self.expr.builder.create_block());
            let saved = self.expr.save_state();
            self.expr.builder.ins().brif(is_zero, can_skip_tick, &[], marks, &[]);
            self.expr.switch_to_saved(can_skip_tick, &saved);
            let slot = self.expr.builder.ins().iadd_imm(next, -1);
            let instance = self.expr.instance(*family, slot);
            self.unmark_if_last(*stream, instance);
            self.expr.builder.ins().jump(done, &[]);
            self.expr.switch_to_saved(marks, &saved);
        }
        self.mark_slot_plus_one(Reader::Stream(*stream), next);
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(done, &saved);
    }

    /// Whether a stream adds what a tally says to its value, and nobody is told when it is computed.
    fn only_grows_by(&self, stream: usize, grouped: usize) -> bool {
        let is_told = self.plan.rules[stream].as_ref().is_none_or(|rule| !rule.reschedules_on_change);
        let plan = &self.plan;
        let program = &plan.programs[plan.streams[stream].eval.program];
        !is_told && program.grows_by(stream) == Some(grouped as u32)
    }
}
