//! Verdicts one by one, as they are said: by numbers, before anything is made of them.

use crate::{Closed, Kind, Time, Value};

/// Hears verdicts as an engine says them, one by one. For whoever stands between an engine and the sinks: what goes
/// there is in batches.
pub trait Hearer {
    /// Hears a verdict.
    ///
    /// # Errors
    /// The run is ending.
    fn hear(&mut self, said: &Said<'_>) -> Result<(), Closed>;

    /// Whether a verdict would still be heard.
    fn is_open(&self) -> bool {
        true
    }
}

/// A verdict as an engine says it.
#[derive(Clone, Copy)]
pub struct Said<'a> {
    /// When it happened, in event time.
    pub time: Time,
    /// What happened.
    pub kind: Kind,
    /// To which stream, by its index among those of the engine.
    pub stream: usize,
    /// To which instance; `None` for a stream without instances.
    pub instance: Option<&'a dyn Instance>,
    /// The new value, or what an alarm is about.
    pub value: Option<Value<'a>>,
    /// The message of a trigger or an alarm.
    pub message: Option<&'a str>,
}

/// An instance of a stream, on its way to whoever wants to know which. Its label is made only if somebody does.
pub trait Instance {
    /// A number by which whoever has seen its label knows it again: no other instance of the stream has it, had it
    /// or will have it, until the engine is restored from a snapshot. `None` if the engine does not count.
    fn number(&self) -> Option<u64> {
        None
    }

    /// Appends its parameters, as a JSON array.
    fn label(&self, text: &mut String);
}

/// A label that is made already.
impl Instance for &str {
    fn label(&self, text: &mut String) {
        text.push_str(self);
    }
}
