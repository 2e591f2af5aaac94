//! Runs all systems on the same events, and fails if their verdicts differ.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::bail;
use bench::measure::{Measurement, Run, run};
use bench::screenings::Published;
use bench::triggers::Triggers;
use bench::workload::{PAPER_ODDS, Workload};

use crate::Options;
use crate::end_to_end::COMMAND;
use crate::process::Tools;
use crate::rivals::{self, Rival, Way, is_peer};

/// Systems that could not be run, each with the reason.
pub(crate) type Missing = Vec<(String, String)>;

/// All measurements, and the systems without one.
pub(crate) struct Comparison {
    pub(crate) measured: Vec<Measurement>,
    /// Peers and their versions, where they report one.
    pub(crate) versions: BTreeSet<(String, String)>,
    pub(crate) missing: Missing,
}

/// In the order of the page.
const WORKLOADS: [&str; 7] =
    ["hiring", "hiring-daily", "seminar", "seminar-daily", "compas", PAPER_ODDS, "compas-deadline"];

/// Workloads, each with its sizes in trials.
fn schedule(quick: bool) -> Vec<(&'static str, Vec<u64>)> {
    let sizes = |to: u32| (1..=to).map(|power| 10_u64.pow(power)).collect::<Vec<_>>();
    if quick {
        let small = WORKLOADS.map(|name| (name, vec![1_000])).into_iter().skip(1);
        return std::iter::once((WORKLOADS[0], sizes(4))).chain(small).collect();
    }
    vec![
        ("hiring", sizes(7)),
        ("hiring-daily", sizes(7)),
        ("seminar", sizes(7)),
        ("seminar-daily", sizes(7)),
        ("compas", vec![1_000, u64::MAX]),
        (PAPER_ODDS, vec![1_000, u64::MAX]),
        ("compas-deadline", vec![10_000, 100_000, 1_000_000]),
    ]
}

/// Runs all systems. The results so far are passed to `after_workload` after every workload.
pub(crate) fn everything(
    options: &Options,
    tools: &Tools,
    present: &[Rival],
    mut after_workload: impl FnMut(&Comparison) -> anyhow::Result<()>,
) -> anyhow::Result<Comparison> {
    let versions = rivals::built_in().into_iter().collect();
    let mut all = Comparison { measured: Vec::new(), versions, missing: Vec::new() };
    let only = options.only.as_deref();
    let one = only.filter(|only| WORKLOADS.contains(only));
    if only == Some(COMMAND) {
        return Ok(all);
    }
    if !present.iter().any(|rival| is_wanted(rival.name, only)) {
        let names: Vec<&str> = present.iter().map(|rival| rival.name).collect();
        let (only, workloads) = (only.unwrap_or_default(), WORKLOADS.join(", "));
        bail!(
            "--only {only}: neither a workload ({workloads}, {COMMAND}) nor a system ({})",
            names.join(", ")
        );
    }
    let takes_part = |rival: &&Rival| !is_peer(rival.name) || is_wanted(rival.name, only);
    let rivals: Vec<&Rival> = present.iter().filter(takes_part).collect();
    for (name, sizes) in schedule(options.quick) {
        if one.is_some_and(|one| one != name) {
            continue;
        }
        let (workload, sizes) = match Workload::invented(name)? {
            Some(workload) => (workload, sizes),
            None => match Published::find() {
                Ok(path) => {
                    let people = Rc::new(Published::read(&path)?);
                    let all_people = people.len();
                    let sizes = sizes.into_iter().map(|size| size.min(all_people)).collect();
                    let Some(workload) = Workload::published(name, people)? else { continue };
                    (workload, sizes)
                }
                Err(path) => {
                    let reason = format!("there is no {} (set FAIRSTREAM_COMPAS)", path.display());
                    eprintln!("{name}: SKIPPED, as {reason}");
                    all.missing.push((name.to_owned(), reason));
                    continue;
                }
            },
        };
        all.workload(options, tools, &rivals, &workload, &sizes)?;
        after_workload(&all)?;
    }
    Ok(all)
}

/// Whether a system takes part. All do if `--only` names a workload or is not given.
pub(crate) fn is_wanted(name: &str, only: Option<&str>) -> bool {
    only.is_none_or(|only| WORKLOADS.contains(&only) || name.to_lowercase().contains(&only.to_lowercase()))
}

impl Comparison {
    fn workload(
        &mut self,
        options: &Options,
        tools: &Tools,
        rivals: &[&Rival],
        workload: &Workload,
        sizes: &[u64],
    ) -> anyhow::Result<()> {
        let mut given_up = BTreeSet::new();
        let mut sizes = sizes.iter().copied().filter(|trials| *trials <= options.max_trials).peekable();
        while let Some(trials) = sizes.next() {
            let takes_part = |rival: &&&Rival| {
                (rival.takes)(workload.task) && trials <= rival.most && !given_up.contains(rival.name)
            };
            let mut turns: Vec<Turn<'_>> = rivals
                .iter()
                .filter(takes_part)
                .map(|rival| Turn::new(rival, workload.name, trials))
                .collect();
            // Systems run in rotation, so that other load on the machine affects all of them equally.
            for round in 1..=options.runs {
                eprint!("{} {trials}, round {round}:", workload.name);
                for turn in turns.iter_mut().filter(|turn| turn.is_next(options)) {
                    eprint!(" {};", turn.rival.name);
                    match turn.take(tools, workload, options.limit) {
                        Ok(version) if version.is_empty() => {}
                        Ok(version) => {
                            self.versions.insert((turn.rival.name.to_owned(), version));
                        }
                        Err(error) if is_peer(turn.rival.name) => turn.failure = Some(error),
                        Err(error) => return Err(error),
                    }
                }
                eprintln!();
            }
            let mut expected = None;
            for Turn { measurement, failure, .. } in turns {
                agree(&measurement, &mut expected)?;
                if let Some(error) = failure {
                    let at = format!("{} {trials}", workload.name);
                    eprintln!("{at} {}: FAILED, {error:#}", measurement.system);
                    self.missing.push((format!("{}, {at}", measurement.system), format!("{error:#}")));
                    given_up.insert(measurement.system);
                    continue;
                }
                let [least, median, most] = measurement.ns_per_event();
                eprint!("{} {trials} {}: ", workload.name, measurement.system);
                if measurement.last().ended {
                    eprintln!("{median:.0} ns per event ({least:.0} to {most:.0})");
                } else {
                    eprintln!("stopped after {} s", options.limit.as_secs());
                    given_up.insert(measurement.system);
                }
                if sizes.peek().is_some_and(|next| would_be_stopped(&measurement, *next, options.limit)) {
                    given_up.insert(measurement.system);
                }
                self.measured.push(measurement);
            }
            tools.tidy(workload, trials)?;
        }
        Ok(())
    }
}

/// Whether a peer would exceed the limit on `trials` trials even if each cost half of what it did so far. Such a
/// run is skipped.
fn would_be_stopped(measurement: &Measurement, trials: u64, limit: Duration) -> bool {
    let least = measurement.runs.iter().map(|run| run.elapsed).min().unwrap_or_default();
    is_peer(measurement.system) && least.mul_f64(trials as f64 / measurement.trials as f64 / 2.0) > limit
}

/// The runs of one system on the same events.
struct Turn<'r> {
    rival: &'r Rival,
    measurement: Measurement,
    /// Total time of evaluation, and total time including startup.
    judged: Duration,
    taken: Duration,
    /// Why no further run is possible: it failed, or there is not enough memory for it.
    failure: Option<anyhow::Error>,
}

impl<'r> Turn<'r> {
    fn new(rival: &'r Rival, workload: &'static str, trials: u64) -> Turn<'r> {
        let measurement = Measurement { workload, system: rival.name, trials, runs: Vec::new() };
        Turn { rival, measurement, judged: Duration::ZERO, taken: Duration::ZERO, failure: None }
    }

    /// Fast systems run again until the median is meaningful, also if they take long to start.
    fn is_next(&self, options: &Options) -> bool {
        self.failure.is_none()
            && self.measurement.runs.iter().all(|run| run.ended)
            && self.judged < options.enough
            && self.taken < options.enough * 3
    }

    /// Runs once more, and returns the version of the system.
    fn take(&mut self, tools: &Tools, workload: &Workload, limit: Duration) -> anyhow::Result<String> {
        let begun = Instant::now();
        let (run, version) = once(self.rival, tools, workload, self.measurement.trials, limit)?;
        self.taken += begun.elapsed();
        self.judged += run.elapsed;
        self.measurement.runs.push(run);
        Ok(version)
    }
}

fn once(
    rival: &Rival,
    tools: &Tools,
    workload: &Workload,
    trials: u64,
    limit: Duration,
) -> anyhow::Result<(Run, String)> {
    match &rival.way {
        // fairstream and the loop run without a limit, because checking the limit divides batches into pieces.
        Way::Here(build) if !is_peer(rival.name) => Ok((run(workload, build, trials, None)?, String::new())),
        Way::Here(build) => Ok((run(workload, build, trials, Some(limit))?, String::new())),
        Way::Script { file, .. } => tools.script(file, workload, trials, limit),
        Way::RtlolaCli => tools.rtlola_cli(workload, trials, limit),
    }
}

/// Fails unless all runs that completed gave the same verdicts as the first.
fn agree(measurement: &Measurement, expected: &mut Option<(&'static str, Triggers)>) -> anyhow::Result<()> {
    let Measurement { workload, system, trials, runs } = measurement;
    for run in runs.iter().filter(|run| run.ended) {
        let (first, triggers) = *expected.get_or_insert((system, run.triggers));
        if run.triggers != triggers {
            bail!(
                "{workload}, {trials} trials: {system} gives {:?}, {first} gives {triggers:?}",
                run.triggers
            );
        }
    }
    Ok(())
}
