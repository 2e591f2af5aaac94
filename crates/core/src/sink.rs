//! Sinks for verdicts.

use crate::{Adapter, BadOption, Cause, Options, Position, VerdictBatch};

/// Consumes verdicts.
///
/// The pipeline runs each sink on its own thread. It calls `write`, `flush` and `checkpoint` in any order, then `finish` once, even
/// if the run failed. After an error of `write` or `flush` it calls only `finish`, and the run ends with that error;
/// the other sinks keep what they have.
///
/// A sink that counts:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use fairstream_core::{Position, RunEnd, Selection, Sink, SinkError, VerdictBatch};
///
/// struct Count { total: Arc<AtomicUsize> }
///
/// impl Sink for Count {
///     fn name(&self) -> &str {
///         "count"
///     }
///
///     fn wants(&self) -> Selection {
///         Selection::Triggers
///     }
///
///     fn write(&mut self, batch: &VerdictBatch) -> Result<(), SinkError> {
///         self.total.fetch_add(batch.len(), Ordering::Relaxed);
///         Ok(())
///     }
///
///     fn flush(&mut self) -> Result<Option<Position>, SinkError> {
///         Ok(None)
///     }
///
///     fn finish(self: Box<Self>, _end: &RunEnd) -> Result<(), SinkError> {
///         Ok(())
///     }
/// }
///
/// let sink: Box<dyn Sink> = Box::new(Count { total: Arc::default() });
/// assert_eq!(sink.wants(), Selection::Triggers);
/// # Ok::<(), SinkError>(())
/// ```
pub trait Sink: Send {
    /// Its name in errors: a path, or `standard output`.
    fn name(&self) -> &str;

    /// Which verdicts it reads, so that the engine builds no others. `write` gets only these.
    fn wants(&self) -> Selection;

    /// Writes a batch. Batches come in order. When it returns, a reader of the output can see the verdicts, if the
    /// format can be read before it is complete; only `flush` makes them durable. Blocking here slows down the whole
    /// run, which is the back-pressure.
    ///
    /// # Errors
    /// Any error ends the run, except [`SinkError::HungUp`]: this sink is finished and the others go on; if none is
    /// left, the run ends without an error.
    fn write(&mut self, batch: &VerdictBatch) -> Result<(), SinkError>;

    /// Makes everything written so far durable, and returns its position: a sink that is opened with this position
    /// resumes exactly there. `None` if the sink cannot be resumed, such as a terminal. The pipeline then acknowledges
    /// the events of these verdicts to their sources.
    ///
    /// # Errors
    /// Ends the run; nothing further is acknowledged.
    fn flush(&mut self) -> Result<Option<Position>, SinkError>;

    /// The same at a checkpoint, from which another run may continue. A format that can be resumed only where a file ends
    /// ends one here.
    ///
    /// # Errors
    /// As for [`flush`](Sink::flush).
    fn checkpoint(&mut self) -> Result<Option<Position>, SinkError> {
        self.flush()
    }

    /// Writes the end of the format and closes the output. When it returns, everything is as durable as after a
    /// `flush`. What was written before must stay readable even if the run failed.
    ///
    /// # Errors
    /// Ends the run with this error unless another came first.
    fn finish(self: Box<Self>, end: &RunEnd) -> Result<(), SinkError>;
}

/// Opens sinks of one kind.
pub trait SinkFactory: Send + Sync {
    /// Name, file extensions and options.
    fn adapter(&self) -> Adapter;

    /// Opens a sink. Without a position to resume from, an existing file is replaced at the first `write` or at
    /// `finish`, not before.
    ///
    /// # Errors
    /// The run does not start.
    fn open(&self, request: &SinkRequest) -> Result<Box<dyn Sink>, SinkError>;
}

/// A request to open a sink.
#[derive(Clone, Debug, Default)]
pub struct SinkRequest {
    /// The text between the colon and the question mark of the address: a path, or `-` for standard output.
    pub location: String,
    /// The options after the question mark of the address.
    pub options: Options,
    /// The verdicts to write.
    pub select: Selection,
    /// Position to resume from, of an earlier [`Sink::flush`]. What was written after it is discarded.
    pub resume: Option<Position>,
}

/// A selection of verdicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Selection {
    /// Alarms only, raised and cleared.
    Alarms,
    /// Alarms and violated triggers.
    #[default]
    Triggers,
    /// Alarms, triggers and every change of every stream: values, spawned and closed instances.
    Changes,
}

impl std::str::FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> Result<Selection, String> {
        match text {
            "alarms" => Ok(Selection::Alarms),
            "triggers" => Ok(Selection::Triggers),
            "changes" => Ok(Selection::Changes),
            _ => Err("there are `alarms`, `triggers` and `changes`".to_owned()),
        }
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// All input was evaluated.
    Complete,
    /// A stop was requested; everything read until then was evaluated.
    Stopped,
    /// Something failed; the text says what.
    Failed(String),
}

/// A sink failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// It could not be opened.
    #[error("cannot open {sink}: {cause}")]
    Open {
        /// Name of the sink.
        sink: String,
        /// Why.
        cause: Cause,
    },
    /// It was given an option that it does not take.
    #[error("{sink}: {bad}")]
    Option {
        /// Name of the sink.
        sink: String,
        /// The option.
        bad: BadOption,
    },
    /// It could not be written.
    #[error("cannot write {sink}: {cause}")]
    Write {
        /// Name of the sink.
        sink: String,
        /// Why.
        cause: Cause,
    },
    /// The reader of the output hung up, as `| head` does.
    #[error("the reader of {sink} hung up")]
    HungUp {
        /// Name of the sink.
        sink: String,
    },
    /// It panicked.
    #[error("{sink} stopped working: {reason}")]
    Panicked {
        /// Name of the sink.
        sink: String,
        /// The panic's message.
        reason: String,
    },
}
