//! Operations on short runs of words. Most runs are one word long, for which a call to copy or compare memory costs more
//! than the work itself.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

/// Copies a run to another of the same length.
#[inline(always)]
pub(crate) fn copy(from: &[u64], to: &mut [u64]) {
    match (from, to) {
        ([from], [to]) => *to = *from,
        ([first, second], [to, next]) => (*to, *next) = (*first, *second),
        (from, to) => to.copy_from_slice(from),
    }
}

/// Replaces the contents of a buffer.
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

/// The key of the hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HashKey {
    /// The initial value.
    pub(crate) seed: u64,
    /// The multiplier.
    pub(crate) factor: u64,
}

impl HashKey {
    /// The key of this process. It is random, so that ids which share a bucket cannot be chosen; it is never stored, and no
    /// verdict depends on it.
    #[inline(always)]
    pub(crate) fn of_process() -> HashKey {
        static KEY: OnceLock<HashKey> = OnceLock::new();
        *KEY.get_or_init(|| {
            // The standard library has its keys from the operating system.
            let random = || RandomState::new().build_hasher().finish();
            HashKey { seed: random(), factor: random() | 1 }
        })
    }

    /// A multiply-and-fold hash, which spreads well over both the high and the low bits: the upper and the lower half of a
    /// 128-bit product are combined for each word. Machine code computes the same.
    #[inline(always)]
    fn hash(self, words: impl Iterator<Item = u64>) -> u64 {
        let HashKey { seed, factor } = self;
        words.fold(seed, |hash, word| {
            let product = u128::from(hash ^ word) * u128::from(factor ^ word.rotate_left(32));
            (product as u64) ^ ((product >> 64) as u64) ^ seed
        })
    }
}

/// The hash of a run, with the key of this process.
#[inline(always)]
pub(crate) fn hash(words: &[u64]) -> u64 {
    hash_of(words.iter().copied())
}

/// The [hash](hash()) of words that are not in one run.
#[inline(always)]
pub(crate) fn hash_of(words: impl Iterator<Item = u64>) -> u64 {
    HashKey::of_process().hash(words)
}

/// Hints to the processor that memory will be needed.
#[inline(always)]
#[allow(unsafe_code, reason = "there is no safe intrinsic")]
pub(crate) fn prefetch<T>(what: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the intrinsic needs SSE, which every x86-64 processor has. A prefetch is a hint that cannot fault, so
        // it is allowed for any address; this one is that of a live reference.
        unsafe { _mm_prefetch::<_MM_HINT_T0>((&raw const *what).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = what;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Runs of up to four words, so that every special case is met, and the general one.
        #[test]
        fn runs_are_copied_and_compared_word_by_word(
            a in proptest::collection::vec(0..3_u64, 0..5),
            other in proptest::collection::vec(0..3_u64, 4),
            old in proptest::collection::vec(any::<u64>(), 0..5),
        ) {
            let b = &other[..a.len()];
            prop_assert_eq!(same(&a, b), a.as_slice() == b);
            let mut to = b.to_vec();
            copy(&a, &mut to);
            prop_assert_eq!(&to, &a);
            let mut buffer = old;
            set(&mut buffer, &a);
            prop_assert_eq!(&buffer, &a);
            prop_assert_eq!(hash(&a), hash_of(a.iter().copied()));
        }
    }

    /// How many of the keys share one of 4,096 buckets at most: by the high bits of their hashes, and by the low bits.
    fn fullest_buckets(hash_key: HashKey, keys: &[Vec<u64>]) -> [usize; 2] {
        const BITS: u32 = 12;
        let fullest = |bucket: fn(u64) -> u64| {
            let mut counts = [0; 1 << BITS];
            keys.iter().for_each(|key| counts[bucket(hash_key.hash(key.iter().copied())) as usize] += 1);
            counts.into_iter().max().unwrap_or_default()
        };
        [fullest(|hash| hash >> (64 - BITS)), fullest(|hash| hash & ((1 << BITS) - 1))]
    }

    /// With 4,096 keys in 4,096 buckets, an ideal hash puts about 7 keys into the fullest. The keys of the hash are fixed, and
    /// look as random as those of a process.
    #[test]
    fn hashes_of_regular_keys_spread_over_both_ends() {
        let keys = |key: fn(u64) -> Vec<u64>| (0..4096).map(key).collect::<Vec<_>>();
        for keys in [
            keys(|n| vec![n]),
            keys(|n| vec![n << 32]),
            keys(|n| vec![n * 1000]),
            keys(|n| vec![(n as f64).to_bits()]),
            keys(|n| vec![n % 64, n / 64]),
            keys(|n| vec![0, n, 0]),
        ] {
            for (seed, factor) in [
                (0x9e37_79b9_7f4a_7c15, 0xa076_1d64_78bd_642f),
                (0x2545_f491_4f6c_dd1d, 0xd6e8_feb8_6659_fd93),
                (0x0000_0000_0000_0007, 0x94d0_49bb_1331_11eb),
            ] {
                let fullest = fullest_buckets(HashKey { seed, factor }, &keys);
                assert!(fullest.iter().all(|count| *count <= 16), "{fullest:?} for {:?}", &keys[..2]);
            }
        }
    }

    /// Ids that collide under one key do not under another, so that they cannot be chosen without the key.
    #[test]
    fn collisions_depend_on_the_key() {
        let known = HashKey { seed: 0x9e37_79b9_7f4a_7c15, factor: 0xa076_1d64_78bd_642f };
        let bucket = |key: HashKey, id: u64| key.hash(std::iter::once(id)) >> 52;
        let chosen: Vec<Vec<u64>> =
            (0..).filter(|id| bucket(known, *id) == 0).take(4096).map(|id| vec![id]).collect();
        assert_eq!(fullest_buckets(known, &chosen)[0], 4096);
        let other = HashKey { seed: 0x2545_f491_4f6c_dd1d, factor: 0xd6e8_feb8_6659_fd93 };
        assert!(fullest_buckets(other, &chosen).iter().all(|count| *count <= 16));
    }

    #[test]
    fn the_order_of_words_matters_to_the_hash() {
        assert_ne!(hash(&[1, 2]), hash(&[2, 1]));
        assert_ne!(hash(&[1]), hash(&[1, 0]));
    }
}
