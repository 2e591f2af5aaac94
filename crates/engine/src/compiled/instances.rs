//! The instances of parameterised streams: a slab of slots that are used again after a close, a table
//! that finds a slot by its parameters, and indexes that find slots by some of them.

use hashbrown::HashTable;
use serde::{Deserialize, Serialize};

use super::tally::{RECENT, recent};
use super::words::{Entry, copy, same, table_hash};

/// The first word of a slot: which spawn it is; 0 if the slot is free. The parameters follow, then
/// for each stream a word of state, the instant of its latest value if somebody asks for it, and its
/// values, latest first.
pub(super) const BORN: usize = 0;
pub(super) const PARAMS: usize = 1;

/// Flags of an instance, in the low half of its state. The high half counts its values.
pub(super) mod flag {
    /// Its evaluation must be done again: something that it reads has changed.
    pub(in crate::compiled) const EVALUATE: u64 = 1;
    /// As for its evaluation, but its close condition.
    pub(in crate::compiled) const CLOSE: u64 = 2;
    /// Its latest evaluation gave a value.
    pub(in crate::compiled) const HOLDS: u64 = 4;
    /// It is a candidate for evaluation at this instant already.
    pub(in crate::compiled) const CANDIDATE: u64 = 8;
}

/// The instances of streams that are spawned and closed together: a slot holds one of each.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Instances {
    params: usize,
    stride: usize,
    words: Vec<u64>,
    slots: u32,
    free: Vec<u32>,
    spawned: u64,
    live: usize,
    indexes: Vec<Index>,
    #[serde(skip)]
    table: HashTable<Entry>,
    /// Slots, plus one, that somebody tried to spawn again, by [`recent`](super::tally::recent).
    #[serde(skip)]
    recent: [u32; RECENT],
}

/// A stream of a family: where in a slot its words are, and how many values it remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Member {
    state: u32,
    /// Where the instant of the latest value is; 0 if nobody asks.
    fresh: u32,
    values: u32,
    width: u32,
    depth: u32,
}

impl Member {
    /// Where its flags are.
    pub(super) fn state(self) -> usize {
        self.state as usize
    }

    /// Where its latest value is.
    pub(super) fn value(self) -> usize {
        self.values as usize
    }
}

/// What a slot must have room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) width: usize,
    pub(super) depth: usize,
    /// Whether somebody asks at which instant the latest value came.
    pub(super) knows_fresh: bool,
}

/// Where in a slot the words of streams are, and how many there are.
pub(super) fn arrange(params: usize, rooms: impl Iterator<Item = Room>) -> (Vec<Member>, usize) {
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

/// Finds the slots whose parameters have given words at some places.
#[derive(Clone, Serialize, Deserialize)]
struct Index {
    places: Vec<usize>,
    /// For each slot, the one before and the one after it with the same words there.
    links: Vec<[u32; 2]>,
    /// The last spawned slot of each chain.
    #[serde(skip)]
    heads: HashTable<Entry>,
}

const NONE: u32 = u32::MAX;

/// Up to so many slots, looking is faster than hashing.
const FEW: u32 = 4;

impl Instances {
    /// For instances with `params` words of parameters, and `stride` words in all.
    pub(super) fn new(params: usize, stride: usize, indexes: &[Vec<usize>]) -> Instances {
        let index = |places: &Vec<usize>| Index {
            places: places.clone(),
            links: Vec::new(),
            heads: HashTable::new(),
        };
        Instances {
            params,
            stride,
            words: Vec::new(),
            slots: 0,
            free: Vec::new(),
            spawned: 0,
            live: 0,
            indexes: indexes.iter().map(index).collect(),
            table: HashTable::new(),
            recent: [0; RECENT],
        }
    }

    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// What a slot takes, with its entries in the table and the indexes.
    pub(super) fn slot_bytes(&self) -> usize {
        const ENTRY: usize = 9;
        const LINKS: usize = 8;
        8 * self.stride + ENTRY + self.indexes.len() * (ENTRY + LINKS)
    }

    /// Where the first slot is in memory, until the next spawn.
    #[inline]
    pub(super) fn address(&mut self) -> usize {
        self.words.as_mut_ptr().expose_provenance()
    }

    /// Where the numbers of recent slots are in memory.
    pub(super) fn recent_address(&mut self) -> usize {
        self.recent.as_mut_ptr().expose_provenance()
    }

    /// How many slots there are, free ones included.
    pub(super) fn slots(&self) -> u32 {
        self.slots
    }

    #[inline]
    pub(super) fn find(&self, key: &[u64]) -> Option<u32> {
        if let [word] = key {
            return self.find_word(*word);
        }
        self.find_hashed(table_hash(key.iter().copied()), key)
    }

    #[inline(always)]
    fn find_hashed(&self, hash: u64, key: &[u64]) -> Option<u32> {
        let is_it = |entry: &Entry| entry.may_be(hash) && same(self.params(entry.number), key);
        self.table.find(hash, is_it).map(|entry| entry.number)
    }

    /// The same for a single word.
    #[inline(always)]
    pub(super) fn find_word(&self, word: u64) -> Option<u32> {
        let (words, stride) = (self.words.as_slice(), self.stride);
        if self.slots <= FEW {
            let is_it = |slot: &u32| {
                let from = *slot as usize * stride;
                words[from + PARAMS] == word && words[from + BORN] != 0
            };
            return (0..self.slots).find(is_it);
        }
        let hash = table_hash(std::iter::once(word));
        let is_it =
            |entry: &Entry| entry.may_be(hash) && words[entry.number as usize * stride + PARAMS] == word;
        self.table.find(hash, is_it).map(|entry| entry.number)
    }

    /// The first slot with these words at the places of an index; [`next`](Self::next) gives the others.
    #[inline]
    pub(super) fn first(&self, index: usize, key: &[u64]) -> Option<u32> {
        let index = &self.indexes[index];
        let hash = table_hash(key.iter().copied());
        let found = match (index.places.as_slice(), key) {
            ([place], [word]) => {
                let (words, stride, at) = (self.words.as_slice(), self.stride, PARAMS + place);
                let is_it = |entry: &Entry| words[entry.number as usize * stride + at] == *word;
                index.heads.find(hash, is_it)
            }
            (places, key) => {
                let is_it = |entry: &Entry| {
                    let params = self.params(entry.number);
                    entry.may_be(hash) && places.iter().zip(key).all(|(place, word)| params[*place] == *word)
                };
                index.heads.find(hash, is_it)
            }
        };
        found.map(|entry| entry.number)
    }

    pub(super) fn next(&self, index: usize, slot: u32) -> Option<u32> {
        let [_, next] = self.indexes[index].links[slot as usize];
        (next != NONE).then_some(next)
    }

    /// A new instance; `None` if there is one with these parameters.
    #[inline]
    pub(super) fn spawn(&mut self, key: &[u64]) -> Option<u32> {
        let hash = table_hash(key.iter().copied());
        if let Some(slot) = self.find_hashed(hash, key) {
            self.recent[recent(key)] = slot + 1;
            return None;
        }
        let slot = match self.free.pop() {
            Some(slot) => {
                self.words[slot as usize * self.stride..][..self.stride].fill(0);
                slot
            }
            None => {
                self.slots += 1;
                self.words.resize(self.words.len() + self.stride, 0);
                self.slots - 1
            }
        };
        self.spawned += 1;
        self.live += 1;
        let words = &mut self.words[slot as usize * self.stride..][..self.stride];
        words[BORN] = self.spawned;
        copy(key, &mut words[PARAMS..PARAMS + self.params]);
        self.enter(slot, hash);
        Some(slot)
    }

    pub(super) fn close(&mut self, slot: u32) {
        let slab = Slab { words: &self.words, stride: self.stride, params: self.params };
        let hash = table_hash(slab.params(slot).iter().copied());
        if let Ok(entry) = self.table.find_entry(hash, |entry| entry.number == slot) {
            entry.remove();
        }
        for index in &mut self.indexes {
            index.remove(slot, slab);
        }
        self.words[slot as usize * self.stride + BORN] = 0;
        self.free.push(slot);
        self.live -= 1;
    }

    fn enter(&mut self, slot: u32, hash: u64) {
        let slab = Slab { words: &self.words, stride: self.stride, params: self.params };
        self.table.insert_unique(hash, Entry::new(slot, hash), Entry::hash);
        for index in &mut self.indexes {
            index.insert(slot, slab);
        }
    }

    /// Builds the tables anew once the slots have been read back.
    pub(super) fn index(&mut self) {
        self.table.clear();
        for index in &mut self.indexes {
            index.heads.clear();
            index.links.clear();
        }
        let mut slots: Vec<u32> = self.live_slots().collect();
        slots.sort_unstable_by_key(|slot| self.born(*slot));
        for slot in slots {
            let hash = table_hash(self.params(slot).iter().copied());
            self.enter(slot, hash);
        }
    }

    pub(super) fn live_slots(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.slots()).filter(|slot| self.is_live(*slot))
    }

    pub(super) fn is_live(&self, slot: u32) -> bool {
        self.words[slot as usize * self.stride + BORN] != 0
    }

    /// Which spawn of the stream an instance is; 0 for a slot that is free.
    pub(super) fn born(&self, slot: u32) -> u64 {
        self.words[slot as usize * self.stride + BORN]
    }

    #[inline]
    pub(super) fn params(&self, slot: u32) -> &[u64] {
        let from = slot as usize * self.stride + PARAMS;
        &self.words[from..from + self.params]
    }

    /// The latest value.
    #[inline]
    pub(super) fn latest(&self, slot: u32, member: Member) -> Option<&[u64]> {
        self.past(slot, member, 0)
    }

    /// The value `back` values before the latest.
    #[inline]
    pub(super) fn past(&self, slot: u32, member: Member, back: usize) -> Option<&[u64]> {
        let from = slot as usize * self.stride;
        if (self.words[from + member.state as usize] >> 32) as usize <= back {
            return None;
        }
        let width = member.width as usize;
        let from = from + member.values as usize + back * width;
        Some(&self.words[from..from + width])
    }

    #[inline]
    pub(super) fn push(&mut self, slot: u32, member: Member, value: &[u64]) {
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
    pub(super) fn spawn_tick(&self, slot: u32, member: Member) -> u64 {
        self.words[slot as usize * self.stride + member.values as usize]
    }

    pub(super) fn set_spawn_tick(&mut self, slot: u32, member: Member, tick: u64) {
        self.words[slot as usize * self.stride + member.values as usize] = tick;
    }

    /// The instant at which it got its latest value, if somebody asks for that.
    pub(super) fn fresh(&self, slot: u32, member: Member) -> u64 {
        if member.fresh == 0 { 0 } else { self.words[slot as usize * self.stride + member.fresh as usize] }
    }

    #[inline]
    pub(super) fn set_fresh(&mut self, slot: u32, member: Member, instant: u64) {
        if member.fresh != 0 {
            self.words[slot as usize * self.stride + member.fresh as usize] = instant;
        }
    }

    pub(super) fn has(&self, slot: u32, member: Member, flag: u64) -> bool {
        self.words[slot as usize * self.stride + member.state as usize] & flag != 0
    }

    /// Sets or clears a flag; whether that changed it.
    #[inline]
    pub(super) fn set(&mut self, slot: u32, member: Member, flag: u64, on: bool) -> bool {
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
    pub(super) fn raise(&mut self, slot: u32, at: usize, flag: u64) -> bool {
        let state = &mut self.words[slot as usize * self.stride + at];
        let before = *state;
        *state |= flag;
        before & flag == 0
    }

    /// The same, the other way.
    #[inline(always)]
    pub(super) fn lower(&mut self, slot: u32, at: usize, flag: u64) -> bool {
        let state = &mut self.words[slot as usize * self.stride + at];
        let before = *state;
        *state &= !flag;
        before & flag != 0
    }

    /// Everything in a slot.
    #[inline(always)]
    pub(super) fn words(&self, slot: u32) -> &[u64] {
        &self.words[slot as usize * self.stride..][..self.stride]
    }

    #[inline(always)]
    pub(super) fn words_mut(&mut self, slot: u32) -> &mut [u64] {
        &mut self.words[slot as usize * self.stride..][..self.stride]
    }

    /// Every value of a member that a slot holds.
    pub(super) fn values(&self, slot: u32, member: Member) -> impl Iterator<Item = &[u64]> {
        (0..member.depth as usize).map_while(move |back| self.past(slot, member, back))
    }

    /// The member that stands for the slot as a whole: the first.
    pub(super) fn first_member(&self) -> Member {
        Member { state: (PARAMS + self.params) as u32, ..Member::default() }
    }
}

/// The slots alone, so that tables can be changed beside them.
#[derive(Clone, Copy)]
struct Slab<'a> {
    words: &'a [u64],
    stride: usize,
    params: usize,
}

impl<'a> Slab<'a> {
    fn params(self, slot: u32) -> &'a [u64] {
        let from = slot as usize * self.stride + PARAMS;
        &self.words[from..from + self.params]
    }
}

impl Index {
    #[inline]
    fn hash(&self, slot: u32, slab: Slab<'_>) -> u64 {
        let params = slab.params(slot);
        if let [place] = self.places.as_slice() {
            return table_hash(std::iter::once(params[*place]));
        }
        table_hash(self.places.iter().map(|place| params[*place]))
    }

    fn insert(&mut self, slot: u32, slab: Slab<'_>) {
        if self.links.len() <= slot as usize {
            self.links.resize(slot as usize + 1, [NONE; 2]);
        }
        let hash = self.hash(slot, slab);
        let (places, own) = (&self.places, slab.params(slot));
        let equal = |entry: &Entry| {
            let other = slab.params(entry.number);
            entry.may_be(hash) && places.iter().all(|place| own[*place] == other[*place])
        };
        match self.heads.find_mut(hash, equal) {
            Some(head) => {
                let before = std::mem::replace(&mut head.number, slot);
                self.links[slot as usize] = [NONE, before];
                self.links[before as usize][0] = slot;
            }
            None => {
                self.links[slot as usize] = [NONE; 2];
                self.heads.insert_unique(hash, Entry::new(slot, hash), Entry::hash);
            }
        }
    }

    fn remove(&mut self, slot: u32, slab: Slab<'_>) {
        let [before, after] = self.links[slot as usize];
        if after != NONE {
            self.links[after as usize][0] = before;
        }
        if before != NONE {
            self.links[before as usize][1] = after;
        } else if let Ok(mut entry) =
            self.heads.find_entry(self.hash(slot, slab), |entry| entry.number == slot)
        {
            if after == NONE {
                entry.remove();
            } else {
                entry.get_mut().number = after;
            }
        }
    }
}
