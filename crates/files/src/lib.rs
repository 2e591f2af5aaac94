//! Byte streams in and out, for every adapter that reads or writes text: files, standard streams
//! and named pipes, compressed or not. Knows nothing of what the bytes mean.

mod events;
mod input;
mod output;
mod packing;
mod verdicts;

pub use events::{FormatEvent, TextEvents};
pub use input::{Filled, Input};
pub use verdicts::{Format, TextSink};
