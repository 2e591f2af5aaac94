//! Tracks which events may be acknowledged to their source: those whose verdicts every sink has made durable.

use std::sync::{Arc, Mutex, PoisonError};

use crate::Position;

/// For each source, the position up to which all of its events have been evaluated.
pub(super) type Through = Arc<[Option<Position>]>;

/// For each sink the positions that it has made durable.
pub(super) struct AckTracker(Mutex<Vec<Option<Through>>>);

impl AckTracker {
    pub(super) fn new(sinks: usize) -> AckTracker {
        AckTracker(Mutex::new(vec![None; sinks]))
    }

    /// Sink number `sink` has made everything up to `through` durable.
    pub(super) fn record(&self, sink: usize, through: Through) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[sink] = Some(through);
    }

    /// Every sink has made everything up to `through` durable.
    pub(super) fn record_everywhere(&self, through: &Through) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).fill(Some(Arc::clone(through)));
    }

    /// Position of source number `source` that is durable in every sink.
    pub(super) fn durable(&self, source: usize) -> Option<Position> {
        let sinks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let each: Option<Vec<Position>> =
            sinks.iter().map(|through| through.as_ref()?.get(source)?.clone()).collect();
        each?.into_iter().min_by_key(|position| position.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_sink_decides() {
        let at = |rows| Some(Position { rows, ..Position::default() });
        let acks = AckTracker::new(2);
        acks.record(0, Arc::from([at(10), None]));
        assert_eq!(acks.durable(0), None);
        acks.record(1, Arc::from([at(7), at(1)]));
        assert_eq!(acks.durable(0), at(7));
        assert_eq!(acks.durable(1), None);
        acks.record(1, Arc::from([at(12), at(2)]));
        assert_eq!(acks.durable(0), at(10));
    }
}
