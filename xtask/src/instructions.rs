//! `cargo xtask bench instructions`: compares the instructions per event, which are the same on every run, with
//! the recorded bounds. A change that makes the engine slower is detected however busy the machine is.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use crate::{cargo, root};

/// Workloads and their instructions per event.
const BOUNDS: &str = "xtask/instructions.txt";
/// Sizes of two runs. The difference leaves out what both have in common, above all startup and compilation.
const TRIALS: [u64; 2] = [10_000, 20_000];
/// Permitted increase in per cent. It allows for differences between compilers.
const TOLERANCE: f64 = 15.0;

/// Counts and compares; with `--note`, records the counts instead.
pub(crate) fn run(options: &[&str]) -> anyhow::Result<()> {
    let is_noted = match options {
        [] => false,
        ["--note"] => true,
        _ => bail!("`bench instructions` takes no option but --note"),
    };
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("instructions: SKIPPED, as valgrind is not installed");
        return Ok(());
    }
    cargo(&["build", "--release", "-p", "bench", "--bin", "bench-once"], &[])?;
    let path = root()?.join(BOUNDS);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut noted = String::new();
    let mut too_many = Vec::new();
    for line in text.lines() {
        let Some((workload, bound)) = line.split_once(' ').filter(|_| !line.starts_with('#')) else {
            // Writing to a string cannot fail.
            let _ = writeln!(noted, "{line}");
            continue;
        };
        let bound: f64 = bound.trim().parse().with_context(|| format!("{BOUNDS}: `{line}`"))?;
        let counts = TRIALS.map(|trials| count(workload, trials));
        let [Ok((few, few_events)), Ok((many, many_events))] = counts else {
            let reason =
                counts.into_iter().find_map(Result::err).map_or(String::new(), |error| format!("{error:#}"));
            bail!("{workload}: {reason}");
        };
        let cost = (many - few) as f64 / (many_events - few_events) as f64;
        let change = (cost / bound - 1.0) * 100.0;
        println!("{workload}: {cost:.0} instructions per event, {bound:.0} recorded ({change:+.1} %)");
        if change > TOLERANCE {
            too_many.push(workload.to_owned());
        }
        let _ = writeln!(noted, "{workload} {cost:.0}");
    }
    if is_noted {
        return std::fs::write(&path, noted).with_context(|| path.display().to_string());
    }
    if !too_many.is_empty() {
        bail!(
            "{} costs over {TOLERANCE} % more than {BOUNDS} notes; if that is the price of something worth it, \
             `cargo xtask bench instructions --note`",
            too_many.join(", ")
        );
    }
    Ok(())
}

/// Instructions of a run, and its number of events.
fn count(workload: &str, trials: u64) -> anyhow::Result<(u64, u64)> {
    let program = Path::new("target/release/bench-once");
    let root = root()?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(root.join(program))
        .args([workload, &trials.to_string()])
        .current_dir(root)
        .output()
        .context("valgrind")?;
    let printed = String::from_utf8_lossy(&output.stderr);
    let collected =
        printed.lines().find_map(|line| line.split_once("Collected : ")).map(|(_, count)| count.trim());
    let instructions = collected.and_then(|count| count.parse().ok());
    let events = String::from_utf8_lossy(&output.stdout).trim().parse().ok();
    instructions.zip(events).with_context(|| format!("valgrind says: {printed}"))
}
