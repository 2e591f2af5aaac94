//! The command line: parses arguments, calls the libraries, renders results and returns an exit code. Holds no logic
//! that a library could.

mod adapters;
mod args;
mod bad_rows;
mod chart;
mod check;
mod checkpoint_command;
mod checkpoints;
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
mod places;
mod progress;
mod records;
mod registry;
mod repeat;
mod report;
mod run;
mod sample;
mod standings;
mod sweep;
mod trust;
mod worker;

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use fairstream_core::{RunError, SourceError, StateError, brief, visible_lines};
use fairstream_engine::SpecError;
use fairstream_fairness::FileError;

use args::{Arguments, Command};

/// The exit status of a command. The numbers are documented in `--help`.
enum ExitStatus {
    NothingViolated = 0,
    Violated = 1,
    Failed = 2,
    ViolatedThenFailed = 3,
    Interrupted = 130,
}

/// Runs the command that the process was called with.
pub fn main() -> ExitCode {
    let status = match std::env::args_os().nth(1) {
        // No command of users: neither help nor completions have it.
        Some(argument) if argument == fairstream_plugin::WORKER => worker::serve(),
        _ => command(Arguments::parse_from(std::env::args_os().map(standard_input)).command),
    };
    // A source that did not stop in time may not have been dropped.
    #[cfg(unix)]
    fairstream_plugin::end_workers();
    ExitCode::from(match status {
        Ok(status) => status as u8,
        Err(error) => {
            complain(&error);
            ExitStatus::Failed as u8
        }
    })
}

fn command(command: Command) -> anyhow::Result<ExitStatus> {
    match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Report(arguments) => report::report(arguments),
        Command::Demo(arguments) => demo::demo(&arguments),
        Command::Explain(arguments) => explain::explain(&arguments),
        Command::Check(arguments) => check::check(&arguments),
        Command::Compile(arguments) => compile::compile(&arguments),
        Command::Init(arguments) => init::init(&arguments),
        Command::Sweep(arguments) => sweep::sweep(&arguments),
        Command::Generate(arguments) => generate::generate(&arguments),
        Command::Checkpoint(command) => checkpoint_command::checkpoint(&command),
        Command::Adapters { plugin: None } => print(&adapters::built_in()),
        Command::Adapters { plugin: Some(path) } => adapters::of_plugin(&path).and_then(|text| print(&text)),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "fairstream", &mut script);
            print_file(&String::from_utf8_lossy(&script))
        }
    }
}

/// Names the kind of `-?OPTION=VALUE`, JSON lines, so that it is not taken for a flag.
fn standard_input(argument: OsString) -> OsString {
    match argument.to_str() {
        Some(text) if text.starts_with("-?") => format!("jsonl:{text}").into(),
        _ => argument,
    }
}

/// Writes to standard output, without what could act on a terminal.
fn print(text: &str) -> anyhow::Result<ExitStatus> {
    write_out(&visible_lines(text))
}

/// Writes a file to standard output, as it is; but not what could act on a terminal, to one.
fn print_file(text: &str) -> anyhow::Result<ExitStatus> {
    write_out(&if io::stdout().is_terminal() { visible_lines(text) } else { Cow::Borrowed(text) })
}

/// Writes to standard output text whose control characters are our own. A reader that hung up is not an error.
fn write_out(text: &str) -> anyhow::Result<ExitStatus> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitStatus::NothingViolated),
    }
}

/// Writes lines to standard error, without what could act on a terminal. A failure to do so cannot be reported, and is
/// ignored.
fn note(text: &str) {
    note_styled(&visible_lines(text));
}

/// The same for text whose control characters are our own.
fn note_styled(text: &str) {
    let text = format!("{text}\n");
    if !live::hold(live::To::Error, &text) {
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
}

/// How many characters of a line of a specification are shown.
const LONGEST_LINE: usize = 400;

fn has_long_lines(text: &str) -> bool {
    text.lines().any(|line| line.len() > LONGEST_LINE)
}

fn with_short_lines(text: &str) -> String {
    let short = |line| brief(line, LONGEST_LINE);
    text.lines().map(short).collect::<Vec<_>>().join("\n")
}

fn complain(error: &anyhow::Error) {
    match (error.downcast_ref::<SpecError>(), error.downcast_ref::<FileError>()) {
        (Some(error), _) => {
            let plain = error.render(false);
            // The source that it shows may have escape sequences of its own, and lines of any length.
            match visible_lines(&plain) {
                Cow::Borrowed(text) if io::stderr().is_terminal() && !has_long_lines(text) => {
                    note_styled(&error.render(true));
                }
                shown => note(&with_short_lines(&shown)),
            }
        }
        (_, Some(error)) => note(&error.to_string()),
        _ => note(&format!("error: {error:#}")),
    }
    if let Some(RunError::Resume(StateError::Changed(_))) = error.downcast_ref() {
        note(
            "`--carry-over` continues with what is unchanged, and begins the rest anew; `--restart` begins everything anew",
        );
    }
    if let Some(RunError::Source(SourceError::BadRow { .. })) = error.downcast_ref() {
        note(
            "to go on without such rows: `--on-bad-row skip`, or `--on-bad-row file=PATH` to have them listed",
        );
    }
}
