//! Ctrl-C: the first one requests an orderly stop, the second ends the process at once. Before a run has started, the
//! first one ends the process.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fairstream_core::StopToken;

use crate::progress::CLEAR_LINE;
use crate::{ExitStatus, live, note};

/// Whether the user has interrupted, and whether the run has started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<InterruptState>);

#[derive(Debug, Default)]
struct InterruptState {
    stop: StopToken,
    started: AtomicBool,
    happened: AtomicBool,
}

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

    /// Handles an interrupt: the first stops the run, the second ends the process.
    pub(crate) fn handle(&self) {
        let InterruptState { stop, started, happened } = &*self.0;
        let again = happened.swap(true, Ordering::Relaxed);
        if again || !started.load(Ordering::Relaxed) {
            live::leave();
            #[allow(clippy::exit, reason = "the user wants out now")]
            std::process::exit(ExitStatus::Interrupted as i32);
        }
        let clear = if io::stderr().is_terminal() { CLEAR_LINE } else { "" };
        note(&format!("{clear}stopping after what has been read; Ctrl-C again ends at once"));
        stop.stop();
    }

    /// Marks the start of the run.
    pub(crate) fn start(&self) {
        self.0.started.store(true, Ordering::Relaxed);
    }

    pub(crate) fn happened(&self) -> bool {
        self.0.happened.load(Ordering::Relaxed)
    }
}
