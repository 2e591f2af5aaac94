//! One run of the compiled engine, for profilers and instruction counters: `bench-once WORKLOAD TRIALS` prints the
//! number of events. `bench-once WORKLOAD TRIALS TIMES` runs it that many times, alternating with the hand-written
//! loop, and prints the time per event.

#![allow(clippy::print_stdout, reason = "other programs read its output")]

use std::rc::Rc;

use anyhow::Context;
use bench::measure::{Build, Measurement, run};
use bench::screenings::Published;
use bench::workload::Workload;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().context("which workload?")?;
    let trials = arguments.next().context("how many trials?")?.parse()?;
    let workload = match (Workload::invented(&name)?, Published::find()) {
        (None, Ok(path)) => Workload::published(&name, Rc::new(Published::read(&path)?))?,
        (invented, _) => invented,
    };
    let workload = workload.with_context(|| format!("no workload `{name}`"))?;
    let compiled: &Build<'_> = &|workload, start| workload.compiled(start);
    let by_hand: &Build<'_> = &|workload, start| Ok(workload.by_hand(start));
    let Some(times) = arguments.next() else {
        println!("{}", run(&workload, compiled, trials, None)?.events);
        return Ok(());
    };
    let mut measured = [("compiled", compiled), ("hand", by_hand)].map(|(system, build)| {
        (build, Measurement { workload: workload.name, system, trials, runs: Vec::new() })
    });
    for _ in 0..times.parse::<usize>().context("how often?")?.max(1) {
        for (build, measurement) in &mut measured {
            measurement.runs.push(run(&workload, *build, trials, None)?);
        }
    }
    for (_, measurement) in &measured {
        let [least, median, _] = measurement.ns_per_event();
        println!("{}: {median:.1} ns per event, {least:.1} at least", measurement.system);
    }
    Ok(())
}
