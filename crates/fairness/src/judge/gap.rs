//! The gap between groups.

use super::named_vec::NamedVec;
use super::{Counts, Estimator, Rule};
use crate::Comparison;

/// The groups with the highest and the lowest estimate, and the size of the gap between them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gap<'a> {
    pub(crate) size: f64,
    pub(crate) highest: Option<GroupEstimate<'a>>,
    pub(crate) lowest: Option<GroupEstimate<'a>>,
}

/// A group, its counts and its estimate.
pub(crate) type GroupEstimate<'a> = (&'a str, Counts, f64);

impl<'a> Gap<'a> {
    pub(crate) fn of(rule: &Rule, groups: &'a NamedVec<Counts>) -> Gap<'a> {
        let estimator = Estimator::of_estimates(rule, groups.values());
        let compared = groups
            .iter()
            .filter(|(_, counts)| counts.has_evidence(rule))
            .filter_map(|(group, counts)| Some((group, *counts, estimator.estimate(counts)?)));
        let (mut highest, mut lowest): (Option<GroupEstimate<'_>>, Option<GroupEstimate<'_>>) = (None, None);
        for one in compared {
            if highest.is_none_or(|(_, _, most)| one.2 > most) {
                highest = Some(one);
            }
            if lowest.is_none_or(|(_, _, least)| one.2 < least) {
                lowest = Some(one);
            }
        }
        let (most, least) = (highest.map(|(_, _, most)| most), lowest.map(|(_, _, least)| least));
        let size = match (rule.comparison, most, least) {
            (Comparison::Ratio, Some(most), Some(least)) if most > 0.0 => least / most,
            (Comparison::Ratio, ..) => 1.0,
            (Comparison::Difference, Some(most), Some(least)) => most - least,
            (Comparison::Highest, Some(most), _) => most,
            (Comparison::Difference | Comparison::Highest, ..) => 0.0,
        };
        Gap { size, highest, lowest }
    }
}
