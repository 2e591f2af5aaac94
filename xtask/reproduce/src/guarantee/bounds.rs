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
