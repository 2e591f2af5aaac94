//! Ctrl-C and requests to terminate: the first one stops the run in good order. Another one within two seconds changes
//! nothing, as `timeout` and shells send several for one; after that, or for the third time, the process ends at once.
//! Before a run has started, the first one ends the process.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fairstream_core::StopToken;

use crate::progress::CLEAR_LINE;
use crate::{ExitStatus, live, note_styled};

/// Whether the user has interrupted, and whether the run has started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<InterruptState>);

#[derive(Debug, Default)]
struct InterruptState {
    stop: StopToken,
    started: AtomicBool,
    /// Number of signals so far.
    signals: AtomicU32,
    first: OnceLock<Instant>,
}

/// Signals that come within this time of the first one are taken for the same request.
const SAME_REQUEST: Duration = Duration::from_secs(2);

impl Interrupt {
    /// From now on Ctrl-C (or a request to terminate) stops the run.
    pub(crate) fn watch(stop: &StopToken) -> Interrupt {
        let interrupt =
            Interrupt(Arc::new(InterruptState { stop: stop.clone(), ..InterruptState::default() }));
        let handler = interrupt.clone();
        // Without a handler, Ctrl-C still ends the process, but not orderly.
        let _ = ctrlc::set_handler(move || handler.handle());
        interrupt
    }

    /// Handles an interrupt.
    pub(crate) fn handle(&self) {
        let InterruptState { stop, started, signals, first } = &*self.0;
        let before = signals.fetch_add(1, Ordering::Relaxed);
        let is_repeated = || before > 1 || first.get().is_some_and(|first| first.elapsed() > SAME_REQUEST);
        if !started.load(Ordering::Relaxed) || before > 0 && is_repeated() {
            live::leave();
            #[cfg(unix)]
            fairstream_plugin::end_workers();
            #[allow(clippy::exit, reason = "the user wants out now")]
            std::process::exit(ExitStatus::Interrupted as i32);
        }
        if before > 0 {
            return;
        }
        let _ = first.set(Instant::now());
        let clear = if io::stderr().is_terminal() { CLEAR_LINE } else { "" };
        note_styled(&format!(
            "{clear}stopping after what has been read; Ctrl-C again after 2 s ends at once"
        ));
        stop.stop();
    }

    /// Marks the start of the run.
    pub(crate) fn start(&self) {
        self.0.started.store(true, Ordering::Relaxed);
    }

    pub(crate) fn happened(&self) -> bool {
        self.0.signals.load(Ordering::Relaxed) > 0
    }
}
