//! Sources of events.

use std::num::NonZeroUsize;
use std::time::Duration;

use arrow::datatypes::{DataType, SchemaRef};

use crate::{
    Adapter, BadOption, Cause, EventBatch, Options, Position, RejectedRow, SourceFiles, StopToken, TimeRange,
    WantedColumn,
};

/// Produces rows. Pull-based: nothing is read until the engine has room.
///
/// The pipeline runs each source on its own thread and calls `next_batch` until it returns `None` or an error, with
/// `acknowledge` in between and after.
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
    /// Its name in errors: a path, or `standard input`.
    fn name(&self) -> &str;

    /// The columns of every batch: the wanted columns that this source has, with the wanted names, and the wanted types
    /// where it can convert to them. A source that does not know its columns, such as JSON lines, has all of them.
    /// Fixed once the source is open.
    fn schema(&self) -> SchemaRef;

    /// The names of all columns of the source, for suggestions where a wanted column is missing. Empty if it does not
    /// know them.
    fn offers(&self) -> Vec<String> {
        self.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The files that the source consists of, if there are several. Row numbers count the rows of all of them. Fixed
    /// once the source is open.
    fn source_files(&self) -> SourceFiles {
        SourceFiles::default()
    }

    /// Whether rows come as they happen: from a pipe, a socket or a network, and not from files. Fixed once the source is
    /// open.
    fn is_live(&self) -> bool {
        false
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
    /// Name, file extensions and options.
    fn adapter(&self) -> Adapter;

    /// Whether it reads several files as one source, if [`SourceRequest::others`] names them. All have the format of times
    /// that the first one has.
    fn takes_several_files(&self) -> bool {
        false
    }

    /// Opens a source and learns its schema.
    ///
    /// # Errors
    /// The run does not start.
    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, SourceError>;

    /// The columns of a source that can be read again, and their types. A column that is wanted as text has the type
    /// that the source then gives it. A source that does not know its columns looks at its first rows.
    ///
    /// # Errors
    /// The source cannot be opened or read.
    fn columns(&self, request: &SourceRequest) -> Result<Vec<WantedColumn>, SourceError> {
        columns_of(self, request)
    }
}

/// The columns of a source that knows its names, and that reads a column that is wanted as text in the type that it has.
///
/// # Errors
/// The source cannot be opened.
pub fn columns_of(
    factory: &(impl SourceFactory + ?Sized),
    request: &SourceRequest,
) -> Result<Vec<WantedColumn>, SourceError> {
    let wanting = |wanted: Vec<WantedColumn>| SourceRequest { wanted, ..request.clone() };
    let names = factory.open(&wanting(Vec::new()))?.offers();
    // A name that several columns have is an error only if it is read.
    let is_unique = |name: &&String| names.iter().filter(|other| other == name).count() == 1;
    let texts = names.iter().filter(is_unique).map(|name| WantedColumn::new(name, DataType::Utf8));
    let schema = factory.open(&wanting(texts.collect()))?.schema();
    Ok(schema
        .fields()
        .iter()
        .map(|field| WantedColumn::new(field.name(), field.data_type().clone()))
        .collect())
}

/// A request to open a source.
#[derive(Clone, Debug, Default)]
pub struct SourceRequest {
    /// The text between the colon and the question mark of the address: a path, or `-` for standard input.
    pub location: String,
    /// Locations of further files, which are read as one source with the first. Only for kinds of sources that
    /// [take several](SourceFactory::takes_several_files).
    pub others: Vec<String>,
    /// The options after the question mark of the address.
    pub options: Options,
    /// The columns that the specification reads; a source reads no others.
    pub wanted: Vec<WantedColumn>,
    /// The monitored time range. A source may skip rows outside of it; the pipeline drops them in any case.
    pub time_range: TimeRange,
    /// Position to resume from: the [`EventBatch::end`] of an earlier run.
    pub resume: Option<Position>,
    /// Context of the pipeline.
    pub context: SourceContext,
}

impl SourceRequest {
    /// The name of the input in errors.
    pub fn origin(&self) -> String {
        if self.location == "-" { "standard input".to_owned() } else { self.location.clone() }
    }

    /// An error: the source cannot be opened.
    pub fn cannot_open(&self, cause: impl Into<Cause>) -> SourceError {
        SourceError::Open { origin: self.origin(), cause: cause.into() }
    }

    /// An error: the source does not take an option.
    pub fn refuse(&self, bad: BadOption) -> SourceError {
        SourceError::Option { origin: self.location.clone(), bad }
    }
}

/// The context that the pipeline gives a source.
#[derive(Clone, Debug)]
pub struct SourceContext {
    /// Requests the source to stop, on Ctrl-C and on a failure elsewhere.
    pub stop: StopToken,
    /// Maximum number of rows in a batch.
    pub max_rows: NonZeroUsize,
    /// Number of bytes of rows after which a batch is returned although it has fewer rows than `max_rows`. One row may
    /// be larger.
    pub max_bytes: NonZeroUsize,
    /// Maximum age of the first row of a batch. A batch is returned at `max_rows` or at this age, whichever comes
    /// first.
    pub max_age: Duration,
}

impl Default for SourceContext {
    fn default() -> SourceContext {
        const MAX_ROWS: NonZeroUsize = NonZeroUsize::new(8192).unwrap();
        // Several batches wait between threads, and are copied when they are merged.
        const MAX_BYTES: NonZeroUsize = NonZeroUsize::new(16 << 20).unwrap();
        // Not noticeable as latency, and long enough for a fast input to fill a batch.
        const MAX_AGE: Duration = Duration::from_millis(1);
        SourceContext {
            stop: StopToken::default(),
            max_rows: MAX_ROWS,
            max_bytes: MAX_BYTES,
            max_age: MAX_AGE,
        }
    }
}

/// A source failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// It could not be opened.
    #[error("cannot open {origin}: {cause}")]
    Open {
        /// Name of the source.
        origin: String,
        /// Why.
        cause: Cause,
    },
    /// It was given an option that it does not take.
    #[error("{origin}: {bad}")]
    Option {
        /// Name of the source.
        origin: String,
        /// The option.
        bad: BadOption,
    },
    /// Reading failed.
    #[error("cannot read {origin} after row {row}: {cause}")]
    Read {
        /// Name of the source.
        origin: String,
        /// The last row that was read; see [`EventBatch::row_numbers`].
        row: u64,
        /// Why.
        cause: Cause,
    },
    /// A row is bad, and the policy says to stop there.
    #[error("{origin}: {bad}")]
    BadRow {
        /// Name of the source.
        origin: String,
        /// Which row and why.
        bad: RejectedRow,
    },
    /// A bad row could not be reported.
    #[error("cannot report a bad row of {origin}: {cause}")]
    Report {
        /// Name of the source.
        origin: String,
        /// Why.
        cause: Cause,
    },
    /// It did not keep to the contract of [`Source`].
    #[error("{origin} is broken: {reason}")]
    Broken {
        /// Name of the source.
        origin: String,
        /// How it broke the contract.
        reason: String,
    },
    /// It panicked.
    #[error("{origin} stopped working: {reason}")]
    Panicked {
        /// Name of the source.
        origin: String,
        /// The panic's message.
        reason: String,
    },
}
