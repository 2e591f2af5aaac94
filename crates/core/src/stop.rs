//! One request to stop, heard by every thread.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

type Hook = Box<dyn FnOnce() + Send>;

/// Asks every source to end, and wakes those that wait outside the pipeline's channels.
///
/// Stopping is orderly: what has been read is still evaluated and written.
#[derive(Clone, Default)]
pub struct StopToken(Arc<StopState>);

#[derive(Default)]
struct StopState {
    stopped: AtomicBool,
    hooks: Mutex<Vec<Hook>>,
}

impl StopToken {
    /// Stops. A second call does nothing.
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

    /// Whether someone asked to stop.
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Acquire)
    }

    /// Runs `hook` on stop, or now if that has happened already. Whatever can wake a blocked
    /// read belongs here: a plugin's `cancel`, the closing of a socket.
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
