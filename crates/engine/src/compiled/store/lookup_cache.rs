//! Numbers that somebody has looked for lately, so that most need not be looked for.

/// How many there are room for.
pub(crate) const CACHE_ENTRIES: usize = 64;

/// Keys are small numbers, most often: of two, the last says where, and the first how far from there.
pub(crate) const FACTOR: u64 = 29;

/// Each number has the place that its key says, if it has not been taken by another one since: whoever asks must
/// check that it is the right one.
#[derive(Clone)]
pub(crate) struct LookupCache([u32; CACHE_ENTRIES]);

impl Default for LookupCache {
    fn default() -> LookupCache {
        LookupCache([0; CACHE_ENTRIES])
    }
}

impl LookupCache {
    /// By some number that is easily had of what is looked for.
    #[inline(always)]
    pub(crate) fn at(&self, place: usize) -> u32 {
        self.0[place % CACHE_ENTRIES]
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, place: usize, number: u32) {
        self.0[place % CACHE_ENTRIES] = number;
    }

    /// By words.
    pub(crate) fn remember(&mut self, key: &[u64], number: u32) {
        let place = key.iter().fold(0_u64, |sum, word| sum.wrapping_mul(FACTOR).wrapping_add(*word));
        self.set(place as usize, number);
    }

    /// Where the numbers are in memory.
    pub(crate) fn address(&mut self) -> usize {
        self.0.as_mut_ptr().expose_provenance()
    }
}
