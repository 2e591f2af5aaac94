//! Proposes a fairness file from the names and values of columns. The result is a guess, meant to be read and changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use crate::ColumnSample;
use crate::file::bad_name;
use crate::sample::column_types;
use crate::table::{Located, TextSpan};
use crate::unit::in_words;

/// A proposal for a fairness file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    samples: Vec<ColumnSample>,
    /// The column with the time.
    pub time: String,
    /// The column that events of one trial have in common.
    pub key: String,
    /// The column whose values are compared.
    pub group: String,
    /// The column with the decision.
    pub decision: String,
    /// Times of the rows in the samples, in nanoseconds since 1970.
    times: Vec<i64>,
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
    /// No column identifies cases.
    #[error("no column tells cases apart: a fairness file needs one such as `id`")]
    Key,
    /// No column has groups.
    #[error(
        "no column tells groups apart: a fairness file needs one with a few different values, such as `gender`"
    )]
    Group,
    /// No column has a decision.
    #[error("no column looks like a decision: a fairness file needs one such as `accepted`")]
    Decision,
}

const KEYS: [&str; 9] = ["id", "key", "case", "person", "applicant", "user", "customer", "uuid", "number"];
const GROUPS: [&str; 11] = [
    "gender",
    "sex",
    "race",
    "ethnicity",
    "group",
    "nationality",
    "religion",
    "age_cat",
    "age_group",
    "disability",
    "minority",
];
const DECISIONS: [&str; 14] = [
    "accepted", "admitted", "approved", "hired", "granted", "decision", "decided", "selected", "rejected",
    "denied", "outcome", "result", "status", "score",
];
const EVENTS: [&str; 4] = ["event", "event_type", "type", "kind"];
const YES: [&str; 13] = [
    "true", "yes", "y", "1", "accepted", "accept", "admitted", "approved", "granted", "hired", "selected",
    "pass", "high",
];

/// Maximum number of different values of a column with groups.
const MOST_GROUPS: usize = 20;

impl Proposal {
    /// The best guess for columns with these values.
    ///
    /// # Errors
    /// Nothing in the data can be a key, a group or a decision.
    pub fn guess(samples: Vec<ColumnSample>, time: &str, times: &[i64]) -> Result<Proposal, NoProposal> {
        let samples: Vec<ColumnSample> =
            samples.into_iter().filter(|sample| sample.name != time && is_name(&sample.name)).collect();
        let key = keys(&samples).first().map(|sample| sample.name.clone()).ok_or(NoProposal::Key)?;
        let mut proposal = Proposal {
            samples,
            time: time.to_owned(),
            key,
            group: String::new(),
            decision: String::new(),
            times: times.to_vec(),
        };
        proposal.group = proposal.groups().first().cloned().ok_or(NoProposal::Group)?;
        proposal.decision = proposal.decisions().first().cloned().ok_or(NoProposal::Decision)?;
        Ok(proposal)
    }

    /// Columns that could be the key, the likeliest first.
    pub fn keys(&self) -> Vec<String> {
        keys(&self.samples).iter().map(|sample| sample.name.clone()).collect()
    }

    /// Columns that could be the group, the likeliest first.
    pub fn groups(&self) -> Vec<String> {
        let fits = |sample: &&ColumnSample| {
            let values = distinct(sample).len();
            sample.name != self.key
                && (2..=MOST_GROUPS).contains(&values)
                && sample.guessed_type() != "Float64"
        };
        let mut found: Vec<&ColumnSample> = self.samples.iter().filter(fits).collect();
        let is_text = |sample: &ColumnSample| sample.guessed_type() == "String";
        let is_taken =
            |name: &str| rank(name, &EVENTS) < EVENTS.len() || rank(name, &DECISIONS) < DECISIONS.len();
        found.sort_by_key(|sample| (rank(&sample.name, &GROUPS), is_taken(&sample.name), !is_text(sample)));
        found.iter().map(|sample| sample.name.clone()).collect()
    }

    /// Columns that could be the decision, the likeliest first.
    pub fn decisions(&self) -> Vec<String> {
        let fits = |sample: &&ColumnSample| {
            sample.name != self.key && sample.name != self.group && self.condition(sample).is_some()
        };
        let mut found: Vec<&ColumnSample> = self.samples.iter().filter(fits).collect();
        let is_bool = |sample: &ColumnSample| sample.guessed_type() == "Bool";
        found.sort_by_key(|sample| (rank(&sample.name, &DECISIONS), !is_bool(sample)));
        found.iter().map(|sample| sample.name.clone()).collect()
    }

    /// The indicator that a column gives: its right-hand side.
    fn condition(&self, sample: &ColumnSample) -> Option<String> {
        let name = &sample.name;
        if self.names_the_key(sample) {
            return Some(format!("{{ when = \"true\", key = \"{name}\" }}"));
        }
        let values = distinct(sample);
        match sample.column().data_type.as_str() {
            "Bool" => Some(format!("'{name}'")),
            "String" if (1..=MOST_GROUPS).contains(&values.len()) => {
                let yes = values.iter().find(|value| YES.contains(&value.to_lowercase().as_str()));
                let value = yes.or_else(|| values.iter().next())?;
                let is_plain = !value.contains(['\'', '"', '\\', '\n']);
                is_plain.then(|| format!("'{name} == \"{value}\"'"))
            }
            "String" => None,
            "Float64" => Some(format!("'{name} > {:?}'", median(sample)?)),
            _ if values.iter().all(|value| ["0", "1"].contains(value)) => Some(format!("'{name} == 1'")),
            _ => Some(format!("'{name} > {}'", median(sample)?.floor())),
        }
    }

    /// Whether a column holds keys of other rows, so that its events refer to other cases.
    fn names_the_key(&self, sample: &ColumnSample) -> bool {
        let Some(key) = self.samples.iter().find(|other| other.name == self.key) else { return false };
        let keys: BTreeSet<&str> = key.present().collect();
        let apart = key.is_present().zip(sample.is_present()).all(|(key, value)| !(key && value));
        let is_known = sample.present().filter(|value| keys.contains(value)).count() * 10
            >= sample.present().count() * 9;
        apart
            && is_known
            && sample.present().next().is_some()
            && key.column().data_type == sample.column().data_type
    }

    /// How the rows of the sample make up cases.
    pub fn case_rows(&self) -> CaseRows {
        let column = |name: &str| self.samples.iter().find(|sample| sample.name == name);
        let decision = column(&self.decision).filter(|decision| self.names_the_key(decision));
        let mut first: BTreeMap<&str, i64> = BTreeMap::new();
        let (mut several, mut longest) = (decision.is_some(), 0);
        let keys = column(&self.key).into_iter().flat_map(ColumnSample::values);
        for (key, time) in keys.zip(&self.times).filter_map(|(key, time)| Some((key?, *time))) {
            let opened = *first.entry(key).or_insert_with(|| time);
            several |= opened < time;
            longest = longest.max(time.saturating_sub(opened));
        }
        let decided = decision.into_iter().flat_map(ColumnSample::values);
        for (key, time) in decided.zip(&self.times).filter_map(|(key, time)| Some((key?, *time))) {
            longest = longest.max(time.saturating_sub(first.get(key).copied().unwrap_or(time)));
        }
        match several {
            false => CaseRows::One,
            true => CaseRows::Several { longest: Duration::from_nanos(longest.unsigned_abs()) },
        }
    }

    /// The fairness file. It passes every check on the data that it was derived from.
    pub fn toml(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let Proposal { time, key, group, decision, .. } = self;
        writeln!(text, "# What is fair here? A proposal from the data: read it, and change what is wrong.")?;
        writeln!(text, "# docs/fairness-file.md describes everything that can stand here.\n")?;
        writeln!(text, "name = \"Decisions by {group}\"\n")?;
        writeln!(text, "[events]\ntime = \"{time}\"\n\n[events.columns]")?;
        let width = self.samples.iter().map(|sample| sample.name.chars().count()).max().unwrap_or(0);
        for column in column_types(&self.samples) {
            writeln!(text, "{:<width$} = \"{}\"", column.name, column.data_type)?;
        }
        writeln!(text, "\n# Events with the same `{key}` are one trial.\n[trial]")?;
        writeln!(text, "key     = \"{key}\"\ngroup   = \"{group}\"")?;
        match self.case_rows() {
            CaseRows::One => writeln!(text, "horizon = \"0s\"   # each row is a case, with its decision\n")?,
            CaseRows::Several { longest } => writeln!(
                text,
                "# After so long a case is final, and counts. In the data the longest took {}: say how long it can take.\n\
                 horizon = \"{}\"\n",
                in_words(longest),
                rounded_up(longest)
            )?,
        }
        writeln!(text, "# A trial has this if it has such an event.\n[indicators]")?;
        let sample = self.samples.iter().find(|sample| sample.name == *decision);
        let condition =
            sample.and_then(|sample| self.condition(sample)).unwrap_or_else(|| "'true'".to_owned());
        writeln!(text, "{decision} = {condition}\n")?;
        writeln!(text, "# How often, compared between the values of `{group}`.\n[[fairness]]")?;
        writeln!(text, "metric     = \"demographic-parity\"\ndecision   = \"{decision}\"")?;
        writeln!(text, "tolerance  = 0.1   # groups may differ by this much")?;
        writeln!(text, "min_trials = 30    # smaller groups are not compared")?;
        writeln!(
            text,
            "guarantee  = {{ false_alarms = 0.05 }}   # of fair systems, at most 5 % ever raise an alarm"
        )?;
        if let Some(stratum) = self.groups().into_iter().find(|name| name != group && name != decision) {
            writeln!(text, "\n# The same within each `{stratum}`:\n# [[fairness]]")?;
            writeln!(text, "# metric    = \"conditional-statistical-parity\"\n# decision  = \"{decision}\"")?;
            writeln!(text, "# strata    = \"{stratum}\"\n# tolerance = 0.1")?;
        }
        Ok(())
    }
}

/// A usual length of time that is no shorter.
fn rounded_up(time: Duration) -> String {
    const DAY: u64 = 86_400;
    let usual = [(1, "s", [1, 2, 5, 10, 30]), (60, "m", [1, 2, 5, 10, 30]), (3_600, "h", [1, 2, 4, 8, 16])];
    let usual =
        usual.iter().flat_map(|(unit, name, numbers)| numbers.map(|number| (unit * number, number, *name)));
    let days = [1, 2, 7, 14, 30, 60, 90, 180, 365, 730].map(|days| (days * DAY, days, "d"));
    let found = usual.chain(days).find(|(seconds, ..)| Duration::from_secs(*seconds) >= time);
    let years = || time.as_secs().div_ceil(365 * DAY) * 365;
    found.map_or_else(|| format!("{}d", years()), |(_, number, unit)| format!("{number}{unit}"))
}

fn is_name(name: &str) -> bool {
    bad_name(&Located { value: name.to_owned(), at: TextSpan::default() }, "").is_none()
}

/// Columns whose values identify cases.
fn keys(samples: &[ColumnSample]) -> Vec<&ColumnSample> {
    let fits = |sample: &&ColumnSample| {
        sample.guessed_type() != "Bool" && sample.guessed_type() != "Float64" && distinct(sample).len() > 1
    };
    let mut found: Vec<&ColumnSample> = samples.iter().filter(fits).collect();
    // Ranked by name, then by number of values. A column named like a group or a decision is not a key.
    let is_other = |name: &str| {
        rank(name, &GROUPS) < GROUPS.len()
            || rank(name, &DECISIONS) < DECISIONS.len()
            || rank(name, &EVENTS) < EVENTS.len()
    };
    found.retain(|sample| {
        !is_other(&sample.name)
            && (rank(&sample.name, &KEYS) < KEYS.len() || distinct(sample).len() > MOST_GROUPS)
    });
    found.sort_by_key(|sample| (rank(&sample.name, &KEYS), usize::MAX - distinct(sample).len()));
    found
}

/// Rank of a name in a list of typical names; the lower, the likelier.
fn rank(name: &str, names: &[&str]) -> usize {
    let name = name.to_lowercase();
    let is_like = |known: &&str| {
        name == **known || name.ends_with(&format!("_{known}")) || name.starts_with(&format!("{known}_"))
    };
    names
        .iter()
        .position(|known| name == *known)
        .or_else(|| names.iter().position(is_like))
        .unwrap_or(names.len())
}

/// The different values, at most 1,001 of them.
fn distinct(sample: &ColumnSample) -> BTreeSet<&str> {
    let mut values = BTreeSet::new();
    for value in sample.present() {
        values.insert(value);
        if values.len() > 1000 {
            break;
        }
    }
    values
}

fn median(sample: &ColumnSample) -> Option<f64> {
    let mut numbers: Vec<f64> = sample.present().filter_map(|value| value.parse().ok()).collect();
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FairnessFile;

    fn samples(csv: &str) -> Vec<ColumnSample> {
        let mut lines = csv.trim().lines();
        let names = lines.next().unwrap_or_default().split(',');
        let mut samples: Vec<ColumnSample> = names.map(|name| ColumnSample::new(name, None)).collect();
        for line in lines {
            for (sample, value) in samples.iter_mut().zip(line.split(',')) {
                sample.add(Some(value).filter(|value| !value.is_empty()));
            }
        }
        samples
    }

    fn seconds(line: &str) -> i64 {
        line.split(',').next().unwrap().parse::<i64>().unwrap() * 1_000_000_000
    }

    #[test]
    fn a_case_is_final_after_its_longest_delay() {
        let horizon = |csv: &str| {
            let times: Vec<i64> = csv.lines().skip(1).map(seconds).collect();
            let toml = Proposal::guess(samples(csv), "time", &times).unwrap().toml();
            FairnessFile::parse("proposal.toml", &toml).unwrap().compile(&[]).unwrap();
            toml.lines()
                .find(|line| line.starts_with("horizon"))
                .unwrap()
                .split('#')
                .next()
                .unwrap()
                .trim()
                .to_owned()
        };
        assert_eq!(horizon("time,id,gender,hired\n1,1,F,true\n2,2,M,false"), "horizon = \"0s\"");
        assert_eq!(horizon("time,id,gender,accepted\n1,1,F,\n2,2,M,\n92,,,2"), "horizon = \"2m\"");
        assert_eq!(horizon("time,id,gender,hired\n1,1,F,\n2,2,M,\n90000,2,M,true"), "horizon = \"2d\"");
        for (seconds, expected) in [(0, "1s"), (3_600, "1h"), (3_601, "2h"), (731 * 86_400, "1095d")] {
            assert_eq!(rounded_up(Duration::from_secs(seconds)), expected);
        }
    }

    /// Key, group, decision and its condition.
    fn guess(csv: &str) -> Result<String, NoProposal> {
        let times: Vec<i64> = csv.trim().lines().skip(1).map(seconds).collect();
        let proposal = Proposal::guess(samples(csv), "time", &times)?;
        let toml = proposal.toml();
        let file = FairnessFile::parse("proposal.toml", &toml).unwrap();
        file.compile(&[]).unwrap();
        let line =
            toml.lines().skip_while(|line| *line != "[indicators]").nth(1).unwrap_or_default().to_owned();
        Ok(format!("{} {} {line}", proposal.key, proposal.group))
    }

    #[test]
    fn columns_are_known_by_name_and_value() {
        for (csv, expected) in [
            (
                "time,id,gender,accepted\n1,1,F,\n2,2,M,\n3,,,2",
                "id gender accepted = { when = \"true\", key = \"accepted\" }",
            ),
            (
                "time,id,gender,department,admitted\n1,1,F,A,true\n2,2,M,B,false",
                "id gender admitted = 'admitted'",
            ),
            (
                "time,applicant_id,race,status\n1,7,x,approved\n2,8,y,denied",
                "applicant_id race status = 'status == \"approved\"'",
            ),
            ("time,id,group,score\n1,7,x,3\n2,8,y,9", "id group score = 'score > 9'"),
            ("time,id,sex,hired\n1,7,x,0\n2,8,y,1", "id sex hired = 'hired == 1'"),
            ("time,id,colour,x\n1,7,red,0.5\n2,8,blue,0.25", "id colour x = 'x > 0.5'"),
        ] {
            assert_eq!(guess(csv).as_deref(), Ok(expected), "{csv}");
        }
        assert_eq!(guess("time,a\n1,true\n2,false"), Err(NoProposal::Key));
        assert_eq!(guess("time,id\n1,1\n2,2"), Err(NoProposal::Group));
        assert_eq!(guess("time,id,gender\n1,1,F\n2,2,M"), Err(NoProposal::Decision));
    }
}
