//! Which groups the evidence is about: those whose bets made it.

use serde::{Deserialize, Serialize};

use crate::FairSet;

/// What the bets on a group contributed to a log e-value: the sum over blocks of a · ln(q / r) + (m − a) ·
/// ln((1 − q) / (1 − r)), by the direction of the bet. The contributions of all groups add up to the log e-value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Contribution {
    /// Of the blocks in which its estimate was above every fair rate (q > r); `None` if there are none.
    #[serde(with = "crate::written")]
    too_high: Option<f64>,
    /// Of the blocks in which its estimate was below every fair rate (q < r); `None` if there are none.
    #[serde(with = "crate::written")]
    too_low: Option<f64>,
}

impl Contribution {
    pub(crate) fn add(&mut self, is_high: bool, log_factor: f64) {
        let side = if is_high { &mut self.too_high } else { &mut self.too_low };
        *side = Some(side.unwrap_or(0.0) + log_factor);
    }
}

/// The groups that the evidence is about, by their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImplicatedGroups {
    /// The group whose rate is too high; `None` without evidence.
    pub too_high: Option<usize>,
    /// The group whose rate is too low; `None` without evidence, or if fairness is an upper bound.
    pub too_low: Option<usize>,
}

/// The pair of different groups with the largest sum of two contributions: of one for being too high, of the other for
/// being too low. Of an upper bound, the group with the largest contribution. Sums that differ by rounding alone are
/// equal, so that every order of calculation leads to the same groups.
pub(crate) fn implicated(
    contributions: impl Fn(usize) -> Contribution,
    fair: FairSet,
    order: &[usize],
) -> ImplicatedGroups {
    let side = |of: fn(&Contribution) -> Option<f64>| -> Vec<(usize, f64)> {
        order.iter().filter_map(|group| Some((*group, of(&contributions(*group))?))).collect()
    };
    let (high, low) = (side(|of| of.too_high), side(|of| of.too_low));
    if let FairSet::Highest(_) = fair {
        let most = largest(&high, None);
        let found = high.iter().find(|(_, log)| most.is_some_and(|most| reaches(*log, most)));
        return ImplicatedGroups { too_high: found.map(|(group, _)| *group), too_low: None };
    }
    // The best partner of a group is the best of all, or the second best if it is the group itself.
    let best = low.iter().copied().reduce(|best, one| if one.1 > best.1 { one } else { best });
    let second = best.and_then(|(group, _)| largest(&low, Some(group)));
    let with_partner = |(group, log): &(usize, f64)| {
        let partner = if best?.0 == *group { second? } else { best?.1 };
        Some((*group, *log, log + partner))
    };
    let pairs: Vec<(usize, f64, f64)> = high.iter().filter_map(with_partner).collect();
    let Some(most) = pairs.iter().map(|(.., sum)| *sum).reduce(f64::max) else {
        return ImplicatedGroups::default();
    };
    let Some((group, log, _)) = pairs.into_iter().find(|(.., sum)| reaches(*sum, most)) else {
        return ImplicatedGroups::default();
    };
    let partner = low.iter().find(|(other, of_other)| *other != group && reaches(log + of_other, most));
    ImplicatedGroups { too_high: Some(group), too_low: partner.map(|(group, _)| *group) }
}

/// The pair of a reference group and another one with the largest sum of two contributions, as above. The reference may
/// have been fair in every block: its contribution is then 0.
pub(crate) fn implicated_with(
    contributions: impl Fn(usize) -> Contribution,
    reference: usize,
    order: &[usize],
) -> ImplicatedGroups {
    let of = contributions;
    let (own_high, own_low) = (of(reference).too_high, of(reference).too_low);
    let others = || order.iter().copied().filter(|group| *group != reference);
    let pair = |too_high, too_low, sum: f64| {
        (ImplicatedGroups { too_high: Some(too_high), too_low: Some(too_low) }, sum)
    };
    let high = |group| Some(pair(group, reference, of(group).too_high? + own_low.unwrap_or(0.0)));
    let low = |group| Some(pair(reference, group, of(group).too_low? + own_high.unwrap_or(0.0)));
    let pairs = || others().filter_map(high).chain(others().filter_map(low));
    let most = pairs().map(|(_, sum)| sum).reduce(f64::max);
    let found = pairs().find(|(_, sum)| most.is_some_and(|most| reaches(*sum, most)));
    found.map(|(groups, _)| groups).unwrap_or_default()
}

/// The largest value of all groups but one.
fn largest(side: &[(usize, f64)], but: Option<usize>) -> Option<f64> {
    side.iter().filter(|(group, _)| Some(*group) != but).map(|(_, log)| *log).reduce(f64::max)
}

/// Whether a sum is as large as another, but for rounding.
fn reaches(sum: f64, most: f64) -> bool {
    const ROUNDING: f64 = 1e-9;
    sum >= most || most.is_finite() && most - sum <= ROUNDING * most.abs().max(1.0)
}
