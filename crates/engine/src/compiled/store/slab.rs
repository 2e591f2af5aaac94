//! The instances of parameterised streams: a slab of slots that are used again after a close, a table
//! that finds a slot by its parameters, and indexes that find slots by some of them.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::compiled::exec::prefetch::fetch;
use crate::compiled::ir::plan::Route;
use crate::compiled::store::deadline_queue::Deadline;
use crate::compiled::store::hash_index::{HashIndex, HashTag};
use crate::compiled::store::huge_vec::{HugeVec, PrefaultedRegion};
use crate::compiled::store::lookup_cache::LookupCache;
use crate::compiled::store::secondary_index::{ProbeResult, SecondaryIndex};
use crate::compiled::store::words::{copy, same};

/// The first word of a slot: which spawn it is; 0 if the slot is free. The parameters follow, then
/// for each stream a word of state, the instant of its latest value if somebody asks for it, and its
/// values, latest first. The last words are links, one for each index.
pub(crate) const GENERATION: usize = 0;
pub(crate) const PARAMS: usize = 1;

/// Flags of an instance, in the low half of its state. The high half counts its values.
pub(crate) mod flag {
    /// Its evaluation must be done again: something that it reads has changed.
    pub(crate) const EVALUATE: u64 = 1;
    /// As for its evaluation, but its close condition.
    pub(crate) const CLOSE: u64 = 2;
    /// Its latest evaluation gave a value.
    pub(crate) const HOLDS: u64 = 4;
    /// It is a candidate for evaluation at this instant already.
    pub(crate) const CANDIDATE: u64 = 8;
}

/// The instances of streams that are spawned and closed together: a slot holds one of each.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct InstanceSlab {
    params: usize,
    stride: usize,
    words: HugeVec<u64>,
    header: SlabHeader,
    indexes: Vec<SecondaryIndex>,
    /// The index that stands for the table, as long as there is one that leads to a few slots at most.
    #[serde(skip)]
    selective: Option<usize>,
    #[serde(skip)]
    table: HashIndex,
    /// Whether slots or tables have moved in memory since somebody asked.
    #[serde(skip)]
    has_moved: bool,
    /// Slots, plus one, that somebody tried to spawn again, by their parameters.
    #[serde(skip)]
    recent: LookupCache,
}

/// How many there are. Machine code counts, too.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[repr(C)]
pub(crate) struct SlabHeader {
    /// How often one was spawned.
    pub(crate) spawned: u64,
    pub(crate) live: u64,
    /// How many slots there are, free ones included, ...
    pub(crate) slots: u64,
    /// ... and how many there is room for.
    pub(crate) room: u64,
    /// The slot, plus one, that was freed last; in the place of its parameters is the one before it. 0 if there is none.
    pub(crate) free: u64,
    /// Not 0 if all that leads to a slot is one entry in one table: that of the only index, or of all parameters.
    pub(crate) is_plain: u64,
}

/// A stream of a family: where in a slot its words are, and how many values it remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Member {
    state: u32,
    /// Where the instant of the latest value is; 0 if nobody asks.
    fresh: u32,
    values: u32,
    width: u32,
    depth: u32,
}

impl Member {
    /// Where its flags are.
    pub(crate) fn state(self) -> usize {
        self.state as usize
    }

    /// Where its latest value is.
    pub(crate) fn value(self) -> usize {
        self.values as usize
    }
}

/// What a slot must have room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) width: usize,
    pub(crate) depth: usize,
    /// Whether somebody asks at which instant the latest value came.
    pub(crate) knows_fresh: bool,
}

/// Where in a slot the words of streams are, and how many there are.
pub(crate) fn arrange(params: usize, rooms: impl Iterator<Item = Room>) -> (Vec<Member>, usize) {
    let mut stride = PARAMS + params;
    let member = |room: Room| {
        let fresh = if room.knows_fresh { stride as u32 + 1 } else { 0 };
        let values = stride + 1 + usize::from(room.knows_fresh);
        let (state, width, depth) = (stride as u32, room.width as u32, room.depth as u32);
        stride = values + room.width * room.depth;
        Member { state, fresh, values: values as u32, width, depth }
    };
    (rooms.map(member).collect(), stride)
}

/// Up to so many slots, looking is faster than hashing.
const FEW: u32 = 4;

impl InstanceSlab {
    /// For instances with `params` words of parameters, and `stride` words without links.
    pub(crate) fn new(params: usize, stride: usize, indexes: &[Vec<usize>]) -> InstanceSlab {
        let index =
            |(number, places): (usize, &Vec<usize>)| SecondaryIndex::new(places.clone(), stride + number);
        InstanceSlab {
            params,
            stride: stride + indexes.len(),
            words: HugeVec::default(),
            header: SlabHeader { is_plain: u64::from(indexes.len() <= 1), ..SlabHeader::default() },
            indexes: indexes.iter().enumerate().map(index).collect(),
            selective: (!indexes.is_empty()).then_some(0),
            table: HashIndex::default(),
            has_moved: true,
            recent: LookupCache::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.header.live as usize
    }

    /// What a slot takes, with its entries in the table or the indexes.
    pub(crate) fn slot_bytes(&self) -> usize {
        const ENTRY: usize = 8;
        8 * self.stride + ENTRY * self.indexes.len().max(1)
    }

    /// Whether slots or tables have moved in memory since this was asked last.
    #[inline]
    pub(crate) fn has_moved(&mut self) -> bool {
        std::mem::take(&mut self.has_moved)
    }

    /// The table of all parameters, and those of the indexes after it.
    pub(crate) fn tables(&mut self) -> impl Iterator<Item = &mut HashIndex> {
        std::iter::once(&mut self.table).chain(self.indexes.iter_mut().map(SecondaryIndex::table_mut))
    }

    /// Where in memory it says how many there are.
    pub(crate) fn header_address(&mut self) -> usize {
        (&raw mut self.header).expose_provenance()
    }

    /// Where in a slot the link of an index is; its upper half is 0 if no slot follows.
    pub(crate) fn link(&self, index: usize) -> usize {
        self.indexes[index].link()
    }

    /// Where the first slot is in memory, until the next spawn.
    #[inline]
    pub(crate) fn address(&mut self) -> usize {
        self.words.as_mut_ptr().expose_provenance()
    }

    /// Where the numbers of recent slots are in memory.
    pub(crate) fn lookup_cache_address(&mut self) -> usize {
        self.recent.address()
    }

    /// How many slots there are, free ones included.
    pub(crate) fn slots(&self) -> u32 {
        self.header.slots as u32
    }

    #[inline]
    pub(crate) fn find(&self, key: &[u64]) -> Option<u32> {
        match key {
            [word] if self.selective.is_none() => self.find_word(*word),
            key => self.find_at(self.probe(key), key),
        }
    }

    /// The same for a single word.
    #[inline(always)]
    pub(crate) fn find_word(&self, word: u64) -> Option<u32> {
        let (words, stride) = (&*self.words, self.stride);
        if self.slots() <= FEW {
            let is_it = |slot: &u32| {
                let from = *slot as usize * stride;
                words[from + PARAMS] == word && words[from + GENERATION] != 0
            };
            return (0..self.slots()).find(is_it);
        }
        let tag = HashTag::of(std::iter::once(word));
        self.table.find(tag, |slot| words[slot as usize * stride + PARAMS] == word)
    }

    /// The first slot with these words at the places of an index; [`next`](Self::next) gives the others.
    #[inline]
    pub(crate) fn first(&self, index: usize, key: &[u64]) -> Option<u32> {
        self.indexes[index].first(key, self.slab())
    }

    pub(crate) fn next(&self, index: usize, slot: u32) -> Option<u32> {
        self.indexes[index].next(slot, self.slab())
    }

    /// Whether there are so many that they are not at hand.
    #[inline(always)]
    pub(crate) fn are_many(&self) -> bool {
        const MANY: u64 = 1 << 16;
        self.header.live > MANY
    }

    /// Has what leads to the instances with a word fetched from memory.
    #[inline]
    pub(crate) fn fetch_entry(&self, route: Route, word: u64) {
        self.table_of(route).fetch(HashTag::of(std::iter::once(word)));
    }

    /// Has the first of them fetched itself, once that is there.
    #[inline]
    pub(crate) fn fetch_slot(&self, route: Route, word: u64) {
        self.fetch(self.table_of(route).guess(HashTag::of(std::iter::once(word))));
    }

    /// Has a slot fetched.
    #[inline]
    pub(crate) fn fetch(&self, slot: u32) {
        if let Some(word) = self.words.get(slot as usize * self.stride) {
            fetch(word);
        }
    }

    /// Has what leads to a slot fetched.
    #[inline]
    pub(crate) fn fetch_own_entry(&self, slot: u32) {
        if self.words.len() <= slot as usize * self.stride {
            return;
        }
        match self.selective {
            Some(index) => self.indexes[index].fetch(self.params(slot)),
            None => self.table.fetch(HashTag::of(self.params(slot).iter().copied())),
        }
    }

    #[inline(always)]
    fn table_of(&self, route: Route) -> &HashIndex {
        match route {
            Route::Lookup => &self.table,
            Route::Index(index) => self.indexes[index].table(),
        }
    }

    /// A new instance; `None` if there is one with these parameters.
    #[inline]
    pub(crate) fn spawn(&mut self, key: &[u64]) -> Option<u32> {
        let probe = self.probe(key);
        if let Some(slot) = self.find_at(probe, key) {
            self.recent.remember(key, slot + 1);
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
        self.enter(slot, probe);
        Some(slot)
    }

    pub(crate) fn close(&mut self, slot: u32) {
        if self.selective.is_none() {
            self.table.remove(HashTag::of(self.params(slot).iter().copied()), slot);
        }
        let mut slab = SlabMut { words: &mut self.words, stride: self.stride, params: self.params };
        self.indexes.iter_mut().for_each(|index| index.remove(slot, &mut slab));
        let words = &mut self.words[slot as usize * self.stride..][..self.stride];
        words.fill(0);
        words[PARAMS] = self.header.free;
        self.header.free = u64::from(slot) + 1;
        self.header.live -= 1;
    }

    /// Where a key belongs in the selective index, or else in the table.
    #[inline(always)]
    fn probe(&self, key: &[u64]) -> ProbeResult {
        match self.selective {
            Some(index) => self.indexes[index].probe(key, self.slab()),
            None => {
                let tag = HashTag::of(key.iter().copied());
                ProbeResult { tag, first: self.table.probe(tag, |slot| same(self.params(slot), key)) }
            }
        }
    }

    /// The instance with a key that belongs there.
    #[inline(always)]
    fn find_at(&self, probe: ProbeResult, key: &[u64]) -> Option<u32> {
        let first = probe.first.ok()?;
        let Some(index) = self.selective else { return Some(first) };
        let mut slots = self.indexes[index].slots(Some(first), self.slab());
        slots.find(|slot| same(self.params(*slot), key))
    }

    #[inline(always)]
    fn enter(&mut self, slot: u32, probe: ProbeResult) {
        match (self.selective, self.indexes.as_mut_slice()) {
            // Most often nobody else has the same words.
            (Some(_), [index]) if probe.first.is_err() => {
                let mut slab = SlabMut { words: &mut self.words, stride: self.stride, params: self.params };
                self.has_moved |= index.insert(slot, probe, &mut slab);
            }
            _ => self.enter_everywhere(slot, probe),
        }
    }

    fn enter_everywhere(&mut self, slot: u32, probe: ProbeResult) {
        let mut slab = SlabMut { words: &mut self.words, stride: self.stride, params: self.params };
        let mut is_selective = true;
        for (number, index) in self.indexes.iter_mut().enumerate() {
            if self.selective == Some(number) {
                self.has_moved |= index.insert(slot, probe, &mut slab);
                is_selective = index.is_selective(slot, slab.shared());
            } else {
                let probe = index.probe(slab.shared().params(slot), slab.shared());
                self.has_moved |= index.insert(slot, probe, &mut slab);
            }
        }
        match probe.first {
            Err(place) if self.selective.is_none() => {
                self.has_moved |= self.table.insert(probe.tag, place, slot);
            }
            _ if !is_selective => self.fall_back(),
            _ => {}
        }
    }

    /// Makes room for more slots: some more than there are, but not so many that memory is touched for nobody.
    #[cold]
    fn add_slots(&mut self) {
        const MORE: RangeInclusive<usize> = 32..=4096;
        let fit = (self.words.room() - self.words.len()) / self.stride;
        let more = (self.header.room as usize / 4).clamp(*MORE.start(), *MORE.end());
        let more = if fit == 0 { more } else { more.min(fit) };
        self.words.grow(self.words.len() + more * self.stride);
        self.header.room += more as u64;
        self.has_moved = true;
    }

    /// Lets the first of many instances have memory that has been touched: so many bytes, of which some are left for their
    /// clocks. How many instances that is enough for.
    pub(crate) fn move_into(&mut self, region: &mut PrefaultedRegion, bytes: usize, clocks: usize) -> usize {
        let table = match self.selective {
            Some(index) => self.indexes[index].table_mut(),
            None => &mut self.table,
        };
        let mut slots = 1 << 16;
        let each = 8 * self.stride + clocks * size_of::<Deadline>();
        while each * slots + HashIndex::bytes_for(slots) > bytes {
            slots /= 2;
        }
        table.move_into(region.extent(HashIndex::bytes_for(slots)));
        self.words.move_into(region.extent(8 * self.stride * slots));
        self.has_moved = true;
        slots
    }

    /// The index leads to too many slots: another one may do, or else the table.
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
            if let (true, Err(place)) = (self.is_live(slot), probe.first) {
                self.table.insert(probe.tag, place, slot);
            }
        }
        self.has_moved = true;
    }

    /// Builds the tables anew once the slots have been read back.
    pub(crate) fn index(&mut self) {
        self.table = HashIndex::default();
        self.selective = (!self.indexes.is_empty()).then_some(0);
        self.header.is_plain = u64::from(self.indexes.len() <= 1);
        self.has_moved = true;
        let mut slots: Vec<u32> = self.live_slots().collect();
        slots.sort_unstable_by_key(|slot| self.generation(*slot));
        for index in &mut self.indexes {
            index.clear();
            slots.iter().for_each(|slot| self.words[*slot as usize * self.stride + index.link()] = 0);
        }
        for slot in slots {
            let probe = self.probe(self.params(slot));
            self.enter(slot, probe);
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

    /// Which spawn of the stream an instance is; 0 for a slot that is free.
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

    /// The value `back` values before the latest.
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

    /// The tick at which an instance of a counter was spawned, which takes the place of its value.
    pub(crate) fn spawn_tick(&self, slot: u32, member: Member) -> u64 {
        self.words[slot as usize * self.stride + member.values as usize]
    }

    pub(crate) fn set_spawn_tick(&mut self, slot: u32, member: Member, tick: u64) {
        self.words[slot as usize * self.stride + member.values as usize] = tick;
    }

    /// The instant at which it got its latest value, if somebody asks for that.
    pub(crate) fn fresh(&self, slot: u32, member: Member) -> u64 {
        if member.fresh == 0 { 0 } else { self.words[slot as usize * self.stride + member.fresh as usize] }
    }

    #[inline]
    pub(crate) fn set_fresh(&mut self, slot: u32, member: Member, instant: u64) {
        if member.fresh != 0 {
            self.words[slot as usize * self.stride + member.fresh as usize] = instant;
        }
    }

    pub(crate) fn has(&self, slot: u32, member: Member, flag: u64) -> bool {
        self.words[slot as usize * self.stride + member.state as usize] & flag != 0
    }

    /// Sets or clears a flag; whether that changed it.
    #[inline]
    pub(crate) fn set(&mut self, slot: u32, member: Member, flag: u64, on: bool) -> bool {
        let state = &mut self.words[slot as usize * self.stride + member.state as usize];
        let before = *state;
        if on {
            *state |= flag;
        } else {
            *state &= !flag;
        }
        *state != before
    }

    /// Sets a flag of the state at a place in a slot; whether that changed it.
    #[inline(always)]
    pub(crate) fn raise(&mut self, slot: u32, at: usize, flag: u64) -> bool {
        let state = &mut self.words[slot as usize * self.stride + at];
        let before = *state;
        *state |= flag;
        before & flag == 0
    }

    /// The same, the other way.
    #[inline(always)]
    pub(crate) fn lower(&mut self, slot: u32, at: usize, flag: u64) -> bool {
        let state = &mut self.words[slot as usize * self.stride + at];
        let before = *state;
        *state &= !flag;
        before & flag != 0
    }

    /// Everything in a slot.
    #[inline(always)]
    pub(crate) fn words(&self, slot: u32) -> &[u64] {
        &self.words[slot as usize * self.stride..][..self.stride]
    }

    #[inline(always)]
    pub(crate) fn words_mut(&mut self, slot: u32) -> &mut [u64] {
        &mut self.words[slot as usize * self.stride..][..self.stride]
    }

    /// Every value of a member that a slot holds.
    pub(crate) fn values(&self, slot: u32, member: Member) -> impl Iterator<Item = &[u64]> {
        (0..member.depth as usize).map_while(move |back| self.past(slot, member, back))
    }

    /// The member that stands for the slot as a whole: the first.
    pub(crate) fn first_member(&self) -> Member {
        Member { state: (PARAMS + self.params) as u32, ..Member::default() }
    }
}

/// The slots alone, so that tables can be changed beside them.
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

/// The same, to be changed.
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

    /// Two parameters of few values: chains get long, and neither index stays selective.
    fn key() -> impl Strategy<Value = [u64; 2]> {
        prop_oneof![[0..2_u64, 0..40_u64], [0..40_u64, 0..2_u64], [0..40_u64, 0..40_u64]]
    }

    proptest! {
        /// As a list of keys in order of spawn is.
        #[test]
        fn instances_are_found_by_all_and_by_some_parameters(
            changes in prop::collection::vec((key(), 0..4_u8), 0..300),
            indexes in prop::sample::subsequence(vec![vec![0], vec![1], vec![1, 0]], 0..=3),
            restored in 0..300_usize,
        ) {
            let mut instances = InstanceSlab::new(2, 4, &indexes);
            let mut known: Vec<([u64; 2], u32)> = Vec::new();
            for (step, (key, change)) in changes.into_iter().enumerate() {
                let place = known.iter().position(|(other, _)| *other == key);
                prop_assert_eq!(instances.find(&key), place.map(|place| known[place].1));
                match place {
                    Some(place) if change == 0 => instances.close(known.remove(place).1),
                    Some(_) => prop_assert_eq!(instances.spawn(&key), None),
                    None => known.push((key, instances.spawn(&key).unwrap())),
                }
                if step == restored {
                    instances.index();
                }
                prop_assert_eq!(instances.len(), known.len());
                for (number, places) in indexes.iter().enumerate() {
                    let words = |key: &[u64; 2]| -> Vec<u64> { places.iter().map(|at| key[*at]).collect() };
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
    }
}
