//! Rules, and the counts that they apply to.

use serde::{Deserialize, Serialize};

use super::stratum_test::AlarmTransition;
use crate::{Comparison, Guarantee, Unit};

/// A metric without its streams: rates, comparison, thresholds and guarantee.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// How groups are compared.
    pub comparison: Comparison,
    /// An alarm is raised beyond this.
    pub tolerance: f64,
    /// An alarm is cleared at this.
    pub clear: f64,
    /// A group with fewer trials is not compared.
    pub min_trials: u64,
    /// The prior γ, unless the counts have their own.
    pub prior: f64,
    /// The confidence κ in the prior, in trials.
    pub confidence: f64,
    /// The columns whose values are groups.
    pub groups: Vec<String>,
    /// The columns whose values are strata.
    pub strata: Vec<String>,
    /// Whether trials are counted only after a horizon.
    pub has_horizon: bool,
    /// How false alarms are bounded; `None` for the rule of the paper, which compares estimates with the tolerance.
    pub guarantee: Option<Guarantee>,
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
    /// The prior γ, if it differs from that of the rule.
    pub prior: Option<f64>,
}

impl Counts {
    /// The MAP estimate; `None` without a trial or a prior.
    pub fn estimate(&self, rule: &Rule) -> Option<f64> {
        let (gamma, kappa) = (self.prior.unwrap_or(rule.prior), rule.confidence);
        if self.denominator == 0 && kappa == 0.0 {
            return None;
        }
        // Same formula as the compiled text, so that both round alike.
        let denominator = self.denominator as f64;
        Some(if kappa == 0.0 {
            self.numerator / denominator
        } else {
            (self.numerator + gamma * kappa) / (denominator + kappa)
        })
    }

    pub(super) fn has_evidence(&self, rule: &Rule) -> bool {
        self.denominator >= rule.min_trials
    }
}

impl Rule {
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
