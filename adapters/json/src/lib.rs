//! JSON lines: one object a line, events in and verdicts out.

mod lines;
mod object;
mod sink;
mod source;

pub use sink::JsonSinks;
pub use source::JsonSources;
