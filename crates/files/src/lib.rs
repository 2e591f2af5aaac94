//! Byte streams in and out, for every adapter that reads or writes text: files, standard streams
//! and named pipes, compressed or not. Knows nothing of what the bytes mean.

mod input;
mod output;

pub use input::{Filled, Input};
pub use output::{Format, TextSink};
