//! What a run came to, for people: a page, or figures alone. Written once, at the end, from what the judge remembers.

mod figure;
mod page;
mod sinks;
mod ungrouped_rows;
mod words;

use fairstream_fairness::{Judge, RateHistory, Standing};

use crate::args::RunArguments;
use crate::load::Monitor;
use crate::registry::{self, Address};
use crate::run;

pub(crate) use self::page::PageData;
use self::sinks::HTML;
pub(crate) use self::sinks::{NAMES, ReportFormat, ReportSinks, ReportedRun};
pub(crate) use self::ungrouped_rows::{UngroupedRows, UngroupedRowsEngine};

/// `fairstream report`: a run whose verdicts go to a page, and to the console.
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

/// What a report is about.
pub(crate) struct Subject {
    /// The fairness file as it stands.
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
            // It has been read before: if it is gone since, the page can do without.
            text: std::fs::read_to_string(path).unwrap_or_default(),
            inputs: monitor.inputs.iter().map(Address::to_string).collect(),
            command: format!("fairstream {}", words.join(" ")),
        }
    }
}

/// A word as a shell takes it.
fn quoted(word: String) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Rates and strata that a person still reads.
const SHOWN: usize = 40;

/// How every rate stands in every stratum, what is worst first.
fn worst_first(judge: &Judge) -> Vec<Standing> {
    let mut standings = judge.standings();
    // A stable sort keeps the order of the file otherwise.
    standings.sort_by_key(|standing| (standing.alarm.is_none(), standing.raised == 0));
    standings
}

fn rate_history<'a>(judge: &'a Judge, standing: &Standing) -> Option<&'a RateHistory> {
    let (rule, rate) = standing.place;
    judge.history()?.rate(rule, rate, &standing.stratum_key)
}
