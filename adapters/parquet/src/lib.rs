//! Parquet and Arrow IPC: sources, event writers and sinks. Never guesses a type: files have one, and the
//! specification has one.

mod arrow_source;
mod binding;
mod claims;
mod convert;
mod file;
mod ipc;
mod moments;
mod parts;
mod path;
mod shared;
mod sink;
mod source;
mod table;
mod texts;
mod thrift;
mod tuple;
mod writer;

pub use arrow_source::ArrowSources;
pub use sink::{ArrowSinks, ParquetSinks};
pub use source::ParquetSources;
pub use writer::{ArrowEventWriters, ParquetEventWriters};
