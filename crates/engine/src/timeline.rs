//! The progress of an engine in time, and checks of the events that it is fed next.

use fairstream_core::{EngineError, EventBatch, Time, WantedColumn};

/// When the clock of an engine started, and how far it has run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeline {
    pub(crate) start: Time,
    /// Everything that is due up to and at this time has been evaluated.
    pub(crate) evaluated: Time,
}

impl Timeline {
    /// A clock that is about to start: nothing has been evaluated.
    pub(crate) fn new(start: Time) -> Timeline {
        Timeline { start, evaluated: Time(start.0.saturating_sub(1)) }
    }

    /// The time up to which the clock must run before a row is evaluated: one nanosecond before the row, because deadlines
    /// at exactly the time of the row are evaluated after it.
    ///
    /// # Errors
    /// The row is before a time that has been evaluated, or before the start.
    pub(crate) fn before(&self, row: Time) -> Result<Time, String> {
        let before = Time(row.0.saturating_sub(1));
        if before < self.evaluated || row < self.start {
            let (time, evaluated) = (row.for_people(), self.evaluated.max(self.start).for_people());
            return Err(format!("its time {time} is before {evaluated}, which has been evaluated already"));
        }
        Ok(before)
    }

    /// Whether a row with a time is not too late, and comes after the start of the clock.
    #[inline(always)]
    pub(crate) fn is_in_order(&self, time: i64) -> bool {
        time > self.start.0 && time > self.evaluated.0
    }

    /// Records that everything up to and at a time has been evaluated.
    pub(crate) fn reach(&mut self, time: Time) {
        self.evaluated = self.evaluated.max(time);
    }

    /// Nanoseconds since the start of the clock; zero for the instant before it.
    #[inline]
    pub(crate) fn since_start(&self, time: Time) -> u64 {
        if time < self.start { 0 } else { time.0.wrapping_sub(self.start.0).cast_unsigned() }
    }

    /// The time so many nanoseconds after the start of the clock.
    pub(crate) fn at(&self, since_start: u64) -> Time {
        Time(self.start.0.saturating_add_unsigned(since_start))
    }
}

/// Checks the types of a batch's columns.
///
/// # Errors
/// They are not those that the specification reads.
pub(crate) fn check_columns(events: &EventBatch, wanted: &[WantedColumn]) -> Result<(), EngineError> {
    let types = events.rows.columns().iter().map(|column| column.data_type());
    if types.eq(wanted.iter().map(|wanted| &wanted.data_type)) {
        return Ok(());
    }
    let reason = "its columns are not those that the specification reads".to_owned();
    Err(EngineError::Event { index: 0, column: None, reason })
}
