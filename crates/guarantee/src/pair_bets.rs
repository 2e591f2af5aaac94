//! Bets on differences between pairs of trials, for numbers between 0 and 1. Bets on rates treat a number as if it were a
//! share of yes and no, and ignore how little numbers vary; a bet on a difference does not.

use serde::{Deserialize, Serialize};

use crate::block::OpenBlock;
use crate::contribution::ImplicatedGroups;
use crate::e_process::log_sum_exp;
use crate::fairness::pair_index;
use crate::{Hypothesis, alpha_share};

/// Number of stakes.
const STAKES: usize = 6;

/// The weight of the first pair of groups; those that follow have 1/2, 1/6, 1/12, … of the rest.
const FIRST: f64 = 0.75;

/// E-values against "the mean of one group is at most ε above that of another", for each order of each pair of groups and
/// each stake λ: the product of 1 + λ (x − y − ε) over pairs of trials in the same block.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PairBets {
    /// For each pair, with numbers i > j at index i (i − 1) / 2 + j: the logarithms for "i above j" and for "j above i".
    pairs: Vec<[[f64; STAKES]; 2]>,
}

/// The stakes: from nearly the largest that no trial can make worthless, each half of the one before.
fn stakes(tolerance: f64) -> [f64; STAKES] {
    std::array::from_fn(|index| 0.95 / (1.0 + tolerance) * 0.5_f64.powi(index as i32))
}

impl PairBets {
    /// Bets on the trials of a block, in their order: the first of a group with the first of another, and so on. `weights`
    /// are those of its groups. Returns whether there was anything to bet on.
    pub(crate) fn evaluate(
        &mut self,
        hypothesis: &Hypothesis,
        tolerance: f64,
        block: &OpenBlock,
        weights: &[f64],
    ) -> bool {
        let of = |group: usize| {
            block.values().iter().filter(move |(known, _)| *known == group).map(|(_, value)| *value)
        };
        let compared = || {
            let groups = block.groups().iter().zip(weights);
            groups.filter(|(_, weight)| **weight > 0.0).map(|((group, _), _)| *group)
        };
        let stakes = stakes(tolerance);
        let mut has_bet = false;
        for high in compared() {
            for low in compared().filter(|low| *low < high && hypothesis.compares(high, *low)) {
                let (index, _) = pair_index(high, low);
                if self.pairs.len() <= index {
                    self.pairs.resize(index + 1, Default::default());
                }
                for (one, other) in of(high).zip(of(low)) {
                    for (side, difference) in [one - other, other - one].into_iter().enumerate() {
                        for (log, stake) in self.pairs[index][side].iter_mut().zip(stakes) {
                            *log += (stake * (difference - tolerance)).ln_1p();
                        }
                    }
                }
                has_bet = true;
            }
        }
        has_bet
    }

    /// Logarithm of the average over pairs, orders and stakes. Pairs that have not been seen keep their stake.
    pub(crate) fn log_e_value(&self) -> f64 {
        let weight = |index: usize| match index {
            0 => FIRST,
            _ => (1.0 - FIRST) * alpha_share(index as u64 - 1),
        };
        let seen = self.pairs.iter().enumerate().flat_map(|(index, sides)| {
            sides.iter().map(move |logs| (weight(index) / 2.0).ln() + average(logs))
        });
        let rest = match self.pairs.len() {
            0 => 0.0,
            pairs => ((1.0 - FIRST) / pairs as f64).ln(),
        };
        log_sum_exp(seen.chain(std::iter::once(rest)))
    }

    /// The pair with the largest e-value. `order` has the number of every group; of equal ones the first in it is chosen.
    pub(crate) fn implicated(&self, order: &[usize]) -> ImplicatedGroups {
        const ROUNDING: f64 = 1e-9;
        let mut found: Option<(usize, usize, f64)> = None;
        for high in order {
            for low in order.iter().filter(|low| *low != high) {
                let (index, side) = pair_index(*high, *low);
                let Some(logs) = self.pairs.get(index).map(|sides| average(&sides[side])) else { continue };
                if found.is_none_or(|(.., most)| logs > most + ROUNDING * most.abs().max(1.0)) {
                    found = Some((*high, *low, logs));
                }
            }
        }
        match found {
            Some((high, low, log)) if log > 0.0 => {
                ImplicatedGroups { too_high: Some(high), too_low: Some(low) }
            }
            _ => ImplicatedGroups::default(),
        }
    }
}

/// Logarithm of the average over stakes.
fn average(logs: &[f64; STAKES]) -> f64 {
    log_sum_exp(logs.iter().copied()) - (STAKES as f64).ln()
}
