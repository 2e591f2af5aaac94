//! Properties of the e-process for arbitrary counts.

use fairstream_guarantee::{Bet, Block, EProcess, ErrorControl, FairSet, Hypothesis, TrialTotals};
use proptest::prelude::*;

use crate::fair_set;

pub(crate) fn control() -> impl Strategy<Value = ErrorControl> {
    prop_oneof![Just(ErrorControl::Ever), (1..200_u64).prop_map(|memory| ErrorControl::Detector { memory })]
}

/// Blocks of three groups: trials and how many of them are positive.
pub(crate) fn blocks() -> impl Strategy<Value = Vec<Vec<TrialTotals>>> {
    let totals = (0..12_u64, 0.0..=1.0_f64)
        .prop_map(|(trials, part)| TrialTotals { trials, sum: (trials as f64 * part).round() });
    prop::collection::vec(prop::collection::vec(totals, 3), 1..25)
}

pub(crate) fn feed(e_process: &mut EProcess, block: &[TrialTotals]) {
    block.iter().enumerate().for_each(|(group, totals)| e_process.count(group, *totals));
}

type GroupBets = Vec<(usize, Bet)>;

/// The bets on the groups of a block, by group.
fn bets(block: &Block) -> GroupBets {
    block.groups.iter().map(|of_group| (of_group.group, of_group.bet)).collect()
}

pub(crate) fn hypothesis(fair: FairSet, control: ErrorControl) -> Hypothesis {
    Hypothesis { block: 1, ..Hypothesis::new(fair, control, 0.05) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// The expectation of the next factor, exactly: over every outcome of a block whose rates are fair it is at most 1.
    #[test]
    fn no_factor_is_above_one_on_average(
        fair in fair_set(), control in control(), blocks in blocks(),
        theta in prop::collection::vec(0.001..0.999_f64, 3), trials in prop::collection::vec(0..5_u64, 3),
    ) {
        let hypothesis = hypothesis(fair, control);
        let mut e_process = EProcess::default();
        for block in &blocks {
            feed(&mut e_process, block);
            e_process.close_block(&hypothesis);
        }
        let theta = fair.project(&theta, &[1.0; 3]);
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

    /// The same for values between 0 and 1, of which only the mean matters.
    #[test]
    fn numbers_are_no_worse_than_yes_and_no(
        fair in fair_set(), blocks in blocks(), theta in prop::collection::vec(0.001..0.999_f64, 2), spread in 0.0..=1.0_f64,
    ) {
        let hypothesis = hypothesis(fair, ErrorControl::Ever);
        let mut e_process = EProcess::default();
        for block in &blocks {
            feed(&mut e_process, &block[..2]);
            e_process.close_block(&hypothesis);
        }
        let theta = fair.project(&theta, &[1.0; 2]);
        // Each number is one of two around its mean, with equal chances.
        let value = |group: usize, sign: f64| {
            theta[group] + sign * spread * theta[group].min(1.0 - theta[group])
        };
        let mut mean = 0.0;
        for signs in [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]] {
            let mut e_process = e_process.clone();
            (0..2).for_each(|group| e_process.count(group, TrialTotals { trials: 1, sum: value(group, signs[group]) }));
            mean += e_process.close_block(&hypothesis).unwrap().log_factor.exp() / 4.0;
        }
        prop_assert!(mean <= 1.0 + 1e-9, "{}", mean);
    }

    /// A bet knows the past and how many trials a block has. Neither the block's outcomes nor anything later changes
    /// a bet, and nothing later changes the evidence.
    #[test]
    fn the_future_changes_nothing_in_the_past(
        fair in fair_set(), control in control(), blocks in blocks(), others in blocks(), at in 0..25_usize,
    ) {
        let at = at % blocks.len();
        let hypothesis = hypothesis(fair, control);
        let mut changed = blocks.clone();
        for (index, block) in changed.iter_mut().enumerate().skip(at) {
            let other = &others[index % others.len()];
            if index == at {
                // The same trials with other outcomes.
                block.iter_mut().zip(other).for_each(|(totals, other)| totals.sum = other.sum.min(totals.trials as f64));
            } else {
                block.clone_from(other);
            }
        }
        let run = |blocks: &[Vec<TrialTotals>]| {
            let mut e_process = EProcess::default();
            let cut = |block: &Vec<TrialTotals>| {
                feed(&mut e_process, block);
                e_process.close_block(&hypothesis).map(|block| (bets(&block), block.log_e_value))
            };
            blocks.iter().map(cut).collect::<Vec<Option<(GroupBets, f64)>>>()
        };
        let (one, other) = (run(&blocks), run(&changed));
        prop_assert_eq!(&one[..at], &other[..at]);
        let bets_at = |run: &[Option<(GroupBets, f64)>]| run[at].as_ref().map(|(bets, _)| bets.clone());
        prop_assert_eq!(bets_at(&one), bets_at(&other));
    }

    /// How a block is split into calls, and in which order, changes no bit of the result.
    #[test]
    fn counters_may_share_the_work(fair in fair_set(), control in control(), blocks in blocks(), seed in any::<u64>()) {
        let hypothesis = hypothesis(fair, control);
        let mut random = crate::Random(seed);
        let (mut whole, mut shared) = (EProcess::default(), EProcess::default());
        for block in &blocks {
            feed(&mut whole, block);
            // Three calls, each with some of the trials.
            let mut counters = [[TrialTotals::default(); 3]; 3];
            for (group, totals) in block.iter().enumerate() {
                for trial in 0..totals.trials {
                    let counter = &mut counters[(random.fraction() * 3.0) as usize][group];
                    counter.trials += 1;
                    counter.sum += if (trial as f64) < totals.sum { 1.0 } else { 0.0 };
                }
            }
            counters.iter().rev().for_each(|counter| feed(&mut shared, counter));
            prop_assert_eq!(whole.close_block(&hypothesis), shared.close_block(&hypothesis));
        }
        prop_assert_eq!(whole.log_e_value().to_bits(), shared.log_e_value().to_bits());
    }

    /// Groups with too few trials are not bet on, but their trials are counted.
    #[test]
    fn small_groups_are_left_alone(blocks in blocks(), least in 1..40_u64) {
        let hypothesis = Hypothesis { min_trials: least, ..hypothesis(FairSet::Difference(0.1), ErrorControl::Ever) };
        let mut e_process = EProcess::default();
        let mut counted = [0; 3];
        for block in &blocks {
            feed(&mut e_process, block);
            let Some(cut) = e_process.close_block(&hypothesis) else { continue };
            (0..3).for_each(|group| counted[group] += block[group].trials);
            for (group, bet) in bets(&cut) {
                prop_assert!(counted[group] >= least || bet.estimate == bet.fair);
            }
        }
        let known: Vec<u64> = e_process.totals().iter().map(|totals| totals.trials).collect();
        let all: Vec<u64> = (0..3).map(|group| blocks.iter().map(|block| block[group].trials).sum()).collect();
        prop_assert_eq!(known, all);
    }
}

fn binomial(trials: u64, positives: u64, rate: f64) -> f64 {
    let ways = (0..positives).fold(1.0, |ways, step| ways * (trials - step) as f64 / (step + 1) as f64);
    ways * rate.powi(positives as i32) * (1.0 - rate).powi((trials - positives) as i32)
}

#[test]
fn what_cannot_happen_in_a_fair_system_is_proof() {
    let hypothesis = hypothesis(FairSet::Highest(0.0), ErrorControl::Ever);
    let mut e_process = EProcess::default();
    for _ in 0..5 {
        e_process.count(0, TrialTotals { trials: 3, sum: 0.0 });
        e_process.close_block(&hypothesis);
    }
    assert!(e_process.log_e_value() < 0.0 && e_process.log_e_value().is_finite());
    e_process.count(0, TrialTotals { trials: 3, sum: 1.0 });
    e_process.close_block(&hypothesis);
    assert!(e_process.exceeds_threshold(&hypothesis));
    assert_eq!(e_process.result(&hypothesis).log_p_value, Some(f64::NEG_INFINITY));
}

/// E-values and p-values are kept as logarithms: 200,000 trials of a grossly unfair system overflow nothing.
#[test]
fn evidence_never_overflows() {
    let hypothesis = Hypothesis::new(FairSet::Difference(0.1), ErrorControl::Ever, 0.05);
    let mut e_process = EProcess::default();
    for _ in 0..10_000 {
        feed(&mut e_process, &[TrialTotals { trials: 10, sum: 10.0 }, TrialTotals { trials: 10, sum: 0.0 }]);
        e_process.close_block(&hypothesis);
    }
    let result = e_process.result(&hypothesis);
    assert!(result.log_e_value > 10_000.0 && result.log_e_value.is_finite(), "{}", result.log_e_value);
    assert_eq!(result.log_p_value, Some(-result.log_e_value));
}

#[test]
fn a_block_waits_until_it_has_enough_trials() {
    let hypothesis = Hypothesis::new(FairSet::Difference(0.1), ErrorControl::Ever, 0.05);
    let mut e_process = EProcess::default();
    e_process.count(0, TrialTotals { trials: 19, sum: 3.0 });
    assert!(e_process.close_block(&hypothesis).is_none());
    e_process.count(1, TrialTotals { trials: 4, sum: 1.0 });
    let block = e_process.close_block(&hypothesis).unwrap();
    let trials: Vec<u64> = block.groups.iter().map(|of_group| of_group.totals.trials).collect();
    assert_eq!((block.number, trials), (1, vec![19, 4]));
    assert!(e_process.close_block(&hypothesis).is_none());
}
