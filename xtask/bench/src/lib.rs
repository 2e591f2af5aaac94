//! Code that the benchmarks share: workloads of any size, their events, hand-written loops, monitors, and
//! measurement.
//!
//! All systems must give the same verdicts: [`triggers`] are compared, and a difference is an error, not a number
//! in a table.

#![allow(missing_docs, reason = "for the benchmarks beside it alone")]

pub mod admissions;
pub mod allocator;
pub mod hand;
pub mod machine;
pub mod measure;
pub mod monitor;
pub mod random;
pub mod screenings;
pub mod table;
pub mod trace;
pub mod triggers;
pub mod workload;
