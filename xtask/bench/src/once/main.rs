//! One run of the compiled engine, or several, for a tool that counts instructions or says where time goes:
//! `bench-once WORKLOAD TRIALS [TIMES]`. Says how many events a run had.

#![allow(clippy::print_stdout, reason = "talking to another program is what this one is for")]

use anyhow::Context;
use bench::measure::run;
use bench::workload::Workload;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().context("which workload?")?;
    let trials = arguments.next().context("how many trials?")?.parse()?;
    let workload = Workload::invented(&name)?.with_context(|| format!("no workload `{name}`"))?;
    let times: u64 = arguments.next().map_or(Ok(1), |times| times.parse())?;
    let mut events = 0;
    for _ in 0..times {
        events = run(&workload, &|workload, start| workload.compiled(start), trials, None)?.events;
    }
    println!("{events}");
    Ok(())
}
