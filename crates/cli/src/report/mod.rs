//! Reports on a run: a page, or only its figures. Written once, at the end, from the history of the judge.

mod figure;
mod page;
mod sinks;
mod words;

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
    /// The command that was run.
    pub(crate) command: String,
}

impl Subject {
    pub(crate) fn of(arguments: &RunArguments, monitor: &Monitor) -> Subject {
        let path = &arguments.input.spec;
        let words: Vec<String> = std::env::args().skip(1).map(quoted).collect();
        Subject {
            file: path.display().to_string(),
            // The file was read before. If it has been deleted since, the page omits its text.
            text: std::fs::read_to_string(path).unwrap_or_default(),
            inputs: monitor.inputs.iter().map(Address::to_string).collect(),
            command: format!("fairstream {}", words.join(" ")),
        }
    }
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
