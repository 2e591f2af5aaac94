//! Runs of a system under a test: when it raises an alarm, when it is called fair.

use fairstream_guarantee::{EProcess, Hypothesis};
use fairstream_scenarios::Random;

use super::rules::Watch;
use super::systems::System;
use crate::page::{grouped, percent, quantile};
use crate::statistics::interval;

/// The decision at which something happened in each run, sorted; `u64::MAX` if it never did.
#[derive(Clone, Debug)]
pub(super) struct Times(pub(super) Vec<u64>);

impl Times {
    /// In how many runs it happened.
    pub(super) fn count(&self) -> usize {
        self.0.iter().filter(|time| **time < u64::MAX).count()
    }

    pub(super) fn share(&self) -> f64 {
        self.count() as f64 / self.0.len().max(1) as f64
    }

    /// The share of runs, with its interval.
    pub(super) fn percent(&self) -> String {
        let (low, high) = interval(self.count(), self.0.len());
        format!("{} ({} to {})", percent(self.share()), percent(low), percent(high))
    }

    /// The decision by which it has happened in a share of the runs.
    pub(super) fn by(&self, share: f64) -> String {
        match quantile(&self.0, share) {
            Some(time) if time < u64::MAX => grouped(time),
            _ => "later".to_owned(),
        }
    }

    /// After this decision, of the runs in which it did not happen before.
    pub(super) fn after(&self, decision: u64) -> Times {
        let late = self.0.iter().filter(|time| **time > decision);
        Times(late.map(|time| if *time == u64::MAX { u64::MAX } else { time - decision }).collect())
    }
}

/// Runs something for every seed, on all cores; the results in the order of seeds.
pub(super) fn all<T: Send>(runs: u64, run: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    let mut results: Vec<(u64, T)> = std::thread::scope(|scope| {
        let run = &run;
        let part = |thread: u64| {
            move || {
                (thread + 1..=runs)
                    .step_by(threads as usize)
                    .map(|seed| (seed, run(seed)))
                    .collect::<Vec<_>>()
            }
        };
        let parts: Vec<_> = (0..threads).map(|thread| scope.spawn(part(thread))).collect();
        parts.into_iter().flat_map(|part| part.join().unwrap_or_default()).collect()
    });
    results.sort_by_key(|(seed, _)| *seed);
    results.into_iter().map(|(_, result)| result).collect()
}

/// When each run of a system raised its first alarm, checked after every decision.
pub(super) fn first_alarms(
    begin: impl Fn() -> Watch + Sync,
    system: &System,
    runs: u64,
    decisions: u64,
) -> Times {
    let run = |seed: u64| {
        let (mut watch, mut random, mut decide) = (begin(), Random::new(seed), (system.begin)());
        let alarm = |number: &u64| watch.step(decide(&mut random, *number));
        (0..decisions).find(alarm).map_or(u64::MAX, |number| number + 1)
    };
    let mut times = all(runs, run);
    times.sort_unstable();
    Times(times)
}

/// What came of the runs of a system.
pub(super) struct Watched {
    pub(super) alarms: Times,
    /// When it was called fair for the first time.
    pub(super) fair: Times,
}

/// Runs a system under a hypothesis, with a look after every so many decisions.
pub(super) fn watch(
    system: &System,
    hypothesis: &Hypothesis,
    runs: u64,
    decisions: u64,
    look: u64,
) -> Watched {
    let run = |seed: u64| {
        let (mut random, mut decide, mut e_process) =
            (Random::new(seed), (system.begin)(), EProcess::default());
        let (mut alarm, mut fair) = (u64::MAX, u64::MAX);
        for number in 0..decisions {
            let decision = decide(&mut random, number);
            e_process.count(hypothesis, decision.group, decision.value, decision.time);
            if (number + 1) % look != 0 || !e_process.look() {
                continue;
            }
            if e_process.exceeds_threshold(hypothesis) {
                alarm = number + 1;
                break;
            }
            if fair == u64::MAX && e_process.is_found_fair(hypothesis) {
                fair = number + 1;
            }
        }
        (alarm, fair)
    };
    let (mut alarms, mut fair): (Vec<u64>, Vec<u64>) = all(runs, run).into_iter().unzip();
    alarms.sort_unstable();
    fair.sort_unstable();
    Watched { alarms: Times(alarms), fair: Times(fair) }
}
