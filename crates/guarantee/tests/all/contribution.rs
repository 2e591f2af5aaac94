//! The groups that an alarm is about are those whose bets made the evidence.

use std::collections::BTreeMap;

use fairstream_guarantee::{EProcess, ErrorControl, FairSet, Hypothesis, ImplicatedGroups, TrialTotals};
use proptest::prelude::*;

use crate::evidence::{blocks, control, feed, hypothesis};
use crate::fair_set;

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Contributions add up to the log e-value, and no other pair contributed more. Computed from the closed blocks.
    #[test]
    fn no_other_pair_contributed_more(
        fair in fair_set(), control in control(), blocks in blocks(), least in 0..20_u64,
    ) {
        let hypothesis = Hypothesis { min_trials: least, ..hypothesis(fair, control) };
        let mut e_process = EProcess::default();
        // For each group and direction, its contribution since the e-value was last 1 or less.
        let mut contributions: BTreeMap<(bool, usize), f64> = BTreeMap::new();
        let (mut log, mut accumulated) = (0.0, 0);
        for block in &blocks {
            feed(&mut e_process, block);
            let Some(closed) = e_process.close_block(&hypothesis) else { continue };
            if control != ErrorControl::Ever && log <= 1e-9 {
                contributions.clear();
                accumulated = 0;
            }
            log = closed.log_e_value;
            accumulated += 1;
            for of_group in &closed.groups {
                let (q, r) = (of_group.bet.estimate, of_group.bet.fair);
                let TrialTotals { trials, sum } = of_group.totals;
                if q != r {
                    let part = |times: f64, ratio: f64| if times > 0.0 { times * ratio.ln() } else { 0.0 };
                    *contributions.entry((q > r, of_group.group)).or_default() +=
                        part(sum, q / r) + part(trials as f64 - sum, (1.0 - q) / (1.0 - r));
                }
            }
        }
        prop_assert_eq!(e_process.accumulated_blocks(), accumulated);
        let sum: f64 = contributions.values().sum();
        prop_assert!(sum == log || (sum - log).abs() < 1e-9 * log.abs().max(1.0), "{} is not {}", sum, log);
        let ImplicatedGroups { too_high, too_low } = e_process.implicated(&hypothesis, &[0, 1, 2]);
        let of = |is_high: bool, group: Option<usize>| contributions.get(&(is_high, group?)).copied();
        if let FairSet::Highest(_) = fair {
            let most = (0..3).filter_map(|group| of(true, Some(group))).reduce(f64::max);
            prop_assert_eq!(too_low, None);
            prop_assert_eq!(most.is_some(), too_high.is_some());
            prop_assert!(most.is_none_or(|most| reaches(of(true, too_high).unwrap(), most)));
        } else {
            let pairs = (0..3).flat_map(|high| (0..3).map(move |low| (high, low))).filter(|(high, low)| high != low);
            let sum = |high, low| Some(of(true, high)? + of(false, low)?);
            let most = pairs.filter_map(|(high, low)| sum(Some(high), Some(low))).reduce(f64::max);
            prop_assert_eq!(most.is_some(), too_high.is_some() && too_low.is_some());
            if let Some(most) = most {
                prop_assert!(too_high != too_low);
                prop_assert!(reaches(sum(too_high, too_low).unwrap(), most));
            }
        }
    }

    /// Where there is evidence, there are groups that it is about; never one with too few trials.
    #[test]
    fn evidence_is_about_groups_that_are_compared(
        fair in fair_set(), control in control(), blocks in blocks(), least in 1..20_u64,
    ) {
        let hypothesis = Hypothesis { min_trials: least, ..hypothesis(fair, control) };
        let mut e_process = EProcess::default();
        for block in &blocks {
            feed(&mut e_process, block);
            e_process.close_block(&hypothesis);
            let found = e_process.implicated(&hypothesis, &[2, 0, 1]);
            let has_pair = matches!(fair, FairSet::Highest(_)) || found.too_low.is_some();
            prop_assert!(e_process.log_e_value() == 0.0 || found.too_high.is_some() && has_pair);
            let totals = e_process.totals();
            let named = [found.too_high, found.too_low].into_iter().flatten();
            prop_assert!(named.into_iter().all(|group| totals[group].trials >= least));
        }
    }
}

fn reaches(sum: f64, most: f64) -> bool {
    sum >= most || most - sum <= 1e-9 * most.abs().max(1.0)
}

/// Of two groups that contributed the same, the first in the order of groups is named, whatever their numbers.
#[test]
fn the_order_decides_between_equals() {
    let hypothesis = hypothesis(FairSet::Difference(0.1), ErrorControl::Ever);
    let mut e_process = EProcess::default();
    for _ in 0..5 {
        for (group, sum) in [(0, 9.0), (1, 1.0), (2, 1.0)] {
            e_process.count(group, TrialTotals { trials: 10, sum });
        }
        e_process.close_block(&hypothesis);
    }
    for (order, too_low) in [([0, 1, 2], 1), ([2, 1, 0], 2)] {
        let expected = ImplicatedGroups { too_high: Some(0), too_low: Some(too_low) };
        assert_eq!(e_process.implicated(&hypothesis, &order), expected);
    }
}

/// A group with an extreme share of a handful of trials is not what the evidence is about.
#[test]
fn a_handful_of_trials_is_not_named() {
    let hypothesis = Hypothesis::new(FairSet::Difference(0.1), ErrorControl::Ever, 0.05);
    let mut e_process = EProcess::default();
    for block in 0..10 {
        e_process.count(0, TrialTotals { trials: 50, sum: 30.0 });
        e_process.count(1, TrialTotals { trials: 50, sum: 15.0 });
        // One trial in three blocks, never positive: its share is the lowest.
        e_process.count(2, TrialTotals { trials: u64::from(block < 3), sum: 0.0 });
        e_process.close_block(&hypothesis);
    }
    let expected = ImplicatedGroups { too_high: Some(0), too_low: Some(1) };
    assert_eq!(e_process.implicated(&hypothesis, &[0, 1, 2]), expected);
}
