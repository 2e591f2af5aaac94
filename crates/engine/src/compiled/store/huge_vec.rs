//! Growable memory for what there may be many of.
//!
//! The first access to a page costs as much as several events on a virtual machine. So large vectors live in huge pages
//! where the system has them, reserve address space to grow in place, and what the first events need is faulted in before
//! they come.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memmap2::{MmapOptions, MmapRaw};

/// Bytes of memory that engines have mapped from the system, beside what they have from the allocator.
pub fn mapped_bytes() -> usize {
    MAPPED.load(Ordering::Relaxed)
}

static MAPPED: AtomicUsize = AtomicUsize::new(0);

/// A type for which memory of zeros is a value.
///
/// # Safety
/// All zeros must be a valid value of the type, and it must own nothing.
pub(crate) unsafe trait ZeroInit: Copy {}

// SAFETY: zero is a valid u64, which owns nothing.
unsafe impl ZeroInit for u64 {}

/// A vector that grows by zeros, in place while it has room.
pub(crate) struct HugeVec<T: ZeroInit> {
    first: NonNull<T>,
    length: usize,
    /// How many elements there is memory for. Behind `length`, it is all zeros.
    room: usize,
    owner: Owner<T>,
}

/// Owns the memory.
#[expect(dead_code, reason = "they are there to be dropped")]
enum Owner<T> {
    Allocator(Vec<T>),
    /// A mapping of its own.
    Mapping(Arc<Mapping>),
    /// A part of a mapping that it shares with others.
    Region(Arc<Mapping>),
}

// SAFETY: the memory belongs to this vector alone, and is freed by whatever thread drops the last owner. An element may be
// sent where `T: Send`.
unsafe impl<T: ZeroInit + Send> Send for HugeVec<T> {}
// SAFETY: shared references only read, and the memory is written through `&mut self` alone.
unsafe impl<T: ZeroInit + Sync> Sync for HugeVec<T> {}

/// From this many bytes on a vector has a mapping of its own.
const MAPPED_FROM: usize = 1 << 20;

impl<T: ZeroInit> Default for HugeVec<T> {
    fn default() -> HugeVec<T> {
        HugeVec { first: NonNull::dangling(), length: 0, room: 0, owner: Owner::Allocator(Vec::new()) }
    }
}

impl<T: ZeroInit> HugeVec<T> {
    pub(crate) fn zeros(length: usize) -> HugeVec<T> {
        let mut zeros = HugeVec::default();
        zeros.grow(length);
        zeros
    }

    /// How many elements it can have before it moves.
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// Grows to a length by zeros, if it is shorter. It may move.
    pub(crate) fn grow(&mut self, length: usize) {
        if length > self.room {
            *self = self.moved(length);
        }
        if length > self.length {
            self.count(length - self.length);
            self.length = length;
        }
    }

    /// Moves into other memory, if that has more room.
    pub(crate) fn move_into(&mut self, extent: Extent) {
        let room = extent.bytes / size_of::<T>();
        if room > self.room {
            let to =
                HugeVec { first: extent.first.cast(), length: 0, room, owner: Owner::Region(extent.mapping) };
            *self = self.copied_to(to);
        }
    }

    /// A copy with room for `length` elements.
    fn moved(&self, length: usize) -> HugeVec<T> {
        let bytes = length.saturating_mul(size_of::<T>());
        let mapping = (bytes >= MAPPED_FROM).then(|| Mapping::with_room_for(bytes)).flatten();
        let to = match mapping {
            Some(mapping) => {
                let room = mapping.bytes / size_of::<T>();
                HugeVec {
                    first: mapping.first.cast(),
                    length: 0,
                    room,
                    owner: Owner::Mapping(Arc::new(mapping)),
                }
            }
            None => {
                // SAFETY: `T: ZeroInit`, so all zeros are a valid value.
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

    /// Counts elements that come into use.
    fn count(&self, more: usize) {
        if let Owner::Mapping(_) = self.owner {
            MAPPED.fetch_add(more * size_of::<T>(), Ordering::Relaxed);
        }
    }
}

impl<T: ZeroInit> Drop for HugeVec<T> {
    fn drop(&mut self) {
        if let Owner::Mapping(_) = self.owner {
            MAPPED.fetch_sub(self.length * size_of::<T>(), Ordering::Relaxed);
        }
    }
}

impl<T: ZeroInit> Deref for HugeVec<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `first` points to `room >= length` elements that `owner` keeps alive, aligned for `T`: a mapping begins
        // at a page and extents at a cache line. They are initialised, as they began as zeros, which are values of `T`.
        // No other vector has this memory, and `&self` excludes writes.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.length) }
    }
}

impl<T: ZeroInit> DerefMut for HugeVec<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`, and `&mut self` excludes every other access.
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
        let mut copy = HugeVec::zeros(all.len());
        copy.copy_from_slice(all);
        copy
    }
}

/// Memory whose pages are faulted in, to be handed out in extents.
pub(crate) struct PrefaultedRegion {
    mapping: Arc<Mapping>,
    used: usize,
}

/// A part of a [`PrefaultedRegion`], all zeros.
pub(crate) struct Extent {
    mapping: Arc<Mapping>,
    first: NonNull<u8>,
    bytes: usize,
}

impl PrefaultedRegion {
    /// A number of huge pages; `None` if the system has no memory.
    pub(crate) fn new(pages: usize) -> Option<PrefaultedRegion> {
        let bytes = pages.checked_mul(HUGE_PAGE)?;
        let mut mapping = Mapping::new(bytes)?;
        mapping.counted = bytes;
        MAPPED.fetch_add(bytes, Ordering::Relaxed);
        mapping.fault_in();
        Some(PrefaultedRegion { mapping: Arc::new(mapping), used: 0 })
    }

    /// Bytes that are left.
    pub(crate) fn left(&self) -> usize {
        self.mapping.bytes - self.used
    }

    /// Takes up to this many bytes of what is left, in whole cache lines.
    pub(crate) fn take(&mut self, bytes: usize) -> Extent {
        const LINE: usize = 64;
        let bytes = bytes.min(self.left()) / LINE * LINE;
        // SAFETY: `used + bytes` is at most the size of the mapping, so the result is within it or one past its end.
        let first = unsafe { self.mapping.first.add(self.used) };
        self.used += bytes;
        Extent { mapping: Arc::clone(&self.mapping), first, bytes }
    }
}

const HUGE_PAGE: usize = 1 << 21;

/// Anonymous memory of the system, in huge pages where it has them; all zeros.
struct Mapping {
    _memory: MmapRaw,
    /// Aligned to a huge page.
    first: NonNull<u8>,
    bytes: usize,
    /// Bytes that are counted as mapped as long as this exists.
    counted: usize,
}

// SAFETY: a mapping is plain memory of the process, which any thread may unmap. Access to it is governed by the vectors
// that have parts of it.
unsafe impl Send for Mapping {}
// SAFETY: a shared mapping offers no access by itself.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// With room to grow in place to eight times the size, where address space allows it: pages that are never accessed
    /// cost nothing.
    fn with_room_for(bytes: usize) -> Option<Mapping> {
        const LEAST: usize = 1 << 26;
        let sizes = [bytes.saturating_mul(8).max(LEAST), bytes.saturating_mul(2), bytes];
        sizes.into_iter().find_map(|size| Mapping::new(size.checked_next_multiple_of(HUGE_PAGE)?))
    }

    fn new(bytes: usize) -> Option<Mapping> {
        // One page more, so that a huge page can begin at its alignment.
        let mapped = bytes.checked_add(HUGE_PAGE)?;
        let mut options = MmapOptions::new();
        options.len(mapped);
        // Miri knows no mappings without reserve.
        if !cfg!(miri) {
            options.no_reserve_swap();
        }
        let memory = MmapRaw::from(options.map_anon().ok()?);
        let before = memory.as_mut_ptr().align_offset(HUGE_PAGE);
        // Where there are no huge pages, small ones do.
        #[cfg(all(target_os = "linux", not(miri)))]
        let _ = memory.advise_range(memmap2::Advice::HugePage, before, bytes);
        // SAFETY: `before` is less than a huge page, by which the mapping is longer than `bytes`.
        let first = NonNull::new(unsafe { memory.as_mut_ptr().add(before) })?;
        Some(Mapping { _memory: memory, first, bytes, counted: 0 })
    }

    /// Accesses every page, so that the system provides it now.
    fn fault_in(&self) {
        const PAGE: usize = 1 << 12;
        for at in (0..self.bytes).step_by(PAGE) {
            // SAFETY: `at` is within the mapping, and no vector has a part of it yet.
            unsafe { self.first.add(at).write_volatile(0) };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        MAPPED.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From a few elements to many, through every kind of memory.
    #[test]
    fn what_was_there_stays_and_what_comes_is_zero() {
        let mut region = PrefaultedRegion::new(1);
        let extent = region.as_mut().map(|region| region.take(region.left() / 3));
        let mut pages: HugeVec<u64> = HugeVec::zeros(3);
        pages.fill(7);
        extent.into_iter().for_each(|extent| pages.move_into(extent));
        let lengths = [5, 100, 50_000, 130_000, 140_000, 10_000_000];
        // Miri runs a thousand times slower.
        for length in lengths.into_iter().take(if cfg!(miri) { 2 } else { lengths.len() }) {
            let before = pages.len();
            pages.grow(length);
            assert_eq!(pages.len(), length);
            assert!(pages[..before].iter().all(|word| *word == 7), "{length}");
            assert!(pages[before..].iter().all(|word| *word == 0), "{length}");
            pages.fill(7);
        }
        let copy = pages.clone();
        drop(pages);
        assert!(copy.len() >= 100 && copy.iter().all(|word| *word == 7));
    }

    #[test]
    fn extents_do_not_overlap() {
        let Some(mut region) = PrefaultedRegion::new(1) else { return };
        let mut all: Vec<HugeVec<u64>> = Vec::new();
        while region.left() >= 64 {
            let mut pages = HugeVec::default();
            pages.move_into(region.take(100_000));
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
