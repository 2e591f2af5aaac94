//! Finds the instances whose parameters have given words at some places.

use serde::{Deserialize, Serialize};

use crate::compiled::store::hash_index::{Bucket, HashIndex, HashTag};
use crate::compiled::store::slab::{PARAMS, Slab, SlabMut};

/// Slots with the same words are a chain, the last spawned first. Each has a word of links: the slot before it in the
/// lower half, the one after it in the upper, both plus one.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct SecondaryIndex {
    places: Vec<usize>,
    link: usize,
    /// The first slot of each chain.
    #[serde(skip)]
    heads: HashIndex,
}

/// Where parameters belong in an index or a table, as long as that does not change: the hash of their words, and the
/// first slot that has the same.
#[derive(Clone, Copy)]
pub(crate) struct ProbeResult {
    pub(crate) tag: HashTag,
    pub(crate) first: Result<u32, Bucket>,
}

impl SecondaryIndex {
    /// By the words of parameters at some places, with links at a place in the slot.
    pub(crate) fn new(places: Vec<usize>, link: usize) -> SecondaryIndex {
        SecondaryIndex { places, link, heads: HashIndex::default() }
    }

    pub(crate) fn table(&self) -> &HashIndex {
        &self.heads
    }

    pub(crate) fn table_mut(&mut self) -> &mut HashIndex {
        &mut self.heads
    }

    /// Has the place fetched from memory where parameters would be looked for first.
    #[inline]
    pub(crate) fn fetch(&self, params: &[u64]) {
        self.heads.fetch(self.tag(params));
    }

    pub(crate) fn link(&self) -> usize {
        self.link
    }

    pub(crate) fn clear(&mut self) {
        self.heads = HashIndex::default();
    }

    /// The first slot with these words at its places.
    #[inline]
    pub(crate) fn first(&self, key: &[u64], slab: Slab<'_>) -> Option<u32> {
        let tag = HashTag::of(key.iter().copied());
        match (self.places.as_slice(), key) {
            ([place], [word]) => {
                let at = PARAMS + place;
                self.heads.find(tag, |slot| slab.word(slot, at) == *word)
            }
            (places, key) => self.heads.find(tag, |slot| {
                let params = slab.params(slot);
                places.iter().zip(key).all(|(place, word)| params[*place] == *word)
            }),
        }
    }

    #[inline(always)]
    pub(crate) fn probe(&self, params: &[u64], slab: Slab<'_>) -> ProbeResult {
        let tag = self.tag(params);
        let first = match self.places.as_slice() {
            [place] => self.heads.probe(tag, |slot| slab.word(slot, PARAMS + place) == params[*place]),
            places => self.heads.probe(tag, |slot| {
                let own = slab.params(slot);
                places.iter().all(|place| own[*place] == params[*place])
            }),
        };
        ProbeResult { tag, first }
    }

    /// A slot and those after it.
    pub(crate) fn slots<'a>(&'a self, first: Option<u32>, slab: Slab<'a>) -> impl Iterator<Item = u32> + 'a {
        std::iter::successors(first, move |slot| self.next(*slot, slab))
    }

    #[inline(always)]
    pub(crate) fn next(&self, slot: u32, slab: Slab<'_>) -> Option<u32> {
        ((slab.word(slot, self.link) >> 32) as u32).checked_sub(1)
    }

    /// Whether the slots with the same words as one are a few at most.
    #[inline]
    pub(crate) fn is_selective(&self, slot: u32, slab: Slab<'_>) -> bool {
        const FEW: usize = 8;
        self.next(slot, slab).is_none() || self.slots(Some(slot), slab).nth(FEW).is_none()
    }

    /// Enters a slot without links; whether the table has moved.
    #[inline(always)]
    pub(crate) fn insert(&mut self, slot: u32, probe: ProbeResult, slab: &mut SlabMut<'_>) -> bool {
        let head = match probe.first {
            Err(place) => return self.heads.insert(probe.tag, place, slot),
            Ok(head) => head,
        };
        self.heads.replace(probe.tag, head, slot);
        *slab.word_mut(slot, self.link) = (u64::from(head) + 1) << 32;
        *slab.word_mut(head, self.link) |= u64::from(slot) + 1;
        false
    }

    pub(crate) fn remove(&mut self, slot: u32, slab: &mut SlabMut<'_>) {
        let links = std::mem::take(slab.word_mut(slot, self.link));
        let (before, after) = ((links as u32).checked_sub(1), ((links >> 32) as u32).checked_sub(1));
        if let Some(after) = after {
            let link = slab.word_mut(after, self.link);
            *link = (*link >> 32 << 32) | (links & u64::from(u32::MAX));
        }
        match before {
            Some(before) => {
                let link = slab.word_mut(before, self.link);
                *link = (*link & u64::from(u32::MAX)) | (links >> 32 << 32);
            }
            None => {
                let tag = self.tag(slab.shared().params(slot));
                match after {
                    Some(after) => self.heads.replace(tag, slot, after),
                    None => self.heads.remove(tag, slot),
                }
            }
        }
    }

    #[inline(always)]
    fn tag(&self, params: &[u64]) -> HashTag {
        match self.places.as_slice() {
            [place] => HashTag::of(std::iter::once(params[*place])),
            places => HashTag::of(places.iter().map(|place| params[*place])),
        }
    }
}
