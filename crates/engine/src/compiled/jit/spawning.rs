//! How instances are spawned, and how they leave their slots.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value};

use super::expr::{Instance, Run};
use super::handler::Scribe;
use super::lookup::{Outcome, Spawned};
use super::runtime_calls;
use super::value_cache::Lost;
use super::vm_context::{HEADER, SLOT_CACHE};
use crate::compiled::exec::instant::Evaluator;
use crate::compiled::ir::op::FrameSlot;
use crate::compiled::ir::plan::{ClosePlan, Pacing, Reader};
use crate::compiled::store::hash_index::Occupancy;
use crate::compiled::store::slab::{GENERATION, PARAMS, SlabHeader};

impl Scribe<'_, '_> {
    /// Spawns an instance, unless it is one that is there: whoever was seen lately is found without a call.
    pub(super) fn spawn(&mut self, family: usize) {
        let plan = &self.evaluator.plan.families[family];
        let Some(spawn) = &plan.spawn else { return };
        let [look, call, done, ends] = [(); 4].map(|()| self.writer.builder.create_block());
        let slot = self.writer.builder.append_block_param(done, I64);
        let fork = self.writer.fork();
        match spawn.program {
            Some(program) => {
                let stream = self.evaluator.first_member(family);
                let run = Run { stream, program, instance: None };
                let at_yield = self.writer.program(run, look, ends);
                self.writer.resume(ends, &fork);
                let nobody = BlockArg::from(self.writer.number(0));
                self.writer.builder.ins().jump(done, &[nobody]);
                self.writer.resume(look, &at_yield);
            }
            None => {
                self.writer.builder.ins().jump(look, &[]);
                self.writer.go_on(look);
            }
        }
        let key = (0..plan.param_width).map(|at| self.writer.word(spawn.key + at as FrameSlot));
        let key: Vec<Value> = key.collect();
        let here = self.writer.fork();
        let recent = self.evaluator.plan.is_met_again(family).then(|| {
            let missing = self.writer.builder.create_block();
            let recent = self.find_recent(family, &key, done, missing);
            self.writer.resume(missing, &here);
            recent
        });
        if self.evaluator.spawns_simply(family) {
            self.spawn_here(family, &key, recent, [done, call]);
        } else {
            self.writer.builder.ins().jump(call, &[]);
        }
        self.writer.resume(call, &here);
        let called = self.writer.call(runtime_calls::spawn as *const u8, &[family as u64]);
        self.writer.lose(Lost::Places);
        if self.evaluator.plan.looks_at_spawn(family) {
            self.writer.lose(Lost::AllWords);
        }
        self.writer.builder.ins().jump(done, &[called.into()]);
        self.writer.resume(done, &fork);
        let key = key.into_iter().map(|word| self.writer.knows(word).then_some(word)).collect();
        self.writer.spawned[family] = plan.is_parameterised.then_some(Spawned { number: slot, key });
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
        let plan = &self.evaluator.plan.families[family];
        let Some((places, number)) = self.evaluator.only_entry(family) else {
            self.writer.builder.ins().jump(otherwise, &[]);
            return;
        };
        let [one, none, create, fresh, used, made] = [(); 6].map(|()| self.writer.builder.create_block());
        let found = self.writer.builder.append_block_param(one, I64);
        let words: Vec<(usize, Value)> = places.iter().map(|place| (*place, key[*place])).collect();
        let table = self.writer.table(family) + number;
        let fork = self.writer.fork();
        let spot =
            self.writer.probe((family, table), &words, None, Outcome { one, none, several: otherwise });
        self.writer.resume(one, &fork);
        if number == 0 {
            let number = self.writer.builder.ins().iadd_imm(found, 1);
            if let Some(recent) = recent {
                let number = self.writer.builder.ins().ireduce(I32, number);
                self.writer.store(number, recent, 0);
            }
            self.writer.builder.ins().jump(done, &[number.into()]);
        } else {
            // Others have the same words.
            self.writer.builder.ins().jump(otherwise, &[]);
        }

        self.writer.resume(none, &fork);
        let map = self.writer.map;
        let header = self.writer.place_at(map.family(family) + HEADER);
        let occupancy = self.writer.place_at(map.table(table) + 24);
        let [slot, room, free] =
            [offset_of!(SlabHeader, slots), offset_of!(SlabHeader, room), offset_of!(SlabHeader, free)]
                .map(|at| self.writer.load(I64, header, at));
        let is_plain = self.writer.load(I64, header, offset_of!(SlabHeader, is_plain));
        let [entries, most] = [offset_of!(Occupancy, used), offset_of!(Occupancy, room)]
            .map(|at| self.writer.load(I64, occupancy, at));
        let has_room = self.writer.builder.ins().icmp(IntCC::UnsignedLessThan, slot, room);
        let has_free = self.writer.builder.ins().icmp_imm(IntCC::NotEqual, free, 0);
        let has_slot = self.writer.builder.ins().bor(has_room, has_free);
        let has_place = self.writer.builder.ins().icmp(IntCC::UnsignedLessThan, entries, most);
        let has_both = self.writer.builder.ins().band(has_slot, has_place);
        let is_plain = self.writer.builder.ins().icmp_imm(IntCC::NotEqual, is_plain, 0);
        let can = self.writer.builder.ins().band(has_both, is_plain);
        self.writer.builder.ins().brif(can, create, &[], otherwise, &[]);

        self.writer.go_on(create);
        self.increment(occupancy, offset_of!(Occupancy, used));
        self.increment(header, offset_of!(SlabHeader, live));
        let generation = self.increment(header, offset_of!(SlabHeader, spawned));
        let slot = self.writer.builder.append_block_param(made, I64);
        let fork = self.writer.fork();
        self.writer.builder.ins().brif(free, used, &[], fresh, &[]);
        self.writer.resume(used, &fork);
        let number = self.writer.builder.ins().iadd_imm(free, -1);
        let instance = self.writer.instance(family, number);
        let before = self.writer.load(I64, instance.words, 8 * PARAMS);
        self.writer.store(before, header, offset_of!(SlabHeader, free));
        self.writer.builder.ins().jump(made, &[number.into()]);
        self.writer.resume(fresh, &fork);
        let number = self.increment(header, offset_of!(SlabHeader, slots));
        let number = self.writer.builder.ins().iadd_imm(number, -1);
        self.writer.builder.ins().jump(made, &[number.into()]);
        self.writer.resume(made, &fork);
        let number = self.writer.builder.ins().iadd_imm(slot, 1);
        let tag = self.writer.builder.ins().ishl_imm(spot.tag, 32);
        let entry = self.writer.builder.ins().bor(tag, number);
        self.writer.store(entry, spot.at, 0);
        let instance = self.writer.instance(family, slot);
        self.writer.store(generation, instance.words, 8 * GENERATION);
        for (at, word) in key.iter().enumerate() {
            self.writer.store(*word, instance.words, 8 * (PARAMS + at));
        }
        self.begin(family, instance, generation);
        for member in &plan.members {
            let stream = &self.evaluator.plan.streams[*member];
            let reader = Reader::Stream(*member);
            if self.evaluator.counting(*member).is_some() {
                continue;
            } else if let Some(program) = stream.eval.first_look {
                self.look((*member, program), instance, |scribe| scribe.mark_slot(reader, instance));
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
            if close.looks_at_spawn {
                let condition = (self.evaluator.first_member(family), close.program);
                self.look(condition, instance, |scribe| scribe.mark_slot(reader, instance));
            } else {
                self.mark_slot(reader, instance);
            }
        }
        self.arm_timers(family, slot, generation);
        self.writer.builder.ins().jump(done, &[number.into()]);
    }

    /// An instance that has ended leaves its slot, without a call if it has an entry to itself.
    pub(super) fn leave(&mut self, family: usize, instance: Instance) {
        let [call, done] = [(); 2].map(|()| self.writer.builder.create_block());
        let fork = self.writer.fork();
        self.leave_here(family, instance, [done, call]);
        self.writer.resume(call, &fork);
        let number = self.writer.number(family as u64);
        self.writer.call_with(runtime_calls::leave as *const u8, &[number, instance.slot]);
        self.writer.builder.ins().jump(done, &[]);
        self.writer.resume(done, &fork);
        self.writer.lose(Lost::InstanceSlab);
    }

    /// What [`InstanceSlab::close`](crate::compiled::store::slab::InstanceSlab::close) does, where there is one entry in one table.
    fn leave_here(&mut self, family: usize, instance: Instance, [done, otherwise]: [Block; 2]) {
        let plan = &self.evaluator.plan.families[family];
        let Some((places, number)) = self.evaluator.only_entry(family) else {
            self.writer.builder.ins().jump(otherwise, &[]);
            return;
        };
        let map = self.writer.map;
        let header = self.writer.place_at(map.family(family) + HEADER);
        let is_plain = self.writer.load(I64, header, offset_of!(SlabHeader, is_plain));
        let mut can = self.writer.builder.ins().icmp_imm(IntCC::NotEqual, is_plain, 0);
        if number > 0 {
            let link = self.evaluator.state.families[family].instances.link(0);
            let links = self.writer.load(I64, instance.words, 8 * link);
            let is_alone = self.writer.builder.ins().icmp_imm(IntCC::Equal, links, 0);
            can = self.writer.builder.ins().band(can, is_alone);
        }
        let here = self.writer.builder.create_block();
        self.writer.builder.ins().brif(can, here, &[], otherwise, &[]);
        self.writer.go_on(here);
        let key =
            places.iter().map(|place| (*place, self.writer.load(I64, instance.words, 8 * (PARAMS + place))));
        let key: Vec<(usize, Value)> = key.collect();
        let table = self.writer.table(family) + number;
        self.writer.remove(table, &key, instance.slot);
        let zero = self.writer.number(0);
        for at in 0..plan.slot_words() {
            self.writer.store(zero, instance.words, 8 * at);
        }
        let before = self.writer.load(I64, header, offset_of!(SlabHeader, free));
        self.writer.store(before, instance.words, 8 * PARAMS);
        let number = self.writer.builder.ins().iadd_imm(instance.slot, 1);
        self.writer.store(number, header, offset_of!(SlabHeader, free));
        let live = self.writer.load(I64, header, offset_of!(SlabHeader, live));
        let live = self.writer.builder.ins().iadd_imm(live, -1);
        self.writer.store(live, header, offset_of!(SlabHeader, live));
        self.writer.builder.ins().jump(done, &[]);
    }

    /// Adds one to a word in memory.
    pub(super) fn increment(&mut self, from: Value, at: usize) -> Value {
        let before = self.writer.load(I64, from, at);
        let now = self.writer.builder.ins().iadd_imm(before, 1);
        self.writer.store(now, from, at);
        now
    }

    /// Goes to `found` with the slot, plus one, of the instance with a key if it is among those that somebody tried to
    /// spawn again. Where it is noted.
    fn find_recent(&mut self, family: usize, key: &[Value], found: Block, missing: Block) -> Value {
        let look = self.writer.builder.create_block();
        let recent = self.writer.place_at(self.writer.map.family(family) + SLOT_CACHE);
        let at = self.writer.recent(key);
        let at = self.writer.builder.ins().iadd(recent, at);
        let number = self.writer.load(I32, at, 0);
        self.writer.builder.ins().brif(number, look, &[], missing, &[]);
        self.writer.go_on(look);
        let number = self.writer.builder.ins().uextend(I64, number);
        let slot = self.writer.builder.ins().iadd_imm(number, -1);
        let instance = self.writer.instance(family, slot);
        let generation = self.writer.load(I64, instance.words, 8 * GENERATION);
        let is_there = self.writer.builder.ins().icmp_imm(IntCC::NotEqual, generation, 0);
        let key: Vec<(usize, Value)> = key.iter().copied().enumerate().collect();
        let is_it = self.writer.is_it(instance, &key);
        let is_it = self.writer.builder.ins().band(is_it, is_there);
        self.writer.builder.ins().brif(is_it, found, &[number.into()], missing, &[]);
        at
    }
}

impl Evaluator {
    /// If an instance of a family has one entry in one table, most often: the places of the parameters that lead to it,
    /// and which table of the family that is.
    fn only_entry(&self, family: usize) -> Option<(Vec<usize>, usize)> {
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
    fn spawns_simply(&self, family: usize) -> bool {
        let plan = &self.plan.families[family];
        plan.is_parameterised
            && plan.param_width > 0
            && !matches!(&plan.close, Some(ClosePlan { pacing: Pacing::Local(_), .. }))
            && !plan.knows_its_spawn
            && plan.members.iter().all(|member| {
                let is_counter = self.plan.streams[*member].eval.counter.is_some();
                !self.tells[*member] && is_counter == self.counting(*member).is_some()
            })
    }
}
