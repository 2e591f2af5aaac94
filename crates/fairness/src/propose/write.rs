//! A proposal as the text of a fairness file.

use std::fmt::{Result, Write};
use std::time::Duration;

use super::names::{PROTECTED, is_missing, rank};
use super::shape::TableColumn;
use super::{CaseRows, Proposal, is_age};
use crate::file::is_stream_name;
use crate::table::{toml_key, toml_text};
use crate::unit::in_words;

/// How far keys are padded.
const WIDEST: usize = 60;

impl Proposal {
    /// The fairness file. It passes every check on the data that it was derived from.
    pub fn toml(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> Result {
        writeln!(text, "# What is fair here? A proposal from the data: read it, and change what is wrong.")?;
        writeln!(text, "# docs/fairness-file.md describes everything that can stand here.\n")?;
        let title = format!("{} by {}", self.decision, self.groups.join(", "));
        writeln!(text, "name = {}\n", toml_text(&title))?;
        self.write_events(text)?;
        self.write_trial(text)?;
        self.write_indicator(text)?;
        self.write_metric(text)
    }

    fn write_events(&self, text: &mut String) -> Result {
        let table = &self.table;
        writeln!(text, "[events]")?;
        match &table.time {
            Some(time) => {
                writeln!(text, "time = {}", toml_text(time))?;
                if let Some(format) = &table.time_format {
                    writeln!(text, "time_format = {}", toml_text(format))?;
                }
                if !table.is_sorted {
                    writeln!(text, "sort = true   # rows are not in order of time")?;
                }
            }
            None => writeln!(
                text,
                "time = \"row\"   # no column has the time of a row: rows count in their order"
            )?,
        }
        writeln!(text, "\n[events.columns]")?;
        let keys = self.columns.iter().map(|column| toml_key(&column.name).chars().count());
        let width = keys.max().unwrap_or(0).min(WIDEST);
        for column in self.columns.iter().map(|column| column.sample.column()) {
            writeln!(text, "{:<width$} = \"{}\"", toml_key(&column.name), column.data_type)?;
        }
        for name in &table.unread {
            writeln!(
                text,
                "# not read: {} (its type is no text, number or Bool, or several columns have the name, or it cannot be written here)",
                toml_text(name)
            )?;
        }
        writeln!(text)
    }

    fn write_trial(&self, text: &mut String) -> Result {
        match &self.key {
            Some(key) => writeln!(
                text,
                "# Events with the same `{key}` are one trial.\n[trial]\nkey     = {}",
                toml_text(key)
            )?,
            None => {
                match self.repeated_key() {
                    Some(name) => writeln!(
                        text,
                        "# Each row is a case: rows with the same `{name}` cannot be joined, because without times nothing says\n\
                         # when such a case is final. Separate files with labels can be: see `join` in docs/fairness-file.md."
                    )?,
                    None => writeln!(text, "# No column tells cases apart, so each row is one.")?,
                }
                writeln!(text, "[trial]\nkey     = \"row\"")?;
            }
        }
        let groups: Vec<String> = self.groups.iter().map(|group| self.group(group)).collect();
        match groups.as_slice() {
            [one] => writeln!(text, "group   = {one}{}", self.why_group(&self.groups[0]))?,
            several => {
                writeln!(
                    text,
                    "# Each is compared for itself; [\"a\", \"b\"] compares combinations.\ngroup   = ["
                )?;
                for (group, name) in several.iter().zip(&self.groups) {
                    writeln!(text, "    [{group}],{}", self.why_group(name))?;
                }
                writeln!(text, "]")?;
            }
        }
        match (self.case_rows(), &self.key) {
            (CaseRows::One, None) => writeln!(text),
            (CaseRows::One, Some(_)) => {
                writeln!(text, "horizon = \"0s\"   # each row is a case, with its decision\n")
            }
            (CaseRows::Several { longest }, _) => writeln!(
                text,
                "# After so long a case is final, and counts. In the data the longest took {}: say how long it can take.\n\
                 horizon = \"{}\"\n",
                in_words(longest),
                rounded_up(longest)
            ),
        }
    }

    /// A column of groups as TOML: ages in bins, without values that stand for none.
    fn group(&self, name: &str) -> String {
        let Some(column) = self.column(name) else { return toml_text(name) };
        if is_age(column) {
            return format!("{{ column = {}, bins = [25, 40, 65] }}", toml_text(name));
        }
        let missing: Vec<String> =
            column.values.iter().filter(|value| is_missing(value)).map(|value| toml_text(value)).collect();
        match missing.as_slice() {
            [] => toml_text(name),
            missing => format!("{{ column = {}, except = [{}] }}", toml_text(name), missing.join(", ")),
        }
    }

    fn why_group(&self, name: &str) -> &'static str {
        if rank(name, &PROTECTED).is_some() { "" } else { "   # a guess: it has a few different values" }
    }

    fn write_indicator(&self, text: &mut String) -> Result {
        writeln!(text, "# A trial has this if it has such an event.\n[indicators]")?;
        let Some(found) = self.column(&self.decision) else { return Ok(()) };
        let name = indicator_name(&self.decision);
        let condition = self.condition(found).unwrap_or_else(|| "true".to_owned());
        let mut parts = vec![format!("when = {}", toml_condition(&condition))];
        if self.names_the_key(found) {
            parts.push(format!("key = {}", toml_text(&self.decision)));
        }
        let known = self.known(found);
        if known.is_some() {
            parts.push(format!("known = \"{name}_known\""));
        }
        if let Some(favourable) = self.favourable {
            parts.push(format!("favourable = {favourable}"));
        }
        for line in self.why_decision(found) {
            writeln!(text, "# {line}")?;
        }
        match parts.as_slice() {
            [_] => writeln!(text, "{name} = {}", toml_condition(&condition))?,
            parts => writeln!(text, "{name} = {{ {} }}", parts.join(", "))?,
        }
        if let Some(known) = known {
            writeln!(text, "# Some rows have no value there: they are unknown, and not counted as a no.")?;
            writeln!(text, "{name}_known = {}", toml_condition(&known))?;
        }
        writeln!(text)
    }

    /// What was chosen, where it is a guess.
    fn why_decision(&self, found: &TableColumn) -> Vec<String> {
        let mut lines = Vec::new();
        let others: Vec<String> =
            self.decisions().into_iter().filter(|name| *name != self.decision).collect();
        if let [one, rest @ ..] = others.as_slice() {
            let more = rest.iter().take(3).map(|name| format!(", `{name}`")).collect::<String>();
            lines.push(format!(
                "`{}` is the likeliest decision by its name and values; others are `{one}`{more}.",
                self.decision
            ));
        }
        if found.is_compared_by_size() && !self.names_the_key(found) {
            lines.push("It is a number: above its median counts. Say above what in truth.".to_owned());
        }
        if let Some(value) = &self.value
            && found.is_text()
        {
            let values: Vec<String> = found.values.iter().take(6).map(|value| format!("{value:?}")).collect();
            lines.push(format!("Its values are {}; {value:?} counts.", values.join(", ")));
        }
        lines.push(
            match self.favourable {
                Some(true) => "It is taken for something good: `favourable = false` if it is a burden.",
                Some(false) => "It is taken for a burden: `favourable = true` if it is something good.",
                None => "`favourable = true` or `false` says whether it is good for a person.",
            }
            .to_owned(),
        );
        lines
    }

    /// A condition that holds where the decision has a value, if it is missing in some rows of one case each.
    fn known(&self, found: &TableColumn) -> Option<String> {
        if found.is_complete() || self.case_rows() != CaseRows::One || self.names_the_key(found) {
            return None;
        }
        let name = column(&found.name);
        match found.data_type.as_str() {
            "Bool" => Some(format!("{name} in [true, false]")),
            "String" => Some(format!("{name} != \"\"")),
            _ => Some(format!("{name} == {name}")),
        }
    }

    fn write_metric(&self, text: &mut String) -> Result {
        let name = indicator_name(&self.decision);
        let between: Vec<String> = self.groups.iter().map(|group| format!("`{group}`")).collect();
        writeln!(
            text,
            "# How often, compared between the values of {}.\n[[fairness]]",
            between.join(", then of ")
        )?;
        writeln!(text, "metric     = \"demographic-parity\"\ndecision   = \"{name}\"")?;
        writeln!(text, "tolerance  = 0.1   # groups may differ by this much")?;
        writeln!(text, "min_trials = 30    # smaller groups are not compared")?;
        writeln!(
            text,
            "guarantee  = {{ false_alarms = 0.05 }}   # of fair systems, at most 5 % ever raise an alarm"
        )?;
        let attribute = |name: &String| rank(name, &PROTECTED).map(|rank| rank % PROTECTED.len());
        let is_compared = |name: &String| {
            let own = attribute(name);
            own.is_some() && self.groups.iter().any(|group| attribute(group) == own)
        };
        let is_free =
            |name: &String| !self.groups.contains(name) && !is_compared(name) && *name != self.decision;
        let is_stratum = |name: &String| self.column(name).is_some_and(|column| !is_age(column));
        if let Some(stratum) = self.groups().into_iter().filter(is_free).find(is_stratum) {
            writeln!(text, "\n# The same within each `{stratum}`:\n# [[fairness]]")?;
            writeln!(text, "# metric    = \"conditional-statistical-parity\"\n# decision  = \"{name}\"")?;
            writeln!(text, "# strata    = {}\n# tolerance = 0.1", toml_text(&stratum))?;
        }
        Ok(())
    }
}

/// A column in a condition.
pub(super) fn column(name: &str) -> String {
    const WORDS: [&str; 3] = ["in", "matches", "_"];
    if is_stream_name(name) && !WORDS.contains(&name) { name.to_owned() } else { format!("`{name}`") }
}

/// A condition as TOML: as it is, if that is possible.
fn toml_condition(condition: &str) -> String {
    if condition.contains(['\'', '\n']) { toml_text(condition) } else { format!("'{condition}'") }
}

/// A name for an indicator, after a column.
fn indicator_name(column: &str) -> String {
    let name: String = column.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let name = name.trim_matches('_').to_owned();
    if is_stream_name(&name) { name } else { format!("has_{name}").trim_end_matches('_').to_owned() }
}

/// A usual length of time that is no shorter.
pub(super) fn rounded_up(time: Duration) -> String {
    const DAY: u64 = 86_400;
    let usual = [(1, "s", [1, 2, 5, 10, 30]), (60, "m", [1, 2, 5, 10, 30]), (3_600, "h", [1, 2, 4, 8, 16])];
    let usual =
        usual.iter().flat_map(|(unit, name, numbers)| numbers.map(|number| (unit * number, number, *name)));
    let days = [1, 2, 7, 14, 30, 60, 90, 180, 365, 730].map(|days| (days * DAY, days, "d"));
    let found = usual.chain(days).find(|(seconds, ..)| Duration::from_secs(*seconds) >= time);
    let years = || time.as_secs().div_ceil(365 * DAY) * 365;
    found.map_or_else(|| format!("{}d", years()), |(_, number, unit)| format!("{number}{unit}"))
}
