//! The e-process: evidence against fairness that grows block by block. Each block is a bet on the estimate from the
//! blocks before it.

use serde::{Deserialize, Serialize};

use crate::FairSet;

/// Number of trials of one group, and the sum of their values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialTotals {
    /// Number of trials.
    pub trials: u64,
    /// Number of positive trials; or the sum of their values, each between 0 and 1.
    pub sum: f64,
}

impl TrialTotals {
    fn add(&mut self, other: TrialTotals) {
        self.trials += other.trials;
        self.sum += other.sum;
    }
}

/// How false alarms are controlled, which determines how evidence accumulates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum ErrorControl {
    /// The probability that a fair system ever raises an alarm is at most the level.
    Ever,
    /// The average number of blocks until a fair system raises an alarm is at least 1 / level. The e-value never falls
    /// below 1, and bets discount old trials, so that a system that becomes unfair after years is detected soon.
    Detector {
        /// Decay length in trials: after so many trials, earlier ones have less than half of the weight.
        memory: u64,
    },
}

/// The null hypothesis that a system is fair, and how it is tested.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hypothesis {
    /// The rates that are fair.
    pub fair: FairSet,
    /// How false alarms are controlled.
    pub control: ErrorControl,
    /// α, or the share of it that this hypothesis has.
    pub level: f64,
    /// Minimum number of trials in a block.
    pub block: u64,
    /// Groups with fewer trials are not compared.
    pub min_trials: u64,
    /// 1 minus the simultaneous confidence of all [intervals](crate::TestResult::groups).
    pub miscoverage: f64,
}

impl Hypothesis {
    /// Default minimum number of trials in a block.
    pub const BLOCK: u64 = 20;

    /// A hypothesis with blocks of [20](Hypothesis::BLOCK) trials, all groups compared.
    pub fn new(fair: FairSet, control: ErrorControl, level: f64) -> Hypothesis {
        let miscoverage = if control == ErrorControl::Ever { level } else { 0.05 };
        Hypothesis { fair, control, level, block: Hypothesis::BLOCK, min_trials: 0, miscoverage }
    }

    /// Logarithm of the e-value above which an alarm is raised.
    pub fn log_threshold(&self) -> f64 {
        -self.level.ln()
    }
}

/// E-process against the hypothesis that groups are treated fairly. Groups are numbered from 0 in order of arrival. Its
/// state depends on counts alone, not on how they were split into calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EProcess {
    /// Totals of each group in the open block.
    open: Vec<TrialTotals>,
    /// Totals of each group in all closed blocks.
    closed: Vec<TrialTotals>,
    /// Totals that bets are based on: equal to `closed`, except that a detector discounts old trials.
    decayed: Vec<DecayedTotals>,
    blocks: u64,
    log_e_value: f64,
    /// Running maximum of `log_e_value`.
    log_maximum: f64,
}

/// Totals of a group in which older trials are discounted exponentially.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct DecayedTotals {
    trials: f64,
    sum: f64,
}

/// A closed block and its effect on the e-value.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Number of the block, from 1.
    pub number: u64,
    /// Totals of each group.
    pub totals: Vec<TrialTotals>,
    /// The bet on each group. It does not depend on the sums of this block.
    pub bets: Vec<Bet>,
    /// Logarithm of the factor by which the e-value is multiplied.
    pub log_factor: f64,
    /// Logarithm of the e-value after this block.
    pub log_e_value: f64,
}

/// The bet on a group in a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bet {
    /// q: the estimate of the rate from earlier blocks.
    pub estimate: f64,
    /// r: the projection of q onto the fair set.
    pub fair: f64,
}

impl EProcess {
    /// Adds trials of a group. Trials must be final: each is counted once and never revised.
    pub fn count(&mut self, group: usize, totals: TrialTotals) {
        if self.open.len() <= group {
            self.open.resize(group + 1, TrialTotals::default());
        }
        self.open[group].add(totals);
    }

    /// Closes the open block if it has enough trials. The times of calls must not depend on outcomes.
    pub fn close_block(&mut self, hypothesis: &Hypothesis) -> Option<Block> {
        let trials: u64 = self.open.iter().map(|totals| totals.trials).sum();
        if trials < hypothesis.block.max(1) {
            return None;
        }
        self.closed.resize(self.open.len(), TrialTotals::default());
        self.decayed.resize(self.open.len(), DecayedTotals::default());
        let totals = std::mem::take(&mut self.open);
        self.open.resize(totals.len(), TrialTotals::default());
        let bets = self.bets(hypothesis, &totals);
        let log_factor: f64 = totals.iter().zip(&bets).map(|(totals, bet)| bet.log_factor(*totals)).sum();
        let before = match hypothesis.control {
            ErrorControl::Ever => self.log_e_value,
            ErrorControl::Detector { .. } => self.log_e_value.max(0.0),
        };
        self.log_e_value = before + log_factor;
        self.log_maximum = self.log_maximum.max(self.log_e_value);
        self.blocks += 1;
        let kept = match hypothesis.control {
            ErrorControl::Ever => 1.0,
            ErrorControl::Detector { memory } => memory as f64 / (memory as f64 + trials as f64),
        };
        for ((all, known), totals) in self.closed.iter_mut().zip(&mut self.decayed).zip(&totals) {
            all.add(*totals);
            known.trials = known.trials * kept + totals.trials as f64;
            known.sum = known.sum * kept + totals.sum;
        }
        Some(Block { number: self.blocks, totals, bets, log_factor, log_e_value: self.log_e_value })
    }

    /// The bets on a block. They depend on earlier blocks and on the number of trials of each group in this one.
    fn bets(&self, hypothesis: &Hypothesis, totals: &[TrialTotals]) -> Vec<Bet> {
        let estimate: Vec<f64> = self.decayed.iter().map(DecayedTotals::rate).collect();
        let weight = |(all, totals): (&TrialTotals, &TrialTotals)| match all.trials + totals.trials {
            trials if trials < hypothesis.min_trials => 0.0,
            _ => totals.trials as f64,
        };
        let weights: Vec<f64> = self.closed.iter().zip(totals).map(weight).collect();
        let fair = hypothesis.fair.project(&estimate, &weights);
        let bet = |((estimate, fair), weight): ((f64, f64), &f64)| {
            // A group that is not compared contributes a factor of 1.
            Bet { estimate, fair: if *weight > 0.0 { fair } else { estimate } }
        };
        estimate.into_iter().zip(fair).zip(&weights).map(bet).collect()
    }

    /// Whether the estimates that bets are based on are fair; for a detector these reflect recent trials. Groups whose
    /// trials have decayed to less than one are ignored.
    pub fn looks_fair(&self, hypothesis: &Hypothesis) -> bool {
        let least = hypothesis.min_trials.max(1);
        let compared = self.decayed.iter().zip(&self.closed);
        let compared = compared.filter(|(known, all)| known.trials >= 1.0 && all.trials >= least);
        hypothesis.fair.contains(&compared.map(|(known, _)| known.rate()).collect::<Vec<_>>())
    }

    /// Resets the e-value to 1. The totals stay.
    pub fn restart(&mut self) {
        self.log_e_value = 0.0;
    }

    /// Whether the e-value exceeds the threshold by more than rounding can explain. An e-value of exactly the threshold
    /// must give the same verdict in every order of calculation.
    pub fn exceeds_threshold(&self, hypothesis: &Hypothesis) -> bool {
        const ROUNDING: f64 = 1e-9;
        self.log_e_value > hypothesis.log_threshold() + ROUNDING
    }

    /// Logarithm of the e-value: how many times likelier the outcomes are under the estimates than under the closest
    /// fair system.
    pub fn log_e_value(&self) -> f64 {
        self.log_e_value
    }

    /// Logarithm of the largest e-value so far.
    pub fn log_maximum(&self) -> f64 {
        self.log_maximum
    }

    /// Number of closed blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Totals of each group, including the open block.
    pub fn totals(&self) -> Vec<TrialTotals> {
        let mut all = self.open.clone();
        all.iter_mut().zip(&self.closed).for_each(|(all, closed)| all.add(*closed));
        all
    }

    /// What bets are based on: the estimated rate of each group, and its discounted number of trials.
    pub(crate) fn decayed(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.decayed.iter().map(|known| (known.rate(), known.trials))
    }
}

impl DecayedTotals {
    /// Laplace estimate: never 0 and never 1, so that no outcome makes the e-value 0.
    fn rate(&self) -> f64 {
        (self.sum + 1.0) / (self.trials + 2.0)
    }
}

impl Bet {
    fn log_factor(&self, totals: TrialTotals) -> f64 {
        let Bet { estimate, fair } = *self;
        if estimate == fair {
            return 0.0;
        }
        let rest = totals.trials as f64 - totals.sum;
        // A ratio may be infinite where there are no such outcomes: 0 · ln ∞ counts as 0.
        let term = |times: f64, ratio: f64| if times > 0.0 { times * ratio.ln() } else { 0.0 };
        term(totals.sum, estimate / fair) + term(rest, (1.0 - estimate) / (1.0 - fair))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With small counts an e-value of exactly 1/α occurs in practice, and rounding puts it slightly above or below.
    #[test]
    fn what_is_just_the_threshold_is_not_enough() {
        let hypothesis = Hypothesis::new(FairSet::Highest(0.2), ErrorControl::Ever, 0.4);
        let mut e_process = EProcess::default();
        for (more, is_enough) in [(-1e-12, false), (0.0, false), (1e-12, false), (1e-6, true)] {
            e_process.log_e_value = hypothesis.log_threshold() + more;
            assert_eq!(e_process.exceeds_threshold(&hypothesis), is_enough, "{more}");
        }
    }
}
