//! The streams of a compiled file, by what they mean: for the judge, for evidence, for whoever reads verdicts.

use super::names::Names;
use crate::Comparison;

/// What a stream tells the judge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CountStream {
    pub(crate) stream: String,
    pub(crate) metric: usize,
    pub(crate) rate: usize,
    pub(crate) role: CountRole,
    /// How many of its parameters are the group; the rest is the stratum.
    pub(crate) groups: usize,
}

/// The streams of one rate, for whoever reads verdicts. Their parameters are the group and then the stratum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateStreams {
    /// The metric's index in the file.
    pub metric: usize,
    /// The rate's index in the metric.
    pub rate: usize,
    /// What is counted or added up.
    pub numerator: String,
    /// The trials that count.
    pub denominator: String,
    /// The trials that still wait, if there is a horizon.
    pub pending: Option<String>,
    /// γ, if it is an expression.
    pub prior: Option<String>,
    /// The MAP estimate; not if it was compiled [for alarms](crate::Compiled::for_alarms).
    pub estimate: Option<String>,
    /// The gap, ratio or highest rate in each stratum, if there are strata.
    pub gap_in: Option<String>,
    /// The same of all groups, or the worst of all strata; for alarms alone, the stream that says when to judge.
    pub gap: String,
    /// What the judge adds, if there is a guarantee. None of it is in the RTLola text.
    pub judged: Option<JudgedStreams>,
}

/// What the judge says at each check of a rate with a guarantee, in each stratum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedStreams {
    /// `fair so far`, `unfair` or `not enough evidence yet`.
    pub verdict: String,
    /// The evidence against fairness.
    pub e_value: String,
    /// 1 through the most that it ever was, if that is a probability.
    pub p_value: String,
    /// Where the gap is, at least and at most.
    pub gap: [String; 2],
    /// Where the rate of a group is, at least and at most. Parameters are the group and then the stratum.
    pub groups: [String; 2],
    /// Roughly how many more trials would settle it.
    pub further: String,
    /// How many groups have too few trials to be compared.
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

    /// In the order in which they are said.
    pub(crate) fn all(&self) -> [&String; 9] {
        let JudgedStreams { verdict, e_value, p_value, gap: [low, high], groups, further, small } = self;
        [&groups[0], &groups[1], low, high, e_value, p_value, further, small, verdict]
    }
}

impl RateStreams {
    /// What they tell the judge.
    pub(super) fn count_streams(&self, groups: usize) -> impl Iterator<Item = CountStream> {
        let RateStreams { metric, rate, numerator, denominator, pending, prior, gap, .. } = self;
        let told = [
            (Some(numerator), CountRole::Numerator),
            (Some(denominator), CountRole::Denominator),
            (pending.as_ref(), CountRole::Pending),
            (prior.as_ref(), CountRole::Prior),
            (Some(gap), CountRole::Check),
        ];
        let count_stream = |(stream, role): (Option<&String>, CountRole)| {
            Some(CountStream { stream: stream?.clone(), metric: *metric, rate: *rate, role, groups })
        };
        told.into_iter().filter_map(count_stream).collect::<Vec<_>>().into_iter()
    }
}

/// What the value of a stream means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountRole {
    Numerator,
    Denominator,
    Pending,
    Prior,
    /// That the rate is to be judged now.
    Check,
}

/// What the trial layer says of each trial: for evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TrialStreams {
    /// Has a value when a trial is final. Its parameters are the key, the group, the stratum.
    pub(crate) counted: String,
    /// How many of its parameters are the group.
    pub(crate) groups: usize,
    /// Indicators and the like, each with the stream that is true where it holds. The first parameter is the key.
    pub(crate) facts: Vec<(String, String)>,
    /// For each rate of a metric: what a trial adds to numerator and denominator.
    pub(crate) rates: Vec<TrialRate>,
}

/// The streams that say what a trial adds to a rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TrialRate {
    pub(crate) metric: usize,
    pub(crate) rate: usize,
    pub(crate) numerator: String,
    pub(crate) denominator: String,
}
