//! Properties of the e-process for arbitrary trials.

use fairstream_guarantee::{EProcess, ErrorControl, FairSet, Hypothesis, Outcome, StepUnit, TrialTotals};
use proptest::prelude::*;

use crate::{binomial, fair_set};

pub(crate) fn control() -> impl Strategy<Value = ErrorControl> {
    let memory = prop_oneof![Just(None), (1..200_u64).prop_map(Some)];
    prop_oneof![
        Just(ErrorControl::Ever),
        memory.prop_map(|memory| ErrorControl::Detector { step: StepUnit::Block, memory })
    ]
}

/// Blocks of three groups: trials and how many of them are positive.
pub(crate) fn blocks() -> impl Strategy<Value = Vec<Vec<TrialTotals>>> {
    let totals = (0..6_u64, 0.0..=1.0_f64)
        .prop_map(|(trials, part)| TrialTotals { trials, sum: (trials as f64 * part).round() });
    prop::collection::vec(prop::collection::vec(totals, 3), 1..40)
}

/// Counts the trials of a block, group by group, the positive ones first. The block ends with them.
pub(crate) fn feed(e_process: &mut EProcess, hypothesis: &Hypothesis, block: &[TrialTotals]) {
    let all = block.iter().map(|totals| totals.trials).sum();
    let hypothesis = Hypothesis { block: all, ..*hypothesis };
    for (group, totals) in block.iter().enumerate() {
        for trial in 0..totals.trials {
            e_process.count(&hypothesis, group, if (trial as f64) < totals.sum { 1.0 } else { 0.0 }, 0);
        }
    }
}

pub(crate) fn hypothesis(fair: FairSet, control: ErrorControl) -> Hypothesis {
    Hypothesis::new(fair, control, 0.05)
}

/// The mean of the e-value after one more block, over every outcome of trials with these rates.
pub(crate) fn mean_e_value(
    e_process: &EProcess,
    hypothesis: &Hypothesis,
    theta: &[f64],
    trials: &[u64],
) -> f64 {
    let mut mean = 0.0;
    for first in 0..=trials[0] {
        for second in 0..=trials[1] {
            for third in 0..=trials[2] {
                let positives = [first, second, third];
                let chance: f64 =
                    (0..3).map(|group| binomial(trials[group], positives[group], theta[group])).product();
                let of = |group: usize| TrialTotals { trials: trials[group], sum: positives[group] as f64 };
                let mut e_process = e_process.clone();
                feed(&mut e_process, hypothesis, &[of(0), of(1), of(2)]);
                mean += if chance > 0.0 { chance * e_process.log_e_value().exp() } else { 0.0 };
            }
        }
    }
    mean
}

/// By how much the e-value of a fair system may grow in a block, on average: that of a detector by 1.
pub(crate) fn growth(control: ErrorControl) -> f64 {
    if control == ErrorControl::Ever { 0.0 } else { 1.0 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// The expectation of the e-value after the next block, exactly: over every outcome of a block whose rates are fair it
    /// is at most the e-value before; for a detector, at most 1 more.
    #[test]
    fn no_e_value_grows_on_average(
        fair in fair_set(), control in control(), blocks in blocks(), least in 0..10_u64,
        theta in prop::collection::vec(0.001..0.999_f64, 3), trials in prop::collection::vec(0..4_u64, 3),
    ) {
        let hypothesis = Hypothesis { min_trials: least, ..hypothesis(fair, control) };
        let mut e_process = EProcess::default();
        blocks.iter().for_each(|block| feed(&mut e_process, &hypothesis, block));
        let theta = fair.project(&theta, &[1.0; 3]);
        prop_assume!(trials.iter().sum::<u64>() > 0);
        let before = if e_process.blocks() == 0 && control != ErrorControl::Ever { 0.0 } else { e_process.log_e_value().exp() };
        prop_assume!(before < 1e100);
        let mean = mean_e_value(&e_process, &hypothesis, &theta, &trials);
        let most = before + growth(control);
        prop_assert!(mean <= most * (1.0 + 1e-9), "{} after {}", mean, before);
    }

    /// The same for values between 0 and 1, of which only the mean matters.
    #[test]
    fn numbers_are_no_worse_than_yes_and_no(
        fair in fair_set(), blocks in blocks(), theta in prop::collection::vec(0.001..0.999_f64, 2), spread in 0.0..=1.0_f64,
    ) {
        let hypothesis = hypothesis(fair, ErrorControl::Ever);
        let mut e_process = EProcess::default();
        blocks.iter().for_each(|block| feed(&mut e_process, &hypothesis, &block[..2]));
        let before = e_process.log_e_value().exp();
        prop_assume!(before < 1e100);
        let theta = fair.project(&theta, &[1.0; 2]);
        // Each number is one of two around its mean, with equal chances.
        let value = |group: usize, sign: f64| {
            theta[group] + sign * spread * theta[group].min(1.0 - theta[group])
        };
        let mut mean = 0.0;
        for signs in [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]] {
            let (mut e_process, hypothesis) = (e_process.clone(), Hypothesis { block: 2, ..hypothesis });
            (0..2).for_each(|group| { e_process.count(&hypothesis, group, value(group, signs[group]), 0); });
            mean += e_process.log_e_value().exp() / 4.0;
        }
        prop_assert!(mean <= before * (1.0 + 1e-9), "{} after {}", mean, before);
    }

    /// Neither the order of trials within a block nor the looks change the evidence; nor does what comes later.
    #[test]
    fn only_blocks_matter(fair in fair_set(), control in control(), blocks in blocks(), seed in any::<u64>()) {
        let hypothesis = hypothesis(fair, control);
        let mut random = crate::Random(seed);
        let (mut ordered, mut shuffled) = (EProcess::default(), EProcess::default());
        for block in &blocks {
            feed(&mut ordered, &hypothesis, block);
            let mut trials: Vec<(usize, f64)> = Vec::new();
            for (group, totals) in block.iter().enumerate() {
                trials.extend((0..totals.trials).map(|trial| (group, if (trial as f64) < totals.sum { 1.0 } else { 0.0 })));
            }
            let whole = Hypothesis { block: trials.len() as u64, ..hypothesis };
            while !trials.is_empty() {
                let (group, value) = trials.swap_remove((random.fraction() * trials.len() as f64) as usize);
                shuffled.count(&whole, group, value, 0);
                if random.chance(0.3) {
                    shuffled.look();
                }
            }
            let (one, other) = (ordered.log_e_value(), shuffled.log_e_value());
            prop_assert!(one == other || (one - other).abs() <= 1e-9 * one.abs().max(1.0), "{} and {}", one, other);
        }
        prop_assert_eq!(ordered.blocks(), shuffled.blocks());
        let sorted = |e_process: &EProcess| {
            let mut totals: Vec<(u64, u64)> = e_process.totals().iter().map(|of| (of.trials, of.sum as u64)).collect();
            totals.sort_unstable();
            totals.retain(|totals| totals.0 > 0);
            totals
        };
        prop_assert_eq!(sorted(&ordered), sorted(&shuffled));
    }

    /// Blocks have so many trials; or fewer, if they last too long and have two groups.
    #[test]
    fn blocks_are_cut_by_number_and_by_time(
        trials in prop::collection::vec((0..3_usize, 0..20_i64), 1..100), block in 2..10_u64, span in 0..60_i64,
    ) {
        let hypothesis = Hypothesis {
            block, span: Some(span), ..hypothesis(FairSet::Difference(0.1), ErrorControl::Ever)
        };
        let (mut e_process, mut time) = (EProcess::default(), 0);
        let mut cut: Vec<Vec<(usize, i64)>> = vec![Vec::new()];
        for (group, later) in trials {
            time += later;
            let last = cut.last().unwrap();
            let groups = last.iter().filter(|(other, _)| *other != last[0].0).count();
            let is_late = last.first().is_some_and(|(_, began)| time - began > span) && groups > 0;
            if last.len() as u64 == block || is_late {
                cut.push(Vec::new());
            }
            cut.last_mut().unwrap().push((group, time));
            prop_assert_eq!(e_process.count(&hypothesis, group, 1.0, time), cut.len() as u64);
        }
    }

    /// A state that is written and read back goes on like the one that was not.
    #[test]
    fn a_state_can_be_saved(fair in fair_set(), control in control(), blocks in blocks()) {
        let hypothesis = hypothesis(fair, control);
        let mut whole = EProcess::default();
        let mut saved = EProcess::default();
        for block in &blocks {
            feed(&mut whole, &hypothesis, block);
            feed(&mut saved, &hypothesis, block);
            saved = serde_json::from_str(&serde_json::to_string(&saved).unwrap()).unwrap();
            prop_assert!(saved.is_valid(saved.totals().len()));
            prop_assert_eq!(whole.log_e_value().to_bits(), saved.log_e_value().to_bits());
        }
    }
}

#[test]
fn what_cannot_happen_in_a_fair_system_is_proof() {
    let hypothesis = hypothesis(FairSet::Highest(0.0), ErrorControl::Ever);
    let mut e_process = EProcess::default();
    let block =
        |e_process: &mut EProcess, sum| feed(e_process, &hypothesis, &[TrialTotals { trials: 3, sum }]);
    (0..5).for_each(|_| block(&mut e_process, 0.0));
    assert!(e_process.log_e_value() < 1e-12 && e_process.log_e_value().is_finite());
    // The first one is a surprise, and makes the second one a bet that is won.
    (0..2).for_each(|_| block(&mut e_process, 1.0));
    e_process.look();
    assert!(e_process.exceeds_threshold(&hypothesis));
    assert_eq!(e_process.result(&hypothesis).log_p_value, Some(f64::NEG_INFINITY));
}

/// E-values and p-values are kept as logarithms: 200,000 trials of a grossly unfair system overflow nothing.
#[test]
fn evidence_never_overflows() {
    let hypothesis = hypothesis(FairSet::Difference(0.1), ErrorControl::Ever);
    let mut e_process = EProcess::default();
    for trial in 0..200_000 {
        e_process.count(&hypothesis, trial % 2, (trial % 2) as f64, 0);
    }
    e_process.look();
    let result = e_process.result(&hypothesis);
    assert!(result.log_e_value > 10_000.0 && result.log_e_value.is_finite(), "{}", result.log_e_value);
    assert_eq!(result.log_p_value, Some(-result.log_e_value));
    assert_eq!(result.outcome, Outcome::Unfair);
}

/// A p-value is of what was looked at.
#[test]
fn an_e_value_between_two_looks_does_not_count() {
    let hypothesis = hypothesis(FairSet::Difference(0.1), ErrorControl::Ever);
    let mut e_process = EProcess::default();
    let count = |e_process: &mut EProcess, from: usize, positives: fn(usize) -> f64| {
        (from..from + 400).for_each(|trial| {
            e_process.count(&hypothesis, trial % 2, positives(trial), 0);
        });
    };
    count(&mut e_process, 0, |trial| (trial % 2) as f64);
    let high = e_process.log_e_value();
    count(&mut e_process, 400, |trial| ((trial + 1) % 2) as f64);
    e_process.look();
    assert!(e_process.log_maximum() < high);
    assert!(!e_process.look(), "nothing is new");
}
