//! `cargo xtask bench`: fairstream beside everything that one would pick instead, on the same events, in one run.

mod compare;
mod dataflow;
mod end_to_end;
mod events;
mod files;
mod page;
mod process;
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
use crate::rivals::{Rival, Way};

/// What the user asks for.
struct Options {
    quick: bool,
    /// A workload, the command as a whole, or part of the name of a peer.
    only: Option<String>,
    max_trials: u64,
    baseline: Option<PathBuf>,
    /// After this long a peer is stopped.
    limit: Duration,
    /// How often something runs at most, and how long it takes before it does not run again.
    runs: usize,
    enough: Duration,
    /// The command, built.
    fairstream: PathBuf,
    /// One with the packages that peers need, if it can be had.
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
        // Of a run that did not come to its end.
        std::fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let load_before = bench::machine::load();
    let (tools, rivals, missing) = gather(options, folder);
    let mut comparison = compare::everything(options, &tools, &rivals)?;
    comparison.missing.splice(0..0, missing);
    let is_whole_wanted = options.only.as_deref().is_none_or(|only| only == COMMAND);
    let whole = is_whole_wanted.then(|| end_to_end::measure(options)).transpose()?;
    let mut machine = bench::machine::describe();
    machine["load_before"] = load_before.into();
    machine["load_after"] = bench::machine::load().into();

    let mut text = format!("# Benchmarks\n\n{}", head(options, &machine));
    text += &page::headline(&comparison.measured, &rivals);
    text += &page::tables(&comparison.measured, &rivals);
    if let Some(whole) = &whole {
        text += &whole.page();
    }
    text += "\n## Who is compared, and how\n\n";
    let is_measured = |rival: &&Rival| comparison.measured.iter().any(|one| one.who == rival.name);
    for rival in rivals.iter().filter(is_measured) {
        let version = comparison.versions.iter().find(|(name, _)| name == rival.name);
        let version = version.map_or(String::new(), |(_, version)| format!(" {version}"));
        text += &format!("- **{}**{version}: {}.\n", rival.name, rival.about);
    }
    text += "\nNot measured:\n\n";
    for (name, reason) in &comparison.missing {
        text += &format!("- **{name}**: {reason}.\n");
    }
    if let Some(baseline) = &baseline {
        text += &page::against(baseline, &comparison.measured);
    }
    println!("{text}");
    for (name, svg) in page::figures(&comparison.measured, &rivals) {
        text += &format!("\n![{name}]({name})\n");
        write(&options.out.join(name), &svg)?;
    }
    let mut json = page::json(&comparison);
    json["machine"] = machine;
    json["quick"] = options.quick.into();
    json["end_to_end"] = whole.map_or(Value::Null, |whole| whole.json());
    write(&options.out.join("results.json"), &format!("{json:#}\n"))?;
    write(&options.out.join("benchmarks.md"), &text)?;
    std::fs::remove_dir_all(&tools.folder)?;
    println!("everything measured: {}", options.out.join("benchmarks.md").display());
    Ok(())
}

fn head(options: &Options, machine: &Value) -> String {
    let text = |name: &str| machine[name].as_str().unwrap_or("unknown").to_owned();
    let quick = if options.quick { " **Quick: the numbers mean little.**" } else { "" };
    format!(
        "Everybody ran on the same events in one run and said the same, or there would be no page. The median of up to \
         {} runs, ± half of what lies between the quickest and the slowest; a peer is stopped after {} s (`>`).{quick}\n\n{}, {} cores, load {} before and {} after; {}, commit {}{}.\n",
        options.runs,
        options.limit.as_secs(),
        text("cpu"),
        machine["cores"],
        text("load_before"),
        text("load_after"),
        text("rustc"),
        text("commit").chars().take(10).collect::<String>(),
        if machine["uncommitted_changes"] == true { " with changes" } else { "" },
    )
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| path.display().to_string())
}

fn read_results(path: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| format!("{} is no results.json", path.display()))
}

/// Programs that peers need, the peers that can be run, and why the others cannot.
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
