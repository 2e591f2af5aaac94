//! The best that any test can do: bounds from information theory, and tests that know the rates.

use fairstream_guarantee::FairSet;

use super::rules::LEVEL;

/// The rates of the groups of a system, each with its share, and how many nats a decision yields against the closest fair
/// system.
pub(super) fn nats(fair: FairSet, groups: &[(f64, f64)]) -> f64 {
    let (shares, rates): (Vec<f64>, Vec<f64>) = groups.iter().copied().unzip();
    let closest = fair.project(&rates, &shares);
    let part = |one: f64, other: f64| if one > 0.0 { one * (one / other).ln() } else { 0.0 };
    let of = |((share, rate), fair): (&(f64, f64), &f64)| {
        share * (part(*rate, *fair) + part(1.0 - rate, 1.0 - fair))
    };
    groups.iter().zip(&closest).map(of).sum()
}

/// ln(1 / α) divided by the nats of a decision: how many decisions evidence of 1 / α takes for a test that knows the rates.
pub(super) fn least_decisions(fair: FairSet, groups: &[(f64, f64)]) -> f64 {
    -LEVEL.ln() / nats(fair, groups)
}

/// A sequential probability ratio test that knows the rates of an unfair system, against the closest fair system.
pub(super) struct Oracle {
    /// For each group, what an outcome of 0 and of 1 adds to the logarithm of the likelihood ratio.
    gains: Vec<[f64; 2]>,
    log_ratio: f64,
}

impl Oracle {
    /// The test for groups with these shares and rates.
    pub(super) fn new(fair: FairSet, groups: &[(f64, f64)]) -> Oracle {
        let (shares, rates): (Vec<f64>, Vec<f64>) = groups.iter().copied().unzip();
        let closest = fair.project(&rates, &shares);
        let gains = |(rate, fair): (&f64, &f64)| [((1.0 - rate) / (1.0 - fair)).ln(), (rate / fair).ln()];
        Oracle { gains: rates.iter().zip(&closest).map(gains).collect(), log_ratio: 0.0 }
    }

    /// Updates the ratio with an outcome of 0 or 1. Returns whether there is an alarm.
    pub(super) fn step(&mut self, group: usize, value: f64) -> bool {
        self.log_ratio += self.gains[group][usize::from(value > 0.0)];
        self.log_ratio >= -LEVEL.ln()
    }
}
