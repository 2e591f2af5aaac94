//! What every adapter that reads or writes text has in common: files, standard streams and named pipes,
//! compressed or not; texts as typed columns; rows gathered into batches. Knows no format.

mod column;
mod events;
mod input;
mod output;
mod packing;
mod rows;
mod verdicts;

pub use column::{Column, shortened, type_name};
pub use events::{FormatEvent, TextEvents};
pub use input::{Filled, Input};
pub use rows::{Next, Place, RowSource, Rows};
pub use verdicts::{Format, TextSink};
