//! A secondary index: finds the instances that have given words in some of their parameters.

use super::hash_index::{Bucket, HashIndex, HashTag};
use super::slab::{Slab, SlabMut};
use crate::compiled::ir::layout::PARAMS;

/// Slots with the same key words form a doubly linked chain, the last spawned first. Each slot has one word of links:
/// the slot before it in the lower half, the one after it in the upper half, both plus one.
#[derive(Clone)]
pub(crate) struct SecondaryIndex {
    /// The words of the parameters that are the key.
    key_words: Vec<usize>,
    /// The word of a slot that holds its links.
    link: usize,
    /// The first slot of each chain.
    heads: HashIndex,
}

/// The result of a probe, until the index changes.
#[derive(Clone, Copy)]
pub(crate) struct ProbeResult {
    pub(crate) tag: HashTag,
    /// The first slot with the same key, or the bucket where it belongs.
    pub(crate) first: Result<u32, Bucket>,
}

impl SecondaryIndex {
    pub(crate) fn new(key_words: Vec<usize>, link: usize) -> SecondaryIndex {
        SecondaryIndex { key_words, link, heads: HashIndex::default() }
    }

    pub(crate) fn heads(&self) -> &HashIndex {
        &self.heads
    }

    pub(crate) fn heads_mut(&mut self) -> &mut HashIndex {
        &mut self.heads
    }

    /// Prefetches the home bucket of parameters.
    #[inline]
    pub(crate) fn prefetch(&self, params: &[u64]) {
        self.heads.prefetch(self.tag(params));
    }

    pub(crate) fn link(&self) -> usize {
        self.link
    }

    /// The first slot with these key words.
    #[inline]
    pub(crate) fn first(&self, key: &[u64], slab: Slab<'_>) -> Option<u32> {
        let tag = HashTag::of(key.iter().copied());
        match (self.key_words.as_slice(), key) {
            ([at], [word]) => {
                let at = PARAMS + at;
                self.heads.find(tag, |slot| slab.word(slot, at) == *word)
            }
            (words, key) => self.heads.find(tag, |slot| {
                let params = slab.params(slot);
                words.iter().zip(key).all(|(at, word)| params[*at] == *word)
            }),
        }
    }

    /// Probes for the key words of parameters.
    #[inline(always)]
    pub(crate) fn probe(&self, params: &[u64], slab: Slab<'_>) -> ProbeResult {
        let tag = self.tag(params);
        let first = match self.key_words.as_slice() {
            [at] => self.heads.probe(tag, |slot| slab.word(slot, PARAMS + at) == params[*at]),
            words => self.heads.probe(tag, |slot| {
                let own = slab.params(slot);
                words.iter().all(|at| own[*at] == params[*at])
            }),
        };
        ProbeResult { tag, first }
    }

    /// A slot and those after it in its chain.
    pub(crate) fn chain<'a>(&'a self, first: Option<u32>, slab: Slab<'a>) -> impl Iterator<Item = u32> + 'a {
        std::iter::successors(first, move |slot| self.next(*slot, slab))
    }

    #[inline(always)]
    pub(crate) fn next(&self, slot: u32, slab: Slab<'_>) -> Option<u32> {
        ((slab.word(slot, self.link) >> 32) as u32).checked_sub(1)
    }

    /// Whether the chain that begins at a slot is short, so that it can be searched instead of an index over all
    /// parameters.
    #[inline]
    pub(crate) fn is_selective(&self, slot: u32, slab: Slab<'_>) -> bool {
        const LONGEST: usize = 8;
        self.next(slot, slab).is_none() || self.chain(Some(slot), slab).nth(LONGEST).is_none()
    }

    /// Enters a slot whose links are 0; whether the heads have moved in memory.
    #[inline(always)]
    pub(crate) fn insert(&mut self, slot: u32, probe: ProbeResult, slab: &mut SlabMut<'_>) -> bool {
        let head = match probe.first {
            Err(bucket) => return self.heads.insert(probe.tag, bucket, slot),
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
        match self.key_words.as_slice() {
            [at] => HashTag::of(std::iter::once(params[*at])),
            words => HashTag::of(words.iter().map(|at| params[*at])),
        }
    }
}
