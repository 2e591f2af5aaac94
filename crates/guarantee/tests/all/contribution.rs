//! The groups that an alarm is about are those whose bets made the evidence.

use fairstream_guarantee::{
    EProcess, ErrorControl, FairSet, Hypothesis, ImplicatedGroups, Reference, TrialTotals,
};
use proptest::prelude::*;

use crate::evidence::{blocks, control, feed, hypothesis};
use crate::fair_set;

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Where there is evidence, there are groups that it is about; never one with too few trials, and one of them the
    /// reference if there is one.
    #[test]
    fn evidence_is_about_groups_that_are_compared(
        fair in fair_set(), control in control(), blocks in blocks(), least in 1..20_u64, has_reference in any::<bool>(),
    ) {
        let is_bound = matches!(fair, FairSet::Highest(_));
        let reference = if has_reference && !is_bound { Reference::Group(1) } else { Reference::None };
        let hypothesis = Hypothesis { min_trials: least, reference, ..hypothesis(fair, control) };
        let mut e_process = EProcess::default();
        for block in &blocks {
            feed(&mut e_process, &hypothesis, block);
            let Some(leading) = e_process.leading(&hypothesis, &[2, 0, 1]) else { continue };
            let ImplicatedGroups { too_high, too_low } = leading.groups;
            prop_assert!(leading.first_block + leading.blocks == e_process.blocks() + 1);
            prop_assert!(too_low.is_none() || too_high.is_some() && too_high != too_low);
            if e_process.exceeds_threshold(&hypothesis) {
                prop_assert!(too_high.is_some() && (is_bound || too_low.is_some()));
            }
            let named: Vec<usize> = [too_high, too_low].into_iter().flatten().collect();
            prop_assert!(reference == Reference::None || named.is_empty() || named.contains(&1));
            let totals = e_process.totals();
            prop_assert!(named.iter().all(|group| totals[*group].trials >= least));
        }
    }
}

/// Of two groups that contributed the same, the first in the order of groups is named, whatever their numbers.
#[test]
fn the_order_decides_between_equals() {
    let hypothesis = hypothesis(FairSet::Difference(0.1), ErrorControl::Ever);
    let mut e_process = EProcess::default();
    for _ in 0..5 {
        let of = |sum| TrialTotals { trials: 10, sum };
        feed(&mut e_process, &hypothesis, &[of(9.0), of(1.0), of(1.0)]);
    }
    for (order, too_low) in [([0, 1, 2], 1), ([2, 1, 0], 2)] {
        let expected = ImplicatedGroups { too_high: Some(0), too_low: Some(too_low) };
        assert_eq!(e_process.leading(&hypothesis, &order).unwrap().groups, expected);
    }
}

/// A group with an extreme share of a handful of trials is not what the evidence is about.
#[test]
fn a_handful_of_trials_is_not_named() {
    let hypothesis = hypothesis(FairSet::Difference(0.1), ErrorControl::Ever);
    let mut e_process = EProcess::default();
    for block in 0..10 {
        // One trial in three blocks, never positive: its share is the lowest.
        let few = TrialTotals { trials: u64::from(block < 3), sum: 0.0 };
        let of = |sum| TrialTotals { trials: 50, sum };
        feed(&mut e_process, &hypothesis, &[of(30.0), of(15.0), few]);
    }
    let leading = e_process.leading(&hypothesis, &[0, 1, 2]).unwrap();
    assert_eq!(leading.groups, ImplicatedGroups { too_high: Some(0), too_low: Some(1) });
    assert_eq!((leading.first_block, leading.blocks), (1, 10));
    let totals = |group| e_process.leading_totals(&hypothesis, group);
    assert_eq!(
        [totals(0), totals(1)],
        [TrialTotals { trials: 500, sum: 300.0 }, TrialTotals { trials: 500, sum: 150.0 }]
    );
}
