//! ShortEntry runs of words. Most are one word long, for which a call to copy or compare memory costs more
//! than the work itself.

/// Copies a run to a place of the same length.
#[inline(always)]
pub(crate) fn copy(from: &[u64], to: &mut [u64]) {
    match (from, to) {
        ([from], [to]) => *to = *from,
        ([first, second], [to, next]) => (*to, *next) = (*first, *second),
        (from, to) => to.copy_from_slice(from),
    }
}

/// Replaces what a buffer holds.
#[inline(always)]
pub(crate) fn set(buffer: &mut Vec<u64>, words: &[u64]) {
    buffer.clear();
    match words {
        [] => {}
        [word] => buffer.push(*word),
        [word, next] => {
            buffer.push(*word);
            buffer.push(*next);
        }
        words => buffer.extend_from_slice(words),
    }
}

/// Whether two runs of the same length are equal.
#[inline(always)]
pub(crate) fn same(a: &[u64], b: &[u64]) -> bool {
    match (a, b) {
        ([a], [b]) => a == b,
        ([a, c], [b, d]) => a == b && c == d,
        (a, b) => a == b,
    }
}

/// Of the hash.
pub(crate) const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
pub(crate) const FACTOR: u64 = 0xa076_1d64_78bd_642f;

/// A hash that spreads well over both ends of 64 bits.
#[inline(always)]
pub(crate) fn hash(words: &[u64]) -> u64 {
    hash_of(words.iter().copied())
}

#[inline(always)]
pub(crate) fn hash_of(words: impl Iterator<Item = u64>) -> u64 {
    words.fold(SEED, |hash, word| {
        let product = u128::from(hash ^ word) * u128::from(FACTOR ^ word.rotate_left(32));
        (product as u64) ^ ((product >> 64) as u64) ^ SEED
    })
}

/// Tells the processor that memory will be needed.
#[inline(always)]
#[allow(unsafe_code, reason = "there is no safe intrinsic")]
pub(crate) fn prefetch<T>(what: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint. It accesses no memory, so any address is allowed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>((&raw const *what).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = what;
}
