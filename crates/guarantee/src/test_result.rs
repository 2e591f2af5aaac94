//! The result of a test: a three-valued outcome, the e-value, the p-value and the intervals.

use crate::{
    EProcess, ErrorControl, FairSet, Hypothesis, Interval, Reference, TrialTotals, alpha_share, interval,
};

/// The conclusion from the evidence so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The interval of the gap is within the tolerance.
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
        let outcome = match gap {
            _ if self.exceeds_threshold(hypothesis) => Outcome::Unfair,
            Some(gap) if is_within(gap, hypothesis.fair) => Outcome::Fair,
            _ => {
                let fair = || until_fair(&counted, gap?, hypothesis);
                Outcome::NotYet { further: self.until_unfair(hypothesis).or_else(fair) }
            }
        };
        TestResult {
            outcome,
            log_e_value: self.log_e_value(),
            log_p_value: self.log_p_value(hypothesis),
            groups,
            gap,
        }
    }

    /// Natural logarithm of the anytime-valid p-value; `None` for a detector, which controls no probability.
    pub fn log_p_value(&self, hypothesis: &Hypothesis) -> Option<f64> {
        (hypothesis.control == ErrorControl::Ever).then(|| (0.0 - self.log_maximum()).min(0.0))
    }

    /// Approximate number of trials until the threshold is exceeded, if rates and shares of the groups stay as
    /// estimated: the log e-value grows by the divergence from the fair set per trial.
    fn until_unfair(&self, hypothesis: &Hypothesis) -> Option<u64> {
        let compared: Vec<(usize, (f64, f64))> = self
            .estimates()
            .zip(self.totals())
            .enumerate()
            .filter(|(_, (_, totals))| totals.trials >= hypothesis.min_trials.max(1))
            .map(|(group, (known, _))| (group, known))
            .collect();
        let place = |reference| compared.iter().position(|(group, _)| *group == reference);
        let reference = match hypothesis.reference {
            Reference::None => None,
            Reference::Group(reference) => Some(place(reference)?),
            Reference::Absent => return None,
        };
        let compared: Vec<(f64, f64)> = compared.into_iter().map(|(_, known)| known).collect();
        let total: f64 = compared.iter().map(|(_, trials)| trials).sum();
        let (rates, weights): (Vec<f64>, Vec<f64>) = compared.into_iter().unzip();
        let fair = match reference {
            None => hypothesis.fair.project(&rates, &weights),
            reference => hypothesis.fair.project_to(&rates, &weights, reference),
        };
        let divergence = |((rate, fair), weight): ((&f64, &f64), &f64)| {
            let part = |rate: f64, fair: f64| rate * (rate / fair).ln();
            weight / total * (part(*rate, *fair) + part(1.0 - rate, 1.0 - fair))
        };
        let growth: f64 = rates.iter().zip(&fair).zip(&weights).map(divergence).sum();
        let missing = hypothesis.log_threshold() - self.log_e_value();
        rounded(missing / growth).filter(|_| growth > 0.0)
    }
}

/// Approximate number of trials until the interval of the gap is within the tolerance, if the gap stays as it is. The
/// width of an interval is nearly proportional to 1 / √trials.
fn until_fair(counted: &[(f64, f64)], gap: Interval, hypothesis: &Hypothesis) -> Option<u64> {
    let enough = hypothesis.min_trials.max(1) as f64;
    let compared = || counted.iter().filter(|(trials, _)| *trials >= enough);
    let rates = || compared().map(|(trials, sum)| sum / trials);
    let (least, most) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
    let (least, most) = match hypothesis.reference {
        Reference::Group(reference) => {
            let (trials, sum) = counted.get(reference)?;
            furthest(hypothesis.fair, sum / trials, least, most)
        }
        Reference::None | Reference::Absent => (least, most),
    };
    let (width, room) = match hypothesis.fair {
        FairSet::Difference(tolerance) => (gap.high - (most - least), tolerance - (most - least)),
        FairSet::Highest(tolerance) => (gap.high - most, tolerance - most),
        FairSet::Ratio(tolerance) => {
            let ratio = if most > 0.0 { least / most } else { 1.0 };
            (ratio - gap.low, ratio - tolerance)
        }
    };
    let total: f64 = compared().map(|(trials, _)| trials).sum();
    rounded(total * ((width / room).powi(2) - 1.0)).filter(|_| room > 0.0)
}

/// The lowest or the highest rate and that of the reference, whichever of the two is further from it; the lower one first.
fn furthest(fair: FairSet, reference: f64, least: f64, most: f64) -> (f64, f64) {
    let is_most = match fair {
        FairSet::Ratio(_) => reference * reference <= least * most,
        FairSet::Difference(_) | FairSet::Highest(_) => reference - least <= most - reference,
    };
    if is_most { (reference, most) } else { (least, reference) }
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

fn is_within(gap: Interval, fair: FairSet) -> bool {
    match fair {
        FairSet::Difference(most) | FairSet::Highest(most) => gap.high <= most,
        FairSet::Ratio(least) => gap.low >= least,
    }
}
