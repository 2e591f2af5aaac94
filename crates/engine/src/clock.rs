//! Finds the next deadline of a specification, so that the reference engine can advance the interpreter one deadline at a
//! time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::time::Duration;

use rtlola_frontend::RtLolaMir;
use rtlola_frontend::mir::PacingType;

/// The deadlines of a specification, in nanoseconds since its clock started.
pub(crate) struct Clock {
    /// Periods of global clocks.
    global: Vec<u64>,
    /// For each output stream the periods of the clocks that start with each of its instances.
    local: Vec<Vec<u64>>,
    /// Existing instances with a clock of their own: the stream, and the number of the spawn.
    live: HashSet<(usize, u64)>,
    /// Min-heap of deadlines of instances: the time, the stream, the number of the spawn, and the period. Deadlines of
    /// closed instances are dropped when they come up.
    due: BinaryHeap<Reverse<(u64, usize, u64, u64)>>,
}

impl Clock {
    pub(crate) fn new(mir: &RtLolaMir) -> Clock {
        let mut clock =
            Clock { global: Vec::new(), local: Vec::new(), live: HashSet::new(), due: BinaryHeap::new() };
        for pacings in pacings(mir) {
            let mut local = Vec::new();
            for pacing in pacings {
                let Some(nanos) =
                    period(pacing).map(|period| u64::try_from(period.as_nanos()).unwrap_or(u64::MAX))
                else {
                    continue;
                };
                let periods = if matches!(pacing, PacingType::LocalPeriodic(_)) {
                    &mut local
                } else {
                    &mut clock.global
                };
                if nanos > 0 && !periods.contains(&nanos) {
                    periods.push(nanos);
                }
            }
            clock.local.push(local);
        }
        clock
    }

    /// Whether the specification has no clock, so that nothing is ever due.
    pub(crate) fn is_idle(&self) -> bool {
        self.global.is_empty() && self.local.iter().all(Vec::is_empty)
    }

    /// Starts the clocks of an instance that was spawned at `now`.
    pub(crate) fn spawn(&mut self, stream: usize, spawn: u64, now: u64) {
        for period in &self.local[stream] {
            self.live.insert((stream, spawn));
            self.due.push(Reverse((now.saturating_add(*period), stream, spawn, *period)));
        }
    }

    /// Stops the clocks of an instance that has closed.
    pub(crate) fn close(&mut self, stream: usize, spawn: u64) {
        self.live.remove(&(stream, spawn));
    }

    /// The first deadline after `time`.
    pub(crate) fn next_after(&mut self, time: u64) -> Option<u64> {
        while let Some(Reverse((due, stream, spawn, period))) = self.due.peek().copied()
            && (due <= time || !self.live.contains(&(stream, spawn)))
        {
            self.due.pop();
            if self.live.contains(&(stream, spawn)) {
                self.due.push(Reverse((due.saturating_add(period), stream, spawn, period)));
            }
        }
        let global = self.global.iter().filter_map(|period| (time / period + 1).checked_mul(*period));
        global.chain(self.due.peek().map(|Reverse((due, ..))| *due)).min()
    }
}

/// For each output stream the pacings of its evaluation, its spawn and its close.
pub(crate) fn pacings(mir: &RtLolaMir) -> impl Iterator<Item = Vec<&PacingType>> {
    mir.outputs.iter().map(|output| {
        let clauses = output.eval.clauses.iter().map(|clause| &clause.pacing);
        clauses.chain([&output.eval.eval_pacing, &output.spawn.pacing, &output.close.pacing]).collect()
    })
}

/// The period of a pacing, rounded down to nanoseconds; `None` if it has no clock.
pub(crate) fn period(pacing: &PacingType) -> Option<Duration> {
    let (PacingType::GlobalPeriodic(frequency) | PacingType::LocalPeriodic(frequency)) = pacing else {
        return None;
    };
    // A frequency is an exact fraction of hertz.
    let (numerator, denominator) =
        (i128::from(*frequency.value.numer()), i128::from(*frequency.value.denom()));
    let nanos = denominator * 1_000_000_000 / numerator.max(1);
    Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Specification;

    #[test]
    fn deadlines_are_those_of_global_clocks_and_of_live_instances() {
        let spec = "input a : Int64\noutput x @3s := 1\noutput y @2s := 1\n\
            output z(i)\n  spawn with a\n  eval @Local(5s) with 1\n  close @Local(4s) when true";
        let mut clock = Clock::new(Specification::parse("spec", spec).unwrap().mir());
        const S: u64 = 1_000_000_000;
        let due = |clock: &mut Clock, mut now: u64, until: u64| {
            let mut due = Vec::new();
            while let Some(next) = clock.next_after(now).filter(|next| *next <= until) {
                due.push(next / (S / 2));
                now = next;
            }
            due
        };
        assert_eq!(due(&mut clock, 0, 9 * S), [4, 6, 8, 12, 16, 18]);
        clock.spawn(2, 0, S / 2);
        assert_eq!(due(&mut clock, S / 2, 9 * S), [4, 6, 8, 9, 11, 12, 16, 17, 18]);
        clock.close(2, 0);
        assert_eq!(due(&mut clock, 9 * S, 12 * S), [20, 24]);
    }
}
