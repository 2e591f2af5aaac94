//! Runs all engines on the same events, and fails if their verdicts differ.

use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::Options;
use crate::contestant::{self, COMPILED, HAND, REFERENCE};
use crate::must_hold;
use bench::measure::{Build, Measurement, Run, run};
use bench::screenings::Published;
use bench::triggers::Triggers;
use bench::workload::{NAMES, Workload};

/// Sizes in trials, and the number of runs of each; the reference engine runs once.
const SIZES: [(u64, usize); 5] = [(1_000, 101), (10_000, 31), (100_000, 9), (1_000_000, 3), (10_000_000, 1)];

/// No further run is started after this total time.
const ENOUGH: Duration = Duration::from_secs(10);

/// Runs the workloads and sizes that the options select.
pub(crate) fn everything(options: &Options) -> anyhow::Result<Vec<Measurement>> {
    let mut comparison = Comparison { options, measured: Vec::new() };
    for name in NAMES {
        if options.only.as_deref().is_some_and(|only| only != name) {
            continue;
        }
        match Workload::invented(name)? {
            Some(workload) => comparison.invented(&workload)?,
            None => comparison.published(name)?,
        }
    }
    Ok(comparison.measured)
}

struct Comparison<'a> {
    options: &'a Options,
    measured: Vec<Measurement>,
}

impl Comparison<'_> {
    fn invented(&mut self, workload: &Workload) -> anyhow::Result<()> {
        let mut slowest = Some(Duration::ZERO);
        for (trials, times) in SIZES.into_iter().filter(|(trials, _)| *trials <= self.options.max_trials) {
            let triggers = self.hand_and_compiled(workload, trials, times)?;
            // Ten times as many trials are expected to take the reference engine a hundred times as long.
            let limit = self.reference_limit(workload, trials);
            slowest = match slowest.filter(|slowest| *slowest * 100 < limit * 2) {
                Some(_) => self.reference(workload, trials, limit, triggers)?,
                None => None,
            };
        }
        Ok(())
    }

    /// Runs the reference engine on as many people as it can complete, the others on these and on all.
    fn published(&mut self, name: &str) -> anyhow::Result<()> {
        let people = match Published::find() {
            Ok(path) => Rc::new(Published::read(&path)?),
            Err(path) => {
                eprintln!("{name}: SKIPPED, as there is no {} (set FAIRSTREAM_COMPAS)", path.display());
                return Ok(());
            }
        };
        let all = people.len().min(self.options.max_trials);
        let Some(workload) = Workload::published(name, people)? else { return Ok(()) };
        let limit = self.options.reference_limit;
        let mut people = 500.min(all);
        loop {
            let triggers = self.hand_and_compiled(&workload, people, 9)?;
            let ended = self.reference(&workload, people, limit, triggers)?;
            // Increases the number of people such that nine tenths of the limit are expected to be used.
            let factor =
                ended.map_or(0.0, |elapsed| 0.9 * limit.as_secs_f64() / elapsed.as_secs_f64()).sqrt();
            if people == all || factor < 1.1 {
                break;
            }
            people = ((people as f64 * factor.min(4.0)) as u64).min(all);
        }
        if people < all {
            self.hand_and_compiled(&workload, all, 9)?;
        }
        Ok(())
    }

    fn reference_limit(&self, workload: &Workload, trials: u64) -> Duration {
        // A requirement is checked at this size, which is better measured over a whole run.
        let factor = if must_hold::REFERENCE_AT == (workload.name, trials) { 5 } else { 1 };
        self.options.reference_limit * factor
    }

    /// Alternates between the two, so that other load on the machine affects both equally.
    fn hand_and_compiled(
        &mut self,
        workload: &Workload,
        trials: u64,
        times: usize,
    ) -> anyhow::Result<Triggers> {
        let mut runs = [Vec::new(), Vec::new()];
        let systems = [HAND, COMPILED];
        let builds: [&Build<'_>; 2] = [&contestant::by_hand, &contestant::compiled];
        let begun = Instant::now();
        for _ in (0..times).take_while(|time| *time == 0 || begun.elapsed() < ENOUGH) {
            for (build, runs) in builds.into_iter().zip(&mut runs) {
                runs.push(run(workload, build, trials, None)?);
            }
        }
        let expected = runs[0][0].triggers;
        for (system, runs) in systems.into_iter().zip(runs) {
            self.keep(Measurement { workload: workload.name, system, trials, runs }, expected)?;
        }
        Ok(expected)
    }

    /// Time of the reference engine; `None` if it was stopped at the limit.
    fn reference(
        &mut self,
        workload: &Workload,
        trials: u64,
        limit: Duration,
        expected: Triggers,
    ) -> anyhow::Result<Option<Duration>> {
        let run = run(workload, &contestant::reference, trials, Some(limit))?;
        let Run { ended, elapsed, .. } = run;
        self.keep(
            Measurement { workload: workload.name, system: REFERENCE, trials, runs: vec![run] },
            expected,
        )?;
        Ok(ended.then_some(elapsed))
    }

    fn keep(&mut self, measurement: Measurement, expected: Triggers) -> anyhow::Result<()> {
        let Measurement { workload, system, trials, runs } = &measurement;
        for run in runs.iter().filter(|run| run.ended) {
            if run.triggers != expected {
                bail!(
                    "{workload}, {trials} trials: {system} gives {:?}, the loop {expected:?}",
                    run.triggers
                );
            }
        }
        let [least, median, most] = measurement.ns_per_event();
        let stopped = if measurement.last().ended { "" } else { ", stopped at the time limit" };
        eprintln!(
            "{workload} {trials} {system}: {median:.1} ns per event ({least:.1} to {most:.1}){stopped}"
        );
        self.measured.push(measurement);
        Ok(())
    }
}
