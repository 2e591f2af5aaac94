//! JSON lines, one object per line: a source, an event writer and a sink.

mod flat;
mod lines;
mod object;
mod sink;
mod source;
mod survey;
mod value;
mod writer;

pub use sink::JsonSinks;
pub use source::JsonSources;
pub use writer::JsonEventWriters;
