//! JSON lines: one object a line.

mod sink;

pub use sink::JsonSinks;
