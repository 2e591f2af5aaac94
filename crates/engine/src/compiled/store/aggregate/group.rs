//! Grouped aggregates: aggregates over the instances of a stream, updated incrementally, one group for each key.
//!
//! A group is a row of words, so that machine code can update it:
//!
//! ```text
//! members | state | key … | words of each aggregate … | cached reader slots …
//! ```
//!
//! What does not fit words (exact sums, ranks of more than eight members) is an [`Accumulator`] beside them.

use hashbrown::HashTable;
use rust_decimal::Decimal;

use super::accumulator::Accumulator;
use super::extremum_tree::NO_RANK;
use crate::compiled::ir::aggregate::{Aggregate, RankOrder, Storage};
use crate::compiled::ir::fault::Fault;
use crate::compiled::ir::layout::Leaf;
use crate::compiled::ir::scalar::{Scalar, number};
use crate::compiled::store::lookup_cache::LookupCache;
use crate::compiled::store::words::{copy, hash, same};

/// How many instances of the group have a value.
pub(crate) const MEMBERS: usize = 0;
/// Whether the group is in use: 0 if its row is free; see also [`RETIRED`].
pub(crate) const USED: usize = 1;
/// The first word of the key.
pub(crate) const KEY: usize = 2;

/// A bit of the [`USED`] word: the group has been without members and is listed as free, but keeps its key. Most often
/// members come back; only if it is still empty when a new group is needed does it lose its row.
pub(crate) const RETIRED: u64 = 2;

/// The words of an extremum: its value, a size class, and the ranks of up to [`SOME_RANKS`] members.
pub(crate) const SIZE_CLASS: usize = 1;
pub(crate) const RANKS: usize = 2;

/// How many ranks are compared in each size class.
pub(crate) const FEW_RANKS: usize = 4;
pub(crate) const SOME_RANKS: usize = 8;

/// Size classes: the ranks in use are among the first four, among the first eight, or in an extremum tree.
const FEW: u64 = 0;
pub(crate) const SOME: u64 = 1;
const IN_TREE: u64 = 2;

/// The words that an aggregate takes in a group.
fn storage_words(storage: Storage) -> usize {
    match storage {
        Storage::MemberCount | Storage::OutOfLine => 0,
        Storage::TrueCount => 1,
        Storage::IntegerSum { .. } => 2,
        Storage::Extremum(_) => RANKS + SOME_RANKS,
    }
}

/// The groups of one key over one stream, with several aggregates.
#[derive(Clone)]
pub(crate) struct GroupedAggregate {
    key_width: usize,
    /// Words of a group.
    stride: usize,
    /// For each aggregate the position of its words.
    cells: Vec<usize>,
    words: Vec<u64>,
    /// For each group what is not in its words, if any aggregate needs that.
    side: Vec<SideState>,
    has_side: bool,
    /// Whether members have a position within their group, for extrema.
    has_positions: bool,
    /// Groups that are free or retired.
    free: Vec<u32>,
    /// For each slot of the stream its position within its group.
    positions: Vec<u32>,
    index: HashTable<u32>,
    /// Recently found groups, by key.
    lookup_cache: LookupCache,
    /// How often groups or positions have moved in memory.
    moves: u64,
}

#[derive(Clone, Default)]
struct SideState {
    /// One for each aggregate.
    accumulators: Vec<Accumulator>,
    free_positions: Vec<u32>,
    next_position: u32,
}

/// Stands for the first group where there is none, so that machine code need not ask: free, and never written.
static EMPTY_GROUP: [u64; 32] = [0; 32];

/// Whether a key has words, and fits [`EMPTY_GROUP`].
pub(crate) fn is_narrow(key_width: usize) -> bool {
    key_width > 0 && KEY + key_width <= EMPTY_GROUP.len()
}

impl GroupedAggregate {
    /// `readers` words at the end of each group cache the slots of its readers.
    pub(crate) fn new(key_width: usize, aggregates: &[Aggregate], readers: usize) -> GroupedAggregate {
        let mut stride = KEY + key_width;
        let cell = |aggregate: &Aggregate| {
            let at = stride;
            stride += storage_words(aggregate.storage());
            at
        };
        let cells = aggregates.iter().map(cell).collect();
        let any = |is_it: fn(Storage) -> bool| aggregates.iter().any(|one| is_it(one.storage()));
        GroupedAggregate {
            key_width,
            cells,
            stride: stride + readers,
            words: Vec::new(),
            side: Vec::new(),
            has_side: any(|storage| matches!(storage, Storage::Extremum(_) | Storage::OutOfLine)),
            has_positions: any(|storage| matches!(storage, Storage::Extremum(_))),
            free: Vec::new(),
            positions: Vec::new(),
            index: HashTable::new(),
            lookup_cache: LookupCache::default(),
            moves: 0,
        }
    }

    /// Words of a group.
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// The position of an aggregate's words in a group.
    pub(crate) fn cell(&self, aggregate: usize) -> usize {
        self.cells[aggregate]
    }

    /// How often groups or positions have moved in memory.
    pub(crate) fn moves(&self) -> u64 {
        self.moves
    }

    /// For machine code, until the next [move](Self::moves): the addresses of the first group, of the lookup cache, and
    /// of the positions. Where there is no group, the first is [`EMPTY_GROUP`] if the key [is narrow](is_narrow), else 0.
    pub(crate) fn vm_layout(&mut self) -> [usize; 3] {
        let groups = match self.words.as_mut_slice() {
            [] if is_narrow(self.key_width) => EMPTY_GROUP.as_ptr().expose_provenance(),
            [] => 0,
            words => words.as_mut_ptr().expose_provenance(),
        };
        [groups, self.lookup_cache.address(), self.positions.as_mut_ptr().expose_provenance()]
    }

    /// The number of a group by the address of its words.
    pub(crate) fn number(&self, address: usize) -> usize {
        (address - self.words.as_ptr().addr()) / (8 * self.stride)
    }

    /// Enters a group into the lookup cache.
    pub(crate) fn cache(&mut self, group: usize) {
        let key = &self.words[group * self.stride + KEY..][..self.key_width];
        self.lookup_cache.insert(key, group as u32);
    }

    fn groups(&self) -> usize {
        self.words.len() / self.stride
    }

    #[inline(always)]
    fn is_used(&self, group: usize) -> bool {
        self.words[group * self.stride + USED] != 0
    }

    #[inline(always)]
    fn members(&self, group: usize) -> u64 {
        self.words[group * self.stride + MEMBERS]
    }

    #[inline(always)]
    pub(crate) fn find(&self, key: &[u64]) -> Option<usize> {
        /// Up to this many groups, a linear scan is faster than hashing.
        const SCANNED: usize = 8;
        match key {
            [] => (!self.words.is_empty()).then_some(0),
            [word] if self.words.len() <= SCANNED * self.stride => {
                self.words.chunks_exact(self.stride).position(|group| group[KEY] == *word && group[USED] != 0)
            }
            _ => {
                let is_it = |group: &u32| same(self.key(*group as usize), key);
                self.index.find(hash(key), is_it).map(|group| *group as usize)
            }
        }
    }

    /// The group of a key, created if need be.
    #[inline]
    pub(crate) fn group(&mut self, key: &[u64], aggregates: &[Aggregate]) -> usize {
        match self.find(key) {
            Some(group) => group,
            None => self.create(key, aggregates),
        }
    }

    fn create(&mut self, key: &[u64], aggregates: &[Aggregate]) -> usize {
        let group = match self.take_free() {
            Some(group) => group,
            None => {
                let group = self.groups();
                self.words.resize((group + 1) * self.stride, 0);
                self.moves += 1;
                if self.has_side {
                    self.side.push(SideState::default());
                }
                group
            }
        };
        let words = &mut self.words[group * self.stride..(group + 1) * self.stride];
        words.fill(0);
        words[USED] = 1;
        copy(key, &mut words[KEY..KEY + self.key_width]);
        if self.has_side {
            let accumulators = aggregates.iter().map(|aggregate| Accumulator::new(*aggregate)).collect();
            self.side[group] = SideState { accumulators, ..SideState::default() };
        }
        self.insert(group);
        group
    }

    /// A group whose row can be reused.
    fn take_free(&mut self) -> Option<usize> {
        while let Some(group) = self.free.pop().map(|group| group as usize) {
            if self.members(group) == 0 {
                self.drop_key(group);
                return Some(group);
            }
            self.words_mut(group)[USED] &= !RETIRED;
        }
        None
    }

    /// Lists a group as free if it has no members left.
    pub(crate) fn retire_if_empty(&mut self, group: usize) {
        if self.members(group) > 0 || self.key_width == 0 {
            return;
        }
        if self.has_side {
            self.drop_key(group);
        } else if self.words[group * self.stride + USED] & RETIRED != 0 {
            return;
        } else {
            self.words_mut(group)[USED] |= RETIRED;
        }
        self.free.push(u32::try_from(group).unwrap_or(u32::MAX));
    }

    /// Drops the keys of all retired groups that are empty, so that strings in them can be dropped.
    pub(crate) fn drop_empty_keys(&mut self) {
        for at in 0..self.free.len() {
            let group = self.free[at] as usize;
            if self.members(group) == 0 {
                self.drop_key(group);
            }
        }
    }

    fn drop_key(&mut self, group: usize) {
        let entry = u32::try_from(group).unwrap_or(u32::MAX);
        if self.is_used(group)
            && let Ok(found) = self.index.find_entry(hash(self.key(group)), |other| *other == entry)
        {
            found.remove();
        }
        self.words[group * self.stride + USED] = 0;
    }

    fn insert(&mut self, group: usize) {
        let (words, stride, width) = (&self.words, self.stride, self.key_width);
        let key = |group: usize| &words[group * stride + KEY..][..width];
        let entry = u32::try_from(group).unwrap_or(u32::MAX);
        self.index.insert_unique(hash(key(group)), entry, |group| hash(key(*group as usize)));
    }

    /// For the groups in use, the sum of decimals of an aggregate, and whether it has overflowed at some time.
    pub(crate) fn decimal_sums(&self, aggregate: usize) -> impl Iterator<Item = (&[u64], Decimal, bool)> {
        let used = (0..self.groups()).filter(|group| self.is_used(*group));
        used.filter_map(move |group| match self.side.get(group)?.accumulators.get(aggregate)? {
            Accumulator::Decimal { sum, has_overflowed } => Some((self.key(group), *sum, *has_overflowed)),
            _ => None,
        })
    }

    /// Replaces the sum of decimals of an aggregate in the group of a key. The scale of a sum, and whether it has
    /// overflowed, depend on the members that have gone.
    pub(crate) fn restore_sum(
        &mut self,
        key: &[u64],
        aggregates: &[Aggregate],
        aggregate: usize,
        (total, overflowed): (Decimal, bool),
    ) {
        let group = self.group(key, aggregates);
        let accumulators = self.side.get_mut(group).map(|side| side.accumulators.as_mut_slice());
        let accumulator = accumulators.and_then(|all| all.get_mut(aggregate));
        if let Some(Accumulator::Decimal { sum, has_overflowed }) = accumulator {
            (*sum, *has_overflowed) = (total, overflowed);
        }
        self.retire_if_empty(group);
    }

    pub(crate) fn key(&self, group: usize) -> &[u64] {
        &self.words[group * self.stride + KEY..][..self.key_width]
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u64]> {
        (0..self.groups()).filter(|group| self.is_used(*group)).map(|group| self.key(group))
    }

    pub(crate) fn words_mut(&mut self, group: usize) -> &mut [u64] {
        &mut self.words[group * self.stride..][..self.stride]
    }

    /// Replaces the value of an instance in its group. A bit for each aggregate whose result may differ now.
    #[inline]
    pub(crate) fn change(
        &mut self,
        group: usize,
        slot: u32,
        old: Option<&[u64]>,
        new: Option<&[u64]>,
        aggregates: &[Aggregate],
    ) -> u64 {
        let position = if self.has_positions { self.position(group, slot, old, new) } else { 0 };
        let GroupedAggregate { words, stride, cells, side, has_side, .. } = self;
        let words = &mut words[group * *stride..][..*stride];
        let accumulators = if *has_side { side[group].accumulators.as_mut_slice() } else { &mut [] };
        let before = words[MEMBERS];
        let members = before + u64::from(new.is_some()) - u64::from(old.is_some());
        words[MEMBERS] = members;
        let one = |value: Option<&[u64]>| value.map_or(0, |value| value[0]);
        let mut changed = 0;
        for (index, (aggregate, cell)) in aggregates.iter().zip(cells.iter()).enumerate() {
            let differs = match aggregate.storage() {
                Storage::MemberCount => false,
                Storage::TrueCount => {
                    words[*cell] = words[*cell] + one(new) - one(old);
                    true
                }
                Storage::IntegerSum { is_signed } => {
                    let sum = sum_at(words, *cell) + wide(one(new), is_signed) - wide(one(old), is_signed);
                    (words[*cell], words[*cell + 1]) = (sum as u64, (sum >> 64) as u64);
                    one(new) != one(old)
                }
                Storage::Extremum(order) => {
                    let cell = &mut words[*cell..*cell + RANKS + SOME_RANKS];
                    let tree = &mut accumulators[index];
                    update_extremum(cell, order, tree, position, new.map(|value| value[0]))
                }
                Storage::OutOfLine => {
                    accumulators[index].change(old, new);
                    true
                }
            };
            // A sum or an extremum depends on the number of members only where there are none before or after.
            let by_count = match aggregate {
                Aggregate::Sum(_) | Aggregate::Min(_) | Aggregate::Max(_) => before.min(members) == 0,
                _ => true,
            };
            if differs || (by_count && before != members) {
                changed |= 1 << index;
            }
        }
        changed
    }

    /// The position of an instance within its group, taken when it gets a value and given back when it loses it.
    #[inline]
    fn position(&mut self, group: usize, slot: u32, old: Option<&[u64]>, new: Option<&[u64]>) -> u32 {
        let GroupedAggregate { positions, side, moves, .. } = self;
        let group = &mut side[group];
        if positions.len() <= slot as usize {
            positions.resize(slot as usize + 1, 0);
            *moves += 1;
        }
        let position = &mut positions[slot as usize];
        if old.is_none() {
            *position = group.free_positions.pop().unwrap_or_else(|| {
                group.next_position += 1;
                group.next_position - 1
            });
        }
        if new.is_none() {
            group.free_positions.push(*position);
        }
        *position
    }

    /// The result of an aggregate, where it is one word that need not be computed.
    #[inline(always)]
    pub(crate) fn word(&self, group: usize, index: usize, aggregate: Aggregate) -> Option<u64> {
        let words = &self.words[group * self.stride..][..self.stride];
        let cell = self.cells[index];
        match aggregate {
            _ if words[MEMBERS] == 0 => None,
            Aggregate::Count => Some(words[MEMBERS]),
            Aggregate::Min(_) | Aggregate::Max(_) => Some(words[cell]),
            Aggregate::Sum(leaf) if leaf != Leaf::Float && leaf != Leaf::Decimal => {
                (words[cell + 1] == 0 && words[cell] >> 63 == 0).then_some(words[cell])
            }
            _ => None,
        }
    }

    /// The result of an aggregate; `None` if it has none over no instance.
    pub(crate) fn value(
        &self,
        group: Option<usize>,
        index: usize,
        aggregate: Aggregate,
    ) -> Result<Option<Scalar>, Fault> {
        let group = group.filter(|group| self.members(*group) > 0);
        let Some(group) = group else { return Ok(over_nothing(aggregate)) };
        let (words, cell) = (&self.words[group * self.stride..][..self.stride], self.cells[index]);
        let members = words[MEMBERS];
        let count = members as f64;
        let accumulator =
            self.side.get(group).map_or(&Accumulator::InWords, |side| &side.accumulators[index]);
        let value = match (aggregate, accumulator) {
            (Aggregate::Count, _) => Scalar::UInt(members),
            (Aggregate::All, _) => Scalar::Bool(words[cell] == members),
            (Aggregate::Any, _) => Scalar::Bool(words[cell] > 0),
            (Aggregate::Min(leaf) | Aggregate::Max(leaf), _) => Scalar::read(&[words[cell]], leaf),
            (Aggregate::Sum(leaf), Accumulator::InWords) => integer(sum_at(words, cell), leaf)?,
            (Aggregate::Average(leaf), Accumulator::InWords) => {
                integer(sum_at(words, cell) / i128::from(members), leaf)?
            }
            (Aggregate::Average(_), Accumulator::Float(sum)) => number(sum.value() / count)?,
            (_, Accumulator::Float(sum)) => number(sum.value())?,
            (_, Accumulator::Decimal { has_overflowed: true, .. }) => return Err(Fault::DecimalOverflow),
            (Aggregate::Average(_), Accumulator::Decimal { sum, .. }) => {
                Scalar::Decimal(*sum).div(Scalar::Decimal(members.into()))?
            }
            (_, Accumulator::Decimal { sum, .. }) => Scalar::Decimal(*sum),
            (aggregate, accumulator) => {
                let moment = accumulator.moment(count).unwrap_or_default();
                number(if aggregate == Aggregate::Deviation { moment.sqrt() } else { moment })?
            }
        };
        Ok(Some(value))
    }
}

/// Gives the member at a position another value, or none; whether the extremum differs now.
#[inline]
fn update_extremum(
    cell: &mut [u64],
    order: RankOrder,
    accumulator: &mut Accumulator,
    position: u32,
    value: Option<u64>,
) -> bool {
    let before = cell[0];
    if cell[SIZE_CLASS] < IN_TREE && (position as usize) < SOME_RANKS {
        cell[SIZE_CLASS] |= if (position as usize) < FEW_RANKS { FEW } else { SOME };
        cell[RANKS + position as usize] = value.map_or(NO_RANK, |value| order.rank(value));
        let best = cell[RANKS..].iter().copied().fold(NO_RANK, u64::max);
        cell[0] = order.word(best);
    } else if let Accumulator::Extremum(tree) = accumulator {
        if std::mem::replace(&mut cell[SIZE_CLASS], IN_TREE) != IN_TREE {
            for (position, rank) in (0..).zip(&cell[RANKS..]).filter(|(_, rank)| **rank != NO_RANK) {
                tree.set(position, Some(order.word(*rank)));
            }
        }
        tree.set(position, value);
        cell[0] = tree.word().unwrap_or_default();
    }
    cell[0] != before
}

/// The result of an aggregate over no instance.
fn over_nothing(aggregate: Aggregate) -> Option<Scalar> {
    match aggregate {
        Aggregate::Count => Some(Scalar::UInt(0)),
        Aggregate::All => Some(Scalar::Bool(true)),
        Aggregate::Any => Some(Scalar::Bool(false)),
        Aggregate::Sum(leaf) => Some(Scalar::zero(leaf)),
        Aggregate::Variance | Aggregate::Deviation => Some(Scalar::Float(0.0)),
        Aggregate::Min(_) | Aggregate::Max(_) | Aggregate::Average(_) | Aggregate::Covariance => None,
    }
}

/// The sum that is stored in two words.
#[inline(always)]
fn sum_at(words: &[u64], cell: usize) -> i128 {
    i128::from(words[cell + 1].cast_signed()) << 64 | i128::from(words[cell])
}

#[inline(always)]
fn wide(word: u64, is_signed: bool) -> i128 {
    if is_signed { i128::from(word.cast_signed()) } else { i128::from(word) }
}

fn integer(value: i128, leaf: Leaf) -> Result<Scalar, Fault> {
    match leaf {
        Leaf::Int => i64::try_from(value).map(Scalar::Int),
        _ => u64::try_from(value).map(Scalar::UInt),
    }
    .map_err(|_| Fault::Overflow)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A group that empties keeps its row, and loses it only if it is still empty when another is needed.
    #[test]
    fn rows_of_empty_groups_are_reused() {
        let aggregates = [Aggregate::Count, Aggregate::Sum(Leaf::UInt)];
        let mut grouped = GroupedAggregate::new(1, &aggregates, 0);
        let change = |grouped: &mut GroupedAggregate, key: u64, old: Option<&[u64]>, new: Option<&[u64]>| {
            let group = grouped.group(&[key], &aggregates);
            grouped.change(group, 0, old, new, &aggregates);
            grouped.retire_if_empty(group);
            group
        };
        let sum = |grouped: &GroupedAggregate, key: u64| {
            let result = grouped.value(grouped.find(&[key]), 1, aggregates[1]).unwrap();
            result.map(|sum| sum.to_f64())
        };
        let first = change(&mut grouped, 7, None, Some(&[5]));
        change(&mut grouped, 7, Some(&[5]), None);
        assert_eq!((grouped.find(&[7]), sum(&grouped, 7)), (Some(first), Some(0.0)));
        // A member comes back: another key must get another row.
        change(&mut grouped, 7, None, Some(&[3]));
        let second = change(&mut grouped, 8, None, Some(&[2]));
        assert_ne!(first, second);
        assert_eq!((sum(&grouped, 7), sum(&grouped, 8)), (Some(3.0), Some(2.0)));
        // No member comes back: the row is reused, and nothing is left of what was there.
        change(&mut grouped, 7, Some(&[3]), None);
        assert_eq!(change(&mut grouped, 9, None, Some(&[1])), first);
        assert_eq!((grouped.find(&[7]), sum(&grouped, 9)), (None, Some(1.0)));
        change(&mut grouped, 9, Some(&[1]), None);
        grouped.drop_empty_keys();
        assert_eq!(grouped.keys().collect::<Vec<_>>(), [&[8]]);
        assert_eq!(change(&mut grouped, 10, None, Some(&[4])), first);
    }

    /// Changes instances at random and compares every aggregate with a computation from scratch.
    #[test]
    fn aggregates_are_those_of_the_values_there_are() {
        let aggregates = [
            Aggregate::Count,
            Aggregate::Min(Leaf::Float),
            Aggregate::Max(Leaf::Float),
            Aggregate::Sum(Leaf::Float),
            Aggregate::Average(Leaf::Float),
            Aggregate::Variance,
        ];
        let mut grouped = GroupedAggregate::new(1, &aggregates, 0);
        let mut values: Vec<Option<f64>> = vec![None; 40];
        let mut random = 1_u64;
        // Miri runs a thousand times slower.
        for step in 0..if cfg!(miri) { 60 } else { 4000 } {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let slot = (random >> 33) as usize % values.len();
            let new = (!(random >> 20).is_multiple_of(4)).then_some((random >> 40) as f64 / 1e5 - 50.0);
            let group = grouped.group(&[slot as u64 % 3], &aggregates);
            let words = |value: Option<f64>| value.map(|value| [value.to_bits()]);
            let old = std::mem::replace(&mut values[slot], new);
            let (old, new) = (words(old), words(new));
            let (old, new) = (old.as_ref().map(|w| &w[..]), new.as_ref().map(|w| &w[..]));
            grouped.change(group, slot as u32, old, new, &aggregates);
            if step % 7 != 0 {
                continue;
            }
            let members: Vec<f64> = values
                .iter()
                .enumerate()
                .filter(|(at, _)| at % 3 == slot % 3)
                .filter_map(|(_, value)| *value)
                .collect();
            let read = |index: usize| match grouped.value(Some(group), index, aggregates[index]).unwrap() {
                Some(scalar) => scalar.to_f64(),
                None => f64::NAN,
            };
            assert_eq!(read(0), members.len() as f64);
            if members.is_empty() {
                assert!(read(1).is_nan() && read(2).is_nan() && read(4).is_nan());
                assert_eq!((read(3), read(5)), (0.0, 0.0));
                continue;
            }
            assert_eq!(read(1), members.iter().copied().fold(f64::INFINITY, f64::min));
            assert_eq!(read(2), members.iter().copied().fold(f64::NEG_INFINITY, f64::max));
            let sum: f64 = members.iter().sum();
            let mean = sum / members.len() as f64;
            let variance = members.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / members.len() as f64;
            assert!((read(3) - sum).abs() < 1e-10 && (read(4) - mean).abs() < 1e-10);
            assert!((read(5) - variance).abs() <= 1e-10 * variance, "{} {variance}", read(5));
        }
    }
}
