//! What turns events into verdicts.

use crate::{Closed, EventBatch, Time, Verdicts};

/// Evaluates rows in order of time. Need not be `Send`: it is built on the thread that runs it.
///
/// Verdicts depend on the order of the rows only, never on how they are cut into batches.
pub trait Engine {
    /// The names of the streams that verdicts speak of; a verdict names one by its index here.
    fn streams(&self) -> &[String];

    /// Evaluates the rows of a batch one after another, each after everything that was due
    /// before its time. In work that may take long it asks `out` now and then whether verdicts
    /// are [still wanted](Verdicts::check).
    ///
    /// # Errors
    /// The run ends with this error. Verdicts that were given to `out` before it are kept, so an
    /// engine gives those of the rows before the one at fault.
    fn feed(&mut self, events: &EventBatch, out: &mut Verdicts) -> Result<(), EngineError>;

    /// Lets the clock run to `time` and evaluates everything that is due until then, `time`
    /// included. No event at or before `time` follows.
    ///
    /// # Errors
    /// As for [`feed`](Engine::feed).
    fn advance(&mut self, time: Time, out: &mut Verdicts) -> Result<(), EngineError>;
}

/// Builds the engine on the engine's thread. `start` is where its clock starts.
pub type BuildEngine = Box<dyn FnOnce(Time) -> Result<Box<dyn Engine>, EngineError> + Send>;

/// An engine failed. It names an event by its index in the batch; the pipeline tells the user
/// which row of which source that is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// It could not be built.
    #[error("cannot set up the engine: {0}")]
    Build(String),
    /// An event cannot be evaluated.
    #[error("event {index} of the batch: {reason}")]
    Event {
        /// Its index in the batch.
        index: usize,
        /// The column at fault, if it is one column.
        column: Option<String>,
        /// What is wrong.
        reason: String,
    },
    /// What was due at a time cannot be evaluated.
    #[error("what is due at {}: {reason}", time.for_people())]
    Deadline {
        /// That time.
        time: Time,
        /// The index in the batch of the event that it was due before; `None` after the last one.
        before: Option<usize>,
        /// What is wrong.
        reason: String,
    },
    /// The run is ending for another reason.
    #[error(transparent)]
    Closed(#[from] Closed),
}
