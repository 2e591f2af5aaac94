//! The result of a test: a three-valued outcome, the e-value, the p-value and the intervals.

use crate::fair_set::WeightedRate;
use crate::{
    EProcess, ErrorControl, FairSet, Hypothesis, Interval, Reference, TrialTotals, alpha_share, interval,
};

/// The conclusion from the evidence so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is enough evidence against every hypothesis that one group is above another by the tolerance or more.
    Fair,
    /// The e-value has exceeded the threshold.
    Unfair,
    /// Neither.
    NotYet {
        /// Approximate number of further trials until a decision, if rates stay as estimated; `None` if the gap is too
        /// close to the tolerance to tell, or there is nothing to compare.
        further: Option<u64>,
    },
}

/// The result of a test at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct TestResult {
    /// The conclusion.
    pub outcome: Outcome,
    /// Natural logarithm of the e-value against fairness. The e-value itself overflows after some thousand trials of a
    /// grossly unfair system. Infinite if an outcome has a probability of 0 in every fair system.
    pub log_e_value: f64,
    /// Natural logarithm of the anytime-valid p-value, an upper bound on the probability that a fair system ever reaches
    /// such an e-value; `None` for a detector, which controls no probability.
    pub log_p_value: Option<f64>,
    /// Confidence interval for the rate of each group. All of them hold at all times simultaneously, with a confidence
    /// of 1 − miscoverage.
    pub groups: Vec<Interval>,
    /// Interval for the gap, ratio or highest rate that follows from those; `None` if there is nothing to compare.
    pub gap: Option<Interval>,
}

impl EProcess {
    /// The result at this moment.
    pub fn result(&self, hypothesis: &Hypothesis) -> TestResult {
        let totals = self.totals();
        let groups = intervals(&totals, hypothesis);
        let counted: Vec<(f64, f64)> =
            totals.iter().map(|totals| (totals.trials as f64, totals.sum)).collect();
        let gap = gap(&counted, &groups, hypothesis);
        let compared = compared(&totals, hypothesis);
        let outcome = if self.exceeds_threshold(hypothesis) {
            Outcome::Unfair
        } else if self.fairness().is_complete(hypothesis, &compared) {
            Outcome::Fair
        } else {
            Outcome::NotYet { further: self.further_trials(hypothesis, &compared) }
        };
        TestResult {
            outcome,
            log_e_value: self.log_e_value(),
            log_p_value: self.log_p_value(hypothesis),
            groups,
            gap,
        }
    }

    /// Whether there is enough evidence that the groups are treated fairly. It is cheaper than the whole result.
    pub fn is_found_fair(&self, hypothesis: &Hypothesis) -> bool {
        self.fairness().is_complete(hypothesis, &compared(&self.totals(), hypothesis))
    }

    /// Natural logarithm of the anytime-valid p-value; `None` for a detector, which controls no probability.
    pub fn log_p_value(&self, hypothesis: &Hypothesis) -> Option<f64> {
        (hypothesis.control == ErrorControl::Ever).then(|| (0.0 - self.log_maximum()).min(0.0))
    }

    /// Approximate number of trials until a conclusion, if rates and shares of the groups stay as they were so far: a
    /// log e-value grows by the divergence from its hypothesis per trial. `None` if the gap is within a standard error of
    /// the tolerance.
    fn further_trials(&self, hypothesis: &Hypothesis, compared: &[usize]) -> Option<u64> {
        let (groups, known): (Vec<usize>, Vec<WeightedRate>) = compared
            .iter()
            .map(|group| {
                let known = self.known(*group);
                (*group, WeightedRate { rate: known.laplace(), weight: known.trials })
            })
            .filter(|(_, known)| known.weight > 0.0)
            .unzip();
        let reference = match hypothesis.reference {
            Reference::None => None,
            Reference::Group(reference) => Some(groups.iter().position(|group| *group == reference)?),
            Reference::Absent => return None,
        };
        if known.len() < hypothesis.fair.fewest_groups() {
            return None;
        }
        // The pair whose gap is the largest is decided last.
        let (high, low) = furthest(hypothesis.fair, &known, reference)?;
        if is_near(hypothesis.fair, high, low) {
            return None;
        }
        let (rates, weights): (Vec<f64>, Vec<f64>) = known.iter().map(|of| (of.rate, of.weight)).unzip();
        let all: f64 = weights.iter().sum();
        let fair = match reference {
            None => hypothesis.fair.project(&rates, &weights),
            reference => hypothesis.fair.project_to(&rates, &weights, reference),
        };
        let growth: f64 = known.iter().zip(&fair).map(|(of, fair)| of.divergence(*fair)).sum::<f64>() / all;
        if growth > 0.0 && hypothesis.are_numbers {
            // Bets on numbers grow as their variance lets them, which is not known.
            return None;
        }
        if growth > 0.0 {
            return rounded((hypothesis.log_threshold() - self.log_e_value()) / growth);
        }
        let slowest = against(hypothesis.fair, high, low)? / all;
        rounded((-hypothesis.miscoverage.ln() - self.fairness().least(hypothesis, compared)) / slowest)
    }
}

/// The groups with enough trials to be compared.
fn compared(totals: &[TrialTotals], hypothesis: &Hypothesis) -> Vec<usize> {
    let least = hypothesis.min_trials.max(1);
    (0..totals.len()).filter(|group| totals[*group].trials >= least).collect()
}

/// Whether the gap between two rates is within a standard error of the tolerance.
fn is_near(fair: FairSet, high: WeightedRate, low: WeightedRate) -> bool {
    let variance = |of: WeightedRate| of.rate * (1.0 - of.rate) / of.weight;
    let (off, variance) = match fair {
        FairSet::Difference(most) => (high.rate - low.rate - most, variance(high) + variance(low)),
        FairSet::Ratio(least) => {
            (low.rate - least * high.rate, variance(low) + least.powi(2) * variance(high))
        }
        FairSet::Highest(most) => (high.rate - most, variance(high)),
    };
    off.powi(2) < variance
}

/// What all trials add to the log e-value against "the first is above the second".
fn against(fair: FairSet, high: WeightedRate, low: WeightedRate) -> Option<f64> {
    if let FairSet::Highest(most) = fair {
        return (high.rate < most).then(|| high.divergence(most));
    }
    let (above, below) = fair.project_apart(high, low)?;
    Some(high.divergence(above) + low.divergence(below))
}

/// The rates that are furthest apart, the higher first: the highest and the lowest one; with a reference, it and the one of
/// those that is further from it.
fn furthest(
    fair: FairSet,
    known: &[WeightedRate],
    reference: Option<usize>,
) -> Option<(WeightedRate, WeightedRate)> {
    let high = known.iter().copied().reduce(|most, one| if one.rate > most.rate { one } else { most })?;
    let low = known.iter().copied().reduce(|least, one| if one.rate < least.rate { one } else { least })?;
    let Some(reference) = reference.and_then(|reference| known.get(reference).copied()) else {
        return Some((high, low));
    };
    let is_high = match fair {
        FairSet::Ratio(_) => reference.rate * reference.rate <= low.rate * high.rate,
        FairSet::Difference(_) | FairSet::Highest(_) => {
            reference.rate - low.rate <= high.rate - reference.rate
        }
    };
    Some(if is_high { (high, reference) } else { (reference, low) })
}

/// Rounds an approximate number up to two significant digits.
fn rounded(number: f64) -> Option<u64> {
    if !number.is_finite() || !(0.0..1e15).contains(&number) {
        return None;
    }
    let step = 10_f64.powf((number.max(1.0).log10().floor() - 1.0).max(0.0));
    Some(((number / step).ceil() * step) as u64)
}

/// The interval of each group. Groups share the miscoverage in order of arrival.
fn intervals(counted: &[TrialTotals], hypothesis: &Hypothesis) -> Vec<Interval> {
    let of = |(index, totals): (usize, &TrialTotals)| {
        interval(*totals, hypothesis.miscoverage * alpha_share(index as u64))
    };
    counted.iter().enumerate().map(of).collect()
}

fn gap(counted: &[(f64, f64)], groups: &[Interval], hypothesis: &Hypothesis) -> Option<Interval> {
    let enough = hypothesis.min_trials.max(1) as f64;
    match hypothesis.reference {
        Reference::None => {}
        Reference::Group(reference) => {
            let has_enough = |group: usize| counted.get(group).is_some_and(|(trials, _)| *trials >= enough);
            let others = (0..groups.len()).filter(|group| *group != reference && has_enough(*group));
            let own = groups.get(reference).filter(|_| has_enough(reference))?;
            return gap_with(*own, others.map(|group| groups[group]), hypothesis.fair);
        }
        Reference::Absent => return None,
    }
    let compared =
        || counted.iter().zip(groups).filter(|((trials, _), _)| *trials >= enough).map(|(_, of)| *of);
    let ends = |of: Interval| [of.low, of.high];
    let most = |end: usize| compared().map(|of| ends(of)[end]).fold(f64::NEG_INFINITY, f64::max);
    let least = |end: usize| compared().map(|of| ends(of)[end]).fold(f64::INFINITY, f64::min);
    let (low, high) = (0, 1);
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

/// The interval of the largest gap, or the lowest ratio, between a reference group and another one.
fn gap_with(own: Interval, others: impl Iterator<Item = Interval>, fair: FairSet) -> Option<Interval> {
    let through = |one: f64, other: f64| if other > 0.0 { (one / other).min(1.0) } else { 1.0 };
    let is_ratio = matches!(fair, FairSet::Ratio(_));
    let between = |of: Interval| match is_ratio {
        // At most the ratio of the ends that face each other, at least that of the ends that do not.
        true => Interval {
            low: through(of.low, own.high).min(through(own.low, of.high)),
            high: through(of.high, own.low).min(through(own.high, of.low)),
        },
        false => Interval {
            low: (of.low - own.high).max(own.low - of.high).max(0.0),
            high: (of.high - own.low).max(own.high - of.low),
        },
    };
    let furthest = |one: Interval, other: Interval| match is_ratio {
        true => Interval { low: one.low.min(other.low), high: one.high.min(other.high) },
        false => Interval { low: one.low.max(other.low), high: one.high.max(other.high) },
    };
    others.map(between).reduce(furthest)
}
