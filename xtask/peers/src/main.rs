//! `cargo xtask bench`: fairstream and its alternatives on the same events, in one run.

mod compare;
mod dataflow;
mod end_to_end;
mod events;
mod files;
mod page;
mod process;
mod results;
mod rivals;
mod sqlite;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::compare::Missing;
use crate::end_to_end::COMMAND;
use crate::process::Tools;
use crate::results::{Reached, Results};
use crate::rivals::{Rival, Way};

/// The command-line options.
struct Options {
    quick: bool,
    /// A workload, `command`, or part of the name of a peer.
    only: Option<String>,
    max_trials: u64,
    baseline: Option<PathBuf>,
    /// Time after which a peer is stopped.
    limit: Duration,
    /// Maximum number of runs, and the total time after which no further run is started.
    runs: usize,
    enough: Duration,
    /// Path of the built command.
    fairstream: PathBuf,
    /// A Python with the packages that peers need, if it could be installed.
    python: PathBuf,
    out: PathBuf,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> anyhow::Result<Options> {
        let (mut quick, mut only, mut max_trials, mut baseline) = (false, None, u64::MAX, None);
        let mut limit = None;
        let (mut fairstream, mut out, mut python) = (None, None, PathBuf::from("python3"));
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--quick" => quick = true,
                "--only" => only = Some(value()?),
                "--max-trials" => {
                    let number = value()?;
                    max_trials = number.parse().with_context(|| format!("`{number}` trials"))?;
                }
                "--limit" => {
                    let seconds = value()?;
                    limit = Some(seconds.parse().with_context(|| format!("`{seconds}` seconds"))?);
                }
                "--baseline" => baseline = Some(value()?.into()),
                "--python" => python = value()?.into(),
                "--fairstream" => fairstream = Some(value()?.into()),
                "--out" => out = Some(value()?.into()),
                _ => bail!("unknown argument `{argument}`"),
            }
        }
        Ok(Options {
            quick,
            only,
            max_trials,
            baseline,
            limit: Duration::from_secs(limit.unwrap_or(if quick { 2 } else { 100 })),
            runs: if quick { 3 } else { 7 },
            enough: Duration::from_millis(if quick { 300 } else { 5_000 }),
            python,
            fairstream: fairstream.context("--fairstream: the command, built")?,
            out: out.context("--out: where results go")?,
        })
    }
}

fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> anyhow::Result<()> {
    let baseline = options.baseline.as_deref().map(read_results).transpose()?;
    let folder = options.out.join("events");
    if folder.exists() {
        // Left by a run that was interrupted.
        std::fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let load_before = bench::machine::load();
    let (tools, rivals, missing) = gather(options, folder);
    let results = Results { options, rivals: &rivals, missing, baseline, load_before };
    let comparison = compare::everything(options, &tools, &rivals, |so_far| {
        results.write(so_far, Reached::Workload).map(drop)
    })?;
    let is_whole_wanted = options.only.as_deref().is_none_or(|only| only == COMMAND);
    let whole = is_whole_wanted.then(|| end_to_end::measure(options)).transpose()?;
    println!("{}", results.write(&comparison, Reached::End(whole.as_ref()))?);
    std::fs::remove_dir_all(&tools.folder)?;
    println!("everything measured: {}", options.out.join(results::PAGE).display());
    Ok(())
}

fn read_results(path: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| format!("{} is no results.json", path.display()))
}

/// Finds the programs that peers need, the peers that can be run, and the reasons why the others cannot.
fn gather(options: &Options, folder: PathBuf) -> (Tools, Vec<Rival>, Missing) {
    let mut missing: Missing =
        rivals::MISSING.iter().map(|(name, reason)| ((*name).to_owned(), (*reason).to_owned())).collect();
    let tool = options.out.join("tools/bin/rtlola-cli");
    if !tool.exists() && !options.quick && compare::is_wanted("rtlola-cli", options.only.as_deref()) {
        eprintln!("installing rtlola-cli, which takes some minutes");
        let root = options.out.join("tools");
        quietly(
            Command::new("cargo")
                .args(["install", "rtlola-cli", "--version", "0.1.2", "--locked", "--quiet", "--root"])
                .arg(root),
        );
    }
    let tools = Tools { python: options.python.clone(), rtlola_cli: tool.exists().then_some(tool), folder };
    let mut present = Vec::new();
    for rival in rivals::all() {
        let reason = match &rival.way {
            Way::Here(_) => None,
            Way::Script { file, package } => tools.lacks(file).map(|reason| match package {
                Some(package) if reason.contains("No module") => {
                    format!("{reason} (`{} -m pip install {package}`)", tools.python.display())
                }
                _ => reason,
            }),
            Way::RtlolaCli => {
                tools.rtlola_cli.is_none().then(|| "it is installed by a run that is not quick".to_owned())
            }
        };
        match reason {
            None => present.push(rival),
            Some(reason) => {
                eprintln!("{}: MISSING, {reason}", rival.name);
                missing.push((rival.name.to_owned(), reason));
            }
        }
    }
    (tools, present, missing)
}

fn quietly(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
