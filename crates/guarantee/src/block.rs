//! Blocks: consecutive trials that are evaluated together.

use serde::{Deserialize, Serialize};

use crate::Hypothesis;

/// Number of trials of one group, and the sum of their values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialTotals {
    /// Number of trials.
    pub trials: u64,
    /// Number of positive trials; or the sum of their values, each between 0 and 1.
    pub sum: f64,
}

impl TrialTotals {
    /// Whether there can be so many trials with such a sum.
    pub(crate) fn is_valid(&self) -> bool {
        self.trials < 1 << 48 && self.sum.is_finite() && self.sum >= 0.0
    }

    pub(crate) fn add(&mut self, other: TrialTotals) {
        self.trials += other.trials;
        self.sum += other.sum;
    }
}

/// Trials that have not been evaluated yet, fewer than a block has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct OpenBlock {
    groups: Vec<(usize, TrialTotals)>,
    /// Groups and values of the trials, in their order.
    values: Vec<(usize, f64)>,
    trials: u64,
    /// Time of the first trial.
    began: i64,
}

impl OpenBlock {
    /// Whether it can be a block of groups with numbers below `groups`.
    pub(crate) fn is_valid(&self, groups: usize) -> bool {
        let is_group = |group: usize| group < groups;
        self.trials < 1 << 48
            && self.groups.iter().all(|(group, totals)| is_group(*group) && totals.is_valid())
            && self.values.iter().all(|(group, value)| is_group(*group) && value.is_finite())
            && self.values.len() as u64 == self.trials
    }

    pub(crate) fn groups(&self) -> &[(usize, TrialTotals)] {
        &self.groups
    }

    pub(crate) fn values(&self) -> &[(usize, f64)] {
        &self.values
    }

    pub(crate) fn trials(&self) -> u64 {
        self.trials
    }

    /// Whether the block ends before a trial at that time.
    pub(crate) fn ends_before(&self, at: i64, hypothesis: &Hypothesis) -> bool {
        self.groups.len() >= hypothesis.fair.fewest_groups()
            && hypothesis.span.is_some_and(|span| at.saturating_sub(self.began) > span)
    }

    /// Whether the block has all of its trials.
    pub(crate) fn is_full(&self, hypothesis: &Hypothesis) -> bool {
        self.trials >= hypothesis.block.max(1)
    }

    pub(crate) fn push(&mut self, group: usize, value: f64, at: i64) {
        if self.trials == 0 {
            self.began = at;
        }
        self.trials += 1;
        self.values.push((group, value));
        let totals = TrialTotals { trials: 1, sum: value };
        match self.groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, known)) => known.add(totals),
            None => self.groups.push((group, totals)),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.groups.clear();
        self.values.clear();
        self.trials = 0;
    }
}
