//! `cargo xtask reproduce [NAME] [--quick]`: the program behind the command.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program prints")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, bail};
use reproduce::{EXPERIMENTS, Extent, Page};

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut arguments: impl Iterator<Item = String>) -> anyhow::Result<()> {
    let (mut out, mut extent, mut only) = (PathBuf::from("target/reproduce"), Extent::FULL, None);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--out" => out = arguments.next().context("--out needs a folder")?.into(),
            "--quick" => extent = Extent::QUICK,
            name if EXPERIMENTS.iter().any(|experiment| experiment.name == name) => only = Some(argument),
            other => {
                let names: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
                bail!("there is no experiment `{other}`; there are {}", names.join(", "));
            }
        }
    }
    let mut page = Page::new(extent);
    for experiment in EXPERIMENTS.iter().filter(|one| only.as_deref().is_none_or(|only| only == one.name)) {
        let start = Instant::now();
        let outcome = (experiment.run)(extent).with_context(|| experiment.name)?;
        println!("{:<12} {:.1} s", experiment.name, start.elapsed().as_secs_f64());
        if let Some(reason) = &outcome.skipped {
            println!("SKIPPED {}: {reason}", experiment.name);
        }
        page.add(experiment, outcome);
    }
    page.write(&out)?;
    println!("written: {}", out.join("reproduce.md").display());
    Ok(())
}
