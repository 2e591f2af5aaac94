//! Dirty sets: marks instances dirty, and iterates those that are.

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

/// Where the dirty set of a stream, or of the close condition of a family, is.
struct DirtyLocation {
    /// The address of the states of all streams or families.
    base: Value,
    /// The offset of the dirty set from there, in bytes.
    set: usize,
    /// The family of the instances.
    family: usize,
    /// The word of a slot that has the dirty flag.
    state_word: usize,
    /// The dirty flag in it.
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

    /// The first word of a [dirty set](DirtySet): 0 if it is empty, the number of listed slots unless all are dirty.
    pub(super) fn dirty_word(&mut self, reader: Reader) -> Value {
        let DirtyLocation { base, set, .. } = self.dirty_location(reader);
        self.expr.load(I64, base, set)
    }

    /// Takes all slots out of a dirty set whose [first word](Self::dirty_word) is known: the address of the list, its
    /// length, and an address with room for as many slots.
    ///
    /// Up to [`INLINE_SLOTS`] slots stay where they are, in the set itself. That is sound because the loop over them
    /// pushes only slots that it has visited already, to positions that it has read.
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

    /// A loop over those slots of a list that are live and dirty. It clears their flags.
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

    /// Marks the instance of a stream or family in a slot: in the register for the pending instance if the stream has
    /// one, otherwise in memory.
    pub(super) fn mark_slot(&mut self, reader: Reader, instance: SlotRef) {
        match self.pending_variable(reader) {
            None => self.mark_in_memory(reader, instance),
            Some(pending) => {
                let slot_plus_one = self.expr.builder.ins().iadd_imm(instance.slot, 1);
                self.set_pending(pending, slot_plus_one, |emitter| emitter.mark_in_memory(reader, instance));
            }
        }
    }

    /// The same, for the number of a slot plus one.
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

    /// The register for the pending instance of a stream.
    fn pending_variable(&self, reader: Reader) -> Option<Variable> {
        match reader {
            Reader::Stream(stream) => self.pending[stream],
            Reader::Family(_) => None,
        }
    }

    /// Makes an instance the pending one. If another one is pending already, emits `mark` in a cold block.
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

    /// Unmarks an instance of a stream that has a value, if it is the last in the list. A slot without its flag must
    /// not stay listed, and removing another than the last is not worth it: evaluating an instance in vain does no
    /// harm.
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

    /// An event has marked something dirty. If clocks evaluate it, `idle_until` is lowered to their next ticks, as the
    /// [deadline loop](Self::deadline_loop) may have skipped them.
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

    /// Sets the dirty flag of an instance, and pushes its slot to the dirty set unless the flag was set. A runtime call
    /// pushes where the inline list is full or all are dirty.
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
        // The word is stored as a whole because it is loaded as a whole: a narrower store would defeat store-to-load forwarding.
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

/// The offset of the state of a stream from that of the first, in bytes.
pub(super) fn stream_offset(stream: usize) -> usize {
    stream * size_of::<StreamState>()
}

/// The offset of the dirty set of a stream.
pub(super) fn dirty_set_offset(stream: usize) -> usize {
    stream_offset(stream) + offset_of!(StreamState, dirty)
}

/// The offset of the dirty set for the close condition of a family, from the state of the first family.
pub(super) fn close_dirty_offset(family: usize) -> usize {
    family * size_of::<FamilyState>() + offset_of!(FamilyState, close_dirty)
}
