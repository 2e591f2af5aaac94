//! Rolling windows: rates over the trials that were counted in the last stretch of time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::unit::in_words;

/// A rolling window. It moves in steps, so that what is kept for a group does not grow with the number of its trials: a
/// trial leaves it at the end of a step, `steps` steps after the end of the one in which it was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollingWindow {
    /// How long it is.
    pub length: Duration,
    /// How long a step is.
    pub step: Duration,
    /// Number of steps in the window.
    pub steps: u64,
    /// Whether checks are periodic. A check at the end of a step then sees the window after that step; an event at that
    /// time comes before it.
    pub is_periodic: bool,
}

/// Maximum number of steps with periodic checks, so that a year of days is exact.
const MOST_CHECKS: u128 = 400;

/// Maximum number of steps with a check at every event.
const MOST_STEPS: u128 = 100;

impl RollingWindow {
    /// A window of this length, with checks of this period or at every event.
    pub(crate) fn new(length: Duration, check: Option<Duration>) -> RollingWindow {
        let (unit, most) = match check {
            Some(check) => (check.as_nanos().max(1), MOST_CHECKS),
            None => (1, MOST_STEPS),
        };
        let units = length.as_nanos().div_ceil(unit).max(1);
        // The smallest step that leaves no remainder, unless there would be too few of them.
        let least = units.div_ceil(most);
        let is_even = |size: &u128| units.is_multiple_of(*size);
        let size = (least..=least.saturating_mul(4)).take(1_000).find(is_even).unwrap_or(least);
        let step = u64::try_from(size * unit).unwrap_or(u64::MAX);
        let steps = u64::try_from(units.div_ceil(size)).unwrap_or(u64::MAX);
        RollingWindow { length, step: Duration::from_nanos(step), steps, is_periodic: check.is_some() }
    }

    /// `in the last 30 days`; `in the last 500 rows`, if times are numbers of rows.
    pub(crate) fn in_words(&self, by_rows: bool) -> String {
        match by_rows {
            true => format!("in the last {} rows", self.length.as_secs_f64()),
            false => match in_words(self.length).strip_prefix("1 ") {
                Some(unit) => format!("in the last {unit}"),
                None => format!("in the last {}", in_words(self.length)),
            },
        }
    }

    /// The time, of a clock that began at `start`, up to which trials have left the window at a check; `None` if none has.
    pub(crate) fn left_until(&self, start: i64, check: i64) -> Option<i64> {
        let (step, since) = (self.step.as_nanos() as i128, i128::from(check) - i128::from(start));
        let ended = if self.is_periodic { since.div_euclid(step) } else { (since - 1).div_euclid(step) };
        let left = ended - i128::from(self.steps);
        // There is no end of a step when the clock begins.
        (left > 0).then(|| i64::try_from(i128::from(start) + left * step).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A trial stays as long as the window is, and less than a step, or two if they do not divide it, longer.
        #[test]
        fn a_trial_stays_for_the_window(
            seconds in 1..2_000_u64, check in prop::option::of(1..40_u64), start in -50..50_i64, counted in 0..3_000_i64,
        ) {
            let length = Duration::from_secs(seconds * check.unwrap_or(1));
            let window = RollingWindow::new(length, check.map(Duration::from_secs));
            let most = if check.is_some() { MOST_CHECKS } else { MOST_STEPS };
            prop_assert!(u128::from(window.steps) <= most, "{:?}", window);
            let (start, step) = (start * 1_000_000_000, window.step.as_nanos() as i64);
            let counted = start + match check {
                Some(check) => (counted + 1) * check as i64 * 1_000_000_000,
                None => counted * 1_000_000_000,
            };
            let is_in = |at: i64| window.left_until(start, at).is_none_or(|left| left < counted);
            let length = length.as_nanos() as i64;
            prop_assert!(is_in(counted) && is_in(counted + length - 1));
            prop_assert!(!is_in(counted + length + 2 * step + 1));
            if window.step * u32::try_from(window.steps).unwrap() == window.length {
                prop_assert!(!is_in(counted + length + step + 1));
            }
            if window.is_periodic && window.step == Duration::from_secs(check.unwrap_or(1)) {
                prop_assert!(!is_in(counted + length));
            }
        }
    }

    #[test]
    fn steps_divide_common_windows() {
        const DAY: Duration = Duration::from_secs(86_400);
        for (days, check, step, steps) in [
            (30, Some(DAY), DAY, 30),
            (365, Some(DAY), DAY, 365),
            (30, Some(Duration::from_secs(3_600)), Duration::from_secs(7_200), 360),
            (1, Some(Duration::from_secs(1)), Duration::from_secs(216), 400),
            (30, None, Duration::from_secs(25_920), 100),
        ] {
            let window = RollingWindow::new(DAY * days, check);
            assert_eq!((window.step, window.steps), (step, steps), "{days} {check:?}");
        }
    }
}
