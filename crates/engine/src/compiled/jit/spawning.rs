//! Spawns instances, and frees their slots.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value};

use super::expr::{Run, SlotRef};
use super::lookup::{LookupBlocks, Spawned};
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
    /// Spawns an instance if the spawn condition holds and it does not exist. Instances that were found recently are in
    /// the lookup cache.
    pub(super) fn spawn(&mut self, family: usize) {
        let plan = &self.plan.families[family];
        let Some(spawn) = &plan.spawn else { return };
        let [has_key, call, done, ends] = [(); 4].map(|()| self.expr.builder.create_block());
        let slot_plus_one = self.expr.builder.append_block_param(done, I64);
        let saved = self.expr.save_state();
        match spawn.program {
            Some(program) => {
                let stream = self.plan.first_member(family);
                let run = Run { stream, program, instance: None };
                let at_yield = self.expr.emit_program(run, has_key, ends);
                self.expr.switch_to_saved(ends, &saved);
                let no_slot = BlockArg::from(self.expr.iconst(0));
                self.expr.builder.ins().jump(done, &[no_slot]);
                self.expr.switch_to_saved(has_key, &at_yield);
            }
            None => {
                self.expr.builder.ins().jump(has_key, &[]);
                self.expr.switch_to_successor(has_key);
            }
        }
        let key = (0..plan.param_width).map(|at| self.expr.load_slot(spawn.key + at as FrameSlot));
        let key: Vec<Value> = key.collect();
        let with_key = self.expr.save_state();
        let cache_entry = self.plan.is_revisited(family).then(|| {
            let missing = self.expr.builder.create_block();
            let cache_entry = self.find_cached(family, &key, done, missing);
            self.expr.switch_to_saved(missing, &with_key);
            cache_entry
        });
        if self.spawns_inline(family) {
            self.spawn_inline(family, &key, cache_entry, [done, call]);
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
        self.expr.spawned[family] = plan.is_parameterised.then_some(Spawned { slot_plus_one, key });
    }

    /// Spawns an instance without a runtime call, if slab and index have room and it gets an index entry of its own.
    /// Continues at `done` with the slot plus one, or at `otherwise`. If the instance exists already, its slot is
    /// stored in `cache_entry`.
    fn spawn_inline(
        &mut self,
        family: usize,
        key: &[Value],
        cache_entry: Option<Value>,
        [done, otherwise]: [Block; 2],
    ) {
        let plan = &self.plan.families[family];
        let Some((positions, number)) = self.single_index(family) else {
            self.expr.builder.ins().jump(otherwise, &[]);
            return;
        };
        let [found, missing, create, fresh, reused, created] =
            [(); 6].map(|()| self.expr.builder.create_block());
        let existing = self.expr.builder.append_block_param(found, I64);
        let words: Vec<(usize, Value)> = positions.iter().map(|at| (*at, key[*at])).collect();
        let index = self.expr.first_index(family) + number;
        let saved = self.expr.save_state();
        let bucket = self.expr.probe(
            (family, index),
            &words,
            None,
            LookupBlocks { found, missing, ambiguous: otherwise },
        );
        self.expr.switch_to_saved(found, &saved);
        if number == 0 {
            let slot_plus_one = self.expr.builder.ins().iadd_imm(existing, 1);
            if let Some(cache_entry) = cache_entry {
                let narrow = self.expr.builder.ins().ireduce(I32, slot_plus_one);
                self.expr.store(narrow, cache_entry, 0);
            }
            self.expr.builder.ins().jump(done, &[slot_plus_one.into()]);
        } else {
            // Other instances share the key of this index.
            self.expr.builder.ins().jump(otherwise, &[]);
        }

        self.expr.switch_to_saved(missing, &saved);
        let offsets = self.expr.offsets;
        let header = self.expr.context_word(offsets.slab(family) + HEADER);
        let occupancy = self.expr.context_word(offsets.index(index) + OCCUPANCY);
        let [slots, room, free] =
            [offset_of!(SlabHeader, slots), offset_of!(SlabHeader, room), offset_of!(SlabHeader, free)]
                .map(|at| self.expr.load(I64, header, at));
        let is_plain = self.expr.load(I64, header, offset_of!(SlabHeader, is_plain));
        let [entries, most_entries] = [offset_of!(Occupancy, used), offset_of!(Occupancy, room)]
            .map(|at| self.expr.load(I64, occupancy, at));
        let has_room = self.expr.builder.ins().icmp(IntCC::UnsignedLessThan, slots, room);
        let has_free = self.expr.builder.ins().icmp_imm(IntCC::NotEqual, free, 0);
        let has_slot = self.expr.builder.ins().bor(has_room, has_free);
        let has_bucket = self.expr.builder.ins().icmp(IntCC::UnsignedLessThan, entries, most_entries);
        let has_both = self.expr.builder.ins().band(has_slot, has_bucket);
        let is_plain = self.expr.builder.ins().icmp_imm(IntCC::NotEqual, is_plain, 0);
        let can_create = self.expr.builder.ins().band(has_both, is_plain);
        self.expr.builder.ins().brif(can_create, create, &[], otherwise, &[]);

        self.expr.switch_to_successor(create);
        self.increment(occupancy, offset_of!(Occupancy, used));
        self.increment(header, offset_of!(SlabHeader, live));
        let generation = self.increment(header, offset_of!(SlabHeader, spawned));
        let slot = self.expr.builder.append_block_param(created, I64);
        let saved = self.expr.save_state();
        self.expr.builder.ins().brif(free, reused, &[], fresh, &[]);
        self.expr.switch_to_saved(reused, &saved);
        let first_free = self.expr.builder.ins().iadd_imm(free, -1);
        let instance = self.expr.instance(family, first_free);
        let next_free = self.expr.load(I64, instance.words, 8 * PARAMS);
        self.expr.store(next_free, header, offset_of!(SlabHeader, free));
        self.expr.builder.ins().jump(created, &[first_free.into()]);
        self.expr.switch_to_saved(fresh, &saved);
        let slots = self.increment(header, offset_of!(SlabHeader, slots));
        let last = self.expr.builder.ins().iadd_imm(slots, -1);
        self.expr.builder.ins().jump(created, &[last.into()]);
        self.expr.switch_to_saved(created, &saved);
        let slot_plus_one = self.expr.builder.ins().iadd_imm(slot, 1);
        let tag = self.expr.builder.ins().ishl_imm(bucket.tag, 32);
        let entry = self.expr.builder.ins().bor(tag, slot_plus_one);
        self.expr.store(entry, bucket.address, 0);
        let instance = self.expr.instance(family, slot);
        self.expr.store(generation, instance.words, 8 * GENERATION);
        for (at, word) in key.iter().enumerate() {
            self.expr.store(*word, instance.words, 8 * (PARAMS + at));
        }
        self.start_members(family, instance, generation);
        for member in &plan.members {
            let stream = &self.plan.streams[*member];
            let reader = Reader::Stream(*member);
            if self.counter_dependents(*member).is_some() {
                continue;
            } else if let Some(program) = stream.eval.spawn_guard {
                self.emit_if_yields((*member, program), instance, |emitter| {
                    emitter.mark_slot(reader, instance)
                });
            } else if stream.eval.incremental || stream.eval.guard.is_some() {
                // A family whose instances are revisited rarely spawns one: not worth a register.
                if cache_entry.is_some() {
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
                self.emit_if_yields(condition, instance, |emitter| emitter.mark_slot(reader, instance));
            } else {
                self.mark_slot(reader, instance);
            }
        }
        self.arm_timers(family, slot, generation);
        self.expr.builder.ins().jump(done, &[slot_plus_one.into()]);
    }

    /// Frees the slot of an instance that has ended, by a runtime call unless it has an index entry of its own.
    pub(super) fn free_slot(&mut self, family: usize, instance: SlotRef) {
        let [call, done] = [(); 2].map(|()| self.expr.builder.create_block());
        let saved = self.expr.save_state();
        self.free_slot_inline(family, instance, [done, call]);
        self.expr.switch_to_saved(call, &saved);
        let number = self.expr.iconst(family as u64);
        self.expr.call_with(runtime_calls::free_slot as *const u8, &[number, instance.slot]);
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(done, &saved);
        self.expr.invalidate(Invalidation::FoundSlots);
    }

    /// Frees a slot whose instance has one entry in one index, as in
    /// [`InstanceSlab::close`](crate::compiled::store::slab::InstanceSlab::close). Continues at `done`, or at
    /// `otherwise`.
    fn free_slot_inline(&mut self, family: usize, instance: SlotRef, [done, otherwise]: [Block; 2]) {
        let plan = &self.plan.families[family];
        let Some((positions, number)) = self.single_index(family) else {
            self.expr.builder.ins().jump(otherwise, &[]);
            return;
        };
        let offsets = self.expr.offsets;
        let header = self.expr.context_word(offsets.slab(family) + HEADER);
        let is_plain = self.expr.load(I64, header, offset_of!(SlabHeader, is_plain));
        let mut can_free = self.expr.builder.ins().icmp_imm(IntCC::NotEqual, is_plain, 0);
        if number > 0 {
            let link = self.store.families[family].instances.link(0);
            let links = self.expr.load(I64, instance.words, 8 * link);
            let is_alone = self.expr.builder.ins().icmp_imm(IntCC::Equal, links, 0);
            can_free = self.expr.builder.ins().band(can_free, is_alone);
        }
        let free = self.expr.builder.create_block();
        self.expr.builder.ins().brif(can_free, free, &[], otherwise, &[]);
        self.expr.switch_to_successor(free);
        let key = positions.iter().map(|at| (*at, self.expr.load(I64, instance.words, 8 * (PARAMS + at))));
        let key: Vec<(usize, Value)> = key.collect();
        let index = self.expr.first_index(family) + number;
        self.expr.remove_entry(index, &key, instance.slot);
        let zero = self.expr.iconst(0);
        for at in 0..plan.slot_words() {
            self.expr.store(zero, instance.words, 8 * at);
        }
        let next_free = self.expr.load(I64, header, offset_of!(SlabHeader, free));
        self.expr.store(next_free, instance.words, 8 * PARAMS);
        let slot_plus_one = self.expr.builder.ins().iadd_imm(instance.slot, 1);
        self.expr.store(slot_plus_one, header, offset_of!(SlabHeader, free));
        let live = self.expr.load(I64, header, offset_of!(SlabHeader, live));
        let live = self.expr.builder.ins().iadd_imm(live, -1);
        self.expr.store(live, header, offset_of!(SlabHeader, live));
        self.expr.builder.ins().jump(done, &[]);
    }

    /// Adds 1 to a word in memory; the result.
    pub(super) fn increment(&mut self, base: Value, offset: usize) -> Value {
        let before = self.expr.load(I64, base, offset);
        let after = self.expr.builder.ins().iadd_imm(before, 1);
        self.expr.store(after, base, offset);
        after
    }

    /// Continues at `found` with the slot, plus one, of the instance with a key if the lookup cache has it, otherwise
    /// at `missing`. The address of its cache entry.
    fn find_cached(&mut self, family: usize, key: &[Value], found: Block, missing: Block) -> Value {
        let verify = self.expr.builder.create_block();
        let cache = self.expr.context_word(self.expr.offsets.slab(family) + SLOT_CACHE);
        let at = self.expr.cache_entry(key);
        let cache_entry = self.expr.builder.ins().iadd(cache, at);
        let slot_plus_one = self.expr.load(I32, cache_entry, 0);
        self.expr.builder.ins().brif(slot_plus_one, verify, &[], missing, &[]);
        self.expr.switch_to_successor(verify);
        let slot_plus_one = self.expr.builder.ins().uextend(I64, slot_plus_one);
        let slot = self.expr.builder.ins().iadd_imm(slot_plus_one, -1);
        let instance = self.expr.instance(family, slot);
        let generation = self.expr.load(I64, instance.words, 8 * GENERATION);
        let is_live = self.expr.builder.ins().icmp_imm(IntCC::NotEqual, generation, 0);
        let key: Vec<(usize, Value)> = key.iter().copied().enumerate().collect();
        let is_match = self.expr.keys_equal(instance, &key);
        let is_match = self.expr.builder.ins().band(is_match, is_live);
        self.expr.builder.ins().brif(is_match, found, &[slot_plus_one.into()], missing, &[]);
        cache_entry
    }
}

impl StepEmitter<'_, '_> {
    /// The only index in which instances of a family usually have an entry: the positions of the parameters that are
    /// its key, and its number within the family. `None` if there are several.
    fn single_index(&self, family: usize) -> Option<(Vec<usize>, usize)> {
        let plan = &self.plan.families[family];
        match plan.indexes.as_slice() {
            _ if plan.param_width == 0 => None,
            [] => Some(((0..plan.param_width).collect(), 0)),
            [positions] => Some((positions.clone(), 1)),
            _ => None,
        }
    }

    /// Whether a spawn does nothing but fill a slot, mark what is dirty, and start timers, counters and windows.
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
