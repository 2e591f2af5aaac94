//! What is known of the rates of groups from earlier blocks, and the estimates that bets are based on.

use serde::{Deserialize, Serialize};

use crate::TrialTotals;

/// How rates are estimated from earlier blocks. Every estimate lies strictly between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Belief {
    /// (positives + 1) / (trials + 2) of the group.
    Laplace,
    /// The group's own rate, shrunk towards the rate of all groups together: (positives + κ p) / (trials + κ).
    Pooled,
    /// The rate of all groups in the last hundred trials or so, plus how far the group was from the others within the
    /// same blocks. It sees a gap that a common change of all rates hides.
    Contrast,
    /// The recent rate of all groups, for every group.
    Equal,
    /// The group's own rate, shrunk towards the upper bound that is tested.
    Bound,
    /// Nothing: differences between pairs of trials are bet on with fixed stakes.
    Pairs,
}

/// κ of [`Belief::Pooled`], and of the deviations of [`Belief::Contrast`].
const SHRINKAGE: f64 = 20.0;

/// κ of [`Belief::Bound`].
const BOUND_SHRINKAGE: f64 = 5.0;

/// About how many trials the recent rate covers.
const RECENT: f64 = 100.0;

/// Totals in which older trials may be discounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DecayedTotals {
    /// Discounted number of trials.
    pub trials: f64,
    /// Discounted sum of their values.
    pub sum: f64,
}

impl DecayedTotals {
    /// Whether there can be so many trials with such a sum.
    pub(crate) fn is_valid(&self) -> bool {
        self.trials.is_finite() && self.trials >= 0.0 && self.sum.is_finite()
    }

    pub(crate) fn laplace(&self) -> f64 {
        (self.sum + 1.0) / (self.trials + 2.0)
    }

    fn shrunk(&self, towards: f64, kappa: f64) -> f64 {
        (self.sum + kappa * towards) / (self.trials + kappa)
    }

    pub(crate) fn decay(&mut self, kept: f64) {
        self.trials *= kept;
        self.sum *= kept;
    }

    pub(crate) fn add(&mut self, trials: f64, sum: f64) {
        self.trials += trials;
        self.sum += sum;
    }
}

/// The rate of all groups together, of late and in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RecentRate {
    late: DecayedTotals,
    all: DecayedTotals,
}

impl RecentRate {
    pub(crate) fn is_valid(&self) -> bool {
        self.late.is_valid() && self.all.is_valid()
    }

    pub(crate) fn learn(&mut self, trials: f64, sum: f64) {
        self.late.decay(RECENT / (RECENT + trials));
        self.late.add(trials, sum);
        self.all.add(trials, sum);
    }

    fn rate(&self) -> f64 {
        self.late.shrunk(self.all.laplace(), 2.0)
    }
}

/// What is known of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct GroupKnowledge {
    totals: DecayedTotals,
    /// Weighted sum of the group's deviations from the mean of its blocks, and the sum of the weights.
    deviation: f64,
    weight: f64,
}

/// What is known of all groups, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Knowledge {
    pooled: DecayedTotals,
    groups: Vec<GroupKnowledge>,
}

impl Knowledge {
    /// Estimates the rates of the groups of a block from the blocks before it.
    pub(crate) fn estimates(
        &self,
        belief: Belief,
        block: &[(usize, TrialTotals)],
        recent: &RecentRate,
        bound: f64,
        into: &mut Vec<f64>,
    ) {
        let of = |group: usize| self.groups.get(group).copied().unwrap_or_default();
        into.clear();
        match belief {
            Belief::Laplace | Belief::Pairs => {
                into.extend(block.iter().map(|(group, _)| of(*group).totals.laplace()))
            }
            Belief::Pooled => {
                let pooled = self.pooled.laplace();
                into.extend(block.iter().map(|(group, _)| of(*group).totals.shrunk(pooled, SHRINKAGE)));
            }
            Belief::Bound => {
                into.extend(block.iter().map(|(group, _)| of(*group).totals.shrunk(bound, BOUND_SHRINKAGE)));
            }
            Belief::Equal => {
                let least = self.least_estimate();
                into.extend(block.iter().map(|_| recent.rate().clamp(least, 1.0 - least)));
            }
            Belief::Contrast => {
                let deviation = |group: usize| {
                    let known = of(group);
                    known.deviation / (known.weight + SHRINKAGE)
                };
                let (mut trials, mut mean) = (0.0, 0.0);
                for (group, totals) in block {
                    let deviation = deviation(*group);
                    trials += totals.trials as f64;
                    mean += totals.trials as f64 * deviation;
                    into.push(deviation);
                }
                let base = recent.rate() - mean / trials;
                let least = self.least_estimate();
                into.iter_mut().for_each(|rate| *rate = (base + *rate).clamp(least, 1.0 - least));
            }
        }
    }

    pub(crate) fn is_valid(&self) -> bool {
        let is_known = |of: &GroupKnowledge| {
            of.totals.is_valid() && of.deviation.is_finite() && of.weight.is_finite() && of.weight >= 0.0
        };
        self.pooled.is_valid() && self.groups.iter().all(is_known)
    }

    /// The end of the range of estimates that are not means of observations.
    fn least_estimate(&self) -> f64 {
        0.5 / (self.pooled.trials + 5.0)
    }

    /// Adds a block.
    pub(crate) fn learn(&mut self, block: &[(usize, TrialTotals)], memory: Option<u64>) {
        let trials: f64 = block.iter().map(|(_, totals)| totals.trials as f64).sum();
        let sum: f64 = block.iter().map(|(_, totals)| totals.sum).sum();
        if let Some(memory) = memory {
            let kept = memory as f64 / (memory as f64 + trials);
            self.pooled.decay(kept);
            for known in &mut self.groups {
                known.totals.decay(kept);
                known.deviation *= kept;
                known.weight *= kept;
            }
        }
        self.pooled.add(trials, sum);
        let mean = sum / trials;
        for (group, totals) in block {
            if self.groups.len() <= *group {
                self.groups.resize(group + 1, GroupKnowledge::default());
            }
            let (own, known) = (totals.trials as f64, &mut self.groups[*group]);
            known.totals.add(own, totals.sum);
            let weight = own * (trials - own) / trials;
            known.deviation += weight * (totals.sum / own - mean);
            known.weight += weight;
        }
    }

    /// The totals of a group that estimates are based on.
    pub(crate) fn totals(&self, group: usize) -> DecayedTotals {
        self.groups.get(group).map(|known| known.totals).unwrap_or_default()
    }
}
