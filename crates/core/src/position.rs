//! Positions of sources and sinks.

use std::sync::Arc;

/// A position in an input or an output from which it can be resumed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Rows read or written since the beginning, rejected rows included.
    pub rows: u64,
    /// State for resuming, in a format of the adapter's own.
    pub resume: Arc<[u8]>,
}
