//! The same where groups are compared with a reference group alone.

use std::collections::BTreeMap;

use fairstream_guarantee::{
    EProcess, ErrorControl, FairSet, Hypothesis, ImplicatedGroups, Interval, Outcome, Reference, TrialTotals,
};
use proptest::prelude::*;

use crate::evidence::{blocks, control, feed};
use crate::fair_set;

/// The group that others are compared with.
const REFERENCE: usize = 1;

fn hypothesis(fair: FairSet, control: ErrorControl, reference: Reference) -> Hypothesis {
    Hypothesis { reference, ..crate::evidence::hypothesis(fair, control) }
}

fn comparing() -> impl Strategy<Value = FairSet> {
    fair_set().prop_filter("an upper bound has no reference", |fair| !matches!(fair, FairSet::Highest(_)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// The expectation of the next factor, exactly: over every outcome of a block whose rates are fair beside that of the
    /// reference, it is at most 1; also of a block without trials of the reference.
    #[test]
    fn no_factor_is_above_one_on_average(
        fair in comparing(), control in control(), blocks in blocks(), least in 0..20_u64,
        theta in prop::collection::vec(0.001..0.999_f64, 3), trials in prop::collection::vec(0..5_u64, 3),
    ) {
        let hypothesis = Hypothesis { min_trials: least, ..hypothesis(fair, control, Reference::Group(REFERENCE)) };
        let mut e_process = EProcess::default();
        for block in &blocks {
            feed(&mut e_process, block);
            e_process.close_block(&hypothesis);
        }
        let theta = fair.project_to(&theta, &[1.0; 3], Some(REFERENCE));
        let mut mean = 0.0;
        for first in 0..=trials[0] {
            for second in 0..=trials[1] {
                for third in 0..=trials[2] {
                    let positives = [first, second, third];
                    let chance: f64 = (0..3).map(|group| binomial(trials[group], positives[group], theta[group])).product();
                    let block: Vec<TrialTotals> = (0..3)
                        .map(|group| TrialTotals { trials: trials[group], sum: positives[group] as f64 })
                        .collect();
                    let mut e_process = e_process.clone();
                    feed(&mut e_process, &block);
                    let factor = e_process.close_block(&hypothesis).map_or(1.0, |block| block.log_factor.exp());
                    mean += if chance > 0.0 { chance * factor } else { 0.0 };
                }
            }
        }
        prop_assert!(mean <= 1.0 + 1e-9, "{}", mean);
    }

    /// Nothing is bet before the reference has enough trials.
    #[test]
    fn without_a_reference_there_is_no_evidence(
        fair in comparing(), control in control(), blocks in blocks(), least in 0..30_u64,
    ) {
        let absent = hypothesis(fair, control, Reference::Absent);
        let present = Hypothesis { min_trials: least, ..hypothesis(fair, control, Reference::Group(REFERENCE)) };
        let (mut without, mut with) = (EProcess::default(), EProcess::default());
        let mut trials = 0;
        for block in &blocks {
            feed(&mut without, block);
            without.close_block(&absent);
            feed(&mut with, block);
            trials += block[REFERENCE].trials;
            let closed = with.close_block(&present);
            let is_bet = |block: &fairstream_guarantee::Block| block.groups.iter().any(|of| of.bet.estimate != of.bet.fair);
            prop_assert!(trials >= least.max(1) || !closed.as_ref().is_some_and(is_bet));
        }
        prop_assert_eq!(without.log_e_value(), 0.0);
        prop_assert!(without.looks_fair(&absent));
        prop_assert_eq!(without.result(&absent).gap, None);
        prop_assert_eq!(without.result(&absent).outcome, Outcome::NotYet { further: None });
    }

    /// The pair that the evidence is about has the reference; no other such pair contributed more.
    #[test]
    fn evidence_is_about_the_reference_and_another_group(
        fair in comparing(), control in control(), blocks in blocks(), least in 0..20_u64,
    ) {
        let hypothesis = Hypothesis { min_trials: least, ..hypothesis(fair, control, Reference::Group(REFERENCE)) };
        let mut e_process = EProcess::default();
        let mut contributions: BTreeMap<(bool, usize), f64> = BTreeMap::new();
        let mut log = 0.0;
        for block in &blocks {
            feed(&mut e_process, block);
            let Some(closed) = e_process.close_block(&hypothesis) else { continue };
            if control != ErrorControl::Ever && log <= 1e-9 {
                contributions.clear();
            }
            log = closed.log_e_value;
            for of in closed.groups.iter().filter(|of| of.bet.estimate != of.bet.fair) {
                *contributions.entry((of.bet.estimate > of.bet.fair, of.group)).or_default() += of.log_factor();
            }
        }
        let found = e_process.implicated(&hypothesis, &[0, 1, 2]);
        prop_assert!(log == 0.0 || found.too_high.is_some());
        prop_assert_eq!(found.too_high.is_some(), found.too_low.is_some());
        let of = |is_high: bool, group: usize| {
            let found = contributions.get(&(is_high, group)).copied();
            if group == REFERENCE { Some(found.unwrap_or(0.0)) } else { found }
        };
        let others = [0, 2];
        let pairs = others.iter().flat_map(|group| [(*group, REFERENCE), (REFERENCE, *group)]);
        let most = pairs.filter_map(|(high, low)| Some(of(true, high)? + of(false, low)?)).reduce(f64::max);
        prop_assert_eq!(most.is_some(), found.too_high.is_some());
        if let ImplicatedGroups { too_high: Some(high), too_low: Some(low) } = found {
            prop_assert!(high != low && (high == REFERENCE || low == REFERENCE));
            let sum = of(true, high).unwrap() + of(false, low).unwrap();
            prop_assert!(sum >= most.unwrap() - 1e-9 * most.unwrap().abs().max(1.0));
        }
    }

    /// The interval of the gap is that of the gaps that rates within the intervals of the groups can have.
    #[test]
    fn the_interval_of_the_gap_is_that_of_its_groups(
        fair in comparing(), trials in prop::collection::vec(0..3000_u64, 3),
        rates in prop::collection::vec(0.0..1.0_f64, 3), parts in prop::collection::vec(0.0..=1.0_f64, 3),
    ) {
        let hypothesis = hypothesis(fair, ErrorControl::Ever, Reference::Group(REFERENCE));
        let mut e_process = EProcess::default();
        for group in 0..3 {
            let sum = (trials[group] as f64 * rates[group]).round();
            e_process.count(group, TrialTotals { trials: trials[group], sum });
        }
        let result = e_process.result(&hypothesis);
        let others = || [0, 2].into_iter().filter(|group| trials[*group] > 0);
        prop_assert_eq!(result.gap.is_some(), trials[REFERENCE] > 0 && others().count() > 0);
        let Some(gap) = result.gap else { return Ok(()) };
        let rate = |group: usize| {
            let Interval { low, high } = result.groups[group];
            low + (high - low) * parts[group]
        };
        let (own, is_ratio) = (rate(REFERENCE), matches!(fair, FairSet::Ratio(_)));
        let size = |other: f64| match is_ratio {
            true if own.max(other) > 0.0 => own.min(other) / own.max(other),
            true => 1.0,
            false => (own - other).abs(),
        };
        let sizes = others().map(|group| size(rate(group)));
        let size = sizes.reduce(if is_ratio { f64::min } else { f64::max }).unwrap();
        prop_assert!(gap.low - 1e-9 <= size && size <= gap.high + 1e-9, "{} in {:?}", size, gap);
        let is_fair = match fair {
            FairSet::Difference(most) | FairSet::Highest(most) => gap.high <= most,
            FairSet::Ratio(least) => gap.low >= least,
        };
        prop_assert_eq!(result.outcome == Outcome::Fair, is_fair);
    }
}

fn binomial(trials: u64, positives: u64, rate: f64) -> f64 {
    let ways = (0..positives).fold(1.0, |ways, step| ways * (trials - step) as f64 / (step + 1) as f64);
    ways * rate.powi(positives as i32) * (1.0 - rate).powi((trials - positives) as i32)
}

/// Two groups that are far apart, but neither of them from the reference, are fair; and the number of further trials is
/// correct within a factor of 3.
#[test]
fn only_the_reference_counts() {
    for (rates, expected) in [
        ([0.58, 0.5, 0.42], Outcome::Fair),
        ([0.5, 0.8, 0.55], Outcome::Unfair),
        ([0.5, 0.2, 0.2], Outcome::Unfair),
    ] {
        let hypothesis = Hypothesis {
            reference: Reference::Group(REFERENCE),
            ..Hypothesis::new(FairSet::Difference(0.1), ErrorControl::Ever, 0.05)
        };
        let mut e_process = EProcess::default();
        let step = |e_process: &mut EProcess| {
            rates.iter().enumerate().for_each(|(group, rate)| {
                e_process.count(group, TrialTotals { trials: 100, sum: 100.0 * rate });
            });
            e_process.close_block(&hypothesis);
        };
        // The first block is bet on before anything is known.
        step(&mut e_process);
        if expected == Outcome::Unfair {
            (0..20).for_each(|_| step(&mut e_process));
            assert!(e_process.exceeds_threshold(&hypothesis), "{rates:?}");
            assert!(!e_process.looks_fair(&hypothesis));
            continue;
        }
        let Outcome::NotYet { further: Some(further) } = e_process.result(&hypothesis).outcome else {
            panic!("{:?}", e_process.result(&hypothesis));
        };
        let mut taken = 0;
        while e_process.result(&hypothesis).outcome != expected {
            step(&mut e_process);
            taken += 300;
            assert!(taken < 1_000_000, "{rates:?} is not settled");
        }
        assert!((taken / 3..=taken * 3).contains(&further), "{rates:?}: {further} foretold, {taken} taken");
        assert!(e_process.looks_fair(&hypothesis));
    }
}
