//! How verdicts leave an engine: one at a time, by stream index, before they are written into columns.

use crate::{Kind, Time, Value, Verdict, inside_array, next_element};

/// Receives the verdicts of an engine, in order.
///
/// # Contract
/// - An engine calls [`emit`](Self::emit) once for each verdict that its subscription covers.
/// - After [`Cancelled`] the engine returns it to its caller and emits nothing more.
/// - `verdict` borrows from the engine: a sink copies what it keeps.
pub trait VerdictSink {
    /// Receives a verdict.
    ///
    /// # Errors
    /// The run is ending; the engine stops and returns the error.
    fn emit(&mut self, verdict: &VerdictRef<'_>) -> Result<(), Cancelled>;

    /// Whether verdicts are still wanted. Engines ask now and then in long work that emits nothing.
    ///
    /// # Errors
    /// The run is ending; the engine stops and returns the error.
    fn check(&self) -> Result<(), Cancelled> {
        Ok(())
    }
}

/// The run is ending: no further verdict is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no further verdict is wanted")]
pub struct Cancelled;

/// A verdict on its way out of an engine.
#[derive(Clone, Copy)]
pub struct VerdictRef<'a> {
    /// When it happened, in event time.
    pub time: Time,
    /// What happened.
    pub kind: Kind,
    /// The stream it happened to, as an index into [`Engine::streams`](crate::Engine::streams).
    pub stream: usize,
    /// The instance it happened to; `None` for a stream without instances.
    pub instance: Option<&'a dyn Instance>,
    /// The new value, or the size of what an alarm reports.
    pub value: Option<Value<'a>>,
    /// The message of a trigger or an alarm.
    pub message: Option<&'a str>,
    /// What the message of an alarm says as fields, a JSON object. The value of the alarm is not [`Value::Json`].
    pub details: Option<&'a str>,
}

/// An instance of a stream. Its label is formatted only where a sink reads it.
pub trait Instance {
    /// Identifies the instance within its stream: numbers ascend in the order of spawn, no number is used twice, and an
    /// engine that is restored from a snapshot goes on with them. `None` if the engine does not number instances.
    fn number(&self) -> Option<u64> {
        None
    }

    /// Appends its parameters, as a JSON array.
    fn label(&self, text: &mut String);

    /// Appends its parameters without the first, as a JSON array.
    fn label_behind_first(&self, text: &mut String) {
        let mut label = String::new();
        self.label(&mut label);
        let mut rest = inside_array(&label);
        next_element(&mut rest);
        text.push('[');
        text.push_str(rest);
        text.push(']');
    }
}

/// A label that is formatted already.
impl Instance for &str {
    fn label(&self, text: &mut String) {
        text.push_str(self);
    }
}

/// One method for each kind of verdict.
impl dyn VerdictSink + '_ {
    /// A trigger fired.
    ///
    /// # Errors
    /// As for [`emit`](VerdictSink::emit).
    pub fn trigger(
        &mut self,
        time: Time,
        stream: usize,
        instance: Option<&str>,
        message: &str,
    ) -> Result<(), Cancelled> {
        self.emit_labelled(time, Kind::Trigger, stream, instance, None, Some(message))
    }

    /// A stream, or an instance of it, has a new value.
    ///
    /// # Errors
    /// As for [`emit`](VerdictSink::emit).
    pub fn value(
        &mut self,
        time: Time,
        stream: usize,
        instance: Option<&str>,
        value: Value<'_>,
    ) -> Result<(), Cancelled> {
        self.emit_labelled(time, Kind::Value, stream, instance, Some(value), None)
    }

    /// An instance was spawned.
    ///
    /// # Errors
    /// As for [`emit`](VerdictSink::emit).
    pub fn spawn(&mut self, time: Time, stream: usize, instance: &str) -> Result<(), Cancelled> {
        self.emit_labelled(time, Kind::Spawn, stream, Some(instance), None, None)
    }

    /// An instance was closed.
    ///
    /// # Errors
    /// As for [`emit`](VerdictSink::emit).
    pub fn close(&mut self, time: Time, stream: usize, instance: &str) -> Result<(), Cancelled> {
        self.emit_labelled(time, Kind::Close, stream, Some(instance), None, None)
    }

    /// An alarm was raised: the size of the gap, the whole in a sentence, and the same as a JSON object.
    ///
    /// # Errors
    /// As for [`emit`](VerdictSink::emit).
    pub fn alarm(
        &mut self,
        time: Time,
        stream: usize,
        instance: Option<&str>,
        gap: f64,
        message: &str,
        details: &str,
    ) -> Result<(), Cancelled> {
        let instance = instance.as_ref().map(|label| label as &dyn Instance);
        let (value, message, details) = (Some(Value::Float(gap)), Some(message), Some(details));
        self.emit(&VerdictRef { time, kind: Kind::Alarm, stream, instance, value, message, details })
    }

    /// An alarm was cleared: the size of the gap, the whole in a sentence, and the same as a JSON object.
    ///
    /// # Errors
    /// As for [`emit`](VerdictSink::emit).
    pub fn clear(
        &mut self,
        time: Time,
        stream: usize,
        instance: Option<&str>,
        gap: f64,
        message: &str,
        details: &str,
    ) -> Result<(), Cancelled> {
        let instance = instance.as_ref().map(|label| label as &dyn Instance);
        let (value, message, details) = (Some(Value::Float(gap)), Some(message), Some(details));
        self.emit(&VerdictRef { time, kind: Kind::Clear, stream, instance, value, message, details })
    }

    /// Emits a verdict that was read back from a batch, of a stream that has this index here.
    ///
    /// # Errors
    /// As for [`emit`](VerdictSink::emit).
    pub fn repeat(&mut self, verdict: &Verdict<'_>, stream: usize) -> Result<(), Cancelled> {
        let Verdict { time, kind, instance, value, message, details, .. } = *verdict;
        let instance = instance.as_ref().map(|label| label as &dyn Instance);
        self.emit(&VerdictRef { time, kind, stream, instance, value, message, details })
    }

    fn emit_labelled(
        &mut self,
        time: Time,
        kind: Kind,
        stream: usize,
        instance: Option<&str>,
        value: Option<Value<'_>>,
        message: Option<&str>,
    ) -> Result<(), Cancelled> {
        let instance = instance.as_ref().map(|label| label as &dyn Instance);
        self.emit(&VerdictRef { time, kind, stream, instance, value, message, details: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_parameter_is_cut_off() {
        for (label, expected) in [
            (r#"[1,"F"]"#, r#"["F"]"#),
            (r#"["a,\"]b","F",2]"#, r#"["F",2]"#),
            (r#"[[1,2],"F"]"#, r#"["F"]"#),
            (r#"["only"]"#, "[]"),
            ("[]", "[]"),
        ] {
            let mut text = String::new();
            label.label_behind_first(&mut text);
            assert_eq!(text, expected, "{label}");
        }
    }
}
