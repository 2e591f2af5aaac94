//! What is judged, and how; and what is known of a group.

use serde::{Deserialize, Serialize};

use super::stratum_test::AlarmTransition;
use crate::{Comparison, Guarantee, Unit};

/// What is judged, and how: a metric without its streams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// How groups are held against each other.
    pub comparison: Comparison,
    /// Beyond this an alarm is raised.
    pub tolerance: f64,
    /// At this it is cleared.
    pub clear: f64,
    /// A group with fewer trials is not compared.
    pub min_trials: u64,
    /// γ, unless it is told with the counts.
    pub prior: f64,
    /// κ.
    pub confidence: f64,
    /// The columns whose values are groups.
    pub groups: Vec<String>,
    /// The columns whose values are strata.
    pub strata: Vec<String>,
    /// Whether trials wait before they count.
    pub has_horizon: bool,
    /// What is promised of false alarms; `None`: an alarm is the gap of the estimates, as in the paper.
    pub guarantee: Option<Guarantee>,
    /// Where numbers are cut off, if it is a mean of such.
    pub range: Option<(f64, f64)>,
    /// What is estimated; equalized odds estimates two rates.
    pub rates: Vec<RuleRate>,
}

/// One estimate for each group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleRate {
    /// The name of its alarms.
    pub stream: String,
    /// What people call it.
    pub title: String,
    /// What is asked.
    pub question: String,
    /// What it is measured in, if it is a delay.
    pub unit: Option<Unit>,
    /// Whether it is a mean of numbers and not a share of trials.
    pub is_mean: bool,
}

/// What is known of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// S of A and B, or the sum of a number.
    pub numerator: f64,
    /// S of B: the trials that count.
    pub denominator: u64,
    /// Trials that still wait.
    pub pending: u64,
    /// γ, if it is not the rule's.
    pub prior: Option<f64>,
}

impl Counts {
    /// The MAP estimate; `None` if there is neither a trial nor a prior.
    pub fn estimate(&self, rule: &Rule) -> Option<f64> {
        let (gamma, kappa) = (self.prior.unwrap_or(rule.prior), rule.confidence);
        if self.denominator == 0 && kappa == 0.0 {
            return None;
        }
        // As the compiled text has it, so that both round alike.
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
    /// The paper's rule, with an end.
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
