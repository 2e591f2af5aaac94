//! Grouped aggregates: replaces and removes values in a group, and reads aggregates.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value};

use super::expr::{ExprEmitter, SlotRef};
use super::runtime_calls;
use super::value_cache::Invalidation;
use super::vm_context::VmContext;
use super::vm_context::{GROUP_CACHE, GROUPS, POSITIONS};
use crate::compiled::ir::aggregate::{Aggregate, RankOrder, Storage};
use crate::compiled::ir::layout::Leaf;
use crate::compiled::ir::op::FrameSlot;
use crate::compiled::ir::update_rule::GroupUpdate;
use crate::compiled::store::aggregate::group::{
    FEW_RANKS, GroupedAggregate, KEY, MEMBERS, RANKS, SIZE_CLASS, SOME, SOME_RANKS, USED, is_narrow,
};
use crate::compiled::store::lookup_cache::{CACHE_ENTRIES, FACTOR};

/// The sign bit of a word.
const SIGN: i64 = i64::MIN;

/// A new value of an instance.
#[derive(Clone, Copy)]
pub(super) struct ValueChange {
    /// Not 0 if there was a value before.
    pub(super) had: Value,
    /// The value before; meaningless if there was none.
    pub(super) old: Value,
    /// The new value.
    pub(super) new: Value,
}

/// What an update of a group means for one of its aggregates.
pub(super) struct AggregateChange {
    /// Not 0 if the aggregate may differ from before. `None`: assume that it does.
    pub(super) may_differ: Option<Value>,
    /// Not 0 if the aggregate is 0 now. `None`: not known.
    pub(super) is_zero: Option<Value>,
    /// The address of the words of the group.
    pub(super) group: Value,
}

impl AggregateChange {
    fn of_group(may_differ: Value, group: Value) -> AggregateChange {
        AggregateChange { may_differ: Some(may_differ), is_zero: None, group }
    }
}

impl<'p> ExprEmitter<'p, '_> {
    /// Replaces a value in its group, or adds it: the change of each aggregate. `update` is the stream and the number
    /// of its group update, packed.
    pub(super) fn replace_value(
        &mut self,
        group_update: &GroupUpdate,
        update: u64,
        instance: SlotRef,
        change: ValueChange,
    ) -> Vec<AggregateChange> {
        let (aggregates, grouped) =
            (&self.plan.grouped[group_update.grouped].aggregates, &self.grouped[group_update.grouped]);
        let is_extremum = |aggregate: &Aggregate| matches!(aggregate.storage(), Storage::Extremum(_));
        if aggregates.iter().all(is_extremum) {
            return self.replace_in_extrema(group_update, update, instance, change);
        }
        if !aggregates.iter().all(is_additive) {
            let (bits, group) = self.call_update_group(update, instance, change);
            let bits = self.split_bits(bits, aggregates.len());
            return bits.into_iter().map(|may_differ| AggregateChange::of_group(may_differ, group)).collect();
        }
        let group = self.find_or_create_group(group_update, update, instance);
        self.replace_in_words(grouped, aggregates, group, change)
    }

    /// Removes a value from its group, whose aggregates must all be [additive](is_additive): the change of each
    /// aggregate, and how many members are left.
    pub(super) fn remove_value(
        &mut self,
        group_update: &GroupUpdate,
        update: u64,
        instance: SlotRef,
        old: Value,
    ) -> (Vec<AggregateChange>, Value) {
        let (aggregates, grouped) =
            (&self.plan.grouped[group_update.grouped].aggregates, &self.grouped[group_update.grouped]);
        let group = self.find_or_create_group(group_update, update, instance);
        let members = self.load(I64, group, 8 * MEMBERS);
        let members = self.builder.ins().iadd_imm(members, -1);
        self.store(members, group, 8 * MEMBERS);
        let mut each = |(index, aggregate): (usize, &Aggregate)| {
            let cell = 8 * grouped.cell(index);
            let remainder = match aggregate.storage() {
                Storage::TrueCount => {
                    let count = self.load(I64, group, cell);
                    let count = self.builder.ins().isub(count, old);
                    self.store(count, group, cell);
                    None
                }
                Storage::IntegerSum { is_signed } => {
                    let zero = self.iconst(0);
                    let [low, high] = self.add_to_sum(group, cell, zero, old, is_signed);
                    matches!(aggregate, Aggregate::Sum(_)).then(|| self.builder.ins().bor(low, high))
                }
                Storage::MemberCount => Some(members),
                Storage::Extremum(_) | Storage::OutOfLine => None,
            };
            let is_zero = remainder.map(|word| self.builder.ins().icmp_imm(IntCC::Equal, word, 0));
            let reports_change = self.reports_change(aggregate);
            let may_differ = reports_change.then(|| {
                let was_last = self.builder.ins().icmp_imm(IntCC::Equal, members, 0);
                let was_nonzero = self.builder.ins().icmp_imm(IntCC::NotEqual, old, 0);
                self.builder.ins().bor(was_last, was_nonzero)
            });
            AggregateChange { may_differ, is_zero, group }
        };
        (aggregates.iter().enumerate().map(&mut each).collect(), members)
    }

    /// Whether code is emitted to find out if the removal of a value changes an aggregate. For sums at ticks and
    /// deadlines it is not: many members leave before the sum is read once, and by then it has changed.
    fn reports_change(&self, aggregate: &Aggregate) -> bool {
        matches!(aggregate, Aggregate::Sum(_)) && self.present != 0
    }

    /// The address of the words of the group that an instance belongs to, which is created if need be.
    fn find_or_create_group(&mut self, group_update: &GroupUpdate, update: u64, instance: SlotRef) -> Value {
        let key: Vec<Value> =
            group_update.key_words.iter().map(|word| self.load(I64, instance.words, 8 * word)).collect();
        let [found, missing] = [(); 2].map(|()| self.builder.create_block());
        let group = self.builder.append_block_param(found, I64);
        let saved = self.save_state();
        self.find_cached_group(group_update.grouped, &key, found, missing);
        self.switch_to_saved(missing, &saved);
        let update = self.iconst(update);
        self.call_with(runtime_calls::find_group as *const u8, &[update, instance.slot]);
        self.invalidate(Invalidation::Addresses);
        let words = self.load(I64, self.context, offset_of!(VmContext, group));
        self.builder.ins().jump(found, &[words.into()]);
        self.switch_to_saved(found, &saved);
        group
    }

    /// Replaces a value by a runtime call: a bit for each aggregate that may differ, and the address of the group.
    fn call_update_group(&mut self, update: u64, instance: SlotRef, change: ValueChange) -> (Value, Value) {
        let ValueChange { had, old, new } = change;
        let update = self.iconst(update);
        let bits =
            self.call_with(runtime_calls::update_group as *const u8, &[update, instance.slot, had, old, new]);
        self.invalidate(Invalidation::Addresses);
        (bits, self.load(I64, self.context, offset_of!(VmContext, group)))
    }

    /// Not 0 if one of two values is not 0. Both may be bytes or words.
    pub(super) fn or_words(&mut self, one: Value, other: Value) -> Value {
        let [one, other] = [one, other].map(|word| match self.builder.func.dfg.value_type(word) {
            I64 => word,
            _ => self.builder.ins().uextend(I64, word),
        });
        self.builder.ins().bor(one, other)
    }

    /// One word for each of the lowest bits.
    fn split_bits(&mut self, bits: Value, count: usize) -> Vec<Value> {
        (0..count).map(|index| self.builder.ins().band_imm(bits, 1_i64 << index)).collect()
    }

    /// Replaces a value where all aggregates are extrema. Groups of up to [`SOME_RANKS`] members are updated inline;
    /// larger ones, and new values, by a runtime call.
    fn replace_in_extrema(
        &mut self,
        group_update: &GroupUpdate,
        update: u64,
        instance: SlotRef,
        change: ValueChange,
    ) -> Vec<AggregateChange> {
        let saved = self.save_state();
        let (aggregates, grouped) =
            (&self.plan.grouped[group_update.grouped].aggregates, &self.grouped[group_update.grouped]);
        let [had_value, found, few, more, some, call, done] = [(); 7].map(|()| self.builder.create_block());
        let group = self.builder.append_block_param(found, I64);
        let words = self.builder.append_block_param(done, I64);
        let may_differ: Vec<Value> =
            aggregates.iter().map(|_| self.builder.append_block_param(done, I64)).collect();
        self.builder.ins().brif(change.had, had_value, &[], call, &[]);
        self.switch_to_successor(had_value);
        let key: Vec<Value> =
            group_update.key_words.iter().map(|word| self.load(I64, instance.words, 8 * word)).collect();
        self.find_cached_group(group_update.grouped, &key, found, call);
        self.switch_to_saved(found, &saved);
        // All aggregates of a group have the same members, and so the same size class.
        let size_class = self.load(I64, group, 8 * (grouped.cell(0) + SIZE_CLASS));
        self.builder.ins().brif(size_class, more, &[], few, &[]);
        let in_group = self.save_state();
        for (block, ranks) in [(few, FEW_RANKS), (some, SOME_RANKS)] {
            self.switch_to_saved(block, &in_group);
            let mut results = vec![BlockArg::from(group)];
            results.extend(self.update_all_extrema(group_update, ranks, [instance.slot, group], change.new));
            self.builder.ins().jump(done, &results);
        }
        self.switch_to_saved(more, &in_group);
        let are_some = self.builder.ins().icmp_imm(IntCC::Equal, size_class, SOME.cast_signed());
        self.builder.ins().brif(are_some, some, &[], call, &[]);
        self.switch_to_saved(call, &saved);
        let (bits, group) = self.call_update_group(update, instance, change);
        let mut results = vec![BlockArg::from(group)];
        results.extend(self.split_bits(bits, aggregates.len()).into_iter().map(BlockArg::from));
        self.builder.ins().jump(done, &results);
        self.switch_to_saved(done, &saved);
        may_differ.into_iter().map(|may_differ| AggregateChange::of_group(may_differ, words)).collect()
    }

    /// Replaces a value in all extrema of a group with up to `ranks` members: for each extremum, whether it differs.
    fn update_all_extrema(
        &mut self,
        group_update: &GroupUpdate,
        ranks: usize,
        [slot, group]: [Value; 2],
        new: Value,
    ) -> Vec<BlockArg> {
        let (aggregates, grouped) =
            (&self.plan.grouped[group_update.grouped].aggregates, &self.grouped[group_update.grouped]);
        let positions = self.context_word(self.offsets.grouped(group_update.grouped) + POSITIONS);
        let at = self.builder.ins().ishl_imm(slot, 2);
        let at = self.builder.ins().iadd(positions, at);
        let position = self.load(I32, at, 0);
        let position = self.builder.ins().uextend(I64, position);
        let position = self.builder.ins().ishl_imm(position, 3);
        let at_position = self.builder.ins().iadd(group, position);
        // All aggregates are over one stream, and so over one type.
        let leaf = aggregates.iter().find_map(|aggregate| match aggregate.storage() {
            Storage::Extremum(order) => Some(order.leaf),
            _ => None,
        });
        let rank = self.rank(leaf, new);
        let mut may_differ = Vec::new();
        for (index, aggregate) in aggregates.iter().enumerate() {
            let Storage::Extremum(order) = aggregate.storage() else { continue };
            let is_other =
                self.update_extremum((order, ranks), [group, at_position], 8 * grouped.cell(index), rank);
            may_differ.push(BlockArg::from(self.builder.ins().uextend(I64, is_other)));
        }
        may_differ
    }

    /// An unsigned word in the same order as the values.
    fn rank(&mut self, leaf: Option<Leaf>, value: Value) -> Value {
        match leaf {
            Some(Leaf::Int) => self.builder.ins().bxor_imm(value, SIGN),
            Some(Leaf::Float) => {
                let sign = self.builder.ins().sshr_imm(value, 63);
                let mask = self.builder.ins().bor_imm(sign, SIGN);
                self.builder.ins().bxor(value, mask)
            }
            _ => value,
        }
    }

    /// Stores the rank of a member, `cell` bytes after `at_position`, and finds the extremum of all ranks without
    /// branching. Whether it differs.
    fn update_extremum(
        &mut self,
        (order, ranks): (RankOrder, usize),
        [group, at_position]: [Value; 2],
        cell: usize,
        rank: Value,
    ) -> Value {
        let flip = |expr: &mut Self, word: Value| {
            if order.largest { word } else { expr.builder.ins().bnot(word) }
        };
        let rank = flip(self, rank);
        self.store(rank, at_position, cell + 8 * RANKS);
        let mut best = self.load(I64, group, cell + 8 * RANKS);
        for at in 1..ranks {
            let other = self.load(I64, group, cell + 8 * (RANKS + at));
            best = self.builder.ins().umax(best, other);
        }
        let best = flip(self, best);
        let word = match order.leaf {
            Leaf::Int => self.builder.ins().bxor_imm(best, SIGN),
            Leaf::Float => {
                // In a rank, a set sign bit means that the float is not negative.
                let sign = self.builder.ins().sshr_imm(best, 63);
                let negative = self.builder.ins().bnot(sign);
                let mask = self.builder.ins().bor_imm(negative, SIGN);
                self.builder.ins().bxor(best, mask)
            }
            _ => best,
        };
        let before = self.load(I64, group, cell);
        self.store(word, group, cell);
        self.builder.ins().icmp(IntCC::NotEqual, before, word)
    }

    /// Continues at `found` with the address of the group of a key if the lookup cache has it, otherwise at `missing`.
    fn find_cached_group(&mut self, number: usize, key: &[Value], found: Block, missing: Block) {
        let [exists, hit] = [(); 2].map(|()| self.builder.create_block());
        let first = self.context_word(self.offsets.grouped(number) + GROUPS);
        if !is_narrow(key.len()) {
            self.builder.ins().brif(first, exists, &[], missing, &[]);
            self.switch_to_successor(exists);
        }
        if key.is_empty() {
            self.builder.ins().jump(hit, &[]);
            self.switch_to_successor(hit);
            self.builder.ins().jump(found, &[first.into()]);
            return;
        }
        let cache = self.context_word(self.offsets.grouped(number) + GROUP_CACHE);
        let at = self.cache_entry(key);
        let at = self.builder.ins().iadd(cache, at);
        let group = self.load(I32, at, 0);
        let group = self.builder.ins().uextend(I64, group);
        let at = self.scale(group, 8 * self.grouped[number].stride());
        let words = self.builder.ins().iadd(first, at);
        let mut is_match = self.load(I64, words, 8 * USED);
        for (at, word) in key.iter().enumerate() {
            let own = self.load(I64, words, 8 * (KEY + at));
            let is_same = self.builder.ins().icmp(IntCC::Equal, own, *word);
            let is_same = self.builder.ins().uextend(I64, is_same);
            is_match = self.builder.ins().band(is_match, is_same);
        }
        self.builder.ins().brif(is_match, hit, &[], missing, &[]);
        self.switch_to_successor(hit);
        self.builder.ins().jump(found, &[words.into()]);
    }

    /// The offset in bytes of the entry of a key in a
    /// [`LookupCache`](crate::compiled::store::lookup_cache::LookupCache).
    pub(super) fn cache_entry(&mut self, key: &[Value]) -> Value {
        let mut words = key.iter().copied();
        let mut sum = words.next().unwrap_or_else(|| self.iconst(0));
        for word in words {
            let scaled = self.builder.ins().imul_imm(sum, FACTOR.cast_signed());
            sum = self.builder.ins().iadd(scaled, word);
        }
        let at = self.builder.ins().band_imm(sum, CACHE_ENTRIES as i64 - 1);
        self.builder.ins().ishl_imm(at, 2)
    }

    /// Replaces a value in a group whose aggregates are all [additive](is_additive).
    fn replace_in_words(
        &mut self,
        grouped: &GroupedAggregate,
        aggregates: &[Aggregate],
        group: Value,
        change: ValueChange,
    ) -> Vec<AggregateChange> {
        let is_new = self.builder.ins().icmp_imm(IntCC::Equal, change.had, 0);
        let zero = self.iconst(0);
        let old = self.builder.ins().select(is_new, zero, change.old);
        let differs = self.builder.ins().icmp(IntCC::NotEqual, old, change.new);
        let members = self.load(I64, group, 8 * MEMBERS);
        let more = self.builder.ins().uextend(I64, is_new);
        let more = self.builder.ins().iadd(members, more);
        self.store(more, group, 8 * MEMBERS);
        let is_first = self.builder.ins().icmp_imm(IntCC::Equal, members, 0);
        let mut each = |(index, aggregate): (usize, &Aggregate)| {
            let cell = 8 * grouped.cell(index);
            let may_differ = match aggregate.storage() {
                Storage::TrueCount => {
                    let count = self.load(I64, group, cell);
                    let count = self.builder.ins().iadd(count, change.new);
                    let count = self.builder.ins().isub(count, old);
                    self.store(count, group, cell);
                    None
                }
                Storage::IntegerSum { is_signed } => {
                    self.add_to_sum(group, cell, change.new, old, is_signed);
                    let by_members = if matches!(aggregate, Aggregate::Sum(_)) { is_first } else { is_new };
                    let may_differ = self.builder.ins().bor(differs, by_members);
                    (self.present != 0 || !matches!(aggregate, Aggregate::Sum(_))).then_some(may_differ)
                }
                Storage::MemberCount | Storage::Extremum(_) | Storage::OutOfLine => Some(is_new),
            };
            AggregateChange { may_differ, is_zero: None, group }
        };
        aggregates.iter().enumerate().map(&mut each).collect()
    }

    /// Adds one word to a sum of two words and subtracts another: the two words of the result.
    fn add_to_sum(
        &mut self,
        group: Value,
        cell: usize,
        new: Value,
        old: Value,
        is_signed: bool,
    ) -> [Value; 2] {
        let (low, high) = (self.load(I64, group, cell), self.load(I64, group, cell + 8));
        let sum = self.builder.ins().iadd(low, new);
        let carry = self.builder.ins().icmp(IntCC::UnsignedLessThan, sum, low);
        let carry = self.builder.ins().uextend(I64, carry);
        let mut high = self.builder.ins().iadd(high, carry);
        let low = self.builder.ins().isub(sum, old);
        let borrow = self.builder.ins().icmp(IntCC::UnsignedLessThan, sum, old);
        let borrow = self.builder.ins().uextend(I64, borrow);
        high = self.builder.ins().isub(high, borrow);
        if is_signed {
            let (more, less) = (self.builder.ins().sshr_imm(new, 63), self.builder.ins().sshr_imm(old, 63));
            high = self.builder.ins().iadd(high, more);
            high = self.builder.ins().isub(high, less);
        }
        self.store(low, group, cell);
        self.store(high, group, cell + 8);
        [low, high]
    }

    /// Reads an aggregate with [`is_read_inline`]. Continues at `done` with a flag and the word if its group is cached
    /// and its value fits a positive word, otherwise at `otherwise`.
    pub(super) fn read_word(
        &mut self,
        [number, index]: [usize; 2],
        key: FrameSlot,
        [done, otherwise]: [Block; 2],
    ) {
        let (plan, grouped) = (&self.plan.grouped[number], &self.grouped[number]);
        let aggregate = plan.aggregates[index];
        let key: Vec<Value> =
            (0..plan.key_words.len()).map(|at| self.load_slot(key + at as FrameSlot)).collect();
        let found = self.builder.create_block();
        let group = self.builder.append_block_param(found, I64);
        self.find_cached_group(number, &key, found, otherwise);
        self.switch_to_successor(found);
        let members = self.load(I64, group, 8 * MEMBERS);
        let cell = 8 * grouped.cell(index);
        let (flag, word) = match aggregate {
            Aggregate::Count => (self.iconst(1), members),
            Aggregate::Min(_) | Aggregate::Max(_) => {
                let word = self.load(I64, group, cell);
                let zero = self.iconst(0);
                let word = self.builder.ins().select(members, word, zero);
                let has_members = self.builder.ins().icmp_imm(IntCC::NotEqual, members, 0);
                (self.builder.ins().uextend(I64, has_members), word)
            }
            // A sum over no members is 0.
            _ => {
                let fits = self.builder.create_block();
                let (low, high) = (self.load(I64, group, cell), self.load(I64, group, cell + 8));
                let sign = self.builder.ins().ushr_imm(low, 63);
                let excess = self.builder.ins().bor(high, sign);
                self.builder.ins().brif(excess, otherwise, &[], fits, &[]);
                self.switch_to_successor(fits);
                (self.iconst(1), low)
            }
        };
        self.builder.ins().jump(done, &[flag.into(), word.into()]);
    }
}

/// Whether the state of an aggregate is words that values are added to and subtracted from.
pub(super) fn is_additive(aggregate: &Aggregate) -> bool {
    !matches!(aggregate.storage(), Storage::Extremum(_) | Storage::OutOfLine)
}

/// Whether the value of an aggregate usually is one word of its group.
pub(super) fn is_read_inline(aggregate: Aggregate) -> bool {
    match aggregate {
        Aggregate::Sum(_) => matches!(aggregate.storage(), Storage::IntegerSum { .. }),
        aggregate => matches!(aggregate.storage(), Storage::MemberCount | Storage::Extremum(_)),
    }
}
