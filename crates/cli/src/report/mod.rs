//! Reports on a run: a page, or only its figures. Written once, at the end, from the history of the judge.

mod figure;
mod page;
mod sinks;
mod summary;
mod words;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use fairstream_core::{Source, Time};
use sha2::{Digest, Sha256};

use fairstream_fairness::{Judge, RateHistory, Standing};

use crate::args::RunArguments;
use crate::load::Monitor;
use crate::registry::{self, Address};
use crate::run;

pub(crate) use self::page::PageData;
use self::sinks::HTML;
pub(crate) use self::sinks::{NAMES, ReportFormat, ReportSinks, ReportedRun};

/// `fairstream report`: a run with a report sink and the console sink.
pub(crate) fn report(mut arguments: RunArguments) -> anyhow::Result<crate::ExitStatus> {
    let is_one_of = |to: &String, names: &[&str]| registry::is_one_of(&Address::parse(to), names);
    if !arguments.to.iter().any(|to| is_one_of(to, &[HTML])) {
        arguments.to.splice(0..0, ["report.html".to_owned()]);
    }
    if arguments.to.iter().all(|to| is_one_of(to, &NAMES)) {
        arguments.to.push("console".to_owned());
    }
    run::run(&arguments)
}

/// The subject of a report.
pub(crate) struct Subject {
    /// Path of the fairness file.
    pub(crate) file: String,
    pub(crate) text: String,
    pub(crate) inputs: Vec<String>,
    /// The files that the inputs consist of; those that are no files have no hash.
    pub(crate) files: Vec<String>,
    /// The command that was run.
    pub(crate) command: String,
    /// When the run was started.
    pub(crate) started: Time,
}

impl Subject {
    /// `sources` are the inputs, opened.
    pub(crate) fn of(arguments: &RunArguments, monitor: &Monitor, sources: &[Box<dyn Source>]) -> Subject {
        let path = &arguments.input.spec;
        let words: Vec<String> = std::env::args().skip(1).map(quoted).collect();
        Subject {
            file: path.display().to_string(),
            // The file was read before. If it has been deleted since, the page omits its text.
            text: std::fs::read_to_string(path).unwrap_or_default(),
            inputs: monitor.inputs.iter().map(Address::to_string).collect(),
            files: files_of(monitor, sources),
            command: format!("fairstream {}", words.join(" ")),
            started: now(),
        }
    }

    /// The SHA-256 of the fairness file.
    fn sha256(&self) -> String {
        hex(&Sha256::digest(self.text.as_bytes()))
    }

    /// The files that were read, each with its SHA-256 as it is now.
    fn input_hashes(&self) -> Vec<(String, Option<String>)> {
        self.files.iter().map(|name| (name.clone(), file_hash(Path::new(name)))).collect()
    }
}

/// The files of every source, or else its name.
fn files_of(monitor: &Monitor, sources: &[Box<dyn Source>]) -> Vec<String> {
    let is_single = monitor.inputs.len() == sources.len();
    let files = |(index, source): (usize, &dyn Source)| {
        let names: Vec<String> = source.source_files().names().map(str::to_owned).collect();
        match monitor.inputs.get(index).filter(|_| is_single) {
            _ if !names.is_empty() => names,
            Some(input) => vec![input.location.clone()],
            None => vec![source.name().to_owned()],
        }
    };
    sources.iter().map(|source| &**source).enumerate().flat_map(files).collect()
}

/// The SHA-256 of a regular file; `None` of a pipe, or of what cannot be read any more.
fn file_hash(path: &Path) -> Option<String> {
    let is_file = path.metadata().is_ok_and(|meta| meta.is_file());
    let mut file = File::open(path).ok().filter(|_| is_file)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(hex(&hash.finalize())),
            read => hash.update(&buffer[..read]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The time by the clock of this machine.
pub(crate) fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// Quotes a word for a shell.
fn quoted(word: String) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Maximum number of rates and strata in a report.
const SHOWN: usize = 40;

/// The state of every rate in every stratum, those with alarms first.
fn worst_first(judge: &Judge) -> Vec<Standing> {
    let mut standings = judge.standings();
    // A stable sort keeps the order of the file otherwise.
    standings.sort_by_key(|standing| (standing.alarm.is_none(), standing.raised == 0));
    standings
}

fn rate_history<'a>(judge: &'a Judge, standing: &Standing) -> Option<&'a RateHistory> {
    let (rule, rate) = standing.rate_index;
    judge.history()?.rate(rule, rate, &standing.stratum_key)
}
