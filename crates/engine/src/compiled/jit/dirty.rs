//! Selector must look again: how instances are marked, and how those that are marked are listed.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::Variable;

use super::expr::SlotRef;
use super::runtime_calls;
use super::steps::StepEmitter;
use super::vm_context::VmContext;
use crate::compiled::ir::layout::{GENERATION, PARAMS};
use crate::compiled::ir::plan::{Reader, Task};
use crate::compiled::store::dirty_set::{DirtySet, INLINE_SLOTS};
use crate::compiled::store::slab::flag;
use crate::compiled::store::state::{FamilyState, StreamState};

/// Where it is noted which instances of a stream or family are marked, and how.
struct DirtyLocation {
    /// What lies in memory so far from the next.
    base: Value,
    set: usize,
    family: usize,
    /// Where in a slot the mark is, ...
    state_word: usize,
    /// ... and which bit.
    flag: u64,
}

impl StepEmitter<'_, '_> {
    fn dirty_location(&mut self, reader: Reader) -> DirtyLocation {
        let plan = &self.plan;
        match reader {
            Reader::Stream(stream) => DirtyLocation {
                base: self.expr.streams,
                set: dirty_set_offset(stream),
                family: plan.streams[stream].family,
                state_word: plan.streams[stream].member.state(),
                flag: flag::DIRTY,
            },
            Reader::Family(family) => DirtyLocation {
                base: self.expr.load(I64, self.expr.context, offset_of!(VmContext, families)),
                set: close_dirty_offset(family),
                family,
                state_word: PARAMS + plan.families[family].param_width,
                flag: flag::CLOSE_DIRTY,
            },
        }
    }

    /// Not 0 if somebody is marked: then [how many](DirtySet), unless all are.
    pub(super) fn dirty_word(&mut self, reader: Reader) -> Value {
        let DirtyLocation { base, set, .. } = self.dirty_location(reader);
        self.expr.load(I64, base, set)
    }

    /// Selector is [marked](Self::marked) is listed no more: where the list is, how long, and where there is room for as many.
    /// It is where they were listed, if they are few; whoever has had its turn may be listed again meanwhile, but nobody
    /// else.
    pub(super) fn list_dirty(&mut self, reader: Reader, dirty_word: Value) -> [Value; 3] {
        let location = self.dirty_location(reader);
        let (room, list, number) = match reader {
            Reader::Stream(stream) => (None, runtime_calls::list_dirty as *const u8, stream),
            Reader::Family(family) => (
                Some(self.expr.offsets.closing(family)),
                runtime_calls::list_dirty_closes as *const u8,
                family,
            ),
        };
        let [few, many, done] = [(); 3].map(|()| self.expr.builder.create_block());
        let listed = [(); 3].map(|()| self.expr.builder.append_block_param(done, I64));
        let are_few =
            self.expr.builder.ins().icmp_imm(IntCC::UnsignedLessThanOrEqual, dirty_word, INLINE_SLOTS as i64);
        let saved = self.expr.save_state();
        self.expr.builder.ins().brif(are_few, few, &[], many, &[]);
        self.expr.switch_to_saved(few, &saved);
        let zero = self.expr.iconst(0);
        self.expr.store(zero, location.base, location.set);
        let inline = (location.set + offset_of!(DirtySet, inline)) as i64;
        let inline = self.expr.builder.ins().iadd_imm(location.base, inline);
        let room = match room {
            Some(room) => self.expr.builder.ins().iadd_imm(self.expr.context, room as i64),
            None => inline,
        };
        self.expr.builder.ins().jump(done, &[inline.into(), dirty_word.into(), room.into()]);
        self.expr.switch_to_saved(many, &saved);
        let count = self.expr.call(list, &[number as u64]);
        let slots = self.expr.load(I64, self.expr.context, offset_of!(VmContext, listed));
        self.expr.builder.ins().jump(done, &[slots.into(), count.into(), slots.into()]);
        self.expr.switch_to_saved(done, &saved);
        listed
    }

    /// Does something for each instance in a list that is marked, and is there; marks it no more.
    pub(super) fn for_each_dirty(
        &mut self,
        reader: Reader,
        [list, length]: [Value; 2],
        mut body: impl FnMut(&mut Self, SlotRef),
    ) {
        self.for_each_slot(list, length, |emitter, slot| {
            let location = emitter.dirty_location(reader);
            let instance = emitter.expr.instance(location.family, slot);
            let flags = emitter.expr.load(I64, instance.words, 8 * location.state_word);
            let others = emitter.expr.builder.ins().band_imm(flags, !location.flag.cast_signed());
            emitter.expr.store(others, instance.words, 8 * location.state_word);
            let is_dirty = emitter.expr.builder.ins().icmp(IntCC::NotEqual, flags, others);
            let generation = emitter.expr.load(I64, instance.words, 8 * GENERATION);
            let is_live = emitter.expr.builder.ins().icmp_imm(IntCC::NotEqual, generation, 0);
            let is_due = emitter.expr.builder.ins().band(is_dirty, is_live);
            let region = emitter.expr.begin_if(is_due);
            body(emitter, instance);
            emitter.expr.end_if(region);
        });
    }

    /// The instance of a stream or family in a slot must look again.
    pub(super) fn mark_slot(&mut self, reader: Reader, instance: SlotRef) {
        match self.pending_variable(reader) {
            None => self.mark_in_memory(reader, instance),
            Some(pending) => {
                let slot_plus_one = self.expr.builder.ins().iadd_imm(instance.slot, 1);
                self.set_pending(pending, slot_plus_one, |emitter| emitter.mark_in_memory(reader, instance));
            }
        }
    }

    /// The same, with the number of its slot, plus one.
    pub(super) fn mark_slot_plus_one(&mut self, reader: Reader, slot_plus_one: Value) {
        let family = self.plan.family_of(reader);
        let mark = |emitter: &mut Self| {
            let slot = emitter.expr.builder.ins().iadd_imm(slot_plus_one, -1);
            let instance = emitter.expr.instance(family, slot);
            emitter.mark_in_memory(reader, instance);
        };
        match self.pending_variable(reader) {
            None => mark(self),
            Some(pending) => self.set_pending(pending, slot_plus_one, mark),
        }
    }

    fn pending_variable(&self, reader: Reader) -> Option<Variable> {
        match reader {
            Reader::Stream(stream) => self.pending[stream],
            Reader::Family(_) => None,
        }
    }

    /// Notes who is pending; if somebody else is already, it is marked otherwise.
    fn set_pending(&mut self, pending: Variable, slot_plus_one: Value, mark: impl FnOnce(&mut Self)) {
        let [first, occupied, another, done] = [(); 4].map(|()| self.expr.builder.create_block());
        self.expr.builder.set_cold_block(another);
        let before = self.expr.builder.use_var(pending);
        let saved = self.expr.save_state();
        self.expr.builder.ins().brif(before, occupied, &[], first, &[]);
        self.expr.switch_to_saved(first, &saved);
        self.expr.builder.def_var(pending, slot_plus_one);
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(occupied, &saved);
        let is_same = self.expr.builder.ins().icmp(IntCC::Equal, before, slot_plus_one);
        self.expr.builder.ins().brif(is_same, done, &[], another, &[]);
        self.expr.switch_to_saved(another, &saved);
        mark(self);
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(done, &saved);
    }

    /// An instance of a stream need not look again if it has a value. If it is the last that is listed, it is no longer:
    /// others may look in vain, so that whoever is not marked is not listed.
    pub(super) fn unmark_if_last(&mut self, stream: usize, instance: SlotRef) {
        let location = self.dirty_location(Reader::Stream(stream));
        let flags = self.expr.load(I64, instance.words, 8 * location.state_word);
        let has_value = self.expr.builder.ins().ushr_imm(flags, 32);
        let has_value = self.expr.builder.ins().icmp_imm(IntCC::NotEqual, has_value, 0);
        let count = self.expr.load(I64, location.base, location.set);
        let last_position = self.expr.builder.ins().iadd_imm(count, -1);
        let is_inline =
            self.expr.builder.ins().icmp_imm(IntCC::UnsignedLessThan, last_position, INLINE_SLOTS as i64);
        let can_unmark = self.expr.builder.ins().band(has_value, is_inline);
        let region = self.expr.begin_if(can_unmark);
        let at = self.expr.builder.ins().ishl_imm(last_position, 2);
        let at = self.expr.builder.ins().iadd(location.base, at);
        let last = self.expr.load(I32, at, location.set + offset_of!(DirtySet, inline));
        let last = self.expr.builder.ins().uextend(I64, last);
        let is_last = self.expr.builder.ins().icmp(IntCC::Equal, last, instance.slot);
        let count = self.expr.builder.ins().select(is_last, last_position, count);
        self.expr.store(count, location.base, location.set);
        let others = self.expr.builder.ins().band_imm(flags, !location.flag.cast_signed());
        let flags = self.expr.builder.ins().select(is_last, others, flags);
        self.expr.store(flags, instance.words, 8 * location.state_word);
        self.expr.end_if(region);
    }

    /// An event marks somebody. If that is who is evaluated at ticks, a clock that [had nothing to do](Self::clocks) must be
    /// asked again, at its next tick or before.
    pub(super) fn lower_idle_until(&mut self, reader: Reader) {
        let task = match reader {
            Reader::Stream(stream) => Task::Evaluate(stream),
            Reader::Family(family) => Task::Close(family),
        };
        let plan = &self.plan;
        let has_task = |clock: &usize| plan.clocks[*clock].1.contains(&task);
        let clocks: Vec<usize> = (0..plan.clocks.len()).filter(has_task).collect();
        if self.expr.present == 0 || clocks.is_empty() {
            return;
        }
        let context = self.expr.context;
        let idle_until = self.expr.load(I64, context, offset_of!(VmContext, idle_until));
        let mut soonest = self.expr.load(I64, idle_until, 0);
        let ticks = self.expr.load(I64, context, offset_of!(VmContext, ticks));
        for clock in clocks {
            let tick = self.expr.load(I64, ticks, 8 * clock);
            soonest = self.expr.builder.ins().umin(soonest, tick);
        }
        self.expr.store(soonest, idle_until, 0);
    }

    pub(super) fn mark_in_memory(&mut self, reader: Reader, instance: SlotRef) {
        let [mark, push, call, done] = [(); 4].map(|()| self.expr.builder.create_block());
        self.expr.builder.set_cold_block(call);
        let (push_dirty, number) = match reader {
            Reader::Stream(stream) => (runtime_calls::push_dirty as *const u8, stream),
            Reader::Family(family) => (runtime_calls::push_dirty_close as *const u8, family),
        };
        let saved = self.expr.save_state();
        let location = self.dirty_location(reader);
        let flags = self.expr.load(I64, instance.words, 8 * location.state_word);
        let is_dirty = self.expr.builder.ins().band_imm(flags, location.flag.cast_signed());
        self.expr.builder.ins().brif(is_dirty, done, &[], mark, &[]);
        self.expr.switch_to_saved(mark, &saved);
        let flags = self.expr.builder.ins().bor_imm(flags, location.flag.cast_signed());
        self.expr.store(flags, instance.words, 8 * location.state_word);
        self.lower_idle_until(reader);
        let DirtyLocation { base, set, .. } = location;
        // The word is written as a whole, as it will be read.
        let count = self.expr.load(I64, base, set);
        let has_room = self.expr.builder.ins().icmp_imm(IntCC::UnsignedLessThan, count, INLINE_SLOTS as i64);
        self.expr.builder.ins().brif(has_room, push, &[], call, &[]);
        self.expr.switch_to_saved(push, &saved);
        let more = self.expr.builder.ins().iadd_imm(count, 1);
        self.expr.store(more, base, set);
        let at = self.expr.builder.ins().ishl_imm(count, 2);
        let at = self.expr.builder.ins().iadd(base, at);
        let slot = self.expr.builder.ins().ireduce(I32, instance.slot);
        self.expr.store(slot, at, set + offset_of!(DirtySet, inline));
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(call, &saved);
        let number = self.expr.iconst(number as u64);
        self.expr.call_with(push_dirty, &[number, instance.slot]);
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(done, &saved);
    }
}

/// Where the state of a stream is.
pub(super) fn stream_offset(stream: usize) -> usize {
    stream * size_of::<StreamState>()
}

/// Where it says which instances must be evaluated again.
pub(super) fn dirty_set_offset(stream: usize) -> usize {
    stream_offset(stream) + offset_of!(StreamState, dirty)
}

/// Where it says which instances of a family may have to close.
pub(super) fn close_dirty_offset(family: usize) -> usize {
    family * size_of::<FamilyState>() + offset_of!(FamilyState, close_dirty)
}
