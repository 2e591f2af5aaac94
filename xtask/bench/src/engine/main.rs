//! `cargo xtask bench engine`: the compiled engine against the reference engine and against hand-written loops, on
//! the same events in memory.
//!
//! All must give the same verdicts: a difference is an error, not a number in a table.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program prints")]

mod compare;
mod contestant;
mod must_hold;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};

/// The command-line options.
struct Options {
    /// Fewer trials and shorter limits; requirements are not checked.
    quick: bool,
    only: Option<String>,
    max_trials: u64,
    reference_limit: Duration,
    /// Path of the JSON file.
    out: Option<PathBuf>,
}

impl Options {
    fn parse(arguments: impl Iterator<Item = String>) -> anyhow::Result<Options> {
        let mut arguments = arguments.peekable();
        let (mut quick, mut only, mut max_trials, mut out) = (false, None, None, None);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--quick" => quick = true,
                "--only" => only = Some(value()?),
                "--max-trials" => {
                    let number = value()?;
                    max_trials = Some(number.parse().with_context(|| format!("`{number}` trials"))?);
                }
                "--out" => out = Some(value()?.into()),
                _ => bail!("unknown argument `{argument}`"),
            }
        }
        if let Some(only) = &only
            && !bench::workload::NAMES.contains(&only.as_str())
        {
            bail!("no workload `{only}`; there are {}", bench::workload::NAMES.join(", "));
        }
        Ok(Options {
            quick,
            only,
            max_trials: max_trials.unwrap_or(u64::MAX).min(if quick { 100_000 } else { u64::MAX }),
            reference_limit: Duration::from_secs(if quick { 5 } else { 60 }),
            out,
        })
    }
}

fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Measures and reports. Returns whether all requirements hold.
fn run(options: &Options) -> anyhow::Result<bool> {
    let load_before = bench::machine::load();
    let measured = compare::everything(options)?;
    let requirements = must_hold::requirements(&measured);
    println!("{}", report::costs(&measured, options.reference_limit.as_secs()));
    println!("{}", report::growth(&measured));
    println!("{}", report::memory(&measured));
    println!("{}", report::must_hold(&requirements));
    if let Some(out) = &options.out {
        let mut json = report::json(&measured, &requirements);
        json["machine"] = bench::machine::describe();
        json["machine"]["load_before"] = load_before.into();
        json["machine"]["load_after"] = bench::machine::load().into();
        json["quick"] = options.quick.into();
        std::fs::write(out, format!("{json:#}\n")).with_context(|| out.display().to_string())?;
        println!("everything measured: {}", out.display());
    }
    Ok(options.quick || requirements.iter().all(|requirement| requirement.holds() != Some(false)))
}
