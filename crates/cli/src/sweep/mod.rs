//! `fairstream sweep`: triggers and alarms of a fairness file for other values of the confidence κ and the tolerance ε,
//! over many runs.

mod parameter_values;
mod show;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use fairstream_core::{Pipeline, RunOptions, SourceContext, StopToken, Time, TimeFormat, TimeRange};
use fairstream_engine::{CompiledEngine, Specification};
use fairstream_fairness::{Comparison, Compiled, Grid, Judge, JudgedEngine, RuleRate, Sweep, SweepCell};
use fairstream_files::{check_replaceable, replace};

use self::parameter_values::{ParameterValues, Seeds};
use self::show::{Look, Shown};
use crate::args::{Colour, EngineKind, InputArguments};
use crate::interrupt::Interrupt;
use crate::joins;
use crate::load::{self, Monitor, Plugins};
use crate::null_sink::NullSink;
use crate::places::{Kept, refuse_to_destroy};
use crate::progress::{ProgressLine, counted, grouped};
use crate::registry::{self, Address};
use crate::{ExitStatus, note, print, write_out};

#[derive(Debug, Args)]
#[command(after_help = "\
Each INPUT is a run of its own. It is evaluated once: what is counted depends neither on κ nor on ε.
VALUES are written 24, or 30,80, or 10..100, or 10..100:5 in steps of 5.

Examples:
  fairstream sweep specs/hiring.toml monday.csv tuesday.csv
      how often it would have been above the tolerance
  fairstream sweep specs/hiring.toml 'hiring:?accept=M=0.5,F=0.5' --seeds 1..100 --count runs
      false alarms: runs in which a fair process would have raised one
  fairstream sweep specs/seminar.toml 'seminar:?algorithm=randomize' \\
      --against 'seminar:?algorithm=equal-gender' --seeds 1..2000 --to sweep.csv
      which κ and ε tell the two apart

Exit codes: 0 done, 2 error, 130 interrupted.")]
pub(crate) struct SweepArguments {
    /// The fairness file (.toml)
    spec: PathBuf,

    /// Where events come from, a run each: files, or scenarios such as `hiring:?applicants=100`
    #[arg(value_name = "INPUT", required = true)]
    inputs: Vec<String>,

    /// Runs to hold the others against: the contrast is how many times as many the others have
    #[arg(long, value_name = "INPUT", num_args = 1..)]
    against: Vec<String>,

    /// Run every scenario that has no seed of its own once with each of these, as in 1..2000
    #[arg(long, value_name = "SEEDS")]
    seeds: Option<Seeds>,

    /// The values of κ
    #[arg(long, value_name = "VALUES", default_value = "10..100")]
    confidence: ParameterValues,

    /// The values of ε [default: 0.05..0.2, for ratios 0.6..0.95]
    #[arg(long, value_name = "VALUES")]
    tolerance: Option<ParameterValues>,

    /// Which metric, if the file has several, such as demographic-parity
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,

    /// What is shown: checks at which ε is exceeded, alarms raised, or runs with an alarm
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Count::Triggers)]
    count: Count,

    /// Write all of it to a CSV file as well; `-` is standard output, instead of tables
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    to: Option<String>,

    /// The column that says when an event happened [default: time]
    #[arg(long, value_name = "COLUMN")]
    time: Option<String>,

    /// How that is written: auto, iso, rfc3339, date, s, ms, us, ns, relative, or a pattern such as '%d.%m.%Y %H:%M'
    /// [default: auto]
    #[arg(long, value_name = "FORMAT")]
    time_format: Option<TimeFormat>,

    /// Leave out events before this; the clock of periodic checks starts here
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    since: Option<Time>,

    /// Leave out events after this; after the last event the clock runs on to here
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    until: Option<Time>,

    /// Whether the heat map uses colour
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Colour::Auto)]
    color: Colour,

    /// No progress and no summary on standard error
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Count {
    /// Checks at which the tolerance is exceeded; each stratum counts for itself
    Triggers,
    /// Alarms that are raised
    Alarms,
    /// Runs in which an alarm is raised
    Runs,
}

/// Results for one rate over all runs.
#[derive(Clone, Copy)]
pub(crate) struct Swept<'a> {
    pub(crate) runs: u64,
    pub(crate) checks: u64,
    pub(crate) cells: &'a [SweepCell],
}

pub(crate) fn sweep(arguments: &SweepArguments) -> anyhow::Result<ExitStatus> {
    if !load::is_fairness_file(&arguments.spec) {
        bail!(
            "{} is no fairness file (.toml): κ and ε of an RTLola specification stand in its text",
            arguments.spec.display()
        );
    }
    let input = InputArguments {
        spec: arguments.spec.clone(),
        inputs: arguments.inputs.iter().chain(&arguments.against).cloned().collect(),
        time: arguments.time.clone(),
        time_format: arguments.time_format.clone(),
        sort: false,
        trust: Vec::new(),
    };
    let monitor = load::monitor(&input, Plugins::Load)?;
    monitor.check(EngineKind::Compiled, &arguments.spec)?;
    let Some(compiled) = monitor.fairness.clone() else { bail!("there is nothing to sweep") };
    let rates = chosen(&compiled, arguments.metric.as_deref())?;
    let tolerances = match &arguments.tolerance {
        Some(axis) => axis.clone(),
        None => usual_tolerances(&compiled, &rates)?,
    };
    let grid = Grid::new(arguments.confidence.0.clone(), tolerances.0)?;
    let (first, against) = runs(arguments, &monitor)?;
    let to = arguments.to.as_deref().filter(|to| *to != "-").map(|to| writable(to, arguments)).transpose()?;

    let stop = StopToken::default();
    let interrupt = Interrupt::watch(&stop);
    interrupt.start();
    let (start, all) = (Instant::now(), first.len() + against.len());
    let done = Arc::new(AtomicU64::new(0));
    let progress = ProgressLine::show(arguments.quiet, {
        let done = Arc::clone(&done);
        move |_| format!("{} of {}", grouped(done.load(Ordering::Relaxed)), counted(all as u64, "run"))
    });
    let sweeper = Sweeper {
        monitor: &monitor,
        subject: Arc::new((monitor.spec.clone(), compiled.clone())),
        empty: Sweep::new(compiled.rules(), grid),
        options: RunOptions {
            since: arguments.since,
            until: arguments.until,
            stop: stop.clone(),
            ..RunOptions::default()
        },
        done,
        events: AtomicU64::new(0),
    };
    let of_first = sweeper.all(&first)?;
    let of_against = if against.is_empty() { None } else { Some(sweeper.all(&against)?) };
    drop(progress);
    if interrupt.happened() {
        return Ok(ExitStatus::Interrupted);
    }
    let events = sweeper.events.into_inner();
    let shown = rates.iter().filter_map(|(rule, rate, of)| {
        let swept =
            |sweep: &'_ Sweep| -> Option<(u64, u64)> { Some((sweep.runs(), sweep.checks(*rule, *rate)?)) };
        let (runs, checks) = swept(&of_first)?;
        let first = Swept { runs, checks, cells: of_first.cells(*rule, *rate)? };
        let against = of_against.as_ref().and_then(|sweep| {
            let (runs, checks) = swept(sweep)?;
            Some(Swept { runs, checks, cells: sweep.cells(*rule, *rate)? })
        });
        Some(Shown { rate: of, grid: of_first.grid(), first, against })
    });
    let shown: Vec<Shown<'_>> = shown.collect();
    match &to {
        Some(path) => {
            let mut text = Vec::new();
            write_csv(&shown, &mut text)?;
            replace(Path::new(path), &text).with_context(|| format!("cannot write {path}"))?;
        }
        None if arguments.to.is_some() => {
            let mut text = Vec::new();
            write_csv(&shown, &mut text)?;
            print(&String::from_utf8_lossy(&text))?;
        }
        None => {}
    }
    if arguments.to.as_deref() != Some("-") {
        let look = Look { count: arguments.count, colour: arguments.color.is_on() };
        let text: Vec<String> = shown.iter().map(|shown| look.text(shown)).collect();
        write_out(&text.join("\n"))?;
    }
    if !arguments.quiet {
        let (runs, events) = (counted(all as u64, "run"), counted(events, "event"));
        note(&format!("{runs}, {events} in {:.1} s", start.elapsed().as_secs_f64()));
    }
    Ok(ExitStatus::NothingViolated)
}

/// Every rate of the metric that was asked for, with its rule's and its own index.
fn chosen<'a>(
    compiled: &'a Compiled,
    metric: Option<&str>,
) -> anyhow::Result<Vec<(usize, usize, &'a RuleRate)>> {
    let all: Vec<(usize, usize, &RuleRate)> = compiled
        .rules()
        .iter()
        .enumerate()
        .flat_map(|(rule, of)| of.rates.iter().enumerate().map(move |(rate, of)| (rule, rate, of)))
        .collect();
    let Some(metric) = metric else { return Ok(all) };
    let name = metric.trim().to_lowercase().replace(['-', ' '], "_");
    let of = |is_it: &dyn Fn(&str) -> bool| -> Vec<(usize, usize, &RuleRate)> {
        all.iter().filter(|(_, _, rate)| is_it(&rate.stream)).copied().collect()
    };
    let exactly = of(&|stream| stream == name);
    let found =
        if exactly.is_empty() { of(&|stream| stream.starts_with(&format!("{name}_"))) } else { exactly };
    if found.is_empty() {
        let names: Vec<String> = all.iter().map(|(_, _, rate)| format!("`{}`", rate.stream)).collect();
        bail!("the file has no metric `{metric}`; there are {}", names.join(", "));
    }
    Ok(found)
}

/// Default tolerances, which depend on the comparison.
fn usual_tolerances(
    compiled: &Compiled,
    rates: &[(usize, usize, &RuleRate)],
) -> anyhow::Result<ParameterValues> {
    let is_ratio = |rule: usize| compiled.rules()[rule].comparison == Comparison::Ratio;
    if let Some((_, _, mean)) = rates.iter().find(|(_, _, rate)| rate.is_mean) {
        bail!("{} is a mean: say which tolerances to try, as in `--tolerance 1..10`", mean.title);
    }
    let ratios = rates.iter().filter(|(rule, ..)| is_ratio(*rule)).count();
    if ratios == 0 {
        return Ok(ParameterValues(vec![0.05, 0.075, 0.1, 0.125, 0.15, 0.175, 0.2]));
    }
    if ratios < rates.len() {
        bail!("the tolerance of a ratio is not that of a difference: choose one of them with --metric");
    }
    Ok(ParameterValues(vec![0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95]))
}

/// Maximum number of seeds of a sweep. Each run has an address in memory.
const MOST_SEEDS: u64 = 1_000_000;

/// The runs of both sets: scenarios with each seed.
fn runs(arguments: &SweepArguments, monitor: &Monitor) -> anyhow::Result<(Vec<Address>, Vec<Address>)> {
    if monitor.inputs.iter().any(joins::is_table) {
        bail!("the inputs of `sweep` are runs of their own, which `join` is not for");
    }
    if monitor.inputs.iter().filter(|input| input.location == "-").count() > 1 {
        bail!("standard input is read twice");
    }
    let mut seeded = false;
    let mut with_seeds = |inputs: &[Address]| -> anyhow::Result<Vec<Address>> {
        let mut runs = Vec::new();
        for input in inputs {
            let has_seeds = registry::source_for(input)?.adapter().options.iter().any(|o| o.name == "seed");
            match arguments.seeds {
                Some(seeds) if has_seeds && input.options.text("seed").is_none() => {
                    if seeds.last.saturating_sub(seeds.first) >= MOST_SEEDS {
                        bail!(
                            "--seeds asks for more than {} runs: choose fewer, or several sweeps",
                            grouped(MOST_SEEDS)
                        );
                    }
                    seeded = true;
                    runs.extend((seeds.first..=seeds.last).map(|seed| {
                        let mut run = input.clone();
                        run.options.set("seed", seed.to_string());
                        run
                    }));
                }
                _ => runs.push(input.clone()),
            }
        }
        Ok(runs)
    };
    let (first, against) = monitor.inputs.split_at(arguments.inputs.len().min(monitor.inputs.len()));
    let runs = (with_seeds(first)?, with_seeds(against)?);
    if arguments.seeds.is_some() && !seeded {
        bail!("--seeds is for scenarios without a seed of their own, such as `hiring:?applicants=100`");
    }
    Ok(runs)
}

/// Checks that the file for the result can be written, and is not one of the inputs.
fn writable<'a>(to: &'a str, arguments: &SweepArguments) -> anyhow::Result<&'a str> {
    let read = arguments.inputs.iter().chain(&arguments.against);
    let read = read.map(|input| Kept::new(Address::parse(input).location, "an input"));
    let spec = Kept::new(arguments.spec.to_string_lossy(), "the specification");
    refuse_to_destroy(&read.chain([spec]).collect::<Vec<_>>(), &[to])?;
    check_replaceable(Path::new(to)).with_context(|| format!("cannot write {to}"))?;
    Ok(to)
}

/// Evaluates runs in parallel.
struct Sweeper<'a> {
    monitor: &'a Monitor,
    subject: Arc<(Specification, Compiled)>,
    /// An empty sweep, which every thread starts from.
    empty: Sweep,
    options: RunOptions,
    done: Arc<AtomicU64>,
    events: AtomicU64,
}

impl Sweeper<'_> {
    fn all(&self, runs: &[Address]) -> anyhow::Result<Sweep> {
        let (next, total) = (AtomicUsize::new(0), Mutex::new(self.empty.clone()));
        // Reports the failure of the first run, so that the result does not depend on scheduling.
        let failure: Mutex<Option<(usize, anyhow::Error)>> = Mutex::new(None);
        let locked = |failure: &Mutex<Option<(usize, anyhow::Error)>>| {
            failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
        };
        let work = || {
            let mut sweep = self.empty.clone();
            while !self.options.stop.is_stopped() && !locked(&failure) {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(run) = runs.get(index) else { break };
                if let Err(error) = self.one(run, &mut sweep) {
                    let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                    if failure.as_ref().is_none_or(|(earlier, _)| index < *earlier) {
                        *failure = Some((index, error));
                    }
                }
                self.done.fetch_add(1, Ordering::Relaxed);
            }
            total.lock().unwrap_or_else(PoisonError::into_inner).merge(&sweep);
        };
        let workers = std::thread::available_parallelism().map_or(1, usize::from).min(runs.len());
        std::thread::scope(|scope| {
            (0..workers).for_each(|_| drop(scope.spawn(work)));
        });
        match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some((_, error)) => Err(error),
            None => Ok(total.into_inner().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    fn one(&self, run: &Address, sweep: &mut Sweep) -> anyhow::Result<()> {
        let context = SourceContext { stop: self.options.stop.clone(), ..SourceContext::default() };
        let sources =
            vec![self.monitor.open(run, &self.monitor.wanted, None, TimeRange::default(), &context)?];
        let columns = self.monitor.columns(&sources)?;
        let judge = Judge::new(self.subject.1.rules().to_vec()).with_sweep(sweep.begin());
        let judge = Arc::new(Mutex::new(judge));
        let engine = {
            let (subject, judge) = (Arc::clone(&self.subject), Arc::clone(&judge));
            Box::new(move |start| {
                let (spec, compiled) = &*subject;
                let names: Vec<&str> = spec.wanted().iter().map(|column| column.name.as_str()).collect();
                let engine = CompiledEngine::new(spec, start)?;
                Ok(Box::new(JudgedEngine::new(Box::new(engine), compiled, &names, judge)?) as Box<_>)
            })
        };
        // Each run counts for itself.
        let options = RunOptions { counters: Arc::default(), ..self.options.clone() };
        let report = Pipeline { sources, columns, engine, sinks: vec![Box::new(NullSink)], options }.run();
        if let Some(error) = report.error {
            return Err(error.into());
        }
        self.events.fetch_add(report.counts.evaluated, Ordering::Relaxed);
        let ended = judge.lock().unwrap_or_else(PoisonError::into_inner).end_sweep();
        ended.into_iter().for_each(|ended| sweep.add(ended));
        Ok(())
    }
}

/// Writes one row for every rate at every point of the grid.
fn write_csv(shown: &[Shown<'_>], to: &mut Vec<u8>) -> anyhow::Result<()> {
    let mut out = csv::Writer::from_writer(to);
    let mut header = vec!["metric", "confidence", "tolerance", "runs", "checks", "triggers", "alarms"];
    header.push("runs_with_alarm");
    if shown.iter().any(|shown| shown.against.is_some()) {
        header.extend(["against_runs", "against_checks", "against_triggers", "against_alarms"]);
        header.push("against_runs_with_alarm");
    }
    out.write_record(&header)?;
    for Shown { rate, grid, first, against } in shown {
        let width = grid.tolerances().len();
        for cell in 0..first.cells.len() {
            let (kappa, epsilon) = (grid.confidences()[cell / width], grid.tolerances()[cell % width]);
            let mut record = vec![rate.stream.clone(), kappa.to_string(), epsilon.to_string()];
            for swept in [Some(first), against.as_ref()].into_iter().flatten() {
                let SweepCell { triggers, alarms, runs_with_alarm } = swept.cells[cell];
                record.extend(
                    [swept.runs, swept.checks, triggers, alarms, runs_with_alarm].map(|n| n.to_string()),
                );
            }
            out.write_record(&record)?;
        }
    }
    out.flush()?;
    Ok(())
}
