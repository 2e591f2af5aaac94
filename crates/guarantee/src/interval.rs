//! Intervals that hold at all times at once.

use crate::TrialTotals;

/// From here to there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// At least.
    pub low: f64,
    /// At most.
    pub high: f64,
}

/// Where the rate of a group is, with a confidence of 1 − `miscoverage`, at all times at once: a confidence sequence. What it
/// covers is the average of the rates that the trials so far were drawn with, so rates may drift.
///
/// For any λ, exp(λ · sum) / Π (1 + θ (e^λ − 1)) over the trials is not above 1 on average, and neither is the mean of
/// it over some λ that were chosen beforehand. A rate θ is left out if that mean is 2 / miscoverage or more, for positive λ
/// or for negative ones.
pub fn interval(totals: TrialTotals, miscoverage: f64) -> Interval {
    let trials = totals.trials as f64;
    if trials <= 0.0 || !(0.0..1.0).contains(&miscoverage) || miscoverage == 0.0 {
        return Interval { low: 0.0, high: 1.0 };
    }
    let sum = totals.sum.clamp(0.0, trials);
    Interval { low: least(trials, sum, miscoverage), high: 1.0 - least(trials, trials - sum, miscoverage) }
}

/// From 4 down to 2⁻¹³: from what a handful of trials is best weighed with to what a hundred million are.
const LAMBDAS: usize = 16;

/// The least rate that is not left out.
fn least(trials: f64, sum: f64, miscoverage: f64) -> f64 {
    let lambdas: [(f64, f64); LAMBDAS] = std::array::from_fn(|step| {
        let lambda = 4.0 * 0.5_f64.powi(step as i32);
        (lambda, lambda.exp_m1())
    });
    // What the mean has to reach, as a sum.
    let limit = (2.0 / miscoverage * LAMBDAS as f64).ln();
    let is_out = |rate: f64| {
        let logs = lambdas.map(|(lambda, power)| lambda * sum - trials * (rate * power).ln_1p());
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // Often one of them is enough, or all of them together are not.
        if most >= limit || most + (LAMBDAS as f64).ln() < limit {
            return most >= limit;
        }
        most + logs.iter().map(|log| (log - most).exp()).sum::<f64>().ln() >= limit
    };
    // The rate that was seen is never left out, and the evidence against a lower one only grows.
    let (mut out, mut inside) = (0.0, sum / trials);
    if !is_out(out) {
        return out;
    }
    // To a billionth, on the safe side.
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
