//! Simulations of fair systems: the guarantees hold. `cargo xtask reproduce guarantee` runs more of them.

use fairstream_guarantee::{EProcess, ErrorControl, FairSet, Hypothesis, Outcome, StepUnit};

use crate::Random;

/// Simulates two groups of equal size, and asks after every block.
fn run<T>(
    seed: u64,
    trials: u64,
    hypothesis: &Hypothesis,
    rates: impl Fn(u64) -> [f64; 2],
    mut ask: impl FnMut(u64, &mut EProcess) -> Option<T>,
) -> Option<T> {
    let mut random = Random(seed);
    let mut e_process = EProcess::default();
    (0..trials).find_map(|trial| {
        let group = usize::from(random.chance(0.5));
        let value = f64::from(u8::from(random.chance(rates(trial)[group])));
        e_process.count(hypothesis, group, value, 0);
        if e_process.look() { ask(trial, &mut e_process) } else { None }
    })
}

fn alarm(hypothesis: &Hypothesis) -> impl FnMut(u64, &mut EProcess) -> Option<u64> {
    move |trial, e_process| e_process.exceeds_threshold(hypothesis).then_some(trial)
}

fn difference(control: ErrorControl, level: f64) -> Hypothesis {
    Hypothesis::new(FairSet::Difference(0.1), control, level)
}

/// The mean e-value over runs of a fair system at the boundary of the fair set is at most 1.
#[test]
fn evidence_against_a_fair_system_does_not_grow() {
    let hypothesis = difference(ErrorControl::Ever, 0.05);
    for blocks in [5, 25, 100] {
        const RUNS: u64 = 3000;
        let end = |_, e_process: &mut EProcess| {
            (e_process.blocks() == blocks).then(|| e_process.log_e_value().exp())
        };
        let ends: Vec<f64> =
            (0..RUNS).filter_map(|seed| run(seed, 8 * blocks, &hypothesis, |_| [0.5, 0.4], end)).collect();
        let mean = ends.iter().sum::<f64>() / RUNS as f64;
        let variance = ends.iter().map(|end| (end - mean).powi(2)).sum::<f64>() / RUNS as f64;
        let error = (variance / RUNS as f64).sqrt();
        assert!(mean <= 1.0 + 3.0 * error, "{mean} after {blocks} blocks, with an error of {error}");
        assert!(mean > 0.2, "{mean}: a test that bets nothing keeps every promise");
    }
}

/// The first false alarm of a detector comes after 1 / level blocks or later, on average.
#[test]
fn a_detector_waits_as_long_as_it_promised() {
    const LEVEL: f64 = 0.02;
    const BLOCKS: u64 = 1000;
    let hypothesis = difference(ErrorControl::Detector { step: StepUnit::Block, memory: None }, LEVEL);
    let runs = 100;
    let mut waited = 0.0;
    for seed in 0..runs {
        let first = run(seed, 20 * BLOCKS, &hypothesis, |_| [0.5, 0.4], alarm(&hypothesis));
        waited += first.unwrap_or(20 * BLOCKS) as f64 / 20.0;
    }
    assert!(waited / runs as f64 >= 1.0 / LEVEL, "{waited} blocks in {runs} runs");
}

/// A system that was fair for long and then is not is noticed, by a detector and by a guarantee for ever.
#[test]
fn what_changes_late_is_noticed() {
    let rates = |trial: u64| if trial < 30_000 { [0.5, 0.5] } else { [0.5, 0.2] };
    let detector = ErrorControl::Detector { step: StepUnit::Block, memory: None };
    // For ever, a learner that begins with trial 40,960 is the first one that has seen nothing else.
    for (control, level, last) in [(detector, 0.0001, 31_500), (ErrorControl::Ever, 0.05, 41_500)] {
        let hypothesis = difference(control, level);
        let found = run(7, 60_000, &hypothesis, rates, alarm(&hypothesis)).unwrap();
        assert!((30_000..last).contains(&found), "{control:?}: {found}");
    }
}

/// A system that is unfair at every instant is hardly ever called fair, whatever follows the time: here the base rate and
/// the mix of groups both do, so that the rates over all time are equal. A fair one is called fair under the same pattern.
#[test]
fn fair_means_fair_at_every_instant() {
    const RUNS: u64 = 100;
    let hypothesis = difference(ErrorControl::Ever, 0.05);
    let called_fair = |gap: f64| {
        let run = |seed: u64| {
            let (mut random, mut e_process) = (Random(seed), EProcess::default());
            (0..8000_u64).any(|trial| {
                let phase = (trial as f64 / 800.0 * std::f64::consts::TAU).sin();
                let group = usize::from(random.chance(0.5 + 0.2 * phase));
                let sign = if group == 0 { 1.0 } else { -1.0 };
                let rate = 0.5 + 0.2 * phase + sign * gap / 2.0;
                let value = f64::from(u8::from(random.chance(rate)));
                e_process.count(&hypothesis, group, value, 0);
                trial % 80 == 0 && e_process.result(&hypothesis).outcome == Outcome::Fair
            })
        };
        (0..RUNS).filter(|seed| run(*seed)).count()
    };
    assert!(called_fair(0.12) <= 2);
    assert!(called_fair(0.0) >= 95);
}

/// An alarm of a detector ends when the groups are treated fairly again, and not before.
#[test]
fn an_alarm_ends_on_evidence() {
    let hypothesis = difference(ErrorControl::Detector { step: StepUnit::Block, memory: None }, 0.0002);
    let until_recovered = |again: u64, trials: u64| {
        let rates = move |trial| if trial < again { [0.5, 0.35] } else { [0.5, 0.5] };
        let mut stands = false;
        run(11, trials, &hypothesis, rates, |trial, e_process| {
            if !stands && e_process.exceeds_threshold(&hypothesis) {
                stands = true;
                e_process.await_recovery(e_process.leading(&hypothesis, &[0, 1]).unwrap().groups);
            }
            (stands && e_process.has_recovered()).then_some(trial)
        })
    };
    assert_eq!(until_recovered(100_000, 100_000), None, "it never ended being unfair");
    let ended = until_recovered(50_000, 100_000).unwrap();
    assert!((50_000..54_000).contains(&ended), "{ended}");
}
