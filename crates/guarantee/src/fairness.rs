//! Evidence that groups are treated fairly: against each hypothesis that one group is above another by the tolerance or
//! more, at all times. Compared is what is in the same block, so that nothing that changes with time hides a gap or
//! makes one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::contribution::ImplicatedGroups;
use crate::e_process::log_sum_exp;
use crate::fair_set::WeightedRate;
use crate::knowledge::{Belief, Knowledge, RecentRate};
use crate::learner::{BetScratch, log_factor};
use crate::{FairSet, Hypothesis, Reference, TrialTotals};

/// Evidence for fairness, for all pairs of groups; or for each group, if fairness is an upper bound.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct FairnessEvidence {
    knowledge: Knowledge,
    /// For each pair of groups i > j that have met in a block, and for each belief: the logarithms of the e-values against "i
    /// is above j", and against "j is above i". Infinite once it has been enough. Of many groups few pairs meet.
    #[serde(with = "crate::written")]
    pairs: BTreeMap<(usize, usize), [[f64; 2]; 2]>,
    /// For each group the logarithm of the e-value against "its rate is the bound or more".
    #[serde(with = "crate::written")]
    bounds: Vec<f64>,
}

/// A pair of groups, the larger number first, and which of its orders has the first one above the second.
pub(crate) fn pair_of(one: usize, other: usize) -> ((usize, usize), usize) {
    ((one.max(other), one.min(other)), usize::from(one < other))
}

impl FairnessEvidence {
    pub(crate) fn is_valid(&self) -> bool {
        self.knowledge.is_valid()
    }

    pub(crate) fn evaluate(
        &mut self,
        hypothesis: &Hypothesis,
        block: &[(usize, TrialTotals)],
        recent: &RecentRate,
        scratch: &mut BetScratch,
    ) {
        let BetScratch { weights, estimates, .. } = scratch;
        if let FairSet::Highest(bound) = hypothesis.fair {
            self.knowledge.estimates(Belief::Laplace, block, recent, bound, estimates);
            for ((group, totals), estimate) in block.iter().zip(estimates) {
                if self.bounds.len() <= *group {
                    self.bounds.resize(group + 1, 0.0);
                }
                self.bounds[*group] += below_bound(*totals, *estimate, bound);
            }
        } else if block.len() > 1 {
            for (index, belief) in [Belief::Equal, Belief::Contrast].into_iter().enumerate() {
                self.knowledge.estimates(belief, block, recent, 0.5, estimates);
                self.compare(hypothesis, index, block, weights, estimates);
            }
        }
        self.knowledge.learn(block, None);
    }

    /// Bets on all pairs of groups of a block, with the estimates of one belief.
    fn compare(
        &mut self,
        hypothesis: &Hypothesis,
        belief: usize,
        block: &[(usize, TrialTotals)],
        weights: &[f64],
        estimates: &[f64],
    ) {
        let enough = -hypothesis.miscoverage.ln();
        let compared = || (0..block.len()).filter(|position| weights[*position] > 0.0);
        for above in compared() {
            for below in compared().filter(|below| hypothesis.compares(block[above].0, block[*below].0)) {
                let (pair, side) = pair_of(block[above].0, block[below].0);
                let logs = &mut self.pairs.entry(pair).or_default()[side];
                // What has been refuted stays so.
                if logs[belief] == f64::INFINITY {
                    continue;
                }
                let of = |position: usize| (block[position].1, estimates[position]);
                logs[belief] += not_apart(hypothesis.fair, of(above), of(below));
                // Else the average of two cannot be enough either.
                if logs[belief] >= enough && average(*logs) >= enough {
                    *logs = [f64::INFINITY; 2];
                }
            }
        }
    }

    /// Whether there is enough evidence that these groups are treated fairly.
    pub(crate) fn is_complete(&self, hypothesis: &Hypothesis, compared: &[usize]) -> bool {
        let has_reference = match hypothesis.reference {
            Reference::None => true,
            Reference::Group(reference) => compared.contains(&reference),
            Reference::Absent => false,
        };
        has_reference
            && compared.len() >= hypothesis.fair.fewest_groups()
            && self.logs(hypothesis, compared).all(|log| log >= -hypothesis.miscoverage.ln())
    }

    /// The least of the logarithms.
    pub(crate) fn least(&self, hypothesis: &Hypothesis, compared: &[usize]) -> f64 {
        self.logs(hypothesis, compared).fold(f64::INFINITY, f64::min)
    }

    /// The logarithm of the e-value against each hypothesis about these groups, whose numbers increase; of all pairs that have
    /// not met, one, as they are equal.
    fn logs<'a>(
        &'a self,
        hypothesis: &'a Hypothesis,
        compared: &'a [usize],
    ) -> impl Iterator<Item = f64> + 'a {
        let is_bound = matches!(hypothesis.fair, FairSet::Highest(_));
        let bounds = compared.iter().map(|group| self.bounds.get(*group).copied().unwrap_or_default());
        let is_compared = |group: usize| compared.binary_search(&group).is_ok();
        let met = self.pairs.iter().filter(move |((high, low), _)| {
            is_compared(*high) && is_compared(*low) && hypothesis.compares(*high, *low)
        });
        let all = match hypothesis.reference {
            Reference::None => compared.len() * compared.len().saturating_sub(1) / 2,
            Reference::Group(reference) => match is_compared(reference) {
                true => compared.len() - 1,
                false => 0,
            },
            Reference::Absent => 0,
        };
        // Whether others have met is known once there are as many pairs as there can be.
        let has_strangers = !is_bound && (self.pairs.len() < all || met.clone().count() < all);
        let pairs = met.flat_map(|(_, sides)| sides).map(|logs| average(*logs));
        let strangers = std::iter::once(0.0).filter(move |_| has_strangers);
        bounds.filter(move |_| is_bound).chain(strangers).chain(pairs.filter(move |_| !is_bound))
    }
}

/// Logarithm of the average of two e-values.
fn average(logs: [f64; 2]) -> f64 {
    log_sum_exp(logs.into_iter()) - 2.0_f64.ln()
}

/// Logarithm of the factor against "the first is above the second by the tolerance or more".
fn not_apart(fair: FairSet, above: (TrialTotals, f64), below: (TrialTotals, f64)) -> f64 {
    let rate = |(totals, rate): (TrialTotals, f64)| WeightedRate { rate, weight: totals.trials as f64 };
    let Some((high, low)) = fair.project_apart(rate(above), rate(below)) else { return 0.0 };
    log_factor(above.0, above.1, high) + log_factor(below.0, below.1, low)
}

/// Logarithm of the factor against "the rate is the bound or more".
fn below_bound(totals: TrialTotals, estimate: f64, bound: f64) -> f64 {
    if estimate < bound { log_factor(totals, estimate, bound) } else { 0.0 }
}

/// Evidence since an alarm that its groups are treated fairly again: against each order of the two, that one is above the
/// other by the tolerance or more. Where an e-value falls to 1, it begins anew, and so does what it learns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Recovery {
    too_high: usize,
    /// `None` if fairness is an upper bound.
    too_low: Option<usize>,
    /// Against "the first is above the second", and "the second is above the first"; of an upper bound twice the same.
    sides: [RecoverySide; 2],
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct RecoverySide {
    knowledge: Knowledge,
    /// Totals of the groups since the evidence began, the one that was too high first.
    totals: [TrialTotals; 2],
    #[serde(with = "crate::written")]
    log_e_value: f64,
}

/// An alarm is cleared when each e-value reaches this. It is more than for an alarm, as the evidence begins anew so often.
const ENOUGH: f64 = 2000.0;

impl Recovery {
    pub(crate) fn of(groups: ImplicatedGroups) -> Option<Recovery> {
        let ImplicatedGroups { too_high, too_low } = groups;
        Some(Recovery { too_high: too_high?, too_low, sides: Default::default() })
    }

    pub(crate) fn evaluate(
        &mut self,
        hypothesis: &Hypothesis,
        block: &[(usize, TrialTotals)],
        recent: &RecentRate,
        scratch: &mut BetScratch,
    ) {
        let estimates = &mut scratch.estimates;
        let position = |group: usize| block.iter().position(|(known, _)| *known == group);
        let (high, low) = (position(self.too_high), self.too_low.and_then(position));
        for (index, side) in self.sides.iter_mut().enumerate() {
            let factor = match (hypothesis.fair, high, low) {
                (FairSet::Highest(bound), Some(at), _) => {
                    side.knowledge.estimates(Belief::Laplace, block, recent, bound, estimates);
                    below_bound(block[at].1, estimates[at], bound)
                }
                (fair, Some(high), Some(low)) => {
                    side.knowledge.estimates(Belief::Contrast, block, recent, 0.5, estimates);
                    let (above, below) = if index == 0 { (high, low) } else { (low, high) };
                    let [above, below] = [above, below].map(|at| (block[at].1, estimates[at]));
                    not_apart(fair, above, below)
                }
                _ => 0.0,
            };
            for (totals, at) in side.totals.iter_mut().zip([high, low]) {
                at.into_iter().for_each(|at| totals.add(block[at].1));
            }
            side.log_e_value += factor;
            side.knowledge.learn(block, None);
            if side.log_e_value <= 0.0 {
                *side = RecoverySide::default();
            }
        }
    }

    pub(crate) fn is_valid(&self) -> bool {
        let is_valid =
            |side: &RecoverySide| side.knowledge.is_valid() && side.totals.iter().all(TrialTotals::is_valid);
        self.sides.iter().all(is_valid)
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.sides.iter().all(|side| side.log_e_value >= ENOUGH.ln())
    }

    /// The trials of a group since the evidence that it is no longer too high, or too low, began.
    pub(crate) fn totals(&self, group: usize) -> TrialTotals {
        let index = match group {
            group if group == self.too_high => 0,
            group if Some(group) == self.too_low => 1,
            _ => return TrialTotals::default(),
        };
        self.sides[0].totals[index]
    }
}
