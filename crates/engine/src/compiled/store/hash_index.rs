//! Numbers that are found by the words they stand for.
//!
//! A table of our own, because machine code looks into it: a number and half a hash are one word, an entry is at the
//! first free place from the one on that its hash says, and growing needs nothing but the table itself.

use crate::compiled::exec::prefetch::fetch;
use crate::compiled::store::huge_vec::{Extent, HugeVec};
use crate::compiled::store::words::hash_of;

/// HashTag the hash of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HashTag(u32);

impl HashTag {
    #[inline(always)]
    pub(crate) fn of(words: impl Iterator<Item = u64>) -> HashTag {
        HashTag((hash_of(words) >> 32) as u32)
    }
}

/// Where something would be in a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket(usize);

/// The words themselves are elsewhere: who looks for a number says whether it is the one.
#[derive(Clone)]
pub(crate) struct HashIndex {
    /// A power of two. 0 is a free place; others have the half hash above, and below it the number plus one.
    entries: HugeVec<u64>,
    /// How many of the 32 bits of a half hash are not part of its place.
    shift: u32,
    occupancy: Occupancy,
}

/// How full a table is.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Occupancy {
    pub(crate) used: usize,
    /// How many entries it can have before looking for one takes long.
    pub(crate) room: usize,
}

impl Occupancy {
    fn new(used: usize, places: usize) -> Occupancy {
        Occupancy { used, room: places / 2 }
    }
}

const SMALLEST: usize = 8;

impl Default for HashIndex {
    fn default() -> HashIndex {
        let (entries, shift) = (HugeVec::zeros(SMALLEST), 32 - SMALLEST.trailing_zeros());
        HashIndex { entries, shift, occupancy: Occupancy::new(0, SMALLEST) }
    }
}

impl HashIndex {
    /// For machine code, until it grows: where its entries are in memory, by how many bits a half hash is shifted for a
    /// place among them, the last place, and where it says how full it is.
    pub(crate) fn layout(&mut self) -> [usize; 4] {
        let entries = self.entries.as_mut_ptr().expose_provenance();
        let occupancy = (&raw mut self.occupancy).expose_provenance();
        [entries, self.shift as usize, self.entries.len() - 1, occupancy]
    }

    #[inline(always)]
    fn home(&self, tag: HashTag) -> usize {
        (tag.0 >> self.shift) as usize
    }

    #[inline(always)]
    fn after(&self, place: usize) -> usize {
        (place + 1) & (self.entries.len() - 1)
    }

    #[inline(always)]
    pub(crate) fn find(&self, tag: HashTag, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.probe(tag, is_it).ok()
    }

    /// A number, or the place where it belongs until the table changes.
    #[inline(always)]
    pub(crate) fn probe(&self, tag: HashTag, is_it: impl Fn(u32) -> bool) -> Result<u32, Bucket> {
        let entries = &*self.entries;
        let mut place = self.home(tag);
        loop {
            let entry = entries[place];
            if entry == 0 {
                return Err(Bucket(place));
            }
            if tag_of(entry) == tag && is_it(number_of(entry)) {
                return Ok(number_of(entry));
            }
            place = (place + 1) & (entries.len() - 1);
        }
    }

    /// Has the place fetched from memory where something would be looked for first.
    #[inline(always)]
    pub(crate) fn fetch(&self, tag: HashTag) {
        fetch(&self.entries[self.home(tag)]);
    }

    /// The number at the place where something would be looked for first, if it is likely to be the one, or else 0: which
    /// of both is anybody's guess.
    #[inline(always)]
    pub(crate) fn guess(&self, tag: HashTag) -> u32 {
        let entry = self.entries[self.home(tag)];
        let is_likely = entry != 0 && tag_of(entry) == tag;
        number_of(entry) & u32::from(is_likely).wrapping_neg()
    }

    /// Enters a number at the place where it belongs; whether the table has moved.
    #[inline(always)]
    pub(crate) fn insert(&mut self, tag: HashTag, Bucket(place): Bucket, number: u32) -> bool {
        self.occupancy.used += 1;
        if self.occupancy.used > self.occupancy.room {
            self.grow();
            self.put(tag, number);
            return true;
        }
        self.entries[place] = entry(tag, number);
        false
    }

    #[inline(always)]
    fn put(&mut self, tag: HashTag, number: u32) {
        let Err(Bucket(place)) = self.probe(tag, |_| false) else { return };
        self.entries[place] = entry(tag, number);
    }

    /// A small table grows faster, so that few entries are entered again, but does not move for that.
    #[cold]
    fn grow(&mut self) {
        const SMALL: usize = 1 << 16;
        let (places, room) = (self.entries.len(), self.entries.room());
        let doublings = match places {
            SMALLEST => 6,
            ..SMALL if 4 * places <= room || 2 * places > room => 2,
            _ => 1,
        };
        let places = self.entries.len() << doublings;
        self.shift -= doublings;
        self.occupancy = Occupancy::new(self.occupancy.used, places);
        // Which places are free is anybody's guess: better no branch.
        let mut used = 0;
        for place in 0..self.entries.len() {
            let entry = self.entries[place];
            self.entries[used] = entry;
            used += usize::from(entry != 0);
        }
        self.entries[used..].fill(0);
        self.entries.grow(places);
        // They are in the order of their homes, as good as, and move away from the first: the last go first, so that
        // none meets another that is yet to move. Whoever would has crowded round the ends, and waits.
        let mut waiting = Vec::new();
        for place in (0..used).rev() {
            let entry = std::mem::take(&mut self.entries[place]);
            let home = self.home(tag_of(entry));
            let free = self.entries[home..].iter().position(|other| *other == 0).filter(|_| home >= place);
            match free {
                Some(after) => self.entries[home + after] = entry,
                None => waiting.push(entry),
            }
        }
        for entry in waiting {
            self.put(tag_of(entry), number_of(entry));
        }
    }

    /// How many bytes it takes to have room for so many entries.
    pub(crate) fn bytes_for(entries: usize) -> usize {
        8 * (2 * entries + 2).next_power_of_two()
    }

    /// Moves to a piece of ground.
    pub(crate) fn move_into(&mut self, extent: Extent) {
        self.entries.move_into(extent);
    }

    /// Another number takes the place of one that is there.
    pub(crate) fn replace(&mut self, tag: HashTag, number: u32, by: u32) {
        if let Some(place) = self.place(tag, number) {
            self.entries[place] = entry(tag, by);
        }
    }

    pub(crate) fn remove(&mut self, tag: HashTag, number: u32) {
        let Some(mut free) = self.place(tag, number) else { return };
        self.occupancy.used -= 1;
        // Selector is behind the free place and would have liked it, or one before it, moves up.
        let mut place = self.after(free);
        while self.entries[place] != 0 {
            let home = self.home(tag_of(self.entries[place]));
            let mask = self.entries.len() - 1;
            if place.wrapping_sub(home) & mask >= place.wrapping_sub(free) & mask {
                self.entries[free] = self.entries[place];
                free = place;
            }
            place = self.after(place);
        }
        self.entries[free] = 0;
    }

    fn place(&self, tag: HashTag, number: u32) -> Option<usize> {
        let wanted = entry(tag, number);
        let mut place = self.home(tag);
        while self.entries[place] != 0 {
            if self.entries[place] == wanted {
                return Some(place);
            }
            place = self.after(place);
        }
        None
    }
}

#[inline(always)]
fn entry(tag: HashTag, number: u32) -> u64 {
    u64::from(tag.0) << 32 | (u64::from(number) + 1)
}

#[inline(always)]
fn tag_of(entry: u64) -> HashTag {
    HashTag((entry >> 32) as u32)
}

#[inline(always)]
fn number_of(entry: u64) -> u32 {
    (entry as u32).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Change {
        Insert(u32, u32),
        Remove(u32),
        Replace(u32, u32),
    }

    /// Few halves, close to the ends of the table: entries crowd, and wrap around.
    fn tag() -> impl Strategy<Value = u32> {
        prop_oneof![0..4_u32, (u32::MAX - 4)..=u32::MAX, any::<u32>()]
    }

    fn change() -> impl Strategy<Value = Change> {
        let number = 0..40_u32;
        prop_oneof![
            3 => (tag(), number.clone()).prop_map(|(tag, number)| Change::Insert(tag, number)),
            2 => number.clone().prop_map(Change::Remove),
            1 => (number.clone(), number).prop_map(|(number, by)| Change::Replace(number, by)),
        ]
    }

    proptest! {
        #[test]
        fn a_table_finds_what_is_in_it(changes in prop::collection::vec(change(), 0..200)) {
            let (mut table, mut known) = (HashIndex::default(), HashMap::<u32, u32>::new());
            for change in changes {
                match change {
                    Change::Insert(tag, number) if !known.contains_key(&number) => {
                        let place = table.probe(HashTag(tag), |other| other == number).unwrap_err();
                        table.insert(HashTag(tag), place, number);
                        known.insert(number, tag);
                    }
                    Change::Remove(number) => {
                        if let Some(tag) = known.remove(&number) {
                            table.remove(HashTag(tag), number);
                        }
                    }
                    Change::Replace(number, by) if !known.contains_key(&by) => {
                        if let Some(tag) = known.remove(&number) {
                            table.replace(HashTag(tag), number, by);
                            known.insert(by, tag);
                        }
                    }
                    _ => {}
                }
                prop_assert_eq!(table.occupancy.used, known.len());
                for number in 0..40 {
                    let tag = known.get(&number);
                    let found = table.find(HashTag(tag.copied().unwrap_or(7)), |other| other == number);
                    prop_assert_eq!(found.is_some(), tag.is_some());
                }
            }
        }
    }
}
