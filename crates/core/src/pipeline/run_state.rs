//! State shared by the threads of a run: the first failure, the stop token, the counters, the acknowledgements.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::acks::AckTracker;
use super::{Counters, RunError, RunReport};
use crate::{RunEnd, SinkError, StopToken};

/// For so long, rows that have been read are still evaluated after a request to stop.
const GRACE: Duration = Duration::from_millis(250);

pub(super) struct RunState {
    pub(super) stop: StopToken,
    /// When the stop was requested.
    stopped_at: Arc<OnceLock<Instant>>,
    pub(super) counters: Arc<Counters>,
    pub(super) acks: AckTracker,
    /// Up to where the clock of the machine would pass, in nanoseconds since 1970. Rows that wait to be put in order are sent
    /// up to there first.
    pub(super) wall: Arc<AtomicI64>,
    failure: Mutex<Option<RunError>>,
    over: AtomicBool,
    end: OnceLock<RunEnd>,
    /// Number of sinks whose reader has not hung up.
    active_sinks: AtomicUsize,
}

impl RunState {
    pub(super) fn new(stop: StopToken, counters: Arc<Counters>, sinks: usize) -> RunState {
        let stopped_at: Arc<OnceLock<Instant>> = Arc::default();
        let at = Arc::clone(&stopped_at);
        stop.on_stop(move || {
            let _ = at.set(Instant::now());
        });
        RunState {
            stop,
            stopped_at,
            counters,
            acks: AckTracker::new(sinks),
            wall: Arc::new(AtomicI64::new(i64::MIN)),
            failure: Mutex::new(None),
            over: AtomicBool::new(false),
            end: OnceLock::new(),
            active_sinks: AtomicUsize::new(sinks),
        }
    }

    fn failure(&self) -> MutexGuard<'_, Option<RunError>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the run with a failure. Only the first failure is kept; later ones are usually its consequences.
    pub(super) fn fail(&self, error: impl Into<RunError>) {
        self.failure().get_or_insert(error.into());
        self.give_up();
    }

    /// Records the result of a sink. A sink whose reader hung up is done. When all readers have hung up, the run ends
    /// at once, without an error.
    pub(super) fn end_with(&self, result: Result<(), SinkError>) {
        match result {
            Ok(()) => {}
            Err(SinkError::HungUp { .. }) => {
                if self.active_sinks.fetch_sub(1, Ordering::AcqRel) == 1 {
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

    /// Whether the run has failed or all readers have hung up, so that further evaluation is useless.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Whether a stop was requested so long ago that rows which have been read are not evaluated any more.
    pub(super) fn is_overdue(&self) -> bool {
        self.stop.is_stopped() && self.stopped_at.get().is_some_and(|at| at.elapsed() > GRACE)
    }

    /// Fixes how the run ends. Called when the engine has finished.
    pub(super) fn settle_end(&self) {
        let _ = self.end.set(self.end_now());
    }

    /// How the run ends, as far as it is known. A failure takes precedence.
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
