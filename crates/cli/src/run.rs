//! `fairstream run`.

use std::sync::Arc;
use std::time::Instant;

use anyhow::bail;
use fairstream_core::{BuildEngine, Engine, Parts, Pipeline, RunOptions, SourceContext, Span, StopToken};
use fairstream_engine::{CompiledEngine, ReferenceEngine, Role, Specification, VerifyingEngine};

use crate::args::{EngineKind, RunArguments};
use crate::interrupt::Interrupt;
use crate::progress::{Progress, summary};
use crate::{Outcome, load, note, outputs};

/// Builds the engine that was asked for once it is known where the clock starts.
fn build(spec: Specification, kind: EngineKind, verify: bool) -> BuildEngine {
    Box::new(move |start| {
        let compiled = || Ok(Box::new(CompiledEngine::new(&spec, start)?) as Box<dyn Engine>);
        let reference = || Ok(Box::new(ReferenceEngine::new(&spec, start)?) as Box<dyn Engine>);
        match (verify, kind) {
            (true, _) => {
                let engines = [("compiled", compiled()?), ("reference", reference()?)];
                Ok(Box::new(VerifyingEngine::new(engines, start)?))
            }
            (false, EngineKind::Compiled) => compiled(),
            (false, EngineKind::Reference) => reference(),
        }
    })
}

pub(crate) fn run(arguments: &RunArguments) -> anyhow::Result<Outcome> {
    let spec = load::specification(&arguments.input.spec, arguments.engine)?;
    if arguments.verify {
        // The other engine, too, must be able to evaluate it.
        load::specification(&arguments.input.spec, EngineKind::Reference)?;
    }
    if arguments.input.inputs.is_empty() {
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
    let span = Span { since: arguments.since, until: arguments.until };
    let sources = load::sources(&arguments.input, spec.wanted(), span, &context)?;
    let columns = load::columns(&spec, &sources)?;
    // Opened last: a mistake above must not cost the user the verdicts of an earlier run.
    let parts: Vec<Parts> = sources.iter().map(|source| source.parts()).collect();
    let read: Vec<String> = parts.iter().flat_map(Parts::names).map(str::to_owned).collect();
    let (sinks, bad_rows) = outputs::open(arguments, &read)?;
    let options = RunOptions {
        since: arguments.since,
        until: arguments.until,
        reorder: arguments.reorder,
        bad_rows,
        stop,
        on_wait: Some(Arc::new(|reason: &str| {
            note(&format!(
                "failed: {reason}\nwaiting for an output to take what is left; press Ctrl-C twice to end at once"
            ));
        })),
        ..RunOptions::default()
    };
    if !arguments.quiet && !spec.outline().iter().any(|stream| stream.role == Role::Trigger) {
        note("warning: the specification has no trigger, so nothing can be violated");
    }
    let engine = build(spec, arguments.engine, arguments.verify);

    interrupt.start();
    let start = Instant::now();
    let progress = Progress::of_run(Arc::clone(&options.counters), arguments.quiet);
    let report = Pipeline { sources, columns, engine, sinks, options }.run();
    drop(progress);
    if !arguments.quiet {
        note(&summary(&report.counts, start.elapsed()));
        if report.counts.evaluated == 0 && report.error.is_none() {
            note("warning: no event was evaluated");
        }
    }
    match report.error {
        Some(error) => Err(error.into()),
        None if interrupt.happened() => Ok(Outcome::Interrupted),
        None if report.counts.triggers > 0 => Ok(Outcome::Violated),
        None => Ok(Outcome::NothingViolated),
    }
}
