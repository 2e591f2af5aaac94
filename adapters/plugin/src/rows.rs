//! Rows of a plugin as it gives them, before they are checked: from a library in this process or in another.

use arrow::array::RecordBatch;
use fairstream_core::Position;

/// The rows of an open plugin.
pub(crate) trait PluginRows: Send {
    /// The next batch; `None` at the end, or once a stop was requested.
    fn next(&mut self) -> Result<Option<RecordBatch>, Trouble>;

    /// The progress after the last batch.
    fn progress(&mut self) -> Result<RowProgress, Trouble>;

    /// The rows up to there are durable in every sink.
    fn acknowledge(&mut self, through: &Position) -> Result<(), Trouble>;
}

/// What a plugin reports after a batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowProgress {
    pub(crate) end: Position,
    pub(crate) dropped: u64,
    pub(crate) is_relative: bool,
}

/// Why a plugin gives nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It returned an error.
    Failed(String),
    /// It did not keep to the contract.
    Broken(String),
}
