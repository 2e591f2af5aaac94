//! Simulations of fair systems: the guarantees hold. `cargo xtask reproduce guarantee` runs more of them.

use fairstream_guarantee::{EProcess, ErrorControl, FairSet, Hypothesis, TrialTotals};

use crate::Random;

/// Simulates two groups of equal size with these rates, and returns the log e-value after every block.
fn run(seed: u64, rates: [f64; 2], blocks: u64, hypothesis: &Hypothesis) -> Vec<f64> {
    let mut random = Random(seed);
    let mut e_process = EProcess::default();
    let mut evidence = Vec::new();
    while e_process.blocks() < blocks {
        let group = usize::from(random.chance(0.5));
        let sum = if random.chance(rates[group]) { 1.0 } else { 0.0 };
        e_process.count(group, TrialTotals { trials: 1, sum });
        evidence.extend(e_process.close_block(hypothesis).map(|block| block.log_e_value));
    }
    evidence
}

/// The mean e-value over runs of a fair system at the boundary of the fair set is at most 1.
#[test]
fn evidence_against_a_fair_system_does_not_grow() {
    let hypothesis = Hypothesis::new(FairSet::Difference(0.1), ErrorControl::Ever, 0.05);
    for blocks in [5, 25, 100] {
        const RUNS: u64 = 3000;
        let ends: Vec<f64> = (0..RUNS)
            .map(|seed| run(seed, [0.5, 0.4], blocks, &hypothesis)[blocks as usize - 1].exp())
            .collect();
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
    let hypothesis = Hypothesis::new(FairSet::Difference(0.1), ErrorControl::Detector { memory: 500 }, LEVEL);
    let runs = 200;
    let mut waited = 0.0;
    for seed in 0..runs {
        let evidence = run(seed, [0.5, 0.4], BLOCKS, &hypothesis);
        let first = evidence.iter().position(|log| *log >= hypothesis.log_threshold());
        waited += first.map_or(BLOCKS, |block| block as u64 + 1) as f64;
    }
    assert!(waited / f64::from(runs as u32) >= 1.0 / LEVEL, "{waited} blocks in {runs} runs");
}

/// A detector notices a system that was fair for long and then is not.
#[test]
fn a_detector_notices_what_changes() {
    let alarm_after = |control: ErrorControl| {
        let hypothesis = Hypothesis::new(FairSet::Difference(0.1), control, 0.001);
        let mut random = Random(7);
        let mut e_process = EProcess::default();
        (0..60_000).find(|trial| {
            let group = usize::from(random.chance(0.5));
            let rate = if *trial >= 30_000 && group == 1 { 0.2 } else { 0.5 };
            let sum = if random.chance(rate) { 1.0 } else { 0.0 };
            e_process.count(group, TrialTotals { trials: 1, sum });
            e_process.close_block(&hypothesis).is_some() && e_process.exceeds_threshold(&hypothesis)
        })
    };
    let forgetful = alarm_after(ErrorControl::Detector { memory: 1000 }).unwrap();
    assert!((30_000..32_000).contains(&forgetful), "{forgetful}");
    let mindful = alarm_after(ErrorControl::Detector { memory: 1_000_000_000 });
    assert!(mindful.is_none_or(|at| at > 40_000), "{mindful:?}");
}
