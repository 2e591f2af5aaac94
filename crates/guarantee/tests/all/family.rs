//! Families: compared with the definitions, and simulated.

use fairstream_guarantee::{Contenders, Family, FamilyBound, alpha_share, log_average};
use proptest::prelude::*;

use crate::Random;

const LEVEL: f64 = 0.1;

/// Which of these are rejected, by the definition: the largest set in which each has enough evidence, given the others and
/// those that were rejected before.
fn by_definition(bound: FamilyBound, shares: &[f64], logs: &[f64], before: &[bool]) -> Vec<bool> {
    let mut best = before.to_vec();
    for set in 0_u32..1 << shares.len() {
        let is_in = |index: usize| before[index] || set >> index & 1 == 1;
        let count = (0..shares.len()).filter(|index| is_in(*index)).count();
        let is_enough = |index: usize| {
            let needed = match bound {
                FamilyBound::FalseDiscoveries => 1.0 / (LEVEL * shares[index] * count as f64),
                FamilyBound::FalseAlarms => 1.0 / LEVEL,
            };
            logs[index] > needed.max(1.0 / LEVEL).ln() + 1e-9
        };
        let is_consistent = (0..shares.len()).all(|index| before[index] || !is_in(index) || is_enough(index));
        // Of false alarms: there is an order in which each has enough, given those before it.
        let is_reached = bound == FamilyBound::FalseDiscoveries || {
            let mut reached = before.to_vec();
            for _ in 0..shares.len() {
                let gone: f64 =
                    (0..shares.len()).filter(|index| reached[*index]).map(|index| shares[index]).sum();
                for index in (0..shares.len()).filter(|index| is_in(*index)) {
                    reached[index] |= logs[index] > ((1.0 - gone) / (LEVEL * shares[index])).ln() + 1e-9;
                }
            }
            (0..shares.len()).all(|index| reached[index] || !is_in(index))
        };
        if is_consistent && is_reached && count > best.iter().filter(|is_in| **is_in).count() {
            best = (0..shares.len()).map(is_in).collect();
        }
    }
    best
}

fn bounds() -> impl Strategy<Value = FamilyBound> {
    prop_oneof![Just(FamilyBound::FalseAlarms), Just(FamilyBound::FalseDiscoveries)]
}

proptest! {
    /// Whatever the e-values do, those that are rejected are the ones that should be.
    #[test]
    fn rejects_by_the_definition(
        bound in bounds(),
        is_even in any::<bool>(),
        steps in prop::collection::vec(prop::collection::vec((0..6_usize, -3.0..9.0_f64), 1..4), 1..8),
    ) {
        let shares: Vec<f64> = (0..6).map(|index| if is_even { 1.0 / 6.0 } else { alpha_share(index) }).collect();
        let (mut family, mut contenders) = (Family::new(bound, LEVEL), Contenders::default());
        let (mut rejected, mut logs) = (vec![false; 6], vec![0.0; 6]);
        for step in steps {
            for (number, log) in step {
                if !rejected[number] {
                    logs[number] = log;
                    family.compare(&mut contenders, number, shares[number], log);
                }
            }
            let expected = by_definition(bound, &shares, &logs, &rejected);
            for number in family.reject(&mut contenders) {
                prop_assert!(!std::mem::replace(&mut rejected[number], true));
            }
            prop_assert_eq!(&rejected, &expected);
            // The threshold that is shown is one that the evidence exceeds.
            for index in 0..6 {
                let threshold = family.log_threshold(shares[index], rejected[index]);
                prop_assert!(threshold >= -LEVEL.ln() - 1e-12);
                if !rejected[index] {
                    prop_assert!(logs[index] <= threshold + 2e-9, "{} of {}", logs[index], threshold);
                }
            }
        }
    }

    /// The average is that of the e-values, with 1 for the rest.
    #[test]
    fn an_average_in_logarithms(logs in prop::collection::vec(-20.0..20.0_f64, 0..6)) {
        let pairs = logs.iter().enumerate().map(|(index, log)| (*log, alpha_share(index as u64)));
        let sum: f64 = pairs.clone().map(|(log, share)| share * log.exp()).sum();
        let whole = sum + 1.0 / (logs.len() as f64 + 1.0);
        prop_assert!((log_average(pairs) - whole.ln()).abs() < 1e-9);
    }
}

/// A family of coins of which the first `fair` are fair. Returns, at the end of a run, how many fair and how many unfair
/// ones were rejected; or when the first fair one was, if asked to stop there.
fn coins(bound: FamilyBound, seed: u64, fair: usize, stops: bool) -> (u64, u64) {
    const COINS: usize = 20;
    let mut random = Random(seed);
    let (mut family, mut contenders) = (Family::new(bound, LEVEL), Contenders::default());
    let (mut logs, mut rejected) = ([0.0_f64; COINS], [false; COINS]);
    for _ in 0..60 {
        for (number, log) in logs.iter_mut().enumerate() {
            // The likelihood ratio of 0.7 and 0.5.
            *log += if random.chance(if number < fair { 0.5 } else { 0.7 }) { 1.4_f64 } else { 0.6 }.ln();
            if !rejected[number] {
                family.compare(&mut contenders, number, 1.0 / COINS as f64, *log);
            }
        }
        family.reject(&mut contenders).into_iter().for_each(|number| rejected[number] = true);
        if stops && rejected[..fair].contains(&true) {
            break;
        }
    }
    let count = |coins: &[bool]| coins.iter().filter(|is_rejected| **is_rejected).count() as u64;
    (count(&rejected[..fair]), count(&rejected[fair..]))
}

/// Both bounds hold, and that on discoveries finds more. Stopping at the worst moment changes nothing.
#[test]
fn bounds_hold_in_simulation() {
    const RUNS: u64 = 2000;
    let mut found = Vec::new();
    for bound in [FamilyBound::FalseAlarms, FamilyBound::FalseDiscoveries] {
        let (mut wrong, mut right) = (0.0, 0);
        for seed in 0..RUNS {
            let (false_ones, true_ones) = coins(bound, seed, 10, bound == FamilyBound::FalseDiscoveries);
            wrong += match bound {
                FamilyBound::FalseAlarms => f64::from(u8::from(false_ones > 0)),
                FamilyBound::FalseDiscoveries => false_ones as f64 / (false_ones + true_ones).max(1) as f64,
            };
            right += coins(bound, seed, 10, false).1;
        }
        // The seeds are fixed. Half of the coins are fair, so that at most half of the level can be used up; 3 standard
        // errors above the level are never reached.
        assert!(wrong / RUNS as f64 <= LEVEL, "{bound:?}: {wrong} of {RUNS}");
        found.push(right as f64 / RUNS as f64);
    }
    assert!(found[1] > found[0] * 1.1, "found {found:?}");
    // With nothing but fair coins both are a bound on the probability of any rejection.
    let any = (0..RUNS).filter(|seed| coins(FamilyBound::FalseDiscoveries, *seed, 20, false).0 > 0).count();
    assert!(any as f64 / RUNS as f64 <= LEVEL, "{any}");
}
