//! Progress of a run: one line on standard error that is overwritten, on a terminal only.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairstream_core::{Counters, RunCounts};
use fairstream_fairness::when;

use crate::repeat::Repeat;

/// Clears the line that the cursor is on.
pub(crate) const CLEAR_LINE: &str = "\r\x1b[2K";

/// Shows progress until it is dropped.
pub(crate) struct ProgressLine(#[allow(dead_code, reason = "kept for its drop")] Option<Repeat>);

impl ProgressLine {
    /// Shows the progress of a run.
    pub(crate) fn of_run(
        counters: Arc<Counters>,
        quiet: bool,
        is_judged: bool,
        by_rows: bool,
    ) -> ProgressLine {
        ProgressLine::show(quiet, move |elapsed| line(&counters.now(), elapsed, is_judged, by_rows))
    }

    /// Shows the result of `line`, which is given the elapsed time.
    pub(crate) fn show(quiet: bool, line: impl Fn(Duration) -> String + Send + 'static) -> ProgressLine {
        if quiet || !io::stderr().is_terminal() {
            return ProgressLine(None);
        }
        const EVERY: Duration = Duration::from_millis(200);
        let start = Instant::now();
        ProgressLine(Some(Repeat::after(EVERY, move |is_last| {
            show(&if is_last { String::new() } else { line(start.elapsed()) });
            EVERY
        })))
    }
}

/// Overwrites the line with a text.
fn show(text: &str) {
    let mut out = io::stderr().lock();
    let _ = write!(out, "{CLEAR_LINE}{text}").and_then(|()| out.flush());
}

fn line(counts: &RunCounts, elapsed: Duration, is_judged: bool, by_rows: bool) -> String {
    let reached = counts.reached.map_or(String::new(), |time| format!("  reached {}", when(time, by_rows)));
    format!("{}{reached}  {}", with_rate(counts.evaluated, elapsed), found(counts, is_judged))
}

/// `1,000 events  500/s`.
pub(crate) fn with_rate(events: u64, elapsed: Duration) -> String {
    let rate = events as f64 / elapsed.as_secs_f64().max(1e-9);
    format!("{}  {}/s", counted(events, "event"), grouped(rate as u64))
}

/// The number of alarms if there is a judge, else the number of violations.
pub(crate) fn found(counts: &RunCounts, is_judged: bool) -> String {
    if is_judged { counted(counts.alarms, "alarm") } else { counted(counts.triggers, "violation") }
}

/// The summary of a run.
pub(crate) fn summary(counts: &RunCounts, elapsed: Duration, is_judged: bool) -> String {
    let mut text = format!(
        "{}, {} in {:.1} s",
        counted(counts.evaluated, "event"),
        found(counts, is_judged),
        elapsed.as_secs_f64()
    );
    for (count, what, more) in [
        (counts.rejected - counts.late.min(counts.rejected), "bad row", ""),
        (counts.late, "late row", ""),
        (counts.dropped, "row", " lost by a live input"),
        (counts.outside, "row", " outside the monitored span"),
    ] {
        if count > 0 {
            text += &format!("; {}{more}", counted(count, what));
        }
    }
    text
}

pub(crate) use fairstream_report::grouped;

/// `1 event`, `2 events`.
pub(crate) fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(count), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_one_or_many() {
        assert_eq!((counted(1, "event"), counted(2, "event")), ("1 event".to_owned(), "2 events".to_owned()));
    }
}
