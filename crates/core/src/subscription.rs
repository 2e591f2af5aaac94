//! Which verdicts are wanted of an engine.

use crate::{Kind, Selection};

/// The verdicts that a consumer reads, given to an engine once, before its first event. An engine evaluates and
/// emits nothing else where it can tell the difference.
#[derive(Clone, Debug)]
pub struct Subscription {
    selection: Selection,
    triggers: bool,
    /// Flags by stream: values, spawns and closes are wanted. `None`: of all streams.
    changes_of: Option<Vec<bool>>,
    /// Flags by stream: values equal to the one before are wanted. `None`: of all streams.
    repeats_of: Option<Vec<bool>>,
    /// Flags by stream: a value that equals the one before is not wanted for its own sake.
    companions: Vec<bool>,
}

impl Subscription {
    /// Everything that `selection` covers, of all streams.
    pub fn new(selection: Selection) -> Subscription {
        Subscription { selection, triggers: true, changes_of: None, repeats_of: None, companions: Vec::new() }
    }

    /// Every verdict of every stream.
    pub fn everything() -> Subscription {
        Subscription::new(Selection::Changes)
    }

    /// Restricts values, spawns and closes to `streams`. Of the streams in `repeated` every value is wanted; of the
    /// others an engine may leave out a value that equals the one before.
    #[must_use]
    pub fn with_changes_of(mut self, streams: &[usize], repeated: &[usize]) -> Subscription {
        self.changes_of = Some(flags(streams));
        self.repeats_of = Some(flags(repeated));
        self
    }

    /// Of these streams, a value that equals the one before is wanted only where something else changes or is emitted: an
    /// engine may leave out a tick at which nothing does, so that a gap in time costs what changes in it.
    #[must_use]
    pub fn with_companions(mut self, streams: &[usize]) -> Subscription {
        self.companions = flags(streams);
        self
    }

    /// Leaves out triggers.
    #[must_use]
    pub fn without_triggers(mut self) -> Subscription {
        self.triggers = false;
        self
    }

    /// The selection it was made of.
    pub fn selection(&self) -> Selection {
        self.selection
    }

    /// Whether a verdict of this kind and stream is wanted.
    pub fn wants(&self, kind: Kind, stream: usize) -> bool {
        let is_selected = match kind {
            Kind::Alarm | Kind::Clear => true,
            Kind::Trigger => self.triggers,
            Kind::Value | Kind::Spawn | Kind::Close => flag(self.changes_of.as_deref(), stream),
        };
        is_selected && kind.is_in(self.selection)
    }

    /// Whether a value of a stream that equals the one before is no reason to evaluate a tick.
    pub fn is_companion(&self, stream: usize) -> bool {
        self.companions.get(stream).copied().unwrap_or_default()
    }

    /// Whether a value of a stream that equals the one before is wanted, too. An engine may emit it in any case.
    pub fn wants_repeats(&self, stream: usize) -> bool {
        flag(self.repeats_of.as_deref(), stream)
    }
}

fn flags(streams: &[usize]) -> Vec<bool> {
    let length = streams.iter().max().map_or(0, |last| last + 1);
    (0..length).map(|stream| streams.contains(&stream)).collect()
}

fn flag(flags: Option<&[bool]>, stream: usize) -> bool {
    flags.is_none_or(|flags| flags.get(stream).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_other_streams_are_left_out() {
        let subscription = Subscription::everything().with_changes_of(&[1], &[]);
        assert!(!subscription.wants(Kind::Value, 0) && !subscription.wants(Kind::Spawn, 7));
        assert!(subscription.wants(Kind::Value, 1) && subscription.wants(Kind::Trigger, 0));
        assert!(!subscription.wants_repeats(1) && Subscription::everything().wants_repeats(1));
        let with_companion = subscription.with_companions(&[1]);
        assert!(with_companion.is_companion(1) && !with_companion.is_companion(0));
    }

    #[test]
    fn a_selection_bounds_the_kinds() {
        let alarms = Subscription::new(Selection::Alarms);
        assert!(
            alarms.wants(Kind::Alarm, 0) && !alarms.wants(Kind::Trigger, 0) && !alarms.wants(Kind::Value, 0)
        );
        let triggers = Subscription::new(Selection::Triggers);
        assert!(triggers.wants(Kind::Trigger, 0) && !triggers.wants(Kind::Value, 0));
        assert!(!triggers.without_triggers().wants(Kind::Trigger, 0));
    }
}
