//! What the streams over the same trials share: their parameters, and when trials open, are counted and end.

use std::time::Duration;

use crate::file::FairnessFile;
use crate::unit::rtlola_duration;

use super::names::Names;
use super::text::Text;

/// When something is evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// At every event. A disjunction of all columns would say the same, but the RTLola frontend needs
    /// time exponential in their number for it.
    Events,
    /// Periodically.
    Every(Duration),
}

impl Pace {
    /// The pacing annotation after `@`.
    pub(super) fn text(&self) -> String {
        match self {
            Pace::Events => "true".to_owned(),
            Pace::Every(period) => format!("Global({})", rtlola_duration(*period)),
        }
    }
}

/// A column whose value is a parameter of trial streams, and the names of the parameter.
#[derive(Clone, Debug)]
pub(super) struct Facet {
    pub(super) column: String,
    pub(super) param: String,
    /// Its name in a filter over instances.
    pub(super) other: String,
}

/// Trials with the same opening rule and the same strata.
#[derive(Debug)]
pub(super) struct Scope {
    /// The column with the key, and its parameter.
    pub(super) key: Facet,
    pub(super) groups: Vec<Facet>,
    pub(super) strata: Vec<Facet>,
    pub(super) horizon: Option<Duration>,
    /// Whether a trial consists of its opening event only.
    pub(super) at_opening: bool,
    /// Whether each row is a trial.
    pub(super) is_row: bool,
    /// When trials are counted and closed, if they are: after a horizon, or if each row is a trial.
    pub(super) counted: Option<Pace>,
    /// The columns that the opening event has.
    pub(super) opening: String,
    opening_columns: Vec<String>,
    /// The condition on the opening event, as a mark in the text.
    condition: Option<String>,
    /// Names of streams.
    pub(super) openings: String,
    pub(super) over: String,
    pub(super) trial: String,
    pub(super) resolved: String,
}

impl Scope {
    pub(super) fn new(
        file: &FairnessFile,
        groups: &[String],
        strata: &[String],
        counted: Option<Pace>,
        params: &Params,
        names: &mut Names,
        text: &mut Text,
    ) -> Scope {
        let trial = &file.trial;
        let mut columns: Vec<&str> = vec![&trial.key.value];
        let sync = trial.opens.iter().flat_map(|opens| &opens.names).filter(|name| name.is_sync);
        columns.extend(sync.map(|name| name.text.as_str()));
        columns.extend(groups.iter().map(String::as_str));
        columns.extend(strata.iter().map(String::as_str));
        Scope {
            key: params.key.clone(),
            groups: params.groups(groups),
            strata: params.strata.iter().filter(|facet| strata.contains(&facet.column)).cloned().collect(),
            horizon: trial.horizon,
            at_opening: trial.at_opening,
            is_row: trial.is_row,
            counted,
            opening: all_of(&columns),
            opening_columns: columns.iter().map(|&column| column.to_owned()).collect(),
            condition: trial
                .opens
                .as_ref()
                .filter(|opens| !opens.is_true())
                .map(|opens| text.mark_joined(opens)),
            openings: names.new_name("openings"),
            over: names.new_name("over"),
            trial: names.new_name("trial"),
            resolved: names.new_name("resolved"),
        }
    }

    /// Groups, then strata.
    pub(super) fn facets(&self) -> impl Iterator<Item = &Facet> {
        self.groups.iter().chain(&self.strata)
    }

    /// `(i, g, s)`.
    pub(super) fn trial_params(&self) -> String {
        let params: Vec<&str> =
            std::iter::once(&self.key).chain(self.facets()).map(|facet| facet.param.as_str()).collect();
        params.join(", ")
    }

    /// `g, s`.
    pub(super) fn count_params(&self) -> String {
        self.facets().map(|facet| facet.param.as_str()).collect::<Vec<_>>().join(", ")
    }

    pub(super) fn strata_params(&self) -> String {
        self.strata_names().join(", ")
    }

    /// The parameters of the strata.
    pub(super) fn strata_names(&self) -> Vec<String> {
        self.strata.iter().map(|facet| facet.param.clone()).collect()
    }

    /// Spawn clause for streams with the key as their parameter. A repeated opening has no effect.
    pub(super) fn spawn_of_key(&self) -> String {
        let condition =
            self.condition.as_ref().map(|condition| format!(" when {condition}")).unwrap_or_default();
        format!("  spawn @{}{condition} with {}", self.opening, self.key.column)
    }

    /// Spawn clause at the first opening of a trial, and not at a repeated one, which may have another group.
    pub(super) fn spawn_first(&self, columns: &[&str]) -> String {
        let condition =
            self.condition.as_ref().map(|condition| format!("{condition} ∧ ")).unwrap_or_default();
        let with = match columns {
            [one] => (*one).to_owned(),
            several => format!("({})", several.join(", ")),
        };
        format!(
            "  spawn @{} when {condition}{}({}).hold(or: 0) = 1 with {with}",
            self.opening, self.openings, self.key.column
        )
    }

    pub(super) fn spawn_of_trial(&self) -> String {
        let columns: Vec<&str> =
            std::iter::once(&self.key).chain(self.facets()).map(|facet| facet.column.as_str()).collect();
        self.spawn_first(&columns)
    }

    pub(super) fn spawn_of_count(&self) -> String {
        self.spawn_first(&self.facets().map(|facet| facet.column.as_str()).collect::<Vec<_>>())
    }

    pub(super) fn spawn_of_strata(&self) -> String {
        self.spawn_first(&self.strata.iter().map(|facet| facet.column.as_str()).collect::<Vec<_>>())
    }

    /// The condition of an opening event of the instance.
    pub(super) fn opens_here(&self) -> String {
        let condition =
            self.condition.as_ref().map(|condition| format!(" ∧ {condition}")).unwrap_or_default();
        format!("{} = {}{condition}", self.key.column, self.key.param)
    }

    /// The columns that an event of a trial has if it refers to the trial by this column.
    pub(super) fn own_columns<'a>(&'a self, column: &'a str) -> Vec<&'a str> {
        match self.at_opening {
            true => self.opening_columns.iter().map(String::as_str).collect(),
            false => vec![column],
        }
    }

    /// Whether an event with the key in this column belongs to the instance's trial, and the trial has not ended.
    pub(super) fn is_own(&self, column: &str) -> String {
        let Facet { param, .. } = &self.key;
        if self.at_opening {
            return format!("{} ∧ {}({param}).hold(or: 0) = 1", self.opens_here(), self.openings);
        }
        match self.horizon {
            None => format!("{column} = {param}"),
            Some(_) => format!("{column} = {param} ∧ !{}({param}).hold(or: false)", self.over),
        }
    }

    /// The clause that closes a trial once it has been counted; `None` if later events could still be of the trial.
    pub(super) fn close(&self) -> Option<String> {
        let counted = self.counted.as_ref()?.text();
        if self.is_row {
            return Some(format!("  close @{counted} when true"));
        }
        Some(format!("  close @{counted} when {}({}).hold(or: false)", self.over, self.key.param))
    }

    /// An aggregate over the trials of the instance's group and stratum.
    pub(super) fn over_trials(&self, stream: &str, using: &str) -> String {
        let others: Vec<&str> =
            std::iter::once(&self.key).chain(self.facets()).map(|facet| facet.other.as_str()).collect();
        let same: Vec<String> =
            self.facets().map(|facet| format!("{} = {}", facet.other, facet.param)).collect();
        let (others, same) = (others.join(", "), same.join(" ∧ "));
        format!("{stream}.aggregate(over_instances: All(where: ({others}) => {same}), using: {using})")
    }

    /// An aggregate over the groups, within the instance's stratum if there are strata.
    pub(super) fn over_groups(&self, stream: &str, using: &str) -> String {
        if self.strata.is_empty() {
            return format!("{stream}.aggregate(over_instances: all, using: {using})");
        }
        let others: Vec<&str> = self.facets().map(|facet| facet.other.as_str()).collect();
        let same: Vec<String> =
            self.strata.iter().map(|facet| format!("{} = {}", facet.other, facet.param)).collect();
        let (others, same) = (others.join(", "), same.join(" ∧ "));
        format!("{stream}.aggregate(over_instances: All(where: ({others}) => {same}), using: {using})")
    }
}

/// Names of parameters, the same in every stream of a file.
#[derive(Debug)]
pub(super) struct Params {
    key: Facet,
    groups: Vec<Facet>,
    strata: Vec<Facet>,
}

impl Params {
    /// Whether some metrics have other groups than these.
    pub(super) fn has_other_groups(&self, columns: &[String]) -> bool {
        self.groups.len() != columns.len()
    }

    /// The groups with these columns, in their order.
    fn groups(&self, columns: &[String]) -> Vec<Facet> {
        let facet = |column: &String| self.groups.iter().find(|facet| facet.column == *column).cloned();
        columns.iter().filter_map(facet).collect()
    }

    pub(super) fn new(file: &FairnessFile, names: &mut Names) -> Params {
        let mut strata: Vec<&str> = Vec::new();
        for stratum in file.metrics.iter().flat_map(|metric| &metric.strata) {
            if !strata.contains(&stratum.value.as_str()) {
                strata.push(&stratum.value);
            }
        }
        let groups = file.group_columns();
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        let mut facets = |columns: &[&str], param: &str, other: &str| -> Vec<Facet> {
            let number =
                |index: usize| if columns.len() > 1 { (index + 1).to_string() } else { String::new() };
            let facet = |(index, column): (usize, &&str)| Facet {
                column: (*column).to_owned(),
                param: names.new_letter(&format!("{param}{}", number(index))),
                other: names.new_letter(&format!("{other}{}", number(index))),
            };
            columns.iter().enumerate().map(facet).collect()
        };
        let key = facets(&[&file.trial.key.value], "i", "j");
        let groups = facets(&groups, "g", "h");
        let strata = facets(&strata, "s", "t");
        let [key] = <[Facet; 1]>::try_from(key).unwrap_or_else(|_| {
            [Facet { column: file.trial.key.value.clone(), param: "i".to_owned(), other: "j".to_owned() }]
        });
        Params { key, groups, strata }
    }
}

/// Joins operands as `a∧b`, without duplicates.
pub(super) fn all_of(columns: &[&str]) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for column in columns {
        if !seen.contains(column) {
            seen.push(column);
        }
    }
    seen.join("∧")
}
