//! What must hold of every decoder of ours, whatever the bytes are: a function each, which panics if it does
//! not. `libfuzzer` looks for bytes that break one; `tests/corpus.rs` tries those that it once found
//! interesting, at every `cargo test`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a check says no by panicking")]

mod fairness;
mod packet;
mod plugin;
mod reading;
mod tables;
mod text;
mod time;

/// A check, by the name of its folder in `corpus` and of its file in `libfuzzer/fuzz_targets`.
pub type Check = (&'static str, fn(&[u8]));

/// Every check.
pub const CHECKS: [Check; 9] = [
    ("arrow", tables::arrow),
    ("csv", text::csv),
    ("fairness", fairness::fairness),
    ("json", text::json),
    ("packet", packet::packet),
    ("parquet", tables::parquet),
    ("pcap", packet::pcap),
    ("plugin", plugin::plugin),
    ("time", time::time),
];

/// Runs the check of that name.
///
/// # Panics
/// There is none, or it does not hold.
pub fn check(name: &str, bytes: &[u8]) {
    let (_, check) = CHECKS.iter().find(|(known, _)| *known == name).expect("a check of that name");
    check(bytes);
}
