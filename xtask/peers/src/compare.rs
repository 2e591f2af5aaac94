//! Runs everybody on the same events, and insists that they say the same.

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

/// Who could not be run, and why.
pub(crate) type Missing = Vec<(String, String)>;

/// What was measured, and who could not be.
pub(crate) struct Comparison {
    pub(crate) measured: Vec<Measurement>,
    /// Peers and their versions, as far as they say.
    pub(crate) versions: BTreeSet<(String, String)>,
    pub(crate) missing: Missing,
}

/// In the order of the page.
const WORKLOADS: [&str; 7] =
    ["hiring", "hiring-daily", "seminar", "seminar-daily", "compas", PAPER_ODDS, "compas-deadline"];

/// Workloads, with the numbers of trials.
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

/// Runs everybody; what is known so far is handed over after every workload.
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
        bail!("--only {only}: no workload ({workloads}, {COMMAND}), and nobody here ({})", names.join(", "));
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
                    let everybody = people.len();
                    let sizes = sizes.into_iter().map(|size| size.min(everybody)).collect();
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

/// Whether somebody of that name takes part: everybody does where one workload is asked for, or nothing.
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
            // By turns, so that all get their share of what else the machine does.
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
                    eprintln!("{at} {}: FAILED, {error:#}", measurement.who);
                    self.missing.push((format!("{}, {at}", measurement.who), format!("{error:#}")));
                    given_up.insert(measurement.who);
                    continue;
                }
                let [least, median, most] = measurement.ns_per_event();
                eprint!("{} {trials} {}: ", workload.name, measurement.who);
                if measurement.last().ended {
                    eprintln!("{median:.0} ns an event ({least:.0} to {most:.0})");
                } else {
                    eprintln!("stopped after {} s", options.limit.as_secs());
                    given_up.insert(measurement.who);
                }
                if sizes.peek().is_some_and(|next| is_hopeless(&measurement, *next, options.limit)) {
                    given_up.insert(measurement.who);
                }
                self.measured.push(measurement);
            }
            tools.tidy(workload, trials)?;
        }
        Ok(())
    }
}

/// Whether somebody would be stopped on more trials even if each cost half of what it did: then there is no point in
/// waiting for it.
fn is_hopeless(measurement: &Measurement, trials: u64, limit: Duration) -> bool {
    let least = measurement.runs.iter().map(|run| run.elapsed).min().unwrap_or_default();
    is_peer(measurement.who) && least.mul_f64(trials as f64 / measurement.trials as f64 / 2.0) > limit
}

/// The runs of one rival on the same events.
struct Turn<'r> {
    rival: &'r Rival,
    measurement: Measurement,
    /// How long it has judged, and how long that has taken with its start.
    judged: Duration,
    taken: Duration,
    /// Why it cannot go on: it broke, or there is not enough memory for it.
    failure: Option<anyhow::Error>,
}

impl<'r> Turn<'r> {
    fn new(rival: &'r Rival, workload: &'static str, trials: u64) -> Turn<'r> {
        let measurement = Measurement { workload, who: rival.name, trials, runs: Vec::new() };
        Turn { rival, measurement, judged: Duration::ZERO, taken: Duration::ZERO, failure: None }
    }

    /// Whoever is quick runs again, until the median means something: also who takes long to start.
    fn is_next(&self, options: &Options) -> bool {
        self.failure.is_none()
            && self.measurement.runs.iter().all(|run| run.ended)
            && self.judged < options.enough
            && self.taken < options.enough * 3
    }

    /// Runs once more, and says its version.
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
        // What is measured should not be cut into pieces.
        Way::Here(build) if !is_peer(rival.name) => Ok((run(workload, build, trials, None)?, String::new())),
        Way::Here(build) => Ok((run(workload, build, trials, Some(limit))?, String::new())),
        Way::Script { file, .. } => tools.script(file, workload, trials, limit),
        Way::RtlolaCli => tools.rtlola_cli(workload, trials, limit),
    }
}

/// Everybody who came to the end says what the first said.
fn agree(measurement: &Measurement, expected: &mut Option<(&'static str, Triggers)>) -> anyhow::Result<()> {
    let Measurement { workload, who, trials, runs } = measurement;
    for run in runs.iter().filter(|run| run.ended) {
        let (first, triggers) = *expected.get_or_insert((who, run.triggers));
        if run.triggers != triggers {
            bail!("{workload}, {trials} trials: {who} says {:?}, {first} says {triggers:?}", run.triggers);
        }
    }
    Ok(())
}
