//! The streams of a compiled file by their role: for the judge, for evidence, and for readers of verdicts.

use super::names::Names;
use crate::Comparison;

/// A stream whose values are counts of a rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CountStream {
    pub(crate) stream: String,
    pub(crate) metric: usize,
    pub(crate) rate: usize,
    pub(crate) role: CountRole,
    /// Number of parameters that are the group; the others are the stratum.
    pub(crate) groups: usize,
}

/// The streams of one rate, for readers of verdicts. Their parameters are the group, then the stratum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateStreams {
    /// The metric's index in the file.
    pub metric: usize,
    /// The rate's index in the metric.
    pub rate: usize,
    /// Number of positive trials, or the sum of their numbers.
    pub numerator: String,
    /// Number of counted trials.
    pub denominator: String,
    /// Trials that wait for their horizon, if there is one.
    pub pending: Option<String>,
    /// Trials whose outcome is not known, if the file says which.
    pub unknown: Option<String>,
    /// The prior γ, if it is an expression.
    pub prior: Option<String>,
    /// The MAP estimate; `None` if the file was compiled [for alarms](crate::Compiled::for_alarms).
    pub estimate: Option<String>,
    /// The gap, ratio or highest rate in each stratum, if there are strata.
    pub gap_in: Option<String>,
    /// The gap over all groups, or the largest over all strata; if compiled for alarms, the stream that triggers
    /// checks.
    pub gap: String,
    /// Streams that the judge adds, if there is a guarantee. They are not in the RTLola text.
    pub judged: Option<JudgedStreams>,
}

/// Values that the judge emits at each check of a rate with a guarantee, for each stratum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedStreams {
    /// `fair so far`, `unfair` or `not enough evidence yet`.
    pub verdict: String,
    /// The e-value against fairness.
    pub e_value: String,
    /// The p-value, 1 / the largest e-value so far, if the guarantee bounds a probability.
    pub p_value: String,
    /// Lower and upper end of the interval for the gap.
    pub gap: [String; 2],
    /// Lower and upper end of the interval for the rate of a group. Parameters are the group, then the stratum.
    pub groups: [String; 2],
    /// Approximate number of further trials until a decision.
    pub further: String,
    /// Number of groups with too few trials to be compared.
    pub small: String,
}

impl JudgedStreams {
    pub(super) fn new(names: &mut Names, base: &str, comparison: Comparison) -> JudgedStreams {
        let mut name = |what: &str| names.new_name(&format!("{base}_{what}"));
        let gap = if comparison == Comparison::Ratio { "ratio" } else { "gap" };
        JudgedStreams {
            verdict: name("verdict"),
            e_value: name("e_value"),
            p_value: name("p_value"),
            gap: ["low", "high"].map(|end| name(&format!("{gap}_{end}"))),
            groups: ["low", "high"].map(&mut name),
            further: name("further_trials"),
            small: name("small_groups"),
        }
    }

    /// All streams in the order in which they are emitted.
    pub(crate) fn all(&self) -> [&String; 9] {
        let JudgedStreams { verdict, e_value, p_value, gap: [low, high], groups, further, small } = self;
        [&groups[0], &groups[1], low, high, e_value, p_value, further, small, verdict]
    }
}

impl RateStreams {
    /// The streams with counts of this rate.
    pub(super) fn count_streams(&self, groups: usize) -> impl Iterator<Item = CountStream> {
        let RateStreams { metric, rate, numerator, denominator, pending, unknown, prior, gap, .. } = self;
        let streams = [
            (Some(numerator), CountRole::Numerator),
            (Some(denominator), CountRole::Denominator),
            (pending.as_ref(), CountRole::Pending),
            (unknown.as_ref(), CountRole::Unknown),
            (prior.as_ref(), CountRole::Prior),
            (Some(gap), CountRole::Check),
        ];
        let count_stream = |(stream, role): (Option<&String>, CountRole)| {
            Some(CountStream { stream: stream?.clone(), metric: *metric, rate: *rate, role, groups })
        };
        streams.into_iter().filter_map(count_stream).collect::<Vec<_>>().into_iter()
    }
}

/// The role of a stream's value in the counts of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountRole {
    Numerator,
    Denominator,
    Pending,
    Unknown,
    Prior,
    /// Triggers a check of the rate.
    Check,
}

/// The streams of the trial layer that evidence is recorded from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TrialStreams {
    /// Has a value when a trial is final. Its parameters are the key, the group, the stratum.
    pub(crate) counted: String,
    /// Number of parameters that are the group.
    pub(crate) groups: usize,
    /// Names of facts, each with the stream that is true where it holds. The first parameter is the key.
    pub(crate) facts: Vec<(String, String)>,
    /// All streams of the layer. The first parameter of each is the key.
    pub(crate) all: Vec<String>,
    /// For each rate, what a trial adds to its numerator and denominator.
    pub(crate) rates: Vec<TrialRate>,
}

/// The streams with what a trial adds to a rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TrialRate {
    pub(crate) metric: usize,
    pub(crate) rate: usize,
    pub(crate) numerator: String,
    pub(crate) denominator: String,
}
