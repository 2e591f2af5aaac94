//! Memory for what there may be many of.
//!
//! A page that is touched for the first time costs as much as several events. So what may grow large lies in large
//! pages where the system has them, grows where it is, and what the first events need is touched before they come.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How many bytes engines keep in memory that no allocator knows of.
pub fn mapped_bytes() -> usize {
    MAPPED.load(Ordering::Relaxed)
}

static MAPPED: AtomicUsize = AtomicUsize::new(0);

/// What is nothing but zeros by default.
///
/// # Safety
/// All zeros must be a value of the type, and it must own nothing.
pub(crate) unsafe trait ZeroInit: Copy {}

// SAFETY: zero is a number.
unsafe impl ZeroInit for u64 {}

/// A slice that grows, by zeros.
pub(crate) struct HugeVec<T: ZeroInit> {
    first: NonNull<T>,
    length: usize,
    /// For how many there is room where it is. Behind those that there are, it is all zeros.
    room: usize,
    owner: Owner<T>,
}

/// Selector gives the memory back in the end.
#[expect(dead_code, reason = "they are there to be dropped")]
enum Owner<T> {
    Allocator(Vec<T>),
    /// A piece of memory of one's own, ...
    System(Arc<Map>),
    /// ... or that others have pieces of, too.
    PrefaultedRegion(Arc<Map>),
}

// SAFETY: whoever owns the memory may be sent, and nobody else writes to it.
unsafe impl<T: ZeroInit + Send> Send for HugeVec<T> {}
// SAFETY: it is changed only by who has it alone.
unsafe impl<T: ZeroInit + Sync> Sync for HugeVec<T> {}

/// From so many bytes on it has memory of its own.
const LARGE: usize = 1 << 20;

impl<T: ZeroInit> Default for HugeVec<T> {
    fn default() -> HugeVec<T> {
        HugeVec { first: NonNull::dangling(), length: 0, room: 0, owner: Owner::Allocator(Vec::new()) }
    }
}

impl<T: ZeroInit> HugeVec<T> {
    /// So many zeros.
    pub(crate) fn zeros(length: usize) -> HugeVec<T> {
        let mut pages = HugeVec::default();
        pages.grow(length);
        pages
    }

    /// How many there may be before it moves.
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// Lets there be so many, if there are fewer. It may move.
    pub(crate) fn grow(&mut self, length: usize) {
        if length > self.room {
            *self = self.moved(length);
        }
        if length > self.length {
            self.count(length - self.length);
            self.length = length;
        }
    }

    /// Moves to a piece of ground, if that has more room.
    pub(crate) fn move_into(&mut self, extent: Extent) {
        let room = extent.bytes / size_of::<T>();
        if room > self.room {
            let moved = HugeVec {
                first: extent.first.cast(),
                length: 0,
                room,
                owner: Owner::PrefaultedRegion(extent.map),
            };
            *self = self.copied_to(moved);
        }
    }

    /// The same where there is room for so many.
    fn moved(&self, length: usize) -> HugeVec<T> {
        let bytes = length.saturating_mul(size_of::<T>());
        let map = (bytes >= LARGE).then(|| Map::with_room_for(bytes)).flatten();
        let to = match map {
            Some(map) => {
                let room = map.bytes / size_of::<T>();
                HugeVec { first: map.first.cast(), length: 0, room, owner: Owner::System(Arc::new(map)) }
            }
            None => {
                // SAFETY: all zeros are a value.
                let zero: T = unsafe { std::mem::zeroed() };
                let mut all = vec![zero; length.max(2 * self.length)];
                let first = NonNull::new(all.as_mut_ptr()).unwrap_or(NonNull::dangling());
                HugeVec { first, length: 0, room: all.len(), owner: Owner::Allocator(all) }
            }
        };
        self.copied_to(to)
    }

    fn copied_to(&self, mut to: HugeVec<T>) -> HugeVec<T> {
        to.grow(self.length);
        to.copy_from_slice(self);
        to
    }

    /// So many more are in use.
    fn count(&self, more: usize) {
        if let Owner::System(_) = self.owner {
            MAPPED.fetch_add(more * size_of::<T>(), Ordering::Relaxed);
        }
    }
}

impl<T: ZeroInit> Drop for HugeVec<T> {
    fn drop(&mut self) {
        if let Owner::System(_) = self.owner {
            MAPPED.fetch_sub(self.length * size_of::<T>(), Ordering::Relaxed);
        }
    }
}

impl<T: ZeroInit> Deref for HugeVec<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the owner keeps so many, zeros at first, which are values, and nobody else has them.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.length) }
    }
}

impl<T: ZeroInit> DerefMut for HugeVec<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.length) }
    }
}

impl<T: ZeroInit> Clone for HugeVec<T> {
    fn clone(&self) -> HugeVec<T> {
        HugeVec::from(&**self)
    }
}

impl<T: ZeroInit> From<&[T]> for HugeVec<T> {
    fn from(all: &[T]) -> HugeVec<T> {
        let mut pages = HugeVec::zeros(all.len());
        pages.copy_from_slice(all);
        pages
    }
}

impl<T: ZeroInit + Serialize> Serialize for HugeVec<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.deref().serialize(serializer)
    }
}

impl<'de, T: ZeroInit + Deserialize<'de>> Deserialize<'de> for HugeVec<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HugeVec<T>, D::Error> {
        Vec::deserialize(deserializer).map(|all| HugeVec::from(all.as_slice()))
    }
}

/// Memory that has been touched, to be given away in pieces.
pub(crate) struct PrefaultedRegion {
    map: Arc<Map>,
    used: usize,
}

/// A piece of [`PrefaultedRegion`], all zeros.
pub(crate) struct Extent {
    map: Arc<Map>,
    first: NonNull<u8>,
    bytes: usize,
}

impl PrefaultedRegion {
    /// So many large pages; `None` if the system has none to give.
    pub(crate) fn new(pages: usize) -> Option<PrefaultedRegion> {
        let bytes = pages.checked_mul(HUGE_PAGE)?;
        let mut map = Map::new(bytes)?;
        map.counted = bytes;
        MAPPED.fetch_add(bytes, Ordering::Relaxed);
        map.touch();
        Some(PrefaultedRegion { map: Arc::new(map), used: 0 })
    }

    /// How many bytes are left.
    pub(crate) fn left(&self) -> usize {
        self.map.bytes - self.used
    }

    /// So many bytes of what is left, at most.
    pub(crate) fn extent(&mut self, bytes: usize) -> Extent {
        const LINE: usize = 64;
        let bytes = bytes.min(self.left()) / LINE * LINE;
        // SAFETY: it lies in the map.
        let first = unsafe { self.map.first.add(self.used) };
        self.used += bytes;
        Extent { map: Arc::clone(&self.map), first, bytes }
    }
}

/// A large page.
const HUGE_PAGE: usize = 1 << 21;

/// Memory of the system's, in large pages if it has them; all zeros.
struct Map {
    _memory: MmapRaw,
    first: NonNull<u8>,
    bytes: usize,
    /// What is counted of it as long as it is there.
    counted: usize,
}

// SAFETY: it is memory that goes when it is dropped, whoever does that; who reads and writes it sees to that.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// With room for far more than so many bytes, as what is not touched costs nothing.
    fn with_room_for(bytes: usize) -> Option<Map> {
        const LEAST: usize = 1 << 26;
        let rooms = [bytes.saturating_mul(8).max(LEAST), bytes.saturating_mul(2), bytes];
        rooms.into_iter().find_map(|room| Map::new(room.checked_next_multiple_of(HUGE_PAGE)?))
    }

    fn new(bytes: usize) -> Option<Map> {
        let mapped = bytes.checked_add(HUGE_PAGE)?;
        let memory = MmapRaw::from(MmapOptions::new().len(mapped).no_reserve_swap().map_anon().ok()?);
        // A large page begins where its size says.
        let before = memory.as_mut_ptr().align_offset(HUGE_PAGE);
        // Whoever has no large pages has small ones.
        #[cfg(target_os = "linux")]
        let _ = memory.advise_range(memmap2::Advice::HugePage, before, bytes);
        // SAFETY: no more is skipped than was asked for beyond what is needed.
        let first = NonNull::new(unsafe { memory.as_mut_ptr().add(before) })?;
        Some(Map { _memory: memory, first, bytes, counted: 0 })
    }

    /// Has the system find all of it now.
    fn touch(&self) {
        const SMALL: usize = 1 << 12;
        for at in (0..self.bytes).step_by(SMALL) {
            // SAFETY: it lies in the map, and nobody else has it yet.
            unsafe { self.first.add(at).write_volatile(0) };
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        MAPPED.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From a few to many, through every kind of memory.
    #[test]
    fn what_was_there_stays_and_what_comes_is_zero() {
        let mut region = PrefaultedRegion::new(1);
        let extent = region.as_mut().map(|region| region.extent(region.left() / 3));
        let mut pages: HugeVec<u64> = HugeVec::zeros(3);
        pages.fill(7);
        extent.into_iter().for_each(|extent| pages.move_into(extent));
        for length in [5, 100, 50_000, 130_000, 140_000, 10_000_000] {
            let before = pages.len();
            pages.grow(length);
            assert_eq!(pages.len(), length);
            assert!(pages[..before].iter().all(|word| *word == 7), "{length}");
            assert!(pages[before..].iter().all(|word| *word == 0), "{length}");
            pages.fill(7);
        }
        let copy = pages.clone();
        drop(pages);
        assert!(copy.len() == 10_000_000 && copy.iter().all(|word| *word == 7));
    }

    #[test]
    fn pieces_do_not_meet() {
        let Some(mut region) = PrefaultedRegion::new(1) else { return };
        let mut all: Vec<HugeVec<u64>> = Vec::new();
        while region.left() >= 64 {
            let mut pages = HugeVec::default();
            pages.move_into(region.extent(100_000));
            pages.grow(pages.room());
            assert!(pages.iter().all(|word| *word == 0));
            pages.fill(all.len() as u64);
            all.push(pages);
        }
        drop(region);
        for (number, pages) in all.iter().enumerate() {
            assert!(pages.iter().all(|word| *word == number as u64));
        }
        let words: usize = all.iter().map(|pages| pages.len()).sum();
        assert_eq!(8 * words, HUGE_PAGE);
    }
}
