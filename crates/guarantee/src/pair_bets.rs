//! Bets on differences between pairs of trials, for numbers between 0 and 1. Bets on rates treat a number as if it were a
//! share of yes and no, and ignore how little numbers vary; a bet on a difference does not.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::block::OpenBlock;
use crate::contribution::ImplicatedGroups;
use crate::e_process::log_sum_exp;
use crate::{Hypothesis, alpha_share};

/// Number of stakes.
const STAKES: usize = 6;

/// The weight of the first pair of groups; those that follow have 1/2, 1/6, 1/12, … of the rest.
const FIRST: f64 = 0.75;

/// E-values against "the mean of one group is at most ε above that of another", for each order of each pair of groups and
/// each stake λ: the product of 1 + λ (x − y − ε) over pairs of trials in the same block.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PairBets {
    /// For each pair i > j that has met in a block: the logarithms for "i above j" and for "j above i".
    #[serde(with = "crate::written")]
    pairs: BTreeMap<(usize, usize), [[f64; STAKES]; 2]>,
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
                let sides = self.pairs.entry((high, low)).or_default();
                for (one, other) in of(high).zip(of(low)) {
                    for (side, difference) in [one - other, other - one].into_iter().enumerate() {
                        for (log, stake) in sides[side].iter_mut().zip(stakes) {
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
        // The place of a pair: all pairs of the groups before, then those of the same group.
        let weight = |(high, low): (usize, usize)| match (high as u64 * (high as u64 - 1) / 2) + low as u64 {
            0 => FIRST,
            place => (1.0 - FIRST) * alpha_share(place - 1),
        };
        let seen = self.pairs.iter().flat_map(|(pair, sides)| {
            sides.iter().map(move |logs| (weight(*pair) / 2.0).ln() + average(logs))
        });
        let rest = 1.0 - self.pairs.keys().map(|pair| weight(*pair)).sum::<f64>();
        log_sum_exp(seen.chain(std::iter::once(rest.max(0.0).ln())))
    }

    /// The pair with the largest e-value. `order` has the number of every group; of equal ones the first in it is chosen.
    pub(crate) fn implicated(&self, order: &[usize]) -> ImplicatedGroups {
        const ROUNDING: f64 = 1e-9;
        let mut found: Option<(usize, usize, f64)> = None;
        let mut places = vec![usize::MAX; order.iter().max().map_or(0, |most| most + 1)];
        order.iter().enumerate().for_each(|(place, group)| places[*group] = place);
        let place = |group: usize| places.get(group).copied().unwrap_or(usize::MAX);
        let orders = |(pair, sides): (&(usize, usize), &[[f64; STAKES]; 2])| {
            let (high, low) = *pair;
            [(high, low, average(&sides[0])), (low, high, average(&sides[1]))]
        };
        let mut all: Vec<(usize, usize, f64)> = self.pairs.iter().flat_map(orders).collect();
        all.sort_unstable_by_key(|(above, below, _)| (place(*above), place(*below)));
        for (above, below, log) in all {
            if found.is_none_or(|(.., most)| log > most + ROUNDING * most.abs().max(1.0)) {
                found = Some((above, below, log));
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
