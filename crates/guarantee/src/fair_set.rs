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

/// The upper end of a window as a function of its lower end c: `times` · c + `plus`.
#[derive(Clone, Copy)]
struct Window {
    times: f64,
    plus: f64,
}

impl Window {
    fn upper(self, lower: f64) -> f64 {
        lower * self.times + self.plus
    }
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

    /// The fewest groups between which there can be a gap.
    pub(crate) fn fewest_groups(&self) -> usize {
        if let FairSet::Highest(_) = self { 1 } else { 2 }
    }

    /// Reverse information projection: the fair point with the least Σ weight · KL(rate ‖ point). Rates lie strictly
    /// between 0 and 1. A rate without weight is ignored, and its result is meaningless.
    ///
    /// The projection clamps the rates to a window from c to c + ε, or from c to c/τ, with the optimal c.
    #[must_use]
    pub fn project(&self, rates: &[f64], weights: &[f64]) -> Vec<f64> {
        let mut fair = Vec::new();
        if self.project_into(rates, weights, &mut fair) { fair } else { rates.to_vec() }
    }

    /// The [projection](Self::project); `false`, without a result, if the rates are fair already.
    pub(crate) fn project_into(&self, rates: &[f64], weights: &[f64], fair: &mut Vec<f64>) -> bool {
        let Some((low, high)) = self.window(rates, weights) else { return false };
        fair.clear();
        fair.extend(rates.iter().map(|rate| rate.max(low).min(high)));
        true
    }

    /// Projects the rates of two groups onto the set in which `above` exceeds `below` by the tolerance or more, the
    /// complement of what is fair: (above, below). `None` if they are in it already, or if it is empty.
    pub(crate) fn project_apart(&self, above: WeightedRate, below: WeightedRate) -> Option<(f64, f64)> {
        let window = match *self {
            FairSet::Highest(_) => return None,
            FairSet::Difference(least) => Window { times: 1.0, plus: least },
            FairSet::Ratio(most) if most <= 0.0 => return None,
            FairSet::Ratio(most) => Window { times: 1.0 / most, plus: 0.0 },
        };
        if above.rate >= window.upper(below.rate) || window.plus >= 1.0 {
            return None;
        }
        let most = (1.0 - window.plus) / window.times;
        let from = ((above.rate - window.plus) / window.times).max(0.0);
        let to = below.rate.min(most);
        let slope = |low: f64| {
            let (low_slope, low_change) = pull(low, below);
            let (high_slope, high_change) = pull(window.upper(low), above);
            (low_slope + window.times * high_slope, low_change + window.times.powi(2) * high_change)
        };
        // The divergence is nearly quadratic.
        let (high_weight, low_weight) = (above.weight * window.times, below.weight);
        let guess = (low_weight * below.rate + high_weight * (above.rate - window.plus))
            / (low_weight + high_weight * window.times);
        let low = root(from, to, guess, slope);
        Some((window.upper(low), low))
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
        let mut fair = Vec::new();
        if self.project_around_into(rates, weights, reference, &mut fair) { fair } else { rates.to_vec() }
    }

    /// The [projection](Self::project_to) with a reference group; `false`, without a result, if the rates are fair
    /// already.
    pub(crate) fn project_around_into(
        &self,
        rates: &[f64],
        weights: &[f64],
        reference: Option<usize>,
        fair: &mut Vec<f64>,
    ) -> bool {
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
            FairSet::Highest(_) => return self.project_into(rates, weights, fair),
            FairSet::Difference(most) => (1.0, 1.0, most),
            FairSet::Ratio(least) if least <= 0.0 => return false,
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
            return false;
        }
        // Derivatives of the divergence by c. The divergence is convex. A rate is strictly between 0 and 1, so that an end
        // of the window which it is beyond is too.
        let slope = |center: f64| {
            let (low, high) = window(center);
            let start = own.map_or((0.0, 0.0), |(rate, weight)| pull(center, WeightedRate { rate, weight }));
            others().fold(start, |(slope, change), (rate, weight)| {
                let (end, times) = match rate {
                    rate if rate < low => (low, down),
                    rate if rate > high => (high, up),
                    _ => return (slope, change),
                };
                let (own, own_change) = pull(end, WeightedRate { rate, weight });
                (slope + times * own, change + times * times * own_change)
            })
        };
        let center = root(lowest, highest, own.map_or(lowest, |(rate, _)| rate), slope);
        let (low, high) = window(center);
        fair.clear();
        fair.extend(rates.iter().map(|rate| rate.max(low).min(high)));
        if let Some(index) = reference {
            fair[index] = center;
        }
        true
    }

    /// The optimal window; `None` if the rates are already fair.
    fn window(&self, rates: &[f64], weights: &[f64]) -> Option<(f64, f64)> {
        let weighted = || {
            let pairs = rates.iter().copied().zip(weights.iter().copied());
            pairs.filter(|(_, weight)| *weight > 0.0).map(|(rate, weight)| WeightedRate { rate, weight })
        };
        let (lowest, highest) = bounds(weighted().map(|of| of.rate));
        if lowest > highest {
            return None;
        }
        let window = match *self {
            FairSet::Highest(most) => return (highest > most).then_some((0.0, most)),
            FairSet::Difference(most) => Window { times: 1.0, plus: most },
            FairSet::Ratio(least) if least <= 0.0 => return None,
            FairSet::Ratio(least) => Window { times: 1.0 / least, plus: 0.0 },
        };
        let (from, to) = (lowest, (highest - window.plus) / window.times);
        if from >= to {
            return None;
        }
        // Derivatives of the divergence by the lower end. The divergence is convex.
        let slope = |low: f64| {
            let high = window.upper(low);
            weighted().fold((0.0, 0.0), |(slope, change), of| {
                if of.rate < low {
                    let (own, own_change) = pull(low, of);
                    (slope + own, change + own_change)
                } else if of.rate > high {
                    let (own, own_change) = pull(high, of);
                    (slope + window.times * own, change + window.times.powi(2) * own_change)
                } else {
                    (slope, change)
                }
            })
        };
        let low = root(from, to, f64::midpoint(from, to), slope);
        Some((low, window.upper(low)))
    }
}

/// A rate, and the number of trials that it is weighted with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WeightedRate {
    pub(crate) rate: f64,
    pub(crate) weight: f64,
}

impl WeightedRate {
    /// weight · KL(rate ‖ point).
    pub(crate) fn divergence(self, point: f64) -> f64 {
        let part = |rate: f64, point: f64| if rate > 0.0 { rate * (rate / point).ln() } else { 0.0 };
        self.weight * (part(self.rate, point) + part(1.0 - self.rate, 1.0 - point))
    }
}

/// First and second derivative of weight · KL(rate ‖ at) by `at`.
fn pull(at: f64, of: WeightedRate) -> (f64, f64) {
    let spread = at * (1.0 - at);
    let off = at - of.rate;
    (of.weight * off / spread, of.weight * (spread - off * (1.0 - 2.0 * at)) / (spread * spread))
}

/// The root of a nondecreasing function between `from` and `to`, given with its derivative: Newton's method from `guess`,
/// within the bounds of a bisection.
fn root(from: f64, to: f64, guess: f64, function: impl Fn(f64) -> (f64, f64)) -> f64 {
    /// The error of a step is about the square of the step before.
    const NEARLY: f64 = 1e-9;
    /// More than a bisection alone would need.
    const MOST: usize = 200;
    let (mut from, mut to) = (from, to);
    let mut at = if guess > from && guess < to { guess } else { from + (to - from) / 2.0 };
    for _ in 0..MOST {
        let (value, slope) = function(at);
        if value == 0.0 {
            break;
        }
        // Not a number where a bound is 0 or 1: bisect.
        if value < 0.0 {
            from = at;
        } else {
            to = at;
        }
        let newton = at - value / slope;
        let next = if newton > from && newton < to { newton } else { from + (to - from) / 2.0 };
        let is_near = (next - at).abs() <= NEARLY * at.min(1.0 - at);
        at = next;
        if is_near {
            let (value, slope) = function(at);
            let last = at - value / slope;
            return if last.is_finite() { last.clamp(from, to) } else { at };
        }
    }
    at
}

/// The lowest and the highest rate; (∞, −∞) if there are none.
fn bounds(rates: impl Iterator<Item = f64>) -> (f64, f64) {
    rates.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), rate| (low.min(rate), high.max(rate)))
}
