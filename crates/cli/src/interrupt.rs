//! Ctrl-C: once to stop in good order, twice to end at once.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fairstream_core::StopToken;

use crate::progress::CLEAR_LINE;
use crate::{Outcome, note};

/// Whether the user has interrupted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on Ctrl-C (or a request to terminate) stops the run.
    pub(crate) fn watch(stop: &StopToken) -> Interrupt {
        let interrupt = Interrupt::default();
        let (seen, stop) = (Arc::clone(&interrupt.0), stop.clone());
        // Without a handler Ctrl-C still ends the process, only not in good order.
        let _ = ctrlc::set_handler(move || {
            if seen.swap(true, Ordering::Relaxed) {
                #[allow(clippy::exit, reason = "the user wants out now")]
                std::process::exit(Outcome::Interrupted as i32);
            }
            let clear = if io::stderr().is_terminal() { CLEAR_LINE } else { "" };
            note(&format!("{clear}stopping after what has been read; Ctrl-C again ends at once"));
            stop.stop();
        });
        interrupt
    }

    pub(crate) fn happened(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
