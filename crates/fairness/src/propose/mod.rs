//! Proposes a fairness file from the names and values of columns. The result is a guess, meant to be read and changed:
//! it says what was chosen, and why.

mod names;
mod shape;
mod write;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;

use self::names::{DECISIONS, EVENTS, KEYS, OUTCOMES, PROTECTED, SCORES, rank, words};
use self::shape::{MOST_GROUPS, distinct, is_number, is_two_valued, is_unique, median, type_of, yes_value};
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
        // A name with a backtick cannot be written in a condition.
        let (columns, unread) = table.columns.into_iter().partition(|sample| !sample.name.contains('`'));
        table.columns = columns;
        table.unread.extend(unread.into_iter().map(|sample: ColumnSample| sample.name));
        let names = || {
            let names: Vec<String> = table.columns.iter().map(|sample| format!("`{}`", sample.name)).collect();
            names.join(", ")
        };
        let (no_group, no_decision) = (NoProposal::Group(names()), NoProposal::Decision(names()));
        let mut proposal = Proposal {
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
        let decision = proposal.decisions().first().cloned().ok_or(no_decision)?;
        proposal.decide_by(&decision);
        Ok(proposal)
    }

    /// Sets the column with the decision, and what follows from it.
    pub fn decide_by(&mut self, column: &str) {
        self.decision = column.to_owned();
        let Some(sample) = self.sample(column) else { return };
        let value = if self.names_the_key(sample) || self.is_compared_by_size(sample) || type_of(sample) == "Bool" {
            None
        } else {
            yes_value(sample).map(|(value, _)| value)
        };
        let by_value = value.as_deref().and_then(names::is_favourable);
        let is_high = self.is_compared_by_size(sample);
        let by_name = if is_high { None } else { names::is_favourable(column) };
        (self.value, self.favourable) = (value, by_value.or(by_name));
    }

    /// The values that the decision has, if one of them is counted.
    pub fn values(&self) -> Vec<String> {
        match (&self.value, self.sample(&self.decision)) {
            (Some(_), Some(sample)) => distinct(sample).into_iter().map(str::to_owned).collect(),
            _ => Vec::new(),
        }
    }

    /// Columns that could be the key, the likeliest first. A key tells cases apart: it is different in each row, or the
    /// rows with the same key have times, or another column refers to it.
    pub fn keys(&self) -> Vec<String> {
        let is_other = |name: &str| {
            rank(name, &PROTECTED).is_some() || rank(name, &DECISIONS).is_some() || rank(name, &EVENTS).is_some()
        };
        let fits = |sample: &&ColumnSample| {
            let is_whole = !["Bool", "Float64"].contains(&type_of(sample).as_str());
            let is_complete = sample.is_present().all(|is_present| is_present);
            let is_referred_to = || self.table.columns.iter().any(|other| refers_to(other, sample));
            rank(&sample.name, &KEYS).is_some()
                && !is_other(&sample.name)
                && is_whole
                && distinct(sample).len() > 1
                && (is_complete && (is_unique(sample) || self.table.time.is_some()) || is_referred_to())
        };
        let mut found: Vec<&ColumnSample> = self.table.columns.iter().filter(fits).collect();
        found.sort_by_key(|sample| (rank(&sample.name, &KEYS), usize::MAX - distinct(sample).len()));
        found.iter().map(|sample| sample.name.clone()).collect()
    }

    /// Columns that could be groups, the likeliest first.
    pub fn groups(&self) -> Vec<String> {
        let fits = |sample: &&ColumnSample| {
            let values = distinct(sample).len();
            let is_age = is_number(sample) && is_age(&sample.name) && values > 1;
            self.key.as_deref() != Some(&sample.name) && ((2..=MOST_GROUPS).contains(&values) || is_age)
        };
        let mut found: Vec<&ColumnSample> = self.table.columns.iter().filter(fits).collect();
        let is_text = |sample: &ColumnSample| type_of(sample) == "String";
        let is_taken = |name: &str| [&EVENTS[..], &DECISIONS, &OUTCOMES].iter().any(|of| rank(name, of).is_some());
        found.sort_by_key(|sample| {
            let rank = rank(&sample.name, &PROTECTED).unwrap_or(usize::MAX);
            (rank, is_taken(&sample.name), !is_text(sample))
        });
        found.iter().map(|sample| sample.name.clone()).collect()
    }

    /// The protected attributes by their names, one column for each; or else the likeliest column.
    fn likely_groups(&self) -> Vec<String> {
        let candidates = self.groups();
        let mut found: Vec<(usize, String)> = Vec::new();
        for name in &candidates {
            let attribute = rank(name, &PROTECTED).map(|rank| rank % PROTECTED.len());
            if let Some(attribute) = attribute
                && found.iter().all(|(known, _)| *known != attribute)
                && !(is_age(name) && found.iter().any(|(_, known)| words(known).starts_with("age")))
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
        let class = |sample: &ColumnSample| {
            let name = &sample.name;
            let is_exact = |known: &[&str]| rank(name, known).is_some_and(|rank| rank < known.len());
            let is_few = is_two_valued(sample) || self.is_of_few_texts(sample);
            let of_decision = rank(name, &DECISIONS);
            if self.names_the_key(sample) {
                (0, of_decision.unwrap_or_default())
            } else if let Some(rank) = of_decision.filter(|_| is_few) {
                (1, rank)
            } else if is_exact(&SCORES) && is_number(sample) {
                (2, 0)
            } else if let Some(rank) = rank(name, &OUTCOMES).filter(|_| is_few) {
                (3, rank)
            } else if is_number(sample) && rank(name, &SCORES).is_some() {
                (4, 0)
            } else if type_of(sample) == "Bool" {
                (5, 0)
            } else if is_two_valued(sample) {
                (6, 0)
            } else if is_number(sample) && (of_decision.is_some() || rank(name, &OUTCOMES).is_some()) {
                (7, 0)
            } else if self.is_of_few_texts(sample) {
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
        let fits = |sample: &&ColumnSample| {
            let name = &sample.name;
            let is_taken = self.key.as_ref() == Some(name) || self.groups.contains(name);
            let is_condition = self.condition(sample).is_some() && distinct(sample).len() > 1
                || self.names_the_key(sample)
                || type_of(sample) == "Bool";
            !is_taken && rank(name, &PROTECTED).is_none() && is_condition
        };
        let mut found: Vec<&ColumnSample> = self.table.columns.iter().filter(fits).collect();
        found.sort_by_key(|sample| (class(sample), is_negative(&sample.name)));
        found.iter().map(|sample| sample.name.clone()).collect()
    }

    fn sample(&self, name: &str) -> Option<&ColumnSample> {
        self.table.columns.iter().find(|sample| sample.name == name)
    }

    fn is_of_few_texts(&self, sample: &ColumnSample) -> bool {
        type_of(sample) == "String" && (2..=MOST_GROUPS).contains(&distinct(sample).len())
    }

    /// Whether a column has many numbers, of which the high ones count.
    fn is_compared_by_size(&self, sample: &ColumnSample) -> bool {
        is_number(sample) && distinct(sample).len() > 2
    }

    /// The condition for the decision in this column; `None` if there is none that could be written.
    fn condition(&self, sample: &ColumnSample) -> Option<String> {
        let name = write::column(&sample.name);
        if self.names_the_key(sample) {
            return Some("true".to_owned());
        }
        if self.is_compared_by_size(sample) {
            return Some(format!("{name} > {}", median(sample)?));
        }
        let chosen = self.value.clone().filter(|_| self.decision == sample.name);
        let value = || chosen.or_else(|| yes_value(sample).map(|(value, _)| value));
        match type_of(sample).as_str() {
            "Bool" => Some(name),
            "String" if (1..=MOST_GROUPS).contains(&distinct(sample).len()) => {
                let value = value()?;
                (!value.contains(['"', '\\'])).then(|| format!("{name} == \"{value}\""))
            }
            "String" => None,
            _ => Some(format!("{name} == {}", value()?)),
        }
    }

    /// Whether a column holds keys of other rows, so that its events refer to other cases.
    fn names_the_key(&self, sample: &ColumnSample) -> bool {
        let key = self.key.as_deref().and_then(|key| self.sample(key));
        key.is_some_and(|key| refers_to(sample, key))
    }

    /// How the rows of the sample make up cases.
    pub fn case_rows(&self) -> CaseRows {
        let Some(key) = self.key.as_deref().and_then(|key| self.sample(key)) else { return CaseRows::One };
        let decision = self.sample(&self.decision).filter(|decision| self.names_the_key(decision));
        let mut first: BTreeMap<&str, i64> = BTreeMap::new();
        let (mut several, mut longest) = (decision.is_some(), 0);
        for (key, time) in key.values().zip(&self.table.times).filter_map(|(key, time)| Some((key?, *time))) {
            let opened = *first.entry(key).or_insert_with(|| time);
            several |= opened < time;
            longest = longest.max(time.saturating_sub(opened));
        }
        let decided = decision.into_iter().flat_map(ColumnSample::values);
        for (key, time) in decided.zip(&self.table.times).filter_map(|(key, time)| Some((key?, *time))) {
            longest = longest.max(time.saturating_sub(first.get(key).copied().unwrap_or(time)));
        }
        match several {
            false => CaseRows::One,
            true => CaseRows::Several { longest: Duration::from_nanos(longest.unsigned_abs()) },
        }
    }
}

/// Whether a column has the keys of other rows, in rows without a key of their own.
fn refers_to(sample: &ColumnSample, key: &ColumnSample) -> bool {
    let keys: BTreeSet<&str> = key.present().collect();
    let apart = key.is_present().zip(sample.is_present()).all(|(key, value)| !(key && value));
    let known = sample.present().filter(|value| keys.contains(value)).count();
    let present = sample.present().count();
    apart && present > 0 && known * 10 >= present * 9 && type_of(key) == type_of(sample)
}

/// Whether a column is called like an age in years, and not like a group of ages.
fn is_age(name: &str) -> bool {
    let words = words(name);
    words.split(' ').any(|word| word == "age" || word == "ages") && !words.contains("cat") && !words.contains("group")
}

#[cfg(test)]
mod tests;
