//! Impact ratios: the rate of each group, divided by that of the most favoured group, or of the reference group.

use super::{AlarmBasis, AlarmedGroup, Standing};
use crate::{Comparison, Rule, RuleRate};

/// The share of the most favoured group's rate below which a rate is a sign of adverse impact: the four-fifths rule of
/// the Uniform Guidelines on Employee Selection Procedures.
const FOUR_FIFTHS: f64 = 0.8;

/// Groups with a smaller share of all trials are marked, and are not the most favoured group: Local Law 144 of New York
/// lets an audit leave them out.
const SMALL_GROUP: f64 = 0.02;

/// The rate of a group compared with that of the most favoured group; or with that of the reference group, than which
/// others may be more favoured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImpactRatio {
    /// The share of the group's trials with the favourable outcome.
    pub favourable: f64,
    /// That, divided by the share of the most favoured group, or of the reference group; `None` if that has no favourable
    /// outcome.
    pub ratio: Option<f64>,
    /// Whether the ratio is below four fifths.
    pub is_under_four_fifths: bool,
    /// How many more trials of the group would need the outcome for the ratio to be four fifths.
    pub shortfall: u64,
    /// Whether the group has less than 2 % of all trials.
    pub is_small: bool,
}

impl AlarmBasis {
    /// The group that is worse off, of the two that the alarm is about; `None` if the rate is not known to be good or bad
    /// for a group.
    pub fn worse_off(&self, rate: &RuleRate) -> Option<&AlarmedGroup> {
        let [higher, lower] = self.groups.as_slice() else { return None };
        rate.favourable.map(|favourable| if favourable { lower } else { higher })
    }
}

impl Standing {
    /// The impact ratio of each group, in the order of the groups; `None` for a group without a trial. `None` if the
    /// rate is a mean, or if the file does not say whether it is good or bad and the metric is not one of ratios. The
    /// favourable outcome of a burden is its absence.
    pub fn impact_ratios(&self, rule: &Rule) -> Option<Vec<Option<ImpactRatio>>> {
        let rate = rule.rates.get(self.rate_index.1)?;
        // A metric of ratios compares what is decided, also where the file does not say whether that is good.
        let is_ratio = rule.comparison == Comparison::Ratio;
        let is_favourable = rate.favourable.or(is_ratio.then_some(true))?;
        if rate.is_mean {
            return None;
        }
        let all: u64 = self.groups.iter().map(|group| group.denominator).sum();
        let favourable: Vec<Option<(f64, f64)>> = self
            .groups
            .iter()
            .map(|group| {
                let trials = group.denominator as f64;
                let with = if is_favourable { group.numerator } else { trials - group.numerator };
                (trials > 0.0).then_some((with, trials))
            })
            .collect();
        let is_small = |trials: f64| trials < SMALL_GROUP * all as f64;
        let shares = favourable.iter().flatten().filter(|(_, trials)| !is_small(*trials));
        let most = match rule.reference.as_deref() {
            None => shares.map(|(with, trials)| with / trials).fold(0.0, f64::max),
            Some(reference) => {
                let index = self.groups.iter().position(|group| group.values == reference);
                index.and_then(|index| favourable[index]).map_or(0.0, |(with, trials)| with / trials)
            }
        };
        let impact = |(with, trials): (f64, f64)| {
            let ratio = (most > 0.0).then(|| with / trials / most);
            let missing = (FOUR_FIFTHS * most * trials - with).max(0.0);
            ImpactRatio {
                favourable: with / trials,
                ratio,
                is_under_four_fifths: ratio.is_some_and(|ratio| ratio < FOUR_FIFTHS),
                // A rounding error must not add a trial.
                shortfall: (missing - 1e-9).ceil().max(0.0) as u64,
                is_small: is_small(trials),
            }
        };
        Some(favourable.into_iter().map(|group| group.map(impact)).collect())
    }
}
