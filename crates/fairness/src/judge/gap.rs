//! The gap between groups.

use super::distinct_counts::DistinctCounts;
use super::named_vec::NamedVec;
use super::{Counts, Estimator, Rule};
use crate::Comparison;

/// The groups with the highest and the lowest estimate, and the size of the gap between them. With a reference group, it
/// and the group that is furthest from it; nothing is compared if the reference has too few trials.
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
        Gap::among(rule, &estimator, groups.iter().map(|(group, counts)| (group, *counts)))
    }

    /// The size of the gap between these groups, from their distinct counts.
    pub(super) fn size_of(rule: &Rule, groups: &NamedVec<Counts>, distinct: &DistinctCounts) -> f64 {
        let estimator = Estimator::of_sums(rule, distinct.sums());
        let reference = rule.reference.as_deref().and_then(|name| groups.get(groups.index_of(name)?));
        let reference = reference.map(|(group, counts)| (group, *counts));
        Gap::among(rule, &estimator, distinct.iter().map(|counts| ("", counts)).chain(reference)).size
    }

    fn among(rule: &Rule, estimator: &Estimator, groups: impl Iterator<Item = (&'a str, Counts)>) -> Gap<'a> {
        let compared = groups
            .filter(|(_, counts)| counts.has_evidence(rule))
            .filter_map(|(group, counts)| Some((group, counts, estimator.estimate(&counts)?)));
        let (mut highest, mut lowest): (Option<GroupEstimate<'_>>, Option<GroupEstimate<'_>>) = (None, None);
        let mut own = None;
        for one in compared {
            if rule.reference.as_deref() == Some(one.0) {
                own = Some(one);
            }
            if highest.is_none_or(|(_, _, most)| one.2 > most) {
                highest = Some(one);
            }
            if lowest.is_none_or(|(_, _, least)| one.2 < least) {
                lowest = Some(one);
            }
        }
        if rule.reference.is_some() {
            [highest, lowest] = with_reference(rule, own, highest, lowest);
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

/// The reference group and the one that is furthest from it, the one with the higher estimate first.
fn with_reference<'a>(
    rule: &Rule,
    own: Option<GroupEstimate<'a>>,
    highest: Option<GroupEstimate<'a>>,
    lowest: Option<GroupEstimate<'a>>,
) -> [Option<GroupEstimate<'a>>; 2] {
    let (Some(own), Some(highest), Some(lowest)) = (own, highest, lowest) else { return [None, None] };
    let (most, reference, least) = (highest.2, own.2, lowest.2);
    let through = |one: f64, other: f64| if other > 0.0 { one / other } else { 1.0 };
    let is_above = match rule.comparison {
        Comparison::Ratio => through(reference, most) < through(least, reference),
        Comparison::Difference | Comparison::Highest => most - reference > reference - least,
    };
    if is_above { [Some(highest), Some(own)] } else { [Some(own), Some(lowest)] }
}
