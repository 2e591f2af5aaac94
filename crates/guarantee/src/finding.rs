//! What the evidence comes to: a verdict in three values, and all the numbers beside it.

use crate::interval;
use crate::{FairSet, Form, Hypothesis, Inquiry, Interval, share_of};

/// What can be said of fairness now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The interval of the gap is within the tolerance.
    Fair,
    /// The evidence has reached the threshold.
    Unfair,
    /// Neither.
    NotYet {
        /// Roughly so many more trials would settle it one way or the other if all went on as it is; `None` if the
        /// gap is too close to the tolerance to tell, or there is nothing to compare.
        further: Option<u64>,
    },
}

/// Everything that is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// In a word.
    pub outcome: Outcome,
    /// The evidence against fairness; may be infinite.
    pub e_value: f64,
    /// How improbable evidence like this is in a fair system, at any time; `None` for a detector, which promises nothing
    /// of the kind.
    pub p_value: Option<f64>,
    /// Where the rate of each group is. All of them hold together, at all times, with a confidence of 1 − doubt.
    pub groups: Vec<Interval>,
    /// Where the gap, ratio or highest rate is, by those; `None` if there is nothing to compare.
    pub gap: Option<Interval>,
}

impl Inquiry {
    /// What the evidence comes to.
    pub fn finding(&self, hypothesis: &Hypothesis) -> Finding {
        let counted: Vec<(f64, f64)> =
            self.tallies().iter().map(|tally| (tally.trials as f64, tally.sum)).collect();
        let groups = intervals(&counted, 1.0, hypothesis);
        let gap = gap(&counted, &groups, hypothesis);
        let outcome = match gap {
            _ if self.is_enough(hypothesis) => Outcome::Unfair,
            Some(gap) if is_within(gap, hypothesis.fair) => Outcome::Fair,
            _ => Outcome::NotYet {
                further: self.until_unfair(hypothesis).or_else(|| until_fair(&counted, hypothesis)),
            },
        };
        Finding {
            outcome,
            e_value: self.log_e_value().exp(),
            p_value: (hypothesis.form == Form::Ever).then(|| (-self.log_most()).exp().min(1.0)),
            groups,
            gap,
        }
    }

    /// How many more trials it takes to the threshold, if rates and shares of the groups stay what they seem to be.
    fn until_unfair(&self, hypothesis: &Hypothesis) -> Option<u64> {
        let compared: Vec<(f64, f64)> = self
            .known()
            .zip(self.tallies())
            .filter(|(_, tally)| tally.trials >= hypothesis.min_trials.max(1))
            .map(|(known, _)| known)
            .collect();
        let total: f64 = compared.iter().map(|(_, trials)| trials).sum();
        let (rates, weights): (Vec<f64>, Vec<f64>) = compared.into_iter().unzip();
        let fair = hypothesis.fair.nearest(&rates, &weights);
        let divergence = |((rate, fair), weight): ((&f64, &f64), &f64)| {
            let part = |rate: f64, fair: f64| rate * (rate / fair).ln();
            weight / total * (part(*rate, *fair) + part(1.0 - rate, 1.0 - fair))
        };
        let growth: f64 = rates.iter().zip(&fair).zip(&weights).map(divergence).sum();
        let missing = hypothesis.log_threshold() - self.log_e_value();
        rounded(missing / growth).filter(|_| growth > 0.0)
    }
}

/// How many more trials it takes until the interval of the gap is within the tolerance.
fn until_fair(counted: &[(f64, f64)], hypothesis: &Hypothesis) -> Option<u64> {
    let total: f64 = counted.iter().map(|(trials, _)| trials).sum();
    let is_fair = |times: f64| {
        let grown: Vec<(f64, f64)> = counted.iter().map(|(trials, sum)| (trials * times, sum * times)).collect();
        gap(&grown, &intervals(counted, times, hypothesis), hypothesis)
            .is_some_and(|gap| is_within(gap, hypothesis.fair))
    };
    const DOUBLINGS: i32 = 24;
    let enough = (1..=DOUBLINGS).find(|doublings| is_fair(2_f64.powi(*doublings)))?;
    let (mut low, mut high) = (2_f64.powi(enough - 1), 2_f64.powi(enough));
    for _ in 0..8 {
        let middle = (low + high) / 2.0;
        if is_fair(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    rounded(total * (high - 1.0))
}

/// A rough number: two digits are all that it is good for.
fn rounded(number: f64) -> Option<u64> {
    if !number.is_finite() || !(0.0..1e15).contains(&number) {
        return None;
    }
    let step = 10_f64.powf((number.max(1.0).log10().floor() - 1.0).max(0.0));
    Some(((number / step).ceil() * step) as u64)
}

/// The interval of each group; groups share the doubt in the order in which they came. `times` as many trials as were
/// counted.
fn intervals(counted: &[(f64, f64)], times: f64, hypothesis: &Hypothesis) -> Vec<Interval> {
    let of = |(index, (trials, sum)): (usize, &(f64, f64))| {
        interval::of(trials * times, sum * times, hypothesis.doubt * share_of(index as u64))
    };
    counted.iter().enumerate().map(of).collect()
}

fn gap(counted: &[(f64, f64)], groups: &[Interval], hypothesis: &Hypothesis) -> Option<Interval> {
    let enough = hypothesis.min_trials.max(1) as f64;
    let compared = || counted.iter().zip(groups).filter(|((trials, _), _)| *trials >= enough).map(|(_, of)| *of);
    let most = |end: fn(Interval) -> f64| compared().map(end).fold(f64::NEG_INFINITY, f64::max);
    let least = |end: fn(Interval) -> f64| compared().map(end).fold(f64::INFINITY, f64::min);
    let (high, low): (fn(Interval) -> f64, fn(Interval) -> f64) = (|of| of.high, |of| of.low);
    let through = |one: f64, other: f64| if other > 0.0 { (one / other).min(1.0) } else { 1.0 };
    match (compared().count(), hypothesis.fair) {
        (0, _) | (1, FairSet::Difference(_) | FairSet::Ratio(_)) => None,
        (_, FairSet::Highest(_)) => Some(Interval { low: most(low), high: most(high) }),
        (_, FairSet::Difference(_)) => {
            Some(Interval { low: (most(low) - least(high)).max(0.0), high: most(high) - least(low) })
        }
        (_, FairSet::Ratio(_)) => {
            Some(Interval { low: through(least(low), most(high)), high: through(least(high), most(low)) })
        }
    }
}

fn is_within(gap: Interval, fair: FairSet) -> bool {
    match fair {
        FairSet::Difference(most) | FairSet::Highest(most) => gap.high <= most,
        FairSet::Ratio(least) => gap.low >= least,
    }
}
