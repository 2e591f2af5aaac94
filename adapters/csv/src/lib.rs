//! CSV: decodes bytes into event batches, and encodes events and verdicts as CSV. Never guesses the type of a
//! column: the specification decides.

mod header;
mod notation;
mod quotes;
mod record;
mod sink;
mod source;
mod writer;

pub use sink::CsvSinks;
pub use source::CsvSources;
pub use writer::CsvEventWriters;
