//! Aggregates over the instances of a stream, kept up to date as instances change, one group for
//! each combination of parameters that readers ask for.

use hashbrown::HashTable;
use serde::{Deserialize, Serialize};

use super::exact::ExactSum;
use super::extreme::Extreme;
use super::fault::Fault;
use super::layout::Leaf;
use super::scalar::{Scalar, as_words, decimal, number};
use super::words::{hash, same};

/// What a tally keeps for a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
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

/// The groups of a tally.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Tally {
    key_width: usize,
    /// Whether a group needs to know which of its values are whose.
    has_places: bool,
    keys: Vec<u64>,
    groups: Vec<Group>,
    free: Vec<u32>,
    /// For each slot of the stream its place in the trees of its group.
    places: Vec<u32>,
    #[serde(skip)]
    table: HashTable<u32>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Group {
    /// Whether it is anybody's, and not a free place.
    is_used: bool,
    /// How many instances have a value.
    members: u64,
    cells: Vec<Kept>,
    free_places: Vec<u32>,
    next_place: u32,
}

#[derive(Clone, Serialize, Deserialize)]
enum Kept {
    Members,
    True(u64),
    /// Of whole numbers, to be told ...
    Sum(i128),
    /// ... or divided.
    Whole(i128),
    Float(Box<ExactSum>),
    /// The sum, and whether it has become too large on the way.
    Decimal(#[serde(with = "as_words")] rust_decimal::Decimal, bool),
    Extreme(Extreme),
    /// Sums of x and x².
    Spread(Box<[ExactSum; 2]>),
    /// Sums of x, y and xy.
    Pairs(Box<[ExactSum; 3]>),
}

impl Tally {
    pub(super) fn new(key_width: usize, measures: &[Measure]) -> Tally {
        let needs_place = |measure: &Measure| matches!(measure, Measure::Min(_) | Measure::Max(_));
        Tally {
            key_width,
            has_places: measures.iter().any(needs_place),
            keys: Vec::new(),
            groups: Vec::new(),
            free: Vec::new(),
            places: Vec::new(),
            table: HashTable::new(),
        }
    }

    #[inline(always)]
    pub(super) fn find(&self, key: &[u64]) -> Option<usize> {
        const FEW: usize = 8;
        match key {
            [] => (!self.groups.is_empty()).then_some(0),
            // Most often there are a few groups of people, and looking is faster than hashing.
            [word] if self.keys.len() <= FEW => {
                let mut groups = self.keys.iter().zip(&self.groups);
                groups.position(|(key, group)| key == word && group.is_used)
            }
            _ => {
                let is_it = |group: &u32| same(self.key(*group as usize), key);
                self.table.find(hash(key), is_it).map(|group| *group as usize)
            }
        }
    }

    /// The group of a key, new if need be.
    #[inline]
    pub(super) fn group(&mut self, key: &[u64], measures: &[Measure]) -> usize {
        match self.find(key) {
            Some(group) => group,
            None => self.new_group(key, measures),
        }
    }

    fn new_group(&mut self, key: &[u64], measures: &[Measure]) -> usize {
        let empty = Group {
            is_used: true,
            members: 0,
            cells: measures.iter().map(|measure| Kept::new(*measure)).collect(),
            free_places: Vec::new(),
            next_place: 0,
        };
        let group = match self.free.pop() {
            Some(group) => group as usize,
            None => {
                self.keys.resize(self.keys.len() + self.key_width, 0);
                self.groups.push(empty.clone());
                self.groups.len() - 1
            }
        };
        self.groups[group] = empty;
        self.keys[group * self.key_width..(group + 1) * self.key_width].copy_from_slice(key);
        self.enter(group);
        group
    }

    /// Forgets a group that has no members left.
    pub(super) fn tidy(&mut self, group: usize) {
        if self.groups[group].members > 0 || self.key_width == 0 {
            return;
        }
        let entry = u32::try_from(group).unwrap_or(u32::MAX);
        if let Ok(found) = self.table.find_entry(hash(self.key(group)), |other| *other == entry) {
            found.remove();
        }
        self.groups[group].is_used = false;
        self.free.push(entry);
    }

    fn enter(&mut self, group: usize) {
        let (keys, width) = (&self.keys, self.key_width);
        let key = |group: usize| &keys[group * width..(group + 1) * width];
        let entry = u32::try_from(group).unwrap_or(u32::MAX);
        self.table.insert_unique(hash(key(group)), entry, |group| hash(key(*group as usize)));
    }

    /// Builds the table anew once the groups have been read back.
    pub(super) fn index(&mut self) {
        self.table.clear();
        (0..self.groups.len())
            .filter(|group| self.groups[*group].is_used)
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|group| self.enter(group));
    }

    pub(super) fn key(&self, group: usize) -> &[u64] {
        &self.keys[group * self.key_width..(group + 1) * self.key_width]
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &[u64]> {
        (0..self.groups.len()).filter(|group| self.groups[*group].is_used).map(|group| self.key(group))
    }

    /// An instance of a group has a new value instead of its old one. A bit for each measure whose
    /// result may be another one now.
    #[inline]
    pub(super) fn change(
        &mut self,
        group: usize,
        slot: u32,
        old: Option<&[u64]>,
        new: Option<&[u64]>,
        measures: &[Measure],
    ) -> Result<u64, Fault> {
        let mut changed = 0;
        let Tally { groups, places, has_places, .. } = self;
        let group = &mut groups[group];
        let members = group.members;
        group.members = members + u64::from(new.is_some()) - u64::from(old.is_some());
        let mut place = None;
        if *has_places {
            if places.len() <= slot as usize {
                places.resize(slot as usize + 1, 0);
            }
            if old.is_none() {
                places[slot as usize] = group.free_places.pop().unwrap_or_else(|| {
                    group.next_place += 1;
                    group.next_place - 1
                });
            }
            place = Some(places[slot as usize]);
            if new.is_none() {
                group.free_places.extend(place);
            }
        }
        for (index, (cell, measure)) in group.cells.iter_mut().zip(measures).enumerate() {
            let other = cell.change(*measure, place.unwrap_or_default(), old, new)?;
            // A sum, an extreme or a truth value stays as it is where a member comes that does not
            // matter, unless it is the first or the last.
            let by_number = match measure {
                Measure::Sum(_) | Measure::Min(_) | Measure::Max(_) => members.min(group.members) == 0,
                _ => true,
            };
            if other || (by_number && members != group.members) {
                changed |= 1 << index;
            }
        }
        Ok(changed)
    }

    /// What a measure says, if that is a word that is at hand.
    #[inline(always)]
    pub(super) fn word(&self, group: usize, index: usize) -> Option<u64> {
        let group = &self.groups[group];
        match &group.cells[index] {
            _ if group.members == 0 => None,
            Kept::Members => Some(group.members),
            Kept::Sum(sum) if (0..=i128::from(i64::MAX)).contains(sum) => Some(*sum as u64),
            Kept::Extreme(tree) => tree.word(),
            _ => None,
        }
    }

    /// What a measure says; `None` if it says nothing about no instance.
    pub(super) fn value(
        &self,
        group: Option<usize>,
        index: usize,
        measure: Measure,
    ) -> Result<Option<Scalar>, Fault> {
        let group = group.map(|group| &self.groups[group]).filter(|group| group.members > 0);
        let Some(group) = group else { return Ok(empty(measure)) };
        let count = group.members as f64;
        let value = match (&group.cells[index], measure) {
            (Kept::Members, _) => Scalar::UInt(group.members),
            (Kept::True(yes), Measure::All) => Scalar::Bool(*yes == group.members),
            (Kept::True(yes), _) => Scalar::Bool(*yes > 0),
            (Kept::Extreme(tree), Measure::Min(leaf) | Measure::Max(leaf)) => {
                return Ok(tree.word().map(|word| Scalar::read(&[word], leaf)));
            }
            (Kept::Sum(sum), Measure::Sum(leaf)) => whole(*sum, leaf)?,
            (Kept::Whole(sum), Measure::Average(leaf)) => whole(sum / i128::from(group.members), leaf)?,
            (Kept::Float(sum), Measure::Average(_)) => number(sum.value() / count)?,
            (Kept::Float(sum), _) => number(sum.value())?,
            (Kept::Decimal(_, true), _) => return Err(Fault::DecimalOverflow),
            (Kept::Decimal(sum, _), Measure::Average(_)) => {
                Scalar::Decimal(*sum).div(Scalar::Decimal(group.members.into()))?
            }
            (Kept::Decimal(sum, _), _) => Scalar::Decimal(*sum),
            (Kept::Spread(sums), measure) => {
                let variance = moment(count, &sums[0], &sums[0], &sums[1]).max(0.0);
                number(if measure == Measure::Deviation { variance.sqrt() } else { variance })?
            }
            (Kept::Pairs(sums), _) => number(moment(count, &sums[0], &sums[1], &sums[2]))?,
            _ => return Ok(None),
        };
        Ok(Some(value))
    }
}

fn empty(measure: Measure) -> Option<Scalar> {
    match measure {
        Measure::Count => Some(Scalar::UInt(0)),
        Measure::All => Some(Scalar::Bool(true)),
        Measure::Any => Some(Scalar::Bool(false)),
        Measure::Sum(leaf) => Some(Scalar::zero(leaf)),
        Measure::Variance | Measure::Deviation => Some(Scalar::Float(0.0)),
        Measure::Min(_) | Measure::Max(_) | Measure::Average(_) | Measure::Covariance => None,
    }
}

fn whole(value: i128, leaf: Leaf) -> Result<Scalar, Fault> {
    match leaf {
        Leaf::Int => i64::try_from(value).map(Scalar::Int),
        _ => u64::try_from(value).map(Scalar::UInt),
    }
    .map_err(|_| Fault::Overflow)
}

/// The mean of (x - mean of x)·(y - mean of y), from exact sums: n·Σxy - Σx·Σy over n², with twice
/// the digits of a float, so that what cancels does not take the result with it.
fn moment(count: f64, x: &ExactSum, y: &ExactSum, xy: &ExactSum) -> f64 {
    let product = |a: (f64, f64), b: (f64, f64)| {
        let high = a.0 * b.0;
        let low = a.0.mul_add(b.0, -high) + (a.0 * b.1 + a.1 * b.0);
        (high, low)
    };
    let first = product((count, 0.0), xy.pair());
    let second = product(x.pair(), y.pair());
    ((first.0 - second.0) + (first.1 - second.1)) / (count * count)
}

impl Kept {
    fn new(measure: Measure) -> Kept {
        match measure {
            Measure::Count => Kept::Members,
            Measure::All | Measure::Any => Kept::True(0),
            Measure::Min(leaf) => Kept::Extreme(Extreme::new(false, leaf)),
            Measure::Max(leaf) => Kept::Extreme(Extreme::new(true, leaf)),
            Measure::Sum(leaf) | Measure::Average(leaf) => match leaf {
                Leaf::Float => Kept::Float(Box::default()),
                Leaf::Decimal => Kept::Decimal(rust_decimal::Decimal::ZERO, false),
                _ if matches!(measure, Measure::Sum(_)) => Kept::Sum(0),
                _ => Kept::Whole(0),
            },
            Measure::Variance | Measure::Deviation => Kept::Spread(Box::default()),
            Measure::Covariance => Kept::Pairs(Box::default()),
        }
    }

    /// Whether the result may be another one now.
    #[inline(always)]
    fn change(
        &mut self,
        measure: Measure,
        place: u32,
        old: Option<&[u64]>,
        new: Option<&[u64]>,
    ) -> Result<bool, Fault> {
        match self {
            Kept::Members => return Ok(false),
            Kept::True(count) => {
                let one = |words: Option<&[u64]>| words.map_or(0, |words| words[0]);
                *count = *count + one(new) - one(old);
            }
            Kept::Sum(sum) | Kept::Whole(sum) => {
                let signed = matches!(measure, Measure::Sum(Leaf::Int) | Measure::Average(Leaf::Int));
                let one = |words: Option<&[u64]>| {
                    words.map_or(0, |words| {
                        if signed { i128::from(words[0].cast_signed()) } else { i128::from(words[0]) }
                    })
                };
                let by = one(new) - one(old);
                *sum += by;
                return Ok(by != 0);
            }
            Kept::Extreme(tree) => {
                return Ok(tree.set(place, new.map(|words| words[0])));
            }
            _ => return Ok(self.change_rare(old, new)),
        }
        Ok(true)
    }

    fn change_rare(&mut self, old: Option<&[u64]>, new: Option<&[u64]>) -> bool {
        let float = |words: &[u64], index: usize| f64::from_bits(words[index]);
        match self {
            Kept::Members | Kept::True(_) | Kept::Sum(_) | Kept::Whole(_) | Kept::Extreme(_) => {}
            Kept::Float(sum) => {
                old.into_iter().for_each(|words| sum.remove(float(words, 0)));
                new.into_iter().for_each(|words| sum.add(float(words, 0)));
            }
            Kept::Decimal(sum, is_lost) => {
                let kept = old.map_or(Some(*sum), |words| sum.checked_sub(decimal(words)));
                let total =
                    kept.and_then(|kept| new.map_or(Some(kept), |words| kept.checked_add(decimal(words))));
                // Said when it is read: whoever does not read it need not fail.
                *is_lost |= total.is_none();
                *sum = total.unwrap_or(*sum);
            }
            Kept::Spread(sums) => {
                let mut each = |words: &[u64], change: fn(&mut ExactSum, f64)| {
                    let x = float(words, 0);
                    change(&mut sums[0], x);
                    product(x, x).into_iter().for_each(|part| change(&mut sums[1], part));
                };
                old.into_iter().for_each(|words| each(words, ExactSum::remove));
                new.into_iter().for_each(|words| each(words, ExactSum::add));
            }
            Kept::Pairs(sums) => {
                let mut each = |words: &[u64], change: fn(&mut ExactSum, f64)| {
                    let (x, y) = (float(words, 0), float(words, 1));
                    change(&mut sums[0], x);
                    change(&mut sums[1], y);
                    product(x, y).into_iter().for_each(|part| change(&mut sums[2], part));
                };
                old.into_iter().for_each(|words| each(words, ExactSum::remove));
                new.into_iter().for_each(|words| each(words, ExactSum::add));
            }
        }
        true
    }
}

/// A product as the sum of two floats, without error.
fn product(a: f64, b: f64) -> [f64; 2] {
    let high = a * b;
    let low = a.mul_add(b, -high);
    [high, if low.is_finite() { low } else { 0.0 }]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes instances at random and holds every measure against a computation from scratch.
    #[test]
    fn measures_are_those_of_the_values_there_are() {
        let measures = [
            Measure::Count,
            Measure::Min(Leaf::Float),
            Measure::Max(Leaf::Float),
            Measure::Sum(Leaf::Float),
            Measure::Average(Leaf::Float),
            Measure::Variance,
        ];
        let mut tally = Tally::new(1, &measures);
        let mut values: Vec<Option<f64>> = vec![None; 40];
        let mut random = 1_u64;
        for step in 0..4000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let slot = (random >> 33) as usize % values.len();
            let new = (!(random >> 20).is_multiple_of(4)).then_some((random >> 40) as f64 / 1e5 - 50.0);
            let group = tally.group(&[slot as u64 % 3], &measures);
            let words = |value: Option<f64>| value.map(|value| [value.to_bits()]);
            let old = std::mem::replace(&mut values[slot], new);
            let (old, new) = (words(old), words(new));
            tally
                .change(
                    group,
                    slot as u32,
                    old.as_ref().map(|w| &w[..]),
                    new.as_ref().map(|w| &w[..]),
                    &measures,
                )
                .unwrap();
            if step % 7 != 0 {
                continue;
            }
            let members: Vec<f64> = values
                .iter()
                .enumerate()
                .filter(|(at, _)| at % 3 == slot % 3)
                .filter_map(|(_, value)| *value)
                .collect();
            let read = |index: usize| match tally.value(Some(group), index, measures[index]).unwrap() {
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
