//! Describes in sentences what a fairness file monitors.

use std::fmt;
use std::time::Duration;

use crate::file::{FairnessFile, Indicator, Metric, Prior};
use crate::metric::{Literal, Measure, Rate};
use crate::table::list;
use crate::unit::in_words;
use crate::{Comparison, Every, Guarantee, MetricKind, Promise, RollingWindow};

/// A description of a fairness file in sentences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// What a trial is.
    pub trial: String,
    /// Title of each metric, and sentences on its question, comparison, guarantee and estimate.
    pub metrics: Vec<(String, Vec<String>)>,
    /// Remarks on the file as a whole, and suggestions.
    pub notes: Vec<String>,
    /// Possible mistakes.
    pub warnings: Vec<String>,
}

impl Description {
    /// Describes a file.
    pub fn of(file: &FairnessFile) -> Description {
        Description {
            trial: trial(file),
            metrics: file
                .metrics
                .iter()
                .map(|metric| (metric.title.clone(), sentences(file, metric)))
                .collect(),
            notes: notes(file),
            warnings: warnings(file),
        }
    }

    /// A paragraph for the trials, and one for each metric.
    pub(crate) fn paragraphs(&self) -> Vec<String> {
        let metrics =
            self.metrics.iter().map(|(title, sentences)| format!("{title}: {}", sentences.join(" ")));
        std::iter::once(self.trial.clone()).chain(metrics).collect()
    }
}

fn trials(file: &FairnessFile) -> String {
    file.trial.called.clone().unwrap_or_else(|| "trials".to_owned())
}

fn trial(file: &FairnessFile) -> String {
    let key = &file.trial.key.value;
    let groups: Vec<String> = file
        .combinations()
        .iter()
        .map(|names| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and "))
        .collect();
    let groups = match groups.as_slice() {
        [one] => one.clone(),
        several => format!("the groups of a comparison ({})", several.join("; ")),
    };
    if file.trial.is_row {
        let condition =
            file.trial.opens.as_ref().map(|opens| format!(" {} and", opens.text)).unwrap_or_default();
        return format!(
            "Each row with{condition} {groups} is a trial{}, which counts at once.",
            file.trial.called.as_ref().map(|called| format!(" (these are the {called})")).unwrap_or_default()
        );
    }
    let with = match &file.trial.opens {
        Some(opens) => format!("with {} that has `{key}` and {groups}", opens.text),
        None => format!("that has `{key}` and {groups}"),
    };
    let others = file.indicators.iter().filter_map(|indicator| indicator.key.as_ref());
    let mut keys = vec![format!("`{key}`")];
    for other in others.map(|other| format!("`{}`", other.value)) {
        if !keys.contains(&other) {
            keys.push(other);
        }
    }
    let same = match keys.as_slice() {
        [key] => key.clone(),
        keys => format!("value in {}", keys.join(" or ")),
    };
    let counted = match file.trial.horizon {
        Some(horizon) => {
            format!("It counts {} after its opening; until then it is pending.", in_words(horizon))
        }
        None => "It counts at once, with what is known of it so far.".to_owned(),
    };
    let opened = match &file.trial.called {
        Some(called) => format!("The {called} are trials: one is opened"),
        None => "A trial is opened".to_owned(),
    };
    if file.trial.at_opening {
        return format!(
            "{opened} by the first event {with}, and counts at once: later events with the same `{key}` change nothing."
        );
    }
    format!("{opened} by the first event {with}; later events with the same {same} belong to it. {counted}")
}

fn sentences(file: &FairnessFile, metric: &Metric) -> Vec<String> {
    let mut sentences: Vec<String> = metric.rates.iter().map(|rate| question(file, metric, rate)).collect();
    sentences.push(compared(file, metric));
    if let Some(guarantee) = &metric.guarantee {
        sentences.push(promised(metric, &guarantee.value));
    }
    sentences.push(estimated(metric));
    sentences.extend(metric.window.as_ref().map(|window| forgotten(metric, &window.value)));
    sentences
}

/// When trials leave a window.
fn forgotten(metric: &Metric, window: &RollingWindow) -> String {
    let every = in_words(window.step);
    let every = every.strip_prefix("1 ").unwrap_or(&every);
    let all = match metric.guarantee {
        Some(_) => " The evidence is of all trials.",
        None => "",
    };
    match metric.check {
        Some(check) if check == window.step => format!("Trials leave the window at checks.{all}"),
        _ => format!("Trials leave the window every {every}.{all}"),
    }
}

/// The question that a rate answers for each group.
pub(crate) fn question(file: &FairnessFile, metric: &Metric, rate: &Rate) -> String {
    let mut among = format!("Of the {}", trials(file));
    if let Some(window) = &metric.window {
        among += &format!(" counted {}", window.value.in_words(file.is_in_order_of_rows()));
    }
    let known = rate.unknown.as_ref().map(|unknown| &unknown.known);
    for literal in rate.given.iter().filter(|literal| Some(*literal) != known) {
        among += &match literal.holds {
            true => format!(", those who {}", words(file, literal)),
            false => format!(", all but those who {}", words(file, literal)),
        };
    }
    if known.is_some() {
        among += ", whose outcome is known";
    }
    match &rate.measure {
        Measure::Holds(of) if of.iter().all(|literal| !literal.holds) => {
            let wanted: Vec<String> = of.iter().map(|literal| words(file, literal)).collect();
            format!("{among}: of how many is it not so that they {}?", wanted.join(" or "))
        }
        Measure::Holds(of) => {
            let wanted: Vec<String> = of
                .iter()
                .map(|literal| {
                    let not = if literal.holds { "" } else { "not " };
                    format!("{not}{}", words(file, literal))
                })
                .collect();
            // The horizon is already named beside the conditions.
            format!("{among}: how many {}?", wanted.join(" and "))
        }
        Measure::Number(number) => format!("{among}: how much is `{}` on average?", number.text),
        Measure::Delay { from, to, unit } => {
            let named = |name: &str| file.indicator(name).map_or_else(|| name.to_owned(), plain);
            let from = from
                .as_ref()
                .map_or_else(|| "they were opened".to_owned(), |from| format!("they {}", named(from)));
            format!(
                "{among}: how long is it from when {from} to when they {}, on average, in {}?",
                named(to),
                unit.name()
            )
        }
        Measure::Flips(decision) => {
            let groups = file.group_columns();
            let groups = list(groups.iter().map(String::as_str));
            format!(
                "{among}, those asked again with another value of {groups}: how often was `{}` another?",
                decision.text
            )
        }
    }
}

/// An indicator as a verb phrase, with its time limit.
fn words(file: &FairnessFile, literal: &Literal) -> String {
    let Some(indicator) = file.indicator(&literal.indicator) else { return literal.indicator.clone() };
    let within = |bound: Option<Duration>| {
        bound.map(|bound| format!(" within {}", in_words(bound))).unwrap_or_default()
    };
    // An event that can only happen after the opening is bounded by the horizon.
    let is_later = indicator.key.is_some()
        || file.trial.opens.as_ref().is_some_and(|opens| !indicator.when.text.contains(&opens.text));
    let bound = indicator.within.or(if is_later { file.trial.horizon } else { None });
    format!("{}{}", plain(indicator), within(bound))
}

fn plain(indicator: &Indicator) -> String {
    indicator.called.clone().unwrap_or_else(|| format!("are `{}`", indicator.name.value))
}

fn compared(file: &FairnessFile, metric: &Metric) -> String {
    let columns = |columns: Vec<&str>| {
        let what = if columns.len() == 1 { "the values" } else { "the combinations" };
        format!("{what} of {}", list(columns))
    };
    let groups = columns(metric.groups.iter().map(|group| group.value.as_str()).collect());
    let within = match metric.strata.as_slice() {
        [] => String::new(),
        strata => format!(
            ", within each of {}",
            columns(strata.iter().map(|stratum| stratum.value.as_str()).collect())
        ),
    };
    let tolerance = metric.tolerance;
    if let Some(reference) = file.reference(metric) {
        let reference: Vec<&str> = reference.iter().map(|value| value.value.as_str()).collect();
        return compared_with(metric, &reference.join(", "), &groups, &within);
    }
    if metric.guarantee.is_some() {
        let beyond = match metric.kind.comparison() {
            Comparison::Difference => format!("that two groups differ by more than {tolerance}"),
            Comparison::Ratio => format!("that the lowest is less than {tolerance} of the highest"),
            Comparison::Highest => format!("that it is more than {tolerance} for a group"),
        };
        return format!("Compared between {groups}{within}; alarm when there is enough evidence {beyond}.");
    }
    let (alarm, cleared) = match metric.kind.comparison() {
        Comparison::Difference => {
            (format!("two groups differ by more than {tolerance}"), format!("at {} or less", metric.clear))
        }
        Comparison::Ratio => (
            format!("the lowest is less than {tolerance} of the highest"),
            format!("at {} or more", metric.clear),
        ),
        Comparison::Highest => {
            (format!("it is more than {tolerance} for a group"), format!("at {} or less", metric.clear))
        }
    };
    format!("Compared between {groups}{within}; alarm when {alarm}, cleared {cleared}.")
}

/// How groups are compared with a reference group.
fn compared_with(metric: &Metric, reference: &str, groups: &str, within: &str) -> String {
    let tolerance = metric.tolerance;
    let is_ratio = metric.kind.comparison() == Comparison::Ratio;
    let beyond = match is_ratio {
        true => {
            format!("the ratio of one and {reference}, the lower to the higher, is less than {tolerance}")
        }
        false => format!("one differs from {reference} by more than {tolerance}"),
    };
    let alarm = match (&metric.guarantee, is_ratio) {
        (Some(_), _) => format!("when there is enough evidence that {beyond}"),
        (None, true) => format!("when {beyond}, cleared at {} or more", metric.clear),
        (None, false) => format!("when {beyond}, cleared at {} or less", metric.clear),
    };
    format!("Compared with {reference}: each of {groups}{within}; alarm {alarm}.")
}

/// The guarantee, how rates and strata share it, and its conditions.
fn promised(metric: &Metric, guarantee: &Guarantee) -> String {
    let promise = match guarantee.promise {
        Promise::Ever(_) | Promise::Discoveries(_) => guarantee.promise.to_string(),
        Promise::Every { memory, .. } => {
            let memory = match memory {
                Some(memory) => format!(" Estimates are based on about the last {memory} trials."),
                None => String::new(),
            };
            let is_exact = match metric.kind.comparison() {
                Comparison::Ratio => metric.tolerance >= 1.0,
                Comparison::Difference | Comparison::Highest => metric.tolerance <= 0.0,
            };
            let end = match is_exact {
                true => "An alarm is never cleared: there is no evidence that groups do not differ at all.",
                false => {
                    "An alarm is cleared when there is enough evidence that its groups are treated fairly again."
                }
            };
            format!("{}{memory} {end}", guarantee.promise)
        }
    };
    // A bound in trials need not be shared: each rate and stratum adds false alarms only as it adds trials.
    let is_shared = !matches!(guarantee.promise, Promise::Every { every: Every::Trials(_), .. });
    let rates = match metric.rates.len() {
        rates if is_shared && rates > 1 => format!(" The {rates} rates share this evenly."),
        _ => String::new(),
    };
    let file = match metric.of_file {
        1 => String::new(),
        tables => format!(" The {tables} metrics of the file without a rule of their own share this evenly."),
    };
    let comparisons = match metric.of_table {
        1 => String::new(),
        comparisons => format!(" The {comparisons} comparisons of this metric share this evenly."),
    };
    let strata = match guarantee.strata {
        _ if metric.strata.is_empty() => String::new(),
        Some(strata) if is_shared => {
            format!(" {strata} strata share it evenly; further strata are not tested.")
        }
        Some(strata) => format!(" Strata after the first {strata} are not tested."),
        None if !is_shared => String::new(),
        None => " Strata share it in order of arrival: 1/2, 1/6, 1/12 and so on.".to_owned(),
    };
    let is_family = metric.rates.len() as u64 * metric.comparisons() > 1 || !metric.strata.is_empty();
    let left_over = match guarantee.promise {
        Promise::Ever(_) if is_family => " After an alarm, the others have its share as well.",
        Promise::Discoveries(_) if is_family => {
            " The more alarms there are, the less evidence another one takes."
        }
        _ => "",
    };
    let range = match metric.range {
        Some((low, high)) => format!(" Numbers below {low} count as {low}, those above {high} as {high}."),
        None => String::new(),
    };
    format!(
        "{promise}{file}{rates}{comparisons}{strata}{left_over} Evidence is evaluated in blocks of {} trials.{range} This holds if trials are \
         independent of each other and their groups are fixed before their outcomes.",
        guarantee.block
    )
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Promise::Ever(level) => write!(
                f,
                "At most {} % of fair systems ever raise an alarm, however long they run and however often they are \
                 checked.",
                percent(*level)
            ),
            Promise::Discoveries(level) => write!(
                f,
                "On average at most {0} % of the alarms are false; if everything is fair, at most {0} % of systems ever raise \
                 one.",
                percent(*level)
            ),
            Promise::Every { every, .. } => {
                let every = match every {
                    Every::Trials(trials) => format!("{trials} trials"),
                    Every::Time(time) => in_words(*time),
                };
                write!(f, "On average, a fair system raises an alarm at most once in {every}.")
            }
        }
    }
}

/// A fraction in percent, without trailing zeros.
fn percent(share: f64) -> String {
    let text = format!("{:.6}", share * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn notes(file: &FairnessFile) -> Vec<String> {
    let mut notes = Vec::new();
    let of_outcomes = [
        MetricKind::EqualizedOdds,
        MetricKind::EqualOpportunity,
        MetricKind::PredictiveEquality,
        MetricKind::PredictiveParity,
    ];
    let counts_missing = |metric: &&Metric| {
        of_outcomes.contains(&metric.kind) && metric.rates.iter().any(|rate| rate.unknown.is_none())
    };
    let titles: Vec<&str> =
        file.metrics.iter().filter(counts_missing).map(|metric| metric.title.as_str()).collect();
    if !titles.is_empty() {
        notes.push(format!(
            "A trial without the outcome counts as one for which it did not happen, also if it was never reported: \
             {}. `known = …` tells the two apart.",
            list(titles)
        ));
    }
    let mut tables: Vec<usize> = Vec::new();
    let mut levels: Vec<f64> = Vec::new();
    for metric in &file.metrics {
        let promise = metric.guarantee.as_ref().map(|guarantee| guarantee.value.promise);
        if let Some(Promise::Ever(level)) = promise.filter(|_| !tables.contains(&metric.table)) {
            tables.push(metric.table);
            levels.push(level / metric.of_file as f64);
        }
    }
    let is_shared = file.metrics.iter().all(|metric| metric.of_file == levels.len() as u64);
    if levels.len() > 1 && !is_shared {
        notes.push(format!(
            "{} metrics have a guarantee of their own: at most {} % of systems that are fair by all of them ever raise an \
             alarm.",
            levels.len(),
            percent(levels.iter().sum::<f64>().min(1.0))
        ));
    }
    notes
}

fn estimated(metric: &Metric) -> String {
    let check = match metric.check {
        Some(period) => format!("Checked every {}", in_words(period).trim_start_matches("1 ")),
        None => "Checked at every event".to_owned(),
    };
    let prior = match &metric.prior {
        _ if metric.confidence == 0.0 => ", without a prior".to_owned(),
        Prior::Pooled => format!(
            ", with the rate of all groups together as a prior that is worth {} trials",
            metric.confidence
        ),
        Prior::Number(number) => {
            format!(", with a prior of {number} that is worth {} trials", metric.confidence)
        }
        Prior::Expression(expression) => {
            format!(", with a prior of `{}` that is worth {} trials", expression.text, metric.confidence)
        }
    };
    let evidence = match metric.min_trials {
        0 => String::new(),
        least => {
            format!(" A group with fewer than {least} trials is not compared: there is not enough evidence.")
        }
    };
    format!("{check}{prior}.{evidence}")
}

fn warnings(file: &FairnessFile) -> Vec<String> {
    let mut warnings = Vec::new();
    let used = |name: &str| {
        file.metrics.iter().flat_map(|metric| &metric.rates).any(|rate| {
            let of: Vec<&str> = match &rate.measure {
                Measure::Holds(of) => of.iter().map(|literal| literal.indicator.as_str()).collect(),
                Measure::Delay { from, to, .. } => from.iter().chain([to]).map(String::as_str).collect(),
                Measure::Number(_) | Measure::Flips(_) => Vec::new(),
            };
            of.contains(&name) || rate.given.iter().any(|literal| literal.indicator == name)
        })
    };
    for indicator in file.indicators.iter().filter(|indicator| !used(&indicator.name.value)) {
        warnings.push(format!("no metric uses the indicator `{}`", indicator.name.value));
    }
    if file.trial.horizon.is_some() && file.metrics.iter().any(|metric| metric.check.is_none()) {
        warnings.push(
            "with a horizon and no `check`, a trial is counted at the first event after its end, and never if none follows: \
             `check = \"1d\"` counts it in any case"
                .to_owned(),
        );
    }
    let longest = file.metrics.iter().filter_map(|metric| metric.check).max();
    if let (Some(horizon), Some(check)) = (file.trial.horizon, longest)
        && check > horizon
    {
        warnings.push(format!(
            "trials end after {0} but are counted every {1} only: until then each costs something every {0}",
            in_words(horizon),
            in_words(check)
        ));
    }
    warnings
}
