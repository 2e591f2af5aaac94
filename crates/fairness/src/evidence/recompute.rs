//! Recomputes e-values block by block: a second implementation of what `fairstream-guarantee` does, written
//! independently of it.

use std::collections::BTreeMap;

use fairstream_core::Time;

use super::replay::{RateRule, RecomputedAlarm, StratumEvidence};
use crate::judge::words;
use crate::{AlarmBasis, AlarmedGroup, Comparison, Promise, Rule, compare_values};

/// Margin by which logarithms must differ, so that rounding does not decide.
const ROUNDING: f64 = 1e-9;

/// The factor of one block, recomputed.
#[derive(Clone, Debug)]
pub(super) struct BlockStep {
    pub(super) number: u64,
    pub(super) time: Time,
    pub(super) groups: Vec<GroupStep>,
    /// Logarithm of the factor of this block.
    pub(super) log_factor: f64,
    /// Logarithm of the e-value after this block.
    pub(super) log_evidence: f64,
}

#[derive(Clone, Debug)]
pub(super) struct GroupStep {
    pub(super) group: String,
    pub(super) trials: f64,
    /// Number of positive trials, or the rescaled sum of their values; between 0 and `trials`.
    pub(super) positives: f64,
    pub(super) estimate: f64,
    pub(super) fair: f64,
}

/// The part of the log e-value that is due to the bets on one group, by their direction.
#[derive(Clone, Copy, Debug, Default)]
struct Credit {
    high: Option<f64>,
    low: Option<f64>,
}

/// A group that an alarm is about, and the logarithm of the factor by which it contributed to the e-value.
#[derive(Clone, Debug)]
pub(super) struct NamedGroup {
    pub(super) values: String,
    pub(super) is_high: bool,
    pub(super) log_factor: f64,
}

impl StratumEvidence {
    /// Recomputes the e-values block by block, and returns the alarms.
    pub(super) fn by_guarantee(&self, rate_rule: &RateRule, name: &str, rank: usize) -> Vec<RecomputedAlarm> {
        let (rule, mut alarms, mut stands) = (&rate_rule.rule, Vec::new(), false);
        let Some(threshold) = needed(rule, rank) else { return alarms };
        let mut log_evidence: f64 = 0.0;
        let mut steps: Vec<BlockStep> = Vec::new();
        let mut known: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        let mut counted: BTreeMap<&str, f64> = BTreeMap::new();
        // Since the e-value was last 1, or from the beginning.
        let mut credits: BTreeMap<&str, Credit> = BTreeMap::new();
        let mut of_late: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        let mut run = 0;
        for block in self.blocks(rule.guarantee.map_or(1, |guarantee| guarantee.block)) {
            for (group, (trials, _)) in &block.groups {
                *counted.entry(group).or_default() += trials;
            }
            let is_small = |group: &str| counted.get(group).is_some_and(|all| *all < rule.min_trials as f64);
            let mut groups: Vec<GroupStep> = Vec::new();
            for (group, (trials, sum)) in &block.groups {
                let (before, positives) = known.get(group).copied().unwrap_or_default();
                let estimate = (positives + 1.0) / (before + 2.0);
                let positives = match rule.range {
                    Some((low, high)) => ((sum - low * trials) / (high - low)).clamp(0.0, *trials),
                    None => *sum,
                };
                let group = (*group).to_owned();
                groups.push(GroupStep { group, trials: *trials, positives, estimate, fair: estimate });
            }
            groups.sort_by(|one, other| compare_values(&one.group, &other.group));
            let mut compared: Vec<usize> =
                (0..groups.len()).filter(|index| !is_small(&groups[*index].group)).collect();
            match &rule.reference {
                None => project(rule, &mut groups, &compared),
                Some(reference) => {
                    let trials = counted.get(reference.as_str()).copied().unwrap_or_default();
                    if trials < rule.min_trials.max(1) as f64 {
                        // There is nothing yet that others could be compared with.
                        compared.clear();
                    }
                    project_around(rule, reference, &mut groups, &compared);
                }
            }
            let log_factor: f64 = compared.iter().map(|index| groups[*index].log_factor()).sum();
            let (floor, kept) = match rule.guarantee.map(|guarantee| guarantee.promise) {
                Some(Promise::Every { memory, .. }) => {
                    let trials: f64 = groups.iter().map(|group| group.trials).sum();
                    (0.0, memory as f64 / (memory as f64 + trials))
                }
                _ => (f64::NEG_INFINITY, 1.0),
            };
            if log_evidence <= floor + ROUNDING {
                (log_evidence, run) = (log_evidence.max(floor), 0);
                credits.clear();
                of_late.clear();
            }
            log_evidence += log_factor;
            run += 1;
            for of_group in known.values_mut() {
                *of_group = (of_group.0 * kept, of_group.1 * kept);
            }
            for step in &groups {
                let Some((group, (trials, sum))) = block.groups.get_key_value(step.group.as_str()) else {
                    continue;
                };
                let late = of_late.entry(group).or_default();
                *late = (late.0 + trials, late.1 + sum);
                let of_group = known.entry(group).or_default();
                *of_group = (of_group.0 + step.trials, of_group.1 + step.positives);
                if step.estimate != step.fair {
                    let credit = credits.entry(group).or_default();
                    let of_side = if step.fair < step.estimate { &mut credit.high } else { &mut credit.low };
                    *of_side = Some(of_side.unwrap_or_default() + step.log_factor());
                }
            }
            steps.push(BlockStep {
                number: block.number,
                time: block.time,
                groups,
                log_factor,
                log_evidence,
            });
            let log_threshold = threshold.ln();
            if !stands && log_evidence > log_threshold + ROUNDING {
                stands = true;
                let forgets = floor == 0.0;
                let groups = self.counted(block.check);
                let named = most_credited(rule, &credits);
                let counts = |named: &NamedGroup| {
                    let (trials, sum) = match forgets {
                        true => of_late.get(named.values.as_str()).copied().unwrap_or_default(),
                        false => groups
                            .iter()
                            .find(|(group, _)| group.0 == named.values)
                            .map_or((0.0, 0.0), |(_, counts)| (counts.denominator as f64, counts.numerator)),
                    };
                    let share = (trials > 0.0).then(|| sum / trials);
                    AlarmedGroup {
                        values: named.values.clone(),
                        numerator: sum,
                        denominator: trials as u64,
                        share,
                    }
                };
                let mut alarmed: Vec<AlarmedGroup> = named.iter().map(counts).collect();
                let gap = distance(rule, &mut alarmed);
                let basis = AlarmBasis {
                    since: block.time,
                    message: String::new(),
                    groups: alarmed,
                    blocks: forgets.then_some(run),
                    gap,
                    tolerance: rule.tolerance,
                    log_e_value: Some(log_evidence),
                    log_threshold: Some(log_threshold),
                    log_p_value: None,
                };
                let message = words::raised_by_evidence(rule, &rule.rates[rate_rule.rate], name, &basis);
                let blocks = steps.clone();
                alarms.push(RecomputedAlarm {
                    time: block.time,
                    message,
                    groups,
                    blocks,
                    named,
                    log_threshold,
                    check: block.check,
                    first_block: Some(if forgets { block.number + 1 - run } else { 1 }),
                });
            } else if stands && floor == 0.0 && is_fair_of_late(rule, &known, &counted) {
                (stands, log_evidence) = (false, 0.0);
            }
        }
        alarms
    }

    /// Closed blocks: those with enough trials.
    fn blocks(&self, least: u64) -> Vec<BlockCounts<'_>> {
        let mut blocks: Vec<BlockCounts<'_>> = Vec::new();
        for row in &self.rows {
            let Some((value, Some(number))) = row.trial else { continue };
            if blocks.last().is_none_or(|last| last.number != number) {
                blocks.push(BlockCounts {
                    number,
                    time: row.time,
                    check: row.check,
                    groups: BTreeMap::new(),
                });
            }
            if let Some(block) = blocks.last_mut() {
                (block.time, block.check) = (row.time, row.check);
                let (trials, sum) = block.groups.entry(&row.group).or_default();
                *trials += 1.0;
                *sum += value;
            }
        }
        // The last block is still open if it has too few trials.
        let trials: f64 =
            blocks.last().iter().flat_map(|last| last.groups.values()).map(|(trials, _)| trials).sum();
        if trials < least as f64 {
            blocks.pop();
        }
        blocks
    }
}

struct BlockCounts<'a> {
    number: u64,
    time: Time,
    check: u64,
    /// Number of trials of each group, and the sum of their values.
    groups: BTreeMap<&'a str, (f64, f64)>,
}

/// The two groups that contributed most together, one whose estimate was too high and one whose was too low; or the one
/// that contributed most, if there is only an upper bound. By comparing all pairs. Of equal sums the first, in the order
/// of groups.
fn most_credited(rule: &Rule, credits: &BTreeMap<&str, Credit>) -> Vec<NamedGroup> {
    let mut sorted: Vec<(&str, Credit)> = credits.iter().map(|(group, credit)| (*group, *credit)).collect();
    sorted.sort_by(|one, other| compare_values(one.0, other.0));
    let named =
        |values: &str, is_high, log_factor| NamedGroup { values: values.to_owned(), is_high, log_factor };
    type GroupCredit<'a> = (&'a str, f64);
    let side = |of: fn(&Credit) -> Option<f64>| -> Vec<GroupCredit<'_>> {
        sorted.iter().filter_map(|(group, credit)| Some((*group, of(credit)?))).collect()
    };
    let (highs, lows) = (side(|of| of.high), side(|of| of.low));
    let is_most = |sum: f64, most: f64| sum == most || sum > most - ROUNDING * most.abs().max(1.0);
    if rule.comparison == Comparison::Highest {
        let most = highs.iter().map(|(_, log)| *log).fold(f64::NEG_INFINITY, f64::max);
        let found = highs.iter().find(|(_, log)| is_most(*log, most));
        return found.map(|(group, log)| named(group, true, *log)).into_iter().collect();
    }
    if let Some(reference) = &rule.reference {
        return most_credited_beside(reference, &sorted);
    }
    let pairs = || {
        let all = highs.iter().flat_map(|high| lows.iter().map(move |low| (high, low)));
        all.filter(|(high, low)| high.0 != low.0)
    };
    let most = pairs().map(|(high, low)| high.1 + low.1).fold(f64::NEG_INFINITY, f64::max);
    let found = pairs().find(|(high, low)| is_most(high.1 + low.1, most));
    found.map_or_else(Vec::new, |(high, low)| vec![named(high.0, true, high.1), named(low.0, false, low.1)])
}

/// The pair of the reference group and another group that contributed most. A reference that was never too high or too
/// low did not contribute.
fn most_credited_beside(reference: &str, sorted: &[(&str, Credit)]) -> Vec<NamedGroup> {
    let own = sorted.iter().find(|(group, _)| *group == reference).map(|(_, credit)| *credit);
    let own = own.unwrap_or_default();
    let mut pairs: Vec<[NamedGroup; 2]> = Vec::new();
    for is_high in [true, false] {
        for (group, credit) in sorted.iter().filter(|(group, _)| *group != reference) {
            let (of_group, of_reference) =
                if is_high { (credit.high, own.low) } else { (credit.low, own.high) };
            let Some(log_factor) = of_group else { continue };
            let other = NamedGroup { values: (*group).to_owned(), is_high, log_factor };
            let log_factor = of_reference.unwrap_or_default();
            let own = NamedGroup { values: reference.to_owned(), is_high: !is_high, log_factor };
            pairs.push(if is_high { [other, own] } else { [own, other] });
        }
    }
    let sum = |pair: &[NamedGroup; 2]| pair.iter().map(|group| group.log_factor).sum::<f64>();
    let most = pairs.iter().map(sum).fold(f64::NEG_INFINITY, f64::max);
    let is_most = |sum: f64| sum == most || sum > most - ROUNDING * most.abs().max(1.0);
    pairs.into_iter().find(|pair| is_most(sum(pair))).map_or_else(Vec::new, Vec::from)
}

/// How far apart the shares are, in the terms of the rule. Puts the higher share first.
fn distance(rule: &Rule, groups: &mut [AlarmedGroup]) -> f64 {
    let shares: Vec<f64> = groups.iter().map(|group| group.share.unwrap_or_default()).collect();
    if let [first, second] = shares.as_slice()
        && first < second
    {
        groups.swap(0, 1);
    }
    let most = shares.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
    match rule.comparison {
        Comparison::Difference if groups.len() > 1 => most - least,
        Comparison::Ratio if groups.len() > 1 && most > 0.0 => least / most,
        Comparison::Ratio => 1.0,
        Comparison::Highest if !groups.is_empty() => most,
        _ => 0.0,
    }
}

/// Whether the discounted estimates of a detector are within the tolerance. Groups with less than one discounted trial
/// are ignored.
fn is_fair_of_late(rule: &Rule, known: &BTreeMap<&str, (f64, f64)>, counted: &BTreeMap<&str, f64>) -> bool {
    let width = rule.range.map_or(1.0, |(low, high)| high - low);
    let is_compared =
        |group: &&str| counted.get(*group).is_some_and(|all| *all >= rule.min_trials.max(1) as f64);
    let rates = known.iter().filter(|(group, (trials, _))| *trials >= 1.0 && is_compared(group));
    let estimates: BTreeMap<&str, f64> =
        rates.map(|(group, (trials, sum))| (*group, (sum + 1.0) / (trials + 2.0))).collect();
    if let Some(reference) = &rule.reference {
        let Some(own) = estimates.get(reference.as_str()) else { return true };
        return estimates.values().all(|rate| match rule.comparison {
            Comparison::Difference => (own - rate).abs() <= rule.tolerance / width,
            Comparison::Ratio => own.min(*rate) >= rule.tolerance * own.max(*rate),
            Comparison::Highest => true,
        });
    }
    let rates: Vec<f64> = estimates.into_values().collect();
    let most = rates.iter().copied().fold(0.0, f64::max);
    let least = rates.iter().copied().fold(1.0, f64::min);
    rates.is_empty()
        || match rule.comparison {
            Comparison::Difference => most - least <= rule.tolerance / width,
            Comparison::Ratio => least >= rule.tolerance * most,
            Comparison::Highest => most <= rule.tolerance,
        }
}

/// The e-value above which a stratum has an alarm.
fn needed(rule: &Rule, rank: usize) -> Option<f64> {
    let guarantee = rule.guarantee?;
    let of_all = match guarantee.promise {
        Promise::Ever(level) => 1.0 / level,
        Promise::Every { blocks, .. } => blocks,
    };
    let of_strata = match guarantee.strata {
        _ if rule.strata.is_empty() => 1.0,
        Some(strata) if rank as u64 >= strata => return None,
        Some(strata) => strata as f64,
        None => (rank as f64 + 1.0) * (rank as f64 + 2.0),
    };
    Some(of_all * of_strata * rule.rates.len() as f64 * rule.comparisons as f64)
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

/// Projects the estimates of the compared groups onto the fair set: finds the window at which the derivatives of the
/// divergence at its lower and its upper end cancel.
fn project(rule: &Rule, groups: &mut [GroupStep], compared: &[usize]) {
    let width = rule.range.map_or(1.0, |(low, high)| high - low);
    let upper = |lower: f64| match rule.comparison {
        Comparison::Difference => lower + rule.tolerance / width,
        Comparison::Ratio => lower / rule.tolerance,
        Comparison::Highest => rule.tolerance,
    };
    let lower = match rule.comparison {
        Comparison::Highest => 0.0,
        Comparison::Ratio if rule.tolerance == 0.0 => return,
        _ => {
            let pull = |end: f64, estimate: f64, trials: f64| trials * (estimate - end) / (end * (1.0 - end));
            let stretch = if rule.comparison == Comparison::Ratio { 1.0 / rule.tolerance } else { 1.0 };
            let is_too_low = |lower: f64| {
                let upper = upper(lower);
                let mut balance = 0.0;
                for group in compared.iter().map(|index| &groups[*index]) {
                    if group.estimate > upper {
                        balance += stretch * pull(upper, group.estimate, group.trials);
                    } else if group.estimate < lower {
                        balance += pull(lower, group.estimate, group.trials);
                    }
                }
                balance > 0.0
            };
            let estimates = || compared.iter().map(|index| groups[*index].estimate);
            let (least, most) = (estimates().fold(1.0, f64::min), estimates().fold(0.0, f64::max));
            if most <= upper(least) {
                return;
            }
            // The lower end of a window that ends at the highest estimate.
            let last = if rule.comparison == Comparison::Ratio {
                most * rule.tolerance
            } else {
                most - rule.tolerance / width
            };
            let mut bounds = (least, last);
            for _ in 0..100 {
                let third = (bounds.1 - bounds.0) / 3.0;
                let (one, two) = (bounds.0 + third, bounds.1 - third);
                bounds = if !is_too_low(one) {
                    (bounds.0, one)
                } else if is_too_low(two) {
                    (two, bounds.1)
                } else {
                    (one, two)
                };
            }
            (bounds.0 + bounds.1) / 2.0
        }
    };
    for index in compared {
        groups[*index].fair = groups[*index].estimate.clamp(lower, upper(lower).max(lower));
    }
}

/// Projects the estimates of the compared groups onto the fair set beside a reference group. The rate of the reference is
/// the one with the least divergence, by ternary search: the divergence is convex in it.
fn project_around(rule: &Rule, reference: &str, groups: &mut [GroupStep], compared: &[usize]) {
    let width = rule.range.map_or(1.0, |(low, high)| high - low);
    let ends = |rate: f64| match rule.comparison {
        Comparison::Difference => (rate - rule.tolerance / width, rate + rule.tolerance / width),
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
