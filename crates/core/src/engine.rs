//! What turns events into verdicts.

use crate::{
    Cancelled, CapturedState, EventBatch, OnChange, StateChange, StateError, StateReader, Subscription, Time,
    VerdictSink,
};

/// Evaluates rows in order of time. Need not be `Send`: it is built on the thread that runs it.
///
/// Verdicts depend on the order of the rows only, never on how they are cut into batches.
pub trait Engine {
    /// The names of the streams that verdicts speak of; a verdict names one by its index here.
    fn streams(&self) -> &[String];

    /// Says which verdicts are wanted, and lets the engine do what takes time and depends on no event, such as
    /// compiling handlers. Called exactly once, before the first `feed` or `advance`.
    ///
    /// # Errors
    /// The run ends with this error before its first event.
    fn prepare(&mut self, subscription: &Subscription) -> Result<(), EngineError>;

    /// Evaluates the rows of a batch one after another, each after everything that was due before its time, and
    /// emits what the subscription covers. In work that may take long it asks `out` now and then whether verdicts
    /// are [still wanted](VerdictSink::check).
    ///
    /// # Errors
    /// The run ends with this error. Verdicts that were emitted before it are kept, so an engine emits those of the
    /// rows before the one at fault. An engine that has failed refuses further events.
    fn feed(&mut self, events: &EventBatch, out: &mut dyn VerdictSink) -> Result<(), EngineError>;

    /// Lets the clock run to `time` and evaluates everything that is due until then, `time`
    /// included. No event at or before `time` follows.
    ///
    /// # Errors
    /// As for [`feed`](Engine::feed).
    fn advance(&mut self, time: Time, out: &mut dyn VerdictSink) -> Result<(), EngineError>;

    /// Copies everything that the engine knows of the events so far, to be written by another thread while this engine
    /// goes on. An engine for the same specification that is [resumed](Engine::resume) from it continues as this one
    /// would. The events wait meanwhile, so this takes no longer than copying memory.
    ///
    /// Called between two calls of `feed` or `advance`, never after one that failed.
    ///
    /// # Errors
    /// The engine cannot do that.
    fn capture(&self) -> Result<Box<dyn CapturedState>, StateError> {
        Err(StateError::Unsupported)
    }

    /// What of this engine's specification differs from the one that the state is of. Nothing is restored.
    ///
    /// # Errors
    /// The state is not of such an engine, or it is damaged.
    fn changes(&self, state: &dyn StateReader) -> Result<Vec<StateChange>, StateError> {
        let _ = state;
        Err(StateError::Unsupported)
    }

    /// Takes the place of the engine that the state is of, its clock included. Whatever this engine has seen before is
    /// forgotten. Called before or after `prepare`. Returns what begins anew because the specification has changed,
    /// which is nothing unless `on_change` allows for it.
    ///
    /// # Errors
    /// The state is not of such an engine, or it is damaged; the engine is as it was, and the caller decides whether to
    /// begin anew.
    fn resume(
        &mut self,
        state: &dyn StateReader,
        on_change: OnChange,
    ) -> Result<Vec<StateChange>, StateError> {
        let _ = (state, on_change);
        Err(StateError::Unsupported)
    }
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
    /// It was given events before it was prepared, or after it had failed.
    #[error("{0}")]
    Misused(&'static str),
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
    Cancelled(#[from] Cancelled),
}
