//! Binds the names in a fairness file to columns, and reports those that do not exist.

use std::collections::BTreeSet;

use fairstream_core::{WantedColumn, nearest};

use super::inputs::{BoundInput, InputOrigin, arrow_type};
use super::names::Names;
use crate::expression::{BoundName, Expression};
use crate::file::{EventColumn, FairnessFile, Metric, Prior, Score, is_of_stream_name, is_stream_name};
use crate::group::GroupColumn;
use crate::metric::Measure;
use crate::reference::ReferenceValue;
use crate::table::{Located, TextSpan, list, toml_key};
use crate::{FileError, MetricKind, Problem};

/// A fairness file whose columns are replaced by the inputs that they are bound to.
pub(super) struct BoundFile {
    pub(super) file: FairnessFile,
    /// The inputs in the order in which columns are known; then groups that are made from columns; then others.
    pub(super) inputs: Vec<BoundInput>,
}

/// The known columns, the columns that the file reads, and the problems found.
struct ColumnBinder<'a> {
    file: &'a FairnessFile,
    known: Vec<EventColumn>,
    used: BTreeSet<String>,
    /// The definitions of groups that are used, by name.
    used_groups: BTreeSet<String>,
    problems: Vec<Problem>,
}

/// Binds a fairness file to columns. Takes the names of the inputs.
pub(super) fn bind(
    file: &FairnessFile,
    of_source: &[EventColumn],
    names: &mut Names,
) -> Result<BoundFile, FileError> {
    let mut known = file.events.columns.clone();
    for column in of_source {
        if !known.iter().any(|other| other.name == column.name) {
            known.push(column.clone());
        }
    }
    let unknown_median = |score: &Score| {
        let message = format!("the median of `{}` is not known before the data is read", score.column.value);
        let help =
            "name the inputs, files that can be read twice; or say `above = …`, above what a score counts";
        Problem::new(score.column.at.range(), message).help(help)
    };
    let problems: Vec<Problem> = file.medians.iter().map(unknown_median).collect();
    let (used, used_groups) = Default::default();
    let mut binder = ColumnBinder { file, known, used, used_groups, problems };
    binder.trial();
    for metric in &file.metrics {
        binder.metric(metric);
    }
    if !binder.problems.is_empty() {
        return Err(file.refused(binder.problems));
    }
    let inputs = binder.inputs(names);
    let mut bound = bound(file, &inputs);
    for (bound, metric) in bound.metrics.iter_mut().zip(&file.metrics) {
        bound.reference = binder.reference(metric);
    }
    Ok(BoundFile { file: bound, inputs })
}

/// The file with inputs in place of columns.
fn bound(file: &FairnessFile, inputs: &[BoundInput]) -> FairnessFile {
    let mut file = file.clone();
    let column = |name: &str| {
        inputs.iter().find(|input| matches!(&input.origin, InputOrigin::Column(column) if column == name))
    };
    let rename = |name: &mut Located<String>| {
        if let Some(input) = column(&name.value) {
            name.value.clone_from(&input.stream);
        }
    };
    let rename_group = |group: &mut Located<String>| {
        let made = |input: &&BoundInput| matches!(&input.origin, InputOrigin::Groups { name, .. } if *name == group.value);
        match inputs.iter().find(made) {
            Some(input) => group.value.clone_from(&input.stream),
            None => rename(group),
        }
    };
    let bind = |expression: &mut Expression| {
        *expression = expression.bound(|name| {
            let BoundInput { stream, data_type, .. } = column(name)?.clone();
            Some(BoundName { stream, data_type })
        });
    };
    match inputs.iter().find(|input| file.trial.is_row && input.origin == InputOrigin::RowNumber) {
        Some(row) => file.trial.key.value.clone_from(&row.stream),
        None => rename(&mut file.trial.key),
    }
    file.trial.opens.iter_mut().for_each(bind);
    for indicator in &mut file.indicators {
        bind(&mut indicator.when);
        indicator.key.iter_mut().for_each(rename);
    }
    for metric in &mut file.metrics {
        metric.groups.iter_mut().chain(&mut metric.strata).for_each(rename_group);
        for rate in &mut metric.rates {
            match &mut rate.measure {
                Measure::Number(expression) | Measure::Flips(expression) => bind(expression),
                Measure::Holds(_) | Measure::Delay { .. } => {}
            }
        }
        if let Prior::Expression(expression) = &mut metric.prior {
            bind(expression);
        }
    }
    file
}

impl ColumnBinder<'_> {
    /// The inputs. A column whose name is one of RTLola's keeps it; others get the nearest free name.
    fn inputs(&self, names: &mut Names) -> Vec<BoundInput> {
        let used = || self.known.iter().filter(|column| self.used.contains(&column.name));
        used().filter(|column| is_stream_name(&column.name)).for_each(|column| names.take(&column.name));
        let mut inputs: Vec<BoundInput> = used()
            .map(|EventColumn { name, data_type }| BoundInput {
                stream: match is_stream_name(name) {
                    true => name.clone(),
                    false => names.new_name(&stream_name(name)),
                },
                data_type: data_type.clone(),
                origin: InputOrigin::Column(name.clone()),
            })
            .collect();
        for group in self.file.groups.iter().filter(|group| self.used_groups.contains(&group.name.value)) {
            let (name, column) = (group.name.value.clone(), group.column.value.clone());
            let data_type = self.type_of(&column).unwrap_or("String").to_owned();
            let stream = if name == column { format!("{name}_group") } else { name.clone() };
            inputs.push(BoundInput {
                stream: names.new_name(&stream_name(&stream)),
                origin: InputOrigin::Groups {
                    name,
                    column: WantedColumn::new(column, arrow_type(&data_type)),
                    grouping: group.grouping.clone(),
                },
                data_type: if group.grouping.is_text() { "String".to_owned() } else { data_type },
            });
        }
        if self.file.trial.is_row {
            let stream = names.new_name("row");
            inputs.push(BoundInput {
                stream,
                data_type: "UInt64".to_owned(),
                origin: InputOrigin::RowNumber,
            });
        }
        inputs
    }

    fn trial(&mut self) {
        let file = self.file;
        if !file.trial.is_row {
            self.column(&file.trial.key);
        }
        if let Some(opens) = &file.trial.opens {
            self.expression(opens);
        }
        // Indicators that no metric uses are checked as well.
        for indicator in &file.indicators {
            self.expression(&indicator.when);
            if let Some(key) = &indicator.key {
                self.column(key);
                if file.trial.at_opening && key.value != file.trial.key.value {
                    let message = format!(
                        "`{}` is decided by later events, and with a horizon of 0s only the opening event counts",
                        indicator.name.value
                    );
                    let help = "give the trial a longer horizon";
                    self.problems.push(Problem::new(key.at.range(), message).help(help));
                }
                let (own, other) = (self.type_of(&file.trial.key.value), self.type_of(&key.value));
                if let (Some(own), Some(other)) = (own, other)
                    && own != other
                {
                    let message = format!(
                        "`{}` is {other}, and the trial's key `{}` is {own}",
                        key.value, file.trial.key.value
                    );
                    self.problems.push(
                        Problem::new(key.at.range(), message).help("keys are compared: give both one type"),
                    );
                }
            }
        }
    }

    fn metric(&mut self, metric: &Metric) {
        for group in &metric.groups {
            self.groups(group);
            if self.file.trial.key.value == group.value && !self.file.trial.is_row {
                let message = format!("`{}` is the key: then every trial is a group of its own", group.value);
                self.problems.push(Problem::new(group.at.range(), message));
            }
        }
        for stratum in &metric.strata {
            self.groups(stratum);
            let names =
                |columns: &[Located<String>]| columns.iter().any(|other| other.value == stratum.value);
            if names(&metric.groups) {
                let message = format!(
                    "`{}` is a group: within one of its values there is nothing to compare",
                    stratum.value
                );
                self.problems.push(Problem::new(stratum.at.range(), message));
            }
        }
        for rate in &metric.rates {
            match &rate.measure {
                Measure::Number(expression) | Measure::Flips(expression) => self.expression(expression),
                Measure::Holds(_) | Measure::Delay { .. } => {}
            }
        }
        if let Prior::Expression(expression) = &metric.prior {
            self.problems.extend(self.mistake(expression));
            // A prior may also read streams that exist only in the compiled text.
            for name in &expression.names {
                if self.known.iter().any(|column| column.name == name.text) {
                    self.used.insert(name.text.clone());
                }
            }
        }
        let is_periodic = |other: &&Metric| other.check.is_some() != metric.check.is_some();
        let trial = &self.file.trial;
        if (trial.horizon.is_some() || trial.is_row)
            && metric.check.is_some()
            && let Some(other) = self.file.metrics.iter().find(is_periodic)
        {
            let message = "where trials are dropped once they are counted, either every metric has a `check` or none has";
            let help = format!(
                "`{}` is checked at every event, `{}` is not: trials are counted once",
                other.title, metric.title
            );
            self.problems.push(Problem::new(metric.at.range(), message).help(help));
        }
        self.check_trials(metric);
        if metric.check.is_some() && self.file.is_in_order_of_rows() {
            let help = "leave `check` out: then there is a check at every row";
            let message = "rows that count in their order have no time for a periodic `check`";
            self.problems.push(Problem::new(metric.at.range(), message).help(help));
        }
        if metric.kind == MetricKind::CounterfactualFairness && metric.groups.is_empty() {
            self.problems.push(Problem::new(metric.at.range(), "there is no group to change"));
        }
    }

    /// Checks that trials are final where there is a guarantee, and that no rate needs events after the opening where
    /// there is no horizon.
    fn check_trials(&mut self, metric: &Metric) {
        let trial = &self.file.trial;
        if let Some(guarantee) = metric.guarantee.as_ref().filter(|_| !trial.is_final()) {
            let message = "this cannot be guaranteed: a trial without a horizon is never final, what happens later \
                 changes what was counted";
            let mut help = "say in [trial] when it is: `horizon = \"30d\"` after so long, or `horizon = \"0s\"` if the event \
                 that opens it says all (`opens` can name the decision)"
                .to_owned();
            if !metric.says_rule {
                help += "; or ask for the rule of the paper, which guarantees nothing: `rule = \"map\"`";
            }
            self.problems.push(Problem::new(guarantee.at.range(), message).help(help));
        }
        if !trial.at_opening {
            return;
        }
        let later = |measure: &Measure| match measure {
            Measure::Delay { .. } => Some("a delay ends after the opening"),
            Measure::Flips(_) => Some("a case is asked again after its opening"),
            Measure::Holds(_) | Measure::Number(_) => None,
        };
        for reason in metric.rates.iter().filter_map(|rate| later(&rate.measure)) {
            let message = format!("{reason}, and with a horizon of 0s only the opening event counts");
            self.problems
                .push(Problem::new(metric.at.range(), message).help("give the trial a longer horizon"));
        }
    }

    fn type_of(&self, name: &str) -> Option<&str> {
        self.known.iter().find(|column| column.name == name).map(|column| column.data_type.as_str())
    }

    fn expression(&mut self, expression: &Expression) {
        if let Some(mistake) = self.mistake(expression) {
            self.problems.push(mistake);
            return;
        }
        for name in &expression.names {
            self.name(&name.text, &expression.span(name));
        }
    }

    /// A mistake that can be recognised without the RTLola frontend.
    fn mistake(&self, expression: &Expression) -> Option<Problem> {
        expression.mistake(&|name| self.type_of(name).map(str::to_owned))
    }

    fn column(&mut self, column: &Located<String>) {
        self.name(&column.value, &column.at);
    }

    /// A column of groups: one that is defined, or one of the data.
    fn groups(&mut self, group: &Located<String>) {
        let Some(definition) = self.file.group_column(&group.value) else { return self.column(group) };
        if definition.is_column() {
            self.column(group);
            return self.reference_type(definition);
        }
        if !self.used_groups.insert(group.value.clone()) {
            return;
        }
        let column = &definition.column;
        let is_used = self.used.contains(&column.value);
        self.column(column);
        let data_type = self.type_of(&column.value).unwrap_or("Float64");
        if !definition.grouping.bins.is_empty() && ["String", "Bool"].contains(&data_type) {
            let message = format!("`{}` is {data_type}, and bins are of numbers", column.value);
            let help = "give it a type of numbers in [events.columns], or its values names with `labels`";
            self.problems.push(Problem::new(column.at.range(), message).help(help));
        }
        if !is_used {
            // The text reads the groups, not the column.
            self.used.remove(&column.value);
        }
        self.reference_type(definition);
    }

    /// Checks that a reference is a value of its column's type.
    fn reference_type(&mut self, definition: &GroupColumn) {
        let Some((reference, data_type)) = definition.reference.as_ref().zip(self.type_of_groups(definition))
        else {
            return;
        };
        if ReferenceValue::parse(&reference.value, data_type).is_none() {
            let message = format!(
                "the reference `{}` is no value of `{}`, which is {data_type}",
                reference.value, definition.column.value
            );
            let help = match data_type {
                "Bool" => "write `reference = true` or `reference = false`",
                "Float32" | "Float64" => "write a number",
                "UInt64" => "write a whole number from 0 to 9223372036854775807",
                data_type if data_type.starts_with("UInt") => "write a whole number from 0 on",
                _ => "write a whole number",
            };
            let problem = Problem::new(reference.at.range(), message).help(help);
            if !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
        }
    }

    /// The type of the groups of a definition; `None` if the column does not exist.
    fn type_of_groups(&self, definition: &GroupColumn) -> Option<&str> {
        if definition.grouping.is_text() { Some("String") } else { self.type_of(&definition.column.value) }
    }

    /// The group that others are compared with, as values of the types of its columns.
    fn reference(&self, metric: &Metric) -> Option<Vec<ReferenceValue>> {
        let written = self.file.reference(metric)?;
        let value = |(group, text): (&Located<String>, &Located<String>)| {
            ReferenceValue::parse(&text.value, self.type_of_groups(self.file.group_column(&group.value)?)?)
        };
        metric.groups.iter().zip(written).map(value).collect()
    }

    fn name(&mut self, name: &str, at: &TextSpan) {
        if self.known.iter().any(|column| column.name == name) {
            self.used.insert(name.to_owned());
            return;
        }
        if self.known.is_empty() {
            let help = format!(
                "say it, as in [events.columns] {} = \"String\"; or name a data file: its first rows tell",
                toml_key(name)
            );
            let message = format!("the type of the column `{name}` is not known");
            self.problems.push(Problem::new(at.range(), message).help(help));
            return;
        }
        let names = || self.known.iter().map(|column| column.name.as_str());
        let lower = name.to_lowercase();
        let of_rtlola = ["and", "or", "not", "true", "false", "if", "then", "else", "implies"]
            .into_iter()
            .find(|word| *word == lower);
        let begins = |column: &&str| {
            let rest = column.strip_prefix(name).unwrap_or_default();
            rest.starts_with(|c: char| !c.is_alphanumeric() && c != '_')
        };
        let help = match (of_rtlola, names().find(begins), nearest(name, names())) {
            (Some(word), ..) => format!("write `{word}`"),
            (_, Some(column), _) => format!("write the column `{column}` with backticks: '`{column}`'"),
            (.., Some(near)) => format!("did you mean `{near}`?"),
            _ => format!("there are {}", list(names())),
        };
        self.problems.push(Problem::new(at.range(), format!("there is no column `{name}`")).help(help));
    }
}

/// A name for a stream that is like this one.
fn stream_name(name: &str) -> String {
    let name: String = name.chars().map(|c| if is_of_stream_name(c) { c } else { '_' }).collect();
    let name = name.trim_matches('_');
    if is_stream_name(name) {
        name.to_owned()
    } else {
        format!("column_{name}").trim_end_matches('_').to_owned()
    }
}
