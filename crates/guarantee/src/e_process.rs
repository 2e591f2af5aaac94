//! The evidence against fairness: trials counted, cut into blocks, each a bet on what the blocks before it say.

use serde::{Deserialize, Serialize};

use crate::FairSet;

/// Trials of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialTotals {
    /// How many.
    pub trials: u64,
    /// How many of them were positive; or the sum of their numbers, each between 0 and 1.
    pub sum: f64,
}

impl TrialTotals {
    fn add(&mut self, other: TrialTotals) {
        self.trials += other.trials;
        self.sum += other.sum;
    }
}

/// What is promised, and so how evidence adds up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum ErrorControl {
    /// A fair system ever raises an alarm with a probability of at most the level.
    Ever,
    /// A fair system raises an alarm after 1 / level blocks or more, on average. Evidence never falls below 1, and
    /// bets are made on the last so many trials: who was fair for years and then is not is noticed soon.
    Detector {
        /// After so many trials, what was counted before weighs less than half.
        memory: u64,
    },
}

/// What is tested: that a system is fair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hypothesis {
    /// What is fair.
    pub fair: FairSet,
    /// What is promised.
    pub control: ErrorControl,
    /// α, or the part of it that is this hypothesis's.
    pub level: f64,
    /// A block has at least so many trials.
    pub block: u64,
    /// Groups with fewer trials are not compared.
    pub min_trials: u64,
    /// 1 less the confidence of [intervals](crate::TestResult::groups), all of them together.
    pub miscoverage: f64,
}

impl Hypothesis {
    /// Trials in a block, where nobody says otherwise.
    pub const BLOCK: u64 = 20;

    /// A hypothesis with blocks of [20](Hypothesis::BLOCK) trials, all groups compared.
    pub fn new(fair: FairSet, control: ErrorControl, level: f64) -> Hypothesis {
        let miscoverage = if control == ErrorControl::Ever { level } else { 0.05 };
        Hypothesis { fair, control, level, block: Hypothesis::BLOCK, min_trials: 0, miscoverage }
    }

    /// The logarithm of the e-value at which there is an alarm.
    pub fn log_threshold(&self) -> f64 {
        -self.level.ln()
    }
}

/// What is known of groups, which have numbers from 0 on, in the order in which they came. All that it needs are counts:
/// who counted what makes no difference.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EProcess {
    /// Since the last cut.
    open: Vec<TrialTotals>,
    /// Up to the last cut.
    closed: Vec<TrialTotals>,
    /// What bets are made on: as `closed`, but a detector forgets.
    decayed: Vec<DecayedTotals>,
    blocks: u64,
    log_e_value: f64,
    /// The most that it ever was.
    log_maximum: f64,
}

/// Trials of a group, some of them half forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct DecayedTotals {
    trials: f64,
    sum: f64,
}

/// A block that was cut, and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Counted from 1.
    pub number: u64,
    /// For each group.
    pub totals: Vec<TrialTotals>,
    /// The bet on each group; made without a look at the sums of this block.
    pub bets: Vec<Bet>,
    /// The logarithm of the factor.
    pub log_factor: f64,
    /// The logarithm of the evidence with it.
    pub log_e_value: f64,
}

/// What is bet on a group in a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bet {
    /// q: what the blocks before say.
    pub estimate: f64,
    /// r: the nearest that would be fair.
    pub fair: f64,
}

impl EProcess {
    /// Counts trials of a group. They have to be final: each is counted once and never revised.
    pub fn count(&mut self, group: usize, totals: TrialTotals) {
        if self.open.len() <= group {
            self.open.resize(group + 1, TrialTotals::default());
        }
        self.open[group].add(totals);
    }

    /// Cuts a block off if it has enough trials. To be called at times that do not depend on outcomes.
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

    /// The bets on a block, from the blocks before it and from how many trials it has of each group.
    fn bets(&self, hypothesis: &Hypothesis, totals: &[TrialTotals]) -> Vec<Bet> {
        let estimate: Vec<f64> = self.decayed.iter().map(DecayedTotals::rate).collect();
        let weight = |(all, totals): (&TrialTotals, &TrialTotals)| match all.trials + totals.trials {
            trials if trials < hypothesis.min_trials => 0.0,
            _ => totals.trials as f64,
        };
        let weights: Vec<f64> = self.closed.iter().zip(totals).map(weight).collect();
        let fair = hypothesis.fair.project(&estimate, &weights);
        let bet = |((estimate, fair), weight): ((f64, f64), &f64)| {
            // Nothing is bet on a group that is not compared.
            Bet { estimate, fair: if *weight > 0.0 { fair } else { estimate } }
        };
        estimate.into_iter().zip(fair).zip(&weights).map(bet).collect()
    }

    /// Whether what bets are made on is fair as it is: for a detector, the last trials. Groups that have been forgotten
    /// do not matter.
    pub fn looks_fair(&self, hypothesis: &Hypothesis) -> bool {
        let least = hypothesis.min_trials.max(1);
        let compared = self.decayed.iter().zip(&self.closed);
        let compared = compared.filter(|(known, all)| known.trials >= 1.0 && all.trials >= least);
        hypothesis.fair.contains(&compared.map(|(known, _)| known.rate()).collect::<Vec<_>>())
    }

    /// Lets evidence begin with 1 again. What is known stays.
    pub fn restart(&mut self) {
        self.log_e_value = 0.0;
    }

    /// Whether the evidence is enough for an alarm: more than the threshold, by what rounding cannot make up. Where it
    /// is just the threshold, whoever calculates in another order must come to the same verdict.
    pub fn exceeds_threshold(&self, hypothesis: &Hypothesis) -> bool {
        const ROUNDING: f64 = 1e-9;
        self.log_e_value > hypothesis.log_threshold() + ROUNDING
    }

    /// The logarithm of the evidence: how many times as well unfairness has foretold what was seen as any fair system
    /// could have.
    pub fn log_e_value(&self) -> f64 {
        self.log_e_value
    }

    /// The logarithm of the most that the evidence ever was.
    pub fn log_maximum(&self) -> f64 {
        self.log_maximum
    }

    /// How many blocks have been cut.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Of each group what has been counted, also what is in no block yet.
    pub fn totals(&self) -> Vec<TrialTotals> {
        let mut all = self.open.clone();
        all.iter_mut().zip(&self.closed).for_each(|(all, closed)| all.add(*closed));
        all
    }

    /// How much weighs in bets: the rate and the trials of each group.
    pub(crate) fn decayed(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.decayed.iter().map(|known| (known.rate(), known.trials))
    }
}

impl DecayedTotals {
    /// Never 0 and never 1, so that a bet loses at most what it can.
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
        // What never happens may be impossible: 0 times the logarithm of infinity is 0 here.
        let term = |times: f64, ratio: f64| if times > 0.0 { times * ratio.ln() } else { 0.0 };
        term(totals.sum, estimate / fair) + term(rest, (1.0 - estimate) / (1.0 - fair))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evidence of exactly 1/α is met in practice, where counts are small, and comes out a little more or less with
    /// every order of calculation.
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
