//! `cargo xtask COMMAND`: tasks for developers of this repository. One file per command.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program prints")]

mod bench;
mod ci;
mod corpus;
mod dependencies;
mod instructions;
mod python;
mod readers;
mod reproduce;

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};

const HELP: &str = "\
cargo xtask ci      formatting, lints, documentation and every test: what must pass before a commit
cargo xtask corpus  public tables through `init`, `check` and `report`, with every count compared; part of ci
cargo xtask bench [--quick] [--only NAME] [--max-trials N] [--limit SECONDS] [--baseline RESULTS]
                    fairstream and its alternatives on the same events, into target/bench/benchmarks.md
cargo xtask bench engine [--quick] [--only NAME] [--max-trials N]
                    the engines against each other and against hand-written loops, with requirements
cargo xtask bench state [--max-trials N]
                    capturing, encoding and resuming the state of 10⁵ to 10⁷ open trials
cargo xtask bench instructions [--note]
                    instructions per event, compared with the recorded bounds; part of ci
cargo xtask bench adapters [--quick] [--only FORMAT] [--lake GIGABYTES]
                    the sources against the fastest readers of their formats; with --lake also a folder of Parquet
cargo xtask reproduce [NAME] [--quick]
                    the experiments of the paper and those of the guarantee, into target/reproduce/reproduce.md, with figures";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["bench", "engine", options @ ..] => bench::engine(options),
        ["bench", "state", options @ ..] => bench::state(options),
        ["bench", "adapters", options @ ..] => readers::adapters(options),
        ["bench", "instructions", options @ ..] => instructions::run(options),
        ["bench", options @ ..] if options.iter().any(|option| ["--help", "-h"].contains(option)) => {
            println!("{}", bench::HELP);
            Ok(())
        }
        ["bench", options @ ..] => bench::peers(options),
        ["ci"] => ci::run(),
        ["corpus"] => corpus::run(),
        ["reproduce", options @ ..] => reproduce::run(options),
        ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(())
        }
        _ => {
            eprintln!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the workspace.
fn root() -> anyhow::Result<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("no workspace around xtask")
}

/// Runs cargo. Returns an error if it fails.
fn cargo(arguments: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<()> {
    println!("$ cargo {}", arguments.join(" "));
    let status = Command::new(env!("CARGO"))
        .args(arguments)
        .envs(environment.iter().copied())
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!("cargo {} failed", arguments[0]);
    }
    Ok(())
}
