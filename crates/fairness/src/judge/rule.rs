//! Rules, and the counts that they apply to.

use fairstream_core::Time;
use serde::{Deserialize, Serialize};

use super::stratum_test::AlarmTransition;
use super::words::label;
use crate::{Comparison, Guarantee, RollingWindow, Unit};

/// A metric without its streams: rates, comparison, thresholds and guarantee.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// Title of the metric. Evidence of earlier versions does not have it.
    #[serde(default)]
    pub title: String,
    /// How groups are compared.
    pub comparison: Comparison,
    /// An alarm is raised beyond this.
    pub tolerance: f64,
    /// An alarm is cleared at this.
    pub clear: f64,
    /// A group with fewer trials is not compared.
    pub min_trials: u64,
    /// The prior γ, unless the counts have their own; `None` for the pooled rate of all groups of the stratum.
    pub prior: Option<f64>,
    /// The confidence κ in the prior, in trials.
    pub confidence: f64,
    /// The columns whose values are groups.
    pub groups: Vec<String>,
    /// The group that every other is compared with, as a JSON array of its values; `None` if every group is compared with
    /// every other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Number of comparisons of the same metric that share its guarantee.
    #[serde(default = "one")]
    pub comparisons: u64,
    /// Rules with the same number share one guarantee.
    #[serde(default)]
    pub family: u64,
    /// The columns whose values are strata.
    pub strata: Vec<String>,
    /// Whether trials are counted only after a horizon.
    pub has_horizon: bool,
    /// Whether times are numbers of rows, in seconds, as the data has no times.
    #[serde(default)]
    pub by_rows: bool,
    /// How false alarms are bounded; `None` for the rule of the paper, which compares estimates with the tolerance.
    pub guarantee: Option<Guarantee>,
    /// The window in which trials count; `None` if all of them do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<RollingWindow>,
    /// For means: numbers are clamped to this range.
    pub range: Option<(f64, f64)>,
    /// The rates; equalized odds has two.
    pub rates: Vec<RuleRate>,
}

/// A rate, which is estimated for each group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleRate {
    /// The name of its alarms.
    pub stream: String,
    /// Title of the rate.
    pub title: String,
    /// The question that the rate answers, as a sentence.
    pub question: String,
    /// The unit, if the rate is a delay.
    pub unit: Option<Unit>,
    /// Whether the rate is a mean of numbers rather than a fraction of trials.
    pub is_mean: bool,
    /// Whether a high rate is good for a group, if the file says so.
    #[serde(default)]
    pub favourable: Option<bool>,
}

/// A time for readers: `row 12`, if times are numbers of rows, in seconds.
pub fn when(time: Time, by_rows: bool) -> String {
    const SECOND: i64 = 1_000_000_000;
    if by_rows { format!("row {}", time.0 / SECOND) } else { time.for_people() }
}

fn one() -> u64 {
    1
}

/// The counts of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// S(A ∧ B), or the sum of a number.
    pub numerator: f64,
    /// S(B): the number of counted trials.
    pub denominator: u64,
    /// Trials that wait for their horizon.
    pub pending: u64,
    /// Trials whose outcome is not known.
    pub unknown: u64,
    /// The prior γ, if it differs from that of the rule.
    pub prior: Option<f64>,
}

/// Pooled rate before the first trial of any group.
const NO_TRIALS: f64 = 0.5;

/// Computes the MAP estimates of the groups of one stratum. Same formulas as the compiled text, so that both round alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimator {
    prior: f64,
    confidence: f64,
}

impl Estimator {
    /// An estimator for a stratum with these groups.
    pub(crate) fn new<'a>(rule: &Rule, groups: impl Iterator<Item = &'a Counts>) -> Estimator {
        let sums = match rule.prior {
            Some(_) => (0.0, 0),
            None => groups.fold((0.0, 0), |(numerator, denominator), counts| {
                (numerator + counts.numerator, denominator + counts.denominator)
            }),
        };
        Estimator::of_sums(rule, sums)
    }

    /// An estimator for a stratum with these sums of numerators and denominators.
    pub(super) fn of_sums(rule: &Rule, (numerator, denominator): (f64, u64)) -> Estimator {
        let pooled = || if denominator == 0 { NO_TRIALS } else { numerator / denominator as f64 };
        Estimator { prior: rule.prior.unwrap_or_else(pooled), confidence: rule.confidence }
    }

    /// An estimator for estimates alone: the prior is not computed if it has no weight.
    pub(crate) fn of_estimates<'a>(rule: &Rule, groups: impl Iterator<Item = &'a Counts>) -> Estimator {
        match rule.confidence {
            0.0 => Estimator { prior: NO_TRIALS, confidence: 0.0 },
            _ => Estimator::new(rule, groups),
        }
    }

    /// The prior γ of a group.
    pub(crate) fn prior(&self, counts: &Counts) -> f64 {
        counts.prior.unwrap_or(self.prior)
    }

    /// The MAP estimate; `None` without a trial or a prior.
    pub(crate) fn estimate(&self, counts: &Counts) -> Option<f64> {
        let kappa = self.confidence;
        if kappa == 0.0 {
            return counts.share();
        }
        Some((counts.numerator + self.prior(counts) * kappa) / (counts.denominator as f64 + kappa))
    }
}

impl Counts {
    /// The fraction of positive trials, or the mean of numbers; `None` without a trial.
    pub fn share(&self) -> Option<f64> {
        (self.denominator > 0).then(|| self.numerator / self.denominator as f64)
    }

    pub(super) fn has_evidence(&self, rule: &Rule) -> bool {
        self.denominator >= rule.min_trials
    }
}

impl Rule {
    /// The group that every other is compared with, as a label.
    pub fn reference_label(&self) -> Option<String> {
        self.reference.as_deref().map(label)
    }

    /// `in the last 30 days`, if there is a window.
    pub fn window_in_words(&self) -> Option<String> {
        self.window.map(|window| window.in_words(self.by_rows))
    }

    /// A time for readers: `row 12`, if times are numbers of rows.
    pub fn when(&self, time: Time) -> String {
        when(time, self.by_rows)
    }

    /// The rule of the paper, extended by a threshold at which an alarm is cleared.
    pub(super) fn transition(&self, gap: f64, stands: bool) -> AlarmTransition {
        match stands {
            false if self.is_violated(gap) => AlarmTransition::Raise,
            true if self.is_cleared(gap) => AlarmTransition::Clear,
            _ => AlarmTransition::Stay,
        }
    }

    pub(crate) fn is_violated(&self, gap: f64) -> bool {
        match self.comparison {
            Comparison::Ratio => gap < self.tolerance,
            Comparison::Difference | Comparison::Highest => gap > self.tolerance,
        }
    }

    pub(crate) fn is_cleared(&self, gap: f64) -> bool {
        match self.comparison {
            Comparison::Ratio => gap >= self.clear,
            Comparison::Difference | Comparison::Highest => gap <= self.clear,
        }
    }
}
