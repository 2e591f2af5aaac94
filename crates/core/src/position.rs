//! How far a source has read or a sink has written.

use std::sync::Arc;

/// A place in an input or an output to which one can return.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Rows read or written since the beginning, rejected rows included.
    pub rows: u64,
    /// Where to go on, in a form that only the adapter that made it can read.
    pub resume: Arc<[u8]>,
}
