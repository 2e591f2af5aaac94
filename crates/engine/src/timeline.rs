//! How far an engine has come in time, and what it can be fed next.

use fairstream_core::{EngineError, EventBatch, Time, WantedColumn};

/// Where the clock of an engine started, and up to where it has run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeline {
    pub(crate) start: Time,
    /// Everything that is due up to and at this time has been evaluated.
    pub(crate) evaluated: Time,
}

impl Timeline {
    pub(crate) fn new(start: Time) -> Timeline {
        Timeline { start, evaluated: Time(start.0.saturating_sub(1)) }
    }

    /// Up to when the clock must run before a row is evaluated: what is due at exactly the time of the
    /// row is evaluated after it.
    ///
    /// # Errors
    /// The row is too late.
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

    /// Everything up to and at a time has been evaluated.
    pub(crate) fn reach(&mut self, time: Time) {
        self.evaluated = self.evaluated.max(time);
    }

    /// Nanoseconds since the start of the clock; zero for the instant before it.
    #[inline]
    pub(crate) fn since_start(&self, time: Time) -> u64 {
        if time < self.start { 0 } else { time.0.wrapping_sub(self.start.0).cast_unsigned() }
    }

    pub(crate) fn at(&self, since_start: u64) -> Time {
        Time(self.start.0.saturating_add_unsigned(since_start))
    }
}

/// # Errors
/// A batch does not have the columns that a specification reads.
pub(crate) fn check_columns(events: &EventBatch, wanted: &[WantedColumn]) -> Result<(), EngineError> {
    let types = events.rows.columns().iter().map(|column| column.data_type());
    if types.eq(wanted.iter().map(|wanted| &wanted.data_type)) {
        return Ok(());
    }
    let reason = "its columns are not those that the specification reads".to_owned();
    Err(EngineError::Event { index: 0, column: None, reason })
}
