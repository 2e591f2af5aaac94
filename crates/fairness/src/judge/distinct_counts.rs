//! The distinct counts of the groups of a stratum. Many groups have few trials each, so that few counts are distinct, and the
//! gap between a million groups follows from some hundred of them.

use std::collections::BTreeMap;

use super::Counts;

/// How many groups have the same counts, as of the last update of each.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DistinctCounts {
    /// The counts of each group, by its index.
    of_group: Vec<Option<CountsKey>>,
    groups: BTreeMap<CountsKey, u64>,
    /// Sums over all groups. Numerators are whole numbers, so that no order of adding changes them.
    numerator: f64,
    denominator: u64,
}

/// What an estimate depends on: the denominator, and the bits of numerator and prior.
type CountsKey = (u64, u64, Option<u64>);

fn key(counts: &Counts) -> CountsKey {
    (counts.denominator, counts.numerator.to_bits(), counts.prior.map(f64::to_bits))
}

fn counts((denominator, numerator, prior): CountsKey) -> Counts {
    let (numerator, prior) = (f64::from_bits(numerator), prior.map(f64::from_bits));
    Counts { numerator, denominator, prior, ..Counts::default() }
}

impl DistinctCounts {
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Notes the counts of a group, in place of what was noted of it before.
    pub(super) fn update(&mut self, group: usize, new: &Counts) {
        if self.of_group.len() <= group {
            self.of_group.resize(group + 1, None);
        }
        if let Some(old) = self.of_group[group].replace(key(new)) {
            let counts = counts(old);
            (self.numerator, self.denominator) =
                (self.numerator - counts.numerator, self.denominator - counts.denominator);
            if let Some(groups) = self.groups.get_mut(&old) {
                *groups -= 1;
                if *groups == 0 {
                    self.groups.remove(&old);
                }
            }
        }
        *self.groups.entry(key(new)).or_default() += 1;
        (self.numerator, self.denominator) =
            (self.numerator + new.numerator, self.denominator + new.denominator);
    }

    /// The sums of all numerators and denominators.
    pub(super) fn sums(&self) -> (f64, u64) {
        (self.numerator, self.denominator)
    }

    /// Each distinct counts once.
    pub(super) fn iter(&self) -> impl Iterator<Item = Counts> {
        self.groups.keys().map(|key| counts(*key))
    }
}
