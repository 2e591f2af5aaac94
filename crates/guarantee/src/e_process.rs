//! The e-process: evidence against fairness that grows block by block. Each block is a bet on the estimate from the
//! blocks before it. The cost of a block is that of the groups with trials in it, not of all groups; a detector also
//! discounts every group.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::FairSet;
use crate::contribution::{Contribution, ImplicatedGroups, implicated, implicated_with};

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
    /// The group that all others are compared with.
    pub reference: Reference,
}

/// Whether groups are compared with each other, or with one of them alone. Without enough trials of that one, nothing is
/// compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reference {
    /// Every group is compared with every other.
    #[default]
    None,
    /// Every group is compared with this one, by its number.
    Group(usize),
    /// Every group is compared with one that has had no trial yet.
    Absent,
}

impl Hypothesis {
    /// Default minimum number of trials in a block.
    pub const BLOCK: u64 = 20;

    /// A hypothesis with blocks of [20](Hypothesis::BLOCK) trials, all groups compared.
    pub fn new(fair: FairSet, control: ErrorControl, level: f64) -> Hypothesis {
        let miscoverage = if control == ErrorControl::Ever { level } else { 0.05 };
        let (block, reference) = (Hypothesis::BLOCK, Reference::None);
        Hypothesis { fair, control, level, block, min_trials: 0, miscoverage, reference }
    }

    /// Logarithm of the e-value above which an alarm is raised.
    pub fn log_threshold(&self) -> f64 {
        -self.level.ln()
    }
}

/// Margin by which logarithms must differ, so that rounding does not decide.
const ROUNDING: f64 = 1e-9;

/// E-process against the hypothesis that groups are treated fairly. Groups are numbered from 0 in order of arrival. Its
/// state depends on counts alone, not on how they were split into calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EProcess {
    /// Totals in the open block, of the groups with trials in it.
    open: BTreeMap<usize, TrialTotals>,
    /// Number of trials in the open block, over all groups.
    open_trials: u64,
    /// Totals of each group in all closed blocks.
    closed: Vec<TrialTotals>,
    /// Totals that bets are based on: equal to `closed`, except that a detector discounts old trials.
    decayed: Vec<DecayedTotals>,
    /// What the bets on each group contributed to `log_e_value` since the e-value was last 1 or less.
    contributions: BTreeMap<usize, Contribution>,
    blocks: u64,
    /// Number of blocks that `log_e_value` is the sum of: all of them, except that a detector begins anew where the
    /// e-value is 1 or less.
    accumulated_blocks: u64,
    log_e_value: f64,
    /// Running maximum of `log_e_value`.
    log_maximum: f64,
}

/// Totals of a group in which older trials are discounted exponentially.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DecayedTotals {
    /// Discounted number of trials.
    pub trials: f64,
    /// Discounted sum of their values.
    pub sum: f64,
}

/// A closed block and its effect on the e-value.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Number of the block, from 1.
    pub number: u64,
    /// The groups with trials in it, in order of arrival.
    pub groups: Vec<BlockGroup>,
    /// Logarithm of the factor by which the e-value is multiplied.
    pub log_factor: f64,
    /// Logarithm of the e-value after this block.
    pub log_e_value: f64,
}

/// A group in a closed block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockGroup {
    /// The number of the group.
    pub group: usize,
    /// Its totals in the block.
    pub totals: TrialTotals,
    /// The bet on it. It does not depend on the sums of this block.
    pub bet: Bet,
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
        if self.closed.len() <= group {
            self.closed.resize(group + 1, TrialTotals::default());
            self.decayed.resize(group + 1, DecayedTotals::default());
        }
        if totals.trials > 0 {
            self.open.entry(group).or_default().add(totals);
            self.open_trials += totals.trials;
        }
    }

    /// Closes the open block if it has enough trials. The times of calls must not depend on outcomes.
    pub fn close_block(&mut self, hypothesis: &Hypothesis) -> Option<Block> {
        let trials = self.open_trials;
        if trials < hypothesis.block.max(1) {
            return None;
        }
        let bets = self.bets(hypothesis);
        let totals = std::mem::take(&mut self.open);
        self.open_trials = 0;
        let groups: Vec<BlockGroup> = totals
            .into_iter()
            .zip(bets)
            .map(|((group, totals), bet)| BlockGroup { group, totals, bet })
            .collect();
        let log_factor: f64 = groups.iter().map(BlockGroup::log_factor).sum();
        if matches!(hypothesis.control, ErrorControl::Detector { .. }) && self.log_e_value <= ROUNDING {
            self.begin_anew(self.log_e_value.max(0.0));
        }
        self.log_e_value += log_factor;
        self.log_maximum = self.log_maximum.max(self.log_e_value);
        self.blocks += 1;
        self.accumulated_blocks += 1;
        for of_group in &groups {
            if of_group.bet.estimate != of_group.bet.fair {
                self.contributions.entry(of_group.group).or_default().add(of_group);
            }
        }
        if let ErrorControl::Detector { memory } = hypothesis.control {
            let kept = memory as f64 / (memory as f64 + trials as f64);
            for known in &mut self.decayed {
                known.trials *= kept;
                known.sum *= kept;
            }
        }
        for BlockGroup { group, totals, .. } in &groups {
            self.closed[*group].add(*totals);
            let known = &mut self.decayed[*group];
            known.trials += totals.trials as f64;
            known.sum += totals.sum;
        }
        Some(Block { number: self.blocks, groups, log_factor, log_e_value: self.log_e_value })
    }

    /// The bets on the groups of the open block. They depend on earlier blocks and on the number of trials of each group
    /// in this one.
    fn bets(&self, hypothesis: &Hypothesis) -> Vec<Bet> {
        let estimate: Vec<f64> = self.open.keys().map(|group| self.decayed[*group].rate()).collect();
        let weight =
            |(group, totals): (&usize, &TrialTotals)| match self.closed[*group].trials + totals.trials {
                trials if trials < hypothesis.min_trials => 0.0,
                _ => totals.trials as f64,
            };
        let weights: Vec<f64> = self.open.iter().map(weight).collect();
        let fair = match hypothesis.reference {
            Reference::None => hypothesis.fair.project(&estimate, &weights),
            Reference::Group(group) if self.has_enough(group, hypothesis) => {
                let index = self.open.keys().position(|other| *other == group);
                hypothesis.fair.project_to(&estimate, &weights, index)
            }
            Reference::Group(_) | Reference::Absent => estimate.clone(),
        };
        let bet = |((estimate, fair), weight): ((f64, f64), &f64)| {
            // A group that is not compared contributes a factor of 1.
            Bet { estimate, fair: if *weight > 0.0 { fair } else { estimate } }
        };
        estimate.into_iter().zip(fair).zip(&weights).map(bet).collect()
    }

    /// Whether a group is compared, by its trials in all blocks, the open one included.
    fn has_enough(&self, group: usize, hypothesis: &Hypothesis) -> bool {
        let closed = self.closed.get(group).map_or(0, |totals| totals.trials);
        let open = self.open.get(&group).map_or(0, |totals| totals.trials);
        closed + open >= hypothesis.min_trials.max(1)
    }

    /// The groups whose bets made the evidence; with a reference group, one of them is that group. `order` has the number of every group; of equal contributions the first
    /// group in it is chosen.
    pub fn implicated(&self, hypothesis: &Hypothesis, order: &[usize]) -> ImplicatedGroups {
        match hypothesis.reference {
            Reference::Group(group) => implicated_with(&self.contributions, group, order),
            Reference::None | Reference::Absent => implicated(&self.contributions, hypothesis.fair, order),
        }
    }

    /// Number of blocks that the e-value is the product of: all of them, except that a detector begins anew where the
    /// e-value is 1 or less.
    pub fn accumulated_blocks(&self) -> u64 {
        self.accumulated_blocks
    }

    /// Whether the estimates that bets are based on are fair; for a detector these reflect recent trials. Groups whose
    /// trials have decayed to less than one are ignored.
    pub fn looks_fair(&self, hypothesis: &Hypothesis) -> bool {
        let least = hypothesis.min_trials.max(1);
        let compared = self.decayed.iter().zip(&self.closed).enumerate();
        let compared = compared.filter(|(_, (known, all))| known.trials >= 1.0 && all.trials >= least);
        let compared: Vec<(usize, f64)> = compared.map(|(group, (known, _))| (group, known.rate())).collect();
        let rates: Vec<f64> = compared.iter().map(|(_, rate)| *rate).collect();
        match hypothesis.reference {
            Reference::None => hypothesis.fair.contains(&rates),
            Reference::Group(reference) => compared
                .iter()
                .find(|(group, _)| *group == reference)
                .is_none_or(|(_, rate)| hypothesis.fair.contains_around(&rates, *rate)),
            Reference::Absent => true,
        }
    }

    /// Resets the e-value to 1. The totals stay.
    pub fn restart(&mut self) {
        self.begin_anew(0.0);
    }

    fn begin_anew(&mut self, log_e_value: f64) {
        self.log_e_value = log_e_value;
        self.accumulated_blocks = 0;
        self.contributions.clear();
    }

    /// Whether the e-value exceeds the threshold by more than rounding can explain. An e-value of exactly the threshold
    /// must give the same verdict in every order of calculation.
    pub fn exceeds_threshold(&self, hypothesis: &Hypothesis) -> bool {
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
        let mut all = self.closed.clone();
        self.open.iter().for_each(|(group, open)| all[*group].add(*open));
        all
    }

    /// The totals that bets on a group are based on: those of all closed blocks, except that a detector discounts old
    /// trials.
    pub fn decayed(&self, group: usize) -> DecayedTotals {
        self.decayed.get(group).copied().unwrap_or_default()
    }

    /// What bets are based on: the estimated rate of each group, and its discounted number of trials.
    pub(crate) fn estimates(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.decayed.iter().map(|known| (known.rate(), known.trials))
    }
}

impl DecayedTotals {
    /// Laplace estimate: never 0 and never 1, so that no outcome makes the e-value 0.
    fn rate(&self) -> f64 {
        (self.sum + 1.0) / (self.trials + 2.0)
    }
}

impl BlockGroup {
    /// Logarithm of the factor that the bet on this group adds to the e-value.
    pub fn log_factor(&self) -> f64 {
        self.bet.log_factor(self.totals)
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
