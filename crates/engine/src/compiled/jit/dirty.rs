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
struct Marks {
    /// What lies in memory so far from the next.
    from: Value,
    dirty: usize,
    family: usize,
    /// Where in a slot the mark is, ...
    at: usize,
    /// ... and which bit.
    flag: u64,
}

impl StepEmitter<'_, '_> {
    fn marks(&mut self, reader: Reader) -> Marks {
        let plan = &self.plan;
        match reader {
            Reader::Stream(stream) => Marks {
                from: self.expr.streams,
                dirty: dirty(stream),
                family: plan.streams[stream].family,
                at: plan.streams[stream].member.state(),
                flag: flag::DIRTY,
            },
            Reader::Family(family) => Marks {
                from: self.expr.load(I64, self.expr.context, offset_of!(VmContext, families)),
                dirty: dirty_family(family),
                family,
                at: PARAMS + plan.families[family].param_width,
                flag: flag::CLOSE_DIRTY,
            },
        }
    }

    /// Not 0 if somebody is marked: then [how many](DirtySet), unless all are.
    pub(super) fn marked(&mut self, reader: Reader) -> Value {
        let Marks { from, dirty, .. } = self.marks(reader);
        self.expr.load(I64, from, dirty)
    }

    /// Selector is [marked](Self::marked) is listed no more: where the list is, how long, and where there is room for as many.
    /// It is where they were listed, if they are few; whoever has had its turn may be listed again meanwhile, but nobody
    /// else.
    pub(super) fn list(&mut self, reader: Reader, marked: Value) -> [Value; 3] {
        let marks = self.marks(reader);
        let (room, take, number) = match reader {
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
            self.expr.builder.ins().icmp_imm(IntCC::UnsignedLessThanOrEqual, marked, INLINE_SLOTS as i64);
        let saved = self.expr.save_state();
        self.expr.builder.ins().brif(are_few, few, &[], many, &[]);
        self.expr.switch_to_saved(few, &saved);
        let zero = self.expr.iconst(0);
        self.expr.store(zero, marks.from, marks.dirty);
        let near = (marks.dirty + offset_of!(DirtySet, inline)) as i64;
        let near = self.expr.builder.ins().iadd_imm(marks.from, near);
        let room = match room {
            Some(room) => self.expr.builder.ins().iadd_imm(self.expr.context, room as i64),
            None => near,
        };
        self.expr.builder.ins().jump(done, &[near.into(), marked.into(), room.into()]);
        self.expr.switch_to_saved(many, &saved);
        let number = self.expr.call(take, &[number as u64]);
        let slots = self.expr.load(I64, self.expr.context, offset_of!(VmContext, listed));
        self.expr.builder.ins().jump(done, &[slots.into(), number.into(), slots.into()]);
        self.expr.switch_to_saved(done, &saved);
        listed
    }

    /// Does something for each instance in a list that is marked, and is there; marks it no more.
    pub(super) fn each_marked(
        &mut self,
        reader: Reader,
        [list, length]: [Value; 2],
        mut body: impl FnMut(&mut Self, SlotRef),
    ) {
        self.each(list, length, |emitter, slot| {
            let marks = emitter.marks(reader);
            let instance = emitter.expr.instance(marks.family, slot);
            let flags = emitter.expr.load(I64, instance.words, 8 * marks.at);
            let others = emitter.expr.builder.ins().band_imm(flags, !marks.flag.cast_signed());
            emitter.expr.store(others, instance.words, 8 * marks.at);
            let is_marked = emitter.expr.builder.ins().icmp(IntCC::NotEqual, flags, others);
            let generation = emitter.expr.load(I64, instance.words, 8 * GENERATION);
            let is_there = emitter.expr.builder.ins().icmp_imm(IntCC::NotEqual, generation, 0);
            let is_due = emitter.expr.builder.ins().band(is_marked, is_there);
            let region = emitter.expr.begin_if(is_due);
            body(emitter, instance);
            emitter.expr.end_if(region);
        });
    }

    /// The instance of a stream or family in a slot must look again.
    pub(super) fn mark_slot(&mut self, reader: Reader, instance: SlotRef) {
        match self.pending_of(reader) {
            None => self.mark_in_memory(reader, instance),
            Some(pending) => {
                let number = self.expr.builder.ins().iadd_imm(instance.slot, 1);
                self.await_turn(pending, number, |emitter| emitter.mark_in_memory(reader, instance));
            }
        }
    }

    /// The same, with the number of its slot, plus one.
    pub(super) fn mark_number(&mut self, reader: Reader, number: Value) {
        let family = self.plan.family_of(reader);
        let mark = |emitter: &mut Self| {
            let slot = emitter.expr.builder.ins().iadd_imm(number, -1);
            let instance = emitter.expr.instance(family, slot);
            emitter.mark_in_memory(reader, instance);
        };
        match self.pending_of(reader) {
            None => mark(self),
            Some(pending) => self.await_turn(pending, number, mark),
        }
    }

    fn pending_of(&self, reader: Reader) -> Option<Variable> {
        match reader {
            Reader::Stream(stream) => self.pending[stream],
            Reader::Family(_) => None,
        }
    }

    /// Notes who is pending; if somebody else is already, it is marked otherwise.
    fn await_turn(&mut self, pending: Variable, number: Value, mark: impl FnOnce(&mut Self)) {
        let [first, other, another, done] = [(); 4].map(|()| self.expr.builder.create_block());
        self.expr.builder.set_cold_block(another);
        let before = self.expr.builder.use_var(pending);
        let saved = self.expr.save_state();
        self.expr.builder.ins().brif(before, other, &[], first, &[]);
        self.expr.switch_to_saved(first, &saved);
        self.expr.builder.def_var(pending, number);
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(other, &saved);
        let is_it = self.expr.builder.ins().icmp(IntCC::Equal, before, number);
        self.expr.builder.ins().brif(is_it, done, &[], another, &[]);
        self.expr.switch_to_saved(another, &saved);
        mark(self);
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(done, &saved);
    }

    /// An instance of a stream need not look again if it has a value. If it is the last that is listed, it is no longer:
    /// others may look in vain, so that whoever is not marked is not listed.
    pub(super) fn unmark(&mut self, stream: usize, instance: SlotRef) {
        let marks = self.marks(Reader::Stream(stream));
        let flags = self.expr.load(I64, instance.words, 8 * marks.at);
        let has_value = self.expr.builder.ins().ushr_imm(flags, 32);
        let has_value = self.expr.builder.ins().icmp_imm(IntCC::NotEqual, has_value, 0);
        let count = self.expr.load(I64, marks.from, marks.dirty);
        let before = self.expr.builder.ins().iadd_imm(count, -1);
        let is_near = self.expr.builder.ins().icmp_imm(IntCC::UnsignedLessThan, before, INLINE_SLOTS as i64);
        let can = self.expr.builder.ins().band(has_value, is_near);
        let region = self.expr.begin_if(can);
        let place = self.expr.builder.ins().ishl_imm(before, 2);
        let place = self.expr.builder.ins().iadd(marks.from, place);
        let last = self.expr.load(I32, place, marks.dirty + offset_of!(DirtySet, inline));
        let last = self.expr.builder.ins().uextend(I64, last);
        let is_last = self.expr.builder.ins().icmp(IntCC::Equal, last, instance.slot);
        let count = self.expr.builder.ins().select(is_last, before, count);
        self.expr.store(count, marks.from, marks.dirty);
        let others = self.expr.builder.ins().band_imm(flags, !marks.flag.cast_signed());
        let flags = self.expr.builder.ins().select(is_last, others, flags);
        self.expr.store(flags, instance.words, 8 * marks.at);
        self.expr.end_if(region);
    }

    /// An event marks somebody. If that is who is evaluated at ticks, a clock that [had nothing to do](Self::clocks) must be
    /// asked again, at its next tick or before.
    pub(super) fn invalidate_idle(&mut self, reader: Reader) {
        let task = match reader {
            Reader::Stream(stream) => Task::Evaluate(stream),
            Reader::Family(family) => Task::Close(family),
        };
        let plan = &self.plan;
        let does_it = |clock: &usize| plan.clocks[*clock].1.contains(&task);
        let clocks: Vec<usize> = (0..plan.clocks.len()).filter(does_it).collect();
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
        let [mark, first, other, done] = [(); 4].map(|()| self.expr.builder.create_block());
        self.expr.builder.set_cold_block(other);
        let (push, number) = match reader {
            Reader::Stream(stream) => (runtime_calls::push_dirty as *const u8, stream),
            Reader::Family(family) => (runtime_calls::push_dirty_close as *const u8, family),
        };
        let saved = self.expr.save_state();
        let marks = self.marks(reader);
        let flags = self.expr.load(I64, instance.words, 8 * marks.at);
        let is_marked = self.expr.builder.ins().band_imm(flags, marks.flag.cast_signed());
        self.expr.builder.ins().brif(is_marked, done, &[], mark, &[]);
        self.expr.switch_to_saved(mark, &saved);
        let flags = self.expr.builder.ins().bor_imm(flags, marks.flag.cast_signed());
        self.expr.store(flags, instance.words, 8 * marks.at);
        self.invalidate_idle(reader);
        let Marks { from, dirty, .. } = marks;
        // The word is written as a whole, as it will be read.
        let count = self.expr.load(I64, from, dirty);
        let can = self.expr.builder.ins().icmp_imm(IntCC::UnsignedLessThan, count, INLINE_SLOTS as i64);
        self.expr.builder.ins().brif(can, first, &[], other, &[]);
        self.expr.switch_to_saved(first, &saved);
        let more = self.expr.builder.ins().iadd_imm(count, 1);
        self.expr.store(more, from, dirty);
        let place = self.expr.builder.ins().ishl_imm(count, 2);
        let place = self.expr.builder.ins().iadd(from, place);
        let slot = self.expr.builder.ins().ireduce(I32, instance.slot);
        self.expr.store(slot, place, dirty + offset_of!(DirtySet, inline));
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(other, &saved);
        let number = self.expr.iconst(number as u64);
        self.expr.call_with(push, &[number, instance.slot]);
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(done, &saved);
    }
}

/// Where the state of a stream is.
pub(super) fn of(stream: usize) -> usize {
    stream * size_of::<StreamState>()
}

/// Where it says which instances must be evaluated again.
pub(super) fn dirty(stream: usize) -> usize {
    of(stream) + offset_of!(StreamState, dirty)
}

/// Where it says which instances of a family may have to close.
pub(super) fn dirty_family(family: usize) -> usize {
    family * size_of::<FamilyState>() + offset_of!(FamilyState, close_dirty)
}
