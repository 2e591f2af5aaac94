//! `fairstream run`.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::bail;
use fairstream_core::{
    BuildEngine, Engine, Pipeline, RunOptions, Selection, Sink, SinkRequest, SourceContext, StopToken,
};
use fairstream_engine::ReferenceEngine;

use crate::args::RunArguments;
use crate::console::ConsoleSinks;
use crate::interrupt::Interrupt;
use crate::kinds::{self, Address};
use crate::progress::{Progress, summary};
use crate::{Outcome, bad_rows, load};

pub(crate) fn run(arguments: &RunArguments) -> anyhow::Result<Outcome> {
    let spec = load::specification(&arguments.input.spec)?;
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
    let sources = match load::sources(&arguments.input, spec.wanted(), &context) {
        // Who stops waiting for a pipe's first row need not be told that it is empty.
        Err(_) if interrupt.happened() => return Ok(Outcome::Interrupted),
        sources => sources?,
    };
    let columns = load::columns(&spec, &sources)?;
    // Opened last: a mistake above must not cost the user the verdicts of an earlier run.
    let options = RunOptions {
        since: arguments.since,
        until: arguments.until,
        reorder: arguments.reorder,
        bad_rows: bad_rows::policy(&arguments.on_bad_row)?,
        stop,
        ..RunOptions::default()
    };
    let sinks = sinks(arguments)?;
    let engine: BuildEngine =
        Box::new(move |start| Ok(Box::new(ReferenceEngine::new(&spec, start)?) as Box<dyn Engine>));

    let start = Instant::now();
    let progress = Progress::show(Arc::clone(&options.counters), arguments.quiet);
    let report = Pipeline { sources, columns, engine, sinks, options }.run();
    drop(progress);
    if !arguments.quiet {
        eprintln!("{}", summary(&report.counts, start.elapsed()));
    }
    match report.error {
        Some(error) => Err(error.into()),
        None if interrupt.happened() => Ok(Outcome::Interrupted),
        None if report.counts.triggers > 0 => Ok(Outcome::Violated),
        None => Ok(Outcome::NothingViolated),
    }
}

fn sinks(arguments: &RunArguments) -> anyhow::Result<Vec<Box<dyn Sink>>> {
    let console = ConsoleSinks::new(arguments.color);
    let to_console = ["console".to_owned()];
    let wanted = if arguments.to.is_empty() { to_console.as_slice() } else { &arguments.to };
    let mut sinks = Vec::new();
    for sink in wanted {
        let address = Address::parse(sink);
        let kind = kinds::sink_for(&address, console)?;
        if arguments
            .input
            .inputs
            .iter()
            .any(|input| is_same_file(Address::parse(input).location, address.location))
        {
            bail!("{} is an input; writing verdicts there would destroy it", address.location);
        }
        sinks.push(kind.open(&SinkRequest {
            location: address.location.to_owned(),
            select: address.options.parse("select", Selection::Triggers)?,
            options: address.options,
            resume: None,
        })?);
    }
    Ok(sinks)
}

fn is_same_file(one: &str, other: &str) -> bool {
    let whole = |path: &str| Path::new(path).canonicalize().ok();
    whole(one).is_some_and(|path| path.is_file() && Some(path) == whole(other))
}
