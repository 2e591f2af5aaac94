//! Properties of the decoders that must hold for all bytes: one function each, which panics if the property does
//! not hold. `libfuzzer` searches for bytes that violate one; `tests/corpus.rs` runs the inputs that it once found
//! interesting, at every `cargo test`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a check fails by panicking")]

mod fairness;
mod packet;
mod plugin;
mod reading;
mod specification;
mod state;
mod tables;
mod text;
mod time;

/// A check, with the name of its folder in `corpus` and of its file in `libfuzzer/fuzz_targets`.
pub type Check = (&'static str, fn(&[u8]));

/// All checks.
pub const CHECKS: [Check; 12] = [
    ("arrow", tables::arrow),
    ("csv", text::csv),
    ("fairness", fairness::fairness),
    ("json", text::json),
    ("packet", packet::packet),
    ("parquet", tables::parquet),
    ("pcap", packet::pcap),
    ("plugin", plugin::plugin),
    ("state", state::state),
    ("specification", specification::specification),
    ("time", time::time),
    ("worker", plugin::worker),
];

/// Runs the check of that name.
///
/// # Panics
/// There is no such check, or it fails.
pub fn check(name: &str, bytes: &[u8]) {
    let (_, check) = CHECKS.iter().find(|(known, _)| *known == name).expect("a check of that name");
    check(bytes);
}
