//! How far sources have been evaluated.

use crate::{Position, Time};

/// How far a source has been evaluated, so that a later run continues exactly there.
///
/// A position is the end of a batch, but rows are evaluated in order of time, across sources. So rows behind the position
/// may have been evaluated too. They are read again, put in the same order again, and the first `ahead` of them left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceProgress {
    /// Every row up to here has been evaluated or left out. `None` before the first.
    pub position: Option<Position>,
    /// Number of good rows behind the position, in order of time, that have been evaluated as well.
    pub ahead: u64,
    /// The newest time up to the position, and the number of the row that has it.
    pub newest: Option<(Time, u64)>,
    /// Rows up to the position.
    pub rows: ReadCounts,
}

/// Rows of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Rows read, including bad ones.
    pub read: u64,
    /// Bad rows that were left out.
    pub rejected: u64,
    /// Rows that were lost because they were read too slowly.
    pub dropped: u64,
    /// Rejected rows that were too late.
    pub late: u64,
    /// Rows outside the monitored time range.
    pub outside: u64,
}

/// Where a source was at the end of a batch, as its thread hands it on.
#[derive(Clone, Debug)]
pub(super) struct SourceMark {
    pub(super) position: Position,
    pub(super) newest: Option<(Time, u64)>,
    pub(super) rows: ReadCounts,
}

impl SourceProgress {
    /// Moves to a mark, behind which `ahead` rows have been sent.
    pub(super) fn pass(&mut self, mark: Option<SourceMark>, ahead: u64) {
        if let Some(SourceMark { position, newest, rows }) = mark {
            (self.position, self.newest, self.rows) = (Some(position), newest, rows);
        }
        self.ahead = ahead;
    }
}
