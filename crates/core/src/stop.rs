//! Cancellation: a request to stop that reaches every thread.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

type Hook = Box<dyn FnOnce() + Send>;

/// Requests every source to end, and wakes those that wait outside of the pipeline's channels.
///
/// Stopping is orderly: what has been read is still evaluated, for a quarter of a second at most, and verdicts are written.
#[derive(Clone, Default)]
pub struct StopToken(Arc<StopState>);

#[derive(Default)]
struct StopState {
    stopped: AtomicBool,
    hooks: Mutex<Vec<Hook>>,
}

impl StopToken {
    /// Requests a stop. A second call has no effect.
    pub fn stop(&self) {
        let hooks = {
            let mut hooks = self.hooks();
            self.0.stopped.store(true, Ordering::Release);
            std::mem::take(&mut *hooks)
        };
        for hook in hooks {
            hook();
        }
    }

    /// Whether a stop was requested.
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Acquire)
    }

    /// Runs `hook` on stop, or at once if a stop was already requested. Meant for waking a blocked read: a plugin's
    /// `cancel`, or closing a socket.
    pub fn on_stop(&self, hook: impl FnOnce() + Send + 'static) {
        {
            let mut hooks = self.hooks();
            if !self.is_stopped() {
                hooks.push(Box::new(hook));
                return;
            }
        }
        hook();
    }

    fn hooks(&self) -> std::sync::MutexGuard<'_, Vec<Hook>> {
        self.0.hooks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for StopToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StopToken").field(&self.is_stopped()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn hooks_run_once_before_and_after_the_stop() {
        let stop = StopToken::default();
        let calls = Arc::new(AtomicUsize::new(0));
        let hook = |calls: &Arc<AtomicUsize>| {
            let calls = Arc::clone(calls);
            move || {
                calls.fetch_add(1, Ordering::Relaxed);
            }
        };
        stop.on_stop(hook(&calls));
        assert_eq!(calls.load(Ordering::Relaxed), 0);
        stop.stop();
        stop.stop();
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        stop.on_stop(hook(&calls));
        assert_eq!(calls.load(Ordering::Relaxed), 2);
    }
}
