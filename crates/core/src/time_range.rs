//! Ranges of event time.

use crate::Time;

/// The monitored range of event time. Both ends are inclusive; `None` is unbounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeRange {
    /// Nothing before this is evaluated.
    pub since: Option<Time>,
    /// Nothing after this is evaluated.
    pub until: Option<Time>,
}

impl TimeRange {
    /// Whether the range overlaps the times from `first` to `last`.
    ///
    /// ```
    /// use fairstream_core::{TimeRange, Time};
    ///
    /// let time_range = TimeRange { since: Some(Time(10)), until: None };
    /// assert!(time_range.touches(Time(5), Time(10)));
    /// assert!(!time_range.touches(Time(5), Time(9)));
    /// ```
    pub fn touches(&self, first: Time, last: Time) -> bool {
        self.since.is_none_or(|since| last >= since) && self.until.is_none_or(|until| first <= until)
    }
}
