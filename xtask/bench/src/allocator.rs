//! Counts the bytes that are allocated and not yet freed, and those that engines have from the system.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

#[global_allocator]
static COUNTING: Counting = Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// How many bytes are in use now.
pub fn live_bytes() -> usize {
    LIVE.load(Ordering::Relaxed) + fairstream_engine::mapped_bytes()
}

struct Counting;

/// Loads and stores instead of one atomic addition, which would be a good part of the time that a
/// small allocation takes. Nothing is lost: the benchmark never allocates on two threads at once.
fn add(bytes: usize) {
    LIVE.store(LIVE.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator as it is; only numbers are kept beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller keeps the promises of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        add(layout.size().wrapping_neg());
        // SAFETY: the caller keeps the promises of `dealloc`.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        add(new_size.wrapping_sub(layout.size()));
        // SAFETY: the caller keeps the promises of `realloc`.
        unsafe { System.realloc(place, layout, new_size) }
    }
}
