//! JSON lines: one object a line. Verdicts and events out.

mod sink;
mod value;
mod writer;

pub use sink::JsonSinks;
pub use writer::JsonEventWriters;
