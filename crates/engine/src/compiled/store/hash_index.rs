//! A hash index from keys to slots, whose keys are stored elsewhere.
//!
//! Open addressing with linear probing. An entry is one word: 32 bits of hash as a tag, and the number of the slot, plus
//! one. It is our own because machine code probes it, and because growing needs nothing but the entries themselves: the
//! tag says where an entry belongs, so no key is read.

use super::huge_vec::{Extent, HugeVec};
use super::words::{hash_of, prefetch};

/// The upper 32 bits of a key's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HashTag(u32);

impl HashTag {
    #[inline(always)]
    pub(crate) fn of(words: impl Iterator<Item = u64>) -> HashTag {
        HashTag((hash_of(words) >> 32) as u32)
    }
}

/// The empty bucket where a key belongs, until the index changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket(usize);

/// Slots by the tags of their keys. The caller compares the keys.
#[derive(Clone)]
pub(crate) struct HashIndex {
    /// A power of two. 0 is an empty bucket.
    entries: HugeVec<u64>,
    /// How far a tag is shifted right to give its home bucket.
    shift: u32,
    occupancy: Occupancy,
}

/// How full an index is; machine code reads and changes it.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Occupancy {
    pub(crate) used: usize,
    /// The most entries before the index grows: half the buckets.
    pub(crate) room: usize,
}

impl Occupancy {
    fn new(used: usize, buckets: usize) -> Occupancy {
        Occupancy { used, room: buckets / 2 }
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
    /// For machine code, until the index grows: the address of the entries, the shift of tags, the last bucket, and the
    /// address of the occupancy.
    pub(crate) fn vm_layout(&mut self) -> [usize; 4] {
        let entries = self.entries.as_mut_ptr().expose_provenance();
        let occupancy = (&raw mut self.occupancy).expose_provenance();
        [entries, self.shift as usize, self.entries.len() - 1, occupancy]
    }

    #[inline(always)]
    fn home(&self, tag: HashTag) -> usize {
        (tag.0 >> self.shift) as usize
    }

    #[inline(always)]
    fn after(&self, bucket: usize) -> usize {
        (bucket + 1) & (self.entries.len() - 1)
    }

    #[inline(always)]
    pub(crate) fn find(&self, tag: HashTag, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.probe(tag, is_it).ok()
    }

    /// The slot of a key, or the bucket where it belongs.
    #[inline(always)]
    pub(crate) fn probe(&self, tag: HashTag, is_it: impl Fn(u32) -> bool) -> Result<u32, Bucket> {
        let entries = &*self.entries;
        let mut bucket = self.home(tag);
        loop {
            let entry = entries[bucket];
            if entry == 0 {
                return Err(Bucket(bucket));
            }
            if tag_of(entry) == tag && is_it(slot_of(entry)) {
                return Ok(slot_of(entry));
            }
            bucket = (bucket + 1) & (entries.len() - 1);
        }
    }

    /// Prefetches the home bucket of a tag.
    #[inline(always)]
    pub(crate) fn prefetch(&self, tag: HashTag) {
        prefetch(&self.entries[self.home(tag)]);
    }

    /// The slot in the home bucket of a tag if the tags are equal, else 0. Which of both is unpredictable, so it is
    /// computed without branching.
    #[inline(always)]
    pub(crate) fn guess(&self, tag: HashTag) -> u32 {
        let entry = self.entries[self.home(tag)];
        let is_likely = entry != 0 && tag_of(entry) == tag;
        slot_of(entry) & u32::from(is_likely).wrapping_neg()
    }

    /// Enters a slot at the bucket where it belongs; whether the entries have moved.
    #[inline(always)]
    pub(crate) fn insert(&mut self, tag: HashTag, Bucket(bucket): Bucket, slot: u32) -> bool {
        self.occupancy.used += 1;
        if self.occupancy.used > self.occupancy.room {
            self.grow();
            self.put(tag, slot);
            return true;
        }
        self.entries[bucket] = entry(tag, slot);
        false
    }

    #[inline(always)]
    fn put(&mut self, tag: HashTag, slot: u32) {
        let Err(Bucket(bucket)) = self.probe(tag, |_| false) else { return };
        self.entries[bucket] = entry(tag, slot);
    }

    /// A small index grows faster, so that few entries are entered again, but does not move for that.
    #[cold]
    fn grow(&mut self) {
        const SMALL: usize = 1 << 16;
        let (buckets, room) = (self.entries.len(), self.entries.room());
        let doublings = match buckets {
            SMALLEST => 6,
            ..SMALL if 4 * buckets <= room || 2 * buckets > room => 2,
            _ => 1,
        };
        let buckets = self.entries.len() << doublings;
        self.shift -= doublings;
        self.occupancy = Occupancy::new(self.occupancy.used, buckets);
        // Occupancy is unpredictable, so compact without branching.
        let mut used = 0;
        for bucket in 0..self.entries.len() {
            let entry = self.entries[bucket];
            self.entries[used] = entry;
            used += usize::from(entry != 0);
        }
        self.entries[used..].fill(0);
        self.entries.grow(buckets);
        // The entries are nearly in the order of their home buckets, which only move up. Moving the last one first, none
        // meets an entry that is yet to move, but for those that wrapped around the end: these wait.
        let mut wrapped = Vec::new();
        for bucket in (0..used).rev() {
            let entry = std::mem::take(&mut self.entries[bucket]);
            let home = self.home(tag_of(entry));
            let empty = self.entries[home..].iter().position(|other| *other == 0).filter(|_| home >= bucket);
            match empty {
                Some(after) => self.entries[home + after] = entry,
                None => wrapped.push(entry),
            }
        }
        for entry in wrapped {
            self.put(tag_of(entry), slot_of(entry));
        }
    }

    /// Bytes of an index with room for this many entries.
    pub(crate) fn bytes_for(entries: usize) -> usize {
        8 * (2 * entries + 2).next_power_of_two()
    }

    /// Moves the entries into other memory.
    pub(crate) fn move_into(&mut self, extent: Extent) {
        self.entries.move_into(extent);
    }

    /// Replaces one slot by another with the same key.
    pub(crate) fn replace(&mut self, tag: HashTag, slot: u32, by: u32) {
        if let Some(bucket) = self.bucket_of(tag, slot) {
            self.entries[bucket] = entry(tag, by);
        }
    }

    /// Removes a slot, by backward shift: entries after the hole that belong at it or before it move up.
    pub(crate) fn remove(&mut self, tag: HashTag, slot: u32) {
        let Some(mut hole) = self.bucket_of(tag, slot) else { return };
        self.occupancy.used -= 1;
        let mut bucket = self.after(hole);
        while self.entries[bucket] != 0 {
            let home = self.home(tag_of(self.entries[bucket]));
            let mask = self.entries.len() - 1;
            if bucket.wrapping_sub(home) & mask >= bucket.wrapping_sub(hole) & mask {
                self.entries[hole] = self.entries[bucket];
                hole = bucket;
            }
            bucket = self.after(bucket);
        }
        self.entries[hole] = 0;
    }

    fn bucket_of(&self, tag: HashTag, slot: u32) -> Option<usize> {
        let wanted = entry(tag, slot);
        let mut bucket = self.home(tag);
        while self.entries[bucket] != 0 {
            if self.entries[bucket] == wanted {
                return Some(bucket);
            }
            bucket = self.after(bucket);
        }
        None
    }
}

#[inline(always)]
fn entry(tag: HashTag, slot: u32) -> u64 {
    u64::from(tag.0) << 32 | (u64::from(slot) + 1)
}

#[inline(always)]
fn tag_of(entry: u64) -> HashTag {
    HashTag((entry >> 32) as u32)
}

#[inline(always)]
fn slot_of(entry: u64) -> u32 {
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

    /// Few tags, close to both ends of the index: entries crowd, and wrap around.
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
        fn an_index_finds_what_is_in_it(changes in prop::collection::vec(change(), 0..200)) {
            let (mut index, mut known) = (HashIndex::default(), HashMap::<u32, u32>::new());
            for change in changes {
                match change {
                    Change::Insert(tag, number) if !known.contains_key(&number) => {
                        let place = index.probe(HashTag(tag), |other| other == number).unwrap_err();
                        index.insert(HashTag(tag), place, number);
                        known.insert(number, tag);
                    }
                    Change::Remove(number) => {
                        if let Some(tag) = known.remove(&number) {
                            index.remove(HashTag(tag), number);
                        }
                    }
                    Change::Replace(number, by) if !known.contains_key(&by) => {
                        if let Some(tag) = known.remove(&number) {
                            index.replace(HashTag(tag), number, by);
                            known.insert(by, tag);
                        }
                    }
                    _ => {}
                }
                prop_assert_eq!(index.occupancy.used, known.len());
                for number in 0..40 {
                    let tag = known.get(&number);
                    let found = index.find(HashTag(tag.copied().unwrap_or(7)), |other| other == number);
                    prop_assert_eq!(found.is_some(), tag.is_some());
                }
            }
        }
    }
}
