//! Parses the fairness file. Whether columns exist is checked when it is compiled, since only the source may know them.

mod fairness_table;
mod score;

use std::ops::Range;
use std::time::Duration;

use fairstream_core::{TimeFormat, nearest};
use toml::de::DeTable;

pub(crate) use self::fairness_table::{Metric, Prior};
pub(crate) use self::score::Score;
use crate::expression::Expression;
use crate::group::{self, Combination, GroupColumn};
use crate::guarantee;
use crate::metric::Rate;
use crate::table::{Located, Problems, TextSpan, TomlTable, list, values};
use crate::{FileError, Problem};

/// A fairness file that has been read.
#[derive(Clone, Debug)]
pub struct FairnessFile {
    /// The path, for errors.
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) title: Option<String>,
    pub(crate) events: Events,
    pub(crate) trial: Trial,
    /// The columns of groups that are made from columns of the data.
    pub(crate) groups: Vec<GroupColumn>,
    pub(crate) indicators: Vec<Indicator>,
    pub(crate) metrics: Vec<Metric>,
    /// Scores that are compared with their median, which is not known yet.
    pub(crate) medians: Vec<Score>,
    sources: Vec<Endpoint>,
    sinks: Vec<Endpoint>,
}

/// The columns of events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    pub(crate) time: Option<String>,
    pub(crate) time_format: Option<String>,
    /// Whether rows are sorted by time first.
    pub(crate) sort: bool,
    pub(crate) columns: Vec<EventColumn>,
}

/// A column of the events, and its type as RTLola calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventColumn {
    /// Name of the column.
    pub name: String,
    /// Type of the column, such as `String` or `UInt64`.
    pub data_type: String,
}

/// Which events form a trial.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    pub(crate) key: Located<String>,
    /// Whether each row is a trial: the key is the number of the row.
    pub(crate) is_row: bool,
    pub(crate) opens: Option<Expression>,
    pub(crate) horizon: Option<Duration>,
    /// Whether the horizon is zero: a trial consists of its opening event only.
    pub(crate) at_opening: bool,
    /// The word for trials in descriptions.
    pub(crate) called: Option<String>,
}

impl Trial {
    /// Whether counted trials are final.
    pub(crate) fn is_final(&self) -> bool {
        self.at_opening || self.horizon.is_some()
    }
}

/// A boolean fact of a trial: one of its events fulfils a condition.
#[derive(Clone, Debug)]
pub(crate) struct Indicator {
    pub(crate) name: Located<String>,
    pub(crate) when: Expression,
    /// The column that refers to the trial, if it is not the trial's key.
    pub(crate) key: Option<Located<String>>,
    /// Time limit from the opening.
    pub(crate) within: Option<Duration>,
    pub(crate) called: Option<String>,
    /// The indicator that says that this one is known.
    pub(crate) known: Option<Located<String>>,
    /// Whether it is good for a person to have it, if the file says so.
    pub(crate) favourable: Option<bool>,
}

impl Indicator {
    fn new(name: Located<String>, when: Expression) -> Indicator {
        Indicator { name, when, key: None, within: None, called: None, known: None, favourable: None }
    }
}

/// A `[[source]]` or `[[sink]]`: where events come from or verdicts go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its kind, if the path does not determine it.
    pub kind: Option<String>,
    /// A path, relative to the fairness file unless it is absolute; `-` for standard input or output;
    /// `console`.
    pub path: String,
    /// The options of its kind.
    pub options: Vec<(String, String)>,
    /// Where the path is written: bytes of the file.
    pub at: Range<usize>,
}

impl FairnessFile {
    /// Reads a fairness file; `path` is what errors call it.
    ///
    /// # Errors
    /// All problems that can be found without knowing the columns.
    pub fn parse(path: &str, text: &str) -> Result<FairnessFile, FileError> {
        let refused = |problems| FileError::new(path, text, problems);
        let document = DeTable::parse(text)
            .map_err(|error| refused(vec![Problem::new(error.span().unwrap_or(0..0), error.message())]))?;
        let problems = Problems::default();
        let root = TomlTable::new("", TextSpan::default(), document.get_ref(), &problems);
        let file = read(&root, path, text);
        root.finish();
        let problems = problems.into_inner();
        file.filter(|_| problems.is_empty()).ok_or_else(|| refused(problems))
    }

    /// The column with the time of an event, if the file names one.
    pub fn time(&self) -> Option<&str> {
        self.events.time.as_deref()
    }

    /// The format of times, if the file names one.
    pub fn time_format(&self) -> Option<&str> {
        self.events.time_format.as_deref()
    }

    /// Columns whose median over all data has to be known before the file is compiled.
    pub fn medians(&self) -> Vec<&str> {
        self.medians.iter().map(|score| score.column.value.as_str()).collect()
    }

    /// Sets the median of a column.
    pub fn set_median(&mut self, column: &str, median: f64) {
        let text = &self.text;
        for score in self.medians.iter().filter(|score| score.column.value == column) {
            let with_median = score.indicator(median, text);
            for indicator in self.indicators.iter_mut().filter(|of| of.name.value == score.indicator) {
                *indicator = with_median.clone();
            }
        }
        self.medians.retain(|score| score.column.value != column);
    }

    /// Whether rows are sorted by time first.
    pub fn is_sorted_first(&self) -> bool {
        self.events.sort
    }

    /// The column that events of one trial have in common.
    pub fn key(&self) -> &str {
        &self.trial.key.value
    }

    /// The columns whose types the file states.
    pub fn columns(&self) -> &[EventColumn] {
        &self.events.columns
    }

    /// The sources that the file names.
    pub fn sources(&self) -> &[Endpoint] {
        &self.sources
    }

    /// The sinks that the file names.
    pub fn sinks(&self) -> &[Endpoint] {
        &self.sinks
    }

    /// The title in the file, or its path.
    pub fn title(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.path)
    }

    /// The columns that can refer to a trial.
    pub(crate) fn key_columns(&self) -> Vec<String> {
        let others = self.indicators.iter().filter_map(|indicator| indicator.key.as_ref());
        distinct(std::iter::once(&self.trial.key).chain(others).map(|key| key.value.as_str()))
    }

    /// The columns with groups, of every metric.
    pub(crate) fn group_columns(&self) -> Vec<String> {
        let groups = self.metrics.iter().flat_map(|metric| &metric.groups);
        distinct(groups.map(|group| group.value.as_str()))
    }

    /// The combinations of columns whose values are compared, each once.
    pub(crate) fn combinations(&self) -> Vec<Vec<String>> {
        let mut found: Vec<Vec<String>> = Vec::new();
        for metric in &self.metrics {
            let names = values(&metric.groups);
            if !found.contains(&names) {
                found.push(names);
            }
        }
        found
    }

    /// The columns that `opens` reads at the instant of an opening.
    pub(crate) fn columns_of_opens(&self) -> Vec<String> {
        let opens = self.trial.opens.iter().flat_map(|opens| &opens.names);
        distinct(opens.filter(|name| name.is_sync).map(|name| name.text.as_str()))
    }

    /// Every expression of the file.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let conditions = self.indicators.iter().map(|indicator| &indicator.when).chain(&self.trial.opens);
        conditions.chain(self.values_of_streams())
    }

    /// The expressions whose values are those of streams: numbers, decisions, priors.
    pub(crate) fn values_of_streams(&self) -> impl Iterator<Item = &Expression> {
        let rates = self.metrics.iter().flat_map(|metric| &metric.rates).filter_map(Rate::expression);
        let priors = self.metrics.iter().filter_map(|metric| match &metric.prior {
            Prior::Expression(expression) => Some(expression),
            Prior::Pooled | Prior::Number(_) => None,
        });
        rates.chain(priors)
    }

    /// The definition of a column of groups.
    pub(crate) fn group_column(&self, name: &str) -> Option<&GroupColumn> {
        self.groups.iter().find(|group| group.name.value == name)
    }

    /// The columns of the data that the file reads and gives no type.
    pub fn undeclared_columns(&self) -> Vec<String> {
        let keys = self.indicators.iter().filter_map(|indicator| indicator.key.as_ref());
        let key = (!self.trial.is_row).then_some(&self.trial.key);
        let strata = self.metrics.iter().flat_map(|metric| &metric.strata);
        let groups = self.metrics.iter().flat_map(|metric| &metric.groups).chain(strata);
        let groups = groups.map(|group| match self.group_column(&group.value) {
            Some(definition) => &definition.column,
            None => group,
        });
        let conditions = self.indicators.iter().map(|indicator| &indicator.when).chain(&self.trial.opens);
        let rates = self.metrics.iter().flat_map(|metric| &metric.rates).filter_map(Rate::expression);
        // A prior may read streams of the compiled text as well.
        let priors = self.metrics.iter().filter_map(|metric| match &metric.prior {
            Prior::Expression(expression) if self.events.columns.is_empty() => Some(expression),
            _ => None,
        });
        let names = conditions.chain(rates).chain(priors).flat_map(|expression| &expression.names);
        let read = key.into_iter().chain(keys).chain(groups).map(|column| column.value.as_str());
        let mut columns = distinct(read.chain(names.map(|name| name.text.as_str())));
        columns.retain(|column| !self.events.columns.iter().any(|known| known.name == *column));
        columns
    }

    /// Whether rows count in their order, as the data has no times.
    pub fn is_in_order_of_rows(&self) -> bool {
        self.time() == Some(ROW)
    }

    /// Whether a column is called `row`, and is none with times.
    pub fn has_row_column(&self) -> bool {
        self.events.columns.iter().any(|column| column.name == ROW)
    }

    /// Whether every row with a key and groups is a trial that the first rate counts at once, unless its key is repeated.
    pub(crate) fn is_every_row_counted(&self) -> bool {
        let is_of_all = |rate: &Rate| {
            let known = rate.unknown.as_ref().map(|unknown| &unknown.known);
            rate.expression().is_none() && rate.given.iter().all(|literal| Some(literal) == known)
        };
        let first = self.metrics.first();
        let is_plain = first.is_some_and(|metric| {
            metric.strata.is_empty() && metric.check.is_none() && metric.rates.first().is_some_and(is_of_all)
        });
        self.trial.at_opening && self.trial.opens.is_none() && is_plain
    }

    /// Whether every metric is checked at events and not periodically.
    pub fn is_checked_at_events(&self) -> bool {
        self.metrics.iter().all(|metric| metric.check.is_none())
    }

    /// Whether a trial consists of its opening row only.
    pub fn has_trials_of_one_row(&self) -> bool {
        self.trial.at_opening
    }

    /// The condition on a row that opens a trial, if there is one.
    pub fn opens(&self) -> Option<&str> {
        self.trial.opens.as_ref().map(|opens| opens.text.as_str())
    }

    /// The text of the file.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// An error: these parts of the file cannot be used.
    pub fn refused(&self, problems: Vec<Problem>) -> FileError {
        FileError::new(&self.path, &self.text, problems)
    }

    pub(crate) fn indicator(&self, name: &str) -> Option<&Indicator> {
        self.indicators.iter().find(|indicator| indicator.name.value == name)
    }
}

/// Names in order, each once.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    for name in names {
        if !distinct.iter().any(|known| known == name) {
            distinct.push(name.to_owned());
        }
    }
    distinct
}

/// Stands for the number of a row, in place of a column.
const ROW: &str = "row";

fn read(root: &TomlTable<'_>, path: &str, text: &str) -> Option<FairnessFile> {
    let title = root.words("name").map(|name| name.value);
    let events = root.table("events").map(events).unwrap_or_default();
    let mut groups = root.table("groups").map(|table| group::definitions(&table)).unwrap_or_default();
    let trial = match root.table("trial") {
        Some(table) => trial(table, text, &events, &mut groups),
        None => {
            if !root.has("trial") {
                let help = "say what belongs together: [trial] with `key` and `group`";
                root.problem(Problem::new(0..0, "there is no [trial]").help(help));
            }
            None
        }
    };
    let mut indicators = root.table("indicators").map(|table| indicators(&table, text)).unwrap_or_default();
    let tables = root.tables("fairness");
    if tables.is_empty() && !root.has("fairness") {
        let help = "say what is compared: [[fairness]] with `metric` and `tolerance`";
        root.problem(Problem::new(text.len()..text.len(), "there is no [[fairness]]").help(help));
    }
    let mut medians = Vec::new();
    for score in tables.iter().filter(|table| table.has("score")).filter_map(Score::read) {
        if !indicators.iter().any(|indicator| indicator.name.value == score.indicator) {
            // The median takes the place of the zero once it is known.
            indicators.push(score.indicator(score.above.unwrap_or_default(), text));
            indicators.push(score.known_indicator(text));
            medians.extend(score.above.is_none().then_some(score));
        }
    }
    let mut metrics: Vec<Metric> = Vec::new();
    for (index, table) in tables.into_iter().enumerate() {
        let at = table.at.range();
        let own = group::combinations(&table, &mut groups);
        let has_own = table.has("group");
        let Some(metric) = fairness_table::metric(table, &indicators, text) else { continue };
        let of_trial = || trial.as_ref().map(|(_, combinations)| combinations.clone());
        let combinations = if has_own { own } else { of_trial() }.unwrap_or_default();
        let is_reported = if has_own { false } else { trial.is_none() };
        if combinations.iter().all(Vec::is_empty) && !is_reported && !has_own {
            let help = "say in [trial] which column has them: `group = \"gender\"`; or here, for this metric";
            root.problem(Problem::new(at, "there are no groups to compare").help(help));
        }
        if let (Some(window), Some((of, _))) = (&metric.window, &trial)
            && !of.is_final()
        {
            let message = "a trial without a horizon is never final: there is no time at which it is counted, and leaves a window";
            let help = "say in [trial] when it is: `horizon = \"30d\"` after so long, or `horizon = \"0s\"` if the event that \
                        opens it says all";
            root.problem(Problem::new(window.at.range(), message).help(help));
        }
        for mut metric in metric.for_each(&combinations) {
            metric.table = index;
            metric.family = index;
            let base = metric.name.clone();
            let mut number = 2;
            while metrics.iter().any(|other| other.name == metric.name) {
                metric.name = format!("{base}_{number}");
                number += 1;
            }
            metrics.push(metric);
        }
    }
    if let Some(table) = root.table("guarantee") {
        share_guarantee(table, &mut metrics);
    }
    let sources = root.tables("source").iter().filter_map(endpoint).collect();
    let sinks = root.tables("sink").iter().filter_map(endpoint).collect();
    let file = FairnessFile {
        path: path.to_owned(),
        text: text.to_owned(),
        title,
        events,
        trial: trial?.0,
        groups,
        indicators,
        metrics,
        medians,
        sources,
        sinks,
    };
    file.reference_problems().into_iter().for_each(|problem| root.problem(problem));
    Some(file)
}

/// Gives the metrics without a rule of their own the guarantee of the file, which they share evenly.
fn share_guarantee(table: TomlTable<'_>, metrics: &mut [Metric]) {
    let shares = |metric: &&mut Metric| !metric.says_rule && metric.guarantee.is_some();
    let mut tables: Vec<usize> = metrics.iter_mut().filter(shares).map(|metric| metric.table).collect();
    tables.dedup();
    if tables.is_empty() {
        let help = "leave [guarantee] out, or the `guarantee` or `rule` of a metric that should share it";
        let message = "every metric has a guarantee or a rule of its own";
        table.problem(Problem::new(table.at.range(), message).help(help));
    }
    let promise = guarantee::read_shared(table);
    for metric in metrics.iter_mut().filter(shares) {
        metric.of_file = tables.len() as u64;
        metric.family = tables.first().copied().unwrap_or_default();
        if let (Some(guarantee), Some(promise)) = (&mut metric.guarantee, promise) {
            guarantee.value.promise = promise;
        }
    }
}

/// The types that a column can have.
const TYPES: [&str; 12] = [
    "Bool", "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float32", "Float64",
    "String",
];

fn events(table: TomlTable<'_>) -> Events {
    let time = table.text("time").map(|time| time.value);
    let time_format = table.text("time_format").and_then(|format| match format.value.parse::<TimeFormat>() {
        Ok(known) => Some(known.name().to_owned()),
        Err(error) => {
            table.problem(Problem::new(format.at.range(), error));
            None
        }
    });
    let sort = table.flag("sort").is_some_and(|sort| sort.value);
    let mut columns = Vec::new();
    for entry in table.table("columns").map(|table| table.entries()).unwrap_or_default() {
        let Some(data_type) = entry.text() else {
            entry.wrong("a type such as \"String\"");
            continue;
        };
        if !TYPES.contains(&data_type.value.as_str()) {
            let help = match nearest(&data_type.value, TYPES) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", list(TYPES)),
            };
            let message = format!("there is no type `{}`", data_type.value);
            table.problem(Problem::new(data_type.at.range(), message).help(help));
        }
        columns.push(EventColumn { name: entry.key.value, data_type: data_type.value });
    }
    table.finish();
    Events { time, time_format, sort, columns }
}

/// Keywords of RTLola, which cannot be names.
const RESERVED: [&str; 22] = [
    "input", "output", "trigger", "constant", "import", "include", "type", "spawn", "eval", "close", "with",
    "when", "if", "then", "else", "true", "false", "and", "or", "not", "implies", "mirrors",
];

/// Whether a character can be in the name of a stream. RTLola has more of them, but normalises names: here are letters
/// that stay as they are.
pub(crate) fn is_of_stream_name(c: char) -> bool {
    let is_stable = matches!(c, '\u{C0}'..='\u{24F}' | '\u{400}'..='\u{52F}');
    c.is_ascii_alphanumeric() || c == '_' || is_stable && c.is_alphabetic()
}

/// Whether a name can be that of a stream.
pub(crate) fn is_stream_name(text: &str) -> bool {
    text.chars().all(is_of_stream_name)
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.contains(|c| c != '_')
        && !RESERVED.contains(&text)
}

/// Checks that a name is an identifier of RTLola, since names become streams.
pub(crate) fn bad_name(name: &Located<String>, what: &str) -> Option<Problem> {
    let text = &name.value;
    let message = match is_stream_name(text) {
        true => return None,
        false if RESERVED.contains(&text.as_str()) => {
            format!("`{text}` cannot name {what}: it is a word of RTLola")
        }
        false => format!("`{text}` cannot name {what}: only letters, digits and `_` can, and a letter first"),
    };
    Some(Problem::new(name.at.range(), message))
}

/// Reads the trial, and the combinations of groups that are compared by metrics without groups of their own.
fn trial(
    table: TomlTable<'_>,
    text: &str,
    events: &Events,
    groups: &mut Vec<GroupColumn>,
) -> Option<(Trial, Vec<Combination>)> {
    let key = table.text("key");
    if key.is_none() && !table.has("key") {
        let why = "it is the column that events of one trial have in common; `key = \"row\"` if each row is a trial";
        table.missing("key", why);
    }
    let combinations = group::combinations(&table, groups).unwrap_or_default();
    let opens = table.text("opens").map(|opens| Expression::new(opens, text));
    let horizon = table.duration_from_zero("horizon");
    // With a horizon, a column of this name identifies cases.
    let is_column = horizon.is_some() && events.columns.iter().any(|column| column.name == ROW);
    let is_row = key.as_ref().is_some_and(|key| key.value == ROW) && !is_column;
    if let Some(horizon) = horizon.as_ref().filter(|horizon| is_row && !horizon.value.is_zero()) {
        let help = "leave `horizon` out; or name the column that its events have in common as `key`";
        let message = "each row is a trial of its own, which is final at once";
        table.problem(Problem::new(horizon.at.range(), message).help(help));
    }
    let horizon = horizon.map(|horizon| horizon.value);
    let at_opening = is_row || horizon.is_some_and(|horizon| horizon.is_zero());
    let horizon = horizon.filter(|horizon| !horizon.is_zero());
    let called = table.words("called").map(|called| called.value);
    table.finish();
    Some((Trial { key: key?, is_row, opens, horizon, at_opening, called }, combinations))
}

fn indicators(table: &TomlTable<'_>, text: &str) -> Vec<Indicator> {
    let mut indicators = Vec::new();
    for entry in table.entries() {
        if let Some(problem) = bad_name(&entry.key, "an indicator") {
            table.problem(problem);
        }
        let simple = entry.text().map(|when| Expression::new(when, text));
        let name = entry.key.clone();
        match (simple, entry.table()) {
            (Some(when), _) => indicators.push(Indicator::new(name, when)),
            (None, Some(table)) => {
                let when = table.text("when").map(|when| Expression::new(when, text));
                let key = table.text("key");
                let within = table.duration("within").map(|within| within.value);
                let called = table.words("called").map(|called| called.value);
                let known = table.text("known");
                let favourable = table.flag("favourable").map(|favourable| favourable.value);
                if when.is_none() && !table.has("when") {
                    table.missing("when", "it is the condition on an event, such as 'score > 6'");
                }
                table.finish();
                indicators.extend(when.map(|when| Indicator {
                    key,
                    within,
                    called,
                    known,
                    favourable,
                    ..Indicator::new(name, when)
                }));
            }
            (None, None) => entry.wrong("a condition, or { when = …, key = … }"),
        }
    }
    indicators
}

/// Converts a title to a name of streams.
pub(crate) fn identifier(title: &str) -> String {
    let lower = title.to_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let name = words.join("_");
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) { name } else { format!("metric_{name}") }
}

fn endpoint(table: &TomlTable<'_>) -> Option<Endpoint> {
    let mut options = Vec::new();
    let (mut kind, mut path, mut at) = (None, None, table.at.range());
    for entry in table.entries() {
        let Some(value) = entry.plain() else {
            entry.wrong("a string, a number, true or false");
            continue;
        };
        match entry.key.value.as_str() {
            "kind" => kind = Some(value),
            "path" => (path, at) = (Some(value), entry.at()),
            _ => options.push((entry.key.value, value)),
        }
    }
    if path.is_none() {
        table.missing("path", "it is a file, or `-` for standard input or output");
    }
    Some(Endpoint { kind, path: path?, options, at })
}
