//! `fairstream init`: proposes a fairness file for a data file.

use std::fs::OpenOptions;
use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::{Context, bail};
use fairstream_core::nearest;
use fairstream_fairness::{FairnessFile, Proposal};

use crate::args::InitArguments;
use crate::registry::Address;
use crate::sample::{self, Samples};
use crate::{ExitStatus, load, note, print};

/// Typical names of a column with the time.
const TIMES: [&str; 12] = [
    "time",
    "timestamp",
    "date",
    "datetime",
    "event_time",
    "event_date",
    "created_at",
    "occurred_at",
    "ts",
    "when",
    "Time",
    "Date",
];

pub(crate) fn init(arguments: &InitArguments) -> anyhow::Result<ExitStatus> {
    let input = Address::parse(&arguments.input);
    if input.location == "-" {
        bail!("standard input cannot be read twice; write the data to a file first");
    }
    let (time, samples) = samples(&input, arguments.time.as_deref())?;
    let mut proposal =
        Proposal::guess(samples.columns, &time, &samples.times).with_context(|| input.location.clone())?;
    if io::stdin().is_terminal() && io::stderr().is_terminal() {
        ask(&mut proposal)?;
    }
    let text = proposal.toml();
    // The proposal must compile.
    let path = arguments.to.as_ref().map_or_else(|| "proposal".into(), |path| path.to_string_lossy());
    load::compile(&FairnessFile::parse(&path, &text)?, &[])?;
    match &arguments.to {
        None => print(&text),
        Some(path) => {
            let file = OpenOptions::new().write(true).create_new(true).open(path);
            let mut file = file.with_context(|| format!("cannot write {}", path.display()))?;
            file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
            note(&format!("wrote {0}; try `fairstream check {0} {1}`", path.display(), arguments.input));
            Ok(ExitStatus::NothingViolated)
        }
    }
}

/// Samples the data, with the time in the column of this name.
fn samples(input: &Address, time: Option<&str>) -> anyhow::Result<(String, Samples)> {
    let given = time.or_else(|| input.options.text("time"));
    let candidates = given.map_or_else(|| TIMES.to_vec(), |time| vec![time]);
    let mut first_error = None;
    for time in candidates {
        match sample::samples(input, Some(time), usize::MAX, true) {
            Ok(samples) => return Ok((time.to_owned(), samples)),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.unwrap_or_else(|| anyhow::anyhow!("there is no column with the time")))
}

fn ask(proposal: &mut Proposal) -> anyhow::Result<()> {
    proposal.key = choose("Which column tells cases apart?", &proposal.keys())?;
    let groups = proposal.groups();
    proposal.group = choose("Which column has the groups that are compared?", &groups)?;
    let decisions = proposal.decisions();
    proposal.decision = choose("Which column tells what was decided?", &decisions)?;
    Ok(())
}

/// Asks for one of several; an empty answer chooses the first.
fn choose(question: &str, columns: &[String]) -> anyhow::Result<String> {
    let Some(first) = columns.first() else { bail!("no column of the data can answer: {question}") };
    loop {
        let mut out = io::stderr().lock();
        write!(out, "{question} {} [{first}] ", columns.join(", "))?;
        out.flush()?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        let answer = answer.trim();
        if answer.is_empty() {
            return Ok(first.clone());
        }
        if columns.iter().any(|column| column == answer) {
            return Ok(answer.to_owned());
        }
        let near = nearest(answer, columns.iter().map(String::as_str));
        note(&near.map_or("there is no such column".to_owned(), |near| format!("did you mean `{near}`?")));
    }
}
