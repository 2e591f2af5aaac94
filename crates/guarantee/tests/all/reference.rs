//! The same where groups are compared with a reference group alone.

use fairstream_guarantee::{
    EProcess, ErrorControl, FairSet, Hypothesis, Interval, Outcome, Reference, TrialTotals,
};
use proptest::prelude::*;

use crate::evidence::{blocks, control, feed, growth, mean_e_value};
use crate::fair_set;

/// The group that others are compared with.
const REFERENCE: usize = 1;

fn hypothesis(fair: FairSet, control: ErrorControl, reference: Reference) -> Hypothesis {
    Hypothesis { reference, ..crate::evidence::hypothesis(fair, control) }
}

/// A block with trials of one group.
fn one(group: usize, totals: TrialTotals) -> Vec<TrialTotals> {
    let mut block = vec![TrialTotals::default(); 3];
    block[group] = totals;
    block
}

fn comparing() -> impl Strategy<Value = FairSet> {
    fair_set().prop_filter("an upper bound has no reference", |fair| !matches!(fair, FairSet::Highest(_)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// The expectation of the e-value after the next block, exactly: over every outcome of a block whose rates are fair
    /// beside that of the reference, it is at most the e-value before; also of a block without trials of the reference.
    #[test]
    fn no_e_value_grows_on_average(
        fair in comparing(), control in control(), blocks in blocks(), least in 0..20_u64,
        theta in prop::collection::vec(0.001..0.999_f64, 3), trials in prop::collection::vec(0..4_u64, 3),
    ) {
        let hypothesis = Hypothesis { min_trials: least, ..hypothesis(fair, control, Reference::Group(REFERENCE)) };
        let mut e_process = EProcess::default();
        blocks.iter().for_each(|block| feed(&mut e_process, &hypothesis, block));
        prop_assume!(trials.iter().sum::<u64>() > 0 && e_process.blocks() > 0);
        let before = e_process.log_e_value().exp();
        prop_assume!(before < 1e100);
        let theta = fair.project_to(&theta, &[1.0; 3], Some(REFERENCE));
        let mean = mean_e_value(&e_process, &hypothesis, &theta, &trials);
        prop_assert!(mean <= (before + growth(control)) * (1.0 + 1e-9), "{} after {}", mean, before);
    }

    /// Nothing is bet before the reference has enough trials.
    #[test]
    fn without_a_reference_there_is_no_evidence(
        fair in comparing(), blocks in blocks(), least in 0..30_u64,
    ) {
        let absent = hypothesis(fair, ErrorControl::Ever, Reference::Absent);
        let present = Hypothesis {
            min_trials: least, ..hypothesis(fair, ErrorControl::Ever, Reference::Group(REFERENCE))
        };
        let (mut without, mut with) = (EProcess::default(), EProcess::default());
        let mut trials = 0;
        for block in &blocks {
            feed(&mut without, &absent, block);
            feed(&mut with, &present, block);
            trials += block[REFERENCE].trials;
            prop_assert!(trials >= least.max(1) || with.log_e_value().abs() < 1e-12);
        }
        prop_assert!(without.log_e_value().abs() < 1e-12);
        prop_assert_eq!(without.result(&absent).gap, None);
        prop_assert_eq!(without.result(&absent).outcome, Outcome::NotYet { further: None });
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
            feed(&mut e_process, &hypothesis, &one(group, TrialTotals { trials: trials[group], sum }));
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
    }
}

/// Two groups that are far apart, but neither of them from the reference, are fair.
#[test]
fn only_the_reference_counts() {
    for (rates, expected) in [
        ([0.55, 0.5, 0.45], Outcome::Fair),
        ([0.5, 0.8, 0.55], Outcome::Unfair),
        ([0.5, 0.2, 0.2], Outcome::Unfair),
    ] {
        let hypothesis =
            hypothesis(FairSet::Difference(0.1), ErrorControl::Ever, Reference::Group(REFERENCE));
        let (mut random, mut e_process) = (crate::Random(5), EProcess::default());
        let mut taken = 0;
        let outcome = loop {
            for (group, rate) in rates.into_iter().enumerate() {
                let value = f64::from(u8::from(random.chance(rate)));
                e_process.count(&hypothesis, group, value, 0);
            }
            taken += 3;
            match e_process.result(&hypothesis).outcome {
                Outcome::NotYet { .. } => assert!(taken < 100_000, "{rates:?} is not settled"),
                outcome => break outcome,
            }
        };
        assert_eq!(outcome, expected, "{rates:?}");
    }
}
