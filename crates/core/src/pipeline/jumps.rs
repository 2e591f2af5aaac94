//! Bounds how far a row may be ahead of the row before it, so that one wrong date does not make all later rows late.

use std::time::{Duration, SystemTime};

use crate::{Time, written_duration};

/// How far a row may be ahead of the newest one before it in its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JumpLimit {
    /// A day, where the row is also a day ahead of the clock of the machine: nothing that has happened is. Such a row is bad in
    /// a live source, and reported in any other. Traces with relative times have no limit.
    #[default]
    Plausible,
    /// So far, in every source.
    AtMost(Duration),
}

/// What to do with a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Jump {
    /// It may be evaluated.
    Fine,
    /// It may be, but the rows after it may come too late: with how far it is ahead.
    Warn(Duration),
    /// It is bad, for this reason.
    Reject(String),
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl JumpLimit {
    /// Judges a row at `time`, whose source has come to `newest`.
    pub(super) fn judge(self, time: Time, newest: Time, is_relative: bool, is_live: bool) -> Jump {
        let ahead = Duration::from_nanos(u64::try_from(time.0.saturating_sub(newest.0)).unwrap_or(0));
        let longest = match self {
            JumpLimit::Plausible => DAY,
            JumpLimit::AtMost(longest) => longest,
        };
        // Almost every row ends here.
        if ahead <= longest || newest.0 == i64::MIN {
            return Jump::Fine;
        }
        let (ahead_text, time_text) = (written_duration(ahead), time.for_people());
        match self {
            JumpLimit::AtMost(longest) => Jump::Reject(format!(
                "its time {time_text} is {ahead_text} after the row before, more than `--max-jump {}`",
                written_duration(longest)
            )),
            JumpLimit::Plausible if is_relative || !is_after_now(time) => Jump::Fine,
            JumpLimit::Plausible if is_live => Jump::Reject(format!(
                "its time {time_text} is {ahead_text} after the row before, and later than now; if it is right, allow for it with \
                 `--max-jump {}`",
                written_duration(ahead)
            )),
            JumpLimit::Plausible => Jump::Warn(ahead),
        }
    }
}

/// Whether a time is more than a day after that of the machine.
fn is_after_now(time: Time) -> bool {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let latest = i64::try_from((now + DAY).as_nanos()).unwrap_or(i64::MAX);
    time.0 > latest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_happened_is_plausible() {
        let at = |text: &str| text.parse::<Time>().unwrap();
        let judge = |time: &str, newest: &str, is_live| {
            JumpLimit::Plausible.judge(at(time), at(newest), false, is_live)
        };
        // Archives have gaps.
        assert_eq!(judge("2020-01-01", "1999-01-01", true), Jump::Fine);
        assert!(matches!(judge("2262-01-01", "2026-01-01", true), Jump::Reject(_)));
        assert!(matches!(judge("2262-01-01", "2026-01-01", false), Jump::Warn(_)));
        assert_eq!(judge("2262-01-02", "2262-01-01", true), Jump::Fine);
        // There is nothing that a first row could be ahead of, and relative times have no now.
        let limit = JumpLimit::Plausible;
        assert_eq!(limit.judge(at("2262-01-01"), Time(i64::MIN), false, true), Jump::Fine);
        assert_eq!(limit.judge(at("2262-01-01"), Time(0), true, true), Jump::Fine);
        let limit = JumpLimit::AtMost(Duration::from_secs(3600));
        assert_eq!(limit.judge(Time(3_600_000_000_000), Time(0), true, false), Jump::Fine);
        assert_eq!(
            limit.judge(Time(7_200_000_000_000), Time(0), true, false),
            Jump::Reject("its time 7200s is 2h after the row before, more than `--max-jump 1h`".to_owned())
        );
    }
}
