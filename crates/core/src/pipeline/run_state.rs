//! What the threads of a run share: the first failure, the way to stop, the counts.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::acks::AckTracker;
use super::{Counters, RunError, RunReport};
use crate::{RunEnd, SinkError, StopToken};

pub(super) struct RunState {
    pub(super) stop: StopToken,
    pub(super) counters: Arc<Counters>,
    pub(super) acks: AckTracker,
    failure: Mutex<Option<RunError>>,
    over: AtomicBool,
    end: OnceLock<RunEnd>,
    /// Sinks whose reader has not hung up.
    listening: AtomicUsize,
}

impl RunState {
    pub(super) fn new(stop: StopToken, counters: Arc<Counters>, sinks: usize) -> RunState {
        RunState {
            stop,
            counters,
            acks: AckTracker::new(sinks),
            failure: Mutex::new(None),
            over: AtomicBool::new(false),
            end: OnceLock::new(),
            listening: AtomicUsize::new(sinks),
        }
    }

    fn failure(&self) -> MutexGuard<'_, Option<RunError>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A part failed: the run ends. Only the first failure is kept; what follows it is its echo.
    pub(super) fn fail(&self, error: impl Into<RunError>) {
        self.failure().get_or_insert(error.into());
        self.give_up();
    }

    /// What came of a sink. One whose reader hung up is done; when all are, nobody is left to tell
    /// and the run ends at once, without an error.
    pub(super) fn end_with(&self, result: Result<(), SinkError>) {
        match result {
            Ok(()) => {}
            Err(SinkError::HungUp { .. }) => {
                if self.listening.fetch_sub(1, Ordering::AcqRel) == 1 {
                    self.give_up();
                }
            }
            Err(error) => self.fail(error),
        }
    }

    fn give_up(&self) {
        self.over.store(true, Ordering::Release);
        self.stop.stop();
    }

    /// Whether the run has failed or nobody listens, so that evaluating on is of no use.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// The engine has seen all that it will see: how the run ends is decided.
    pub(super) fn settle_end(&self) {
        let _ = self.end.set(self.end_now());
    }

    /// How the run ends, as far as that is decided: a failure comes before everything else.
    pub(super) fn end(&self) -> RunEnd {
        match self.end_now() {
            failed @ RunEnd::Failed(_) => failed,
            now => self.end.get().cloned().unwrap_or(now),
        }
    }

    fn end_now(&self) -> RunEnd {
        match &*self.failure() {
            Some(error) => RunEnd::Failed(error.to_string()),
            None if self.stop.is_stopped() => RunEnd::Stopped,
            None => RunEnd::Complete,
        }
    }

    pub(super) fn report(&self) -> RunReport {
        RunReport { end: self.end(), error: self.failure().take(), counts: self.counters.now() }
    }
}
