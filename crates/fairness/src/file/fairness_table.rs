//! Reads a `[[fairness]]`: what it compares, its thresholds, prior and guarantee.

use std::time::Duration;

use super::{Indicator, identifier};
use crate::expression::Expression;
use crate::group::Combination;
use crate::metric::{self, Rate, RateReader};
use crate::reference::ReferenceValue;
use crate::table::{Located, TextSpan, TomlTable, list};
use crate::unit::rtlola_duration;
use crate::{Guarantee, MetricKind, Problem, RollingWindow, guarantee};

/// One `[[fairness]]`.
#[derive(Clone, Debug)]
pub(crate) struct Metric {
    pub(crate) kind: MetricKind,
    /// Base name of its streams.
    pub(crate) name: String,
    /// Title of the metric.
    pub(crate) title: String,
    pub(crate) at: TextSpan,
    /// The index of its table, which is several metrics if it has several combinations of groups.
    pub(crate) table: usize,
    /// Number of metrics of the same table, which share its guarantee.
    pub(crate) of_table: u64,
    /// Number of tables that share the guarantee of the file with this one; 1 if the table has its own.
    pub(crate) of_file: u64,
    /// The lowest index of the tables that share a guarantee with this one.
    pub(crate) family: usize,
    pub(crate) groups: Combination,
    /// The group that others are compared with, by the columns of `groups`. Known once their types are.
    pub(crate) reference: Option<Vec<ReferenceValue>>,
    pub(crate) rates: Vec<Rate>,
    pub(crate) strata: Vec<Located<String>>,
    pub(crate) tolerance: f64,
    pub(crate) clear: f64,
    pub(crate) min_trials: u64,
    pub(crate) prior: Prior,
    pub(crate) confidence: f64,
    /// `None` for the rule of the paper.
    pub(crate) guarantee: Option<Located<Guarantee>>,
    /// Whether the file asks for the guarantee or the rule; otherwise there is a guarantee by default.
    pub(crate) says_rule: bool,
    /// Numbers of a mean are clamped to this range.
    pub(crate) range: Option<(f64, f64)>,
    /// Period of checks; `None` for a check at every event.
    pub(crate) check: Option<Duration>,
    /// The window in which trials count; `None` if all of them do.
    pub(crate) window: Option<Located<RollingWindow>>,
}

impl Metric {
    /// Minimum number of trials for a group to be compared. At least 1 without a prior, since a group without trials
    /// has no estimate then.
    pub(crate) fn required_trials(&self) -> u64 {
        self.min_trials.max(u64::from(self.confidence == 0.0))
    }

    /// The metric for each combination of groups. They share its guarantee, so that it holds for all of them together.
    pub(super) fn for_each(self, combinations: &[Combination]) -> Vec<Metric> {
        let of = |groups: &Combination| {
            let names: Vec<&str> = groups.iter().map(|group| group.value.as_str()).collect();
            let mut metric =
                Metric { groups: groups.clone(), of_table: combinations.len().max(1) as u64, ..self.clone() };
            if combinations.len() > 1 {
                metric.title = format!("{} by {}", self.title, names.join(" and "));
                metric.name = identifier(&metric.title);
            }
            metric
        };
        combinations.iter().map(of).collect()
    }

    /// Number of comparisons that share its guarantee.
    pub(crate) fn comparisons(&self) -> u64 {
        self.of_table * self.of_file
    }

    /// Whether the comparison needs constants beyond any estimate.
    pub(crate) fn is_guarded(&self) -> bool {
        self.required_trials() > 0
            || self.reference.is_some()
            || self.kind.comparison() != crate::Comparison::Difference
    }
}

/// The prior γ.
#[derive(Clone, Debug)]
pub(crate) enum Prior {
    /// The rate of all groups together, in the same stratum.
    Pooled,
    Number(f64),
    Expression(Expression),
}

/// Reads the metric. Its groups are set once they are known.
pub(super) fn metric(mut table: TomlTable<'_>, indicators: &[Indicator], text: &str) -> Option<Metric> {
    let Some(kind) = table.text("metric") else {
        if !table.has("metric") {
            let names = list(MetricKind::ALL.into_iter().map(MetricKind::name));
            table.missing("metric", &format!("there are {names}"));
        }
        return None;
    };
    let kind = MetricKind::find(&kind).map_err(|problem| table.problem(problem)).ok()?;
    table.name = format!("`{}`", kind.name());
    let title = table.words("name");
    let check = table.duration("check").map(|check| check.value);
    let guarantee = guarantee::read(&table, kind, check);
    let window = window(&table, check, guarantee.as_ref());
    let says_rule = table.has("guarantee") || table.has("rule");
    let range = if kind == MetricKind::MeanDifference { table.range("range") } else { None };
    let rates = RateReader { table: &table, indicators, file: text, range }.rates(kind);
    let strata = metric::strata(&table, kind);
    let (tolerance, clear) = thresholds(&table, kind);
    let min_trials = table.count("min_trials").unwrap_or(0);
    // A guarantee needs no prior, since the e-value decides.
    let default = if guarantee.is_some() { 0.0 } else { kind.default_confidence() };
    let confidence = table.number("confidence").map_or(default, |confidence| {
        if confidence.value < 0.0 {
            table.problem(Problem::new(confidence.at.range(), "`confidence` has to be 0 or more"));
        }
        confidence.value
    });
    let prior = match table.number_or_text("prior") {
        None => kind.default_prior(),
        Some(Ok(number)) => {
            if kind != MetricKind::MeanDifference && !(0.0..=1.0).contains(&number.value) {
                table.problem(Problem::new(number.at.range(), "`prior` is a probability: 0 to 1"));
            }
            Prior::Number(number.value)
        }
        Some(Err(text_of)) => Prior::Expression(Expression::new(text_of, text)),
    };
    if table.has("prior") && confidence == 0.0 {
        let message = "`prior` counts for nothing without `confidence`";
        table.problem(
            Problem::new(table.at.range(), message)
                .help("say how many trials it is worth: `confidence = 24`"),
        );
    }
    let at = table.at.clone();
    table.finish();
    let title = title.map_or_else(|| kind.name().replace('-', " "), |title| title.value);
    Some(Metric {
        kind,
        name: identifier(&title),
        title,
        at,
        table: 0,
        of_table: 1,
        of_file: 1,
        family: 0,
        groups: Vec::new(),
        reference: None,
        rates: rates?,
        strata,
        tolerance,
        clear,
        min_trials,
        prior,
        confidence,
        guarantee,
        says_rule,
        range,
        check,
        window,
    })
}

/// Reads the window in which trials count.
fn window(
    table: &TomlTable<'_>,
    check: Option<Duration>,
    guarantee: Option<&Located<Guarantee>>,
) -> Option<Located<RollingWindow>> {
    let Located { value: length, at } = table.duration("window")?;
    let refused = |message: String, help: &str| {
        table.problem(Problem::new(at.range(), message).help(help));
        None
    };
    if guarantee.is_some_and(|guarantee| guarantee.value.promise.is_for_ever()) {
        let message = "this guarantee is about all trials, and a window forgets them".to_owned();
        let help = "ask whether groups are treated differently now, by a detector: \
                    `guarantee = { false_alarm_every = 100000 }`; or by `rule = \"map\"`, without a guarantee";
        return refused(message, help);
    }
    if let Some(check) = check.filter(|check| !length.as_nanos().is_multiple_of(check.as_nanos())) {
        let (checks, period) = (length.as_nanos() / check.as_nanos(), check.as_nanos());
        let times = |checks: u128| {
            let nanos = u64::try_from(checks * period).unwrap_or(u64::MAX);
            format!("`window = \"{}\"`", rtlola_duration(Duration::from_nanos(nanos)))
        };
        let (length, check) = (rtlola_duration(length), rtlola_duration(check));
        return match checks {
            0 => refused(
                format!("a window of {length} is shorter than the time between two checks, {check}"),
                &format!("take {} or longer, or a shorter `check`", times(1)),
            ),
            checks => refused(
                format!("a window of {length} does not begin at a check, as there is one every {check}"),
                &format!("take {} or {}, or another `check`", times(checks), times(checks + 1)),
            ),
        };
    }
    Some(Located { value: RollingWindow::new(length, check), at })
}

/// Reads the thresholds at which an alarm is raised and cleared.
fn thresholds(table: &TomlTable<'_>, kind: MetricKind) -> (f64, f64) {
    let is_ratio = kind.comparison() == crate::Comparison::Ratio;
    let clear = table.number("clear");
    let tolerance = match (table.number("tolerance"), kind.default_tolerance()) {
        (Some(tolerance), _) => {
            let bounded = kind != MetricKind::MeanDifference;
            if tolerance.value < 0.0 || bounded && tolerance.value > 1.0 {
                let range = if bounded { "between 0 and 1" } else { "0 or more" };
                table.problem(Problem::new(tolerance.at.range(), format!("`tolerance` has to be {range}")));
            }
            tolerance.value
        }
        (None, Some(default)) => default,
        (None, None) => {
            if !table.has("tolerance") {
                table.missing("tolerance", "it is how far groups may differ, such as 0.1");
            }
            // Without a tolerance, `clear` cannot be checked.
            return (0.0, 0.0);
        }
    };
    let Some(clear) = clear else { return (tolerance, tolerance) };
    let wrong = if is_ratio { clear.value < tolerance } else { clear.value > tolerance };
    if wrong || clear.value < 0.0 {
        let side = if is_ratio { "at least" } else { "at most" };
        let message = format!(
            "an alarm is cleared on the fair side: `clear` has to be {side} {tolerance}, the tolerance"
        );
        table.problem(Problem::new(clear.at.range(), message));
    }
    (tolerance, clear.value)
}
