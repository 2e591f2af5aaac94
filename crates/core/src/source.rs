//! Where events come from.

use std::num::NonZeroUsize;
use std::time::Duration;

use arrow::datatypes::SchemaRef;

use crate::{
    Adapter, BadOption, Cause, EventBatch, Options, Position, RejectedRow, SourceFiles, StopToken, TimeRange,
    WantedColumn,
};

/// Produces rows. Pull-based: nothing is read until the engine has room.
///
/// The pipeline gives each source a thread of its own and calls `next_batch` until it returns
/// `None` or an error, with `acknowledge` in between and after.
///
/// A source that counts:
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{Int64Array, RecordBatch};
/// use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
/// use fairstream_core::{EventBatch, Position, Source, SourceContext, SourceError};
///
/// struct Count { next: u64, last: u64, context: SourceContext }
///
/// impl Source for Count {
///     fn name(&self) -> &str {
///         "count"
///     }
///
///     fn schema(&self) -> SchemaRef {
///         Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]))
///     }
///
///     fn next_batch(&mut self) -> Result<Option<EventBatch>, SourceError> {
///         if self.next > self.last || self.context.stop.is_stopped() {
///             return Ok(None);
///         }
///         let end = self.last.min(self.next + self.context.max_rows.get() as u64 - 1);
///         let numbers: Vec<u64> = (self.next..=end).collect();
///         self.next = end + 1;
///         let column = Int64Array::from_iter_values(numbers.iter().map(|n| n.cast_signed()));
///         let rows = RecordBatch::try_new(self.schema(), vec![Arc::new(column)])
///             .map_err(|error| SourceError::Read { origin: "count".into(), row: end, cause: error.into() })?;
///         // One a second, and the number is all it takes to go on.
///         let times: Vec<i64> = numbers.iter().map(|n| n.cast_signed() * 1_000_000_000).collect();
///         let position = Position { rows: end, resume: Arc::from(end.to_le_bytes()) };
///         Ok(Some(EventBatch::new(rows, times, numbers, position)))
///     }
/// }
///
/// let mut source = Count { next: 1, last: 3, context: SourceContext::default() };
/// assert_eq!(source.next_batch()?.map(|batch| batch.len()), Some(3));
/// assert!(source.next_batch()?.is_none());
/// # Ok::<(), SourceError>(())
/// ```
pub trait Source: Send {
    /// What the user would call it, for errors: a path, `standard input`.
    fn name(&self) -> &str;

    /// The columns of every batch: those of the wanted columns that this source has, under their
    /// wanted names, and in their wanted types where it can read them so. A source that cannot
    /// know what it has, such as JSON lines, has all of them. Fixed once it is open.
    fn schema(&self) -> SchemaRef;

    /// The names of all columns it has, wanted or not, to suggest one where a wanted column is
    /// missing. Empty if it cannot know.
    fn offers(&self) -> Vec<String> {
        self.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The files it is made of, if it is made of several; row numbers are numbers of rows in all of
    /// them. Fixed once it is open.
    fn source_files(&self) -> SourceFiles {
        SourceFiles::default()
    }

    /// Waits for the next batch. A row that does not decode goes to
    /// [`EventBatch::rejected`]; it is not an error. `None` is the end, also when asked again.
    ///
    /// Must return within a second once the context's [`StopToken`] is stopped, with the rows it
    /// has, and then `None`; and once the first row of a batch is as old as the context allows. A
    /// source that has to wait longer returns an empty batch about once a second, so that
    /// acknowledgements reach it.
    ///
    /// # Errors
    /// The source cannot go on. It gives the rows that it read before in a batch first. The run
    /// ends with this error; the rows of earlier batches are evaluated and their verdicts kept.
    fn next_batch(&mut self) -> Result<Option<EventBatch>, SourceError>;

    /// Every row up to `through` has reached every sink durably, so the source may forget it.
    /// Called between batches and after the last one, on the thread that calls `next_batch`.
    ///
    /// # Errors
    /// The run ends with this error.
    fn acknowledge(&mut self, through: &Position) -> Result<(), SourceError> {
        let _ = through;
        Ok(())
    }
}

/// Opens sources of one kind.
pub trait SourceFactory: Send + Sync {
    /// What a user knows these sources by.
    fn adapter(&self) -> Adapter;

    /// Opens a source and learns its schema.
    ///
    /// # Errors
    /// The run does not start.
    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, SourceError>;
}

/// What a source is to read.
#[derive(Clone, Debug, Default)]
pub struct SourceRequest {
    /// What stands between the colon and the question mark: a path, or `-` for standard input.
    pub location: String,
    /// What stands behind the question mark.
    pub options: Options,
    /// The columns that the specification reads; a source reads no others.
    pub wanted: Vec<WantedColumn>,
    /// What is monitored: a source that knows where the rest is need not read it. The pipeline
    /// leaves it out in any case.
    pub time_range: TimeRange,
    /// Where to go on, from the [`EventBatch::end`] of an earlier run.
    pub resume: Option<Position>,
    /// What the pipeline lends it.
    pub context: SourceContext,
}

impl SourceRequest {
    /// What the user would call what is to be read.
    pub fn origin(&self) -> String {
        if self.location == "-" { "standard input".to_owned() } else { self.location.clone() }
    }

    /// It cannot be opened.
    pub fn cannot_open(&self, cause: impl Into<Cause>) -> SourceError {
        SourceError::Open { origin: self.origin(), cause: cause.into() }
    }

    /// It does not take an option.
    pub fn refuse(&self, bad: BadOption) -> SourceError {
        SourceError::Option { origin: self.location.clone(), bad }
    }
}

/// What the pipeline lends a source.
#[derive(Clone, Debug)]
pub struct SourceContext {
    /// Raised on Ctrl-C and on a failure elsewhere.
    pub stop: StopToken,
    /// Close a batch at this many rows ...
    pub max_rows: NonZeroUsize,
    /// ... or when its first row is this old, whichever comes first.
    pub max_age: Duration,
}

impl Default for SourceContext {
    fn default() -> SourceContext {
        const MAX_ROWS: NonZeroUsize = NonZeroUsize::new(8192).unwrap();
        // Short beside what anybody waits for; inputs that are quick fill a batch in that time.
        const MAX_AGE: Duration = Duration::from_millis(1);
        SourceContext { stop: StopToken::default(), max_rows: MAX_ROWS, max_age: MAX_AGE }
    }
}

/// A source failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// It could not be opened.
    #[error("cannot open {origin}: {cause}")]
    Open {
        /// What the user called it.
        origin: String,
        /// Why.
        cause: Cause,
    },
    /// It was given an option that it does not take.
    #[error("{origin}: {bad}")]
    Option {
        /// What the user called it.
        origin: String,
        /// Which.
        bad: BadOption,
    },
    /// It broke off.
    #[error("cannot read {origin} after row {row}: {cause}")]
    Read {
        /// What the user called it.
        origin: String,
        /// The last row that was read; see [`EventBatch::row_numbers`].
        row: u64,
        /// Why.
        cause: Cause,
    },
    /// A row is bad, and the policy says to stop there.
    #[error("{origin}: {bad}")]
    BadRow {
        /// What the user called it.
        origin: String,
        /// Which row and why.
        bad: RejectedRow,
    },
    /// A bad row could not be reported.
    #[error("cannot report a bad row of {origin}: {cause}")]
    Report {
        /// What the user called it.
        origin: String,
        /// Why.
        cause: Cause,
    },
    /// It did not keep to the contract of [`Source`].
    #[error("{origin} is broken: {reason}")]
    Broken {
        /// What the user called it.
        origin: String,
        /// What it did.
        reason: String,
    },
    /// It panicked.
    #[error("{origin} stopped working: {reason}")]
    Panicked {
        /// What the user called it.
        origin: String,
        /// The panic's message.
        reason: String,
    },
}
