//! Named steps at which a test may end the process, as a crash would.

/// Ends the process here if `FAIRSTREAM_FAILPOINT` is this name, or at the nth time if it is `name:n`.
#[cfg(feature = "failpoints")]
pub(crate) fn reach(name: &str) {
    use std::sync::atomic::{AtomicU64, Ordering};
    static TIMES: AtomicU64 = AtomicU64::new(0);
    let Ok(wanted) = std::env::var("FAIRSTREAM_FAILPOINT") else { return };
    let (wanted, nth) = wanted.split_once(':').unwrap_or((&wanted, "1"));
    if wanted == name && TIMES.fetch_add(1, Ordering::Relaxed) + 1 == nth.parse().unwrap_or(1) {
        std::process::abort();
    }
}

#[cfg(not(feature = "failpoints"))]
pub(crate) fn reach(_name: &str) {}
