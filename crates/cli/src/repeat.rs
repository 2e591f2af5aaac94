//! A background thread that repeats a task.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A thread that repeats a task until this is dropped.
pub(crate) struct Repeat {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Repeat {
    /// Calls `again` after a time, and then each time after the duration that it returns; a last time, with `true`, at
    /// the end.
    pub(crate) fn after(first: Duration, mut again: impl FnMut(bool) -> Duration + Send + 'static) -> Repeat {
        let (end, ended) = channel::<()>();
        let thread = thread::Builder::new().spawn(move || {
            let mut wait = first;
            // A disconnected channel means the end, a timeout the next call.
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                wait = again(false);
            }
            again(true);
        });
        // Without the thread there is no progress to see, and nothing else is missing.
        Repeat { end: Some(end), thread: thread.ok() }
    }
}

impl Drop for Repeat {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already been printed.
            let _ = thread.join();
        }
    }
}
