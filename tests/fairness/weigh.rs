//! Guaranteed alarms from the list of final trials: the evidence at each check and the alarms, in plain Rust. Estimates
//! are computed from all earlier blocks each time, and what is rejected by trying every number of rejections.

use std::collections::BTreeMap;

use super::draw::{DrawnGuarantee, Plan};
use super::oracle::FinalTrial;

/// The expected result.
#[derive(Debug)]
pub(crate) struct Weighed {
    pub(crate) rates: Vec<WeighedRate>,
    /// Smallest distance of the evidence from a threshold: a difference by rounding is not an error.
    pub(crate) closest: f64,
}

/// The logarithm of the evidence at each check of each stratum of a rate, and alarms.
#[derive(Clone, Debug, Default)]
pub(crate) struct WeighedRate {
    pub(crate) evidence: BTreeMap<String, Vec<(i64, f64)>>,
    pub(crate) alarms: Vec<String>,
}

/// Trials and positives, scaled to the range.
type Counts = (f64, f64);

/// A block of trials.
#[derive(Clone, Debug, Default)]
struct Cut {
    groups: BTreeMap<String, Counts>,
    /// Group and value of each trial, in their order.
    values: Vec<(String, f64)>,
    /// The groups that are compared.
    compared: Vec<String>,
}

impl Cut {
    fn all(&self) -> Counts {
        self.groups.values().fold((0.0, 0.0), |sum, counts| (sum.0 + counts.0, sum.1 + counts.1))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Belief {
    Own,
    TowardsAll,
    WithinBlocks,
    TowardsBound,
    /// Differences between pairs of numbers.
    Pairs,
}

/// The estimate of the rate of each group of a block, from `seen`, blocks before it, and from all blocks before it.
fn estimates(
    plan: &Plan,
    belief: Belief,
    seen: &[Cut],
    before: &[Cut],
    cut: &Cut,
    memory: Option<f64>,
) -> Vec<f64> {
    // What is left of each block after those that came later.
    let mut left = vec![1.0; seen.len()];
    if let Some(memory) = memory {
        for earlier in 0..seen.len() {
            left[earlier] =
                seen[earlier + 1..].iter().map(|later| memory / (memory + later.all().0)).product();
        }
    }
    let sum =
        |of: &dyn Fn(&Cut) -> f64| -> f64 { seen.iter().zip(&left).map(|(cut, left)| left * of(cut)).sum() };
    let own = |group: &str| -> Counts {
        let part = |which: fn(&Counts) -> f64| sum(&|cut| cut.groups.get(group).map_or(0.0, which));
        (part(|counts| counts.0), part(|counts| counts.1))
    };
    let all: Counts = (sum(&|cut| cut.all().0), sum(&|cut| cut.all().1));
    let deviation = |group: &str| -> f64 {
        let weight = |cut: &Cut| {
            cut.groups.get(group).map_or(0.0, |(trials, _)| trials * (1.0 - trials / cut.all().0))
        };
        let off = |cut: &Cut| {
            let rate = |(trials, positives): Counts| positives / trials;
            cut.groups.get(group).map_or(0.0, |counts| weight(cut) * (rate(*counts) - rate(cut.all())))
        };
        sum(&off) / (sum(&weight) + 20.0)
    };
    let recent = || -> f64 {
        let (mut trials, mut positives) = (0.0, 0.0);
        for cut in before {
            let kept = 100.0 / (100.0 + cut.all().0);
            (trials, positives) = (trials * kept + cut.all().0, positives * kept + cut.all().1);
        }
        let whole = before.iter().fold((0.0, 0.0), |sum, cut| (sum.0 + cut.all().0, sum.1 + cut.all().1));
        (positives + 2.0 * (whole.1 + 1.0) / (whole.0 + 2.0)) / (trials + 2.0)
    };
    let mean: f64 =
        cut.groups.iter().map(|(group, (trials, _))| trials * deviation(group)).sum::<f64>() / cut.all().0;
    let estimate = |group: &String| {
        let (trials, positives) = own(group);
        match belief {
            Belief::Own => (positives + 1.0) / (trials + 2.0),
            Belief::TowardsAll => (positives + 20.0 * ((all.1 + 1.0) / (all.0 + 2.0))) / (trials + 20.0),
            Belief::Pairs => unreachable!("numbers are not bet on by rates"),
            Belief::TowardsBound => (positives + 5.0 * plan.tolerance) / (trials + 5.0),
            Belief::WithinBlocks => {
                let least = 0.5 / (all.0 + 5.0);
                (recent() + deviation(group) - mean).clamp(least, 1.0 - least)
            }
        }
    };
    cut.groups.keys().map(estimate).collect()
}

/// Where an increasing function is 0.
fn solve(mut from: f64, mut to: f64, function: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..300 {
        let middle = (from + to) / 2.0;
        if function(middle) >= 0.0 { to = middle } else { from = middle }
    }
    (from + to) / 2.0
}

/// How fast trials · KL(rate ‖ at) grows with `at`.
fn slope(rate: f64, trials: f64, at: f64) -> f64 {
    trials * ((1.0 - rate) / (1.0 - at) - rate / at)
}

fn tolerance(plan: &Plan) -> f64 {
    plan.tolerance / plan.range.map_or(1.0, |(low, high)| high - low)
}

/// The group that others are compared with.
fn reference(plan: &Plan) -> Option<String> {
    plan.reference_group().map(|group| format!("[{group}]"))
}

/// The fair rates closest to these.
fn nearest(plan: &Plan, beliefs: &[f64], trials: &[f64]) -> Vec<f64> {
    let (times, plus) = match plan.metric {
        "disparate-impact" if plan.tolerance == 0.0 => return beliefs.to_vec(),
        "disparate-impact" => (1.0 / plan.tolerance, 0.0),
        "counterfactual-fairness" => {
            return beliefs.iter().map(|belief| belief.min(plan.tolerance)).collect();
        }
        _ => (1.0, tolerance(plan)),
    };
    let least = beliefs.iter().copied().fold(1.0, f64::min);
    let most = beliefs.iter().copied().fold(0.0, f64::max);
    if most <= least * times + plus {
        return beliefs.to_vec();
    }
    let low = solve(least, most, |low| {
        let high = low * times + plus;
        let of = |(belief, trials): (&f64, &f64)| match *belief {
            belief if belief < low => slope(belief, *trials, low),
            belief if belief > high => times * slope(belief, *trials, high),
            _ => 0.0,
        };
        beliefs.iter().zip(trials).map(of).sum()
    });
    beliefs.iter().map(|belief| belief.max(low).min(low * times + plus)).collect()
}

/// The same beside a reference group; `own` is its index, unless it has no trials.
fn nearest_beside(plan: &Plan, own: Option<usize>, beliefs: &[f64], trials: &[f64]) -> Vec<f64> {
    let is_ratio = plan.metric == "disparate-impact";
    if is_ratio && plan.tolerance == 0.0 {
        return beliefs.to_vec();
    }
    let ends = |rate: f64| match is_ratio {
        true => (rate * plan.tolerance, rate / plan.tolerance),
        false => (rate - tolerance(plan), rate + tolerance(plan)),
    };
    let fair = |rate: f64| -> Vec<f64> {
        let of = |(index, belief): (usize, &f64)| match own == Some(index) {
            true => rate,
            false => belief.max(ends(rate).0).min(ends(rate).1),
        };
        beliefs.iter().enumerate().map(of).collect()
    };
    let growth = |rate: f64| -> f64 {
        let of = |(index, (belief, trials)): (usize, (&f64, &f64))| {
            let (low, high) = ends(rate);
            let (end, times) = match *belief {
                _ if own == Some(index) => (rate, 1.0),
                belief if belief < low => (low, if is_ratio { plan.tolerance } else { 1.0 }),
                belief if belief > high => (high, if is_ratio { 1.0 / plan.tolerance } else { 1.0 }),
                _ => return 0.0,
            };
            times * slope(*belief, *trials, end)
        };
        beliefs.iter().zip(trials).enumerate().map(of).sum()
    };
    let least = beliefs.iter().copied().fold(1.0, f64::min);
    let most = beliefs.iter().copied().fold(0.0, f64::max);
    // What is fair already stays as it is.
    let centre = match own {
        Some(own) => beliefs[own],
        None if is_ratio => (least * most).sqrt(),
        None => (least + most) / 2.0,
    };
    if beliefs.is_empty() || ends(centre).0 <= least && most <= ends(centre).1 {
        return beliefs.to_vec();
    }
    fair(solve(least, most, growth))
}

/// Logarithm of the likelihood ratio of two rates.
fn ratio((trials, positives): Counts, belief: f64, fair: f64) -> f64 {
    let mut log = 0.0;
    if belief != fair && positives > 0.0 {
        log += positives * (belief / fair).ln();
    }
    if belief != fair && trials - positives > 1e-12 {
        log += (trials - positives) * ((1.0 - belief) / (1.0 - fair)).ln();
    }
    log
}

/// A learner, by the blocks that it knows of.
struct Learner {
    step: u64,
    first: usize,
    logs: Vec<f64>,
}

struct Stratum {
    /// The share of the guarantee; `None` if it is for fewer strata.
    share: Option<f64>,
    cuts: Vec<Cut>,
    open: Vec<(String, f64)>,
    began: i64,
    learners: Vec<Learner>,
    steps: u64,
    is_new: bool,
    log: f64,
    stands: bool,
}

/// Computes the evidence of every rate from the final trials, at checks with these times.
pub(crate) fn weigh(
    plan: &Plan,
    guarantee: DrawnGuarantee,
    trials: &[FinalTrial],
    checks: &[Vec<i64>],
) -> Weighed {
    let mut weighed = Weighed { rates: vec![WeighedRate::default(); checks.len()], closest: f64::INFINITY };
    let mut strata: Vec<BTreeMap<String, Stratum>> = checks.iter().map(|_| BTreeMap::new()).collect();
    // The shares of all that have been rejected.
    let mut rejected = Vec::new();
    for check in 0..checks.iter().map(Vec::len).max().unwrap_or_default() {
        for (rate, strata) in strata.iter_mut().enumerate() {
            let Some(time) = checks[rate].get(check) else { continue };
            for trial in trials.iter().filter(|trial| trial.check == check && trial.adds[rate].1 > 0) {
                let place = strata.len() as u64;
                let stratum = strata
                    .entry(trial.stratum.clone())
                    .or_insert_with(|| Stratum::new(share(plan, guarantee, place, checks.len())));
                let (low, high) = plan.range.unwrap_or((0.0, 1.0));
                let value = (trial.adds[rate].0 - low) / (high - low);
                stratum.count(plan, guarantee, &trial.group, value, trial.ended);
            }
            match guarantee.is_detector() {
                true => {
                    for stratum in strata.values_mut() {
                        stratum.stands |= stratum.is_detected(plan, guarantee, &mut weighed.closest);
                    }
                }
                false => reject(guarantee, strata, &mut rejected, &mut weighed.closest),
            }
            let weighed = &mut weighed.rates[rate];
            for (name, stratum) in strata {
                let instance = if plan.has_strata { format!("[{name}]") } else { String::new() };
                stratum.is_new = false;
                let of_stratum = weighed.evidence.entry(instance.clone()).or_default();
                of_stratum.push((*time, stratum.log));
                // The drawn events are too few for an alarm to be cleared.
                let said = |alarm: &String| alarm.ends_with(&format!(" raised {instance}"));
                if stratum.stands && !weighed.alarms.iter().any(said) {
                    weighed.alarms.push(format!("{time} raised {instance}"));
                }
            }
        }
    }
    weighed
}

/// The share of the guarantee of the stratum that came at this place.
fn share(plan: &Plan, guarantee: DrawnGuarantee, place: u64, rates: usize) -> Option<f64> {
    let of_strata = match guarantee.strata {
        _ if !plan.has_strata => 1.0,
        Some(strata) if place >= strata => return None,
        Some(strata) => 1.0 / strata as f64,
        None => 1.0 / (place + 1) as f64 - 1.0 / (place + 2) as f64,
    };
    Some(of_strata / rates as f64)
}

/// Raises the alarms of strata that share a guarantee with all that have been rejected, if there is new evidence.
fn reject(
    guarantee: DrawnGuarantee,
    strata: &mut BTreeMap<String, Stratum>,
    rejected: &mut Vec<f64>,
    closest: &mut f64,
) {
    let level = guarantee.promise;
    if !strata.values().any(|stratum| stratum.is_new && !stratum.stands) {
        return;
    }
    let mut exceeds = |log: f64, threshold: f64| {
        let threshold = threshold.max(1.0 / level).ln();
        *closest = closest.min((log - threshold).abs());
        log > threshold + 1e-9
    };
    let mut open: Vec<&mut Stratum> =
        strata.values_mut().filter(|stratum| !stratum.stands && stratum.share.is_some()).collect();
    if guarantee.are_discoveries {
        for more in (1..=open.len()).rev() {
            let all = (rejected.len() + more) as f64;
            let is_enough: Vec<bool> = open
                .iter()
                .map(|stratum| exceeds(stratum.log, 1.0 / (level * stratum.share.unwrap() * all)))
                .collect();
            if is_enough.iter().filter(|is_enough| **is_enough).count() >= more {
                for (stratum, _) in open.iter_mut().zip(is_enough).filter(|(_, is_enough)| *is_enough) {
                    stratum.stands = true;
                    rejected.push(stratum.share.unwrap());
                }
                return;
            }
        }
        return;
    }
    // As long as there is one whose evidence is enough, given those that have been rejected.
    while let Some(stratum) = open.iter_mut().find(|stratum| {
        let share = stratum.share.unwrap();
        !stratum.stands && exceeds(stratum.log, (1.0 - rejected.iter().sum::<f64>()) / (level * share))
    }) {
        stratum.stands = true;
        rejected.push(stratum.share.unwrap());
    }
}

impl Stratum {
    fn new(share: Option<f64>) -> Stratum {
        Stratum {
            share,
            cuts: Vec::new(),
            open: Vec::new(),
            began: 0,
            learners: Vec::new(),
            steps: 0,
            is_new: false,
            log: 0.0,
            stands: false,
        }
    }

    fn count(&mut self, plan: &Plan, guarantee: DrawnGuarantee, group: &str, value: f64, ended: i64) {
        if self.share.is_none() {
            return;
        }
        let mut known: Vec<&str> = self.open.iter().map(|(group, _)| group.as_str()).collect();
        known.sort_unstable();
        known.dedup();
        let enough = if plan.metric == "counterfactual-fairness" { 1 } else { 2 };
        if guarantee.span.is_some_and(|span| ended - self.began > span) && known.len() >= enough {
            self.close(plan, guarantee);
        }
        if self.open.is_empty() {
            self.began = ended;
        }
        self.open.push((group.to_owned(), value));
        if self.open.len() as u64 == guarantee.block {
            self.close(plan, guarantee);
        }
    }

    fn close(&mut self, plan: &Plan, guarantee: DrawnGuarantee) {
        let mut cut = Cut { values: self.open.clone(), ..Cut::default() };
        for (group, value) in self.open.drain(..) {
            let counts = cut.groups.entry(group).or_default();
            *counts = (counts.0 + 1.0, counts.1 + value);
        }
        let so_far = |group: &str| -> f64 {
            let cuts = self.cuts.iter().chain([&cut]);
            cuts.filter_map(|cut| cut.groups.get(group)).map(|(trials, _)| trials).sum()
        };
        let least = plan.min_trials.max(1) as f64;
        let has_reference = reference(plan).is_none_or(|group| so_far(&group) >= least);
        let is_compared = |group: &&String| has_reference && so_far(group) >= least;
        cut.compared = cut.groups.keys().filter(is_compared).cloned().collect();
        let number = self.cuts.len() as u64;
        let begins_step = !(guarantee.is_detector() && guarantee.in_checks(plan) && self.is_new);
        if begins_step {
            self.steps += 1;
            let step = self.steps;
            let begins = match guarantee.is_detector() {
                true => true,
                false => number == 0 || number.is_multiple_of(5) && (number / 5).count_ones() == 1,
            };
            if guarantee.is_detector() {
                // Eight times the largest power of two that divides the first step.
                self.learners
                    .retain(|learner| step - learner.step < 8 * (learner.step & learner.step.wrapping_neg()));
            }
            if begins {
                self.learners.push(Learner {
                    step,
                    first: self.cuts.len(),
                    logs: vec![0.0; beliefs(plan, guarantee).len()],
                });
            }
        }
        self.is_new = true;
        let memory = guarantee.memory().map(|memory| memory as f64);
        for learner in &mut self.learners {
            for (log, belief) in learner.logs.iter_mut().zip(beliefs(plan, guarantee)) {
                if *belief == Belief::Pairs {
                    *log = of_pairs(plan, &self.cuts, &self.cuts[learner.first..], &cut);
                    continue;
                }
                let all = estimates(plan, *belief, &self.cuts[learner.first..], &self.cuts, &cut, memory);
                *log += bet(plan, &cut, &all);
            }
        }
        self.cuts.push(cut);
        let each = beliefs(plan, guarantee).len() as f64;
        let mut e_value = 0.0;
        // Largest logarithm, taken out of the sum so that nothing overflows.
        let most = self.learners.iter().flat_map(|learner| &learner.logs).copied().fold(0.0, f64::max);
        let mut rest = if guarantee.is_detector() { 0.0 } else { 1.0 };
        for (index, learner) in self.learners.iter().enumerate() {
            let weight = match (guarantee.is_detector(), index) {
                (true, _) => 1.0,
                (false, 0) => 0.75,
                (false, index) => 0.25 / (index * (index + 1)) as f64,
            };
            rest -= if guarantee.is_detector() { 0.0 } else { weight };
            e_value += learner.logs.iter().map(|log| weight / each * (log - most).exp()).sum::<f64>();
        }
        self.log = if most.is_infinite() { most } else { (e_value + rest * (-most).exp()).ln() + most };
    }

    /// Whether a check raises the alarm of a detector.
    fn is_detected(&self, plan: &Plan, guarantee: DrawnGuarantee, closest: &mut f64) -> bool {
        let Some(share) = self.share.filter(|_| self.is_new) else { return false };
        // A detector that counts trials need not share.
        let threshold = match guarantee.in_checks(plan) {
            true => guarantee.promise / share,
            false => guarantee.promise / guarantee.block as f64,
        };
        *closest = closest.min((self.log - threshold.ln()).abs());
        let has_won = self.learners.iter().flat_map(|learner| &learner.logs).any(|log| *log > 1e-9);
        has_won && self.log > threshold.ln() + 1e-9
    }
}

/// The logarithm of the factor of a block.
fn bet(plan: &Plan, cut: &Cut, all: &[f64]) -> f64 {
    let chosen: Vec<(f64, Counts, &String)> = cut
        .groups
        .iter()
        .zip(all)
        .filter(|((group, _), _)| cut.compared.contains(group))
        .map(|((group, counts), belief)| (*belief, *counts, group))
        .collect();
    let beliefs: Vec<f64> = chosen.iter().map(|(belief, ..)| *belief).collect();
    let trials: Vec<f64> = chosen.iter().map(|(_, counts, _)| counts.0).collect();
    let fair = match reference(plan) {
        None => nearest(plan, &beliefs, &trials),
        Some(reference) => {
            let own = chosen.iter().position(|(.., group)| **group == reference);
            nearest_beside(plan, own, &beliefs, &trials)
        }
    };
    chosen.iter().zip(fair).map(|((belief, counts, _), fair)| ratio(*counts, *belief, fair)).sum()
}

/// The logarithm of the average over all bets on differences of numbers, in the blocks that a learner has seen and the
/// next one. Groups arrive in the order of all blocks.
fn of_pairs(plan: &Plan, all: &[Cut], seen: &[Cut], next: &Cut) -> f64 {
    let mut arrived: Vec<&String> = Vec::new();
    for (group, _) in all.iter().chain([next]).flat_map(|cut| &cut.values) {
        if !arrived.contains(&group) {
            arrived.push(group);
        }
    }
    let bound = tolerance(plan);
    let (mut e_value, mut places, mut place) = (0.0, Vec::new(), 0);
    for more in 1..arrived.len() {
        for less in 0..more {
            let pair = [arrived[more], arrived[less]];
            let mut is_met = false;
            let mut products = [[1.0_f64; 6]; 2];
            for cut in seen.iter().chain([next]) {
                let of = |group: &String| -> Vec<f64> {
                    cut.values.iter().filter(|(known, _)| known == group).map(|(_, value)| *value).collect()
                };
                let (ones, others) = (of(pair[0]), of(pair[1]));
                let is_compared = pair.iter().all(|group| cut.compared.contains(group))
                    && reference(plan).is_none_or(|group| pair.contains(&&group));
                if !is_compared || ones.is_empty() || others.is_empty() {
                    continue;
                }
                is_met = true;
                for (one, other) in ones.iter().zip(&others) {
                    for (side, gain) in [one - other - bound, other - one - bound].into_iter().enumerate() {
                        for (halved, product) in products[side].iter_mut().enumerate() {
                            *product *= 1.0 + 0.95 * gain / ((1.0 + bound) * f64::from(1_u8 << halved));
                        }
                    }
                }
            }
            let weight = if place == 0 { 0.75 } else { 0.25 / (place * (place + 1)) as f64 };
            places.push((is_met, weight, products.iter().flatten().sum::<f64>() / 12.0));
            place += 1;
        }
    }
    // Pairs after the last one that has met keep what is left.
    let last = places.iter().rposition(|(is_met, ..)| *is_met).map_or(0, |last| last + 1);
    e_value += places[..last].iter().map(|(_, weight, product)| weight * product).sum::<f64>();
    e_value += if last == 0 { 1.0 } else { 0.25 / last as f64 };
    e_value.ln()
}

fn beliefs(plan: &Plan, guarantee: DrawnGuarantee) -> &'static [Belief] {
    match plan.metric {
        _ if plan.range.is_some() => &[Belief::Pairs],
        "counterfactual-fairness" => &[Belief::TowardsBound],
        _ if guarantee.is_detector() => &[Belief::Own, Belief::TowardsAll],
        _ => &[Belief::Own, Belief::TowardsAll, Belief::WithinBlocks],
    }
}
