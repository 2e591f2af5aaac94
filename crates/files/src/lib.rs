//! What every adapter that reads or writes text has in common: files, standard streams and named pipes,
//! compressed or not; texts as typed columns; rows gathered into batches. Knows no format.

mod column;
mod input;
mod output;
mod rows;

pub use column::{Column, shortened, type_name};
pub use input::{Filled, Input};
pub use output::{Format, TextSink};
pub use rows::{Next, Place, RowSource, Rows};
