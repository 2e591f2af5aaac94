//! A bettor of the recomputation: estimates from the blocks that it has seen, the closest fair rates, and factors.

use std::collections::BTreeMap;

use fairstream_core::Time;

use super::recompute::GroupStep;
use crate::{Comparison, Rule};

/// A way of estimating the rate of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// (positives + 1) / (trials + 2).
    Own,
    /// (positives + 20 p) / (trials + 20), with p the rate of all groups.
    TowardsAll,
    /// The recent rate of all groups, plus the group's mean deviation within blocks.
    WithinBlocks,
    /// (positives + 5 ε) / (trials + 5).
    TowardsBound,
    /// No estimate: differences between pairs of trials.
    Pairs,
}

/// Trials of a group in a block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    pub(super) trials: f64,
    pub(super) positives: f64,
}

/// A block of trials.
#[derive(Clone, Debug, Default)]
pub(super) struct Block<'a> {
    pub(super) number: u64,
    /// When its last trial was counted.
    pub(super) time: Time,
    pub(super) groups: Vec<(&'a str, Share)>,
    /// Group, its number in order of arrival, and value of each trial, in their order.
    pub(super) values: Vec<(&'a str, usize, f64)>,
    /// Groups with too few trials to be compared.
    pub(super) left_out: Vec<&'a str>,
}

impl Block<'_> {
    fn whole(&self) -> Share {
        self.groups.iter().fold(Share::default(), |sum, (_, share)| Share {
            trials: sum.trials + share.trials,
            positives: sum.positives + share.positives,
        })
    }
}

/// The rate of all groups in about the last hundred trials.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recent {
    trials: f64,
    positives: f64,
    all: Share,
}

impl Recent {
    pub(super) fn learn(&mut self, block: &Block<'_>) {
        let Share { trials, positives } = block.whole();
        let kept = 100.0 / (100.0 + trials);
        self.trials = self.trials * kept + trials;
        self.positives = self.positives * kept + positives;
        self.all.trials += trials;
        self.all.positives += positives;
    }

    fn rate(&self) -> f64 {
        let in_all = (1.0 + self.all.positives) / (2.0 + self.all.trials);
        (self.positives + 2.0 * in_all) / (self.trials + 2.0)
    }
}

/// What a bettor knows of a group.
#[derive(Clone, Debug, Default)]
struct GroupRecord {
    /// Discounted, if old trials are.
    trials: f64,
    positives: f64,
    /// Not discounted.
    counted: Share,
    weighted_deviation: f64,
    weight: f64,
    /// Its part of the log e-value by way and side, too high and too low.
    parts: BTreeMap<Way, [Option<f64>; 2]>,
}

/// Bets from one block on.
#[derive(Clone, Debug)]
pub(super) struct Bettor<'a> {
    pub(super) step: u64,
    pub(super) first_block: u64,
    pub(super) blocks: u64,
    known: BTreeMap<&'a str, GroupRecord>,
    trials: f64,
    positives: f64,
    logs: BTreeMap<Way, f64>,
    /// For each order of two groups that have met in a block, the first above the second: the place of the pair by the
    /// order of arrival, and the logarithm for each stake.
    pairs: BTreeMap<(&'a str, &'a str), (usize, [f64; 6])>,
}

impl<'a> Bettor<'a> {
    pub(super) fn new(step: u64, first_block: u64) -> Bettor<'a> {
        let (known, logs, pairs) = Default::default();
        Bettor { step, first_block, blocks: 0, known, trials: 0.0, positives: 0.0, logs, pairs }
    }

    pub(super) fn log_evidence(&self, way: Way) -> f64 {
        self.logs.get(&way).copied().unwrap_or_default()
    }

    /// Its trials of a group, and how many of them are positive.
    pub(super) fn counted(&self, group: &str) -> (f64, f64) {
        self.known.get(group).map_or((0.0, 0.0), |known| (known.counted.trials, known.counted.positives))
    }

    /// The parts of the groups in the log e-value of a way.
    pub(super) fn shares(&self, way: Way) -> impl Iterator<Item = (&'a str, [Option<f64>; 2])> + '_ {
        self.known.iter().filter_map(move |(group, known)| Some((*group, *known.parts.get(&way)?)))
    }

    /// The estimate of each group of a block.
    fn estimates(&self, rule: &Rule, way: Way, block: &Block<'a>, recent: &Recent) -> Vec<f64> {
        let known = |group: &str| self.known.get(group).cloned().unwrap_or_default();
        let of_all = (self.positives + 1.0) / (self.trials + 2.0);
        let deviation = |group: &str| {
            let GroupRecord { weighted_deviation, weight, .. } = known(group);
            weighted_deviation / (weight + 20.0)
        };
        let whole = block.whole();
        let mean: f64 =
            block.groups.iter().map(|(group, share)| share.trials / whole.trials * deviation(group)).sum();
        let estimate = |(group, _): &(&'a str, Share)| {
            let GroupRecord { trials, positives, .. } = known(group);
            match way {
                Way::Pairs => f64::NAN,
                Way::Own => (positives + 1.0) / (trials + 2.0),
                Way::TowardsAll => (positives + 20.0 * of_all) / (trials + 20.0),
                Way::TowardsBound => (positives + 5.0 * rule.tolerance) / (trials + 5.0),
                Way::WithinBlocks => {
                    let least = 1.0 / (2.0 * (self.trials + 5.0));
                    (recent.rate() + deviation(group) - mean).max(least).min(1.0 - least)
                }
            }
        };
        block.groups.iter().map(estimate).collect()
    }

    /// Bets on a block, and returns the bet on each of its groups.
    pub(super) fn bet(
        &mut self,
        rule: &Rule,
        way: Way,
        block: &Block<'a>,
        recent: &Recent,
    ) -> Vec<GroupStep> {
        let estimates = self.estimates(rule, way, block, recent);
        if way == Way::Pairs {
            self.bet_on_pairs(rule, block);
        }
        let mut steps: Vec<GroupStep> = block
            .groups
            .iter()
            .zip(&estimates)
            .map(|((group, share), estimate)| GroupStep {
                group: (*group).to_owned(),
                trials: share.trials,
                positives: share.positives,
                estimate: *estimate,
                fair: *estimate,
            })
            .collect();
        if way == Way::Pairs {
            return steps;
        }
        let is_compared = |step: &GroupStep| !block.left_out.contains(&step.group.as_str());
        let compared: Vec<usize> = (0..steps.len()).filter(|index| is_compared(&steps[*index])).collect();
        match &rule.reference {
            None => project(rule, &mut steps, &compared),
            Some(reference) => project_around(rule, reference, &mut steps, &compared),
        }
        for ((group, _), step) in block.groups.iter().zip(&steps) {
            if step.estimate == step.fair {
                continue;
            }
            let log = step.log_factor();
            *self.logs.entry(way).or_default() += log;
            let sides = self.known.entry(group).or_default().parts.entry(way).or_default();
            let side = &mut sides[usize::from(step.estimate < step.fair)];
            *side = Some(side.unwrap_or_default() + log);
        }
        steps
    }

    /// Bets on differences between trials of two groups: the first of the block with the first, and so on.
    fn bet_on_pairs(&mut self, rule: &Rule, block: &Block<'a>) {
        let bound = tolerance(rule);
        let compared = |group: &str| !block.left_out.contains(&group);
        for (high, _) in &block.groups {
            for (low, _) in block.groups.iter().filter(|(low, _)| low != high) {
                let with_reference =
                    rule.reference.as_ref().is_none_or(|group| group == high || group == low);
                if !compared(high) || !compared(low) || !with_reference {
                    continue;
                }
                let of = |group: &'a str| block.values.iter().filter(move |(known, ..)| *known == group);
                let number = |group| of(group).map(|(_, number, _)| *number).next().unwrap_or_default();
                let (more, less) = (number(high).max(number(low)), number(high).min(number(low)));
                let place = more * (more - 1) / 2 + less;
                let (_, logs) = self.pairs.entry((high, low)).or_insert((place, [0.0; 6]));
                for ((_, _, one), (_, _, other)) in of(high).zip(of(low)) {
                    for (halved, log) in logs.iter_mut().enumerate() {
                        let stake = 0.95 / (1.0 + bound) / f64::from(1 << halved);
                        *log += (1.0 + stake * (one - other - bound)).ln();
                    }
                }
            }
        }
        let seen = self.pairs.values().map(|(place, _)| place + 1).max().unwrap_or(0);
        let mut terms = vec![if seen == 0 { 0.0 } else { (0.25 / seen as f64).ln() }];
        for place in 0..seen {
            let weight = if place == 0 { 0.75 } else { 0.25 / (place * (place + 1)) as f64 };
            let found: Vec<f64> =
                self.pairs.values().filter(|(at, _)| *at == place).map(|(_, logs)| mean_of(logs)).collect();
            // A pair that has not met keeps its stake.
            terms.extend(found.iter().map(|log| (weight / 2.0).ln() + log));
            terms.extend((found.len()..2).map(|_| (weight / 2.0_f64).ln()));
        }
        let most = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let log = most + terms.iter().map(|term| (term - most).exp()).sum::<f64>().ln();
        self.logs.insert(Way::Pairs, log);
    }

    /// The orders of two groups that bets on differences were made on, each with the logarithm of its e-value.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&'a str, &'a str, f64)> + '_ {
        self.pairs.iter().map(|((high, low), (_, logs))| (*high, *low, mean_of(logs)))
    }

    /// The logarithms of the factors against "the first group is above the second by the tolerance or more", and against
    /// the same with the groups exchanged; with one group, against "its rate is the bound or more". `None` if a group has
    /// no trial in the block.
    pub(super) fn against_orders(
        &self,
        rule: &Rule,
        block: &Block<'a>,
        recent: &Recent,
        high: &str,
        low: Option<&str>,
    ) -> Option<[f64; 2]> {
        let find = |group: &str| block.groups.iter().position(|(known, _)| *known == group);
        let step = |index: usize, estimate: f64, fair: f64| {
            let Share { trials, positives } = block.groups[index].1;
            GroupStep { group: String::new(), trials, positives, estimate, fair }.log_factor()
        };
        let high = find(high)?;
        let Some(low) = low else {
            let estimate = self.estimates(rule, Way::Own, block, recent)[high];
            let factor = if estimate < rule.tolerance { step(high, estimate, rule.tolerance) } else { 0.0 };
            return Some([factor; 2]);
        };
        let low = find(low)?;
        let estimates = self.estimates(rule, Way::WithinBlocks, block, recent);
        let against = |above: usize, below: usize| {
            let of = |index: usize| (estimates[index], block.groups[index].1.trials);
            apart(rule, of(above), of(below)).map_or(0.0, |(upper, lower)| {
                step(above, estimates[above], upper) + step(below, estimates[below], lower)
            })
        };
        Some([against(high, low), against(low, high)])
    }

    /// Learns from a block.
    pub(super) fn learn(&mut self, block: &Block<'a>, memory: Option<f64>) {
        let whole = block.whole();
        let kept = memory.map_or(1.0, |memory| memory / (memory + whole.trials));
        self.trials = self.trials * kept + whole.trials;
        self.positives = self.positives * kept + whole.positives;
        for known in self.known.values_mut() {
            for number in
                [&mut known.trials, &mut known.positives, &mut known.weighted_deviation, &mut known.weight]
            {
                *number *= kept;
            }
        }
        for (group, share) in &block.groups {
            let known = self.known.entry(group).or_default();
            known.trials += share.trials;
            known.positives += share.positives;
            known.counted.trials += share.trials;
            known.counted.positives += share.positives;
            let weight = share.trials * (whole.trials - share.trials) / whole.trials;
            known.weight += weight;
            known.weighted_deviation +=
                weight * (share.positives / share.trials - whole.positives / whole.trials);
        }
        self.blocks += 1;
    }
}

impl GroupStep {
    pub(super) fn log_factor(&self) -> f64 {
        let mut log = 0.0;
        if self.estimate != self.fair {
            if self.positives > 0.0 {
                log += self.positives * (self.estimate.ln() - self.fair.ln());
            }
            let rest = self.trials - self.positives;
            if rest > 0.0 {
                log += rest * ((1.0 - self.estimate).ln() - (1.0 - self.fair).ln());
            }
        }
        log
    }
}

/// The logarithm of the mean of e-values.
fn mean_of(logs: &[f64]) -> f64 {
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most + (logs.iter().map(|log| (log - most).exp()).sum::<f64>() / logs.len() as f64).ln()
}

/// The width of the tolerance in rates between 0 and 1.
fn tolerance(rule: &Rule) -> f64 {
    rule.tolerance / rule.range.map_or(1.0, |(low, high)| high - low)
}

/// The derivative of trials · KL(estimate ‖ end) by the end, with the opposite sign.
fn pull(end: f64, estimate: f64, trials: f64) -> f64 {
    trials * (estimate - end) / (end * (1.0 - end))
}

/// Where a decreasing function changes its sign, by bisection.
fn zero(from: f64, to: f64, function: impl Fn(f64) -> f64) -> f64 {
    let (mut from, mut to) = (from, to);
    for _ in 0..200 {
        let middle = (from + to) / 2.0;
        if function(middle) > 0.0 {
            from = middle;
        } else {
            to = middle;
        }
    }
    (from + to) / 2.0
}

/// Projects the estimates of the compared groups onto the fair set: finds the window at which the derivatives of the
/// divergence at its lower and its upper end cancel.
fn project(rule: &Rule, groups: &mut [GroupStep], compared: &[usize]) {
    let upper = |lower: f64| match rule.comparison {
        Comparison::Difference => lower + tolerance(rule),
        Comparison::Ratio => lower / rule.tolerance,
        Comparison::Highest => rule.tolerance,
    };
    let estimates = || compared.iter().map(|index| groups[*index].estimate);
    let (least, most) = (estimates().fold(1.0, f64::min), estimates().fold(0.0, f64::max));
    let lower = match rule.comparison {
        Comparison::Highest => 0.0,
        Comparison::Ratio if rule.tolerance == 0.0 => return,
        _ if most <= upper(least) => return,
        _ => {
            let stretch = if rule.comparison == Comparison::Ratio { 1.0 / rule.tolerance } else { 1.0 };
            let balance = |lower: f64| -> f64 {
                let upper = upper(lower);
                let of = |index: &usize| {
                    let GroupStep { estimate, trials, .. } = groups[*index];
                    match estimate {
                        estimate if estimate > upper => stretch * pull(upper, estimate, trials),
                        estimate if estimate < lower => pull(lower, estimate, trials),
                        _ => 0.0,
                    }
                };
                compared.iter().map(of).sum()
            };
            zero(least, most, balance)
        }
    };
    for index in compared {
        groups[*index].fair = groups[*index].estimate.clamp(lower, upper(lower).max(lower));
    }
}

/// Projects the estimates of the compared groups onto the fair set beside a reference group. The rate of the reference is
/// the one with the least divergence, by ternary search: the divergence is convex in it.
fn project_around(rule: &Rule, reference: &str, groups: &mut [GroupStep], compared: &[usize]) {
    let ends = |rate: f64| match rule.comparison {
        Comparison::Difference => (rate - tolerance(rule), rate + tolerance(rule)),
        Comparison::Ratio => (rate * rule.tolerance, rate / rule.tolerance),
        Comparison::Highest => (0.0, 1.0),
    };
    if rule.comparison == Comparison::Ratio && rule.tolerance == 0.0 {
        return;
    }
    let of = |index: usize| &groups[index];
    let fair = |group: &GroupStep, rate: f64| {
        let (lower, upper) = ends(rate);
        if group.group == reference { rate } else { group.estimate.clamp(lower, upper.max(lower)) }
    };
    // By what the divergence of a group changes if the rate of the reference grows, but for a positive factor.
    let pull = |group: &GroupStep, rate: f64| {
        let end = fair(group, rate);
        let moves = match rule.comparison {
            Comparison::Ratio if group.group != reference => end / rate,
            _ => 1.0,
        };
        let is_moved = end != group.estimate;
        if is_moved { group.trials * moves * (end - group.estimate) / (end * (1.0 - end)) } else { 0.0 }
    };
    let is_too_high = |rate: f64| compared.iter().map(|index| pull(of(*index), rate)).sum::<f64>() > 0.0;
    let estimates = || compared.iter().map(|index| of(*index).estimate);
    let (least, most) = (estimates().fold(1.0, f64::min), estimates().fold(0.0, f64::max));
    // A rate at which nothing has to change, if there is one: that of the reference, or else the middle of the others.
    let own = compared.iter().map(|index| of(*index)).find(|group| group.group == reference);
    let middle = match rule.comparison {
        Comparison::Ratio => (least * most).sqrt(),
        _ => (least + most) / 2.0,
    };
    let is_fair = |rate: f64| {
        let (lower, upper) = ends(rate);
        lower <= least && most <= upper
    };
    if compared.is_empty() || is_fair(own.map_or(middle, |own| own.estimate)) {
        return;
    }
    let (mut from, mut to) = (least, most);
    for _ in 0..200 {
        let third = (to - from) / 3.0;
        let (one, two) = (from + third, to - third);
        (from, to) = if is_too_high(one) {
            (from, one)
        } else if is_too_high(two) {
            (one, two)
        } else {
            (two, to)
        };
    }
    let rate = (from + to) / 2.0;
    let fair: Vec<f64> = compared.iter().map(|index| fair(of(*index), rate)).collect();
    for (index, fair) in compared.iter().zip(fair) {
        groups[*index].fair = fair;
    }
}

/// The rates closest to two estimates, each with its trials, of which the first is above the second by the tolerance or
/// more; `None` if the estimates are.
fn apart(rule: &Rule, above: (f64, f64), below: (f64, f64)) -> Option<(f64, f64)> {
    let upper = |lower: f64| match rule.comparison {
        Comparison::Ratio => lower / rule.tolerance,
        _ => lower + tolerance(rule),
    };
    let last = match rule.comparison {
        Comparison::Ratio => rule.tolerance,
        _ => 1.0 - tolerance(rule),
    };
    if last <= 0.0 || above.0 >= upper(below.0) {
        return None;
    }
    let stretch = if rule.comparison == Comparison::Ratio { 1.0 / rule.tolerance } else { 1.0 };
    let balance = |lower: f64| pull(lower, below.0, below.1) + stretch * pull(upper(lower), above.0, above.1);
    let lower = zero(0.0, last, balance);
    Some((upper(lower), lower))
}
