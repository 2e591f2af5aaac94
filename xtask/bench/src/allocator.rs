//! Counts the bytes that are allocated and not yet freed, plus those that engines map from the system directly.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

#[global_allocator]
static COUNTING: Counting = Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// Number of bytes in use now.
pub fn live_bytes() -> usize {
    LIVE.load(Ordering::Relaxed) + fairstream_engine::mapped_bytes()
}

struct Counting;

/// Uses a load and a store instead of one atomic addition, which would be a considerable part of the time of a
/// small allocation. No update is lost, as the benchmark never allocates on two threads at once.
fn add(bytes: usize) {
    LIVE.store(LIVE.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
}

// SAFETY: every call is forwarded to the system's allocator unchanged; only counters are kept in addition.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller upholds the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        add(layout.size().wrapping_neg());
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        add(new_size.wrapping_sub(layout.size()));
        // SAFETY: the caller upholds the contract of `realloc`.
        unsafe { System.realloc(place, layout, new_size) }
    }
}
