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

    /// Whether these rates are fair if each is compared with the rate of the reference group alone.
    pub fn contains_around(&self, rates: &[f64], reference: f64) -> bool {
        rates.iter().all(|rate| match self {
            FairSet::Difference(most) => (rate - reference).abs() <= *most,
            FairSet::Ratio(least) => rate.min(reference) >= least * rate.max(reference),
            FairSet::Highest(most) => rate <= most,
        })
    }

    /// The same projection if each rate is compared with that of a reference group alone: fair are rates between c − ε
    /// and c + ε, or between c · τ and c / τ, where c is the rate of the reference. These sets are convex too. Without
    /// an index or a weight of the reference, c is the rate that is best for the others. An upper bound compares
    /// nothing, and has no reference.
    #[must_use]
    pub fn project_to(&self, rates: &[f64], weights: &[f64], reference: Option<usize>) -> Vec<f64> {
        let reference = reference.filter(|index| weights.get(*index).is_some_and(|weight| *weight > 0.0));
        let others = || {
            let all = rates.iter().copied().zip(weights.iter().copied()).enumerate();
            let others = all.filter(|(index, (_, weight))| *weight > 0.0 && Some(*index) != reference);
            others.map(|(_, of_group)| of_group)
        };
        let own = reference.map(|index| (rates[index], weights[index]));
        let (lowest, highest) = bounds(others().chain(own).map(|(rate, _)| rate));
        // The ends of the window are `c * down - minus` and `c * up + minus`.
        let (down, up, minus) = match *self {
            FairSet::Highest(_) => return self.project(rates, weights),
            FairSet::Difference(most) => (1.0, 1.0, most),
            FairSet::Ratio(least) if least <= 0.0 => return rates.to_vec(),
            FairSet::Ratio(least) => (least, 1.0 / least, 0.0),
        };
        let window = |center: f64| (center * down - minus, center * up + minus);
        // Without the rate of the reference, all windows from the first that reaches the highest rate to the last that
        // reaches the lowest contain every rate.
        let is_fair = match own {
            Some((center, _)) => self.contains_around(&[lowest, highest], center),
            None => (highest - minus) / up <= (lowest + minus) / down,
        };
        if lowest > highest || is_fair {
            return rates.to_vec();
        }
        // Derivative of the divergence by c. The divergence is convex, so the derivative is nondecreasing. A rate is
        // strictly between 0 and 1, so that an end of the window which it is beyond is too.
        let slope = |center: f64| -> f64 {
            let (low, high) = window(center);
            let of = |(rate, weight): (f64, f64)| match rate {
                rate if rate < low => weight * down * (low - rate) / (low * (1.0 - low)),
                rate if rate > high => weight * up * (high - rate) / (high * (1.0 - high)),
                _ => 0.0,
            };
            let pull = own.map_or(0.0, |(rate, weight)| weight * (center - rate) / (center * (1.0 - center)));
            others().map(of).sum::<f64>() + pull
        };
        let (mut from, mut to) = (lowest, highest);
        let center = loop {
            let middle = from + (to - from) / 2.0;
            if middle <= from || middle >= to {
                break from;
            }
            if slope(middle) < 0.0 {
                from = middle;
            } else {
                to = middle;
            }
        };
        let (low, high) = window(center);
        let mut fair: Vec<f64> = rates.iter().map(|rate| rate.max(low).min(high)).collect();
        if let Some(index) = reference {
            fair[index] = center;
        }
        fair
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
