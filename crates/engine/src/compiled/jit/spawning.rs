//! How instances are spawned, and how they leave their slots.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value};

use super::expr::{Run, SlotRef};
use super::lookup::{Outcome, Spawned};
use super::runtime_calls;
use super::steps::StepEmitter;
use super::value_cache::Invalidation;
use super::vm_context::{HEADER, OCCUPANCY, SLOT_CACHE};
use crate::compiled::ir::layout::{GENERATION, PARAMS};
use crate::compiled::ir::op::FrameSlot;
use crate::compiled::ir::plan::{ClosePlan, Pacing, Reader};
use crate::compiled::store::hash_index::Occupancy;
use crate::compiled::store::slab::SlabHeader;

impl StepEmitter<'_, '_> {
    /// Spawns an instance, unless it is one that is there: whoever was seen lately is found without a call.
    pub(super) fn spawn(&mut self, family: usize) {
        let plan = &self.plan.families[family];
        let Some(spawn) = &plan.spawn else { return };
        let [look, call, done, ends] = [(); 4].map(|()| self.expr.builder.create_block());
        let slot = self.expr.builder.append_block_param(done, I64);
        let saved = self.expr.save_state();
        match spawn.program {
            Some(program) => {
                let stream = self.plan.first_member(family);
                let run = Run { stream, program, instance: None };
                let at_yield = self.expr.emit_program(run, look, ends);
                self.expr.switch_to_saved(ends, &saved);
                let nobody = BlockArg::from(self.expr.iconst(0));
                self.expr.builder.ins().jump(done, &[nobody]);
                self.expr.switch_to_saved(look, &at_yield);
            }
            None => {
                self.expr.builder.ins().jump(look, &[]);
                self.expr.switch_to_successor(look);
            }
        }
        let key = (0..plan.param_width).map(|at| self.expr.load_slot(spawn.key + at as FrameSlot));
        let key: Vec<Value> = key.collect();
        let with_key = self.expr.save_state();
        let recent = self.plan.is_revisited(family).then(|| {
            let missing = self.expr.builder.create_block();
            let recent = self.find_recent(family, &key, done, missing);
            self.expr.switch_to_saved(missing, &with_key);
            recent
        });
        if self.spawns_inline(family) {
            self.spawn_here(family, &key, recent, [done, call]);
        } else {
            self.expr.builder.ins().jump(call, &[]);
        }
        self.expr.switch_to_saved(call, &with_key);
        let called = self.expr.call(runtime_calls::spawn as *const u8, &[family as u64]);
        self.expr.invalidate(Invalidation::Addresses);
        if self.plan.checks_at_spawn(family) {
            self.expr.invalidate(Invalidation::AllWords);
        }
        self.expr.builder.ins().jump(done, &[called.into()]);
        self.expr.switch_to_saved(done, &saved);
        let key = key.into_iter().map(|word| self.expr.is_cached(word).then_some(word)).collect();
        self.expr.spawned[family] = plan.is_parameterised.then_some(Spawned { number: slot, key });
    }

    /// Spawns an instance without a call, if there is room for it and it has an entry to itself. Goes to `done` with its
    /// slot, plus one. If it is there already, that is noted as `recent`.
    fn spawn_here(
        &mut self,
        family: usize,
        key: &[Value],
        recent: Option<Value>,
        [done, otherwise]: [Block; 2],
    ) {
        let plan = &self.plan.families[family];
        let Some((places, number)) = self.single_index(family) else {
            self.expr.builder.ins().jump(otherwise, &[]);
            return;
        };
        let [one, none, create, fresh, used, made] = [(); 6].map(|()| self.expr.builder.create_block());
        let found = self.expr.builder.append_block_param(one, I64);
        let words: Vec<(usize, Value)> = places.iter().map(|place| (*place, key[*place])).collect();
        let table = self.expr.table(family) + number;
        let saved = self.expr.save_state();
        let spot = self.expr.probe((family, table), &words, None, Outcome { one, none, several: otherwise });
        self.expr.switch_to_saved(one, &saved);
        if number == 0 {
            let number = self.expr.builder.ins().iadd_imm(found, 1);
            if let Some(recent) = recent {
                let number = self.expr.builder.ins().ireduce(I32, number);
                self.expr.store(number, recent, 0);
            }
            self.expr.builder.ins().jump(done, &[number.into()]);
        } else {
            // Others have the same words.
            self.expr.builder.ins().jump(otherwise, &[]);
        }

        self.expr.switch_to_saved(none, &saved);
        let map = self.expr.offsets;
        let header = self.expr.context_word(map.slab(family) + HEADER);
        let occupancy = self.expr.context_word(map.index(table) + OCCUPANCY);
        let [slot, room, free] =
            [offset_of!(SlabHeader, slots), offset_of!(SlabHeader, room), offset_of!(SlabHeader, free)]
                .map(|at| self.expr.load(I64, header, at));
        let is_plain = self.expr.load(I64, header, offset_of!(SlabHeader, is_plain));
        let [entries, most] = [offset_of!(Occupancy, used), offset_of!(Occupancy, room)]
            .map(|at| self.expr.load(I64, occupancy, at));
        let has_room = self.expr.builder.ins().icmp(IntCC::UnsignedLessThan, slot, room);
        let has_free = self.expr.builder.ins().icmp_imm(IntCC::NotEqual, free, 0);
        let has_slot = self.expr.builder.ins().bor(has_room, has_free);
        let has_place = self.expr.builder.ins().icmp(IntCC::UnsignedLessThan, entries, most);
        let has_both = self.expr.builder.ins().band(has_slot, has_place);
        let is_plain = self.expr.builder.ins().icmp_imm(IntCC::NotEqual, is_plain, 0);
        let can = self.expr.builder.ins().band(has_both, is_plain);
        self.expr.builder.ins().brif(can, create, &[], otherwise, &[]);

        self.expr.switch_to_successor(create);
        self.increment(occupancy, offset_of!(Occupancy, used));
        self.increment(header, offset_of!(SlabHeader, live));
        let generation = self.increment(header, offset_of!(SlabHeader, spawned));
        let slot = self.expr.builder.append_block_param(made, I64);
        let saved = self.expr.save_state();
        self.expr.builder.ins().brif(free, used, &[], fresh, &[]);
        self.expr.switch_to_saved(used, &saved);
        let number = self.expr.builder.ins().iadd_imm(free, -1);
        let instance = self.expr.instance(family, number);
        let before = self.expr.load(I64, instance.words, 8 * PARAMS);
        self.expr.store(before, header, offset_of!(SlabHeader, free));
        self.expr.builder.ins().jump(made, &[number.into()]);
        self.expr.switch_to_saved(fresh, &saved);
        let number = self.increment(header, offset_of!(SlabHeader, slots));
        let number = self.expr.builder.ins().iadd_imm(number, -1);
        self.expr.builder.ins().jump(made, &[number.into()]);
        self.expr.switch_to_saved(made, &saved);
        let number = self.expr.builder.ins().iadd_imm(slot, 1);
        let tag = self.expr.builder.ins().ishl_imm(spot.tag, 32);
        let entry = self.expr.builder.ins().bor(tag, number);
        self.expr.store(entry, spot.at, 0);
        let instance = self.expr.instance(family, slot);
        self.expr.store(generation, instance.words, 8 * GENERATION);
        for (at, word) in key.iter().enumerate() {
            self.expr.store(*word, instance.words, 8 * (PARAMS + at));
        }
        self.begin(family, instance, generation);
        for member in &plan.members {
            let stream = &self.plan.streams[*member];
            let reader = Reader::Stream(*member);
            if self.counter_dependents(*member).is_some() {
                continue;
            } else if let Some(program) = stream.eval.spawn_guard {
                self.look((*member, program), instance, |emitter| emitter.mark_slot(reader, instance));
            } else if stream.eval.incremental || stream.eval.guard.is_some() {
                // What is rare is not worth a register.
                if recent.is_some() {
                    self.mark_in_memory(reader, instance);
                } else {
                    self.mark_slot(reader, instance);
                }
            }
        }
        if let Some(close) = plan.close.as_ref().filter(|close| close.incremental) {
            let reader = Reader::Family(family);
            if close.is_checked_at_spawn {
                let condition = (self.plan.first_member(family), close.program);
                self.look(condition, instance, |emitter| emitter.mark_slot(reader, instance));
            } else {
                self.mark_slot(reader, instance);
            }
        }
        self.arm_timers(family, slot, generation);
        self.expr.builder.ins().jump(done, &[number.into()]);
    }

    /// An instance that has ended leaves its slot, without a call if it has an entry to itself.
    pub(super) fn leave(&mut self, family: usize, instance: SlotRef) {
        let [call, done] = [(); 2].map(|()| self.expr.builder.create_block());
        let saved = self.expr.save_state();
        self.leave_here(family, instance, [done, call]);
        self.expr.switch_to_saved(call, &saved);
        let number = self.expr.iconst(family as u64);
        self.expr.call_with(runtime_calls::free_slot as *const u8, &[number, instance.slot]);
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(done, &saved);
        self.expr.invalidate(Invalidation::FoundSlots);
    }

    /// What [`InstanceSlab::close`](crate::compiled::store::slab::InstanceSlab::close) does, where there is one entry in one table.
    fn leave_here(&mut self, family: usize, instance: SlotRef, [done, otherwise]: [Block; 2]) {
        let plan = &self.plan.families[family];
        let Some((places, number)) = self.single_index(family) else {
            self.expr.builder.ins().jump(otherwise, &[]);
            return;
        };
        let map = self.expr.offsets;
        let header = self.expr.context_word(map.slab(family) + HEADER);
        let is_plain = self.expr.load(I64, header, offset_of!(SlabHeader, is_plain));
        let mut can = self.expr.builder.ins().icmp_imm(IntCC::NotEqual, is_plain, 0);
        if number > 0 {
            let link = self.store.families[family].instances.link(0);
            let links = self.expr.load(I64, instance.words, 8 * link);
            let is_alone = self.expr.builder.ins().icmp_imm(IntCC::Equal, links, 0);
            can = self.expr.builder.ins().band(can, is_alone);
        }
        let here = self.expr.builder.create_block();
        self.expr.builder.ins().brif(can, here, &[], otherwise, &[]);
        self.expr.switch_to_successor(here);
        let key =
            places.iter().map(|place| (*place, self.expr.load(I64, instance.words, 8 * (PARAMS + place))));
        let key: Vec<(usize, Value)> = key.collect();
        let table = self.expr.table(family) + number;
        self.expr.remove(table, &key, instance.slot);
        let zero = self.expr.iconst(0);
        for at in 0..plan.slot_words() {
            self.expr.store(zero, instance.words, 8 * at);
        }
        let before = self.expr.load(I64, header, offset_of!(SlabHeader, free));
        self.expr.store(before, instance.words, 8 * PARAMS);
        let number = self.expr.builder.ins().iadd_imm(instance.slot, 1);
        self.expr.store(number, header, offset_of!(SlabHeader, free));
        let live = self.expr.load(I64, header, offset_of!(SlabHeader, live));
        let live = self.expr.builder.ins().iadd_imm(live, -1);
        self.expr.store(live, header, offset_of!(SlabHeader, live));
        self.expr.builder.ins().jump(done, &[]);
    }

    /// Adds one to a word in memory.
    pub(super) fn increment(&mut self, from: Value, at: usize) -> Value {
        let before = self.expr.load(I64, from, at);
        let now = self.expr.builder.ins().iadd_imm(before, 1);
        self.expr.store(now, from, at);
        now
    }

    /// Goes to `found` with the slot, plus one, of the instance with a key if it is among those that somebody tried to
    /// spawn again. Where it is noted.
    fn find_recent(&mut self, family: usize, key: &[Value], found: Block, missing: Block) -> Value {
        let look = self.expr.builder.create_block();
        let recent = self.expr.context_word(self.expr.offsets.slab(family) + SLOT_CACHE);
        let at = self.expr.cache_entry(key);
        let at = self.expr.builder.ins().iadd(recent, at);
        let number = self.expr.load(I32, at, 0);
        self.expr.builder.ins().brif(number, look, &[], missing, &[]);
        self.expr.switch_to_successor(look);
        let number = self.expr.builder.ins().uextend(I64, number);
        let slot = self.expr.builder.ins().iadd_imm(number, -1);
        let instance = self.expr.instance(family, slot);
        let generation = self.expr.load(I64, instance.words, 8 * GENERATION);
        let is_there = self.expr.builder.ins().icmp_imm(IntCC::NotEqual, generation, 0);
        let key: Vec<(usize, Value)> = key.iter().copied().enumerate().collect();
        let is_it = self.expr.is_it(instance, &key);
        let is_it = self.expr.builder.ins().band(is_it, is_there);
        self.expr.builder.ins().brif(is_it, found, &[number.into()], missing, &[]);
        at
    }
}

impl StepEmitter<'_, '_> {
    /// If an instance of a family has one entry in one table, most often: the places of the parameters that lead to it,
    /// and which table of the family that is.
    fn single_index(&self, family: usize) -> Option<(Vec<usize>, usize)> {
        let plan = &self.plan.families[family];
        match plan.indexes.as_slice() {
            _ if plan.param_width == 0 => None,
            [] => Some(((0..plan.param_width).collect(), 0)),
            [places] => Some((places.clone(), 1)),
            _ => None,
        }
    }

    /// Whether all that a spawn does, beside a new slot, is to mark who must look again, and to start clocks, counters and
    /// windows.
    fn spawns_inline(&self, family: usize) -> bool {
        let plan = &self.plan.families[family];
        plan.is_parameterised
            && plan.param_width > 0
            && !matches!(&plan.close, Some(ClosePlan { pacing: Pacing::Local(_), .. }))
            && !plan.knows_its_spawn
            && plan.members.iter().all(|member| {
                let is_counter = self.plan.streams[*member].eval.counter.is_some();
                !self.plan.emission[*member].values
                    && is_counter == self.counter_dependents(*member).is_some()
            })
    }
}
