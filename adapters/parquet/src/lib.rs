//! Parquet and Arrow IPC: events in and out, verdicts out. Never guesses a type: files have one, and the
//! specification has one.

mod binding;
mod convert;
mod file;
mod lake;
mod moments;
mod path;
mod place;
mod source;

pub use source::ParquetSources;
