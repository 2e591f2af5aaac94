//! `fairstream init`: proposes a fairness file for a data file.

use std::fs::OpenOptions;
use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::{Context, bail};
use fairstream_core::{ROW_ORDER, ROW_ORDER_ONLY, nearest, visible_lines};
use fairstream_fairness::{ColumnSample, FairnessFile, Proposal, TableSample};

use crate::args::InitArguments;
use crate::places::{Kept, refuse_to_destroy};
use crate::registry::{self, Address};
use crate::sample::{self, Samples};
use crate::{ExitStatus, load, note, print_file};

/// Typical names of a column with the time.
const TIMES: [&str; 10] = [
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
];

/// Last words of other names of such columns.
const LAST_WORDS: [&str; 5] = ["time", "timestamp", "date", "datetime", "at"];

/// Ways to write times that are not recognised by themselves.
const PATTERNS: [&str; 9] = [
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%m/%d/%Y %H:%M",
    "%d/%m/%Y %H:%M",
    "%m/%d/%Y %H:%M:%S",
    "%d/%m/%Y %H:%M:%S",
    "%Y/%m/%d",
    "%d-%m-%Y",
    "%m-%d-%Y",
];

/// Number of rows on which ways to write times are tried.
const TRIED_ROWS: usize = 10_000;
/// Maximum number of columns that are tried as the time.
const TRIED_COLUMNS: usize = 6;

pub(crate) fn init(arguments: &InitArguments) -> anyhow::Result<ExitStatus> {
    let input = Address::parse(&arguments.input);
    if input.location == "-" {
        bail!("standard input cannot be read twice; write the data to a file first");
    }
    if registry::is_plugin(&input) {
        bail!(
            "{} is a plugin, and `init` loads no code; write some of its rows to a file first",
            input.location
        );
    }
    if let Some(to) = &arguments.to {
        refuse_to_destroy(&[Kept::new(&input.location, "the data")], &[&to.to_string_lossy()])?;
    }
    let table = table(&input, arguments.time.as_deref())?;
    refuse_values_for_names(&input, &table)?;
    let mut proposal = Proposal::guess(table).with_context(|| input.location.clone())?;
    if io::stdin().is_terminal() && io::stderr().is_terminal() {
        ask(&mut proposal)?;
    }
    let text = proposal.toml();
    // The proposal must compile.
    let path = arguments.to.as_ref().map_or_else(|| "proposal".into(), |path| path.to_string_lossy());
    load::compile(&FairnessFile::parse(&path, &text)?, &[])?;
    match &arguments.to {
        None => print_file(&text),
        Some(path) => {
            let file = OpenOptions::new().write(true).create_new(true).open(path);
            let mut file = file.with_context(|| format!("cannot write {}", path.display()))?;
            file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
            note(&format!("wrote {0}; try `fairstream check {0} {1}`", path.display(), arguments.input));
            Ok(ExitStatus::NothingViolated)
        }
    }
}

/// Samples the data: with the time in the column of this name, or else in the first column that is called like one and
/// whose values are times; or else without times.
fn table(input: &Address, time: Option<&str>) -> anyhow::Result<TableSample> {
    let given = input.options.text("time_format");
    if let Some(time) = time.or_else(|| input.options.text("time")) {
        let samples = sample::samples(input, Some(time), None, usize::MAX, true)?;
        if let Some(bad) = samples.rejected {
            bail!("{}: {bad}", input.location);
        }
        return Ok(sampled(samples, Some(time).filter(|time| *time != ROW_ORDER), None, given));
    }
    let names = sample::names(input)?;
    for candidate in time_candidates(&names) {
        if let Some(format) = time_format(input, &candidate) {
            let samples = sample::samples(input, Some(&candidate), format, usize::MAX, true)?;
            if samples.rejected.is_none() {
                return Ok(sampled(samples, Some(&candidate), format, given));
            }
        }
    }
    let samples = sample::samples(input, Some(ROW_ORDER_ONLY), None, usize::MAX, true)?;
    if let Some(bad) = &samples.rejected {
        note(&format!("warning: {}: {bad}", input.location));
    }
    Ok(sampled(samples, None, None, None))
}

/// Refuses a table whose first row has values in place of names, as far as that can be told.
fn refuse_values_for_names(input: &Address, table: &TableSample) -> anyhow::Result<()> {
    let has_option =
        registry::source_for(input)?.adapter().options.iter().any(|option| option.name == "header");
    if !has_option || input.options.text("header").is_some() {
        return Ok(());
    }
    let is_value = |column: &&ColumnSample| column.present().any(|value| value.trim() == column.name.trim());
    let found: Vec<&ColumnSample> = table.columns.iter().filter(is_value).collect();
    let is_number = |column: &ColumnSample| column.name.trim().parse::<f64>().is_ok();
    let are_numbers = !table.columns.is_empty() && table.columns.iter().all(is_number);
    if found.len() < 2 && !are_numbers {
        return Ok(());
    }
    let shown = if found.len() < 2 { table.columns.iter().collect() } else { found };
    let shown: Vec<String> = shown.iter().take(3).map(|column| format!("`{}`", column.name.trim())).collect();
    bail!(
        "{0}: the first row should have the names of columns, but {1} look like values; if there are no names, call the \
         input '{0}?header=false', and if these are names, '{0}?header=true'",
        input.location,
        shown.join(", ")
    )
}

/// `format` is that of the input's options.
fn sampled(
    samples: Samples,
    time: Option<&str>,
    time_format: Option<&str>,
    format: Option<&str>,
) -> TableSample {
    let Samples { columns, unread, times, is_sorted, .. } = samples;
    let time_format = time_format.or(format);
    TableSample {
        columns,
        unread,
        time: time.map(str::to_owned),
        time_format: time_format.map(str::to_owned),
        times,
        is_sorted,
    }
}

/// Columns that are called like a time, the likeliest first.
fn time_candidates(names: &[String]) -> Vec<String> {
    let lower = |name: &String| name.to_lowercase();
    let rank = |name: &String| TIMES.iter().position(|known| *known == lower(name));
    let is_like = |name: &&String| {
        let lower = lower(name);
        let last = lower.rsplit(|c: char| !c.is_alphanumeric()).next();
        rank(name).is_some() || last.is_some_and(|last| LAST_WORDS.contains(&last))
    };
    let mut found: Vec<&String> = names.iter().filter(is_like).collect();
    found.sort_by_key(|name| rank(name).unwrap_or(usize::MAX));
    found.into_iter().take(TRIED_COLUMNS).cloned().collect()
}

/// How the times of a column are written: `Some(None)` if that is recognised, `None` if they cannot be read, or in
/// several ways.
fn time_format(input: &Address, column: &str) -> Option<Option<&'static str>> {
    let reads = |format: Option<&str>| {
        let samples = sample::samples(input, Some(column), format, TRIED_ROWS, true);
        samples.is_ok_and(|samples| samples.rejected.is_none() && samples.rows > 0)
    };
    if reads(None) {
        return Some(None);
    }
    let fitting: Vec<&str> = PATTERNS.into_iter().filter(|pattern| reads(Some(pattern))).collect();
    match fitting.as_slice() {
        [one] => Some(Some(one)),
        [] => None,
        [one, other, ..] => {
            note(&format!(
                "`{column}` may be written as `{one}` or `{other}`; rows count in their order until [events] says which, \
                 as in time = \"{column}\", time_format = \"{one}\""
            ));
            None
        }
    }
}

/// Asks what the data does not tell.
fn ask(proposal: &mut Proposal) -> anyhow::Result<()> {
    let keys = proposal.keys();
    if keys.len() > 1 {
        proposal.key = Some(choose("Which column tells cases apart?", &keys)?);
    }
    let mut groups = proposal.groups();
    groups.sort_by_key(|group| !proposal.groups.contains(group));
    if proposal.groups.len() < 2 {
        proposal.groups = vec![choose("Which column has the groups that are compared?", &groups)?];
    }
    let decisions = proposal.decisions();
    proposal.decide_by(&choose("Which column tells what was decided?", &decisions)?);
    let mut values = proposal.values();
    values.sort_by_key(|value| Some(value) != proposal.value.as_ref());
    if !values.is_empty() {
        proposal.value = Some(choose("Which value of it is counted?", &values)?);
    }
    let answers = if proposal.favourable == Some(false) { ["no", "yes"] } else { ["yes", "no"] };
    let favourable = choose("Is that good for a person?", &answers.map(str::to_owned))?;
    proposal.favourable = Some(favourable == "yes");
    Ok(())
}

/// Asks for one of several; an empty answer chooses the first.
fn choose(question: &str, columns: &[String]) -> anyhow::Result<String> {
    let Some(first) = columns.first() else { bail!("no column of the data can answer: {question}") };
    loop {
        let mut out = io::stderr().lock();
        let shown = format!("{question} {} [{first}] ", columns.join(", "));
        out.write_all(visible_lines(&shown).as_bytes())?;
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
