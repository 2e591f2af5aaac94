//! Command-line arguments.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use fairstream_core::{ClockMode, Time, TimeFormat, parse_duration};

use crate::generate::GenerateArguments;
use crate::sweep::SweepArguments;

/// Watches the decisions of automated systems as a stream of events, and says while it happens
/// whether groups of people are treated differently.
#[derive(Debug, Parser)]
#[command(
    name = "fairstream",
    bin_name = "fairstream",
    version,
    after_help = "Exit codes: 0 nothing violated, 1 violated, 2 error, 3 violated and then an error, 130 interrupted.

Try:  fairstream run specs/hiring.toml examples/hiring/events.csv"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Monitor events: read INPUTs, evaluate SPEC, report violations
    Run(RunArguments),
    /// Monitor events like `run`, and write a report: one HTML page [default: report.html]
    Report(RunArguments),
    /// Watch invented employers, fair and unfair: nothing to prepare; a report is written to report.html
    Demo(DemoArguments),
    /// Say what a specification monitors, and whether the inputs have what it reads
    Check(CheckArguments),
    /// Recompute an alarm from its evidence alone, and show the calculation
    Explain(ExplainArguments),
    /// Write the events of a scenario: invented ones, or COMPAS from its file
    #[command(subcommand)]
    Generate(GenerateArguments),
    /// Print the RTLola specification that a fairness file comes to
    Compile(CompileArguments),
    /// Propose a fairness file for a data file, from its columns and values
    Init(InitArguments),
    /// Try confidences and tolerances on many runs: where would a fairness file have raised alarms?
    Sweep(SweepArguments),
    /// Look at the checkpoints of a run
    #[command(subcommand)]
    Checkpoint(CheckpointCommand),
    /// List the kinds of inputs and outputs, with their options
    Adapters {
        /// What a plugin offers, instead of what is built in; its code is loaded for that
        #[arg(long, value_name = "PATH")]
        plugin: Option<PathBuf>,
    },
    /// Print a script that completes this command in a shell
    #[command(after_help = "For bash, until you close it:  source <(fairstream completions bash)")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
INPUT and SINK are written [KIND:]LOCATION[?OPTION=VALUE&...]. The kind is known from the file's
ending where there is one; `fairstream adapters` lists kinds and options.

Examples:
  fairstream run hiring.toml events.csv
      what is unfair, for people
  fairstream run hiring.toml events.csv --to verdicts.jsonl --to console
      every alarm and every trigger into a file as well
  fairstream run hiring.toml events.csv --to '-?select=changes' | jq .
      every change of every stream, as JSON lines
  fairstream run hiring.toml 'applications.csv?delimiter=;' decisions.csv.gz --time date
      two inputs, merged by the column `date`
  fairstream run hiring.toml lake --time decided_at --since 2026-01-01
      all Parquet files below the folder `lake`, without those that end before 2026
  zcat events.csv.gz | fairstream run hiring.toml csv:-
      rows from a pipe, evaluated as they come
  fairstream run hiring.toml lake --checkpoint state --to alarms.jsonl
      continues where it was when it is started again

Exit codes: 0 nothing violated, 1 violated, 2 error, 3 violated and then an error, 130 interrupted.")]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) input: InputArguments,

    /// Where verdicts go; may be given several times. `console` is for people, `-` is JSON lines
    /// on standard output [default: console]
    #[arg(long, value_name = "SINK", allow_hyphen_values = true)]
    pub(crate) to: Vec<String>,

    /// Write every trial that is counted there (.jsonl, .parquet, .csv, .arrow): what `fairstream explain` recomputes
    /// alarms from. Trials need a horizon
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    pub(crate) evidence: Option<String>,

    /// Write hashes instead of keys into the evidence, so that it can be shared; FILE holds the secret, 16 bytes or
    /// more, without which hashes cannot be matched to keys
    #[arg(long, value_name = "FILE", requires = "evidence")]
    pub(crate) hash_keys: Option<PathBuf>,

    /// Leave out events before this (seconds, a date, or RFC 3339); the clock of periodic streams
    /// starts here
    /// [default: the first event, or zero for times relative to the start]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) since: Option<Time>,

    /// Leave out events after this; after the last event the clock runs on to here
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = last_time)]
    pub(crate) until: Option<Time>,

    /// Let rows be this late, such as 10m: they wait that long to be put in order of time
    /// [default: 0s; and 1m where the clock of this machine decides]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) reorder: Option<Duration>,

    /// Refuse a row that is further ahead of the row before it in its input, such as 30d: one wrong date would make all
    /// later rows late
    /// [default: a day ahead of the row before and of the clock of this machine is refused from a pipe, and reported from a
    /// file]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) max_jump: Option<Duration>,

    /// What lets time pass between two events: `wall` is the clock of this machine, less the allowed lateness; `events` is
    /// nothing; `auto` is the clock while every pipe is up to date, and events otherwise
    #[arg(long, value_name = "CLOCK", default_value = "auto")]
    pub(crate) clock: ClockMode,

    /// How long to wait for an input that is a pipe and silent, while others have events
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "30s")]
    pub(crate) idle: Duration,

    /// Keep checkpoints in this folder: the same command, started again, continues where the last one stands
    #[arg(long, value_name = "DIR")]
    pub(crate) checkpoint: Option<PathBuf>,

    /// How much time is between two checkpoints
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "30s", requires = "checkpoint")]
    pub(crate) checkpoint_every: Duration,

    /// Write what comes from standard input to this folder before it is evaluated, so that it can be read again
    #[arg(long, value_name = "DIR", requires = "checkpoint")]
    pub(crate) journal: Option<PathBuf>,

    /// Begin anew, and discard the checkpoints and what has been written since the first of them
    #[arg(long, requires = "checkpoint")]
    pub(crate) restart: bool,

    /// Continue although the specification has changed: keep the state of what is unchanged, begin the rest anew, and say
    /// which
    #[arg(long, requires = "checkpoint", conflicts_with = "restart")]
    pub(crate) carry_over: bool,

    /// What to do about a row that cannot be read: `stop` with an error, `skip` it and say so, or
    /// skip it and list it in a CSV file with `file=PATH`
    #[arg(long, value_name = "POLICY", default_value = "stop")]
    pub(crate) on_bad_row: OnBadRow,

    /// End with an error if more of the rows than this were skipped: too many for the verdicts to be about the data
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "1%")]
    pub(crate) max_bad: f64,

    /// What evaluates SPEC: `compiled` is fast, `reference` is the RTLola interpreter
    #[arg(long, value_name = "ENGINE", value_enum, default_value_t = EngineKind::Compiled)]
    pub(crate) engine: EngineKind,

    /// Evaluate with both engines, and stop at the first difference between them; slow
    #[arg(long)]
    pub(crate) verify: bool,

    /// Whether `console` uses colour
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Colour::Auto)]
    pub(crate) color: Colour,

    /// Show rates, gaps and alarms on the whole terminal while they move: q or Ctrl-C stops, ↑ and ↓ scroll. Where
    /// standard error is no terminal, a line now and then
    #[arg(long)]
    pub(crate) live: bool,

    /// No progress and no summary on standard error
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fairstream run fairness.toml events.csv --to verdicts.jsonl --evidence evidence.parquet
  fairstream explain verdicts.jsonl evidence.parquet --alarm 1

The exit code is 0 if the alarm is the same when it is recomputed, else 2.")]
pub(crate) struct ExplainArguments {
    /// The verdicts of a run, as a sink wrote them
    pub(crate) verdicts: String,

    /// The evidence of the same run
    #[arg(required_unless_present = "list")]
    pub(crate) evidence: Option<String>,

    /// List the alarms with their numbers
    #[arg(long, conflicts_with_all = ["alarm", "all", "trials"])]
    pub(crate) list: bool,

    /// Write the trials that the alarm rests on, as rows of evidence: .csv, .jsonl, .parquet or .arrow by the ending
    #[arg(long, value_name = "FILE")]
    pub(crate) trials: Option<String>,

    /// Which alarm, counted from 1
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) alarm: usize,

    /// Show every block, not only the first and the last
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CheckpointCommand {
    /// List the checkpoints of a folder, the newest first
    List {
        /// The folder that `run --checkpoint` names
        folder: PathBuf,
    },
    /// Show how far the run of a checkpoint had come, and which files it consists of
    Show {
        /// The folder that `run --checkpoint` names
        folder: PathBuf,
        /// Which checkpoint [default: the newest]
        #[arg(long, value_name = "NUMBER")]
        number: Option<u64>,
    },
    /// Check that every file of every checkpoint is what was written
    Verify {
        /// The folder that `run --checkpoint` names
        folder: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// Where the report goes, if there is nothing yet
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    pub(crate) to: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    #[command(flatten)]
    pub(crate) input: InputArguments,

    /// Say how each stream is evaluated, and what costs more the more instances there are
    #[arg(long)]
    pub(crate) plan: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The specification runs on every RTLola engine: fairstream's, and others.

Examples:
  fairstream compile specs/hiring.toml > hiring.lola
  fairstream run hiring.lola events.csv")]
pub(crate) struct CompileArguments {
    /// The fairness file (.toml)
    pub(crate) file: PathBuf,

    /// Data that says which types columns have, where the file does not
    #[arg(value_name = "INPUT")]
    pub(crate) inputs: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
On a terminal it asks what it cannot know for sure; otherwise it takes its best guess.

Examples:
  fairstream init events.csv > fairness.toml
  fairstream check fairness.toml events.csv")]
pub(crate) struct InitArguments {
    /// The data, such as events.csv
    pub(crate) input: String,

    /// The column that says when an event happened [default: one that is called so]
    #[arg(long, value_name = "COLUMN")]
    pub(crate) time: Option<String>,

    /// Write the file there, if there is none yet [default: print it]
    #[arg(long, value_name = "FILE")]
    pub(crate) to: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct InputArguments {
    /// What to monitor: a fairness file (.toml) or an RTLola specification (.lola)
    pub(crate) spec: PathBuf,

    /// Where events come from; several inputs are merged by time
    #[arg(value_name = "INPUT")]
    pub(crate) inputs: Vec<String>,

    /// The column that says when an event happened; `row` takes rows in their order, one a second [default: time]
    #[arg(long, value_name = "COLUMN")]
    pub(crate) time: Option<String>,

    /// How that is written: auto, iso, rfc3339, date, s, ms, us, ns, relative, or a pattern such as '%d.%m.%Y %H:%M'
    /// [default: auto]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) time_format: Option<TimeFormat>,

    /// Put the rows of each input in order of time first; what does not fit into memory waits in TMPDIR
    #[arg(long)]
    pub(crate) sort: bool,

    /// Trust this fairness file, as it is: it may load plugins, and read and write outside of its folder. May be given
    /// several times
    #[arg(long, value_name = "FILE")]
    pub(crate) trust: Vec<PathBuf>,
}

/// A time, or a date that no time can have, for "for ever".
fn last_time(text: &str) -> Result<Time, String> {
    let read = |text: &str| text.parse::<Time>();
    let is_far = |year: &str| year.bytes().all(|byte| byte.is_ascii_digit()) && year > "2261";
    match (read(text), text.split_at_checked(4)) {
        (Ok(time), _) => Ok(time),
        (Err(_), Some((year, rest))) if is_far(year) && read(&format!("2000{rest}")).is_ok() => {
            Ok(Time(i64::MAX))
        }
        (Err(error), _) => Err(error.to_string()),
    }
}

/// A share such as `1%` or `0.01`.
fn share(text: &str) -> Result<f64, String> {
    let (number, of) = match text.strip_suffix('%') {
        Some(number) => (number.trim(), 100.0),
        None => (text, 1.0),
    };
    let share = number.parse::<f64>().map(|number| number / of);
    share
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| format!("`{text}` is no share; write it as 1% or 0.01"))
}

#[derive(Clone, Debug)]
pub(crate) enum OnBadRow {
    Stop,
    Skip,
    File(String),
}

impl OnBadRow {
    /// The file that bad rows are listed in.
    pub(crate) fn file(&self) -> Option<&str> {
        match self {
            OnBadRow::File(path) => Some(path),
            OnBadRow::Stop | OnBadRow::Skip => None,
        }
    }
}

impl std::str::FromStr for OnBadRow {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<OnBadRow, &'static str> {
        match (text, text.strip_prefix("file=")) {
            ("stop", _) => Ok(OnBadRow::Stop),
            ("skip", _) => Ok(OnBadRow::Skip),
            (_, Some(path)) if !["", "-"].contains(&path) => Ok(OnBadRow::File(path.into())),
            _ => Err("there are `stop`, `skip` and `file=PATH`"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineKind {
    Compiled,
    Reference,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    Always,
    Never,
}

impl Colour {
    /// Whether to colour standard output.
    pub(crate) fn is_on(self) -> bool {
        match self {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => {
                io::stdout().is_terminal()
                    && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            }
        }
    }
}
