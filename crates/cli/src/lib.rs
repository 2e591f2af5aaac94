//! The command line: parses arguments, calls the libraries, renders results and returns an exit code. Holds no logic
//! that a library could.

mod adapters;
mod args;
mod bad_rows;
mod chart;
mod check;
mod compile;
mod console;
mod demo;
mod evidence;
mod explain;
mod generate;
mod init;
mod interrupt;
mod joins;
mod left_out;
mod live;
mod load;
mod median;
mod null_sink;
mod outputs;
mod progress;
mod records;
mod registry;
mod repeat;
mod report;
mod run;
mod sample;
mod standings;
mod sweep;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use fairstream_core::{RunError, SourceError};
use fairstream_engine::SpecError;
use fairstream_fairness::FileError;

use args::{Arguments, Command};

/// The exit status of a command. The numbers are documented in `--help`.
enum ExitStatus {
    NothingViolated = 0,
    Violated = 1,
    Failed = 2,
    Interrupted = 130,
}

/// Runs the command that the process was called with.
pub fn main() -> ExitCode {
    let arguments = std::env::args_os().map(standard_input);
    let status = match Arguments::parse_from(arguments).command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Report(arguments) => report::report(arguments),
        Command::Demo(arguments) => demo::demo(&arguments),
        Command::Explain(arguments) => explain::explain(&arguments),
        Command::Check(arguments) => check::check(&arguments),
        Command::Compile(arguments) => compile::compile(&arguments),
        Command::Init(arguments) => init::init(&arguments),
        Command::Sweep(arguments) => sweep::sweep(&arguments),
        Command::Generate(arguments) => generate::generate(&arguments),
        Command::Adapters { plugin: None } => print(&adapters::built_in()),
        Command::Adapters { plugin: Some(path) } => adapters::of_plugin(&path).and_then(|text| print(&text)),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "fairstream", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
    };
    ExitCode::from(match status {
        Ok(status) => status as u8,
        Err(error) => {
            complain(&error);
            ExitStatus::Failed as u8
        }
    })
}

/// Names the kind of `-?OPTION=VALUE`, JSON lines, so that it is not taken for a flag.
fn standard_input(argument: OsString) -> OsString {
    match argument.to_str() {
        Some(text) if text.starts_with("-?") => format!("jsonl:{text}").into(),
        _ => argument,
    }
}

/// Writes to standard output. A reader that hung up is not an error.
fn print(text: &str) -> anyhow::Result<ExitStatus> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitStatus::NothingViolated),
    }
}

/// Writes a line to standard error. A failure to do so cannot be reported, and is ignored.
fn note(text: &str) {
    let text = format!("{text}\n");
    if !live::hold(live::To::Error, &text) {
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
}

fn complain(error: &anyhow::Error) {
    match (error.downcast_ref::<SpecError>(), error.downcast_ref::<FileError>()) {
        (Some(error), _) => note(&error.render(io::stderr().is_terminal())),
        (_, Some(error)) => note(&error.to_string()),
        _ => note(&format!("error: {error:#}")),
    }
    if let Some(RunError::Source(SourceError::BadRow { .. })) = error.downcast_ref() {
        note(
            "to go on without such rows: `--on-bad-row skip`, or `--on-bad-row file=PATH` to have them listed",
        );
    }
}
