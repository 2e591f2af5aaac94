//! What the threads of a run share: the first failure, the way to stop, the counts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::ledger::Ledger;
use super::{Counters, RunError, RunReport};
use crate::{RunEnd, SinkError, StopToken};

pub(super) struct Shared {
    pub(super) stop: StopToken,
    pub(super) counters: Arc<Counters>,
    pub(super) ledger: Ledger,
    failure: Mutex<Option<RunError>>,
    over: AtomicBool,
    end: OnceLock<RunEnd>,
}

impl Shared {
    pub(super) fn new(stop: StopToken, counters: Arc<Counters>, sinks: usize) -> Shared {
        Shared {
            stop,
            counters,
            ledger: Ledger::new(sinks),
            failure: Mutex::new(None),
            over: AtomicBool::new(false),
            end: OnceLock::new(),
        }
    }

    /// A part failed: the run ends. Only the first failure is kept; what follows it is its echo.
    pub(super) fn fail(&self, error: impl Into<RunError>) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error.into());
        self.give_up();
    }

    /// Nobody reads on: the run ends without an error, and at once.
    pub(super) fn give_up(&self) {
        self.over.store(true, Ordering::Release);
        self.stop.stop();
    }

    /// What a sink's error means for the run.
    pub(super) fn end_with(&self, result: Result<(), SinkError>) {
        match result {
            Ok(()) => {}
            Err(SinkError::HungUp { .. }) => self.give_up(),
            Err(error) => self.fail(error),
        }
    }

    /// Whether the run has failed or been given up, so that evaluating on is of no use.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// How the run ends, decided at the first call: once the engine has seen all it will see.
    pub(super) fn end(&self) -> &RunEnd {
        self.end.get_or_init(|| match &*self.failure.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => RunEnd::Failed(error.to_string()),
            None if self.stop.is_stopped() => RunEnd::Stopped,
            None => RunEnd::Complete,
        })
    }

    pub(super) fn report(&self) -> RunReport {
        let end = self.end().clone();
        let error = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        let end = match &error {
            Some(error) => RunEnd::Failed(error.to_string()),
            None => end,
        };
        RunReport { end, error, counts: self.counters.now() }
    }
}
