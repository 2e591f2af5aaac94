//! A cache in front of hash lookups.

/// How many entries a cache has.
pub(crate) const CACHE_ENTRIES: usize = 64;

/// The multiplier of the hash of a key. Most keys are small numbers, so the last word of a key selects the entry almost by
/// itself, and the other words offset it.
pub(crate) const FACTOR: u64 = 29;

/// Direct-mapped cache of recent lookups. An entry may be stale, or of another key: the caller must verify it.
#[derive(Clone)]
pub(crate) struct LookupCache([u32; CACHE_ENTRIES]);

impl Default for LookupCache {
    fn default() -> LookupCache {
        LookupCache([0; CACHE_ENTRIES])
    }
}

impl LookupCache {
    /// The number that was stored last for a hash.
    #[inline(always)]
    pub(crate) fn get(&self, hash: usize) -> u32 {
        self.0[hash % CACHE_ENTRIES]
    }

    /// Stores a number for a hash, in place of the number that shares its entry.
    #[inline(always)]
    pub(crate) fn set(&mut self, hash: usize, number: u32) {
        self.0[hash % CACHE_ENTRIES] = number;
    }

    /// Stores a number for a key; machine code computes the same hash.
    pub(crate) fn insert(&mut self, key: &[u64], number: u32) {
        let hash = key.iter().fold(0_u64, |sum, word| sum.wrapping_mul(FACTOR).wrapping_add(*word));
        self.set(hash as usize, number);
    }

    /// For machine code: the address of the entries.
    pub(crate) fn address(&mut self) -> usize {
        self.0.as_mut_ptr().expose_provenance()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_of_a_hash_is_kept() {
        let mut cache = LookupCache::default();
        assert_eq!(cache.get(5), 0);
        cache.insert(&[5], 11);
        cache.insert(&[1, 2], 12);
        assert_eq!((cache.get(5), cache.get(FACTOR as usize + 2)), (11, 12));
        // Keys that are a multiple of the size apart share an entry.
        cache.insert(&[5 + CACHE_ENTRIES as u64], 13);
        assert_eq!(cache.get(5), 13);
    }
}
