//! `fairstream run`.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::bail;
use fairstream_core::{
    BuildEngine, Counters, Engine, EngineError, JumpLimit, Pipeline, RunCounts, RunOptions, Selection,
    SourceContext, SourceFiles, StopToken, TimeOptions, TimeRange,
};
use fairstream_engine::{CompiledEngine, ReferenceEngine, Role, Specification, VerifyingEngine};

use fairstream_fairness::{Compiled, EvidenceSink, Judge, JudgedEngine, KeyHash, significant};

use crate::args::{EngineKind, RunArguments};
use crate::checkpoints::{self, Checkpoints};
use crate::console::ConsoleSinks;
use crate::evidence::{self, Evidence};
use crate::interrupt::Interrupt;
use crate::joins::Joins;
use crate::left_out::lock;
use crate::live::{self, Live, RunSampler};
use crate::load::{Monitor, Plugins};
use crate::outputs::Outputs;
use crate::progress::{ProgressLine, counted, grouped, summary};
use crate::registry::{self, RunContext};
use crate::{ExitStatus, complain, left_out, load, note, outputs, report};

/// Builds the selected engine once the start of the clock is known.
pub(crate) fn build(
    spec: Specification,
    kind: EngineKind,
    verify: bool,
    judged: Option<(Compiled, Arc<Mutex<Judge>>)>,
    evidence: Option<(EvidenceSink, Option<KeyHash>)>,
) -> BuildEngine {
    Box::new(move |start| {
        type Built = Result<Box<dyn Engine>, EngineError>;
        let compiled = || -> Built { Ok(Box::new(CompiledEngine::new(&spec, start)?)) };
        let reference = || -> Built { Ok(Box::new(ReferenceEngine::new(&spec, start)?)) };
        let engine: Box<dyn Engine> = match (verify, kind) {
            (true, _) => {
                let engines = [("compiled", compiled()?), ("reference", reference()?)];
                Box::new(VerifyingEngine::new(engines, start)?)
            }
            (false, EngineKind::Compiled) => compiled()?,
            (false, EngineKind::Reference) => reference()?,
        };
        let Some((fairness, judge)) = judged else { return Ok(engine) };
        let columns: Vec<&str> = spec.wanted().iter().map(|column| column.name.as_str()).collect();
        let engine = JudgedEngine::new(engine, &fairness, &columns, judge)?;
        Ok(Box::new(match evidence {
            Some((sink, hash)) => engine.with_evidence(&fairness, start, sink, hash)?,
            None => engine,
        }))
    })
}

pub(crate) fn run(arguments: &RunArguments) -> anyhow::Result<ExitStatus> {
    if arguments.live {
        live::leave_on_panic();
    }
    let mut monitor = load::monitor(&arguments.input, Plugins::Load)?;
    if let Some(folder) = &arguments.journal {
        monitor.keep_journal(folder)?;
    }
    monitor.check(arguments.engine, &arguments.input.spec)?;
    if arguments.verify {
        // The reference engine must be able to evaluate it as well.
        monitor.check(EngineKind::Reference, &arguments.input.spec)?;
    }
    evidence::check(arguments, &monitor)?;
    if monitor.inputs.is_empty() {
        bail!("there is no input: name a file after the specification, or `csv:-` for standard input");
    }
    if let (Some(since), Some(until)) = (arguments.since, arguments.until)
        && since > until
    {
        bail!("--since {} is after --until {}", since.for_people(), until.for_people());
    }
    let stop = StopToken::default();
    let interrupt = Interrupt::watch(&stop);
    let context = SourceContext { stop: stop.clone(), ..SourceContext::default() };
    let time_range = TimeRange { since: arguments.since, until: arguments.until };
    let joins = Joins::read(&monitor, &context)?;
    let inputs = monitor.event_inputs()?;
    let mut checkpoints = Checkpoints::open(arguments, &monitor, &inputs)?;
    let positions = match &checkpoints {
        Some(checkpoints) => checkpoints.positions()?,
        None => vec![None; inputs.len()],
    };
    let sources = monitor.sources_from(&inputs, positions, time_range, &context, &joins)?;
    if checkpoints.is_some() {
        checkpoints::check_inputs(&inputs, &sources)?;
    }
    let columns = monitor.columns(&sources)?;
    let rules = monitor.fairness.as_ref().map(|fairness| fairness.rules().to_vec());
    let is_reported =
        outputs::wanted(arguments, &monitor).iter().any(|sink| registry::is_one_of(sink, &report::NAMES));
    let judge = rules.map(Judge::new);
    let judge = judge.map(|judge| if is_reported || arguments.live { judge.with_history() } else { judge });
    let judge = judge.map(|judge| Arc::new(Mutex::new(judge)));
    let counters: Arc<Counters> = Arc::default();
    let reported = monitor.fairness.clone().zip(judge.clone()).filter(|_| is_reported);
    let reported = reported.map(|(compiled, judge)| {
        let subject = report::Subject::of(arguments, &monitor, &sources);
        Arc::new(report::ReportedRun { judge, compiled, counters: Arc::clone(&counters), subject })
    });
    // Opened last, so that a mistake above does not destroy the verdicts of an earlier run.
    let run_context = RunContext { console: ConsoleSinks::new(arguments.color, judge.clone()), reported };
    let files: Vec<SourceFiles> = sources.iter().map(|source| source.source_files()).collect();
    let read: Vec<String> = files.iter().flat_map(SourceFiles::names).map(str::to_owned).collect();
    let outputs = outputs::open(arguments, &monitor, &read, &run_context, checkpoints.as_mut())?;
    let Outputs { sinks, bad_rows, evidence } = outputs;
    let options = RunOptions {
        since: arguments.since,
        until: arguments.until,
        reorder: arguments.reorder.unwrap_or_default(),
        times: TimeOptions {
            mode: arguments.clock,
            idle: arguments.idle,
            lateness: arguments.reorder.unwrap_or(TimeOptions::default().lateness),
            ..TimeOptions::default()
        },
        jumps: arguments.max_jump.map_or(JumpLimit::Plausible, JumpLimit::AtMost),
        bad_rows: bad_rows.policy.clone(),
        stop,
        counters,
        on_wait: Some(Arc::new(|reason: &str| {
            note(&format!(
                "failed: {reason}\nwaiting for an output to take what is left; press Ctrl-C, and again after 2 s, to end at once"
            ));
        })),
        on_note: Some(Arc::new(|text: &str| note(text))),
        ..RunOptions::default()
    };
    if checkpoints.is_some() && !arguments.quiet {
        let sinks = outputs::wanted(arguments, &monitor);
        // The terminal is read by people, who see that.
        let sinks: Vec<_> = sinks.into_iter().filter(|sink| sink.location != "console").collect();
        checkpoints::limits(&sinks).iter().for_each(|sentence| note(&format!("note: {sentence}")));
    }
    let title = monitor.fairness.as_ref().map(|fairness| fairness.file().title().to_owned());
    let title = title.unwrap_or_else(|| arguments.input.spec.display().to_string());
    let sampler =
        arguments.live.then(|| RunSampler::new(title, Arc::clone(&options.counters), judge.clone()));
    let screen = live::Screen::of(arguments, &monitor);
    // Verification evaluates all streams.
    let is_for_alarms = !arguments.verify && sinks.iter().all(|sink| sink.wants() == Selection::Alarms);
    let Monitor { spec, fairness, .. } = if is_for_alarms { monitor.for_alarms()? } else { monitor };
    let judged = fairness.zip(judge);
    let is_judged = judged.is_some();
    let by_rows = judged.as_ref().is_some_and(|(_, judge)| lock(judge).by_rows());
    let monitored = judged.clone();
    if !arguments.quiet && !is_judged && !spec.outline().iter().any(|stream| stream.role == Role::Trigger) {
        note("warning: the specification has no trigger, so nothing can be violated");
    }
    let sink = evidence.as_ref().map(Evidence::sink);
    let engine = build(spec, arguments.engine, arguments.verify, judged, sink);

    interrupt.start();
    let start = Instant::now();
    let is_quiet = arguments.quiet || arguments.live;
    let progress = ProgressLine::of_run(Arc::clone(&options.counters), is_quiet, is_judged, by_rows);
    let live = sampler.map(|sampler| Live::start(sampler, interrupt.clone(), screen));
    let companions = evidence.iter().map(Evidence::companion).chain(bad_rows.companion()).collect();
    let pipeline = Pipeline { sources, columns, engine, sinks, options };
    let report = match checkpoints.map(|checkpoints| checkpoints.start(companions)) {
        None => pipeline.run(),
        Some((checkpointing, continuation)) => pipeline.run_with_checkpoints(checkpointing, continuation),
    };
    drop(progress);
    drop(live);
    // An alarm without its evidence is worthless, so a failure to write it is reported first.
    evidence.map_or(Ok(()), Evidence::finish)?;
    if !arguments.quiet {
        let left_out = monitored.as_ref().map(|(_, judge)| left_out::summary(&lock(judge)));
        note(&(summary(&report.counts, start.elapsed(), is_judged) + &left_out.unwrap_or_default()));
        joins.sentences().iter().for_each(|sentence| note(sentence));
    }
    if let Some((_, judge)) = &monitored {
        left_out::warnings(&lock(judge)).iter().for_each(|warning| note(warning));
    }
    // For a fairness file the judge decides. An alarm that was cleared later still counts for the exit status.
    let violations = if is_judged { report.counts.alarms } else { report.counts.triggers };
    let nothing = |(file, judge): (Compiled, Arc<Mutex<Judge>>)| left_out::nothing(&file, &lock(&judge));
    let error = match report.error {
        Some(error) => Some(anyhow::Error::from(error)),
        None if interrupt.happened() => return Ok(ExitStatus::Interrupted),
        None => too_many_rejected(&report.counts, arguments.max_bad)
            .or_else(|| match monitored {
                Some(monitored) => nothing(monitored),
                None => (report.counts.evaluated == 0 && arguments.since.is_none())
                    .then(|| "no event was evaluated, so nothing was monitored".to_owned()),
            })
            .map(anyhow::Error::msg),
    };
    match error {
        // Neither hides the other.
        Some(error) if violations > 0 => {
            complain(&error);
            let what = if is_judged { "alarm" } else { "violation" };
            note(&format!("{} before this error, so the exit code is 3", counted(violations, what)));
            Ok(ExitStatus::ViolatedThenFailed)
        }
        Some(error) => Err(error),
        None if violations > 0 => Ok(ExitStatus::Violated),
        None => Ok(ExitStatus::NothingViolated),
    }
}

/// Why the verdicts are hardly about the data, if too many rows were rejected.
fn too_many_rejected(counts: &RunCounts, most: f64) -> Option<String> {
    let share = counts.rejected as f64 / counts.read.max(1) as f64;
    (share > most).then(|| {
        let late = match counts.late {
            0 => String::new(),
            late => format!(", {} of them because they came too late", grouped(late)),
        };
        format!(
            "{} of {} ({:.1} %) were skipped{late}: more than `--max-bad {}%` allows, so the verdicts are not about all of the data; \
             mend the rows, or allow for them with a larger `--max-bad`",
            grouped(counts.rejected),
            counted(counts.read, "row"),
            share * 100.0,
            significant(most * 100.0)
        )
    })
}
