//! A learner bets on each block with what it has learned from the blocks since it began.

use serde::{Deserialize, Serialize};

use crate::block::OpenBlock;
use crate::contribution::Contribution;
use crate::e_process::log_sum_exp;
use crate::knowledge::{Belief, Knowledge, RecentRate};
use crate::pair_bets::PairBets;
use crate::{DecayedTotals, ErrorControl, FairSet, Hypothesis, TrialTotals};

/// The largest number of beliefs of a hypothesis.
const BELIEFS: usize = 3;

/// Bets of one learner: for each of its beliefs an e-value, all of them over the same blocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Learner {
    /// The number of the first step that it bets on, from 1.
    pub(crate) start: u64,
    /// The number of the first block that it bets on, from 1.
    pub(crate) first_block: u64,
    /// Number of blocks that it has bet on.
    pub(crate) blocks: u64,
    knowledge: Knowledge,
    /// Logarithm of the e-value of each belief.
    #[serde(with = "crate::written")]
    log_e_values: [f64; BELIEFS],
    /// What the bets on each group contributed to the e-value of each belief.
    contributions: Vec<[Contribution; BELIEFS]>,
    /// Its trials of each group.
    totals: Vec<TrialTotals>,
    /// Logarithm of the sum of the e-values.
    #[serde(with = "crate::written")]
    log_sum: f64,
    /// Its bets on differences of numbers.
    pair_bets: PairBets,
}

/// Buffers for the calculation of a bet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BetScratch {
    pub(crate) weights: Vec<f64>,
    pub(crate) estimates: Vec<f64>,
    pub(crate) fair: Vec<f64>,
}

impl Learner {
    /// A learner that begins with a step, after so many blocks.
    pub(crate) fn new(start: u64, blocks: u64) -> Learner {
        Learner { start, first_block: blocks + 1, ..Learner::default() }
    }

    /// Whether this can be a learner; one that was read back may not be.
    pub(crate) fn is_valid(&self) -> bool {
        self.start > 0
            && self.blocks < 1 << 48
            && self.first_block < 1 << 48
            && self.knowledge.is_valid()
            && self.totals.iter().all(TrialTotals::is_valid)
    }

    /// Bets on a block, and then learns from it. `scratch` has the weights of its groups.
    pub(crate) fn evaluate(
        &mut self,
        hypothesis: &Hypothesis,
        block: &OpenBlock,
        recent: &RecentRate,
        scratch: &mut BetScratch,
    ) {
        let mut has_bet = self.blocks == 0;
        if let Some(tolerance) = hypothesis.pair_tolerance() {
            if self.pair_bets.evaluate(hypothesis, tolerance, block, &scratch.weights) {
                self.log_e_values[0] = self.pair_bets.log_e_value();
                has_bet = true;
            }
        } else {
            for (index, belief) in hypothesis.beliefs().iter().enumerate() {
                has_bet |= self.bet(hypothesis, index, *belief, block.groups(), recent, scratch);
            }
        }
        if has_bet {
            self.log_sum = log_sum_exp(self.log_e_values(hypothesis).iter().copied());
        }
        let memory = match hypothesis.control {
            ErrorControl::Detector { memory, .. } => memory,
            ErrorControl::Ever => None,
        };
        self.knowledge.learn(block.groups(), memory);
        for (group, totals) in block.groups() {
            if self.totals.len() <= *group {
                self.totals.resize(group + 1, TrialTotals::default());
            }
            self.totals[*group].add(*totals);
        }
        self.blocks += 1;
    }

    /// Bets with one belief. Returns whether there was anything to bet on.
    fn bet(
        &mut self,
        hypothesis: &Hypothesis,
        index: usize,
        belief: Belief,
        block: &[(usize, TrialTotals)],
        recent: &RecentRate,
        scratch: &mut BetScratch,
    ) -> bool {
        let BetScratch { weights, estimates, fair } = scratch;
        let bound = if let FairSet::Highest(most) = hypothesis.fair { most } else { 0.5 };
        self.knowledge.estimates(belief, block, recent, bound, estimates);
        if !hypothesis.project_into(block, estimates, weights, fair) {
            return false;
        }
        for (position, (group, totals)) in block.iter().enumerate() {
            let (estimate, fair) = (estimates[position], fair[position]);
            if weights[position] <= 0.0 || estimate == fair {
                continue;
            }
            let log_factor = log_factor(*totals, estimate, fair);
            self.log_e_values[index] += log_factor;
            if self.contributions.len() <= *group {
                self.contributions.resize(group + 1, Default::default());
            }
            self.contributions[*group][index].add(estimate > fair, log_factor);
        }
        true
    }

    pub(crate) fn pair_bets(&self) -> &PairBets {
        &self.pair_bets
    }

    /// Logarithm of the sum of the e-values.
    pub(crate) fn log_sum(&self) -> f64 {
        self.log_sum
    }

    /// Logarithms of the e-values.
    pub(crate) fn log_e_values(&self, hypothesis: &Hypothesis) -> &[f64] {
        &self.log_e_values[..hypothesis.beliefs().len()]
    }

    /// What the bets on each group contributed to the e-value of a belief, by the number of the group.
    pub(crate) fn contributions(&self, belief: usize) -> impl Fn(usize) -> Contribution + '_ {
        move |group| self.contributions.get(group).map(|of| of[belief]).unwrap_or_default()
    }

    /// Its trials of a group.
    pub(crate) fn totals(&self, group: usize) -> TrialTotals {
        self.totals.get(group).copied().unwrap_or_default()
    }

    /// The totals that its estimates are based on.
    pub(crate) fn known(&self, group: usize) -> DecayedTotals {
        self.knowledge.totals(group)
    }
}

/// Logarithm of the factor that a bet on a group adds to an e-value.
pub(crate) fn log_factor(totals: TrialTotals, estimate: f64, fair: f64) -> f64 {
    if estimate == fair {
        return 0.0;
    }
    let rest = totals.trials as f64 - totals.sum;
    let (for_one, for_other) = (estimate / fair, (1.0 - estimate) / (1.0 - fair));
    // A few trials: one logarithm of a product instead of two.
    if totals.trials <= 16 && totals.sum.fract() == 0.0 && for_one < 1e9 && for_other < 1e9 {
        return (for_one.powi(totals.sum as i32) * for_other.powi(rest as i32)).ln();
    }
    let part = |count: f64, ratio: f64| if count > 0.0 { count * ratio.ln() } else { 0.0 };
    part(totals.sum, for_one) + part(rest, for_other)
}
