//! A stratum with a guarantee: what is newly counted goes into its e_process, which decides about the alarm.

use fairstream_guarantee::{EProcess, ErrorControl, Interval, Outcome, TestResult, TrialTotals};
use serde::{Deserialize, Serialize};

use super::{Counts, NamedVec, Rule};
use crate::Comparison;

/// What the judge has tested of a stratum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StratumTest {
    /// As which stratum of its rate it had a trial, from 0 on: shares of a guarantee go by that.
    place: u64,
    /// In the order in which they had a trial, and what has been taken of their counts.
    groups: Vec<(String, f64, u64)>,
    e_process: EProcess,
}

/// What a check does to an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AlarmTransition {
    Raise,
    Clear,
    Stay,
}

/// How the evidence of a stratum stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Assessment {
    /// In a word.
    pub outcome: Outcome,
    /// The evidence against fairness; may be infinite.
    pub e_value: f64,
    /// The e-value at which there is an alarm; `None` if the stratum is one more than the guarantee is for.
    pub threshold: Option<f64>,
    /// How improbable as much evidence is in a fair system; `None` where no probability is promised.
    pub p_value: Option<f64>,
    /// Where the gap, ratio or highest rate is; `None` if there is nothing to compare.
    pub gap: Option<Interval>,
    /// How many blocks there have been.
    pub blocks: u64,
    /// How many groups have too few trials to be compared.
    pub small_groups: u64,
    /// Where the rate of each group is, by its values as a JSON array.
    pub groups: Vec<(String, Interval)>,
}

impl Assessment {
    /// The outcome as verdicts say it.
    pub fn verdict(&self) -> &'static str {
        match self.outcome {
            Outcome::Fair => "fair so far",
            Outcome::Unfair => "unfair",
            Outcome::NotYet { .. } => "not enough evidence yet",
        }
    }
}

impl StratumTest {
    pub(super) fn new(place: u64) -> StratumTest {
        StratumTest { place, groups: Vec::new(), e_process: EProcess::default() }
    }

    /// Takes what has been counted since the last check, and cuts a block if it is enough.
    pub(super) fn check(&mut self, rule: &Rule, counts: &NamedVec<Counts>, stands: bool) -> AlarmTransition {
        for (name, counts) in counts.iter().filter(|(_, counts)| counts.denominator > 0) {
            let index = self.index(name);
            let (_, numerator, denominator) = &mut self.groups[index];
            // Final trials only ever add up.
            let trials = counts.denominator.saturating_sub(*denominator);
            if trials > 0 {
                let sum = scaled(rule, counts.numerator - *numerator, trials);
                self.e_process.count(index, TrialTotals { trials, sum });
                (*numerator, *denominator) = (counts.numerator, counts.denominator);
            }
        }
        let Some(hypothesis) = rule.hypothesis(self.place) else { return AlarmTransition::Stay };
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

    /// The number of the block that is being counted.
    pub(super) fn block(&self) -> u64 {
        self.e_process.blocks() + 1
    }

    pub(super) fn e_value(&self) -> f64 {
        self.e_process.log_e_value().exp()
    }

    pub(super) fn threshold(&self, rule: &Rule) -> Option<f64> {
        rule.hypothesis(self.place).map(|hypothesis| 1.0 / hypothesis.level)
    }

    /// How the evidence stands.
    pub(super) fn assess(&self, rule: &Rule, counts: &NamedVec<Counts>, stands: bool) -> Assessment {
        let hypothesis = rule.hypothesis(self.place);
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

/// A sum of numbers as one of numbers between 0 and 1.
fn scaled(rule: &Rule, sum: f64, trials: u64) -> f64 {
    let trials = trials as f64;
    let sum = match rule.range {
        Some((low, high)) => (sum - low * trials) / (high - low),
        None => sum,
    };
    sum.clamp(0.0, trials)
}
