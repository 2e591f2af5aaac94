//! How instances are found by their parameters.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value};

use super::expr::{ExprEmitter, SlotRef};
use super::runtime_calls;
use super::vm_context::{ENTRIES, LAST_BUCKET, OCCUPANCY, SHIFT, SLOTS};
use crate::compiled::ir::layout::PARAMS;
use crate::compiled::ir::op::FrameSlot;
use crate::compiled::ir::plan::Route;
use crate::compiled::store::hash_index::Occupancy;
use crate::compiled::store::words::{FACTOR, SEED};

/// Where it goes on, with the number of a slot if there is one.
#[derive(Clone, Copy)]
pub(super) struct Outcome {
    pub(super) one: Block,
    pub(super) none: Block,
    pub(super) several: Block,
}

/// The instance that the event has spawned, or found to be there: its slot, plus one, or 0 if that is not known; and its
/// parameters, as far as they are in registers.
#[derive(Clone)]
pub(super) struct Spawned {
    pub(super) number: Value,
    pub(super) key: Vec<Option<Value>>,
}

/// Where the entry of an instance belongs that is not there.
pub(super) struct Vacancy {
    pub(super) tag: Value,
    /// In memory.
    pub(super) at: Value,
}

impl ExprEmitter<'_, '_> {
    /// Finds the instances of a family that a route leads to, with a key in the frame.
    pub(super) fn find(&mut self, family: usize, route: Route, key: FrameSlot, to: Outcome) {
        let plan = &self.plan.families[family];
        let width = match route {
            Route::Index(index) => plan.indexes[index].len(),
            // An index may stand for the table.
            Route::Lookup if !plan.indexes.is_empty() => {
                self.flush_for_runtime(key, plan.param_width);
                let slot = self.call(runtime_calls::find as *const u8, &[family as u64, key.into()]);
                let is_none =
                    self.builder.ins().icmp_imm(IntCC::Equal, slot, runtime_calls::NO_SLOT.cast_signed());
                self.builder.ins().brif(is_none, to.none, &[], to.one, &[slot.into()]);
                return;
            }
            Route::Lookup => plan.param_width,
        };
        let key: Vec<Value> = (key..).take(width).map(|at| self.load_slot(at)).collect();
        self.find_by(family, route, &key, to);
    }

    /// Reads so many words of the only instance with all of the parameters that are in the frame, or else some others.
    /// Whoever looks for it again need not.
    pub(super) fn read_found(
        &mut self,
        family: usize,
        key: FrameSlot,
        words: usize,
        read: impl FnOnce(&mut Self, SlotRef) -> Vec<Value>,
        otherwise: impl FnOnce(&mut Self) -> Vec<Value>,
    ) -> Vec<Value> {
        let [one, none, done] = [(); 3].map(|()| self.builder.create_block());
        let slot = self.builder.append_block_param(one, I64);
        let mut all: Vec<Value> = (0..=words).map(|_| self.builder.append_block_param(done, I64)).collect();
        let parameters: Vec<Value> =
            (key..).take(self.plan.families[family].param_width).map(|at| self.load_slot(at)).collect();
        let saved = self.save_state();
        self.find(family, Route::Lookup, key, Outcome { one, none, several: none });
        self.switch_to_saved(one, &saved);
        let number = self.builder.ins().iadd_imm(slot, 1);
        let instance = self.instance(family, slot);
        let found = std::iter::once(number).chain(read(self, instance));
        let found: Vec<BlockArg> = found.map(BlockArg::from).collect();
        self.builder.ins().jump(done, &found);
        self.switch_to_saved(none, &saved);
        let nobody = self.iconst(0);
        let others = std::iter::once(nobody).chain(otherwise(self));
        let others: Vec<BlockArg> = others.map(BlockArg::from).collect();
        self.builder.ins().jump(done, &others);
        self.switch_to_saved(done, &saved);
        self.cache.found_slots.insert((family, parameters), all.remove(0));
        all
    }

    /// The same with words at hand; of all parameters only where there is no index.
    pub(super) fn find_by(&mut self, family: usize, route: Route, key: &[Value], to: Outcome) {
        let plan = &self.plan.families[family];
        let (places, link, number) = match route {
            Route::Index(index) => {
                let link = self.families[family].instances.link(index);
                (plan.indexes[index].clone(), Some(link), index + 1)
            }
            Route::Lookup => ((0..plan.param_width).collect(), None, 0),
        };
        if let (Route::Lookup, Some(number)) =
            (route, self.cache.found_slots.get(&(family, key.to_vec())).copied())
        {
            let [there, look] = [(); 2].map(|()| self.builder.create_block());
            let saved = self.save_state();
            self.builder.ins().brif(number, there, &[], look, &[]);
            self.switch_to_successor(there);
            let slot = self.builder.ins().iadd_imm(number, -1);
            self.builder.ins().jump(to.one, &[slot.into()]);
            self.switch_to_saved(look, &saved);
        }
        let key: Vec<(usize, Value)> = places.into_iter().zip(key.iter().copied()).collect();
        if let Some(Spawned { number, key: own }) = self.spawned[family].clone() {
            // Most often it is who has just been spawned.
            let [check, look] = [(); 2].map(|()| self.builder.create_block());
            let saved = self.save_state();
            self.builder.ins().brif(number, check, &[], look, &[]);
            self.switch_to_successor(check);
            let slot = self.builder.ins().iadd_imm(number, -1);
            let instance = self.instance(family, slot);
            let others: Vec<(usize, Value)> =
                key.iter().copied().filter(|(place, word)| own[*place] != Some(*word)).collect();
            let mut is_it = (!others.is_empty()).then(|| self.is_it(instance, &others));
            if let Some(link) = link {
                let links = self.load(I64, instance.words, 8 * link);
                let is_alone = self.builder.ins().icmp_imm(IntCC::Equal, links, 0);
                is_it = Some(match is_it {
                    Some(is_it) => self.builder.ins().band(is_it, is_alone),
                    None => is_alone,
                });
            }
            match is_it {
                Some(is_it) => self.builder.ins().brif(is_it, to.one, &[slot.into()], look, &[]),
                None => self.builder.ins().jump(to.one, &[slot.into()]),
            };
            self.switch_to_saved(look, &saved);
        }
        self.probe((family, self.table(family) + number), &key, link, to);
    }

    /// The number of the first table of a family: that of all parameters.
    pub(super) fn table(&self, family: usize) -> usize {
        self.plan.families[..family].iter().map(|family| family.indexes.len() + 1).sum()
    }

    /// Looks from place to place in a table, as [`HashIndex::look`](crate::compiled::store::hash_index::HashIndex::look) does. Where the entry
    /// would be is of use only if there is none.
    pub(super) fn probe(
        &mut self,
        (family, table): (usize, usize),
        key: &[(usize, Value)],
        link: Option<usize>,
        to: Outcome,
    ) -> Vacancy {
        let [look, compare, check, next, found] = [(); 5].map(|()| self.builder.create_block());
        let tag = self.hash_tag(key);
        let layout = self.offsets.index(table);
        let [entries, shift, mask] = [ENTRIES, SHIFT, LAST_BUCKET].map(|at| self.context_word(layout + at));
        let place = self.builder.append_block_param(look, I64);
        let home = self.builder.ins().ushr(tag, shift);
        self.builder.ins().jump(look, &[home.into()]);

        self.switch_with_empty_cache(look);
        let at = self.builder.ins().ishl_imm(place, 3);
        let at = self.builder.ins().iadd(entries, at);
        let entry = self.load(I64, at, 0);
        self.builder.ins().brif(entry, compare, &[], to.none, &[]);

        self.switch_to_successor(compare);
        let other = self.builder.ins().ushr_imm(entry, 32);
        let is_like = self.builder.ins().icmp(IntCC::Equal, other, tag);
        self.builder.ins().brif(is_like, check, &[], next, &[]);

        self.switch_to_successor(check);
        let number = self.builder.ins().ireduce(I32, entry);
        let number = self.builder.ins().uextend(I64, number);
        let slot = self.builder.ins().iadd_imm(number, -1);
        let instance = self.instance(family, slot);
        let is_it = self.is_it(instance, key);
        self.builder.ins().brif(is_it, found, &[], next, &[]);

        let saved = self.save_state();
        self.switch_with_empty_cache(next);
        let after = self.builder.ins().iadd_imm(place, 1);
        let after = self.builder.ins().band(after, mask);
        self.builder.ins().jump(look, &[after.into()]);

        self.switch_to_saved(found, &saved);
        match link {
            None => self.builder.ins().jump(to.one, &[slot.into()]),
            Some(link) => {
                let links = self.load(I64, instance.words, 8 * link);
                let after = self.builder.ins().ushr_imm(links, 32);
                self.builder.ins().brif(after, to.several, &[], to.one, &[slot.into()])
            }
        };
        Vacancy { tag, at }
    }

    /// Removes the entry of a slot from a table, as [`HashIndex::remove`](crate::compiled::store::hash_index::HashIndex::remove)
    /// does.
    pub(super) fn remove(&mut self, table: usize, key: &[(usize, Value)], slot: Value) {
        let [look, next, found, shift, compare, up, on, done, end] =
            [(); 9].map(|()| self.builder.create_block());
        let tag = self.hash_tag(key);
        let layout = self.offsets.index(table);
        let [entries, bits, mask, occupancy] =
            [ENTRIES, SHIFT, LAST_BUCKET, OCCUPANCY].map(|at| self.context_word(layout + at));
        let number = self.builder.ins().iadd_imm(slot, 1);
        let above = self.builder.ins().ishl_imm(tag, 32);
        let wanted = self.builder.ins().bor(above, number);
        let entry_at = |expr: &mut Self, place: Value| {
            let at = expr.builder.ins().ishl_imm(place, 3);
            expr.builder.ins().iadd(entries, at)
        };
        let after = |expr: &mut Self, place: Value| {
            let after = expr.builder.ins().iadd_imm(place, 1);
            expr.builder.ins().band(after, mask)
        };
        let place = self.builder.append_block_param(look, I64);
        let home = self.builder.ins().ushr(tag, bits);
        let saved = self.save_state();
        self.builder.ins().jump(look, &[home.into()]);

        self.switch_with_empty_cache(look);
        let at = entry_at(self, place);
        let entry = self.load(I64, at, 0);
        let is_it = self.builder.ins().icmp(IntCC::Equal, entry, wanted);
        self.builder.ins().brif(is_it, found, &[], next, &[]);
        self.switch_with_empty_cache(next);
        let further = after(self, place);
        self.builder.ins().brif(entry, look, &[further.into()], end, &[]);

        self.switch_with_empty_cache(found);
        let used = self.load(I64, occupancy, offset_of!(Occupancy, used));
        let used = self.builder.ins().iadd_imm(used, -1);
        self.store(used, occupancy, offset_of!(Occupancy, used));
        let first = after(self, place);
        let [other, free] = [(); 2].map(|()| self.builder.append_block_param(shift, I64));
        self.builder.ins().jump(shift, &[first.into(), place.into()]);

        self.switch_with_empty_cache(shift);
        let at = entry_at(self, other);
        let entry = self.load(I64, at, 0);
        self.builder.ins().brif(entry, compare, &[], done, &[]);
        self.switch_with_empty_cache(compare);
        let its_tag = self.builder.ins().ushr_imm(entry, 32);
        let its_home = self.builder.ins().ushr(its_tag, bits);
        let [from_home, from_free] = [its_home, free].map(|place| {
            let distance = self.builder.ins().isub(other, place);
            self.builder.ins().band(distance, mask)
        });
        let moves = self.builder.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, from_home, from_free);
        let now_free = self.builder.append_block_param(on, I64);
        self.builder.ins().brif(moves, up, &[], on, &[free.into()]);
        self.switch_with_empty_cache(up);
        let to = entry_at(self, free);
        self.store(entry, to, 0);
        self.builder.ins().jump(on, &[other.into()]);
        self.switch_with_empty_cache(on);
        let further = after(self, other);
        self.builder.ins().jump(shift, &[further.into(), now_free.into()]);

        self.switch_with_empty_cache(done);
        let at = entry_at(self, free);
        let zero = self.iconst(0);
        self.store(zero, at, 0);
        self.builder.ins().jump(end, &[]);
        self.switch_to_saved(end, &saved);
    }

    /// Whether an instance has these words at the places of its parameters.
    pub(super) fn is_it(&mut self, instance: SlotRef, key: &[(usize, Value)]) -> Value {
        let mut is_it = None;
        for (place, word) in key {
            let own = self.load(I64, instance.words, 8 * (PARAMS + place));
            let is_same = self.builder.ins().icmp(IntCC::Equal, own, *word);
            is_it = Some(match is_it {
                None => is_same,
                Some(others) => self.builder.ins().band(others, is_same),
            });
        }
        is_it.unwrap_or_else(|| self.iconst8(1))
    }

    /// See [`HashTag::of`](crate::compiled::store::hash_index::HashTag::of).
    fn hash_tag(&mut self, key: &[(usize, Value)]) -> Value {
        let mut hash = self.iconst(SEED);
        for (_, word) in key {
            let turned = self.builder.ins().rotl_imm(*word, 32);
            let factor = self.iconst(FACTOR);
            let one = self.builder.ins().bxor(hash, *word);
            let other = self.builder.ins().bxor(factor, turned);
            let low = self.builder.ins().imul(one, other);
            let high = self.builder.ins().umulhi(one, other);
            let both = self.builder.ins().bxor(low, high);
            let seed = self.iconst(SEED);
            hash = self.builder.ins().bxor(both, seed);
        }
        self.builder.ins().ushr_imm(hash, 32)
    }

    /// A time so much later, or never.
    pub(super) fn add_saturating(&mut self, time: Value, period: u64) -> Value {
        let period = self.iconst(period);
        let at = self.builder.ins().iadd(time, period);
        let fits = self.builder.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, at, time);
        let never = self.iconst(u64::MAX);
        self.builder.ins().select(fits, at, never)
    }

    pub(super) fn instance(&mut self, family: usize, slot: Value) -> SlotRef {
        let first = self.context_word(self.offsets.slab(family) + SLOTS);
        let stride = self.plan.families[family].slot_words();
        let at = self.scale(slot, 8 * stride);
        let words = self.builder.ins().iadd(first, at);
        SlotRef { slot, words }
    }
}
