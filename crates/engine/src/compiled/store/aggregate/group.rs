//! Aggregates over the instances of a stream, accumulators up to date as instances change, one group for
//! each combination of parameters that readers ask for.

use hashbrown::HashTable;
use serde::{Deserialize, Serialize};

use crate::compiled::ir::fault::Fault;
use crate::compiled::ir::layout::Leaf;
use crate::compiled::ir::scalar::{Scalar, number};
use crate::compiled::store::aggregate::accumulator::Accumulator;
use crate::compiled::store::aggregate::extremum_tree::{NO_RANK, RankOrder};
use crate::compiled::store::lookup_cache::LookupCache;
use crate::compiled::store::words::{copy, hash, same};

/// What a tally keeps for a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aggregate {
    Count,
    /// Whether all are true.
    All,
    /// Whether any is true.
    Any,
    Min(Leaf),
    Max(Leaf),
    Sum(Leaf),
    Average(Leaf),
    Variance,
    Deviation,
    Covariance,
}

/// How a measure is accumulators in the words of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Storage {
    /// It is the number of members.
    Members,
    /// How many are true: a word.
    True,
    /// The sum of whole numbers: two words, the low one first.
    Whole { is_signed: bool },
    /// The word of the smallest or largest, if there are members; whether there are many, whose ranks are accumulators
    /// beside words; and the ranks of [some](SOME_RANKS).
    Extremum(RankOrder),
    /// Not in words.
    Beside,
}

impl Aggregate {
    pub(crate) fn storage(self) -> Storage {
        match self {
            Aggregate::Count => Storage::Members,
            Aggregate::All | Aggregate::Any => Storage::True,
            Aggregate::Min(leaf) => Storage::Extremum(RankOrder { largest: false, leaf }),
            Aggregate::Max(leaf) => Storage::Extremum(RankOrder { largest: true, leaf }),
            Aggregate::Sum(leaf) | Aggregate::Average(leaf) => match leaf {
                Leaf::Float | Leaf::Decimal => Storage::Beside,
                leaf => Storage::Whole { is_signed: leaf == Leaf::Int },
            },
            Aggregate::Variance | Aggregate::Deviation | Aggregate::Covariance => Storage::Beside,
        }
    }
}

impl Storage {
    fn words(self) -> usize {
        match self {
            Storage::Members | Storage::Beside => 0,
            Storage::True => 1,
            Storage::Whole { .. } => 2,
            Storage::Extremum(_) => RANKS + SOME_RANKS,
        }
    }
}

/// The words of a group: how many instances of it have a value, ...
pub(crate) const MEMBERS: usize = 0;
/// ... whether it is anybody's, and not a free place, and whether it is [listed](LISTED), ...
pub(crate) const USED: usize = 1;
/// ... and its key. Those of the measures follow, and then for each kind of reader the slot of the instance that
/// reads the group, plus one, once somebody has looked for it.
pub(crate) const KEY: usize = 2;

/// A bit beside that of its use: the group has had no members at some time since, and may be given to another key if
/// it still has none. Most often they come back, as groups of people do.
pub(crate) const LISTED: u64 = 2;

/// Of a winner: where it says whether there are a few, or [some](SOME_RANKS), or many, whose ranks are elsewhere; where
/// the ranks begin; and how many are a few and some at most.
pub(crate) const MANY: usize = 1;
pub(crate) const RANKS: usize = 2;
pub(crate) const FEW_RANKS: usize = 4;
pub(crate) const SOME_RANKS: usize = 8;

/// What it says there.
const FEW: u64 = 0;
pub(crate) const SOME: u64 = 1;
const TOO_MANY: u64 = 2;

/// The groups of a tally.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct GroupedAggregate {
    key_width: usize,
    /// How many words a group has.
    stride: usize,
    /// For each measure where its words are.
    cells: Vec<usize>,
    words: Vec<u64>,
    /// For each group what is not in its words, if there is such a thing.
    beside: Vec<Beside>,
    has_beside: bool,
    /// Whether a group needs to know which of its values are whose.
    has_places: bool,
    /// Groups that are free or listed.
    free: Vec<u32>,
    /// For each slot of the stream its place in the trees of its group.
    places: Vec<u32>,
    #[serde(skip)]
    table: HashTable<u32>,
    /// Groups that somebody has looked for, by their keys.
    #[serde(skip)]
    recent: LookupCache,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Beside {
    accumulators: Vec<Accumulator>,
    free_places: Vec<u32>,
    next_place: u32,
}

static NO_GROUP: [u64; 32] = [0; 32];

/// Whether a key has words, and not too many.
pub(crate) fn is_narrow(key_width: usize) -> bool {
    key_width > 0 && KEY + key_width <= NO_GROUP.len()
}

impl GroupedAggregate {
    /// For so many kinds of readers.
    pub(crate) fn new(key_width: usize, aggregates: &[Aggregate], readers: usize) -> GroupedAggregate {
        let mut stride = KEY + key_width;
        let cell = |aggregate: &Aggregate| {
            let at = stride;
            stride += aggregate.storage().words();
            at
        };
        let cells = aggregates.iter().map(cell).collect();
        let storage = |aggregate: &Aggregate| aggregate.storage();
        GroupedAggregate {
            key_width,
            cells,
            stride: stride + readers,
            words: Vec::new(),
            beside: Vec::new(),
            has_beside: aggregates
                .iter()
                .map(storage)
                .any(|storage| matches!(storage, Storage::Extremum(_) | Storage::Beside)),
            has_places: aggregates.iter().map(storage).any(|storage| matches!(storage, Storage::Extremum(_))),
            free: Vec::new(),
            places: Vec::new(),
            table: HashTable::new(),
            recent: LookupCache::default(),
        }
    }

    /// How many words a group has.
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// Where in a group the words of a measure are.
    pub(crate) fn cell(&self, aggregate: usize) -> usize {
        self.cells[aggregate]
    }

    /// Where the first group is in memory, until there is a new one. If there is none, a group that is free and not to be
    /// written is there for keys that [are narrow](is_narrow), and 0 for others.
    pub(crate) fn address(&mut self) -> usize {
        match self.words.as_mut_slice() {
            [] if is_narrow(self.key_width) => NO_GROUP.as_ptr().expose_provenance(),
            [] => 0,
            words => words.as_mut_ptr().expose_provenance(),
        }
    }

    /// Where the numbers of recent groups are in memory.
    pub(crate) fn lookup_cache_address(&mut self) -> usize {
        self.recent.address()
    }

    /// Where the places of instances in their groups are in memory, until there are more.
    pub(crate) fn places_address(&mut self) -> usize {
        self.places.as_mut_ptr().expose_provenance()
    }

    /// Lets a group be found by its key without looking.
    pub(crate) fn remember(&mut self, group: usize) {
        let key = &self.words[group * self.stride + KEY..][..self.key_width];
        self.recent.remember(key, group as u32);
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
        const FEW: usize = 8;
        match key {
            [] => (!self.words.is_empty()).then_some(0),
            // Most often there are a few groups of people, and looking is faster than hashing.
            [word] if self.words.len() <= FEW * self.stride => {
                self.words.chunks_exact(self.stride).position(|group| group[KEY] == *word && group[USED] != 0)
            }
            _ => {
                let is_it = |group: &u32| same(self.key(*group as usize), key);
                self.table.find(hash(key), is_it).map(|group| *group as usize)
            }
        }
    }

    /// The group of a key, new if need be.
    #[inline]
    pub(crate) fn group(&mut self, key: &[u64], aggregates: &[Aggregate]) -> usize {
        match self.find(key) {
            Some(group) => group,
            None => self.new_group(key, aggregates),
        }
    }

    fn new_group(&mut self, key: &[u64], aggregates: &[Aggregate]) -> usize {
        let group = match self.take_free() {
            Some(group) => group,
            None => {
                let group = self.groups();
                self.words.resize((group + 1) * self.stride, 0);
                if self.has_beside {
                    self.beside.push(Beside::default());
                }
                group
            }
        };
        let words = &mut self.words[group * self.stride..(group + 1) * self.stride];
        words.fill(0);
        words[USED] = 1;
        copy(key, &mut words[KEY..KEY + self.key_width]);
        if self.has_beside {
            let accumulators = aggregates.iter().map(|aggregate| Accumulator::new(*aggregate)).collect();
            self.beside[group] = Beside { accumulators, ..Beside::default() };
        }
        self.enter(group);
        group
    }

    /// A group that nobody needs any more.
    fn take_free(&mut self) -> Option<usize> {
        while let Some(group) = self.free.pop().map(|group| group as usize) {
            if self.members(group) == 0 {
                self.forget(group);
                return Some(group);
            }
            self.words_mut(group)[USED] &= !LISTED;
        }
        None
    }

    /// Another key may have the place of a group that has no members left.
    pub(crate) fn tidy(&mut self, group: usize) {
        if self.members(group) > 0 || self.key_width == 0 {
            return;
        }
        if self.has_beside {
            self.forget(group);
        } else if self.words[group * self.stride + USED] & LISTED != 0 {
            return;
        } else {
            self.words_mut(group)[USED] |= LISTED;
        }
        self.free.push(u32::try_from(group).unwrap_or(u32::MAX));
    }

    /// Forgets the keys of all groups without members.
    pub(crate) fn forget_empty(&mut self) {
        for at in 0..self.free.len() {
            let group = self.free[at] as usize;
            if self.members(group) == 0 {
                self.forget(group);
            }
        }
    }

    fn forget(&mut self, group: usize) {
        let entry = u32::try_from(group).unwrap_or(u32::MAX);
        if self.is_used(group)
            && let Ok(found) = self.table.find_entry(hash(self.key(group)), |other| *other == entry)
        {
            found.remove();
        }
        self.words[group * self.stride + USED] = 0;
    }

    fn enter(&mut self, group: usize) {
        let (words, stride, width) = (&self.words, self.stride, self.key_width);
        let key = |group: usize| &words[group * stride + KEY..][..width];
        let entry = u32::try_from(group).unwrap_or(u32::MAX);
        self.table.insert_unique(hash(key(group)), entry, |group| hash(key(*group as usize)));
    }

    /// Builds the table anew once the groups have been read back.
    pub(crate) fn index(&mut self) {
        self.table.clear();
        for group in 0..self.groups() {
            if self.is_used(group) {
                self.enter(group);
            }
        }
    }

    pub(crate) fn key(&self, group: usize) -> &[u64] {
        &self.words[group * self.stride + KEY..][..self.key_width]
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u64]> {
        (0..self.groups()).filter(|group| self.is_used(*group)).map(|group| self.key(group))
    }

    /// The number of a group whose words are there in memory.
    pub(crate) fn number(&self, address: usize) -> usize {
        (address - self.words.as_ptr().addr()) / (8 * self.stride)
    }

    pub(crate) fn words_mut(&mut self, group: usize) -> &mut [u64] {
        &mut self.words[group * self.stride..][..self.stride]
    }

    /// An instance of a group has a new value instead of its old one. A bit for each measure whose
    /// result may be another one now.
    #[inline]
    pub(crate) fn change(
        &mut self,
        group: usize,
        slot: u32,
        old: Option<&[u64]>,
        new: Option<&[u64]>,
        aggregates: &[Aggregate],
    ) -> u64 {
        let place = if self.has_places { self.place(group, slot, old, new) } else { 0 };
        let GroupedAggregate { words, stride, cells, beside, has_beside, .. } = self;
        let words = &mut words[group * *stride..][..*stride];
        let accumulators = if *has_beside { beside[group].accumulators.as_mut_slice() } else { &mut [] };
        let before = words[MEMBERS];
        let members = before + u64::from(new.is_some()) - u64::from(old.is_some());
        words[MEMBERS] = members;
        let one = |value: Option<&[u64]>| value.map_or(0, |value| value[0]);
        let mut changed = 0;
        for (index, (aggregate, cell)) in aggregates.iter().zip(cells.iter()).enumerate() {
            let is_other = match aggregate.storage() {
                Storage::Members => false,
                Storage::True => {
                    words[*cell] = words[*cell] + one(new) - one(old);
                    true
                }
                Storage::Whole { is_signed } => {
                    let sum = whole_at(words, *cell) + wide(one(new), is_signed) - wide(one(old), is_signed);
                    (words[*cell], words[*cell + 1]) = (sum as u64, (sum >> 64) as u64);
                    one(new) != one(old)
                }
                Storage::Extremum(order) => {
                    let cell = &mut words[*cell..*cell + RANKS + SOME_RANKS];
                    update_extremum(cell, order, &mut accumulators[index], place, new.map(|value| value[0]))
                }
                Storage::Beside => {
                    accumulators[index].change(old, new);
                    true
                }
            };
            // A sum, an extreme or a truth value stays as it is where a member comes that does not
            // matter, unless it is the first or the last.
            let by_number = match aggregate {
                Aggregate::Sum(_) | Aggregate::Min(_) | Aggregate::Max(_) => before.min(members) == 0,
                _ => true,
            };
            if is_other || (by_number && before != members) {
                changed |= 1 << index;
            }
        }
        changed
    }

    /// The place of an instance in the trees of its group, where it keeps it, gets one or gives it back.
    #[inline]
    fn place(&mut self, group: usize, slot: u32, old: Option<&[u64]>, new: Option<&[u64]>) -> u32 {
        let GroupedAggregate { places, beside, .. } = self;
        let group = &mut beside[group];
        if places.len() <= slot as usize {
            places.resize(slot as usize + 1, 0);
        }
        let place = &mut places[slot as usize];
        if old.is_none() {
            *place = group.free_places.pop().unwrap_or_else(|| {
                group.next_place += 1;
                group.next_place - 1
            });
        }
        if new.is_none() {
            group.free_places.push(*place);
        }
        *place
    }

    /// What a measure says, if that is a word that is at hand.
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

    /// What a measure says; `None` if it says nothing about no instance.
    pub(crate) fn value(
        &self,
        group: Option<usize>,
        index: usize,
        aggregate: Aggregate,
    ) -> Result<Option<Scalar>, Fault> {
        let group = group.filter(|group| self.members(*group) > 0);
        let Some(group) = group else { return Ok(empty(aggregate)) };
        let (words, cell) = (&self.words[group * self.stride..][..self.stride], self.cells[index]);
        let members = words[MEMBERS];
        let count = members as f64;
        let accumulators =
            self.beside.get(group).map_or(&Accumulator::Nothing, |beside| &beside.accumulators[index]);
        let value = match (aggregate, accumulators) {
            (Aggregate::Count, _) => Scalar::UInt(members),
            (Aggregate::All, _) => Scalar::Bool(words[cell] == members),
            (Aggregate::Any, _) => Scalar::Bool(words[cell] > 0),
            (Aggregate::Min(leaf) | Aggregate::Max(leaf), _) => Scalar::read(&[words[cell]], leaf),
            (Aggregate::Sum(leaf), Accumulator::Nothing) => whole(whole_at(words, cell), leaf)?,
            (Aggregate::Average(leaf), Accumulator::Nothing) => {
                whole(whole_at(words, cell) / i128::from(members), leaf)?
            }
            (Aggregate::Average(_), Accumulator::Float(sum)) => number(sum.value() / count)?,
            (_, Accumulator::Float(sum)) => number(sum.value())?,
            (_, Accumulator::Decimal(_, true)) => return Err(Fault::DecimalOverflow),
            (Aggregate::Average(_), Accumulator::Decimal(sum, _)) => {
                Scalar::Decimal(*sum).div(Scalar::Decimal(members.into()))?
            }
            (_, Accumulator::Decimal(sum, _)) => Scalar::Decimal(*sum),
            (aggregate, accumulators) => {
                let moment = accumulators.moment(count).unwrap_or_default();
                number(if aggregate == Aggregate::Deviation { moment.sqrt() } else { moment })?
            }
        };
        Ok(Some(value))
    }
}

/// Somebody has another value, or none: whether there is another winner.
#[inline]
fn update_extremum(
    cell: &mut [u64],
    order: RankOrder,
    many: &mut Accumulator,
    place: u32,
    value: Option<u64>,
) -> bool {
    let before = cell[0];
    if cell[MANY] < TOO_MANY && (place as usize) < SOME_RANKS {
        cell[MANY] |= if (place as usize) < FEW_RANKS { FEW } else { SOME };
        cell[RANKS + place as usize] = value.map_or(NO_RANK, |value| order.rank(value));
        let best = cell[RANKS..].iter().copied().fold(NO_RANK, u64::max);
        cell[0] = order.word(best);
    } else if let Accumulator::ExtremumTree(tree) = many {
        if std::mem::replace(&mut cell[MANY], TOO_MANY) != TOO_MANY {
            for (place, rank) in (0..).zip(&cell[RANKS..]).filter(|(_, rank)| **rank != NO_RANK) {
                tree.set(place, Some(order.word(*rank)));
            }
        }
        tree.set(place, value);
        cell[0] = tree.word().unwrap_or_default();
    }
    cell[0] != before
}

fn empty(aggregate: Aggregate) -> Option<Scalar> {
    match aggregate {
        Aggregate::Count => Some(Scalar::UInt(0)),
        Aggregate::All => Some(Scalar::Bool(true)),
        Aggregate::Any => Some(Scalar::Bool(false)),
        Aggregate::Sum(leaf) => Some(Scalar::zero(leaf)),
        Aggregate::Variance | Aggregate::Deviation => Some(Scalar::Float(0.0)),
        Aggregate::Min(_) | Aggregate::Max(_) | Aggregate::Average(_) | Aggregate::Covariance => None,
    }
}

/// The sum that two words are.
#[inline(always)]
fn whole_at(words: &[u64], cell: usize) -> i128 {
    i128::from(words[cell + 1].cast_signed()) << 64 | i128::from(words[cell])
}

#[inline(always)]
fn wide(word: u64, is_signed: bool) -> i128 {
    if is_signed { i128::from(word.cast_signed()) } else { i128::from(word) }
}

fn whole(value: i128, leaf: Leaf) -> Result<Scalar, Fault> {
    match leaf {
        Leaf::Int => i64::try_from(value).map(Scalar::Int),
        _ => u64::try_from(value).map(Scalar::UInt),
    }
    .map_err(|_| Fault::Overflow)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A group that empties keeps its place, and gives it away only if it is still empty.
    #[test]
    fn empty_groups_are_anybodys() {
        let aggregates = [Aggregate::Count, Aggregate::Sum(Leaf::UInt)];
        let mut grouped = GroupedAggregate::new(1, &aggregates, 0);
        let change = |grouped: &mut GroupedAggregate, key: u64, old: Option<&[u64]>, new: Option<&[u64]>| {
            let group = grouped.group(&[key], &aggregates);
            grouped.change(group, 0, old, new, &aggregates);
            grouped.tidy(group);
            group
        };
        let sum = |grouped: &GroupedAggregate, key: u64| {
            let said = grouped.value(grouped.find(&[key]), 1, aggregates[1]).unwrap();
            said.map(|sum| sum.to_f64())
        };
        let first = change(&mut grouped, 7, None, Some(&[5]));
        change(&mut grouped, 7, Some(&[5]), None);
        assert_eq!((grouped.find(&[7]), sum(&grouped, 7)), (Some(first), Some(0.0)));
        // Somebody comes back: another key must go elsewhere.
        change(&mut grouped, 7, None, Some(&[3]));
        let second = change(&mut grouped, 8, None, Some(&[2]));
        assert_ne!(first, second);
        assert_eq!((sum(&grouped, 7), sum(&grouped, 8)), (Some(3.0), Some(2.0)));
        // Nobody does: it gets the place, and nothing of what was there.
        change(&mut grouped, 7, Some(&[3]), None);
        assert_eq!(change(&mut grouped, 9, None, Some(&[1])), first);
        assert_eq!((grouped.find(&[7]), sum(&grouped, 9)), (None, Some(1.0)));
        change(&mut grouped, 9, Some(&[1]), None);
        grouped.forget_empty();
        assert_eq!(grouped.keys().collect::<Vec<_>>(), [&[8]]);
        assert_eq!(change(&mut grouped, 10, None, Some(&[4])), first);
    }

    /// Changes instances at random and holds every measure against a computation from scratch.
    #[test]
    fn measures_are_those_of_the_values_there_are() {
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
        for step in 0..4000 {
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
