//! Where verdicts go.

use crate::{Adapter, BadOption, Cause, Options, Position, VerdictBatch};

/// Consumes verdicts.
///
/// The pipeline gives each sink a thread of its own and calls: `write` and `flush` in any mixture,
/// then `finish` once, whether the run went well or not. After an error of `write` or `flush` it
/// calls only `finish`, and the run ends with that error; the other sinks keep what they have.
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
    /// What the user would call it, for errors: a path, `standard output`.
    fn name(&self) -> &str;

    /// Which verdicts it reads, so that the engine builds no others. `write` gets only these.
    fn wants(&self) -> Selection;

    /// Takes a batch, in order. When it returns, a reader of the output can see the verdicts, if
    /// the format can be read before it is complete (they may still be lost with the machine; that
    /// is what `flush` is for). Blocking here slows the whole run down: that is the back-pressure.
    ///
    /// # Errors
    /// Any error ends the run, except [`SinkError::HungUp`]: then this sink is finished and the
    /// others go on; if there is none left, the run ends quietly.
    fn write(&mut self, batch: &VerdictBatch) -> Result<(), SinkError>;

    /// Makes everything written so far survive a crash, and says where that is: a sink that is
    /// opened again with this position goes on exactly there. `None` if it cannot be taken up
    /// again, as a terminal cannot. The pipeline then acknowledges the events behind these
    /// verdicts to their sources.
    ///
    /// # Errors
    /// Ends the run; nothing further is acknowledged.
    fn flush(&mut self) -> Result<Option<Position>, SinkError>;

    /// Writes what belongs at the end and closes; when it returns, everything is as durable as after
    /// a `flush`. What was written before must stay readable also when `end` says that the run
    /// failed.
    ///
    /// # Errors
    /// Ends the run with this error unless another came first.
    fn finish(self: Box<Self>, end: &RunEnd) -> Result<(), SinkError>;
}

/// Opens sinks of one kind.
pub trait SinkFactory: Send + Sync {
    /// What a user knows these sinks by.
    fn adapter(&self) -> Adapter;

    /// Opens a sink. An existing file is replaced once the run writes or finishes, not before;
    /// unless the request says where to go on.
    ///
    /// # Errors
    /// The run does not start.
    fn open(&self, request: &SinkRequest) -> Result<Box<dyn Sink>, SinkError>;
}

/// What a sink is to write.
#[derive(Clone, Debug, Default)]
pub struct SinkRequest {
    /// What stands between the colon and the question mark: a path, or `-` for standard output.
    pub location: String,
    /// What stands behind the question mark.
    pub options: Options,
    /// Which verdicts the user wants there.
    pub select: Selection,
    /// Where to go on, from an earlier [`Sink::flush`]; what was written after it is discarded.
    pub resume: Option<Position>,
}

/// Verdicts that somebody asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Selection {
    /// Alarms only, raised and cleared.
    Alarms,
    /// Violated triggers as well.
    #[default]
    Triggers,
    /// Every change of every stream as well: values, spawned and closed instances.
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
    /// Somebody asked to stop; all that was read until then was evaluated.
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
        /// What the user called it.
        sink: String,
        /// Why.
        cause: Cause,
    },
    /// It was given an option that it does not take.
    #[error("{sink}: {bad}")]
    Option {
        /// What the user called it.
        sink: String,
        /// Which.
        bad: BadOption,
    },
    /// It could not be written.
    #[error("cannot write {sink}: {cause}")]
    Write {
        /// What the user called it.
        sink: String,
        /// Why.
        cause: Cause,
    },
    /// The reader hung up, as `| head` does: there is nobody left to tell.
    #[error("the reader of {sink} hung up")]
    HungUp {
        /// What the user called it.
        sink: String,
    },
    /// It panicked.
    #[error("{sink} stopped working: {reason}")]
    Panicked {
        /// What the user called it.
        sink: String,
        /// The panic's message.
        reason: String,
    },
}
