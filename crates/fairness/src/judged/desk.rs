//! What lies before the judge: counts that have been told and not looked at. Groups are known by the numbers that the
//! engine gives them, so that their names are read once.

use std::collections::HashMap;

use fairstream_core::{Instance, Value};

use crate::compile::CountRole;
use crate::judge::GroupSlot;
use crate::{Counts, Judge};

/// Counts on their way to the judge.
#[derive(Default)]
pub(super) struct Desk {
    sheets: Vec<Sheet>,
    by_place: HashMap<GroupSlot, usize>,
    /// The sheets that are new.
    new: Vec<usize>,
}

/// What is known of a group, for one rate.
struct Sheet {
    place: GroupSlot,
    counts: Counts,
    is_new: bool,
}

/// The sheets that a stream tells of, by its instances.
#[derive(Default)]
pub(super) struct Index {
    by_number: HashMap<u64, usize, Plain>,
    by_label: HashMap<String, usize>,
}

impl Index {
    /// The sheet of an instance, if there is one. Reads its label into `text` where it has no number.
    pub(super) fn find(&self, instance: &dyn Instance, text: &mut String) -> Option<usize> {
        if let Some(number) = instance.number() {
            return self.by_number.get(&number).copied();
        }
        text.clear();
        instance.label(text);
        self.by_label.get(text.as_str()).copied()
    }

    pub(super) fn enter(&mut self, instance: &dyn Instance, label: &str, sheet: usize) {
        match instance.number() {
            Some(number) => drop(self.by_number.insert(number, sheet)),
            None => drop(self.by_label.insert(label.to_owned(), sheet)),
        }
    }

    pub(super) fn clear(&mut self) {
        self.by_number.clear();
        self.by_label.clear();
    }
}

impl Desk {
    /// A sheet for the group at a place, with what the judge knows of it.
    pub(super) fn add(&mut self, place: GroupSlot, judge: &Judge) -> usize {
        *self.by_place.entry(place).or_insert_with(|| {
            self.sheets.push(Sheet { place, counts: judge.counts_at(place), is_new: false });
            self.sheets.len() - 1
        })
    }

    /// Notes what a stream tells.
    pub(super) fn note(&mut self, sheet: usize, tells: CountRole, value: Value<'_>) {
        let Some(Sheet { counts, is_new, .. }) = self.sheets.get_mut(sheet) else { return };
        match (tells, value) {
            (CountRole::Numerator, Value::UInt(value)) => counts.numerator = value as f64,
            (CountRole::Numerator, Value::Float(value)) => counts.numerator = value,
            (CountRole::Denominator, Value::UInt(value)) => counts.denominator = value,
            (CountRole::Pending, Value::UInt(value)) => counts.pending = value,
            (CountRole::Prior, Value::Float(value)) => counts.prior = Some(value),
            _ => {}
        }
        if !std::mem::replace(is_new, true) {
            self.new.push(sheet);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.new.is_empty()
    }

    /// Gives the judge what is new.
    pub(super) fn hand_over(&mut self, judge: &mut Judge) {
        for sheet in self.new.drain(..) {
            let Sheet { place, counts, is_new } = &mut self.sheets[sheet];
            *is_new = false;
            if let Some(known) = judge.counts_mut(*place) {
                *known = *counts;
            }
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Desk::default();
    }
}

/// Numbers that count up need no more than to be spread a little.
type Plain = std::hash::BuildHasherDefault<Spread>;

#[derive(Default)]
struct Spread(u64);

impl std::hash::Hasher for Spread {
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
