//! Every string once: texts and byte strings become numbers that are equal if the strings are.

use std::fmt;
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use serde::{Deserialize, Serialize};

use crate::compiled::store::lookup_cache::LookupCache;

/// The strings that are in use.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Interner {
    /// By number; an empty place is free.
    stored: Vec<Option<Stored>>,
    free: Vec<u32>,
    /// How many there may be before the next clean-up.
    limit: usize,
    #[serde(skip)]
    table: HashTable<u32>,
    #[serde(skip)]
    hasher: DefaultHashBuilder,
    /// Numbers that were given lately, by what is easily seen of their strings.
    #[serde(skip)]
    recent: LookupCache,
    /// The same for short ones.
    #[serde(skip)]
    short: ShortCache,
}

/// A string. That it is text is found out once: it is asked for with every verdict.
#[derive(Clone, Debug, Serialize, Deserialize)]
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

/// Numbers of short strings, by their bytes.
#[derive(Clone)]
struct ShortCache([ShortEntry; ShortCache::ENTRIES]);

#[derive(Clone, Copy)]
struct ShortEntry {
    /// Its bytes, with zeros after them, ...
    word: u128,
    /// ... and how many they are.
    length: u32,
    number: u32,
}

impl ShortEntry {
    const LONGEST: usize = size_of::<u128>();
    /// Those of so many bytes.
    const BITS: [u128; ShortEntry::LONGEST + 1] = {
        let mut bits = [0; ShortEntry::LONGEST + 1];
        let mut length = 1;
        while length <= ShortEntry::LONGEST {
            bits[length] = bits[length - 1] << 8 | 0xff;
            length += 1;
        }
        bits
    };
    /// Nothing is found in this place.
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

/// The strings alone: the table beside them is another one in every process.
impl fmt::Debug for Interner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.stored).finish()
    }
}

impl Interner {
    /// With these strings, which are numbered in order.
    pub(crate) fn with(constants: &[String]) -> Interner {
        let mut interner = Interner::default();
        constants.iter().for_each(|text| {
            interner.intern(text.as_bytes());
        });
        interner
    }

    /// # Errors
    /// A free number is not free, or the first strings are not the constants.
    pub(crate) fn validate(&self, constants: &[String]) -> Result<(), &'static str> {
        let is_free = |number: &u32| matches!(self.stored.get(*number as usize), Some(None));
        let mut free = self.free.clone();
        free.sort_unstable();
        let is_unique = free.windows(2).all(|two| two[0] < two[1]);
        if !is_unique || !free.iter().all(is_free) {
            return Err("a string that is in use counts as free");
        }
        let same = |(number, text): (usize, &String)| self.text(number as u64) == text;
        if self.stored.len() < constants.len() || !constants.iter().enumerate().all(same) {
            return Err("constants are missing");
        }
        let mut all: Vec<&[u8]> = self.stored.iter().flatten().map(Stored::bytes).collect();
        all.sort_unstable();
        if all.windows(2).any(|two| two[0] == two[1]) {
            return Err("a string has two numbers");
        }
        Ok(())
    }

    /// The number of a string.
    #[inline]
    pub(crate) fn intern(&mut self, bytes: &[u8]) -> u64 {
        // Most strings are names of a few groups of people.
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

    /// The same for the bytes of a text from one place on: most texts are short, and others follow.
    #[inline(always)]
    pub(crate) fn intern_from(&mut self, texts: &[u8], from: usize, length: usize) -> u64 {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let Some(word) = texts[from..].first_chunk().filter(|_| length <= ShortEntry::LONGEST) else {
            return self.intern(&texts[from..from + length]);
        };
        let word = u128::from_le_bytes(*word) & ShortEntry::BITS[length];
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
            // Only valid text is ever interned as text.
            _ => "",
        }
    }

    /// Whether it is time to forget strings that nobody uses any more.
    pub(crate) fn is_over_limit(&self) -> bool {
        const FEW: usize = 1 << 12;
        self.table.len() > self.limit.max(FEW)
    }

    /// Forgets what is not `used`, a flag for each number.
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

    /// How many numbers have been given out, free ones included.
    pub(crate) fn numbers(&self) -> usize {
        self.stored.len()
    }

    /// Builds the table anew, after a clean-up or once the strings have been read back.
    pub(crate) fn rebuild_table(&mut self) {
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

fn at(stored: &[Option<Stored>], index: u32) -> &[u8] {
    stored.get(index as usize).and_then(Option::as_ref).map_or(&[], Stored::bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_keeps_its_number_until_nobody_uses_it() {
        let mut interner = Interner::default();
        let numbers: Vec<u64> =
            ["F", "M", "F", "", "M"].map(|text| interner.intern(text.as_bytes())).to_vec();
        assert_eq!(numbers, [0, 1, 0, 2, 1]);
        interner.retain(&[true, false, true]);
        assert_eq!((interner.text(0), interner.text(2)), ("F", ""));
        assert_eq!(interner.intern(b"X"), 1);
        assert_eq!((interner.intern(b"M"), interner.intern(b"F")), (3, 0));
    }

    /// Texts of few letters and of all lengths up to a long one, also with zeros in them, and forgotten in between.
    #[test]
    fn a_text_has_the_same_number_wherever_it_lies() {
        let (mut interner, mut random) = (Interner::default(), 1_u64);
        for round in 0..20_000 {
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
