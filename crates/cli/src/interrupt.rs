//! Ctrl-C: once to stop in good order, twice to end at once. Before anything has started there is
//! nothing to put in order, and once is enough.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fairstream_core::StopToken;

use crate::progress::CLEAR_LINE;
use crate::{Outcome, note};

/// Whether the user has interrupted, and whether there is anything to interrupt.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<State>);

#[derive(Debug, Default)]
struct State {
    started: AtomicBool,
    happened: AtomicBool,
}

impl Interrupt {
    /// From now on Ctrl-C (or a request to terminate) stops the run.
    pub(crate) fn watch(stop: &StopToken) -> Interrupt {
        let interrupt = Interrupt::default();
        let (state, stop) = (Arc::clone(&interrupt.0), stop.clone());
        // Without a handler Ctrl-C still ends the process, only not in good order.
        let _ = ctrlc::set_handler(move || {
            let again = state.happened.swap(true, Ordering::Relaxed);
            if again || !state.started.load(Ordering::Relaxed) {
                #[allow(clippy::exit, reason = "the user wants out now")]
                std::process::exit(Outcome::Interrupted as i32);
            }
            let clear = if io::stderr().is_terminal() { CLEAR_LINE } else { "" };
            note(&format!("{clear}stopping after what has been read; Ctrl-C again ends at once"));
            stop.stop();
        });
        interrupt
    }

    /// Everything is open and the run begins.
    pub(crate) fn start(&self) {
        self.0.started.store(true, Ordering::Relaxed);
    }

    pub(crate) fn happened(&self) -> bool {
        self.0.happened.load(Ordering::Relaxed)
    }
}
