//! Rows that cannot be evaluated, and what to do about them.

use std::fmt;
use std::sync::Arc;

use crate::{Cause, SourceError, brief};

/// How many characters of the name of a column are shown; of a reason, ten times as many.
const LONGEST: usize = 200;

/// A row that cannot be evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedRow {
    /// Its number; see [`EventBatch::row_numbers`](crate::EventBatch::row_numbers).
    pub row: u64,
    /// The column at fault, if it is one column.
    pub column: Option<String>,
    /// The problem and, if there is one, a suggestion.
    pub reason: String,
}

impl fmt::Display for RejectedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {}", self.row)?;
        if let Some(column) = &self.column {
            write!(f, ", column `{}`", brief(column, LONGEST))?;
        }
        write!(f, ": {}", brief(&self.reason, 10 * LONGEST))
    }
}

/// Called for each bad row with the index of its source in the pipeline and the name of the file. The bad rows of one source
/// come in order. An error ends the run.
pub type ReportBadRow = Arc<dyn Fn(usize, &str, &RejectedRow) -> Result<(), Cause> + Send + Sync>;

/// Policy for bad rows.
#[derive(Clone, Default)]
pub enum BadRowPolicy {
    /// The run ends there with an error; the rows before it are evaluated.
    #[default]
    Stop,
    /// The row is counted, reported and dropped.
    Skip(ReportBadRow),
}

impl BadRowPolicy {
    /// Applies the policy to a row of a source, which has a name and a place there.
    pub(crate) fn apply(
        &self,
        source: usize,
        (origin, bad): (String, RejectedRow),
    ) -> Result<(), SourceError> {
        match self {
            BadRowPolicy::Stop => Err(SourceError::BadRow { origin, bad }),
            BadRowPolicy::Skip(report) => {
                report(source, &origin, &bad).map_err(|cause| SourceError::Report { origin, cause })
            }
        }
    }
}

impl fmt::Debug for BadRowPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadRowPolicy::Stop => "Stop",
            BadRowPolicy::Skip(_) => "Skip",
        })
    }
}
