//! Binds the names in a fairness file to columns, and reports those that do not exist.

use std::collections::BTreeSet;

use fairstream_core::nearest;

use crate::expression::Expression;
use crate::file::{EventColumn, FairnessFile, Metric, Prior, bad_name};
use crate::metric::Measure;
use crate::table::{Located, TextSpan, list};
use crate::{FileError, MetricKind, Problem};

/// The known columns, the columns that the file reads, and the problems found.
pub(super) struct ColumnBinder<'a> {
    file: &'a FairnessFile,
    known: Vec<EventColumn>,
    used: BTreeSet<String>,
    problems: Vec<Problem>,
}

/// The columns that a fairness file reads, in the order in which they are known.
pub(super) fn bind(file: &FairnessFile, of_source: &[EventColumn]) -> Result<Vec<EventColumn>, FileError> {
    let mut known = file.events.columns.clone();
    for column in of_source {
        if !known.iter().any(|other| other.name == column.name) {
            known.push(column.clone());
        }
    }
    let mut binder = ColumnBinder { file, known, used: BTreeSet::new(), problems: Vec::new() };
    binder.trial();
    for metric in &file.metrics {
        binder.metric(metric);
    }
    let ColumnBinder { known, used, problems, .. } = binder;
    if problems.is_empty() {
        Ok(known.into_iter().filter(|column| used.contains(&column.name)).collect())
    } else {
        Err(file.refused(problems))
    }
}

impl ColumnBinder<'_> {
    fn trial(&mut self) {
        let file = self.file;
        self.column(&file.trial.key);
        for group in &file.trial.groups {
            self.column(group);
            if file.trial.key.value == group.value {
                let message =
                    format!("`{}` is the key: nobody shares a group with anybody then", group.value);
                self.problems.push(Problem::new(group.at.range(), message));
            }
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
        for stratum in &metric.strata {
            self.column(stratum);
            let names =
                |columns: &[Located<String>]| columns.iter().any(|other| other.value == stratum.value);
            if names(&self.file.trial.groups) {
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
            // A prior may also read streams that exist only in the compiled text.
            for name in &expression.names {
                if self.known.iter().any(|column| column.name == name.text) {
                    self.used.insert(name.text.clone());
                }
            }
        }
        let is_periodic = |other: &&Metric| other.check.is_some() != metric.check.is_some();
        if self.file.trial.horizon.is_some()
            && metric.check.is_some()
            && let Some(other) = self.file.metrics.iter().find(is_periodic)
        {
            let message = "with a horizon, either every metric has a `check` or none has";
            let help = format!(
                "`{}` is checked at every event, `{}` is not: trials are counted once",
                other.title, metric.title
            );
            self.problems.push(Problem::new(metric.at.range(), message).help(help));
        }
        self.check_trials(metric);
        if metric.kind == MetricKind::CounterfactualFairness && self.file.trial.groups.is_empty() {
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
        for name in &expression.names {
            self.name(&name.text, &expression.span(name));
        }
    }

    fn column(&mut self, column: &Located<String>) {
        match bad_name(column, "a column") {
            Some(problem) => self.problems.push(problem),
            None => self.name(&column.value, &column.at),
        }
    }

    fn name(&mut self, name: &str, at: &TextSpan) {
        if self.known.iter().any(|column| column.name == name) {
            self.used.insert(name.to_owned());
            return;
        }
        if self.known.is_empty() {
            let help = format!(
                "say it, as in [events.columns] {name} = \"String\"; or name a data file: its first rows tell"
            );
            let message = format!("the type of the column `{name}` is not known");
            self.problems.push(Problem::new(at.range(), message).help(help));
            return;
        }
        let names = || self.known.iter().map(|column| column.name.as_str());
        let help = match nearest(name, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", list(names())),
        };
        self.problems.push(Problem::new(at.range(), format!("there is no column `{name}`")).help(help));
    }
}
