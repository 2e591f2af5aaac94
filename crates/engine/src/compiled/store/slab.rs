//! The instances of a family: a slab of slots that are reused after a close, a hash index over all parameters, and
//! secondary indexes over some of them.

use std::ops::RangeInclusive;

use super::deadline_queue::Deadline;
use super::hash_index::{HashIndex, HashTag};
use super::huge_vec::{HugeVec, PrefaultedRegion};
use super::lookup_cache::LookupCache;
use super::secondary_index::{ProbeResult, SecondaryIndex};
use super::words::{copy, prefetch, same};
use crate::compiled::ir::layout::{GENERATION, Member, PARAMS};
use crate::compiled::ir::plan::Route;

/// Flags of an instance, in the low half of a state word. The high half is the number of its stored values.
pub(crate) mod flag {
    /// The instance is listed in the dirty set of its stream.
    pub(crate) const DIRTY: u64 = 1;
    /// The instance is listed in the dirty set of its family's close condition.
    pub(crate) const CLOSE_DIRTY: u64 = 2;
    /// Its latest evaluation gave a value.
    pub(crate) const HOLDS: u64 = 4;
    /// It has been evaluated at this instant, as one of several candidates.
    pub(crate) const CANDIDATE: u64 = 8;
}

/// The instances of streams that are spawned and closed together: a slot holds one instance of each.
#[derive(Clone)]
pub(crate) struct InstanceSlab {
    /// Words of parameters.
    params: usize,
    /// Words of a slot.
    stride: usize,
    words: HugeVec<u64>,
    header: SlabHeader,
    indexes: Vec<SecondaryIndex>,
    /// The secondary index that also serves lookups by all parameters, as long as its chains are short.
    selective: Option<usize>,
    /// The index over all parameters, unless there is a selective one.
    index: HashIndex,
    /// How often slots or index entries have moved in memory.
    moves: u64,
    /// Slots, plus one, of instances that an event tried to spawn again.
    lookup_cache: LookupCache,
}

/// Counts that machine code reads and changes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct SlabHeader {
    /// How many instances were ever spawned; the generation of the last one.
    pub(crate) spawned: u64,
    pub(crate) live: u64,
    /// How many slots have ever been used.
    pub(crate) slots: u64,
    /// How many slots there is memory for.
    pub(crate) room: u64,
    /// The slot, plus one, that was freed last; its first parameter word is the next of the free list. 0 if none is free.
    pub(crate) free: u64,
    /// Not 0 if every instance has exactly one index entry: in the only secondary index, or in that of all parameters.
    pub(crate) is_plain: u64,
}

/// Up to this many slots, a linear scan is faster than hashing.
const SCANNED: u32 = 4;

impl InstanceSlab {
    /// For instances with `params` words of parameters, and `stride` words without the links of `indexes`, each of which
    /// is given by its key words.
    pub(crate) fn new(params: usize, stride: usize, indexes: &[Vec<usize>]) -> InstanceSlab {
        let index =
            |(number, words): (usize, &Vec<usize>)| SecondaryIndex::new(words.clone(), stride + number);
        InstanceSlab {
            params,
            stride: stride + indexes.len(),
            words: HugeVec::default(),
            header: SlabHeader { is_plain: u64::from(indexes.len() <= 1), ..SlabHeader::default() },
            indexes: indexes.iter().enumerate().map(index).collect(),
            selective: (!indexes.is_empty()).then_some(0),
            index: HashIndex::default(),
            moves: 0,
            lookup_cache: LookupCache::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.header.live as usize
    }

    /// How many slots have been used, free ones included.
    pub(crate) fn slots(&self) -> u32 {
        self.header.slots as u32
    }

    /// Bytes of a slot, with its index entries.
    pub(crate) fn slot_bytes(&self) -> usize {
        const ENTRY: usize = 8;
        8 * self.stride + ENTRY * self.indexes.len().max(1)
    }

    /// How often slots or index entries have moved in memory.
    pub(crate) fn moves(&self) -> u64 {
        self.moves
    }

    /// Whether there are so many instances that slots and index entries are not in the cache.
    #[inline(always)]
    pub(crate) fn exceeds_cache(&self) -> bool {
        const CACHED: u64 = 1 << 16;
        self.header.live > CACHED
    }

    #[inline]
    pub(crate) fn find(&self, key: &[u64]) -> Option<u32> {
        match key {
            [word] if self.selective.is_none() => self.find_word(*word),
            key => self.find_at(self.probe(key), key),
        }
    }

    /// Finds an instance whose only parameter is one word.
    #[inline(always)]
    fn find_word(&self, word: u64) -> Option<u32> {
        let (words, stride) = (&*self.words, self.stride);
        if self.slots() <= SCANNED {
            let is_it = |slot: &u32| {
                let from = *slot as usize * stride;
                words[from + PARAMS] == word && words[from + GENERATION] != 0
            };
            return (0..self.slots()).find(is_it);
        }
        let tag = HashTag::of(std::iter::once(word));
        self.index.find(tag, |slot| words[slot as usize * stride + PARAMS] == word)
    }

    /// The first slot with these key words in a secondary index; [`next`](Self::next) gives the others.
    #[inline]
    pub(crate) fn first(&self, index: usize, key: &[u64]) -> Option<u32> {
        self.indexes[index].first(key, self.slab())
    }

    pub(crate) fn next(&self, index: usize, slot: u32) -> Option<u32> {
        self.indexes[index].next(slot, self.slab())
    }

    /// Prefetches the index entry of a key of one word.
    #[inline]
    pub(crate) fn prefetch_entry(&self, route: Route, word: u64) {
        self.index_of(route).prefetch(HashTag::of(std::iter::once(word)));
    }

    /// Prefetches the slot of a key of one word, once its index entry is in the cache.
    #[inline]
    pub(crate) fn prefetch_slot(&self, route: Route, word: u64) {
        self.prefetch(self.index_of(route).guess(HashTag::of(std::iter::once(word))));
    }

    #[inline]
    pub(crate) fn prefetch(&self, slot: u32) {
        if let Some(word) = self.words.get(slot as usize * self.stride) {
            prefetch(word);
        }
    }

    /// Prefetches the index entry of the instance in a slot.
    #[inline]
    pub(crate) fn prefetch_own_entry(&self, slot: u32) {
        if self.words.len() <= slot as usize * self.stride {
            return;
        }
        match self.selective {
            Some(index) => self.indexes[index].prefetch(self.params(slot)),
            None => self.index.prefetch(HashTag::of(self.params(slot).iter().copied())),
        }
    }

    #[inline(always)]
    fn index_of(&self, route: Route) -> &HashIndex {
        match route {
            Route::Lookup => &self.index,
            Route::Index(index) => self.indexes[index].heads(),
        }
    }

    /// Spawns an instance; `None` if one with these parameters exists.
    #[inline]
    pub(crate) fn spawn(&mut self, key: &[u64]) -> Option<u32> {
        let probe = self.probe(key);
        if let Some(slot) = self.find_at(probe, key) {
            self.lookup_cache.insert(key, slot + 1);
            return None;
        }
        let slot = match self.header.free {
            0 => {
                let slot = self.slots();
                self.header.slots += 1;
                if self.header.slots > self.header.room {
                    self.add_slots();
                }
                slot
            }
            number => {
                let slot = number as u32 - 1;
                self.header.free = std::mem::take(&mut self.words[slot as usize * self.stride + PARAMS]);
                slot
            }
        };
        self.header.spawned += 1;
        self.header.live += 1;
        let words = &mut self.words[slot as usize * self.stride..][..self.stride];
        words[GENERATION] = self.header.spawned;
        copy(key, &mut words[PARAMS..PARAMS + self.params]);
        self.insert(slot, probe);
        Some(slot)
    }

    /// Frees the slot of an instance.
    pub(crate) fn close(&mut self, slot: u32) {
        if self.selective.is_none() {
            self.index.remove(HashTag::of(self.params(slot).iter().copied()), slot);
        }
        let mut slab = SlabMut { words: &mut self.words, stride: self.stride, params: self.params };
        self.indexes.iter_mut().for_each(|index| index.remove(slot, &mut slab));
        let words = &mut self.words[slot as usize * self.stride..][..self.stride];
        words.fill(0);
        words[PARAMS] = self.header.free;
        self.header.free = u64::from(slot) + 1;
        self.header.live -= 1;
    }

    /// Where a key belongs in the selective index, or else in that of all parameters.
    #[inline(always)]
    fn probe(&self, key: &[u64]) -> ProbeResult {
        match self.selective {
            Some(index) => self.indexes[index].probe(key, self.slab()),
            None => {
                let tag = HashTag::of(key.iter().copied());
                ProbeResult { tag, first: self.index.probe(tag, |slot| same(self.params(slot), key)) }
            }
        }
    }

    /// The instance with a key that was probed for.
    #[inline(always)]
    fn find_at(&self, probe: ProbeResult, key: &[u64]) -> Option<u32> {
        let first = probe.first.ok()?;
        let Some(index) = self.selective else { return Some(first) };
        let mut slots = self.indexes[index].chain(Some(first), self.slab());
        slots.find(|slot| same(self.params(*slot), key))
    }

    /// Enters a slot into the indexes.
    #[inline(always)]
    fn insert(&mut self, slot: u32, probe: ProbeResult) {
        match (self.selective, self.indexes.as_mut_slice()) {
            // Most often no other instance has the same key words.
            (Some(_), [index]) if probe.first.is_err() => {
                let mut slab = SlabMut { words: &mut self.words, stride: self.stride, params: self.params };
                self.moves += u64::from(index.insert(slot, probe, &mut slab));
            }
            _ => self.insert_everywhere(slot, probe),
        }
    }

    fn insert_everywhere(&mut self, slot: u32, probe: ProbeResult) {
        let mut slab = SlabMut { words: &mut self.words, stride: self.stride, params: self.params };
        let mut is_selective = true;
        for (number, index) in self.indexes.iter_mut().enumerate() {
            if self.selective == Some(number) {
                self.moves += u64::from(index.insert(slot, probe, &mut slab));
                is_selective = index.is_selective(slot, slab.shared());
            } else {
                let probe = index.probe(slab.shared().params(slot), slab.shared());
                self.moves += u64::from(index.insert(slot, probe, &mut slab));
            }
        }
        match probe.first {
            Err(bucket) if self.selective.is_none() => {
                self.moves += u64::from(self.index.insert(probe.tag, bucket, slot));
            }
            _ if !is_selective => self.fall_back(),
            _ => {}
        }
    }

    /// Makes room for more slots: a quarter more, but not so many that memory is touched in vain.
    #[cold]
    fn add_slots(&mut self) {
        const MORE: RangeInclusive<usize> = 32..=4096;
        let fit = (self.words.room() - self.words.len()) / self.stride;
        let more = (self.header.room as usize / 4).clamp(*MORE.start(), *MORE.end());
        let more = if fit == 0 { more } else { more.min(fit) };
        self.words.grow(self.words.len() + more * self.stride);
        self.header.room += more as u64;
        self.moves += 1;
    }

    /// Moves into up to `bytes` of a prefaulted region, of which room for `queues` deadline queues is left. How many
    /// instances there is room for.
    pub(crate) fn move_into(&mut self, region: &mut PrefaultedRegion, bytes: usize, queues: usize) -> usize {
        let index = match self.selective {
            Some(index) => self.indexes[index].heads_mut(),
            None => &mut self.index,
        };
        let mut slots = 1 << 16;
        let each = 8 * self.stride + queues * size_of::<Deadline>();
        while each * slots + HashIndex::bytes_for(slots) > bytes {
            slots /= 2;
        }
        index.move_into(region.take(HashIndex::bytes_for(slots)));
        self.words.move_into(region.take(8 * self.stride * slots));
        self.moves += 1;
        slots
    }

    /// The selective index has long chains: the next one takes its place, or else the index over all parameters.
    #[cold]
    fn fall_back(&mut self) {
        let next = self.selective.map_or(0, |index| index + 1);
        self.selective = (next < self.indexes.len()).then_some(next);
        if let Some(index) = self.selective {
            let is_selective = |slot: u32| self.indexes[index].is_selective(slot, self.slab());
            if !self.live_slots().all(is_selective) {
                self.fall_back();
            }
            return;
        }
        self.header.is_plain = u64::from(self.indexes.is_empty());
        for slot in 0..self.slots() {
            let probe = self.probe(self.params(slot));
            if let (true, Err(bucket)) = (self.is_live(slot), probe.first) {
                self.index.insert(probe.tag, bucket, slot);
            }
        }
        self.moves += 1;
    }

    /// Enters an instance that was spawned before, as number `generation`; numbers must increase. `None` if one with these
    /// parameters exists.
    pub(crate) fn restore(&mut self, key: &[u64], generation: u64) -> Option<u32> {
        self.header.spawned = generation - 1;
        self.spawn(key)
    }

    /// How many instances were ever spawned.
    pub(crate) fn spawned(&self) -> u64 {
        self.header.spawned
    }

    /// Continues to count spawns from a number, which is at least that of the last instance.
    pub(crate) fn set_spawned(&mut self, spawned: u64) {
        self.header.spawned = spawned;
    }

    /// A copy of the slots that have been used, without indexes.
    pub(crate) fn copy(&self) -> SlabCopy {
        let used = self.header.slots as usize * self.stride;
        SlabCopy {
            words: HugeVec::from(&self.words[..used]),
            stride: self.stride,
            params: self.params,
            spawned: self.header.spawned,
            live: self.header.live as usize,
        }
    }

    #[inline(always)]
    fn slab(&self) -> Slab<'_> {
        Slab { words: &self.words, stride: self.stride, params: self.params }
    }

    pub(crate) fn live_slots(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.slots()).filter(|slot| self.is_live(*slot))
    }

    pub(crate) fn is_live(&self, slot: u32) -> bool {
        self.words[slot as usize * self.stride + GENERATION] != 0
    }

    /// The generation of the instance in a slot; 0 if the slot is free.
    pub(crate) fn generation(&self, slot: u32) -> u64 {
        self.words[slot as usize * self.stride + GENERATION]
    }

    #[inline]
    pub(crate) fn params(&self, slot: u32) -> &[u64] {
        let from = slot as usize * self.stride + PARAMS;
        &self.words[from..from + self.params]
    }

    /// The latest value.
    #[inline]
    pub(crate) fn latest(&self, slot: u32, member: Member) -> Option<&[u64]> {
        self.past(slot, member, 0)
    }

    /// A stored value; 0 is the latest.
    #[inline]
    pub(crate) fn past(&self, slot: u32, member: Member, back: usize) -> Option<&[u64]> {
        let from = slot as usize * self.stride;
        if (self.words[from + member.state as usize] >> 32) as usize <= back {
            return None;
        }
        let width = member.width as usize;
        let from = from + member.values as usize + back * width;
        Some(&self.words[from..from + width])
    }

    /// Every stored value, latest first.
    pub(crate) fn values(&self, slot: u32, member: Member) -> impl Iterator<Item = &[u64]> {
        (0..member.depth as usize).map_while(move |back| self.past(slot, member, back))
    }

    /// Stores a value as the latest.
    #[inline]
    pub(crate) fn push(&mut self, slot: u32, member: Member, value: &[u64]) {
        let from = slot as usize * self.stride;
        let (values, width) = (from + member.values as usize, member.width as usize);
        let state = &mut self.words[from + member.state as usize];
        if ((*state >> 32) as u32) < member.depth {
            *state += 1 << 32;
        }
        if member.depth > 1 {
            self.words.copy_within(values..values + width * (member.depth as usize - 1), values + width);
        }
        copy(value, &mut self.words[values..values + width]);
    }

    /// The tick at which an instance of a counter was spawned, which is stored in place of its value.
    pub(crate) fn spawn_tick(&self, slot: u32, member: Member) -> u64 {
        self.words[slot as usize * self.stride + member.values as usize]
    }

    pub(crate) fn set_spawn_tick(&mut self, slot: u32, member: Member, tick: u64) {
        self.words[slot as usize * self.stride + member.values as usize] = tick;
    }

    /// The instant of the latest value, if it is stored; else 0.
    pub(crate) fn fresh(&self, slot: u32, member: Member) -> u64 {
        if member.fresh == 0 { 0 } else { self.words[slot as usize * self.stride + member.fresh as usize] }
    }

    #[inline]
    pub(crate) fn set_fresh(&mut self, slot: u32, member: Member, instant: u64) {
        if member.fresh != 0 {
            self.words[slot as usize * self.stride + member.fresh as usize] = instant;
        }
    }

    pub(crate) fn has_flag(&self, slot: u32, at: usize, flag: u64) -> bool {
        self.words[slot as usize * self.stride + at] & flag != 0
    }

    /// Sets a flag in the state word at `at`; whether it was clear.
    #[inline(always)]
    pub(crate) fn set_flag(&mut self, slot: u32, at: usize, flag: u64) -> bool {
        let state = &mut self.words[slot as usize * self.stride + at];
        let before = *state;
        *state |= flag;
        before & flag == 0
    }

    /// Clears a flag in the state word at `at`; whether it was set.
    #[inline(always)]
    pub(crate) fn clear_flag(&mut self, slot: u32, at: usize, flag: u64) -> bool {
        let state = &mut self.words[slot as usize * self.stride + at];
        let before = *state;
        *state &= !flag;
        before & flag != 0
    }

    /// The state word of the first stream, which also has the flags of the slot as a whole.
    pub(crate) fn first_state(&self) -> usize {
        PARAMS + self.params
    }

    #[inline(always)]
    pub(crate) fn words(&self, slot: u32) -> &[u64] {
        &self.words[slot as usize * self.stride..][..self.stride]
    }

    #[inline(always)]
    pub(crate) fn words_mut(&mut self, slot: u32) -> &mut [u64] {
        &mut self.words[slot as usize * self.stride..][..self.stride]
    }

    /// The word of a slot that has the links of a secondary index; its upper half is 0 at the end of a chain.
    pub(crate) fn link(&self, index: usize) -> usize {
        self.indexes[index].link()
    }

    /// For machine code, until the next [move](Self::moves): the addresses of the first slot, of the lookup cache and of
    /// the header.
    pub(crate) fn vm_layout(&mut self) -> [usize; 3] {
        let slots = self.words.as_mut_ptr().expose_provenance();
        [slots, self.lookup_cache.address(), (&raw mut self.header).expose_provenance()]
    }

    /// For machine code: the index over all parameters, then the secondary indexes.
    pub(crate) fn hash_indexes(&mut self) -> impl Iterator<Item = &mut HashIndex> {
        std::iter::once(&mut self.index).chain(self.indexes.iter_mut().map(SecondaryIndex::heads_mut))
    }
}

/// The slots of a slab as they were at one time.
pub(crate) struct SlabCopy {
    words: HugeVec<u64>,
    stride: usize,
    params: usize,
    /// How many instances were ever spawned.
    pub(crate) spawned: u64,
    pub(crate) live: usize,
}

impl SlabCopy {
    /// The slots of the instances, in the order of spawn.
    pub(crate) fn slots(&self) -> Vec<u32> {
        let mut slots = Vec::with_capacity(self.live);
        slots.extend((0..(self.words.len() / self.stride) as u32).filter(|slot| self.generation(*slot) != 0));
        if !slots.is_sorted_by_key(|slot| self.generation(*slot)) {
            slots.sort_unstable_by_key(|slot| self.generation(*slot));
        }
        slots
    }

    pub(crate) fn generation(&self, slot: u32) -> u64 {
        self.words[slot as usize * self.stride + GENERATION]
    }

    pub(crate) fn words(&self, slot: u32) -> &[u64] {
        &self.words[slot as usize * self.stride..][..self.stride]
    }

    pub(crate) fn params(&self, slot: u32) -> &[u64] {
        &self.words(slot)[PARAMS..PARAMS + self.params]
    }

    /// A stored value; 0 is the latest.
    pub(crate) fn past(&self, slot: u32, member: Member, back: usize) -> Option<&[u64]> {
        let words = self.words(slot);
        let width = member.width as usize;
        let is_stored = (words[member.state()] >> 32) as usize > back;
        is_stored.then(|| &words[member.value() + back * width..][..width])
    }

    /// Every stored value, latest first.
    pub(crate) fn values(&self, slot: u32, member: Member) -> impl Iterator<Item = &[u64]> {
        (0..member.depth as usize).map_while(move |back| self.past(slot, member, back))
    }

    pub(crate) fn has_flag(&self, slot: u32, at: usize, flag: u64) -> bool {
        self.words(slot)[at] & flag != 0
    }
}

/// The slots alone, so that indexes can be changed beside them.
#[derive(Clone, Copy)]
pub(crate) struct Slab<'a> {
    words: &'a [u64],
    stride: usize,
    params: usize,
}

impl<'a> Slab<'a> {
    #[inline(always)]
    pub(crate) fn params(self, slot: u32) -> &'a [u64] {
        let from = slot as usize * self.stride + PARAMS;
        &self.words[from..from + self.params]
    }

    #[inline(always)]
    pub(crate) fn word(self, slot: u32, at: usize) -> u64 {
        self.words[slot as usize * self.stride + at]
    }
}

/// The slots alone, to be changed.
pub(crate) struct SlabMut<'a> {
    words: &'a mut [u64],
    stride: usize,
    params: usize,
}

impl SlabMut<'_> {
    #[inline(always)]
    pub(crate) fn shared(&self) -> Slab<'_> {
        Slab { words: self.words, stride: self.stride, params: self.params }
    }

    #[inline(always)]
    pub(crate) fn word_mut(&mut self, slot: u32, at: usize) -> &mut u64 {
        &mut self.words[slot as usize * self.stride + at]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STEPS: usize = if cfg!(miri) { 60 } else { 300 };

    /// Two parameters of few values: chains get long, and neither index stays selective.
    fn key() -> impl Strategy<Value = [u64; 2]> {
        prop_oneof![[0..2_u64, 0..40_u64], [0..40_u64, 0..2_u64], [0..40_u64, 0..40_u64]]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 256 }))]

        /// The slab agrees with a list of keys in order of spawn.
        #[test]
        fn instances_are_found_by_all_and_by_some_parameters(
            changes in prop::collection::vec((key(), 0..4_u8), 0..STEPS),
            indexes in prop::sample::subsequence(vec![vec![0], vec![1], vec![1, 0]], 0..=3),
        ) {
            let mut instances = InstanceSlab::new(2, 4, &indexes);
            let mut known: Vec<([u64; 2], u32)> = Vec::new();
            for (key, change) in changes {
                let place = known.iter().position(|(other, _)| *other == key);
                prop_assert_eq!(instances.find(&key), place.map(|place| known[place].1));
                match place {
                    Some(place) if change == 0 => instances.close(known.remove(place).1),
                    Some(_) => prop_assert_eq!(instances.spawn(&key), None),
                    None => known.push((key, instances.spawn(&key).unwrap())),
                }
                prop_assert_eq!(instances.len(), known.len());
                for (number, words_of) in indexes.iter().enumerate() {
                    let words = |key: &[u64; 2]| -> Vec<u64> { words_of.iter().map(|at| key[*at]).collect() };
                    let mut slot = instances.first(number, &words(&key));
                    // The last spawned comes first.
                    for (_, expected) in known.iter().rev().filter(|(other, _)| words(other) == words(&key)) {
                        prop_assert_eq!(slot, Some(*expected));
                        slot = instances.next(number, *expected);
                    }
                    prop_assert_eq!(slot, None);
                }
            }
        }

        /// An instance keeps its number, whatever slot it gets.
        #[test]
        fn restored_instances_are_found_by_their_parameters(
            keys in prop::collection::btree_set((0..40_u64, 0..6_u64), 0..60),
            indexes in prop::sample::subsequence(vec![vec![0], vec![1], vec![1, 0]], 0..=3),
        ) {
            let mut instances = InstanceSlab::new(2, 4, &indexes);
            let keys: Vec<[u64; 2]> = keys.into_iter().map(|(one, other)| [one, other]).collect();
            for (number, key) in (1..).zip(&keys) {
                let slot = instances.restore(key, 3 * number).unwrap();
                prop_assert_eq!((instances.find(key), instances.generation(slot)), (Some(slot), 3 * number));
                prop_assert_eq!(instances.restore(key, 3 * number + 1), None);
            }
            let copy = instances.copy();
            let copied: Vec<Vec<u64>> = copy.slots().iter().map(|slot| copy.params(*slot).to_vec()).collect();
            prop_assert_eq!(copied, keys.iter().map(|key| key.to_vec()).collect::<Vec<_>>());
        }
    }
}
