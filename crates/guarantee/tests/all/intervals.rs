//! Intervals hold at all times simultaneously, and the outcome claims no more than they do.

use fairstream_guarantee::{
    EProcess, ErrorControl, FairSet, Hypothesis, Outcome, TrialTotals, alpha_share, interval,
};
use proptest::prelude::*;

use crate::Random;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_interval_holds_what_was_seen_and_less_doubt_makes_it_wider(
        trials in 0..100_000_u64, part in 0.0..=1.0_f64, miscoverage in 0.0001..0.5_f64,
    ) {
        let totals = TrialTotals { trials, sum: (trials as f64 * part).round() };
        let (narrow, wide) = (interval(totals, miscoverage), interval(totals, miscoverage / 2.0));
        prop_assert!(0.0 <= wide.low && wide.low <= narrow.low && narrow.high <= wide.high && wide.high <= 1.0);
        if trials > 0 {
            let seen = totals.sum / trials as f64;
            prop_assert!(narrow.low <= seen + 1e-12 && seen <= narrow.high + 1e-12);
        }
    }
}

/// Under continuous monitoring, the rate leaves its interval in few runs, even if it drifts.
#[test]
fn the_rate_is_hardly_ever_outside() {
    const RUNS: u64 = 300;
    const DOUBT: f64 = 0.1;
    for (name, rate) in [
        ("half", (|_| 0.5) as fn(u64) -> f64),
        ("rare", |_| 0.02),
        ("drifting", |trial| if trial % 400 < 200 { 0.9 } else { 0.1 }),
    ] {
        let mut outside = 0;
        for run in 0..RUNS {
            let mut random = Random(run);
            let (mut totals, mut expected) = (TrialTotals::default(), 0.0);
            let was_out = (0..1200).any(|trial| {
                totals.trials += 1;
                totals.sum += if random.chance(rate(trial)) { 1.0 } else { 0.0 };
                expected += rate(trial);
                let mean = expected / totals.trials as f64;
                // Checking often approximates checking always, and takes less time.
                trial % 10 == 0 && {
                    let interval = interval(totals, DOUBT);
                    mean < interval.low || mean > interval.high
                }
            });
            outside += u64::from(was_out);
        }
        assert!(outside as f64 <= DOUBT * RUNS as f64, "{name}: outside in {outside} of {RUNS} runs");
    }
}

#[test]
fn shares_add_up_to_one() {
    let sum: f64 = (0..100_000).map(alpha_share).sum();
    assert!(sum < 1.0 && sum > 0.9999);
}

/// The estimated number of further trials is correct within a factor of 3 in most runs if rates stay as they are.
#[test]
fn so_many_more_trials_settle_it() {
    for (rates, first, expected) in [([0.5, 0.2], 160, Outcome::Unfair), ([0.5, 0.49], 400, Outcome::Fair)] {
        let hypothesis = Hypothesis::new(FairSet::Difference(0.1), ErrorControl::Ever, 0.05);
        let (mut told, mut right) = (0, 0);
        for seed in 0..40 {
            let (mut e_process, mut random) = (EProcess::default(), Random(seed));
            let mut count = |e_process: &mut EProcess, trials: u64| {
                for _ in 0..trials {
                    let group = usize::from(random.chance(0.5));
                    e_process.count(&hypothesis, group, f64::from(u8::from(random.chance(rates[group]))), 0);
                }
            };
            count(&mut e_process, first);
            let outcome = e_process.result(&hypothesis).outcome;
            let Outcome::NotYet { further: Some(further) } = outcome else { continue };
            let mut taken = 0;
            while e_process.result(&hypothesis).outcome != expected && taken < 100_000 {
                count(&mut e_process, 8);
                taken += 8;
            }
            told += 1;
            right += u32::from((taken / 3..=taken * 3).contains(&further));
        }
        assert!(told >= 20 && right * 4 >= told * 3, "{rates:?}: {right} of {told}");
    }
}

/// Within a standard error of the tolerance, the number of further trials is not estimable.
#[test]
fn nothing_is_foretold_near_the_tolerance() {
    let hypothesis = Hypothesis::new(FairSet::Difference(0.1), ErrorControl::Ever, 0.05);
    let mut e_process = EProcess::default();
    for trial in 0..2000_u64 {
        let (group, number) = (trial % 2, trial / 2 % 10);
        e_process.count(&hypothesis, group as usize, f64::from(u8::from(number < 5 - group)), 0);
    }
    assert_eq!(e_process.result(&hypothesis).outcome, Outcome::NotYet { further: None });
}
