//! CSV: turns its bytes into event batches, and verdicts into CSV. Never guesses the type of a
//! column: the specification decides.

mod notation;
mod record;
mod sink;
mod source;

pub use sink::CsvSinks;
pub use source::CsvSources;
