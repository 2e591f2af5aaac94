//! One run of the compiled engine, for a tool that counts instructions: `bench-once WORKLOAD TRIALS`. Says how many
//! events there were.

#![allow(clippy::print_stdout, reason = "talking to another program is what this one is for")]

use anyhow::Context;
use bench::measure::run;
use bench::workload::Workload;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().context("which workload?")?;
    let trials = arguments.next().context("how many trials?")?.parse()?;
    let workload = Workload::invented(&name)?.with_context(|| format!("no workload `{name}`"))?;
    let run = run(&workload, &|workload, start| workload.compiled(start), trials, None)?;
    println!("{}", run.events);
    Ok(())
}
