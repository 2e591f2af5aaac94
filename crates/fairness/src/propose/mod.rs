//! Proposes a fairness file from the names and values of columns. The result is a guess, meant to be read and changed:
//! it says what was chosen, and why.

mod names;
mod shape;
mod write;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;

use self::names::{DECISIONS, EVENTS, KEYS, OUTCOMES, PROTECTED, SCORES, rank, words};
use self::shape::{MOST_GROUPS, TableColumn, base, spread_categories};
use crate::ColumnSample;

/// What is known of the data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableSample {
    /// The columns, without that of the time.
    pub columns: Vec<ColumnSample>,
    /// Columns whose types cannot be read.
    pub unread: Vec<String>,
    /// The column with the time; `None` if no column has it.
    pub time: Option<String>,
    /// The format of times, if it is not recognised by itself.
    pub time_format: Option<String>,
    /// Times of the first rows, in nanoseconds since 1970.
    pub times: Vec<i64>,
    /// Whether rows are in order of time.
    pub is_sorted: bool,
}

/// A proposal for a fairness file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    columns: Vec<TableColumn>,
    /// Beginnings of the names of columns that a category was spread over.
    categories: BTreeSet<String>,
    /// The rest of what is known of the data.
    table: TableSample,
    /// The column that events of one trial have in common; `None` if each row is a trial.
    pub key: Option<String>,
    /// The columns whose values are compared, each for itself.
    pub groups: Vec<String>,
    /// The column with the decision.
    pub decision: String,
    /// The value of the decision that is counted, if its values are not numbers of which the high ones are.
    pub value: Option<String>,
    /// Whether it is good for a person to have that; `None` if it is not known.
    pub favourable: Option<bool>,
}

/// How the rows of the data make up cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseRows {
    /// Each row is a case, and has its decision.
    One,
    /// A case has several rows.
    Several {
        /// The longest time from the first row of a case to another.
        longest: Duration,
    },
}

/// Why there is no proposal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoProposal {
    /// No column has groups.
    #[error(
        "no column tells groups apart: a fairness file needs one with a few different values, such as `gender`, or with \
         ages; the columns are {0}"
    )]
    Group(String),
    /// No column has a decision.
    #[error(
        "no column looks like a decision: a fairness file needs one such as `accepted`, with two values or numbers; the \
         columns are {0}"
    )]
    Decision(String),
}

/// Maximum number of attributes that are compared.
const MOST_ATTRIBUTES: usize = 3;

impl Proposal {
    /// The best guess for a table.
    ///
    /// # Errors
    /// Nothing in the data can be a group or a decision.
    pub fn guess(mut table: TableSample) -> Result<Proposal, NoProposal> {
        // A name with a backtick cannot be written in a condition, one with a line break not in a comment.
        let (known, unread): (Vec<ColumnSample>, Vec<ColumnSample>) = std::mem::take(&mut table.columns)
            .into_iter()
            .partition(|sample| !sample.name.contains(|c: char| c == '`' || c.is_control()));
        table.unread.extend(unread.into_iter().map(|sample| sample.name));
        let columns: Vec<TableColumn> = known.into_iter().map(TableColumn::new).collect();
        let names = || {
            let names: Vec<String> = columns.iter().map(|column| format!("`{}`", column.name)).collect();
            names.join(", ")
        };
        let (no_group, no_decision) = (NoProposal::Group(names()), NoProposal::Decision(names()));
        let mut proposal = Proposal {
            categories: spread_categories(&columns),
            columns,
            table,
            key: None,
            groups: Vec::new(),
            decision: String::new(),
            value: None,
            favourable: None,
        };
        proposal.key = proposal.keys().first().cloned();
        proposal.groups = proposal.likely_groups();
        if proposal.groups.is_empty() {
            return Err(no_group);
        }
        let decision = match proposal.decisions().first() {
            Some(decision) => decision.clone(),
            // The only column that could be a group is called like a decision.
            None if proposal.groups.iter().all(|group| is_decided(group)) => return Err(no_group),
            None => return Err(no_decision),
        };
        proposal.decide_by(&decision);
        Ok(proposal)
    }

    /// Sets the column with the decision, and what follows from it.
    pub fn decide_by(&mut self, column: &str) {
        self.decision = column.to_owned();
        let Some(found) = self.column(column) else { return };
        let is_high = found.is_compared_by_size() && !self.names_the_key(found);
        let has_value = !self.names_the_key(found) && !is_high && found.data_type != "Bool";
        let value = found.yes_value().filter(|_| has_value).map(str::to_owned);
        let by_value = value.as_deref().and_then(names::is_favourable);
        let by_name = if is_high { None } else { names::is_favourable(column) };
        (self.value, self.favourable) = (value, by_value.or(by_name));
    }

    /// The values that the decision has, if one of them is counted.
    pub fn values(&self) -> Vec<String> {
        match (&self.value, self.column(&self.decision)) {
            (Some(_), Some(column)) => column.values.iter().cloned().collect(),
            _ => Vec::new(),
        }
    }

    /// Columns that could be the key, the likeliest first. A key tells cases apart: it is different in each row, or the
    /// rows with the same key have times, or another column refers to it.
    pub fn keys(&self) -> Vec<String> {
        let is_other = |name: &str| {
            rank(name, &PROTECTED).is_some()
                || rank(name, &DECISIONS).is_some()
                || rank(name, &EVENTS).is_some()
        };
        let fits = |column: &&TableColumn| {
            let is_whole = !["Bool", "Float64"].contains(&column.data_type.as_str());
            let is_referred_to = || self.columns.iter().any(|other| other.refers_to(column));
            rank(&column.name, &KEYS).is_some()
                && !is_other(&column.name)
                && is_whole
                && column.values.len() > 1
                && (column.is_complete() && (column.is_unique() || self.table.time.is_some())
                    || is_referred_to())
        };
        let mut found: Vec<&TableColumn> = self.columns.iter().filter(fits).collect();
        found.sort_by_key(|column| (rank(&column.name, &KEYS), usize::MAX - column.values.len()));
        found.iter().map(|column| column.name.clone()).collect()
    }

    /// A column that is called like a key, with the same values in several rows, of a table without times.
    fn repeated_key(&self) -> Option<&str> {
        let repeats = |column: &&TableColumn| {
            let is_identifier = rank(&column.name, &KEYS).is_some() && column.data_type != "Float64";
            is_identifier && column.values.len() > MOST_GROUPS && !column.is_unique()
        };
        let found = self.columns.iter().filter(repeats).min_by_key(|column| rank(&column.name, &KEYS));
        found.filter(|_| self.table.time.is_none()).map(|column| column.name.as_str())
    }

    /// Columns that could be groups, the likeliest first.
    pub fn groups(&self) -> Vec<String> {
        let fits = |column: &&TableColumn| {
            self.key.as_deref() != Some(&column.name)
                && ((2..=MOST_GROUPS).contains(&column.values.len()) || is_age(column))
        };
        let is_taken =
            |name: &str| [&EVENTS[..], &DECISIONS, &OUTCOMES].iter().any(|of| rank(name, of).is_some());
        let place = |column: &TableColumn| {
            let rank = rank(&column.name, &PROTECTED).unwrap_or(usize::MAX);
            // Of the columns that a category was spread over, the one that makes the most even groups comes first.
            let unevenness = if self.is_dummy(&column.name) { 0.5 - column.balance() } else { 0.0 };
            (rank, is_taken(&column.name), !column.is_text(), unevenness)
        };
        let mut found: Vec<(_, &TableColumn)> =
            self.columns.iter().filter(fits).map(|column| (place(column), column)).collect();
        found.sort_by(|(one, _), (other, _)| one.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal));
        found.into_iter().map(|(_, column)| column.name.clone()).collect()
    }

    /// The protected attributes by their names, one column for each; or else the likeliest column.
    fn likely_groups(&self) -> Vec<String> {
        let candidates = self.groups();
        let mut found: Vec<(usize, String)> = Vec::new();
        for name in &candidates {
            let attribute = rank(name, &PROTECTED).map(|rank| rank % PROTECTED.len());
            if let Some(attribute) = attribute
                && found.iter().all(|(known, _)| *known != attribute)
                && !(self.column(name).is_some_and(is_age)
                    && found.iter().any(|(_, known)| words(known).starts_with("age")))
            {
                found.push((attribute, name.clone()));
            }
        }
        if found.is_empty() {
            return candidates.into_iter().take(1).collect();
        }
        found.into_iter().map(|(_, name)| name).take(MOST_ATTRIBUTES).collect()
    }

    /// Columns that could be the decision, the likeliest first: those that are called like one and have two values, or a
    /// few in text; scores; outcomes; then others.
    pub fn decisions(&self) -> Vec<String> {
        let class = |column: &TableColumn| {
            let name = &column.name;
            let is_exact = |known: &[&str]| rank(name, known).is_some_and(|rank| rank < known.len());
            let is_few = column.is_two_valued() || column.is_of_few_texts();
            let of_decision = rank(name, &DECISIONS);
            if self.names_the_key(column) {
                (0, of_decision.unwrap_or_default())
            } else if self.is_dummy(name) {
                (10, 0)
            } else if let Some(rank) = of_decision.filter(|_| is_few) {
                (1, rank)
            } else if is_exact(&SCORES) && column.is_number() {
                (2, 0)
            } else if let Some(rank) = rank(name, &OUTCOMES).filter(|_| is_few) {
                (3, rank)
            } else if column.is_number() && rank(name, &SCORES).is_some() {
                (4, 0)
            } else if column.data_type == "Bool" {
                (5, 0)
            } else if column.is_two_valued() {
                (6, 0)
            } else if column.is_number() && (of_decision.is_some() || rank(name, &OUTCOMES).is_some()) {
                (7, 0)
            } else if column.is_of_few_texts() {
                (8, 0)
            } else {
                (9, 0)
            }
        };
        // One of two columns that are each other's opposite.
        let is_negative = |name: &str| {
            let words = words(name);
            name.contains('<') || [" n", " no", " false", " 0"].iter().any(|ending| words.ends_with(ending))
        };
        let fits = |column: &&TableColumn| {
            let name = &column.name;
            let is_taken = self.key.as_ref() == Some(name) || self.groups.contains(name);
            let is_condition = self.condition(column).is_some() && column.values.len() > 1
                || self.names_the_key(column)
                || column.data_type == "Bool";
            !is_taken && rank(name, &PROTECTED).is_none() && is_condition
        };
        let mut found: Vec<&TableColumn> = self.columns.iter().filter(fits).collect();
        found.sort_by_cached_key(|column| (class(column), is_negative(&column.name)));
        found.iter().map(|column| column.name.clone()).collect()
    }

    fn column(&self, name: &str) -> Option<&TableColumn> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Whether it is one of several columns that a category was spread over.
    fn is_dummy(&self, name: &str) -> bool {
        base(name).is_some_and(|base| self.categories.contains(base))
    }

    /// The condition for the decision in this column; `None` if there is none that could be written.
    fn condition(&self, column: &TableColumn) -> Option<String> {
        let name = write::column(&column.name);
        if self.names_the_key(column) {
            return Some("true".to_owned());
        }
        if column.is_compared_by_size() {
            return Some(format!("{name} > {}", column.median()?));
        }
        let chosen = self.value.as_deref().filter(|_| self.decision == column.name);
        let value = || chosen.or_else(|| column.yes_value());
        match column.data_type.as_str() {
            "Bool" => Some(name),
            "String" if (1..=MOST_GROUPS).contains(&column.values.len()) => {
                let value = value()?;
                (!value.contains(['"', '\\'])).then(|| format!("{name} == \"{value}\""))
            }
            "String" => None,
            _ => Some(format!("{name} == {}", value()?)),
        }
    }

    /// Whether a column holds keys of other rows, so that its events refer to other cases.
    fn names_the_key(&self, column: &TableColumn) -> bool {
        let key = self.key.as_deref().and_then(|key| self.column(key));
        key.is_some_and(|key| column.refers_to(key))
    }

    /// How the rows of the sample make up cases.
    pub fn case_rows(&self) -> CaseRows {
        let Some(key) = self.key.as_deref().and_then(|key| self.column(key)) else { return CaseRows::One };
        let decision = self.column(&self.decision).filter(|decision| self.names_the_key(decision));
        let mut first: BTreeMap<&str, i64> = BTreeMap::new();
        let (mut several, mut longest) = (decision.is_some(), 0);
        for (key, time) in
            key.sample.values().zip(&self.table.times).filter_map(|(key, time)| Some((key?, *time)))
        {
            let opened = *first.entry(key).or_insert_with(|| time);
            several |= opened < time;
            longest = longest.max(time.saturating_sub(opened));
        }
        let decided = decision.into_iter().flat_map(|column| column.sample.values());
        for (key, time) in decided.zip(&self.table.times).filter_map(|(key, time)| Some((key?, *time))) {
            longest = longest.max(time.saturating_sub(first.get(key).copied().unwrap_or(time)));
        }
        match several {
            false => CaseRows::One,
            true => CaseRows::Several { longest: Duration::from_nanos(longest.unsigned_abs()) },
        }
    }
}

/// Whether a column is called like a decision or an outcome.
fn is_decided(name: &str) -> bool {
    rank(name, &DECISIONS).is_some() || rank(name, &OUTCOMES).is_some()
}

/// Whether a column has ages in years, and not groups of ages.
fn is_age(column: &TableColumn) -> bool {
    let words = words(&column.name);
    column.is_in_years()
        && words.split(' ').any(|word| word == "age" || word == "ages")
        && !words.contains("cat")
        && !words.contains("group")
}

#[cfg(test)]
mod tests;
