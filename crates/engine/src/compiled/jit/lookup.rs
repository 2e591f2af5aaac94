//! Finds instances by their parameters, and removes entries from hash indexes.

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
use crate::compiled::store::words::HashKey;

/// Where code continues after a lookup.
#[derive(Clone, Copy)]
pub(super) struct LookupBlocks {
    /// Exactly one instance was found. The parameter of the block is its slot.
    pub(super) found: Block,
    /// There is no such instance.
    pub(super) missing: Block,
    /// A secondary index has several such instances.
    pub(super) ambiguous: Block,
}

/// The instance that a spawn step has spawned or found.
#[derive(Clone)]
pub(super) struct Spawned {
    /// Its slot plus one; 0 if it is not known.
    pub(super) slot_plus_one: Value,
    /// Its parameters, as far as they are cached.
    pub(super) key: Vec<Option<Value>>,
}

/// The empty bucket where a missing key belongs.
pub(super) struct EmptyBucket {
    /// The tag of the key.
    pub(super) tag: Value,
    /// The address of the bucket.
    pub(super) address: Value,
}

impl ExprEmitter<'_, '_> {
    /// Finds an instance by a route, with a key in the frame.
    pub(super) fn find(&mut self, family: usize, route: Route, key: FrameSlot, to: LookupBlocks) {
        let plan = &self.plan.families[family];
        let width = match route {
            Route::Index(index) => plan.indexes[index].len(),
            // A family with a secondary index may have no entries in that of all parameters.
            Route::Lookup if !plan.indexes.is_empty() => {
                self.flush_for_runtime(key, plan.param_width);
                let slot = self.call(runtime_calls::find as *const u8, &[family as u64, key.into()]);
                let is_missing =
                    self.builder.ins().icmp_imm(IntCC::Equal, slot, runtime_calls::NO_SLOT.cast_signed());
                self.builder.ins().brif(is_missing, to.missing, &[], to.found, &[slot.into()]);
                return;
            }
            Route::Lookup => plan.param_width,
        };
        let key: Vec<Value> = (key..).take(width).map(|at| self.load_slot(at)).collect();
        self.find_by_words(family, route, &key, to);
    }

    /// Reads `words` words of the instance whose parameters are in the frame, or emits `otherwise` if there is none.
    /// The result of the lookup is cached.
    pub(super) fn read_by_key(
        &mut self,
        family: usize,
        key: FrameSlot,
        words: usize,
        read: impl FnOnce(&mut Self, SlotRef) -> Vec<Value>,
        otherwise: impl FnOnce(&mut Self) -> Vec<Value>,
    ) -> Vec<Value> {
        let [found, missing, done] = [(); 3].map(|()| self.builder.create_block());
        let slot = self.builder.append_block_param(found, I64);
        let mut results: Vec<Value> =
            (0..=words).map(|_| self.builder.append_block_param(done, I64)).collect();
        let parameters: Vec<Value> =
            (key..).take(self.plan.families[family].param_width).map(|at| self.load_slot(at)).collect();
        let saved = self.save_state();
        self.find(family, Route::Lookup, key, LookupBlocks { found, missing, ambiguous: missing });
        self.switch_to_saved(found, &saved);
        let slot_plus_one = self.builder.ins().iadd_imm(slot, 1);
        let instance = self.instance(family, slot);
        let words = std::iter::once(slot_plus_one).chain(read(self, instance));
        let words: Vec<BlockArg> = words.map(BlockArg::from).collect();
        self.builder.ins().jump(done, &words);
        self.switch_to_saved(missing, &saved);
        let no_slot = self.iconst(0);
        let words = std::iter::once(no_slot).chain(otherwise(self));
        let words: Vec<BlockArg> = words.map(BlockArg::from).collect();
        self.builder.ins().jump(done, &words);
        self.switch_to_saved(done, &saved);
        self.cache.found_slots.insert((family, parameters), results.remove(0));
        results
    }

    /// Finds an instance by a route, with the words of a key. [`Route::Lookup`] requires a family without secondary
    /// indexes.
    pub(super) fn find_by_words(&mut self, family: usize, route: Route, key: &[Value], to: LookupBlocks) {
        let plan = &self.plan.families[family];
        let (positions, link, number) = match route {
            Route::Index(index) => {
                let link = self.families[family].instances.link(index);
                (plan.indexes[index].clone(), Some(link), index + 1)
            }
            Route::Lookup => ((0..plan.param_width).collect(), None, 0),
        };
        if let (Route::Lookup, Some(slot_plus_one)) =
            (route, self.cache.found_slots.get(&(family, key.to_vec())).copied())
        {
            let [exists, search] = [(); 2].map(|()| self.builder.create_block());
            let saved = self.save_state();
            self.builder.ins().brif(slot_plus_one, exists, &[], search, &[]);
            self.switch_to_successor(exists);
            let slot = self.builder.ins().iadd_imm(slot_plus_one, -1);
            self.builder.ins().jump(to.found, &[slot.into()]);
            self.switch_to_saved(search, &saved);
        }
        let key: Vec<(usize, Value)> = positions.into_iter().zip(key.iter().copied()).collect();
        if let Some(Spawned { slot_plus_one, key: own }) = self.spawned[family].clone() {
            // Most often it is the instance of this event.
            let [check, search] = [(); 2].map(|()| self.builder.create_block());
            let saved = self.save_state();
            self.builder.ins().brif(slot_plus_one, check, &[], search, &[]);
            self.switch_to_successor(check);
            let slot = self.builder.ins().iadd_imm(slot_plus_one, -1);
            let instance = self.instance(family, slot);
            let unknown: Vec<(usize, Value)> =
                key.iter().copied().filter(|(at, word)| own[*at] != Some(*word)).collect();
            let mut is_match = (!unknown.is_empty()).then(|| self.keys_equal(instance, &unknown));
            if let Some(link) = link {
                let links = self.load(I64, instance.words, 8 * link);
                let is_alone = self.builder.ins().icmp_imm(IntCC::Equal, links, 0);
                is_match = Some(match is_match {
                    Some(is_equal) => self.builder.ins().band(is_equal, is_alone),
                    None => is_alone,
                });
            }
            match is_match {
                Some(is_match) => self.builder.ins().brif(is_match, to.found, &[slot.into()], search, &[]),
                None => self.builder.ins().jump(to.found, &[slot.into()]),
            };
            self.switch_to_saved(search, &saved);
        }
        self.probe((family, self.first_index(family) + number), &key, link, to);
    }

    /// The number of the first hash index of a family, which is that of all parameters.
    pub(super) fn first_index(&self, family: usize) -> usize {
        self.plan.families[..family].iter().map(|family| family.indexes.len() + 1).sum()
    }

    /// Linear probing in a hash index, as in
    /// [`HashIndex::probe`](crate::compiled::store::hash_index::HashIndex::probe). `link` is the word of a slot that
    /// has the links of a secondary index. The empty bucket is defined only in the block for missing keys.
    pub(super) fn probe(
        &mut self,
        (family, index): (usize, usize),
        key: &[(usize, Value)],
        link: Option<usize>,
        to: LookupBlocks,
    ) -> EmptyBucket {
        let [head, compare_tag, compare_key, next, found] = [(); 5].map(|()| self.builder.create_block());
        let tag = self.hash_tag(key);
        let layout = self.offsets.index(index);
        let [entries, shift, mask] = [ENTRIES, SHIFT, LAST_BUCKET].map(|at| self.context_word(layout + at));
        let bucket = self.builder.append_block_param(head, I64);
        let home = self.builder.ins().ushr(tag, shift);
        self.builder.ins().jump(head, &[home.into()]);

        self.switch_with_empty_cache(head);
        let at = self.builder.ins().ishl_imm(bucket, 3);
        let address = self.builder.ins().iadd(entries, at);
        let entry = self.load(I64, address, 0);
        self.builder.ins().brif(entry, compare_tag, &[], to.missing, &[]);

        self.switch_to_successor(compare_tag);
        let other = self.builder.ins().ushr_imm(entry, 32);
        let has_tag = self.builder.ins().icmp(IntCC::Equal, other, tag);
        self.builder.ins().brif(has_tag, compare_key, &[], next, &[]);

        self.switch_to_successor(compare_key);
        let slot_plus_one = self.builder.ins().ireduce(I32, entry);
        let slot_plus_one = self.builder.ins().uextend(I64, slot_plus_one);
        let slot = self.builder.ins().iadd_imm(slot_plus_one, -1);
        let instance = self.instance(family, slot);
        let has_key = self.keys_equal(instance, key);
        self.builder.ins().brif(has_key, found, &[], next, &[]);

        let saved = self.save_state();
        self.switch_with_empty_cache(next);
        let after = self.builder.ins().iadd_imm(bucket, 1);
        let after = self.builder.ins().band(after, mask);
        self.builder.ins().jump(head, &[after.into()]);

        self.switch_to_saved(found, &saved);
        match link {
            None => self.builder.ins().jump(to.found, &[slot.into()]),
            Some(link) => {
                let links = self.load(I64, instance.words, 8 * link);
                let after = self.builder.ins().ushr_imm(links, 32);
                self.builder.ins().brif(after, to.ambiguous, &[], to.found, &[slot.into()])
            }
        };
        EmptyBucket { tag, address }
    }

    /// Removes the entry of a slot by backward-shift deletion, as in
    /// [`HashIndex::remove`](crate::compiled::store::hash_index::HashIndex::remove).
    pub(super) fn remove_entry(&mut self, index: usize, key: &[(usize, Value)], slot: Value) {
        let [head, next, found, shift_head, compare, move_up, shift_next, clear, end] =
            [(); 9].map(|()| self.builder.create_block());
        let tag = self.hash_tag(key);
        let layout = self.offsets.index(index);
        let [entries, bits, mask, occupancy] =
            [ENTRIES, SHIFT, LAST_BUCKET, OCCUPANCY].map(|at| self.context_word(layout + at));
        let slot_plus_one = self.builder.ins().iadd_imm(slot, 1);
        let upper = self.builder.ins().ishl_imm(tag, 32);
        let wanted = self.builder.ins().bor(upper, slot_plus_one);
        let address_of = |expr: &mut Self, bucket: Value| {
            let at = expr.builder.ins().ishl_imm(bucket, 3);
            expr.builder.ins().iadd(entries, at)
        };
        let after = |expr: &mut Self, bucket: Value| {
            let after = expr.builder.ins().iadd_imm(bucket, 1);
            expr.builder.ins().band(after, mask)
        };
        let bucket = self.builder.append_block_param(head, I64);
        let home = self.builder.ins().ushr(tag, bits);
        let saved = self.save_state();
        self.builder.ins().jump(head, &[home.into()]);

        self.switch_with_empty_cache(head);
        let at = address_of(self, bucket);
        let entry = self.load(I64, at, 0);
        let is_wanted = self.builder.ins().icmp(IntCC::Equal, entry, wanted);
        self.builder.ins().brif(is_wanted, found, &[], next, &[]);
        self.switch_with_empty_cache(next);
        let further = after(self, bucket);
        self.builder.ins().brif(entry, head, &[further.into()], end, &[]);

        self.switch_with_empty_cache(found);
        let used = self.load(I64, occupancy, offset_of!(Occupancy, used));
        let used = self.builder.ins().iadd_imm(used, -1);
        self.store(used, occupancy, offset_of!(Occupancy, used));
        let first = after(self, bucket);
        let [other, free] = [(); 2].map(|()| self.builder.append_block_param(shift_head, I64));
        self.builder.ins().jump(shift_head, &[first.into(), bucket.into()]);

        self.switch_with_empty_cache(shift_head);
        let at = address_of(self, other);
        let entry = self.load(I64, at, 0);
        self.builder.ins().brif(entry, compare, &[], clear, &[]);
        self.switch_with_empty_cache(compare);
        let its_tag = self.builder.ins().ushr_imm(entry, 32);
        let its_home = self.builder.ins().ushr(its_tag, bits);
        let [from_home, from_free] = [its_home, free].map(|bucket| {
            let distance = self.builder.ins().isub(other, bucket);
            self.builder.ins().band(distance, mask)
        });
        let moves = self.builder.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, from_home, from_free);
        let now_free = self.builder.append_block_param(shift_next, I64);
        self.builder.ins().brif(moves, move_up, &[], shift_next, &[free.into()]);
        self.switch_with_empty_cache(move_up);
        let to = address_of(self, free);
        self.store(entry, to, 0);
        self.builder.ins().jump(shift_next, &[other.into()]);
        self.switch_with_empty_cache(shift_next);
        let further = after(self, other);
        self.builder.ins().jump(shift_head, &[further.into(), now_free.into()]);

        self.switch_with_empty_cache(clear);
        let at = address_of(self, free);
        let zero = self.iconst(0);
        self.store(zero, at, 0);
        self.builder.ins().jump(end, &[]);
        self.switch_to_saved(end, &saved);
    }

    /// Whether the parameters of an instance equal these words: positions and words.
    pub(super) fn keys_equal(&mut self, instance: SlotRef, key: &[(usize, Value)]) -> Value {
        let mut are_equal = None;
        for (at, word) in key {
            let own = self.load(I64, instance.words, 8 * (PARAMS + at));
            let is_same = self.builder.ins().icmp(IntCC::Equal, own, *word);
            are_equal = Some(match are_equal {
                None => is_same,
                Some(others) => self.builder.ins().band(others, is_same),
            });
        }
        are_equal.unwrap_or_else(|| self.iconst8(1))
    }

    /// The tag of a key, as in [`HashTag::of`](crate::compiled::store::hash_index::HashTag::of).
    fn hash_tag(&mut self, key: &[(usize, Value)]) -> Value {
        let HashKey { seed, factor } = HashKey::of_process();
        let mut hash = self.iconst(seed);
        for (_, word) in key {
            let rotated = self.builder.ins().rotl_imm(*word, 32);
            let factor = self.iconst(factor);
            let a = self.builder.ins().bxor(hash, *word);
            let b = self.builder.ins().bxor(factor, rotated);
            let low = self.builder.ins().imul(a, b);
            let high = self.builder.ins().umulhi(a, b);
            let folded = self.builder.ins().bxor(low, high);
            let seed = self.iconst(seed);
            hash = self.builder.ins().bxor(folded, seed);
        }
        self.builder.ins().ushr_imm(hash, 32)
    }

    /// A time plus a period; `u64::MAX` if that overflows.
    pub(super) fn add_saturating(&mut self, time: Value, period: u64) -> Value {
        let period = self.iconst(period);
        let at = self.builder.ins().iadd(time, period);
        let fits = self.builder.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, at, time);
        let never = self.iconst(u64::MAX);
        self.builder.ins().select(fits, at, never)
    }

    /// The slot of an instance, with the address of its words.
    pub(super) fn instance(&mut self, family: usize, slot: Value) -> SlotRef {
        let first = self.context_word(self.offsets.slab(family) + SLOTS);
        let stride = self.plan.families[family].slot_words();
        let at = self.scale(slot, 8 * stride);
        let words = self.builder.ins().iadd(first, at);
        SlotRef { slot, words }
    }
}
