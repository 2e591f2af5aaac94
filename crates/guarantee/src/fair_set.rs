//! Fair sets: convex sets of rates, and the projection of an estimate onto them.

use serde::{Deserialize, Serialize};

/// Which combinations of group rates are fair. Each set is an intersection of half-spaces and therefore convex, for any
/// number of groups; the guarantee requires convexity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum FairSet {
    /// The highest rate exceeds the lowest by at most this much.
    Difference(f64),
    /// The lowest rate is at least this fraction of the highest.
    Ratio(f64),
    /// No rate exceeds this.
    Highest(f64),
}

impl FairSet {
    /// Whether these rates are fair.
    pub fn contains(&self, rates: &[f64]) -> bool {
        let (low, high) = bounds(rates.iter().copied());
        match self {
            _ if rates.is_empty() => true,
            FairSet::Difference(most) => high - low <= *most,
            FairSet::Ratio(least) => low >= least * high,
            FairSet::Highest(most) => high <= *most,
        }
    }

    /// Reverse information projection: the fair point with the least Σ weight · KL(rate ‖ point). Rates lie strictly
    /// between 0 and 1. A rate without weight is ignored, and its result is meaningless.
    ///
    /// The projection clamps the rates to a window from c to c + ε, or from c to c/τ, with the optimal c.
    #[must_use]
    pub fn project(&self, rates: &[f64], weights: &[f64]) -> Vec<f64> {
        let (low, high) = match self.window(rates, weights) {
            Some(window) => window,
            None => return rates.to_vec(),
        };
        rates.iter().map(|rate| rate.max(low).min(high)).collect()
    }

    /// The optimal window; `None` if the rates are already fair.
    fn window(&self, rates: &[f64], weights: &[f64]) -> Option<(f64, f64)> {
        let weighted =
            || rates.iter().copied().zip(weights.iter().copied()).filter(|(_, weight)| *weight > 0.0);
        let (lowest, highest) = bounds(weighted().map(|(rate, _)| rate));
        if lowest > highest {
            return None;
        }
        // The upper end of the window is `lower * times + plus`.
        let (times, plus) = match *self {
            FairSet::Highest(most) => return (highest > most).then_some((0.0, most)),
            FairSet::Difference(most) => (1.0, most),
            FairSet::Ratio(least) if least <= 0.0 => return None,
            FairSet::Ratio(least) => (1.0 / least, 0.0),
        };
        let (mut from, mut to) = (lowest, (highest - plus) / times);
        if from >= to {
            return None;
        }
        // Derivative of the divergence by the lower end. The divergence is convex, so the derivative is nondecreasing.
        let slope = |low: f64| -> f64 {
            let high = low * times + plus;
            let of = |(rate, weight): (f64, f64)| match rate {
                rate if rate < low => weight * (low - rate) / (low * (1.0 - low)),
                rate if rate > high => weight * times * (high - rate) / (high * (1.0 - high)),
                _ => 0.0,
            };
            weighted().map(of).sum()
        };
        loop {
            let middle = from + (to - from) / 2.0;
            if middle <= from || middle >= to {
                return Some((from, from * times + plus));
            }
            if slope(middle) < 0.0 {
                from = middle;
            } else {
                to = middle;
            }
        }
    }
}

/// The lowest and the highest rate; (∞, −∞) if there are none.
fn bounds(rates: impl Iterator<Item = f64>) -> (f64, f64) {
    rates.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), rate| (low.min(rate), high.max(rate)))
}
