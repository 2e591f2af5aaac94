//! The metrics: what each compares between groups, and which keys it takes.

use fairstream_core::nearest;
use serde::{Deserialize, Serialize};

use crate::expression::Expression;
use crate::file::{Indicator, Prior};
use crate::table::{Located, TomlTable, list};
use crate::{Problem, Unit};

/// What is compared between groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// P(decision | group).
    DemographicParity,
    /// P(decision | group) within each stratum.
    ConditionalStatisticalParity,
    /// P(prediction | group, outcome) and P(prediction | group, no outcome).
    EqualizedOdds,
    /// P(prediction | group, outcome).
    EqualOpportunity,
    /// P(prediction | group, no outcome).
    PredictiveEquality,
    /// P(outcome | group, prediction).
    PredictiveParity,
    /// The ratio of the lowest to the highest P(decision | group).
    DisparateImpact,
    /// The same, also of a score above its median: the table of a bias audit.
    ImpactRatio,
    /// P(of | group, given) for user-defined indicators.
    Probability,
    /// E[of | group, given] of a number or a delay.
    MeanDifference,
    /// P(decision changes | asked again with another group).
    CounterfactualFairness,
}

impl MetricKind {
    /// Every metric.
    pub const ALL: [MetricKind; 11] = [
        MetricKind::DemographicParity,
        MetricKind::ConditionalStatisticalParity,
        MetricKind::EqualizedOdds,
        MetricKind::EqualOpportunity,
        MetricKind::PredictiveEquality,
        MetricKind::PredictiveParity,
        MetricKind::DisparateImpact,
        MetricKind::ImpactRatio,
        MetricKind::Probability,
        MetricKind::MeanDifference,
        MetricKind::CounterfactualFairness,
    ];

    /// Its name in fairness files.
    pub fn name(self) -> &'static str {
        match self {
            MetricKind::DemographicParity => "demographic-parity",
            MetricKind::ConditionalStatisticalParity => "conditional-statistical-parity",
            MetricKind::EqualizedOdds => "equalized-odds",
            MetricKind::EqualOpportunity => "equal-opportunity",
            MetricKind::PredictiveEquality => "predictive-equality",
            MetricKind::PredictiveParity => "predictive-parity",
            MetricKind::DisparateImpact => "disparate-impact",
            MetricKind::ImpactRatio => "impact-ratio",
            MetricKind::Probability => "probability",
            MetricKind::MeanDifference => "mean-difference",
            MetricKind::CounterfactualFairness => "counterfactual-fairness",
        }
    }

    /// How the estimates of the groups are compared.
    pub fn comparison(self) -> Comparison {
        match self {
            MetricKind::DisparateImpact | MetricKind::ImpactRatio => Comparison::Ratio,
            MetricKind::CounterfactualFairness => Comparison::Highest,
            _ => Comparison::Difference,
        }
    }

    pub(crate) fn default_tolerance(self) -> Option<f64> {
        (self.comparison() == Comparison::Ratio).then_some(0.8)
    }

    /// Default prior γ: the pooled rate, so that the prior makes no difference between groups that have the same rate;
    /// 0 for a change of the decision, which should never happen and is not compared between groups.
    pub(crate) fn default_prior(self) -> Prior {
        match self {
            MetricKind::CounterfactualFairness => Prior::Number(0.0),
            _ => Prior::Pooled,
        }
    }

    /// Default confidence κ. It is 0 for means, since the magnitude of a number is not known in advance.
    pub(crate) fn default_confidence(self) -> f64 {
        if self == MetricKind::MeanDifference { 0.0 } else { 24.0 }
    }

    pub(crate) fn find(name: &Located<String>) -> Result<MetricKind, Problem> {
        let names = || MetricKind::ALL.into_iter().map(MetricKind::name);
        let known = MetricKind::ALL.into_iter().find(|metric| metric.name() == name.value);
        known.ok_or_else(|| {
            let help = match nearest(&name.value, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", list(names())),
            };
            Problem::new(name.at.range(), format!("there is no metric `{}`", name.value)).help(help)
        })
    }
}

/// How the estimates of groups are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Comparison {
    /// The highest minus the lowest; an alarm above the tolerance.
    Difference,
    /// The lowest divided by the highest; an alarm below the tolerance.
    Ratio,
    /// The highest; an alarm above the tolerance.
    Highest,
}

/// A rate that is estimated for each group: what is averaged, over which trials.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rate {
    /// Suffix that distinguishes the rates of one metric; empty if there is only one.
    pub(crate) label: &'static str,
    pub(crate) measure: Measure,
    /// Conditions on the trials that count.
    pub(crate) given: Vec<Literal>,
    /// Numbers are clamped to this range.
    pub(crate) range: Option<(f64, f64)>,
    /// Trials that would count if their outcome were known; `None` if a missing outcome is a negative one.
    pub(crate) unknown: Option<UnknownOutcome>,
    /// Whether a high rate is good for a group, if the file says so.
    pub(crate) favourable: Option<bool>,
}

/// Which trials have an outcome that is not known.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UnknownOutcome {
    /// Conditions that do not depend on the outcome.
    pub(crate) given: Vec<Literal>,
    /// Says that the outcome is known.
    pub(crate) known: Literal,
}

impl Rate {
    fn new(label: &'static str, measure: Measure, given: Vec<Literal>) -> Rate {
        Rate { label, measure, given, range: None, unknown: None, favourable: None }
    }

    /// Turns a rate of something that is bad for a person into the rate of those without it. A ratio of shares is about
    /// what is favourable: the four-fifths rule compares rates of selection.
    fn turn_to_favourable(&mut self) {
        if let (Measure::Holds(of), Some(false)) = (&mut self.measure, self.favourable)
            && let [one] = of.as_mut_slice()
        {
            one.holds = !one.holds;
            self.favourable = Some(true);
        }
    }

    /// The expression that is averaged, if one is.
    pub(crate) fn expression(&self) -> Option<&Expression> {
        match &self.measure {
            Measure::Number(expression) | Measure::Flips(expression) => Some(expression),
            Measure::Holds(_) | Measure::Delay { .. } => None,
        }
    }
}

/// What is averaged over trials.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Measure {
    /// Whether all of these literals hold.
    Holds(Vec<Literal>),
    /// The first value of an expression in the trial.
    Number(Expression),
    /// Time from the first event of one indicator (`None`: from the opening) to that of another.
    Delay { from: Option<String>, to: String, unit: Unit },
    /// Whether this decision changes when the case is asked again with another group.
    Flips(Expression),
}

/// An indicator or its negation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Literal {
    pub(crate) indicator: String,
    pub(crate) holds: bool,
}

impl Literal {
    pub(crate) fn not(&self) -> Literal {
        Literal { indicator: self.indicator.clone(), holds: !self.holds }
    }
}

/// Reads the keys that are specific to a metric.
pub(crate) struct RateReader<'a> {
    pub(crate) table: &'a TomlTable<'a>,
    pub(crate) indicators: &'a [Indicator],
    pub(crate) file: &'a str,
    pub(crate) range: Option<(f64, f64)>,
}

impl RateReader<'_> {
    /// `None` if there is a problem, which has been reported.
    pub(crate) fn rates(&self, metric: MetricKind) -> Option<Vec<Rate>> {
        let favourable = self.table.flag("favourable").map(|favourable| favourable.value);
        let known = self.table.text("known").map(|known| self.literal(&known));
        let mut rates = self.plain_rates(metric)?;
        for rate in &mut rates {
            rate.favourable = favourable.or_else(|| self.favourable(metric, rate));
            match &known {
                Some(known) => self.leave_out_unknown(metric, rate, known.clone()?),
                None => self.leave_out_unknown_of_indicators(rate)?,
            }
        }
        if metric.comparison() == Comparison::Ratio {
            rates.iter_mut().for_each(Rate::turn_to_favourable);
        }
        Some(rates)
    }

    /// Whether a high rate is good for a group, by what the file says of the decision or prediction.
    fn favourable(&self, metric: MetricKind, rate: &Rate) -> Option<bool> {
        match (metric, &rate.measure) {
            (MetricKind::PredictiveParity, _) => None,
            (_, Measure::Holds(of)) => match of.as_slice() {
                [one] => Some(self.indicator(one)?.favourable? == one.holds),
                _ => None,
            },
            _ => None,
        }
    }

    fn indicator(&self, literal: &Literal) -> Option<&Indicator> {
        self.indicators.iter().find(|indicator| indicator.name.value == literal.indicator)
    }

    /// Leaves trials out whose outcome is not known: of the metric's outcome if it has one, otherwise of what is
    /// averaged.
    fn leave_out_unknown(&self, metric: MetricKind, rate: &mut Rate, known: Literal) {
        let of_prediction =
            [MetricKind::EqualizedOdds, MetricKind::EqualOpportunity, MetricKind::PredictiveEquality];
        let given = if of_prediction.contains(&metric) { Vec::new() } else { rate.given.clone() };
        rate.unknown = Some(UnknownOutcome { given, known: known.clone() });
        rate.given.push(known);
    }

    /// The same where indicators say when they are known.
    fn leave_out_unknown_of_indicators(&self, rate: &mut Rate) -> Option<()> {
        let known_by = |literal: &Literal| self.indicator(literal)?.known.as_ref();
        let of: &[Literal] = if let Measure::Holds(of) = &rate.measure { of } else { &[] };
        let mut known: Option<Literal> = None;
        for name in rate.given.iter().chain(of).filter_map(known_by) {
            let literal = self.literal(name)?;
            if known.as_ref().is_some_and(|known| *known != literal) {
                let message = "two indicators of one rate are known by different indicators";
                let help = "name one that says that both are known: `known = …` of the metric";
                self.table.problem(Problem::new(name.at.range(), message).help(help));
                return None;
            }
            known = Some(literal);
        }
        if let Some(known) = known {
            let given = rate.given.iter().filter(|literal| known_by(literal).is_none()).cloned().collect();
            rate.unknown = Some(UnknownOutcome { given, known: known.clone() });
            rate.given.push(known);
        }
        Some(())
    }

    fn plain_rates(&self, metric: MetricKind) -> Option<Vec<Rate>> {
        let rate = |label, of: Vec<Literal>, given| Rate::new(label, Measure::Holds(of), given);
        Some(match metric {
            MetricKind::DemographicParity
            | MetricKind::ConditionalStatisticalParity
            | MetricKind::DisparateImpact => {
                vec![rate("", vec![self.one("decision", "the indicator that is decided on")?], vec![])]
            }
            MetricKind::EqualizedOdds
            | MetricKind::EqualOpportunity
            | MetricKind::PredictiveEquality
            | MetricKind::PredictiveParity => {
                let prediction = self.one("prediction", "the indicator that says what was predicted");
                let outcome = self.one("outcome", "the indicator that says what happened");
                let (prediction, outcome) = (prediction?, outcome?);
                let both = metric == MetricKind::EqualizedOdds;
                let [positives, negatives] =
                    if both { ["true_positive", "false_positive"] } else { ["", ""] };
                let without = outcome.not();
                match metric {
                    MetricKind::EqualOpportunity => vec![rate("", vec![prediction], vec![outcome])],
                    MetricKind::PredictiveEquality => vec![rate("", vec![prediction], vec![without])],
                    MetricKind::PredictiveParity => vec![rate("", vec![outcome], vec![prediction])],
                    _ => vec![
                        rate(positives, vec![prediction.clone()], vec![outcome]),
                        rate(negatives, vec![prediction], vec![without]),
                    ],
                }
            }
            MetricKind::ImpactRatio => {
                let score = self.table.text("score");
                self.table.number("above");
                let decision = match score {
                    Some(_) if self.table.has("decision") => {
                        let message = "there is a `decision` or a `score`, not both";
                        self.table.problem(Problem::new(self.table.at.range(), message));
                        return None;
                    }
                    Some(score) => Literal { indicator: score_indicator(&score.value), holds: true },
                    None => self.one("decision", "the indicator that is decided on; or `score`, a column")?,
                };
                vec![rate("", vec![decision], vec![])]
            }
            MetricKind::Probability => {
                let of = self.several("of", Some("the indicators whose probability is estimated"));
                let given = self.several("given", None);
                vec![rate("", of?, given?)]
            }
            MetricKind::MeanDifference => {
                let measure = self.amount();
                let given = self.several("given", None);
                vec![Rate { range: self.range, ..Rate::new("", measure?, given?) }]
            }
            MetricKind::CounterfactualFairness => {
                let Some(decision) = self.table.text("decision") else {
                    self.missing("decision", "an expression of the event, such as `approved`");
                    return None;
                };
                let measure = Measure::Flips(Expression::new(decision, self.file));
                vec![Rate::new("", measure, vec![])]
            }
        })
    }

    fn amount(&self) -> Option<Measure> {
        if self.table.is_text("of") {
            return self.table.text("of").map(|text| Measure::Number(Expression::new(text, self.file)));
        }
        let why = "a number, such as \"score\", or a delay: { from = \"applied\", to = \"decided\" }";
        if !self.table.has("of") {
            // Read so that it counts as a known key.
            self.table.text("of");
            self.missing("of", why);
            return None;
        }
        let delay = self.table.table("of")?;
        let indicator = |name: Located<String>| self.literal(&name).map(|literal| (literal, name));
        let from = delay.text("from").map(indicator);
        let to = delay.text("to").map(indicator);
        if to.is_none() {
            delay.missing("to", "the indicator whose first event ends the delay");
        }
        let unit = match delay.text("unit") {
            None => Some(Unit::Second),
            Some(text) => Unit::find(&text).map_err(|problem| self.table.problem(problem)).ok(),
        };
        delay.finish();
        let plain = |found: Option<(Literal, Located<String>)>| {
            let (literal, name) = found?;
            if !literal.holds {
                let message = "an indicator that does not hold has no first event";
                self.table.problem(Problem::new(name.at.range(), message));
            }
            literal.holds.then_some(literal.indicator)
        };
        let from = match from {
            None => None,
            Some(found) => Some(plain(found)?),
        };
        Some(Measure::Delay { from, to: plain(to?)?, unit: unit? })
    }

    fn missing(&self, key: &str, why: &str) {
        self.table.missing(key, &format!("it is {why}"));
    }

    fn one(&self, key: &'static str, why: &str) -> Option<Literal> {
        match self.table.text(key) {
            Some(name) => self.literal(&name),
            None => {
                if !self.table.has(key) {
                    self.missing(key, why);
                }
                None
            }
        }
    }

    fn several(&self, key: &'static str, why: Option<&str>) -> Option<Vec<Literal>> {
        match (self.table.texts(key), why) {
            (Some(names), _) if names.is_empty() && why.is_some() => {
                self.missing(key, why.unwrap_or_default());
                None
            }
            (Some(names), _) => {
                let literals: Vec<Option<Literal>> = names.iter().map(|name| self.literal(name)).collect();
                let mut literals: Vec<Literal> = literals.into_iter().collect::<Option<_>>()?;
                let mut seen = Vec::new();
                literals.retain(|literal| {
                    let new = !seen.contains(literal);
                    seen.push(literal.clone());
                    new
                });
                Some(literals)
            }
            (None, _) if self.table.has(key) => None,
            (None, None) => Some(Vec::new()),
            (None, Some(why)) => {
                self.missing(key, why);
                None
            }
        }
    }

    /// `accepted`, or `not accepted`.
    fn literal(&self, name: &Located<String>) -> Option<Literal> {
        let (indicator, holds) = match name.value.trim().strip_prefix("not ") {
            Some(rest) => (rest.trim(), false),
            None => (name.value.trim(), true),
        };
        let names = || self.indicators.iter().map(|indicator| indicator.name.value.as_str());
        if names().any(|known| known == indicator) {
            return Some(Literal { indicator: indicator.to_owned(), holds });
        }
        let help = match nearest(indicator, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if !indicator.chars().all(|c| c.is_alphanumeric() || c == '_') => {
                format!("a condition needs a name: [indicators] holds = '{indicator}', and `holds` here")
            }
            None if self.indicators.is_empty() => {
                format!("say when it holds: [indicators] {indicator} = '{indicator} == 1'")
            }
            None => format!("there are {}; say when it holds in [indicators]", list(names())),
        };
        let problem =
            Problem::new(name.at.range(), format!("there is no indicator `{indicator}`")).help(help);
        self.table.problem(problem);
        None
    }
}

/// The name of the indicator that a score is above its threshold.
pub(crate) fn score_indicator(column: &str) -> String {
    format!("{}_above", crate::file::identifier(column))
}

/// The strata of a metric.
pub(crate) fn strata(table: &TomlTable<'_>, metric: MetricKind) -> Vec<Located<String>> {
    let strata = table.texts("strata").unwrap_or_default();
    if strata.is_empty() && metric == MetricKind::ConditionalStatisticalParity && !table.has("strata") {
        table.missing("strata", "it is the column, or columns, within whose values groups are compared");
    }
    strata
}
