//! Counts that streams have reported and that no check has looked at yet. Groups are known by the instance numbers of
//! the engine, so that their labels are parsed once.

use std::collections::HashMap;

use fairstream_core::{Instance, Value};

use crate::compile::CountRole;
use crate::judge::GroupSlot;
use crate::{Counts, Judge};

/// Counts on their way to the judge.
#[derive(Default)]
pub(super) struct PendingCounts {
    counts: Vec<PendingCount>,
    by_group: HashMap<GroupSlot, usize>,
    /// Indices of the counts that have changed since the last hand-over.
    changed: Vec<usize>,
}

/// The latest counts of one group, for one rate.
struct PendingCount {
    group: GroupSlot,
    counts: Counts,
    has_changed: bool,
}

/// Instances of one stream → indices into [`PendingCounts`].
#[derive(Default)]
pub(super) struct InstanceIndex {
    by_number: HashMap<u64, usize, SequentialHasher>,
    by_label: HashMap<String, usize>,
}

impl InstanceIndex {
    /// The index of an instance, if it is known. Formats its label into `text` if it has no number.
    pub(super) fn find(&self, instance: &dyn Instance, text: &mut String) -> Option<usize> {
        if let Some(number) = instance.number() {
            return self.by_number.get(&number).copied();
        }
        text.clear();
        instance.label(text);
        self.by_label.get(text.as_str()).copied()
    }

    pub(super) fn insert(&mut self, instance: &dyn Instance, label: &str, index: usize) {
        match instance.number() {
            Some(number) => drop(self.by_number.insert(number, index)),
            None => drop(self.by_label.insert(label.to_owned(), index)),
        }
    }

    pub(super) fn clear(&mut self) {
        self.by_number.clear();
        self.by_label.clear();
    }
}

impl PendingCounts {
    /// The index of a group's counts, which start as the judge has them.
    pub(super) fn add(&mut self, group: GroupSlot, judge: &Judge) -> usize {
        *self.by_group.entry(group).or_insert_with(|| {
            self.counts.push(PendingCount { group, counts: judge.counts_at(group), has_changed: false });
            self.counts.len() - 1
        })
    }

    /// A stream reports a new value of one of the counts.
    pub(super) fn set(&mut self, index: usize, role: CountRole, value: Value<'_>) {
        let Some(PendingCount { counts, has_changed, .. }) = self.counts.get_mut(index) else { return };
        match (role, value) {
            (CountRole::Numerator, Value::UInt(value)) => counts.numerator = value as f64,
            (CountRole::Numerator, Value::Float(value)) => counts.numerator = value,
            (CountRole::Denominator, Value::UInt(value)) => counts.denominator = value,
            (CountRole::Pending, Value::UInt(value)) => counts.pending = value,
            (CountRole::Unknown, Value::UInt(value)) => counts.unknown = value,
            (CountRole::Prior, Value::Float(value)) => counts.prior = Some(value),
            _ => {}
        }
        if !std::mem::replace(has_changed, true) {
            self.changed.push(index);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changed.is_empty()
    }

    /// Gives the judge every count that has changed. `left` learns of the rates of which a group has fewer trials now.
    pub(super) fn hand_over(&mut self, judge: &mut Judge, mut left: impl FnMut((usize, usize))) {
        for index in self.changed.drain(..) {
            let PendingCount { group, counts, has_changed } = &mut self.counts[index];
            *has_changed = false;
            if let Some(known) = judge.counts_mut(*group) {
                if counts.denominator < known.denominator {
                    left(group.rate());
                }
                *known = *counts;
            }
        }
    }

    pub(super) fn clear(&mut self) {
        *self = PendingCounts::default();
    }
}

/// Hashes consecutive numbers by one multiplication.
type SequentialHasher = std::hash::BuildHasherDefault<Multiplied>;

#[derive(Default)]
struct Multiplied(u64);

impl std::hash::Hasher for Multiplied {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(self.0 << 8 | u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
