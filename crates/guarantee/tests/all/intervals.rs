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

    /// The outcome is never fair while the interval reaches beyond the tolerance.
    #[test]
    fn fair_means_that_the_interval_is_fair(
        trials in prop::collection::vec(0..20_000_u64, 3), rates in prop::collection::vec(0.2..0.4_f64, 3), most in 0.01..0.3_f64,
    ) {
        let hypothesis = Hypothesis::new(FairSet::Difference(most), ErrorControl::Ever, 0.05);
        let mut e_process = EProcess::default();
        for group in 0..3 {
            let sum = (trials[group] as f64 * rates[group]).round();
            e_process.count(group, TrialTotals { trials: trials[group], sum });
        }
        let result = e_process.result(&hypothesis);
        let compared = (0..3).filter(|group| trials[*group] > 0);
        let high = compared.clone().map(|group| result.groups[group].high).fold(0.0, f64::max);
        let low = compared.clone().map(|group| result.groups[group].low).fold(1.0, f64::min);
        let is_fair = compared.count() > 1 && high - low <= most;
        prop_assert_eq!(result.outcome == Outcome::Fair, is_fair);
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

/// The estimated number of further trials is correct within a factor of 3 if rates stay as they are.
#[test]
fn so_many_more_trials_settle_it() {
    for (rates, expected) in [([0.5, 0.2], Outcome::Unfair), ([0.5, 0.49], Outcome::Fair)] {
        let hypothesis = Hypothesis::new(FairSet::Difference(0.1), ErrorControl::Ever, 0.05);
        let mut e_process = EProcess::default();
        let step = |e_process: &mut EProcess| {
            rates.iter().enumerate().for_each(|(group, rate)| {
                e_process.count(group, TrialTotals { trials: 10, sum: 10.0 * rate });
            });
            e_process.close_block(&hypothesis);
        };
        (0..4).for_each(|_| step(&mut e_process));
        let Outcome::NotYet { further: Some(further) } = e_process.result(&hypothesis).outcome else {
            panic!("{:?}", e_process.result(&hypothesis));
        };
        let mut taken = 0;
        while e_process.result(&hypothesis).outcome != expected {
            step(&mut e_process);
            taken += 20;
            assert!(taken < 100_000, "{rates:?} is not settled");
        }
        assert!((taken / 3..=taken * 3).contains(&further), "{rates:?}: {further} foretold, {taken} taken");
    }
}
