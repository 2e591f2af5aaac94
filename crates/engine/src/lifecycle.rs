//! When an engine may be fed: after it was prepared, and until a call fails.

use fairstream_core::{EngineError, Kind, Subscription};

/// What every engine of this crate checks before it evaluates anything.
#[derive(Debug, Default)]
pub(crate) struct Lifecycle {
    subscription: Option<Subscription>,
    /// Set while a call runs, and left set if it fails or panics: the state is in the middle of an instant then.
    has_failed: bool,
}

impl Lifecycle {
    /// # Errors
    /// The engine was prepared before.
    pub(crate) fn prepare(&mut self, subscription: &Subscription) -> Result<(), EngineError> {
        if self.subscription.is_some() {
            return Err(EngineError::Misused("the engine was prepared twice"));
        }
        self.subscription = Some(subscription.clone());
        Ok(())
    }

    /// A call begins. Unless [`succeed`](Self::succeed) follows, it is the last one.
    ///
    /// # Errors
    /// The engine was not prepared, or has failed.
    pub(crate) fn begin(&mut self) -> Result<(), EngineError> {
        if self.subscription.is_none() {
            return Err(EngineError::Misused("the engine was given events before it was prepared"));
        }
        if std::mem::replace(&mut self.has_failed, true) {
            return Err(EngineError::Misused("the engine has failed before, and takes no further events"));
        }
        Ok(())
    }

    /// Refuses further events: the state is not one that can be evaluated.
    pub(crate) fn fail(&mut self) {
        self.has_failed = true;
    }

    /// The call has succeeded, or the state was replaced as a whole.
    pub(crate) fn succeed(&mut self) {
        self.has_failed = false;
    }

    pub(crate) fn subscription(&self) -> Option<&Subscription> {
        self.subscription.as_ref()
    }

    /// Whether a verdict is wanted; nothing is before the engine was prepared.
    pub(crate) fn wants(&self, kind: Kind, stream: usize) -> bool {
        self.subscription.as_ref().is_some_and(|subscription| subscription.wants(kind, stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_prepared_once_and_fed_until_it_fails() {
        let mut lifecycle = Lifecycle::default();
        assert!(matches!(lifecycle.begin(), Err(EngineError::Misused(_))));
        lifecycle.prepare(&Subscription::everything()).unwrap();
        assert!(lifecycle.prepare(&Subscription::everything()).is_err());
        lifecycle.begin().unwrap();
        lifecycle.succeed();
        lifecycle.begin().unwrap();
        // No success follows: the call has failed.
        assert!(matches!(lifecycle.begin(), Err(EngineError::Misused(_))));
        lifecycle.succeed();
        lifecycle.begin().unwrap();
        lifecycle.succeed();
        lifecycle.fail();
        assert!(matches!(lifecycle.begin(), Err(EngineError::Misused(_))));
    }
}
