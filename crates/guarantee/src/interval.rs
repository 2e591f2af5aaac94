//! Confidence sequences: intervals that hold at all times simultaneously.

use crate::TrialTotals;

/// A closed interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Confidence sequence for the rate of a group: it covers the rate at all times simultaneously with a probability of at
/// least 1 − `miscoverage`. What it covers is the average of the rates of all trials so far, so the rate may drift.
///
/// For any λ, the expectation of exp(λ · sum) / Π (1 + θ (e^λ − 1)) over the trials is at most 1, and so is that of its
/// mean over a fixed grid of λ. A rate θ is excluded if that mean is at least 2 / miscoverage, for positive λ or for
/// negative λ.
pub fn interval(totals: TrialTotals, miscoverage: f64) -> Interval {
    let trials = totals.trials as f64;
    if trials <= 0.0 || !(0.0..1.0).contains(&miscoverage) || miscoverage == 0.0 {
        return Interval { low: 0.0, high: 1.0 };
    }
    let sum = totals.sum.clamp(0.0, trials);
    Interval { low: least(trials, sum, miscoverage), high: 1.0 - least(trials, trials - sum, miscoverage) }
}

/// Size of the grid of λ, which goes from 4 down to 2⁻¹³: large values suit a handful of trials, small ones 10⁸ trials.
const LAMBDAS: usize = 16;

/// The lowest rate that is not excluded, by bisection.
fn least(trials: f64, sum: f64, miscoverage: f64) -> f64 {
    let lambdas: [(f64, f64); LAMBDAS] = std::array::from_fn(|step| {
        let lambda = 4.0 * 0.5_f64.powi(step as i32);
        (lambda, lambda.exp_m1())
    });
    // Threshold for the sum over the grid, in logarithms.
    let limit = (2.0 / miscoverage * LAMBDAS as f64).ln();
    let is_out = |rate: f64| {
        let logs = lambdas.map(|(lambda, power)| lambda * sum - trials * (rate * power).ln_1p());
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // Usually the largest term decides, and the log-sum-exp can be skipped.
        if most >= limit || most + (LAMBDAS as f64).ln() < limit {
            return most >= limit;
        }
        most + logs.iter().map(|log| (log - most).exp()).sum::<f64>().ln() >= limit
    };
    // The observed rate is never excluded, and evidence grows as the rate falls below it.
    let (mut out, mut inside) = (0.0, sum / trials);
    if !is_out(out) {
        return out;
    }
    // 30 bisections give a precision of 1e-9; `out` stays excluded, so the interval is conservative.
    for _ in 0..30 {
        let middle = out + (inside - out) / 2.0;
        if is_out(middle) {
            out = middle;
        } else {
            inside = middle;
        }
    }
    out
}
