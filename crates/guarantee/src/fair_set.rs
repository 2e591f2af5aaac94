//! What is fair: a convex set of rates, and the point of it that is nearest to an estimate.

use serde::{Deserialize, Serialize};

/// Which rates of groups are fair together. Each is an intersection of half-spaces, and so convex, for any number of
/// groups: that is what the guarantee rests on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum FairSet {
    /// The highest is at most this much above the lowest.
    Difference(f64),
    /// The lowest is at least this share of the highest: every rate is at least so much of every other.
    Ratio(f64),
    /// None is above this.
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

    /// The fair point with the least Σ weight · KL(rate ‖ point). Rates are above 0 and below 1. Those without
    /// weight do not matter: what comes out for them means nothing.
    ///
    /// It is the rates cut off at the ends of a window: from c to c + ε, or from c to c/τ, with the best c.
    #[must_use]
    pub fn project(&self, rates: &[f64], weights: &[f64]) -> Vec<f64> {
        let (low, high) = match self.window(rates, weights) {
            Some(window) => window,
            None => return rates.to_vec(),
        };
        rates.iter().map(|rate| rate.max(low).min(high)).collect()
    }

    /// The window, if the rates are not fair as they are.
    fn window(&self, rates: &[f64], weights: &[f64]) -> Option<(f64, f64)> {
        let weighted =
            || rates.iter().copied().zip(weights.iter().copied()).filter(|(_, weight)| *weight > 0.0);
        let (lowest, highest) = bounds(weighted().map(|(rate, _)| rate));
        if lowest > highest {
            return None;
        }
        // The upper end as a multiple of the lower one, and what it is more than that.
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
        // How the sum changes with the lower end: it is convex, so its slope rises.
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

/// The lowest and the highest; the wrong way round if there are none.
fn bounds(rates: impl Iterator<Item = f64>) -> (f64, f64) {
    rates.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), rate| (low.min(rate), high.max(rate)))
}
