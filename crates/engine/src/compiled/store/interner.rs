//! String interning: texts and byte strings become numbers, which are equal exactly if the strings are.

use std::fmt;
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::compiled::store::lookup_cache::LookupCache;

/// The strings that are in use, each with a number.
#[derive(Clone, Default)]
pub(crate) struct Interner {
    /// The strings by number; `None` where the number is free.
    stored: Vec<Option<Stored>>,
    /// The free numbers.
    free: Vec<u32>,
    /// How many strings there may be before the next collection.
    limit: usize,
    /// The numbers by the hashes of their strings.
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// Recent numbers, by a cheap hash of their strings: the first byte, the last byte and the length.
    recent: LookupCache,
    /// Recent numbers of short strings, by their bytes.
    short: ShortCache,
}

/// A string. Whether it is valid UTF-8 is checked once, here, because every verdict asks for the text.
#[derive(Clone, Debug)]
enum Stored {
    Text(Box<str>),
    Bytes(Box<[u8]>),
}

impl Stored {
    fn new(bytes: &[u8]) -> Stored {
        match std::str::from_utf8(bytes) {
            Ok(text) => Stored::Text(text.into()),
            Err(_) => Stored::Bytes(bytes.into()),
        }
    }

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        match self {
            Stored::Text(text) => text.as_bytes(),
            Stored::Bytes(bytes) => bytes,
        }
    }
}

/// Direct-mapped cache of the numbers of short strings. Unlike a [`LookupCache`] it stores the bytes of the string, so a
/// hit needs no verification, and it is cleared when numbers become free.
#[derive(Clone)]
struct ShortCache([ShortEntry; ShortCache::ENTRIES]);

#[derive(Clone, Copy)]
struct ShortEntry {
    /// The bytes of the string, padded with zeros.
    word: u128,
    /// How many bytes the string has.
    length: u32,
    number: u32,
}

impl ShortEntry {
    const LONGEST: usize = size_of::<u128>();
    /// For each length the mask of that many low bytes.
    const MASKS: [u128; ShortEntry::LONGEST + 1] = {
        let mut masks = [0; ShortEntry::LONGEST + 1];
        let mut length = 1;
        while length <= ShortEntry::LONGEST {
            masks[length] = masks[length - 1] << 8 | 0xff;
            length += 1;
        }
        masks
    };
    /// An entry that no string matches, because of its length.
    const EMPTY: ShortEntry = ShortEntry { word: 0, length: u32::MAX, number: 0 };
}

impl ShortCache {
    const ENTRIES: usize = 64;
}

impl Default for ShortCache {
    fn default() -> ShortCache {
        ShortCache([ShortEntry::EMPTY; ShortCache::ENTRIES])
    }
}

/// Only the strings: the hasher, and so the table, differs from process to process.
impl fmt::Debug for Interner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.stored).finish()
    }
}

impl Interner {
    /// An interner of these strings, which are numbered in order.
    pub(crate) fn with(constants: &[String]) -> Interner {
        let mut interner = Interner::default();
        constants.iter().for_each(|text| {
            interner.intern(text.as_bytes());
        });
        interner
    }

    /// The number of a string, which is added if it is new.
    #[inline]
    pub(crate) fn intern(&mut self, bytes: &[u8]) -> u64 {
        // Most strings are among the few names of groups, so a weak hash is enough.
        let hash = match bytes {
            [] => 0,
            [first, .., last] => usize::from(*first) + 3 * usize::from(*last) + bytes.len(),
            [only] => usize::from(*only),
        };
        let recent = self.recent.get(hash);
        if matches!(self.stored.get(recent as usize), Some(Some(stored)) if stored.bytes() == bytes) {
            return u64::from(recent);
        }
        let number = self.find_or_insert(bytes);
        self.recent.set(hash, number);
        u64::from(number)
    }

    /// The number of the string of `length` bytes that begins at `from`, within the concatenated strings of a column. A
    /// short string is loaded as one word of 16 bytes and masked, which needs no branch on its length, if 16 bytes are
    /// left from its start.
    #[inline(always)]
    pub(crate) fn intern_from(&mut self, texts: &[u8], from: usize, length: usize) -> u64 {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let Some(word) = texts[from..].first_chunk().filter(|_| length <= ShortEntry::LONGEST) else {
            return self.intern(&texts[from..from + length]);
        };
        let word = u128::from_le_bytes(*word) & ShortEntry::MASKS[length];
        let halves = word as u64 ^ (word >> 64) as u64;
        let entry =
            (halves.wrapping_add(length as u64).wrapping_mul(FACTOR) >> 58) as usize % ShortCache::ENTRIES;
        let known = self.short.0[entry];
        if known.word == word && known.length as usize == length {
            return u64::from(known.number);
        }
        let number = self.intern(&texts[from..from + length]);
        self.short.0[entry] = ShortEntry { word, length: length as u32, number: number as u32 };
        number
    }

    fn find_or_insert(&mut self, bytes: &[u8]) -> u32 {
        let hash = self.hasher.hash_one(bytes);
        let stored = &self.stored;
        if let Some(found) = self.table.find(hash, |index| at(stored, *index) == bytes) {
            return *found;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.stored.push(None);
            u32::try_from(self.stored.len() - 1).unwrap_or(u32::MAX)
        });
        self.stored[index as usize] = Some(Stored::new(bytes));
        let (stored, hasher) = (&self.stored, &self.hasher);
        self.table.insert_unique(hash, index, |index| hasher.hash_one(at(stored, *index)));
        index
    }

    pub(crate) fn bytes(&self, number: u64) -> &[u8] {
        u32::try_from(number).map_or(&[], |index| at(&self.stored, index))
    }

    pub(crate) fn text(&self, number: u64) -> &str {
        match usize::try_from(number).ok().and_then(|number| self.stored.get(number)) {
            Some(Some(Stored::Text(text))) => text,
            // Text leaves have numbers of valid texts only.
            _ => "",
        }
    }

    /// Whether there are so many strings that unused ones should be dropped: more than twice as many as the last
    /// collection left, and more than 4,096.
    pub(crate) fn is_over_limit(&self) -> bool {
        const FEW: usize = 1 << 12;
        self.table.len() > self.limit.max(FEW)
    }

    /// Drops the strings that are not `used`, a flag for each number. Their numbers become free.
    pub(crate) fn retain(&mut self, used: &[bool]) {
        for (index, stored) in self.stored.iter_mut().enumerate() {
            if stored.is_some() && !used.get(index).copied().unwrap_or_default() {
                *stored = None;
                self.free.push(u32::try_from(index).unwrap_or(u32::MAX));
            }
        }
        self.rebuild_table();
        self.limit = self.table.len() * 2;
    }

    /// A copy of the strings alone, by number.
    pub(crate) fn copy(&self) -> StringsCopy {
        let mut copy = StringsCopy { bytes: Vec::new(), ends: Vec::with_capacity(self.stored.len()) };
        copy.bytes.reserve(self.stored.iter().flatten().map(|stored| stored.bytes().len()).sum());
        for stored in &self.stored {
            copy.bytes.extend_from_slice(stored.as_ref().map_or(&[], Stored::bytes));
            copy.ends.push(copy.bytes.len());
        }
        copy
    }

    /// How many numbers have ever been in use, free ones included.
    pub(crate) fn numbers(&self) -> usize {
        self.stored.len()
    }

    /// Rebuilds the hash table after a collection, and clears the cache of short strings.
    fn rebuild_table(&mut self) {
        self.table.clear();
        self.short = ShortCache::default();
        for (index, stored) in self.stored.iter().enumerate() {
            if let (Some(stored), Ok(index)) = (stored, u32::try_from(index)) {
                let hasher = &self.hasher;
                let rehash = |index: &u32| hasher.hash_one(at(&self.stored, *index));
                self.table.insert_unique(hasher.hash_one(stored.bytes()), index, rehash);
            }
        }
    }
}

/// The strings of an interner by number, one after another.
pub(crate) struct StringsCopy {
    bytes: Vec<u8>,
    /// Where each of them ends.
    ends: Vec<usize>,
}

impl StringsCopy {
    /// The bytes of a number; none if it is free.
    pub(crate) fn bytes(&self, number: u64) -> &[u8] {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        let Some(end) = self.ends.get(number) else { return &[] };
        let start = number.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        &self.bytes[start..*end]
    }
}

/// The bytes of a number; none if it is free.
fn at(stored: &[Option<Stored>], index: u32) -> &[u8] {
    stored.get(index as usize).and_then(Option::as_ref).map_or(&[], Stored::bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_keeps_its_number_while_it_is_used() {
        let mut interner = Interner::default();
        let numbers: Vec<u64> =
            ["F", "M", "F", "", "M"].map(|text| interner.intern(text.as_bytes())).to_vec();
        assert_eq!(numbers, [0, 1, 0, 2, 1]);
        interner.retain(&[true, false, true]);
        assert_eq!((interner.text(0), interner.text(2)), ("F", ""));
        assert_eq!(interner.intern(b"X"), 1);
        assert_eq!((interner.intern(b"M"), interner.intern(b"F")), (3, 0));
    }

    /// Texts over two letters, one of them a zero byte, of lengths on both sides of 16 bytes. Half of the strings are
    /// dropped every 1,000 rounds.
    #[test]
    fn the_number_of_a_text_does_not_depend_on_its_position() {
        let (mut interner, mut random) = (Interner::default(), 1_u64);
        for round in 0..if cfg!(miri) { 200 } else { 20_000 } {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let texts: Vec<u8> = (0..40).map(|bit| b"\0F"[(random >> (20 + bit)) as usize % 2]).collect();
            let length = (random >> 56) as usize % 19;
            let from = ((random >> 59) as usize).min(texts.len() - length);
            let text = &texts[from..from + length];
            let found = interner.intern_from(&texts, from, length);
            assert_eq!(interner.bytes(found), text);
            assert_eq!(interner.intern(text), found);
            if round % 1000 == 999 {
                let used: Vec<bool> = (0..interner.numbers()).map(|number| number % 2 == 0).collect();
                interner.retain(&used);
            }
        }
    }
}
