//! The sequential test of a stratum with a guarantee: new counts go into an e-process, which decides about the alarm.

use fairstream_guarantee::{EProcess, ErrorControl, Interval, Outcome, TestResult, TrialTotals};
use serde::{Deserialize, Serialize};

use super::{Counts, NamedVec, Rule};
use crate::Comparison;

/// The test of one stratum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StratumTest {
    /// Rank of the stratum by its first trial, from 0. It determines the stratum's share of the guarantee.
    rank: u64,
    /// Groups in order of their first trial, each with the numerator and denominator that the e-process has consumed.
    groups: Vec<(String, f64, u64)>,
    e_process: EProcess,
}

/// What a check does to the alarm of a stratum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AlarmTransition {
    Raise,
    Clear,
    Stay,
}

/// The evidence on a stratum.
#[derive(Clone, Debug, PartialEq)]
pub struct Assessment {
    /// The conclusion.
    pub outcome: Outcome,
    /// The e-value against fairness; may be infinite.
    pub e_value: f64,
    /// The e-value above which an alarm is raised; `None` if the guarantee is for fewer strata and this one is not
    /// tested.
    pub threshold: Option<f64>,
    /// Upper bound on the probability that a fair system ever reaches such an e-value; `None` if no probability is
    /// guaranteed.
    pub p_value: Option<f64>,
    /// Confidence interval for the gap, ratio or highest rate; `None` if there is nothing to compare.
    pub gap: Option<Interval>,
    /// Number of closed blocks.
    pub blocks: u64,
    /// Number of groups with too few trials to be compared.
    pub small_groups: u64,
    /// Confidence interval for the rate of each group, which is a JSON array of its values.
    pub groups: Vec<(String, Interval)>,
}

impl Assessment {
    /// The outcome as the text of a verdict.
    pub fn verdict(&self) -> &'static str {
        match self.outcome {
            Outcome::Fair => "fair so far",
            Outcome::Unfair => "unfair",
            Outcome::NotYet { .. } => "not enough evidence yet",
        }
    }
}

impl StratumTest {
    pub(super) fn new(rank: u64) -> StratumTest {
        StratumTest { rank, groups: Vec::new(), e_process: EProcess::default() }
    }

    /// Adds what has been counted since the last check, and closes the block if it has enough trials.
    pub(super) fn check(&mut self, rule: &Rule, counts: &NamedVec<Counts>, stands: bool) -> AlarmTransition {
        for (name, counts) in counts.iter().filter(|(_, counts)| counts.denominator > 0) {
            let index = self.index(name);
            let (_, numerator, denominator) = &mut self.groups[index];
            // Trials are final, so counts never decrease.
            let trials = counts.denominator.saturating_sub(*denominator);
            if trials > 0 {
                let sum = scaled(rule, counts.numerator - *numerator, trials);
                self.e_process.count(index, TrialTotals { trials, sum });
                (*numerator, *denominator) = (counts.numerator, counts.denominator);
            }
        }
        let Some(hypothesis) = rule.hypothesis(self.rank) else { return AlarmTransition::Stay };
        if self.e_process.close_block(&hypothesis).is_none() {
            return AlarmTransition::Stay;
        }
        match (stands, hypothesis.control) {
            (false, _) if self.e_process.exceeds_threshold(&hypothesis) => AlarmTransition::Raise,
            (true, ErrorControl::Detector { .. }) if self.e_process.looks_fair(&hypothesis) => {
                self.e_process.restart();
                AlarmTransition::Clear
            }
            _ => AlarmTransition::Stay,
        }
    }

    fn index(&mut self, name: &str) -> usize {
        self.groups.iter().position(|(known, ..)| known == name).unwrap_or_else(|| {
            self.groups.push((name.to_owned(), 0.0, 0));
            self.groups.len() - 1
        })
    }

    /// The number of the open block.
    pub(super) fn block(&self) -> u64 {
        self.e_process.blocks() + 1
    }

    pub(super) fn e_value(&self) -> f64 {
        self.e_process.log_e_value().exp()
    }

    pub(super) fn threshold(&self, rule: &Rule) -> Option<f64> {
        rule.hypothesis(self.rank).map(|hypothesis| 1.0 / hypothesis.level)
    }

    /// The evidence so far.
    pub(super) fn assess(&self, rule: &Rule, counts: &NamedVec<Counts>, stands: bool) -> Assessment {
        let hypothesis = rule.hypothesis(self.rank);
        let evidence = hypothesis.map(|hypothesis| self.e_process.result(&hypothesis));
        let (low, width) = rule.range.map_or((0.0, 1.0), |(low, high)| (low, high - low));
        let unscaled = |of: Interval| Interval { low: low + of.low * width, high: low + of.high * width };
        let gap_width = if rule.comparison == Comparison::Difference { width } else { 1.0 };
        let not_judged = Outcome::NotYet { further: None };
        Assessment {
            outcome: match &evidence {
                _ if stands => Outcome::Unfair,
                Some(TestResult { outcome: Outcome::Unfair, .. }) | None => not_judged,
                Some(evidence) => evidence.outcome,
            },
            e_value: self.e_value(),
            threshold: self.threshold(rule),
            p_value: evidence.as_ref().and_then(|evidence| evidence.p_value),
            gap: evidence
                .as_ref()
                .and_then(|evidence| evidence.gap)
                .map(|gap| Interval { low: gap.low * gap_width, high: gap.high * gap_width }),
            blocks: self.e_process.blocks(),
            small_groups: counts.values().filter(|counts| !counts.has_evidence(rule)).count() as u64,
            groups: evidence
                .iter()
                .flat_map(|evidence| self.groups.iter().zip(&evidence.groups))
                .map(|((name, ..), interval)| (name.clone(), unscaled(*interval)))
                .collect(),
        }
    }
}

/// Rescales a sum of numbers in the rule's range to one of numbers between 0 and 1.
fn scaled(rule: &Rule, sum: f64, trials: u64) -> f64 {
    let trials = trials as f64;
    let sum = match rule.range {
        Some((low, high)) => (sum - low * trials) / (high - low),
        None => sum,
    };
    sum.clamp(0.0, trials)
}
