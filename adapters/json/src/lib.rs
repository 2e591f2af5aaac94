//! JSON lines: one object a line. Events in and out, verdicts out.

mod flat;
mod lines;
mod object;
mod sink;
mod source;
mod value;
mod writer;

pub use sink::JsonSinks;
pub use source::JsonSources;
pub use writer::JsonEventWriters;
